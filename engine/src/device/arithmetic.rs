//! The arithmetic of a profile in one canonical text.

use emulator::format::Elem;
use emulator::mma::{Conversion, Instruction, M16N8K16, Operation, Types, ZeroPolicy};
use emulator::mufu::MufuTables;
use emulator::profile::Profile;

/// What decides a bit of this engine's kernels on a profile: the one matrix instruction they use, and the special-function tables. Scalar
/// arithmetic is IEEE 754 on all of them. A stable text: records carry its digest.
pub(super) fn arithmetic(profile: &Profile) -> String {
    let instruction = Instruction::mma(M16N8K16, Types::new(Elem::Bf16, Elem::F32));
    let matrix = match profile.mma(&instruction) {
        Ok(Operation::TFdpa(t)) => {
            let conversion = match t.conversion {
                Conversion::Rz32 => "rz-f32",
                Conversion::RzE8m13 => "rz-e8m13",
                Conversion::Rne16 => "rne-f16",
                Conversion::Rne16Signed => "rne-f16-signed",
            };
            let zeros = match t.zeros {
                ZeroPolicy::Exclude => "exclude",
                ZeroPolicy::SentinelMinus126 => "sentinel-126",
            };
            let floor = t.floor.map_or_else(|| "none".to_owned(), |e| e.to_string());
            let (terms, fraction) = (t.max_terms, t.fraction);
            format!("t-fdpa terms={terms} fraction={fraction} conversion={conversion} zeros={zeros} floor={floor}")
        }
        Ok(other) => format!("{other:?}"),
        Err(_) => "none".to_owned(),
    };
    let mufu = MufuTables::g80().to_text("");
    format!("lastbit-arithmetic/1\n{}\n{instruction}: {matrix}\n{mufu}", profile.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arithmetic_names_every_switch() {
        let text = |p: &Profile| arithmetic(p);
        let hopper = Profile::by_name("sm_90").unwrap();
        let line = "mma m16n8k16.f32.bf16.bf16.f32: t-fdpa terms=16 fraction=25 conversion=rz-f32 zeros=exclude";
        assert!(text(hopper).contains(line), "{}", text(hopper));
        let mut all: Vec<String> = Profile::all().iter().map(text).collect();
        all.push(text(&hopper.with_zero_policy(ZeroPolicy::SentinelMinus126)));
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }
}
