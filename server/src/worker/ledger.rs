//! Where steps are put on record.

use engine::Engine;
use engine::fault::Faults;
use engine::journal::{Identity, Journal};
use engine::scheduler::{RequestKey, Settings};
use engine::step::Observe;
use record::inference::{Request, Time};
use record::{Digest, EvidenceLevel, Fact, Log};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Place;

/// What is committed to, and whether the tensors are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Level of the leaves.
    pub level: EvidenceLevel,
    /// Tensors are stored beside the record.
    pub kept: bool,
}

/// Where steps go.
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub enum Ledger {
    /// Onto a log.
    Log {
        /// It.
        log: Log,
        /// What is committed to.
        evidence: Evidence,
    },
    /// Nowhere, by the operator's explicit choice.
    Nowhere,
}

impl Ledger {
    /// What steps must bring back.
    pub(super) fn observe(&self) -> Observe {
        match self {
            Self::Log { evidence, .. } => match evidence.level {
                EvidenceLevel::S => Observe::STATE,
                EvidenceLevel::A => Observe::ACTIVATIONS,
            },
            // Logits, for log-probabilities.
            Self::Nowhere => Observe { logits: true, ..Observe::TOKENS },
        }
    }

    /// The name of the log.
    pub fn origin(&self) -> Option<&str> {
        match self {
            Self::Log { log, .. } => Some(log.origin()),
            Self::Nowhere => None,
        }
    }

    /// The key that seeds are derived with.
    pub(super) fn key_id(&self) -> Option<Digest> {
        match self {
            Self::Log { log, .. } => Some(log.next().link.key_id),
            Self::Nowhere => None,
        }
    }
}

/// A session's records.
pub(super) struct Records {
    ledger: Ledger,
    identity: Identity,
    /// What requests of this session are called in records, before their number. No other session of the log has it.
    pub prefix: String,
    started_unix_us: u64,
}

impl Records {
    pub fn new(mut ledger: Ledger, engine: &Engine, settings: Settings, faults: &Faults) -> engine::Result<Self> {
        let prefix = match &mut ledger {
            Ledger::Log { log, .. } => log.begin_session()?,
            Ledger::Nowhere => "0-".to_owned(),
        };
        // Where conversations are rendered, no id is put into every prompt.
        let model = engine.model();
        let text = engine::journal::text(model, model.chat.is_some())?;
        let mut identity = Identity { text, ..Identity::of(engine, settings)? };
        identity.stack.mode = faults.mode(engine.mode());
        Ok(Self { ledger, identity, prefix, started_unix_us: now_unix_us() })
    }

    /// The journal to seal steps with.
    pub fn journal(&self, engine: &Engine) -> Option<Journal> {
        let Ledger::Log { log, evidence } = &self.ledger else { return None };
        let journal = Journal::new(engine, evidence.level, self.prefix.clone(), log.next().chain);
        Some(if evidence.kept { journal.keeping_evidence() } else { journal })
    }

    /// The key that seeds are derived with.
    pub fn key_id(&self) -> Option<Digest> {
        self.ledger.key_id()
    }

    /// Puts the journal's steps on record. When this returns, the record is acknowledged, and the requests in `ended` that it tells of have
    /// their receipts.
    pub fn commit(
        &mut self,
        journal: &mut Journal,
        state: impl FnMut(RequestKey) -> Request,
        ended: &[RequestKey],
    ) -> Result<Vec<(RequestKey, Place)>, record::Error> {
        let Ledger::Log { log, .. } = &mut self.ledger else { return Ok(Vec::new()) };
        if journal.is_empty() {
            return Ok(Vec::new());
        }
        let now = now_unix_us();
        let time = Time { start_unix_us: self.started_unix_us, end_unix_us: now };
        let (record, evidence) = journal.to_record(self.identity.clone(), state, log.next().link, Fact::Known(time));
        let ack = log.append(&record, now)?;
        self.started_unix_us = now;
        if let Some(mut evidence) = evidence {
            evidence.record = ack.record;
            log.put_evidence(&evidence)?;
        }
        let mut found = Vec::new();
        for key in ended {
            let id = journal.id(*key);
            if let Some(at) = record.requests.iter().position(|r| r.id == id) {
                found.push((*key, at as u32));
            }
        }
        let requests: Vec<u32> = found.iter().map(|(_, at)| *at).collect();
        let receipts = log.issue_receipts_for(&ack, &record, &requests, record.evidence.into(), now)?;
        let place = |((key, request), receipt): ((RequestKey, u32), Vec<u8>)| {
            let receipt = String::from_utf8_lossy(&receipt).into_owned();
            (key, Place { index: ack.index, record: ack.record.to_string(), request, receipt })
        };
        Ok(found.into_iter().zip(receipts).map(place).collect())
    }
}

/// The wall clock, for records only.
fn now_unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
