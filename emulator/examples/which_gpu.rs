//! Which GPU computed this? Names the profiles, and their instructions, whose arithmetic gives a dot product's bits.
//!
//! ```text
//! cargo run -p lastbit-emulator --example which_gpu -- bf16 c600bf00be80be00 44803f803f803f80 4b000000 bf400000
//! ```
//!
//! Arguments: the element type of A and B (`f16`, `bf16`, `tf32`, `e4m3`, ... `fp8`, `s8`), then the bits of A, B, C and D in hex, element 0
//! first. C and D are f32 (f64 for `f64`, s32 for integers), or f16 where four digits are given. Elements are padded with zeros to the K of an
//! instruction; more than K are a chain of instructions.
//!
//! Several profiles may explain one result: equal bits do not prove equal hardware. None means that the bits come from other arithmetic,
//! another order of summation, or a unit that nobody has modelled.

use emulator::format::Elem;
use emulator::mma::{Instruction, Modifier};
use emulator::profile::{Profile, ZeroPolicy};
use std::process::ExitCode;

/// A dot product as somebody reports it: `d` is said to be `c + sum a[k] b[k]`.
struct Observation {
    operands: Elem,
    accumulator: Elem,
    a: Vec<u64>,
    b: Vec<u64>,
    c: u64,
    d: u64,
}

/// A profile, one of its instructions, and the zero policies under which it gives the bits.
struct Explanation {
    profile: &'static str,
    architecture: &'static str,
    instruction: Instruction,
    policies: Vec<ZeroPolicy>,
}

impl Observation {
    fn parse(args: &[String]) -> Result<Self, String> {
        let [elem, a, b, c, d] = args else { return Err("five arguments are needed: TYPE A B C D".to_owned()) };
        let operands = Elem::by_name(elem).ok_or_else(|| {
            format!("`{elem}` is not an element type; known: {}", Elem::ALL.map(Elem::name).join(" "))
        })?;
        let accumulator = match (operands, d.len()) {
            (Elem::F64, _) => Elem::F64,
            (elem, _) if elem.is_integer() => Elem::S32,
            (_, 4) => Elem::F16,
            _ => Elem::F32,
        };
        let (a, b) = (elements(operands, a)?, elements(operands, b)?);
        if a.len() != b.len() || a.is_empty() {
            return Err(format!("A has {} elements, B has {}: they need as many, and at least one", a.len(), b.len()));
        }
        let one = |text: &str| match elements(accumulator, text)?[..] {
            [bits] => Ok(bits),
            _ => Err(format!("`{text}` is not one {accumulator}")),
        };
        Ok(Self { operands, accumulator, a, b, c: one(c)?, d: one(d)? })
    }

    /// Every instruction of every profile that gives `d`.
    fn explanations(&self) -> Vec<Explanation> {
        let mut found = Vec::new();
        for profile in Profile::all() {
            for row in profile.mma {
                for instruction in row.instructions() {
                    let t = instruction.types;
                    let fits = (t.a, t.b, t.c, t.d)
                        == (self.operands, self.operands, self.accumulator, self.accumulator)
                        && !matches!(instruction.modifier, Modifier::BlockScale { .. });
                    if !fits {
                        continue;
                    }
                    let policies: Vec<ZeroPolicy> = [ZeroPolicy::Exclude, ZeroPolicy::SentinelMinus126]
                        .into_iter()
                        .filter(|&policy| self.is_explained_by(&profile.with_zero_policy(policy), &instruction))
                        .collect();
                    if !policies.is_empty() {
                        let (profile, architecture) = (profile.name, profile.architecture);
                        found.push(Explanation { profile, architecture, instruction, policies });
                    }
                }
            }
        }
        found
    }

    fn is_explained_by(&self, profile: &Profile, instruction: &Instruction) -> bool {
        let (Ok(operation), Ok(row)) = (profile.mma(instruction), profile.row(instruction)) else { return false };
        let k = instruction.shape.k as usize;
        let padded = |elements: &[u64]| [elements, &vec![0; k - elements.len()]].concat();
        let steps = self.a.chunks(k).zip(self.b.chunks(k));
        let d = steps.fold(self.c, |c, (a, b)| operation.dot(&padded(a), &padded(b), c));
        let nan = |bits| self.accumulator.format().unpack(bits).is_nan();
        d == self.d || (profile.nan_is_a_class(row) && nan(d) && nan(self.d))
    }
}

fn elements(elem: Elem, text: &str) -> Result<Vec<u64>, String> {
    let digits = elem.format().width.div_ceil(4) as usize;
    if !text.bytes().all(|b| b.is_ascii_hexdigit()) || !text.len().is_multiple_of(digits) {
        return Err(format!("`{text}` is not a row of {elem} in hex, {digits} digits each"));
    }
    let chunks = text.as_bytes().chunks(digits);
    Ok(chunks.map(|c| c.iter().fold(0, |v, &b| v << 4 | u64::from(char::from(b).to_digit(16).unwrap_or(0)))).collect())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let observation = match Observation::parse(&args) {
        Ok(observation) => observation,
        Err(problem) => {
            eprintln!("which_gpu: {problem}");
            return ExitCode::from(2);
        }
    };
    let explanations = observation.explanations();
    for e in &explanations {
        let note = match e.policies[..] {
            [policy] => format!("  (only with zero policy {})", policy.name()),
            _ => String::new(),
        };
        println!("{:8} {:14} {}{note}", e.profile, e.architecture, e.instruction);
    }
    if explanations.is_empty() {
        println!("no profile gives these bits");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(words: &str) -> Observation {
        let args: Vec<String> = words.split(' ').map(str::to_owned).collect();
        Observation::parse(&args).unwrap()
    }

    fn profiles(words: &str) -> Vec<&'static str> {
        let mut names: Vec<&str> = observation(words).explanations().iter().map(|e| e.profile).collect();
        names.dedup();
        names
    }

    /// E1: 2^23 - 2^23 - 0.5 - 0.25 - 0.125 tells the fraction bits of the accumulator.
    #[test]
    fn worked_example_1_names_generations_by_their_accumulators() {
        let bf16 = "bf16 c600bf00be80be00 44803f803f803f80 4b000000";
        assert_eq!(profiles(&format!("{bf16} bf400000")), ["sm_90", "sm_100", "sm_120"]);
        assert_eq!(profiles(&format!("{bf16} bf000000")), ["sm_80", "sm_86", "sm_89", "gfx942"]);
        assert_eq!(profiles(&format!("{bf16} bf600000")), ["gfx908"]);
        assert_eq!(profiles(&format!("{bf16} bec00000")), ["gfx90a"]);
        // The `_1k` form of CDNA2 sums in fours.
        let found = observation(&format!("{bf16} 00000000")).explanations();
        assert!(!found.is_empty());
        assert!(found.iter().all(|e| e.profile == "gfx90a" && e.instruction.modifier == Modifier::OneK));
        assert_eq!(profiles(&format!("{bf16} 40490fdb")), [""; 0]);
    }

    #[test]
    fn worked_example_1_in_half_precision() {
        let f16 = "f16 f000b800b400b000 64003c003c003c00 4b000000";
        assert_eq!(profiles(&format!("{f16} bf600000")), ["gfx908"]);
        assert!(profiles(&format!("{f16} 00000000")).contains(&"sm_70"));
        assert!(!profiles(&format!("{f16} 00000000")).contains(&"sm_75"));
    }

    /// E2: thirteen fraction bits of FP8 on Ada and in Hopper's wgmma, but not in Hopper's mma.sync.
    #[test]
    fn worked_example_2_tells_fp8_units_apart() {
        let fp8 = "e4m3 f0b0a8a0 70383838 46800000";
        let found = observation(&format!("{fp8} 00000000")).explanations();
        let names: Vec<(&str, &str)> = found.iter().map(|e| (e.profile, e.instruction.family.name())).collect();
        assert!(names.contains(&("sm_89", "mma")) && names.contains(&("sm_90", "wgmma")));
        assert!(!names.contains(&("sm_90", "mma")) && !names.contains(&("sm_120", "mma")));
        assert!(profiles(&format!("{fp8} bf600000")).contains(&"sm_120"));
    }

    /// E6: one block or two.
    #[test]
    fn worked_example_6_tells_block_sizes_apart() {
        let a = format!("6c00{}ec001c00", "0000".repeat(7));
        let b = format!("6c00{}6c001c00", "0000".repeat(7));
        let found = observation(&format!("f16 {a} {b} 3f800000 3f800000")).explanations();
        let k16: Vec<&str> = found.iter().filter(|e| e.instruction.shape.k == 16).map(|e| e.profile).collect();
        assert!(k16.contains(&"sm_90") && k16.contains(&"sm_120") && !k16.contains(&"sm_80"));
    }

    /// E9: the zero policies part.
    #[test]
    fn worked_example_9_depends_on_the_zero_policy() {
        let found = observation("bf16 00002b80 7f002b80 00000000 17800000").explanations();
        let ampere: Vec<_> = found.iter().filter(|e| e.profile == "sm_80").collect();
        assert!(!ampere.is_empty() && ampere.iter().all(|e| e.policies == [ZeroPolicy::Exclude]));
    }

    /// E15: CDNA3 alone rounds down.
    #[test]
    fn worked_example_15_is_cdna3() {
        assert_eq!(profiles("f16 6c00 6c00 b5800000 4b7fffff"), ["gfx942"]);
    }

    #[test]
    fn bad_arguments_say_what_is_wrong() {
        let problem = |words: &str| {
            let args: Vec<String> = words.split(' ').map(str::to_owned).collect();
            Observation::parse(&args).err().unwrap_or_default()
        };
        assert!(problem("bf17 0 0 0 0").contains("bf17"));
        assert!(problem("bf16 3f80 3f803f80 00000000 00000000").contains("1 elements, B has 2"));
        assert!(problem("bf16 3f8 3f8 00000000 00000000").contains("4 digits"));
        assert!(problem("bf16 3f80 3f80 00000000").contains("five"));
    }
}
