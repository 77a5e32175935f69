//! What a run found.

use super::line::{Case, Outcome};
use crate::profile::ZeroPolicy;
use serde::Serialize;

/// Failures kept in full per file; the rest is counted.
const KEPT_FAILURES: usize = 20;

/// The verdict on one file. Serialises to stable JSON.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FileReport {
    /// Name of the file.
    pub file: String,
    /// Vectors.
    pub total: usize,
    /// Vectors whose every asked answer matched.
    pub passed: usize,
    /// Vectors with an answer that did not.
    pub failed: usize,
    /// Vectors of instructions this crate has no model for.
    pub not_covered: usize,
    /// The same by architecture and instruction, in order of appearance.
    pub groups: Vec<Group>,
    /// The first failures.
    pub failures: Vec<Failure>,
}

/// The vectors of one instruction of one architecture.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// Architecture.
    pub arch: String,
    /// Instruction; for recorded vectors with the card.
    pub instruction: String,
    /// True if the answers were recorded on hardware, false if simulated.
    pub hardware: bool,
    /// The profile that ran it; absent if nothing covers it.
    pub profile: Option<&'static str>,
    /// How well the rule that ran it is established: `HW`, `XM`, `ISA` or `?`; absent if nothing covers it.
    pub confidence: Option<&'static str>,
    /// Vectors.
    pub total: usize,
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Not covered: all of them or none.
    pub not_covered: usize,
}

/// A vector that did not match.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// Line number, from 1.
    pub line: usize,
    /// Architecture.
    pub arch: String,
    /// Instruction.
    pub instruction: String,
    /// The zero policy under which it failed: `exclude` or `sentinel`.
    pub zero_policy: &'static str,
    /// The answer of the file, lower-case hex without leading zeros.
    pub expected: String,
    /// Ours.
    pub found: String,
}

impl FileReport {
    pub(super) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), ..Self::default() }
    }

    pub(super) fn add(&mut self, line: usize, case: &Case, outcome: Outcome) {
        let same = |g: &Group| g.arch == case.arch && g.instruction == case.instruction && g.hardware == case.hardware;
        let index = self.groups.iter().rposition(same).unwrap_or_else(|| {
            self.groups.push(Group {
                arch: case.arch.clone(),
                instruction: case.instruction.clone(),
                hardware: case.hardware,
                profile: case.model().map(|m| m.0),
                confidence: case.model().map(|m| m.1),
                total: 0,
                passed: 0,
                failed: 0,
                not_covered: 0,
            });
            self.groups.len() - 1
        });
        let group = &mut self.groups[index];
        group.total += 1;
        self.total += 1;
        match outcome {
            Outcome::Passed => {
                group.passed += 1;
                self.passed += 1;
            }
            Outcome::NotCovered => {
                group.not_covered += 1;
                self.not_covered += 1;
            }
            Outcome::Failed { policy, expected, found } => {
                group.failed += 1;
                self.failed += 1;
                if self.failures.len() < KEPT_FAILURES {
                    self.failures.push(Failure {
                        line,
                        arch: case.arch.clone(),
                        instruction: case.instruction.clone(),
                        zero_policy: match policy {
                            ZeroPolicy::Exclude => "exclude",
                            ZeroPolicy::SentinelMinus126 => "sentinel",
                        },
                        expected: format!("{expected:x}"),
                        found: format!("{found:x}"),
                    });
                }
            }
        }
    }

    /// Names of the instructions that are not covered, with their architecture.
    pub fn uncovered(&self) -> impl Iterator<Item = String> + '_ {
        self.groups.iter().filter(|g| g.not_covered > 0).map(|g| format!("{} {}", g.arch, g.instruction))
    }
}
