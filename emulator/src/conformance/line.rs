//! One line of a vector file.

use crate::format::{Elem, Format};
use crate::mma::{Family, Instruction, Types};
use crate::profile::{Profile, ZeroPolicy};
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
    // Recorded lines.
    gpu: Option<String>,
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
    family: Family,
    types: Types,
    k: usize,
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
            let subject = subject.and_then(|(i, profile)| {
                profile.row(&i).ok()?;
                Some(Subject { profile, family: i.family, types: i.types, k: i.shape.k as usize })
            });
            return Ok(Self { arch, instruction: format!("{op} {inst}"), hardware: false, subject, line });
        }
        let (Some(gpu), Some(path), Some(ab), Some(cd), Some(k)) = (&line.gpu, &line.path, &line.ab, &line.cd, line.k)
        else {
            return Err(VectorProblem::UnknownFormat);
        };
        let subject = (|| {
            let types = Types::new(Elem::by_name(ab)?, Elem::by_name(cd)?);
            Some(Subject { profile: profile_of_gpu(gpu)?, family: family_of_path(path)?, types, k })
        })();
        let instruction = format!("{path} {cd}.{ab}.{ab}.{cd} k{k} on {gpu}");
        Ok(Self { arch, instruction, hardware: true, subject, line })
    }

    pub(super) fn judge(&self, policies: &[ZeroPolicy]) -> Result<Outcome, VectorProblem> {
        let Some(Subject { profile, family, types, k }) = &self.subject else {
            return Ok(Outcome::NotCovered);
        };
        let operation = |policy| profile.with_zero_policy(policy).dot(*family, *types);
        if operation(ZeroPolicy::Exclude).is_none() {
            // Not an error even if its fields are unreadable: nothing says how wide they should be.
            return Ok(Outcome::NotCovered);
        }
        let line = &self.line;
        let a = elements("a", &line.a, types.a.format(), *k)?;
        let b = elements("b", &line.b, types.b.format(), *k)?;
        let c = element("c", &line.c, types.c.format())?;
        let d = element("d", &line.d, types.d.format())?;
        let alt = line.alt.as_deref().map(|alt| element("alt", alt, types.d.format())).transpose()?;
        for &policy in policies {
            let expected = match policy {
                ZeroPolicy::SentinelMinus126 => d,
                ZeroPolicy::Exclude => alt.unwrap_or(d),
            };
            let Some(operation) = operation(policy) else { return Ok(Outcome::NotCovered) };
            let found = operation.dot(&a, &b, c);
            let nan = |bits| types.d.format().unpack(bits).is_nan();
            let same_class = operation.nan_is_a_class() && nan(found) && nan(expected);
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
