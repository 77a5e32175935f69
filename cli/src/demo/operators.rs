//! The nine operators: what each does, and what an audit must find.

use engine::weights::Scheme;
use verifier::Verdict;
use verifier::result::{AuditResult, Cause};

/// What an operator does that its record does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Nothing.
    Honest,
    /// Flips one bit of one weight.
    WeightBit { tensor: &'static str, row: u32, column: u32, bit: u32 },
    /// Serves rounded weights.
    Quantised(Scheme),
    /// Serves this many more requests in the same batch.
    HiddenRows(u32),
    /// Emits the runner-up once.
    TokenSwap { request: usize, index: usize },
    /// Runs on another GPU generation.
    Hardware(&'static str),
    /// Samples with this seed.
    Seed(u64),
    /// Changes a byte of the log afterwards.
    LogByte,
    /// Divides attention into this many ranges.
    AttentionSplit(u32),
}

/// An operator of the demonstration.
pub struct Operator {
    /// Folder name of its log.
    pub name: &'static str,
    /// What it does, in words.
    pub does: &'static str,
    /// What it does.
    pub deed: Deed,
}

/// All of them, the honest one first.
pub const OPERATORS: [Operator; 9] = [
    Operator { name: "honest", does: "serves what it declares", deed: Deed::Honest },
    Operator {
        name: "a-weight-bit",
        does: "flipped one bit of one weight",
        deed: Deed::WeightBit { tensor: "model.layers.2.mlp.down_proj.weight", row: 17, column: 301, bit: 5 },
    },
    Operator {
        name: "b-8-bit-weights",
        does: "serves weights rounded to 8 bits",
        deed: Deed::Quantised(Scheme::Int8PerRow),
    },
    Operator { name: "c-hidden-rows", does: "serves two more requests, off the record", deed: Deed::HiddenRows(2) },
    Operator {
        name: "d-token-swap",
        does: "swapped one token for the runner-up",
        deed: Deed::TokenSwap { request: 0, index: 5 },
    },
    Operator { name: "e-other-gpu", does: "runs on an A100, claims an H100", deed: Deed::Hardware("sm_80") },
    Operator { name: "f-other-seed", does: "samples with a seed of its own", deed: Deed::Seed(1234) },
    Operator { name: "g-edited-log", does: "changed a byte of the log afterwards", deed: Deed::LogByte },
    Operator {
        name: "h-attention-split",
        does: "ran attention unsplit, claims it split",
        deed: Deed::AttentionSplit(1),
    },
];

impl Deed {
    /// The verdict that the audit must reach.
    pub fn expected(self) -> Verdict {
        match self {
            Deed::Honest => Verdict::Match,
            Deed::LogByte => Verdict::Error,
            _ => Verdict::Mismatch,
        }
    }

    /// Is this the right verdict with the right cause, and no other first?
    pub fn is_found_by(self, result: &AuditResult) -> bool {
        let causes: Vec<&Cause> = result.records.iter().flat_map(|r| &r.causes).collect();
        let cause = match (self, causes.as_slice()) {
            (Deed::Honest, []) => result.log.refused.is_none(),
            (Deed::LogByte, []) => result.log.refused.as_ref().is_some_and(|r| r.reason == "altered"),
            (
                Deed::WeightBit { tensor, row, column, bit },
                [Cause::WeightBit { tensor: t, row: r, column: c, bit: b, .. }],
            ) => (tensor, row, column, bit) == (t, *r, *c, *b),
            (Deed::Quantised(scheme), [Cause::QuantisedWeights { scheme: found, .. }]) => found == scheme.id(),
            (Deed::HiddenRows(n), [Cause::UnreportedRows { decode, .. }]) => decode.len() == 1 && decode.contains(n),
            (Deed::TokenSwap { .. }, [Cause::TokenSwapped { tokens, .. }]) => tokens.len() == 1,
            (Deed::Hardware(profile), [Cause::OtherProfile { found, .. }]) => found.iter().any(|f| f == profile),
            (Deed::Seed(seed), [Cause::OtherSeed { found, .. }]) => found.iter().any(|f| *f == seed.to_string()),
            (Deed::AttentionSplit(n), [Cause::AttentionSplit { found, .. }]) => found.contains(n),
            _ => false,
        };
        cause && result.verdict == self.expected()
    }
}
