//! Causes: what, other than the claim, explains the logged bits.

use crate::explain::request as request_name;
use crate::ranges::Ranges;
use serde::{Deserialize, Serialize};

/// A cause that was confirmed by replay, or the statement that none was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Cause {
    /// Another GPU generation computed this.
    OtherProfile {
        /// As declared.
        claimed: String,
        /// Every profile that gives the logged bits.
        found: Vec<String>,
        /// Operation in which the two first differ. A tensor core's f32 sums may differ and still round to the same bf16: then this
        /// is earlier than the first difference that was logged.
        origin: Option<String>,
        /// Elements of that operation whose f32 sums differ, of those compared; absent when the origin is not a matrix product.
        sums: Option<[u32; 2]>,
        /// Steps explained.
        steps: u32,
    },
    /// More rows ran than were logged.
    UnreportedRows {
        /// Numbers of extra rows, the same in every decode step, that explain every decode step.
        decode: Ranges,
        /// Numbers of extra rows that explain every prefill step.
        prefill: Ranges,
        /// When no one number explains every decode step: the numbers that explain each step, by step.
        by_step: Vec<Ranges>,
        /// Steps whose bits need extra rows.
        needed: Ranges,
        /// Steps explained, of all.
        steps: u32,
    },
    /// Another division of the keys and values in attention.
    AttentionSplit {
        /// As logged, by step where the logged bits need another.
        claimed: Ranges,
        /// Splits that explain every step.
        found: Ranges,
        /// Steps whose bits need it.
        needed: Ranges,
        /// Steps explained, of all.
        steps: u32,
    },
    /// Another split of the depth of a matrix product.
    SplitK {
        /// The choice, e.g. `down.split_k`.
        choice: String,
        /// As logged.
        claimed: Ranges,
        /// Splits that explain every step.
        found: Ranges,
        /// Steps whose bits need it.
        needed: Ranges,
        /// Steps explained, of all.
        steps: u32,
    },
    /// The weights were quantised.
    QuantisedWeights {
        /// The scheme that gives the logged bits.
        scheme: String,
        /// Operation in which the two first differ.
        origin: Option<String>,
        /// Steps explained.
        steps: u32,
    },
    /// Layers were divided over another number of tensor-parallel ranks.
    OtherDivision {
        /// Ranks that give the logged bits.
        ranks: u32,
        /// Whether with the splits that the policy chooses for them instead of the logged ones.
        by_policy: bool,
        /// Operation in which the two first differ.
        origin: Option<String>,
        /// Steps explained.
        steps: u32,
    },
    /// Keys and values were kept in another type.
    KvType {
        /// As declared.
        claimed: String,
        /// The type that gives the logged bits.
        found: String,
        /// Operation in which the two first differ.
        origin: Option<String>,
        /// Steps explained.
        steps: u32,
    },
    /// One bit of one weight differs.
    WeightBit {
        /// Tensor name.
        tensor: String,
        /// Row of the tensor.
        row: u32,
        /// Column of the tensor; 0 for a vector.
        column: u32,
        /// Bit number, 0 the least significant.
        bit: u32,
        /// bf16 pattern of the declared weight, hex.
        from: String,
        /// bf16 pattern that explains the bits, hex.
        to: String,
        /// Operation that reads the weight.
        origin: String,
        /// Other single-bit changes that explain every bit as well: `tensor[row, column] bit n`.
        equivalent: Vec<String>,
        /// Steps explained.
        steps: u32,
    },
    /// A token other than the admissible one was emitted and fed back.
    TokenSwapped {
        /// Each inadmissible token.
        tokens: Vec<TokenFinding>,
        /// Sampled tokens that do follow.
        admissible: u32,
    },
    /// The logits are right and the tokens follow from another seed than the logged one.
    OtherSeed {
        /// The request.
        request: String,
        /// As logged, decimal.
        logged: String,
        /// Seeds that give every token, decimal.
        found: Vec<String>,
        /// How many seeds were tried.
        tried: u32,
        /// Which seeds were tried.
        range: String,
        /// Tokens that do not follow from the logged seed.
        differing: u32,
        /// Tokens of the request.
        tokens: u32,
    },
    /// The tokens follow from other sampling parameters than the logged ones.
    OtherSampler {
        /// The request.
        request: String,
        /// As logged.
        logged: String,
        /// What gives every token.
        found: String,
        /// Tokens that do not follow from the logged parameters.
        differing: u32,
    },
    /// Another token than the logged one was fed to the model at a position.
    OtherInput {
        /// The request.
        request: String,
        /// The position.
        position: u32,
        /// The logged token.
        logged: u32,
        /// Tokens whose embedding has the logged bits.
        found: Vec<u32>,
    },
    /// Nothing that was tried explains every bit.
    Unexplained {
        /// What was found out nevertheless.
        narrowed: String,
        /// What evidence would settle it.
        needed: String,
    },
}

/// One token that does not follow from the logits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenFinding {
    /// The request.
    pub request: String,
    /// Position of the row that produced it.
    pub position: u32,
    /// Number of the token within the output, from 0.
    pub output_index: u32,
    /// As logged.
    pub logged: u32,
    /// As the logged sampler and seed choose.
    pub admissible: u32,
    /// Rank of the logged token under the logged sampler, 1 the admissible one; absent when it could not be drawn at all.
    pub rank: Option<u32>,
}

/// A hypothesis that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// What was supposed.
    pub hypothesis: String,
    /// What came out.
    pub outcome: Outcome,
    /// Where it failed, or why it was not tried.
    pub detail: String,
}

/// The outcome of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It explains every logged bit.
    Explains,
    /// Some logged bit contradicts it.
    Contradicted,
    /// It was not tried.
    NotTried,
}

impl Outcome {
    /// The outcome in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Explains => "explains every bit",
            Self::Contradicted => "contradicted",
            Self::NotTried => "not tried",
        }
    }
}

fn steps_phrase(steps: u32) -> String {
    match steps {
        1 => "the 1 step".to_owned(),
        n => format!("all {n} steps"),
    }
}

impl Cause {
    /// The stored tag.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::OtherProfile { .. } => "other_profile",
            Self::UnreportedRows { .. } => "unreported_rows",
            Self::AttentionSplit { .. } => "attention_split",
            Self::SplitK { .. } => "split_k",
            Self::QuantisedWeights { .. } => "quantised_weights",
            Self::OtherDivision { .. } => "other_division",
            Self::KvType { .. } => "kv_type",
            Self::WeightBit { .. } => "weight_bit",
            Self::TokenSwapped { .. } => "token_swapped",
            Self::OtherSeed { .. } => "other_seed",
            Self::OtherSampler { .. } => "other_sampler",
            Self::OtherInput { .. } => "other_input",
            Self::Unexplained { .. } => "unexplained",
        }
    }

    /// The cause in one line.
    pub fn headline(&self) -> String {
        match self {
            Self::OtherProfile { claimed, found, origin, .. } => {
                let first = match origin.as_deref() {
                    None => String::new(),
                    Some(o @ "qkv of layer 0") => format!("; they part at the first tensor-core operation, {o}"),
                    Some(o) => format!("; they part at {o}"),
                };
                format!("the bits are those of {}, not {claimed}{first}", join(found, " or "))
            }
            Self::UnreportedRows { decode, by_step, steps, needed, .. } => {
                if !decode.is_empty() {
                    let rows =
                        if decode.len() == 1 && decode.min() == Some(1) { "row explains" } else { "rows explain" };
                    format!("{} extra {rows} the bits of {}", alternatives(decode), steps_phrase(*steps))
                } else {
                    let counts: Ranges = needed.iter().filter_map(|s| by_step.get(s as usize)?.min()).collect();
                    format!(
                        "a varying number of extra rows (at least {}) explains the bits of {}",
                        counts.min().unwrap_or(1),
                        steps_phrase(*steps)
                    )
                }
            }
            Self::AttentionSplit { claimed, found, steps, .. } => format!(
                "attention split {} explains the bits of {}; the log claims {claimed}",
                alternatives(found),
                steps_phrase(*steps)
            ),
            Self::SplitK { choice, claimed, found, steps, .. } => format!(
                "{choice}={} explains the bits of {}; the log claims {claimed}",
                alternatives(found),
                steps_phrase(*steps)
            ),
            Self::QuantisedWeights { scheme, steps, .. } => {
                format!("weights rounded to {scheme} explain the bits of {}", steps_phrase(*steps))
            }
            Self::OtherDivision { ranks: 1, steps, .. } => {
                format!("one undivided device explains the bits of {}", steps_phrase(*steps))
            }
            Self::OtherDivision { ranks, steps, .. } => {
                format!("{ranks} tensor-parallel ranks explain the bits of {}", steps_phrase(*steps))
            }
            Self::KvType { claimed, found, steps, .. } => format!(
                "keys and values kept as {found} explain the bits of {}; the log claims {claimed}",
                steps_phrase(*steps)
            ),
            Self::WeightBit { tensor, row, column, bit, from, to, equivalent, .. } => {
                let others = match equivalent.len() {
                    0 => String::new(),
                    n => format!(" ({n} other single bits explain as much)"),
                };
                format!("bit {bit} of {tensor}[{row}, {column}] is flipped: {from} became {to}{others}")
            }
            Self::TokenSwapped { tokens, .. } => match tokens.as_slice() {
                [t] => format!(
                    "logits match; token {} of {} is {} where {} is the only admissible one ({})",
                    t.output_index,
                    request_name(&t.request),
                    t.logged,
                    t.admissible,
                    t.rank.map_or("it could not be drawn at all".to_owned(), |r| format!("it ranks {r}"))
                ),
                _ => format!("logits match; {} tokens are not the admissible ones", tokens.len()),
            },
            Self::OtherSeed { logged, found, tried, .. } => {
                if found.is_empty() {
                    format!("logits match; tokens follow neither from the logged seed {logged} nor from {tried} others")
                } else {
                    format!(
                        "logits match; tokens follow from seed {}, not from the logged seed {logged}",
                        join(found, " or ")
                    )
                }
            }
            Self::OtherSampler { logged, found, .. } => {
                format!("logits match; tokens follow from {found}, not from the logged {logged}")
            }
            Self::OtherInput { request, position, logged, found } => {
                let found: Vec<String> = found.iter().map(u32::to_string).collect();
                format!(
                    "token {} was fed to the model at position {position} of {}; the log says {logged}",
                    join(&found, " or "),
                    request_name(request)
                )
            }
            Self::Unexplained { narrowed, .. } => {
                format!("no single cause that was tried explains every bit; {narrowed}")
            }
        }
    }
}

/// `2`, `2 or 3`, `2 to 4`, `1, or 4 to 6`.
fn alternatives(set: &Ranges) -> String {
    let parts: Vec<String> = set
        .as_slice()
        .iter()
        .map(|[a, b]| match b - a {
            0 => a.to_string(),
            1 => format!("{a} or {b}"),
            _ => format!("{a} to {b}"),
        })
        .collect();
    join(&parts, ", or ")
}

fn join(parts: &[String], separator: &str) -> String {
    if parts.is_empty() { "none".to_owned() } else { parts.join(separator) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headlines_read_as_sentences() {
        let rows = |set: &[u32]| Cause::UnreportedRows {
            decode: set.iter().copied().collect(),
            prefill: Ranges::default(),
            by_step: vec![],
            needed: Ranges::default(),
            steps: 27,
        };
        assert_eq!(rows(&[2]).headline(), "2 extra rows explain the bits of all 27 steps");
        assert_eq!(rows(&[1]).headline(), "1 extra row explains the bits of all 27 steps");
        assert_eq!(rows(&[2, 3]).headline(), "2 or 3 extra rows explain the bits of all 27 steps");
        assert_eq!(rows(&[2, 3, 4]).headline(), "2 to 4 extra rows explain the bits of all 27 steps");
    }

    #[test]
    fn the_tag_is_the_kind() {
        let cause = Cause::Unexplained { narrowed: "x".into(), needed: "y".into() };
        let json = serde_json::to_value(&cause).unwrap();
        assert_eq!(json["kind"], cause.kind());
        assert_eq!(serde_json::from_value::<Cause>(json).unwrap(), cause);
    }
}
