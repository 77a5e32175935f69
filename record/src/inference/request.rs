//! A request: prompt ids, decoding parameters, output ids.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::digest::{Digest, of_json, of_token_ids};
use crate::scalar::{F32Bits, Fact, U64Text};

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The operator's id, unique in the record. It enters every leaf of the request.
    pub id: String,
    /// Nonce sent by the client, lower-case hex of at most 16 bytes; `null` when it sent none.
    pub nonce: Option<String>,
    /// Prompt token ids, special tokens included.
    pub prompt: Vec<u32>,
    /// How tokens were chosen.
    pub decode: Decode,
    /// Every token chosen, in order, a stop token included. The last one was not fed back.
    pub output: Vec<u32>,
    /// Why generation ended.
    pub finish: Finish,
    /// Bits of the log-probability of each output token; `null` when not asked for.
    pub logprobs: Option<Vec<F32Bits>>,
    /// Bits of the log-probability of each prompt token but the first; `null` when not asked for.
    pub prompt_logprobs: Option<Vec<F32Bits>>,
}

impl Request {
    /// Digest of the prompt ids.
    #[must_use]
    pub fn prompt_digest(&self) -> Digest {
        of_token_ids(&self.prompt)
    }

    /// Digest of the output ids.
    #[must_use]
    pub fn output_digest(&self) -> Digest {
        of_token_ids(&self.output)
    }

    /// The token at `position`, prompt first; `None` beyond the last output token.
    #[must_use]
    pub fn token_at(&self, position: u64) -> Option<u32> {
        let position = usize::try_from(position).ok()?;
        match position.checked_sub(self.prompt.len()) {
            None => self.prompt.get(position).copied(),
            Some(index) => self.output.get(index).copied(),
        }
    }

    /// The token chosen from the logits of the row at `position`, if that row chose one.
    #[must_use]
    pub fn chosen_at(&self, position: u64) -> Option<u32> {
        let next = usize::try_from(position).ok()?.checked_add(1)?;
        self.output.get(next.checked_sub(self.prompt.len())?).copied()
    }
}

/// Why a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Finish {
    /// A stop token was chosen.
    Stop,
    /// `max_new_tokens` were chosen.
    Length,
    /// The client or the operator cancelled it.
    Cancelled,
    /// It goes on in a later record.
    Continues,
}

/// Decoding parameters: the sampler is part of the function that is audited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decode {
    /// Algorithm and its version, for example `greedy-lowest-id/1` or `gumbel-philox4x32-10/1`; the engine that defines it
    /// documents it, and a verifier refuses names it does not implement.
    pub sampler: String,
    /// Temperature.
    pub temperature: F32Bits,
    /// Keep the k largest; 0 keeps all.
    pub top_k: u32,
    /// Nucleus mass; 1.0 keeps all.
    pub top_p: F32Bits,
    /// Least probability relative to the largest; 0.0 keeps all.
    pub min_p: F32Bits,
    /// Repetition penalty; 1.0 is none.
    pub repetition_penalty: F32Bits,
    /// Presence penalty; 0.0 is none.
    pub presence_penalty: F32Bits,
    /// Frequency penalty; 0.0 is none.
    pub frequency_penalty: F32Bits,
    /// Bias added to single logits, ascending by token id.
    pub logit_bias: Vec<(u32, F32Bits)>,
    /// Plain SHA-256 of a grammar; `null` when there is none.
    pub grammar: Option<Digest>,
    /// Seed; `null` for a sampler that draws nothing.
    pub seed: Option<U64Text>,
    /// Where the seed came from: `none`, `client`, `operator` (an uncontrolled channel of up to 64 bits), or the name of a rule such as
    /// `sha256-nonce-record-request/1`.
    pub seed_derivation: Fact<String>,
    /// What the random counter counts, for example `absolute-position/1`; `none` for greedy.
    pub counter: String,
    /// How equal scores are ordered: `lowest-id`.
    pub tie_rule: String,
    /// Token ids that end generation, ascending.
    pub stop_ids: Vec<u32>,
    /// Strings that end generation.
    pub stop_strings: Vec<String>,
    /// Most tokens to choose.
    pub max_new_tokens: u32,
}

impl Decode {
    /// Greedy decoding with every other control off.
    #[must_use]
    pub fn greedy(max_new_tokens: u32, stop_ids: Vec<u32>) -> Self {
        let zero = F32Bits::new(0.0);
        let one = F32Bits::new(1.0);
        Self {
            sampler: super::GREEDY.to_owned(),
            temperature: zero,
            top_k: 0,
            top_p: one,
            min_p: zero,
            repetition_penalty: one,
            presence_penalty: zero,
            frequency_penalty: zero,
            logit_bias: Vec::new(),
            grammar: None,
            seed: None,
            seed_derivation: Fact::Known("none".to_owned()),
            counter: "none".to_owned(),
            tie_rule: "lowest-id".to_owned(),
            stop_ids,
            stop_strings: Vec::new(),
            max_new_tokens,
        }
    }

    /// Decoding digest: `H("lastbit/decode/v1" || 0 || canonical JSON)`.
    ///
    /// # Errors
    /// [`Error::Canonical`].
    pub fn digest(&self) -> Result<Digest, Error> {
        of_json("lastbit/decode/v1", self)
    }
}
