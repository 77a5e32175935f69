//! Verdicts, determinism levels, and how several claims fold into one verdict.
//!
//! Source: `docs/spec/audit-result.md`, *Verdicts*. A verdict is never a boolean, and only `MISMATCH` accuses.

use crate::result::ClaimKind;
use serde::{Deserialize, Serialize};

/// What an audit concludes about one claim, one record or one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Verdict {
    /// The bits are those of the claim, at the level that stands beside the verdict.
    Match,
    /// The bits are those of the claim, and of other claims too: they are listed.
    Indistinguishable,
    /// A field is missing or `unspecified`, a kernel is not covered, or an operation is not deterministic.
    Inconclusive,
    /// The declared arithmetic, model or software is not at hand: the claim cannot be replayed here.
    Unverifiable,
    /// The bits are not those of the claim: the first divergent operation, tensor, index and both bit patterns are named.
    Mismatch,
    /// The log or the record is refused: altered, truncated, reordered, spliced, signed by another key, missing, or contradicting itself.
    Error,
}

impl Verdict {
    /// Every verdict, mildest first.
    pub const ALL: [Self; 6] =
        [Self::Match, Self::Indistinguishable, Self::Inconclusive, Self::Unverifiable, Self::Mismatch, Self::Error];

    /// The word as it is stored.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Match => "MATCH",
            Self::Indistinguishable => "INDISTINGUISHABLE",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::Unverifiable => "UNVERIFIABLE",
            Self::Mismatch => "MISMATCH",
            Self::Error => "ERROR",
        }
    }

    /// One sentence for a reader who has not met the word.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Match => {
                "The logged bits are exactly those that the claim produces. Other claims that would have produced them too are listed."
            }
            Self::Indistinguishable => {
                "As MATCH, but the auditor required that nothing else fits (number of rows, GPU generation), and something does."
            }
            Self::Inconclusive => "Something the verdict needs is missing or not covered; nothing is concluded.",
            Self::Unverifiable => "The declared computation cannot be repeated with what is at hand.",
            Self::Mismatch => "The logged bits, or the tokens chosen from them, are not those that the claim produces.",
            Self::Error => "The log or the record is refused: it was altered, is missing, or contradicts itself.",
        }
    }

    /// Process exit code: 0 a match, 1 something did not match, 2 could not tell or failed.
    ///
    /// A refused log or record is 1: it was altered or contradicts itself, which is a finding, not a failure of the tool.
    /// Refusals that are no finding (`record::LogRefusal::is_finding`: a wrong key, say) are 2; whoever has the reason at hand looks
    /// there first.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Match => 0,
            Self::Mismatch | Self::Error => 1,
            Self::Indistinguishable | Self::Inconclusive | Self::Unverifiable => 2,
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// What equality was checked; each level implies those before it, never the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// Emitted token ids.
    T,
    /// Every logit bit.
    L,
    /// Every K and V column and block boundary, hence every later step.
    S,
    /// Every operation's output that was opened.
    A,
}

impl Level {
    /// What is compared, for a reader.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::T => "token ids",
            Self::L => "every logit bit",
            Self::S => "every K and V column, block boundary and logit bit",
            Self::A => "every opened activation, K and V column, block boundary and logit bit",
        }
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::T => "T",
            Self::L => "L",
            Self::S => "S",
            Self::A => "A",
        })
    }
}

/// Folds the verdicts of the claims that an audit requires.
///
/// Order of precedence, from the specification's two rules (only `MISMATCH` with a complete record is an accusation; fail
/// closed):
/// 1. `ERROR`: what contradicts itself is refused whatever else.
/// 2. A record that is not complete ([`ClaimKind::completes_the_record`]) caps the verdict: a difference found in it accuses nobody.
/// 3. `MISMATCH`: a commitment that disagrees with recomputation needs no evidence, so nothing that is merely missing or unknown *beside*
///    it (opened tensors, a sampler, log-probabilities) takes it away.
/// 4. `UNVERIFIABLE`, then `INCONCLUSIVE`, then `INDISTINGUISHABLE`; and `MATCH` only if every claim is one.
///
/// No claim at all is `INCONCLUSIVE`.
pub fn fold(claims: impl IntoIterator<Item = (ClaimKind, Verdict)>) -> Verdict {
    fn rank((kind, verdict): &(ClaimKind, Verdict)) -> u8 {
        match (verdict, kind.completes_the_record()) {
            (Verdict::Match, _) => 0,
            (Verdict::Indistinguishable, _) => 1,
            (Verdict::Inconclusive, false) => 2,
            (Verdict::Unverifiable, false) => 3,
            (Verdict::Mismatch, _) => 4,
            (Verdict::Inconclusive, true) => 5,
            (Verdict::Unverifiable, true) => 6,
            (Verdict::Error, _) => 7,
        }
    }
    claims.into_iter().max_by_key(rank).map_or(Verdict::Inconclusive, |(_, verdict)| verdict)
}

/// Folds the verdicts of several records into that of a log: unlike claims of one record, one record's missing field
/// does not excuse another record's mismatch.
pub fn fold_records(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    verdicts.into_iter().max().unwrap_or(Verdict::Inconclusive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_claim_is_never_a_match() {
        assert_eq!(fold([]), Verdict::Inconclusive);
        assert_eq!(fold_records([]), Verdict::Inconclusive);
    }

    #[test]
    fn a_missing_field_caps_a_mismatch_within_a_record_only() {
        let bits = (ClaimKind::Bits, Verdict::Mismatch);
        assert_eq!(fold([bits, (ClaimKind::Completeness, Verdict::Inconclusive)]), Verdict::Inconclusive);
        assert_eq!(fold_records([Verdict::Mismatch, Verdict::Inconclusive]), Verdict::Mismatch);
    }

    #[test]
    fn what_is_missing_beside_a_mismatch_does_not_take_it_away() {
        let bits = (ClaimKind::Bits, Verdict::Mismatch);
        for kind in ClaimKind::ALL.into_iter().filter(|kind| !kind.completes_the_record()) {
            for beside in [Verdict::Inconclusive, Verdict::Unverifiable, Verdict::Indistinguishable, Verdict::Match] {
                assert_eq!(fold([(kind, beside), bits]), Verdict::Mismatch, "{kind} {beside}");
                assert_eq!(fold([bits, (kind, beside)]), Verdict::Mismatch, "{kind} {beside}");
            }
            assert_eq!(fold([bits, (kind, Verdict::Error)]), Verdict::Error);
        }
    }

    #[test]
    fn names_are_the_stored_words() {
        for v in Verdict::ALL {
            assert_eq!(serde_json::to_string(&v).unwrap(), format!("\"{v}\""));
        }
    }

    #[test]
    fn every_other_verdict_beats_a_match() {
        for v in Verdict::ALL {
            for kind in ClaimKind::ALL {
                let holds = (ClaimKind::Bits, Verdict::Match);
                assert_eq!(fold([holds, (kind, v), holds]), v);
            }
            assert_eq!(fold_records([v, Verdict::Match]), v);
        }
    }
}
