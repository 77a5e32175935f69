//! The claims that a record makes, each with its own verdict.

use crate::verdict::{Level, Verdict};
use serde::{Deserialize, Serialize};

/// One thing that a record claims, checked on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// Nothing that a verdict needs is missing or `unspecified`.
    Completeness,
    /// Model, tokenizer, kernels, profile and policy are those at hand.
    Identity,
    /// Every position of every request is computed exactly once, in order.
    Schedule,
    /// The schedule is the one that the declared rule makes of what arrived and was cancelled.
    Scheduling,
    /// The logged kernel choices are those that the declared policy makes for the logged rows.
    Dispatch,
    /// Leaves, step roots and chain follow from the logged commitments.
    Commitments,
    /// The decoding parameters of every request are in range and fit together.
    Decoding,
    /// The bits are those of the declared computation.
    Bits,
    /// Every token is the one that the logged sampler and seed choose from the logits.
    Tokens,
    /// The gate's decisions, repairs and released tokens follow from the logits by its declared rule.
    Gate,
    /// Every logged log-probability is the one that the logits give.
    Logprobs,
    /// Every seed follows from the rule that the record states for it.
    Seeds,
    /// Output lengths and finish reasons follow from the tokens.
    Outputs,
    /// Each client's receipt states what the record states.
    Receipts,
    /// No rows ran beside the logged ones.
    Rows,
    /// No other GPU generation gives the same bits.
    Hardware,
}

impl ClaimKind {
    /// Every claim, in the order of the document.
    pub const ALL: [Self; 16] = [
        Self::Completeness,
        Self::Identity,
        Self::Schedule,
        Self::Scheduling,
        Self::Dispatch,
        Self::Commitments,
        Self::Decoding,
        Self::Bits,
        Self::Tokens,
        Self::Gate,
        Self::Logprobs,
        Self::Seeds,
        Self::Outputs,
        Self::Receipts,
        Self::Rows,
        Self::Hardware,
    ];

    /// The claims that a verdict requires unless the auditor says otherwise: all but [`Self::Rows`] and [`Self::Hardware`], which
    /// bits alone can seldom settle; what else fits is then listed beside the match.
    pub const DEFAULT_REQUIRED: [Self; 14] = [
        Self::Completeness,
        Self::Identity,
        Self::Schedule,
        Self::Scheduling,
        Self::Dispatch,
        Self::Commitments,
        Self::Decoding,
        Self::Bits,
        Self::Tokens,
        Self::Gate,
        Self::Logprobs,
        Self::Seeds,
        Self::Outputs,
        Self::Receipts,
    ];

    /// True for the claims without which a record is not complete: what they lack could decide any bit, so it caps even a mismatch.
    pub const fn completes_the_record(self) -> bool {
        matches!(self, Self::Completeness | Self::Schedule)
    }

    /// True for claims that only some records make; they are left out where there is nothing to judge.
    pub const fn may_be_absent(self) -> bool {
        matches!(self, Self::Receipts | Self::Logprobs | Self::Gate)
    }

    /// The stored word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completeness => "completeness",
            Self::Identity => "identity",
            Self::Schedule => "schedule",
            Self::Scheduling => "scheduling",
            Self::Dispatch => "dispatch",
            Self::Commitments => "commitments",
            Self::Decoding => "decoding",
            Self::Bits => "bits",
            Self::Tokens => "tokens",
            Self::Gate => "gate",
            Self::Logprobs => "logprobs",
            Self::Seeds => "seeds",
            Self::Outputs => "outputs",
            Self::Receipts => "receipts",
            Self::Rows => "rows",
            Self::Hardware => "hardware",
        }
    }

    /// The claim as a sentence.
    pub const fn statement(self) -> &'static str {
        match self {
            Self::Completeness => "Nothing that a verdict needs is missing or unspecified.",
            Self::Identity => "Model, tokenizer, kernels, hardware profile and policy are those at hand.",
            Self::Schedule => "Every position of every request is computed exactly once, in order.",
            Self::Scheduling => "The schedule is the one that the declared rule makes of arrivals and cancellations.",
            Self::Dispatch => "The kernel choices are those of the declared policy for the declared rows.",
            Self::Commitments => "Leaves, step roots and hash chain follow from what they commit to.",
            Self::Decoding => "The decoding parameters are in range and fit together.",
            Self::Bits => "The bits are those of the declared computation.",
            Self::Tokens => "Every token is the one that the logged sampler and seed choose.",
            Self::Gate => "The gate's decisions, repairs and tokens follow from the logits by its declared rule.",
            Self::Logprobs => "Every logged log-probability is the one that the logits give.",
            Self::Seeds => "Every seed follows from the rule stated for it.",
            Self::Outputs => "Output lengths and finish reasons follow from the tokens.",
            Self::Receipts => "Each client's receipt states what the record states.",
            Self::Rows => "No rows ran beside the logged ones.",
            Self::Hardware => "No other GPU generation gives these bits.",
        }
    }
}

impl std::fmt::Display for ClaimKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// The verdict on one claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimResult {
    /// Which claim.
    pub claim: ClaimKind,
    /// Its verdict.
    pub verdict: Verdict,
    /// The level, where bits were compared.
    pub level: Option<Level>,
    /// What was seen, in a sentence; names what is missing when that decides.
    pub detail: String,
}

impl ClaimResult {
    /// A claim that was checked and holds.
    pub fn holds(claim: ClaimKind, detail: impl Into<String>) -> Self {
        Self { claim, verdict: Verdict::Match, level: None, detail: detail.into() }
    }

    /// A claim with any verdict, without a level.
    pub fn new(claim: ClaimKind, verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { claim, verdict, level: None, detail: detail.into() }
    }
}
