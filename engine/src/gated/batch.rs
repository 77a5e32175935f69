//! Verification of held rows: one step of constant shape, without any split.

use std::collections::BTreeMap;

use margingate::{Reference, WriteBack};

use super::Gating;
use crate::batch::Operator;
use crate::error::{Error, Result};
use crate::kernels::PAGE;
use crate::kv::Slot;
use crate::policy::Dispatch;
use crate::runtime::Engine;
use crate::sampler::Choice;
use crate::scheduler::RequestKey;
use crate::step::{Group, Observe, Row, StepOutput, StepPlan};

/// A row that can be computed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRow {
    /// Whose it is.
    pub request: RequestKey,
    /// Its request's slot.
    pub slot: Slot,
    /// Its position: the last that the slot holds.
    pub position: u32,
    /// Its token.
    pub token: u32,
}

/// Chooses the token that follows a row of a request.
pub(crate) type Chooser<'a> = &'a dyn Fn(RequestKey, &Row) -> Result<Choice>;

/// An engine as the gate's reference; after [`Reference::verify`] it holds what ran.
pub(crate) struct ReferenceBatch<'a> {
    pub engine: &'a mut Engine,
    pub operator: &'a mut dyn Operator,
    pub choose: Chooser<'a>,
    pub observe: Observe,
    pub write_back: WriteBack,
    /// What ran and what came of it.
    pub ran: Option<(StepPlan, StepOutput)>,
    pub choices: Vec<Choice>,
    /// Pages as they were, by request.
    saved: BTreeMap<RequestKey, Vec<u8>>,
}

impl<'a> ReferenceBatch<'a> {
    pub fn new(
        engine: &'a mut Engine,
        operator: &'a mut dyn Operator,
        choose: Chooser<'a>,
        observe: Observe,
        write_back: WriteBack,
    ) -> Self {
        Self { engine, operator, choose, observe, write_back, ran: None, choices: Vec::new(), saved: BTreeMap::new() }
    }

    /// The page that holds a row's column.
    fn page(&self, row: &HeldRow) -> Result<u32> {
        let page = self.engine.kv().pages(row.slot)?.get((row.position / PAGE) as usize).copied();
        page.ok_or_else(|| Error::Plan { detail: format!("slot {} has no page for {}", row.slot.0, row.position) })
    }
}

impl Reference for ReferenceBatch<'_> {
    type Row = HeldRow;
    type Error = Error;

    fn verify(&mut self, rows: &[&HeldRow], pad_to: u32) -> Result<Vec<u32>> {
        if self.write_back == WriteBack::Mismatch {
            for row in rows {
                let page = self.page(row)?;
                self.saved.insert(row.request, self.engine.save_pages(&[page])?);
            }
        }
        let group =
            |t: crate::scheduler::Turn| Group { slot: t.slot, start: t.start, tokens: t.tokens, logits: t.logits };
        let groups: Vec<Group> = rows.iter().map(|row| group(Gating::turn(row))).collect();
        let dispatch = self.operator.dispatch(StepPlan::shape(&groups), Dispatch::UNSPLIT);
        let plan = StepPlan { groups, dispatch, observe: self.observe.clone() };
        let output = self.engine.again(&plan, pad_to)?;
        self.choices =
            rows.iter().zip(&output.rows).map(|(held, row)| (self.choose)(held.request, row)).collect::<Result<_>>()?;
        self.ran = Some((plan, output));
        Ok(self.choices.iter().map(|c| c.token).collect())
    }

    fn write_back(&mut self, row: &HeldRow, reference: bool) -> Result<()> {
        match self.saved.remove(&row.request) {
            Some(bytes) if !reference => {
                let page = self.page(row)?;
                self.engine.load_pages(&[page], &bytes)
            }
            _ => Ok(()),
        }
    }
}
