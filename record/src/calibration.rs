//! Calibrations of a margin gate: a threshold, what it was measured on, and what the measurement may claim. Specified by `docs/spec/calibration.md`.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::digest::Digest;
use crate::envelope::{self, Statement, Subject, predicate};
use crate::key::{PrivateKey, PublicKey};
use crate::scalar::{F32Bits, U64Text};

/// What the `type` member says.
pub const CALIBRATION_TYPE: &str = "calibration/v1";

/// A calibration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// [`CALIBRATION_TYPE`]; a reader refuses any other.
    #[serde(rename = "type")]
    pub kind: String,
    /// Model identity.
    pub model: Digest,
    /// Identity of the stack in mode `gated`, without gate and with its scheduler left unspecified.
    pub stack: Digest,
    /// The model's name, for people.
    pub model_name: String,
    /// What is compared with the threshold.
    pub signal: String,
    /// The threshold.
    pub tau: F32Bits,
    /// Largest risk of a flipped step.
    pub tau_flip: F32Bits,
    /// Order statistic of `|Delta12|`.
    pub tau_conf: F32Bits,
    /// Share of exchangeable steps that may exceed it, in parts per million.
    pub alpha_ppm: u32,
    /// Share added.
    pub safety: F32Bits,
    /// Synchronous steps measured.
    pub steps: u64,
    /// Steps at which the batched run chose another token.
    pub flips: u64,
    /// Steps below the threshold.
    pub triggers: u64,
    /// Upper bound at 95 % of the share of flips that the threshold misses, as f32 rounded up.
    pub miss_bound: F32Bits,
    /// How steps were measured.
    pub load: Load,
    /// Margins, by power of two.
    pub margins: Vec<Bin>,
    /// `|Delta12|`, by power of two.
    pub deltas: Vec<Bin>,
    /// Margins of flipped steps, by power of two.
    pub flipped: Vec<Bin>,
    /// Plain SHA-256 of the measured steps as a trace file.
    pub traces: Digest,
    /// What the calibration does not say.
    pub limits: Vec<String>,
}

/// How steps were measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Prompts.
    pub sources: Vec<Source>,
    /// Tokens of a prompt, at most: longer ones were cut.
    pub prompt_tokens: u32,
    /// Tokens decoded of each.
    pub tokens: u32,
    /// Schedules of each group of sequences.
    pub schedules: u32,
    /// Sequences that share the steps of a schedule, at most.
    pub group: u32,
    /// Decides the schedules.
    pub seed: U64Text,
}

/// A set of prompts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Plain SHA-256 of its file.
    pub sha256: Digest,
    /// Sequences taken from it.
    pub sequences: u32,
}

/// How many values have this binary exponent; `null` counts zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bin {
    /// Of values in `[2^exponent, 2^(exponent + 1))`.
    pub exponent: Option<i32>,
    /// How many.
    pub count: u64,
}

impl Calibration {
    /// Signs the calibration: an in-toto statement about its traces, in a DSSE envelope, canonical.
    ///
    /// # Errors
    /// [`Error::Canonical`] for a name that is not in normal form C.
    pub fn sign(&self, key: &PrivateKey) -> Result<Vec<u8>, Error> {
        let subject = vec![Subject::new("traces", "sha256", &self.traces)];
        envelope::sign(&Statement::new(predicate::CALIBRATION, subject, self), key)
    }

    /// Verifies the signature over the bytes, then reads the calibration from exactly those bytes.
    ///
    /// # Errors
    /// [`Error::Envelope`] when no trusted key signed; [`Error::Canonical`], [`Error::UnknownType`] for another version.
    pub fn open(bytes: &[u8], trusted: &[&PublicKey]) -> Result<Self, Error> {
        let statement = envelope::verify(bytes, trusted)?.statement::<Self>(predicate::CALIBRATION)?;
        if statement.predicate.kind != CALIBRATION_TYPE {
            return Err(Error::UnknownType { found: statement.predicate.kind, expected: CALIBRATION_TYPE });
        }
        Ok(statement.predicate)
    }
}
