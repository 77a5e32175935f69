//! Two bit patterns, taken apart into sign, exponent and fraction, differing bits marked.

use super::svg::escape;
use crate::result::Bits;
use std::fmt::Write as _;

/// Exponent and fraction bits of a format by name.
fn fields(dtype: &str) -> Option<(u32, u32)> {
    match dtype {
        "bf16" => Some((8, 7)),
        "f32" => Some((8, 23)),
        _ => None,
    }
}

/// The value of a pattern, for people: shortest decimal that gives the f32 back.
pub fn value(dtype: &str, bits: u32) -> String {
    let f = match dtype {
        "bf16" => f32::from_bits(bits << 16),
        "f32" => f32::from_bits(bits),
        _ => return String::new(),
    };
    if f != 0.0 && !(1e-4..1e7).contains(&f.abs()) { format!("{f:e}") } else { format!("{f}") }
}

/// A table of both patterns. Unknown formats are shown as hex only; malformed hex as it stands.
pub fn table(bits: &Bits) -> String {
    let parsed = (u32::from_str_radix(&bits.logged, 16), u32::from_str_radix(&bits.replayed, 16));
    let (Some((exponent, fraction)), (Ok(logged), Ok(replayed))) = (fields(&bits.dtype), parsed) else {
        return format!(
            "<p><code>{}</code> logged, <code>{}</code> replayed ({})</p>",
            escape(&bits.logged),
            escape(&bits.replayed),
            escape(&bits.dtype)
        );
    };
    let width = 1 + exponent + fraction;
    let differ = logged ^ replayed;
    let part = |pattern: u32, from: u32, len: u32| {
        let mut out = String::new();
        for i in 0..len {
            // Groups of four, from the left within the field.
            if i > 0 && i % 4 == 0 {
                out.push(' ');
            }
            let at = from - i;
            let digit = if pattern >> at & 1 == 1 { '1' } else { '0' };
            if differ >> at & 1 == 1 {
                let _ = write!(out, "<b>{digit}</b>");
            } else {
                out.push(digit);
            }
        }
        out
    };
    let mut html = String::from(
        r#"<table class="bits"><thead><tr><td></td><th scope="col">hex</th><th scope="col">sign</th><th scope="col">exponent</th><th scope="col">fraction</th><th scope="col">value</th></tr></thead><tbody>"#,
    );
    for (name, pattern) in [("logged", logged), ("replayed", replayed)] {
        let _ = write!(
            html,
            r#"<tr><th scope="row">{name}</th><td>{pattern:0hex$x}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>"#,
            part(pattern, width - 1, 1),
            part(pattern, width - 2, exponent),
            part(pattern, fraction - 1, fraction),
            value(&bits.dtype, pattern),
            hex = width as usize / 4,
        );
    }
    html.push_str("</tbody></table>");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(dtype: &str, logged: &str, replayed: &str) -> Bits {
        Bits { dtype: dtype.into(), logged: logged.into(), replayed: replayed.into() }
    }

    #[test]
    fn fields_are_split_and_differences_marked() {
        let html = table(&bits("bf16", "3f80", "3f81"));
        assert!(html.contains("<td>3f80</td><td>0</td><td>0111 1111</td><td>0000 00<b>0</b></td><td>1</td>"), "{html}");
        assert!(html.contains("<td>0000 00<b>1</b></td><td>1.0078125</td>"), "{html}");
    }

    #[test]
    fn malformed_patterns_are_shown_escaped() {
        assert!(table(&bits("bf16", "<b>", "0000")).contains("&lt;b&gt;"));
        assert!(table(&bits("e4m3", "3f", "3e")).contains("e4m3"));
        assert!(table(&bits("f32", "zz", "zz")).contains("zz"));
    }

    #[test]
    fn values_read_well() {
        assert_eq!(value("f32", 0x3f80_0000), "1");
        assert_eq!(value("bf16", 0x0001), "9.1835e-41");
        assert_eq!(value("f32", 0x7fc0_0000), "NaN");
    }
}
