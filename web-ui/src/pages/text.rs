//! Small texts of templates.

/// The first digits of a digest, enough to tell it from others on a page.
pub(crate) fn short(digest: &str) -> String {
    digest.trim_start_matches("sha256:").chars().take(12).collect()
}

/// A time as date and minute, UTC (days by Hinnant, "chrono-compatible low-level date algorithms": `civil_from_days`).
pub(crate) fn when(unix_us: &u64) -> String {
    let seconds = unix_us / 1_000_000;
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02} {:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60)
}

/// A number in groups of three.
pub(crate) fn grouped(n: &u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// A size in bytes, for people.
pub(crate) fn bytes(n: &u64) -> String {
    match *n {
        n if n < 1 << 10 => format!("{n} B"),
        n if n < 1 << 20 => format!("{}.{} KiB", n >> 10, ((n & 1023) * 10) >> 10),
        n => format!("{}.{} MiB", n >> 20, ((n >> 10 & 1023) * 10) >> 10),
    }
}

/// What there is, or a dash.
pub(crate) fn or_dash(text: &Option<String>) -> &str {
    text.as_deref().filter(|t| !t.is_empty()).unwrap_or("–")
}

/// A JSON value of the inventory in a line.
pub(crate) fn fact(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => format!("{}", items.len()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_read_well() {
        assert_eq!(when(&951_782_400_000_000), "2000-02-29 00:00");
        assert_eq!(when(&1_796_080_859_000_000), "2026-11-30 23:20");
        assert_eq!(bytes(&1536), "1.5 KiB");
        assert_eq!(grouped(&1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(short("sha256:0123456789abcdef"), "0123456789ab");
    }
}
