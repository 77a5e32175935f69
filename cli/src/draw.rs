//! Which records of a log: options that an audit and the answer to it share, so that both draw the same sample.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use record::PublicKey;
use record::log::{Checkpoint, Directory, KeyHistory, Source as _};
use record::tlog::{WitnessKey, cosignatures};
use verifier::challenge::{Amount, Challenge, Order, Plan};
use verifier::result::AuditResult;

use crate::argument::{self, Budget};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Draw {
    /// A checkpoint of this log seen before: the log must continue it, and a sample is drawn from what it commits to
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,

    /// Only this record, by its place in the log; may be given several times. Says nothing of the others
    #[arg(long = "only", value_name = "N", conflicts_with_all = ["sample", "budget", "beacon"])]
    only: Vec<u64>,

    /// Audit this many records, drawn by --beacon, instead of all
    #[arg(long, value_name = "N", requires = "beacon", conflicts_with = "budget", value_parser = argument::count(1, u32::MAX))]
    sample: Option<u32>,

    /// Audit as many records, drawn by --beacon, as are expected to fit: a time as `10min`, `90s` or `2h`, or replayed tokens as `20000tok`
    #[arg(long, value_name = "AMOUNT", requires = "beacon", value_parser = argument::budget)]
    budget: Option<Budget>,

    /// Draw this many more from each kind of record in which cheating pays: cache hits, chunked prompts, largest and smallest steps, stop tokens, samplers
    #[arg(long, value_name = "N", default_value_t = 0, requires = "beacon")]
    stratify: u32,

    /// Randomness published after the checkpoint was signed, at least 16 bytes of hex
    #[arg(long, value_name = "HEX", value_parser = argument::beacon)]
    beacon: Option<String>,

    /// When the beacon was published, in seconds since 1970; with --witness-key it is checked that the checkpoint is older
    #[arg(long, value_name = "SECONDS", requires_all = ["beacon", "checkpoint", "witness_key"])]
    beacon_time: Option<u64>,

    /// A witness that cosigned --checkpoint, as `name+id+base64`; may be given several times
    #[arg(long, value_name = "KEY", value_parser = witness_key)]
    witness_key: Vec<WitnessKey>,

    /// Name of this audit; with the beacon it decides the sample
    #[arg(long, value_name = "TEXT", default_value = "audit")]
    audit_id: String,
}

fn witness_key(text: &str) -> Result<WitnessKey, String> {
    WitnessKey::parse(text).map_err(|e| e.to_string())
}

impl Draw {
    /// The checkpoint seen before, verified; and its bytes.
    pub fn pinned(&self, log: &Path, key: &PublicKey) -> anyhow::Result<Option<(Checkpoint, Vec<u8>)>> {
        let Some(path) = &self.checkpoint else { return Ok(None) };
        let note = source::file(path, source::MAX_CHECKPOINT)?;
        let keys = KeyHistory::verify(&Directory::new(log).keys()?, key)?;
        let verified = keys.checkpoint(&note);
        Ok(Some((verified.with_context(|| format!("the checkpoint seen before, {}", path.display()))?, note)))
    }

    /// The plan. `rate` is asked for replayed rows a second when the budget is a time.
    pub fn plan(&self, pinned: Option<&[u8]>, rate: impl FnOnce() -> anyhow::Result<f64>) -> anyhow::Result<Plan> {
        let Some(beacon) = &self.beacon else {
            return Ok(if self.only.is_empty() { Plan::All } else { Plan::These(self.only.iter().copied().collect()) });
        };
        let amount = match (self.sample, &self.budget) {
            (Some(records), _) => Amount::Records(records.into()),
            (None, Some(Budget::Tokens(rows, words))) => Amount::Rows { rows: *rows, words: words.clone() },
            (None, Some(Budget::Seconds(seconds, words))) => {
                let rows = (rate()? * *seconds as f64) as u64;
                Amount::Rows { rows, words: words.clone() }
            }
            (None, None) => bail!("a beacon draws a sample: say how large with --sample or --budget"),
        };
        Ok(Plan::Challenge(Challenge {
            beacon: beacon.clone(),
            audit: self.audit_id.clone(),
            amount,
            per_stratum: self.stratify.into(),
            order: self.order(pinned)?,
        }))
    }

    /// A checkpoint that was cosigned before the beacon was published cannot have been made to suit it.
    fn order(&self, pinned: Option<&[u8]>) -> anyhow::Result<Order> {
        let (Some(note), Some(published)) = (pinned, self.beacon_time) else { return Ok(Order::Stated) };
        let earliest = cosignatures(note, &self.witness_key)?.into_iter().map(|c| c.time_unix_s).min();
        match earliest {
            Some(cosigned) if cosigned < published => Ok(Order::Witnessed),
            Some(cosigned) => bail!(
                "the checkpoint was cosigned at {cosigned}, not before the beacon of {published}: whoever made it may have known what would be drawn"
            ),
            None => bail!("none of the witnesses given has cosigned the checkpoint"),
        }
    }

    /// The options that draw the same sample again, each after a space. A budget has become a number by then.
    pub fn words(&self, result: &AuditResult) -> String {
        let mut words: String = self.only.iter().map(|record| format!(" --only {record}")).collect();
        if self.checkpoint.is_some() {
            words.push_str(" --checkpoint CHECKPOINT");
        }
        if let Some(beacon) = &self.beacon {
            let _ = write!(words, " --beacon {beacon} --sample {}", result.sampling.uniform);
            if self.stratify > 0 {
                let _ = write!(words, " --stratify {}", self.stratify);
            }
            let _ = write!(words, " --audit-id {:?}", self.audit_id);
        }
        words
    }

    /// Is the size of the sample to be found out by measuring?
    pub fn is_timed(&self) -> bool {
        matches!(self.budget, Some(Budget::Seconds(..)))
    }
}
