//! Instructions as text: PTX order for NVIDIA, mnemonics of the ISA documents for AMD. [`Instruction::parse`] reads what printing gives.

use super::{Family, Instruction, Modifier, Shape, Types};
use crate::format::Elem;
use std::fmt;

const SCALED: &str = ".block_scale";

impl Instruction {
    /// Reads an instruction; `None` for a form that is not one of these:
    ///
    /// - `mma`: `m16n8k16.f32.bf16.bf16.f32` (D, A, B, C); integers optionally `m16n8k32.satfinite.s32.s8.s8.s32`; one-bit operands
    ///   `m16n8k256.s32.b1.b1.s32.and.popc`;
    /// - `mma.block_scale`: `m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3`, the type of the scales last;
    /// - `wgmma`, `tcgen05.mma`, `tcgen05.mma.block_scale`: the same without the type of C, which is that of D;
    /// - `mfma`: `f32_32x32x8f16`, `f32_32x32x4bf16_1k` and, as CDNA3 writes them, `f32_32x32x4_2b_bf16`, `f32_16x16x32_bf8_fp8`.
    #[must_use]
    pub fn parse(family: &str, text: &str) -> Option<Self> {
        let (name, scaled) = match family.strip_suffix(SCALED) {
            Some(name) => (name, true),
            None => (family, false),
        };
        match (Family::by_name(name)?, scaled) {
            (Family::Mfma, false) => parse_mfma(text),
            (Family::Mfma | Family::Wgmma, true) => None,
            (family, scaled) => parse_ptx(family, text, scaled),
        }
    }
}

fn parse_ptx(family: Family, text: &str, scaled: bool) -> Option<Instruction> {
    let mut parts: Vec<&str> = text.split('.').collect();
    let shape = parse_shape(parts.remove(0))?;
    let mut modifier = Modifier::None;
    if scaled {
        let block = number(parts.first()?.strip_prefix("block")?)?;
        let scale = Elem::by_name(parts.last()?)?;
        modifier = Modifier::BlockScale { block, scale };
        parts.remove(0);
        parts.pop();
    } else if parts.first() == Some(&"satfinite") {
        modifier = Modifier::Satfinite;
        parts.remove(0);
    } else if let [.., operation @ ("xor" | "and"), "popc"] = parts[..] {
        modifier = if operation == "xor" { Modifier::XorPopc } else { Modifier::AndPopc };
        parts.truncate(parts.len() - 2);
    }
    let types: Vec<Elem> = parts.into_iter().map(Elem::by_name).collect::<Option<_>>()?;
    let types = match (family, types[..].as_ref()) {
        (Family::Mma, &[d, a, b, c]) => Types { d, a, b, c },
        (Family::Wgmma | Family::Tcgen05, &[d, a, b]) => Types { d, a, b, c: d },
        _ => return None,
    };
    let satfinite_of_integers = modifier != Modifier::Satfinite || types.a.is_integer();
    let popc_of_bits = matches!(modifier, Modifier::XorPopc | Modifier::AndPopc) == (types.a == Elem::B1);
    (satfinite_of_integers && popc_of_bits).then_some(Instruction { family, shape, types, modifier })
}

fn parse_shape(text: &str) -> Option<Shape> {
    let rest = text.strip_prefix('m')?;
    let (m, rest) = rest.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some(Shape { m: number(m)?, n: number(n)?, k: number(k)? })
}

fn parse_mfma(text: &str) -> Option<Instruction> {
    let (d, rest) = text.split_once('_')?;
    let d = Elem::by_name(d)?;
    let (m, rest) = rest.split_once('x')?;
    let (n, rest) = rest.split_once('x')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (k, rest) = rest.split_at(digits);
    let shape = Shape { m: number(m)?, n: number(n)?, k: number(k)? };
    let instruction =
        |a, b, modifier| Instruction { family: Family::Mfma, shape, types: Types { d, a, b, c: d }, modifier };
    let Some(rest) = rest.strip_prefix('_') else {
        // The spelling of CDNA1 and CDNA2.
        let (name, modifier) = match rest.strip_suffix("_1k") {
            Some(name) => (name, Modifier::OneK),
            None => (rest, Modifier::None),
        };
        let ab = Elem::by_name(name)?;
        let found = instruction(ab, ab, modifier);
        let old = matches!(ab, Elem::F64 | Elem::F32 | Elem::F16 | Elem::Bf16);
        return (old && found.mfma_blocks().is_some()).then_some(found);
    };
    let (blocks, types) = match rest.split_once("b_") {
        Some((blocks, types)) => (number(blocks).filter(|&n| n > 1)?, types),
        None => (1, rest),
    };
    let (a, b) = types.split_once('_').unwrap_or((types, types));
    let (a, b) = (Elem::by_name(a)?, Elem::by_name(b)?);
    let modifier = if a == Elem::Bf16 { Modifier::OneK } else { Modifier::None };
    let found = instruction(a, b, modifier);
    let named_twice = types.contains('_') == matches!(a, Elem::Fp8Fnuz | Elem::Bf8Fnuz);
    (named_twice && found.mfma_blocks() == Some(blocks)).then_some(found)
}

/// A decimal number as mnemonics write it: digits only, no sign, no leading zero.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    if plain { text.parse().ok() } else { None }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}n{}k{}", self.m, self.n, self.k)
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.d, self.a, self.b, self.c)
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, shape, types, modifier } = self;
        if *family == Family::Mfma {
            return self.fmt_mfma(f);
        }
        write!(f, "{}", family.name())?;
        if matches!(modifier, Modifier::BlockScale { .. }) {
            f.write_str(SCALED)?;
        }
        write!(f, " {shape}")?;
        match modifier {
            Modifier::BlockScale { block, .. } => write!(f, ".block{block}")?,
            Modifier::Satfinite => f.write_str(".satfinite")?,
            _ => {}
        }
        write!(f, ".{}.{}.{}", types.d, types.a, types.b)?;
        if *family == Family::Mma {
            write!(f, ".{}", types.c)?;
        }
        match modifier {
            Modifier::BlockScale { scale, .. } => write!(f, ".{scale}"),
            Modifier::XorPopc => f.write_str(".xor.popc"),
            Modifier::AndPopc => f.write_str(".and.popc"),
            Modifier::OneK => f.write_str("_1k"),
            Modifier::None | Modifier::Satfinite => Ok(()),
        }
    }
}

impl Instruction {
    fn fmt_mfma(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shape, types, .. } = self;
        write!(f, "mfma {}_{}x{}x{}", types.d, shape.m, shape.n, shape.k)?;
        match (types.a, self.modifier) {
            (Elem::Xf32, _) => write!(f, "_xf32"),
            (Elem::Fp8Fnuz | Elem::Bf8Fnuz, _) => write!(f, "_{}_{}", types.a, types.b),
            (a, Modifier::OneK) => write!(f, "{a}_1k"),
            (a, _) => write!(f, "{a}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_and_reading_are_inverse() {
        for (family, text) in [
            ("mma", "m16n8k16.f32.bf16.bf16.f32"),
            ("mma", "m8n8k4.f32.f16.f16.f16"),
            ("mma", "m16n8k32.s32.s8.u8.s32"),
            ("mma", "m16n8k64.satfinite.s32.s4.u4.s32"),
            ("mma", "m16n8k256.s32.b1.b1.s32.and.popc"),
            ("mma.block_scale", "m16n8k64.block16.f32.e2m1.e2m1.f32.ue4m3"),
            ("wgmma", "m64n8k32.f16.e4m3.e5m2"),
            ("wgmma", "m64n8k256.s32.b1.b1.and.popc"),
            ("tcgen05.mma", "m64n8k32.f32.e2m1.e3m2"),
            ("tcgen05.mma.block_scale", "m128n8k32.block32.f32.e2m3.e5m2.ue8m0"),
            ("mfma", "f32_32x32x8f16"),
            ("mfma", "f32_32x32x4bf16"),
            ("mfma", "f32_32x32x4bf16_1k"),
            ("mfma", "f64_16x16x4f64"),
            ("mfma", "f32_16x16x8_xf32"),
            ("mfma", "f32_16x16x32_bf8_fp8"),
        ] {
            let instruction = Instruction::parse(family, text).unwrap_or_else(|| panic!("{family} {text}"));
            assert_eq!(instruction.to_string(), format!("{family} {text}"));
        }
    }

    #[test]
    fn both_spellings_of_amd_are_one_instruction() {
        for (new, old) in [
            ("f32_32x32x4_2b_bf16", "f32_32x32x4bf16_1k"),
            ("f32_32x32x8_f16", "f32_32x32x8f16"),
            ("f32_4x4x1_16b_f32", "f32_4x4x1f32"),
            ("f64_4x4x4_4b_f64", "f64_4x4x4f64"),
        ] {
            assert_eq!(Instruction::parse("mfma", new).unwrap(), Instruction::parse("mfma", old).unwrap());
        }
    }

    #[test]
    fn other_forms_are_not_instructions() {
        for (family, text) in [
            ("mma", "m16n8k16.f32.bf16.bf16"),
            ("mma", "m16n8k016.f32.bf16.bf16.f32"),
            ("mma", "m+16n8k16.f32.bf16.bf16.f32"),
            ("mma", "m16n8k16.satfinite.f32.bf16.bf16.f32"),
            ("mma", "m16n8k16.f32.bf16.bf16.f32.and.popc"),
            ("mma", "m16n8k256.s32.b1.b1.s32"),
            ("mma", ""),
            ("mma.block_scale", "m16n8k32.f32.e4m3.e4m3.f32.ue8m0"),
            ("mma.block_scale", "m16n8k32.block32.f32"),
            ("mma.block_scale", "m16n8k32.block32"),
            ("mma.block_scale.block_scale", "m16n8k32.block32.f32.e4m3.e4m3.f32.ue8m0"),
            ("wgmma.block_scale", "m64n8k32.block32.f32.e4m3.e4m3.ue8m0"),
            ("mma.sp", "m16n8k32.f32.f16.f16.f32"),
            ("mfma", "f32_32x32x4_3b_bf16"),
            ("mfma", "f32_32x32x4_1b_xf32"),
            ("mfma", "f32_32x32x8_f16_f16"),
            ("mfma", "f32_16x16x32_fp8"),
            ("mfma", "f32_32x32x8f16_1k"),
            ("mfma", "f32_32x32x4xf32"),
            ("mfma", "f32_0x0x0f32"),
            ("mfma", "f32_4294967295x4x4294967295f32"),
            ("mfma", "f32"),
        ] {
            assert_eq!(Instruction::parse(family, text), None, "{family} {text}");
        }
    }
}
