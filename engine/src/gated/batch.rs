//! Verification of held rows: one step of padded shape, without any split.

use std::collections::BTreeMap;

use margingate::{Reference, WriteBack};

use crate::batch::Operator;
use crate::error::{Error, Result};
use crate::kernels::PAGE;
use crate::kv::Slot;
use crate::policy::Dispatch;
use crate::runtime::Engine;
use crate::sampler::Choice;
use crate::scheduler::{RequestKey, Scheduler, Turn};
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
}

/// Turns as a step takes them.
pub(crate) fn groups(turns: &[Turn]) -> Vec<Group> {
    let group = |t: &Turn| Group { slot: t.slot, start: t.start, tokens: t.tokens.clone(), logits: t.logits };
    turns.iter().map(group).collect()
}

/// Chooses the token that follows a row of a request.
pub(crate) type Chooser<'a> = &'a dyn Fn(RequestKey, &Row) -> Result<Choice>;

/// An engine as the gate's reference; after [`Reference::verify`] it holds what ran.
pub(crate) struct ReferenceBatch<'a> {
    pub engine: &'a mut Engine,
    pub scheduler: &'a Scheduler,
    pub operator: &'a mut dyn Operator,
    pub choose: Chooser<'a>,
    pub observe: Observe,
    pub write_back: WriteBack,
    /// What ran and what came of it.
    pub ran: Option<Ran>,
    /// Pages as they were, by request.
    pub saved: BTreeMap<RequestKey, Vec<u8>>,
}

/// A verification step.
pub(crate) struct Ran {
    pub turns: Vec<Turn>,
    pub plan: StepPlan,
    pub output: StepOutput,
    pub choices: Vec<Choice>,
}

impl ReferenceBatch<'_> {
    /// The page that holds a row's column.
    fn page(&self, row: &HeldRow) -> Result<u32> {
        let page = self.engine.kv().pages(row.slot)?.get((row.position / PAGE) as usize).copied();
        page.ok_or_else(|| Error::Plan { detail: format!("slot {} has no page for {}", row.slot.0, row.position) })
    }

    fn turn(&self, row: &HeldRow) -> Result<Turn> {
        self.scheduler.verification(row.request, self.write_back == WriteBack::CatchUp, self.most_rows())
    }

    /// Runs turns of verification; nothing is chosen yet.
    pub fn run(&mut self, turns: &[Turn], pad_to: u32) -> Result<(StepPlan, StepOutput)> {
        let groups = groups(turns);
        let dispatch = self.operator.dispatch(StepPlan::shape(&groups), Dispatch::UNSPLIT);
        let plan = StepPlan { groups, dispatch, observe: self.observe.clone() };
        let output = self.engine.again(&plan, pad_to)?;
        Ok((plan, output))
    }
}

impl Reference for ReferenceBatch<'_> {
    type Row = HeldRow;
    type Error = Error;

    fn rows(&self, row: &HeldRow) -> u32 {
        self.turn(row).map_or(1, |turn| turn.tokens.len() as u32)
    }

    fn most_rows(&self) -> u32 {
        self.scheduler.settings().max_rows
    }

    fn verify(&mut self, rows: &[&HeldRow], pad_to: u32) -> Result<Vec<u32>> {
        if self.write_back == WriteBack::Mismatch {
            for row in rows {
                let page = self.page(row)?;
                self.saved.insert(row.request, self.engine.save_pages(&[page])?);
            }
        }
        let turns = rows.iter().map(|row| self.turn(row)).collect::<Result<Vec<Turn>>>()?;
        let (plan, output) = self.run(&turns, pad_to)?;
        let (mut choices, mut end) = (Vec::new(), 0);
        for turn in &turns {
            end += turn.tokens.len();
            choices.push((self.choose)(turn.request, &output.rows[end - 1])?);
        }
        let tokens = choices.iter().map(|c| c.token).collect();
        self.ran = Some(Ran { turns, plan, output, choices });
        Ok(tokens)
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
