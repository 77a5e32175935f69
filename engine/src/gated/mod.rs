//! Mode `gated`: steps run as in `throughput`, and where a token is at risk of depending on the batch, its row is computed again as in
//! `invariant` before the token is released. Specified by `docs/spec/margin-gate.md`; the decisions are those of the crate `margingate`.
//!
//! With [`WriteBack::CatchUp`](margingate::WriteBack::CatchUp) a held row is computed together with all columns of its request that are not the reference's yet. So the
//! reference decides as it would for the request alone, and a sequence is the request's own unless a token above the threshold is wrong: level T, with
//! the confidence of the calibration; other columns and logits keep the bits of their batch. `Mismatch` and `Trigger` compute the held row alone, over columns as their batches left
//! them. With [`WriteBack::All`](margingate::WriteBack::All) every column is the reference's, and all bits are those of `invariant`.

mod batch;
mod risk;
mod setup;
#[cfg(test)]
mod tests;

pub(crate) use batch::{HeldRow, Ran, ReferenceBatch, groups};
pub use risk::{head_row_distance, risk};
pub use setup::{Calibrated, Prefill, RULE, Setup, Signal};

use crate::batch::Operator;
use crate::error::Result;
use crate::sampler::{Choice, Sampling};
use crate::scheduler::{Event, Kind, Preemption, Turn};
use crate::step::Row;
use crate::{Engine, Error};
use margingate::{Decision, Margin};
use record::F32Bits;
use record::inference::RowGate;

/// What an engine's gate thinks of a row, before anything is decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The token the row would choose.
    pub token: u32,
    /// The risk.
    pub risk: Margin,
}

/// A session's gate.
pub(crate) struct Gating {
    pub setup: Setup,
    pub gate: margingate::Gate<HeldRow>,
    /// Decisions of the step that is being made, by group.
    pub decisions: Vec<Option<RowGate>>,
}

impl Gating {
    /// The gate of an engine's session; none unless it is a gated engine.
    ///
    /// # Errors
    /// [`Error::Plan`] for a gated engine that was not told how to decide.
    pub fn of(engine: &Engine) -> Result<Option<Self>> {
        match (engine.mode(), engine.gate()) {
            (crate::Mode::Gated, None) => {
                Err(Error::Plan { detail: "a gated engine needs a threshold: see `Engine::with_gate`".into() })
            }
            (crate::Mode::Gated, Some(setup)) => {
                let gate = margingate::Gate::new(setup.settings)?;
                Ok(Some(Self { setup: setup.clone(), gate, decisions: Vec::new() }))
            }
            _ => Ok(None),
        }
    }

    /// Does a step of these turns have to run the reference's kernels?
    pub fn runs_reference(&self, turns: &[Turn]) -> bool {
        self.setup.runs_reference(turns.iter().any(|t| t.kind == Kind::Prefill))
    }

    /// Judges the last row of a turn. None lets the token out; otherwise the row is held.
    ///
    /// # Errors
    /// What [`risk`] refuses.
    pub fn judge(
        &mut self,
        engine: &Engine,
        (step, group): (u64, usize),
        (turn, row): (&Turn, &Row),
        (sampling, choice): (&Sampling, Choice),
        reference: bool,
        operator: &mut dyn Operator,
    ) -> Result<bool> {
        let risk = risk(engine.model(), self.setup.signal, sampling, row)?;
        let Judged { token, risk } =
            operator.judge(turn.request, row.position + 1, Judged { token: choice.token, risk });
        let decision = self.gate.judge(risk, reference, step, group as u32);
        let margin = F32Bits(risk.bits());
        self.decisions[group] = Some(match decision {
            Decision::Commit => RowGate::Commit { margin },
            Decision::Reference => RowGate::Reference { margin },
            Decision::Hold => RowGate::Hold { margin, token },
            Decision::Probe => RowGate::Probe { margin, token },
        });
        if decision == Decision::Commit {
            self.gate.commit(turn.request, risk);
        }
        if decision.waits() {
            let held = HeldRow { request: turn.request, slot: turn.slot, position: row.position };
            self.gate.hold(turn.request, token, risk, decision, held);
        }
        Ok(decision.waits())
    }

    /// Rows that wait for a request that leaves, or that will be computed again, are forgotten.
    pub fn follow(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Cancel { request } | Event::Preempt { request, how: Preemption::Recompute } = event {
                self.gate.forget(*request);
            }
        }
    }
}
