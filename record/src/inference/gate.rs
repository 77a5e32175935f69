//! Margin-gated decoding in a record: how the gate decides, and what it decided for each row. Specified by `docs/spec/margin-gate.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Event, Finish, Preemption, Record, RecordRefusal, RowKind, Rows};
use crate::digest::Digest;
use crate::scalar::{F32Bits, U64Text};

/// The mode that has a gate.
const GATED: &str = "gated";

/// The write-back policy whose verifications compute columns before their row again as well.
const CATCH_UP: &str = "catch-up";

/// How a gate decides. Stated by a stack whose mode is `gated`, and by no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// Name and version of the rule, for example `margin-gate/1`.
    pub rule: String,
    /// What is compared with the threshold, for example `margin/1`.
    pub signal: String,
    /// Threshold to begin with.
    pub tau: F32Bits,
    /// What a verification replaces: `mismatch`, `trigger`, `catch-up` or `all`.
    pub write_back: String,
    /// How steps with prompt rows run: `reference` or `throughput`.
    pub prefill: String,
    /// Requests of a verification step, at most; its rows, padding included, are a multiple.
    pub verify_rows: u32,
    /// Steps that a held row waits for others, at most.
    pub patience: u32,
    /// One of this many high-margin rows is verified all the same; 0 for none.
    pub probe_every: u32,
    /// Decides which ones.
    pub probe_seed: U64Text,
    /// Share by which the threshold exceeds the margin of a miss that a probe found.
    pub safety: F32Bits,
    /// Plain SHA-256 of the signed calibration that the threshold is from; `null` for a threshold that somebody chose.
    pub calibration: Option<Digest>,
}

/// What was decided for the last row of a group, from its logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "lowercase", deny_unknown_fields)]
pub enum RowGate {
    /// The risk is high enough: the row's token was released.
    Commit {
        /// The risk.
        margin: F32Bits,
    },
    /// The step ran the reference's kernels: the row's token was released.
    Reference {
        /// The risk.
        margin: F32Bits,
    },
    /// The risk is low: the row chose nothing, a later verification did.
    Hold {
        /// The risk.
        margin: F32Bits,
        /// What the row would have chosen.
        token: u32,
    },
    /// As `hold`, of a row whose risk is high enough: it was verified to measure misses.
    Probe {
        /// The risk.
        margin: F32Bits,
        /// What the row would have chosen.
        token: u32,
    },
    /// A row computed again by the reference.
    Verified {
        /// What the reference chose: the token that was released.
        token: u32,
        /// The columns of this position are the reference's from here on.
        repaired: bool,
    },
}

impl RowGate {
    /// The row's token waits for a verification.
    #[must_use]
    pub const fn waits(&self) -> bool {
        matches!(self, RowGate::Hold { .. } | RowGate::Probe { .. })
    }
}

impl Record {
    /// Do verifications begin with the first column that is not the reference's?
    pub(super) fn catches_up(&self) -> bool {
        self.stack.gate.as_ref().is_some_and(|g| g.write_back == CATCH_UP)
    }

    /// Checks that gate decisions fit the rows they stand at, and that nothing was fed or finished whose token still waited.
    /// `whole`: nothing came from an earlier record.
    pub(super) fn check_gate(&self, whole: bool) -> Result<(), RecordRefusal> {
        if (self.stack.mode == GATED) != self.stack.gate.is_some() {
            return Err(RecordRefusal::Gate { what: "the mode `gated` and a gate's rule go together" });
        }
        // Requests whose last row waits, with its position.
        let mut waiting: BTreeMap<u32, u32> = BTreeMap::new();
        for step in &self.steps {
            let refuse = |group, what| Err(RecordRefusal::Rows { step: step.index, group, what });
            let verifying = step.schedule.rows.iter().filter(|r| r.kind == RowKind::Verify).count();
            if verifying > 0 && (verifying < step.schedule.rows.len() || !step.schedule.events.is_empty()) {
                return refuse(0, "verified rows share a step with other rows or events");
            }
            for event in &step.schedule.events {
                if let Event::Cancel { request } | Event::Preempt { request, how: Preemption::Recompute } = event {
                    waiting.remove(request);
                }
            }
            for (group, rows) in step.schedule.rows.iter().enumerate() {
                if let Err(what) = self.gate_fits(rows) {
                    return refuse(group, what);
                }
                let last = rows.start.saturating_add(rows.count.saturating_sub(1));
                match (rows.gate, waiting.remove(&rows.request)) {
                    (Some(RowGate::Verified { .. }), Some(position)) if position == last => {}
                    (None, Some(position)) if rows.kind == RowKind::Verify && last < position => {
                        waiting.insert(rows.request, position);
                    }
                    (None, None) if rows.kind == RowKind::Verify && whole => {
                        return refuse(group, "catches up columns of a row that did not wait");
                    }
                    (Some(RowGate::Verified { .. }), None) if !whole => {}
                    (Some(RowGate::Verified { .. }), _) => return refuse(group, "verifies a row that did not wait"),
                    (_, Some(_)) => return refuse(group, "goes on although its last row waits for verification"),
                    (Some(gate), None) if gate.waits() => {
                        waiting.insert(rows.request, last);
                    }
                    _ => {}
                }
            }
        }
        for (request, position) in waiting {
            let finish = self.requests.get(request as usize).map(|r| r.finish);
            if !matches!(finish, Some(Finish::Continues | Finish::Cancelled)) {
                let what = "ended although its last row waits for verification";
                return Err(RecordRefusal::Output { request: request as usize, what });
            }
            let stated = self.requests.get(request as usize).and_then(|r| r.chosen_at(u64::from(position)));
            if stated.is_some() {
                let what = "states a token that waits for verification";
                return Err(RecordRefusal::Output { request: request as usize, what });
            }
        }
        Ok(())
    }

    /// Does the decision at a group fit the group and the stack?
    fn gate_fits(&self, rows: &Rows) -> Result<(), &'static str> {
        match (&self.stack.gate, &rows.gate) {
            (None, Some(_)) => return Err("a gate's decision, but the stack states no gate"),
            (None, None) if rows.kind == RowKind::Verify => return Err("a verified row, but the stack states no gate"),
            (None, None) => return Ok(()),
            (Some(_), None) if rows.logits > 0 => return Err("logits, but no decision of the gate"),
            (Some(_), None) => return Ok(()),
            (Some(_), Some(_)) => {}
        }
        let verified = matches!(rows.gate, Some(RowGate::Verified { .. }));
        if verified != (rows.kind == RowKind::Verify) {
            return Err("a verification's result at another row, or none at a verified row");
        }
        if rows.logits != 1 {
            return Err("a decision of the gate is about one row with logits");
        }
        if let Some(RowGate::Verified { token, .. }) = rows.gate {
            let last = u64::from(rows.start) + u64::from(rows.count.saturating_sub(1));
            let chosen = self.requests.get(rows.request as usize).and_then(|r| r.chosen_at(last));
            if chosen != Some(token) {
                return Err("the token of the verification is not the request's");
            }
        }
        Ok(())
    }
}
