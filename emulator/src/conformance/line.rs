//! One line of a vector file.

use super::NO_HARDWARE;
use crate::format::{Elem, Format};
use crate::mma::{Family, Instruction, Modifier, Operation, Scales, Types};
use crate::profile::{MmaRow, Profile, ZeroPolicy};
use serde::Deserialize;

/// Why a line is not a vector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorProblem {
    /// Not JSON, or a field is missing or of the wrong type.
    #[error("not a JSON object of the expected fields: {0}")]
    Json(#[from] serde_json::Error),
    /// Neither of the two formats.
    #[error("neither `op` and `inst` (simulated) nor `gpu`, `path`, `ab`, `cd` and `k` (recorded) are present")]
    UnknownFormat,
    /// A bit string has the wrong number of digits.
    #[error("field `{field}` has {found} hex digits, not {expected}")]
    Length {
        /// Field name.
        field: &'static str,
        /// Digits the instruction needs.
        expected: usize,
        /// Digits found.
        found: usize,
    },
    /// The instruction is block-scaled and the line has no scales.
    #[error("field `{field}` is missing: the instruction is block-scaled")]
    MissingScales {
        /// Field name.
        field: &'static str,
    },
    /// The line has scales and the instruction takes none.
    #[error("field `{field}` is present, but the instruction has no block scales")]
    UnexpectedScales {
        /// Field name.
        field: &'static str,
    },
    /// A bit string has a character that is not a hex digit.
    #[error("field `{field}` is not hexadecimal")]
    Hex {
        /// Field name.
        field: &'static str,
    },
}

#[derive(Deserialize)]
struct Line {
    arch: String,
    // Simulated lines.
    op: Option<String>,
    inst: Option<String>,
    alt: Option<String>,
    sa: Option<String>,
    sb: Option<String>,
    // Recorded lines.
    gpu: Option<String>,
    sm: Option<String>,
    path: Option<String>,
    ab: Option<String>,
    cd: Option<String>,
    k: Option<usize>,
    // Both.
    a: String,
    b: String,
    c: String,
    d: String,
}

/// A parsed line: what to run, and the answers.
pub(super) struct Case {
    pub arch: String,
    pub instruction: String,
    pub hardware: bool,
    subject: Option<Subject>,
    line: Line,
}

/// What this crate has to run for a line.
struct Subject {
    profile: &'static Profile,
    row: &'static MmaRow,
    what: What,
    k: usize,
}

/// An instruction, or for recorded lines the arithmetic of element types for any K.
#[derive(Clone, Copy)]
enum What {
    Instruction(Instruction),
    Dot(Family, Types),
}

impl Subject {
    fn of_instruction(profile: &'static Profile, instruction: Instruction) -> Option<Self> {
        let row = profile.row(&instruction).ok()?;
        let subject = Self { profile, row, what: What::Instruction(instruction), k: instruction.shape.k as usize };
        // A switch may refuse what has a row.
        subject.operation(ZeroPolicy::Exclude).is_some().then_some(subject)
    }

    fn of_types(profile: &'static Profile, family: Family, types: Types, k: usize) -> Option<Self> {
        let row = profile.row_of_types(family, types)?;
        let subject = Self { profile, row, what: What::Dot(family, types), k };
        subject.operation(ZeroPolicy::Exclude).is_some().then_some(subject)
    }

    fn operation(&self, policy: ZeroPolicy) -> Option<Operation> {
        let profile = self.profile.with_zero_policy(policy);
        match self.what {
            What::Instruction(instruction) => profile.mma(&instruction).ok(),
            What::Dot(family, types) => profile.dot(family, types),
        }
    }

    fn types(&self) -> Types {
        match self.what {
            What::Instruction(instruction) => instruction.types,
            What::Dot(_, types) => types,
        }
    }

    /// Element type of the block scales, if there are any.
    fn scale(&self) -> Option<Elem> {
        match self.what {
            What::Instruction(Instruction { modifier: Modifier::BlockScale { scale, .. }, .. }) => Some(scale),
            _ => None,
        }
    }
}

/// What became of a line.
pub(super) enum Outcome {
    Passed,
    Failed { policy: ZeroPolicy, expected: u64, found: u64 },
    NotCovered,
}

impl Case {
    pub(super) fn parse(text: &str) -> Result<Self, VectorProblem> {
        let line: Line = serde_json::from_str(text)?;
        let arch = line.arch.clone();
        if let (Some(op), Some(inst)) = (&line.op, &line.inst) {
            let subject = Instruction::parse(op, inst).zip(profile_of_architecture(&arch));
            let subject = subject.and_then(|(instruction, profile)| Subject::of_instruction(profile, instruction));
            return Ok(Self { arch, instruction: format!("{op} {inst}"), hardware: false, subject, line });
        }
        let (Some(gpu), Some(path), Some(ab), Some(cd), Some(k)) = (&line.gpu, &line.path, &line.ab, &line.cd, line.k)
        else {
            return Err(VectorProblem::UnknownFormat);
        };
        let subject = (|| {
            let types = Types::new(Elem::by_name(ab)?, Elem::by_name(cd)?);
            let profile = match &line.sm {
                Some(sm) => Profile::by_name(sm)?,
                None => profile_of_gpu(gpu)?,
            };
            Subject::of_types(profile, family_of_path(path)?, types, k)
        })();
        let instruction = format!("{path} {cd}.{ab}.{ab}.{cd} k{k} on {gpu}");
        let hardware = !gpu.contains(NO_HARDWARE);
        Ok(Self { arch, instruction, hardware, subject, line })
    }

    /// The profile that ran the line and the mark of its rule; `None` if nothing covers it.
    pub(super) fn model(&self) -> Option<(&'static str, &'static str)> {
        self.subject.as_ref().map(|s| (s.profile.name, s.row.confidence.mark()))
    }

    pub(super) fn judge(&self, policies: &[ZeroPolicy]) -> Result<Outcome, VectorProblem> {
        let Some(subject) = &self.subject else {
            // Not an error even if its fields are unreadable: nothing says how wide they should be.
            return Ok(Outcome::NotCovered);
        };
        let (line, types, k) = (&self.line, subject.types(), subject.k);
        let a = elements("a", &line.a, types.a.format(), k)?;
        let b = elements("b", &line.b, types.b.format(), k)?;
        let c = element("c", &line.c, types.c.format())?;
        let d = element("d", &line.d, types.d.format())?;
        let alt = line.alt.as_deref().map(|alt| element("alt", alt, types.d.format())).transpose()?;
        for &policy in policies {
            let expected = match policy {
                ZeroPolicy::SentinelMinus126 => d,
                ZeroPolicy::Exclude => alt.unwrap_or(d),
            };
            let Some(operation) = subject.operation(policy) else { return Ok(Outcome::NotCovered) };
            let scales = |field, text: &Option<String>| match (subject.scale(), operation.scale_block(), text) {
                (Some(scale), Some(block), Some(text)) => elements(field, text, scale.format(), k.div_ceil(block)),
                (Some(_), _, None) => Err(VectorProblem::MissingScales { field }),
                (None, _, Some(_)) => Err(VectorProblem::UnexpectedScales { field }),
                _ => Ok(Vec::new()),
            };
            let (sa, sb) = (scales("sa", &line.sa)?, scales("sb", &line.sb)?);
            let found = operation.dot_scaled(&a, &b, c, Scales { a: &sa, b: &sb });
            let nan = |bits| types.d.format().unpack(bits).is_nan();
            let same_class = subject.profile.nan_is_a_class(subject.row) && nan(found) && nan(expected);
            if found != expected && !same_class {
                return Ok(Outcome::Failed { policy, expected, found });
            }
        }
        Ok(Outcome::Passed)
    }
}

/// The profile that stands for an architecture named in a simulated vector.
fn profile_of_architecture(arch: &str) -> Option<&'static Profile> {
    // sm_86 shares sm_80's name and comes after it.
    Profile::all().iter().find(|p| p.architecture == arch)
}

fn profile_of_gpu(gpu: &str) -> Option<&'static Profile> {
    Profile::by_name(match gpu {
        "V100" => "sm_70",
        "A100" => "sm_80",
        "A2" => "sm_86",
        "RTX1000Ada" | "L40S" => "sm_89",
        "H100" | "H200" => "sm_90",
        "B200" => "sm_100",
        _ => return None,
    })
}

fn family_of_path(path: &str) -> Option<Family> {
    match path {
        "warp-mma" | "mma.sync" | "mma.sync(fp8->f16 rewrite)" => Some(Family::Mma),
        "wgmma" => Some(Family::Wgmma),
        _ => None,
    }
}

/// Hex digits of one element.
fn digits(format: &Format) -> usize {
    format.width.div_ceil(4) as usize
}

fn element(field: &'static str, text: &str, format: &Format) -> Result<u64, VectorProblem> {
    Ok(elements(field, text, format, 1)?[0])
}

/// `count` elements of `digits` digits each, element 0 first.
fn elements(field: &'static str, text: &str, format: &Format, count: usize) -> Result<Vec<u64>, VectorProblem> {
    let expected = count.saturating_mul(digits(format));
    if !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(VectorProblem::Hex { field });
    }
    if text.len() != expected || expected == 0 {
        return Err(VectorProblem::Length { field, expected, found: text.len() });
    }
    let parse = |chunk: &[u8]| {
        chunk.iter().fold(0, |value, &b| value << 4 | u64::from(char::from(b).to_digit(16).unwrap_or_default()))
    };
    Ok(text.as_bytes().chunks(digits(format)).map(parse).collect())
}
