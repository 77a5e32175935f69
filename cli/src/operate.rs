//! An operator's work: serve a batch, write the record, hand out receipts.

use anyhow::Context as _;
use engine::Engine;
use engine::batch::{Outcome, Request};
use engine::journal::{Asked, Identity, Journal};
use engine::step::Observe;
use record::inference::Time;
use record::log::Ack;
use record::receipt::Level;
use record::{EvidenceLevel, Fact, Log, Record};

use crate::source::now_unix_us;

/// What is committed, and whether the tensors are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Evidence {
    /// Commit to logits, K/V columns and layer borders; keep nothing
    None,
    /// Commit to the same and keep the tensors
    S,
    /// Commit to every operation's result and keep the tensors
    A,
}

impl Evidence {
    /// Level of the leaves.
    pub fn level(self) -> EvidenceLevel {
        match self {
            Evidence::None | Evidence::S => EvidenceLevel::S,
            Evidence::A => EvidenceLevel::A,
        }
    }

    /// What steps must bring back for it.
    pub fn observe(self) -> Observe {
        match self.level() {
            EvidenceLevel::S => Observe::STATE,
            EvidenceLevel::A => Observe::ACTIVATIONS,
        }
    }
}

/// A request as the record will state it.
pub type Declared = (Asked, Request);

/// A journal that continues `log`. Records call request number `i` of the session `prefix` and `i`.
pub fn journal(engine: &Engine, log: &Log, prefix: &str, evidence: Evidence) -> Journal {
    let journal = Journal::new(engine, evidence.level(), prefix, log.next().chain);
    if evidence == Evidence::None { journal } else { journal.keeping_evidence() }
}

/// Writes the record of a batch and its receipts. When this returns they are on disk.
pub fn commit(
    log: &mut Log,
    mut journal: Journal,
    identity: &Identity,
    declared: &[Declared],
    outcomes: &[Outcome],
    started_unix_us: u64,
) -> anyhow::Result<(Ack, Record)> {
    let stated = |key: u64| {
        let (asked, request) = &declared[key as usize];
        engine::journal::request(asked, request, &outcomes[key as usize])
    };
    let ended = now_unix_us();
    let time = Fact::Known(Time { start_unix_us: started_unix_us, end_unix_us: ended });
    let (record, evidence) = journal.to_record(identity.clone(), stated, log.next().link, time);
    let ack = log.append(&record, ended).context("appending the record; nothing of it counts as logged")?;
    let level = match record.evidence {
        EvidenceLevel::S => Level::S,
        EvidenceLevel::A => Level::A,
    };
    log.issue_receipts(&ack, &record, level, ended).context("issuing receipts")?;
    if let Some(mut evidence) = evidence {
        evidence.record = ack.record;
        log.put_evidence(&evidence).context("storing evidence")?;
    }
    Ok((ack, record))
}

/// The seed of a request by the engine's derivation, which the operator cannot steer: the client chose the nonce.
pub fn derived_seed(asked: &Asked, log: &Log) -> anyhow::Result<u64> {
    Ok(engine::journal::derived_seed(asked.nonce.as_deref(), &log.next().link.key_id, &asked.id)?)
}
