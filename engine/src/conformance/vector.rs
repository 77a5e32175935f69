//! Lines of vector files that a device can be asked about: one output element of a dense `mma` each, simulated or recorded.

use emulator::format::Elem;
use emulator::mma::{Family, Instruction, Modifier, Shape, Types};
use serde::Deserialize;

/// A dot product and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector {
    /// `Hopper`.
    pub architecture: String,
    /// The instruction.
    pub instruction: Instruction,
    /// K elements of A, bit patterns.
    pub a: Vec<u64>,
    /// K elements of B.
    pub b: Vec<u64>,
    /// The addend.
    pub c: u64,
    /// The answer with zero terms excluded, which is the default of the profiles.
    pub d: u64,
}

#[derive(Deserialize)]
struct Line {
    arch: String,
    op: Option<String>,
    inst: Option<String>,
    alt: Option<String>,
    path: Option<String>,
    ab: Option<String>,
    cd: Option<String>,
    k: Option<u32>,
    a: String,
    b: String,
    c: String,
    d: String,
}

impl Vector {
    /// Reads a line; `None` for one that is about something else: another family, block scales, or no vector at all.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let line: Line = serde_json::from_str(line).ok()?;
        let instruction = match (&line.op, &line.inst) {
            (Some(op), Some(inst)) => Instruction::parse(op, inst)?,
            _ => {
                let path = line.path.as_deref()?;
                if !matches!(path, "warp-mma" | "mma.sync" | "mma.sync(fp8->f16 rewrite)") {
                    return None;
                }
                let types = Types::new(Elem::by_name(line.ab.as_deref()?)?, Elem::by_name(line.cd.as_deref()?)?);
                let k = line.k?;
                let (m, n) = if types.a == Elem::F64 { (8, 8) } else { (16, 8) };
                Instruction::mma(Shape::new(m, n, k), types)
            }
        };
        let Instruction { family, shape, types, modifier } = instruction;
        if family != Family::Mma || modifier != Modifier::None {
            return None;
        }
        let (a, b) = (elements(&line.a, types.a)?, elements(&line.b, types.b)?);
        let one = |text: &str, elem| elements(text, elem).filter(|e| e.len() == 1).map(|e| e[0]);
        let (c, d) = (one(&line.c, types.c)?, one(line.alt.as_ref().unwrap_or(&line.d), types.d)?);
        let whole = a.len() == shape.k as usize && b.len() == a.len();
        whole.then_some(Self { architecture: line.arch, instruction, a, b, c, d })
    }
}

fn digits(elem: Elem) -> usize {
    elem.format().width.div_ceil(4) as usize
}

fn elements(text: &str, elem: Elem) -> Option<Vec<u64>> {
    let digits = digits(elem);
    if !text.is_ascii() || !text.len().is_multiple_of(digits) {
        return None;
    }
    let at = |i| text.get(i..i + digits).and_then(|e| u64::from_str_radix(e, 16).ok());
    (0..text.len()).step_by(digits).map(at).collect()
}

/// Elements as vector files write them: hex digits, one element after another.
pub(super) fn written(elements: &[u64], elem: Elem) -> String {
    let digits = digits(elem);
    elements.iter().map(|e| format!("{e:0digits$x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_and_recorded_lines_are_read() {
        let simulated = r#"{"arch":"Hopper","op":"mma","inst":"m16n8k4.f32.tf32.tf32.f32",
            "a":"3f800000000000000000000000000000","b":"40000000000000000000000000000000","c":"3f800000","d":"40400000","alt":"40400001"}"#;
        let v = Vector::parse(simulated).unwrap();
        assert_eq!((v.a.len(), v.b[0], v.c, v.d), (4, 0x4000_0000, 0x3f80_0000, 0x4040_0001));
        assert_eq!(written(&v.a, Elem::Tf32), "3f800000000000000000000000000000");
        let recorded = r#"{"gpu":"A100","arch":"Ampere","path":"warp-mma","model":"T-FDPA","ab":"f16","cd":"f16","k":8,
            "a":"3bd53c3eb5343df83bd53c3eb5343df8","b":"38cab93536bf34ec38cab93536bf34ec","c":"3f7f","d":"3f9b"}"#;
        assert_eq!(Vector::parse(recorded).unwrap().instruction.to_string(), "mma m16n8k8.f16.f16.f16.f16");
    }

    #[test]
    fn other_lines_are_not_ours() {
        for line in [
            "",
            "[]",
            r#"{"arch":"Hopper"}"#,
            r#"{"arch":"Hopper","op":"wgmma","inst":"m64n8k8.f32.tf32.tf32","a":"","b":"","c":"","d":""}"#,
            r#"{"arch":"Hopper","op":"mma","inst":"m16n8k4.f32.tf32.tf32.f32","a":"3f80","b":"4","c":"3","d":"4"}"#,
            r#"{"arch":"Hopper","op":"mma","inst":"m16n8k4.f32.tf32.tf32.f32","a":"é","b":"4","c":"3","d":"4"}"#,
        ] {
            assert_eq!(Vector::parse(line), None, "{line}");
        }
    }
}
