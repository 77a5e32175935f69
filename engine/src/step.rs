//! One forward pass as data: what to run, and what came out. Generation and replay speak through these types only.

use crate::error::{Error, Result};
use crate::kv::{KvTables, Slot};
use crate::ops::{Op, OpAt};
use crate::policy::{Dispatch, Shape};

/// Which rows of a group get logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Logits {
    /// None: inner chunks of a prompt.
    None,
    /// The last row.
    Last,
    /// Every row: teacher-forced replay.
    All,
}

impl Logits {
    /// How many of a group's `rows` rows, counted from the last, get logits.
    pub fn count(self, rows: u32) -> u32 {
        match self {
            Logits::None => 0,
            Logits::Last => rows.min(1),
            Logits::All => rows,
        }
    }
}

/// Consecutive positions of one request: a decode row, a prompt or a chunk of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The request's place in the cache.
    pub slot: Slot,
    /// Position of the first token; equal to the positions the slot holds.
    pub start: u32,
    /// Token ids.
    pub tokens: Vec<u32>,
    /// Rows that get logits.
    pub logits: Logits,
}

/// A forward pass to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPlan {
    /// Groups in batch order, each of another slot.
    pub groups: Vec<Group>,
    /// Kernel choices.
    pub dispatch: Dispatch,
    /// What to bring back besides the top two logits.
    pub observe: Observe,
}

impl StepPlan {
    /// What a dispatch policy looks at.
    pub fn shape(groups: &[Group]) -> Shape {
        let rows = |g: &Group| g.tokens.len() as u32;
        Shape {
            rows: groups.iter().map(rows).sum(),
            logits_rows: groups.iter().map(|g| g.logits.count(rows(g))).sum(),
            max_kv: groups.iter().map(|g| g.start.saturating_add(rows(g))).max().unwrap_or(0),
        }
    }

    /// Checks the plan against the cache and the model's limits.
    ///
    /// # Errors
    /// [`Error::Plan`], [`Error::Dispatch`].
    pub(crate) fn check(&self, kv: &KvTables, vocab: u32, max_rows: u32) -> Result<()> {
        self.check_at(kv, vocab, max_rows, |group, held| {
            let fits = group.start == held;
            (!fits).then(|| format!("starts at {}, slot {} holds {held} positions", group.start, group.slot.0))
        })
    }

    /// The same for rows that are computed again: positions that their slots hold.
    ///
    /// # Errors
    /// As [`StepPlan::check`].
    pub(crate) fn check_again(&self, kv: &KvTables, vocab: u32, max_rows: u32) -> Result<()> {
        self.check_at(kv, vocab, max_rows, |group, held| {
            let end = u64::from(group.start) + group.tokens.len() as u64;
            let why = || format!("ends at {end}, slot {} holds {held} positions", group.slot.0);
            (end > u64::from(held)).then(why)
        })
    }

    fn check_at(
        &self,
        kv: &KvTables,
        vocab: u32,
        max_rows: u32,
        misplaced: impl Fn(&Group, u32) -> Option<String>,
    ) -> Result<()> {
        let refuse = |detail: String| Err(Error::Plan { detail });
        self.dispatch.check()?;
        if self.groups.is_empty() {
            return refuse("it has no rows".into());
        }
        let mut rows = 0u64;
        for (i, group) in self.groups.iter().enumerate() {
            let (slot, held) = (group.slot.0, kv.len(group.slot)?);
            if group.tokens.is_empty() {
                return refuse(format!("group {i} has no rows"));
            }
            if let Some(why) = misplaced(group, held) {
                return refuse(format!("group {i} {why}"));
            }
            if let Some(id) = group.tokens.iter().find(|id| **id >= vocab) {
                return refuse(format!("group {i} holds id {id}, the vocabulary has {vocab}"));
            }
            if self.groups[..i].iter().any(|g| g.slot == group.slot) {
                return refuse(format!("slot {slot} is in two groups"));
            }
            rows += group.tokens.len() as u64;
        }
        if rows > u64::from(max_rows) {
            return refuse(format!("{rows} rows, the engine takes {max_rows}; use smaller chunks"));
        }
        Ok(())
    }
}

/// Operations whose results are brought back whole.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Taps {
    /// None.
    #[default]
    None,
    /// All of them.
    All,
    /// These.
    Only(Vec<OpAt>),
}

impl Taps {
    /// Is this operation wanted?
    pub fn wants(&self, at: OpAt) -> bool {
        match self {
            Taps::None => false,
            Taps::All => true,
            Taps::Only(list) => list.contains(&at),
        }
    }
}

/// What a step brings back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observe {
    /// Logits of the rows that have them.
    pub logits: bool,
    /// K and V columns, and the residual stream at the borders of layers.
    pub state: bool,
    /// Results of operations.
    pub taps: Taps,
}

impl Observe {
    /// The top two logits only: generation without evidence.
    pub const TOKENS: Observe = Observe { logits: false, state: false, taps: Taps::None };
    /// Logits, columns and boundaries: the evidence of level S.
    pub const STATE: Observe = Observe { logits: true, state: true, taps: Taps::None };
    /// Also every operation's result: level A.
    pub const ACTIVATIONS: Observe = Observe { logits: true, state: true, taps: Taps::All };
}

/// The two largest logits of a row, as the device's kernel found them; the lowest id wins ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Top2 {
    /// Id of the largest logit.
    pub first: u32,
    /// Its bits.
    pub first_bits: u32,
    /// Id of the second largest.
    pub second: u32,
    /// Its bits.
    pub second_bits: u32,
    /// Bits of the difference, `sub.rn.f32`.
    pub margin_bits: u32,
}

/// What one row left behind. Arrays are of true widths, without padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of its group in the plan.
    pub group: usize,
    /// Its request's slot.
    pub slot: Slot,
    /// Its position.
    pub position: u32,
    /// Its token.
    pub token: u32,
    /// Top two logits, if the row has logits.
    pub top2: Option<Top2>,
    /// Logits, f32 bits `(vocab)`, if the row has any and they were asked for.
    pub logits: Option<Vec<u32>>,
    /// K columns, bf16 bits `(layers, kv_heads, head_dim)`; empty unless asked for.
    pub k: Vec<u16>,
    /// V columns, likewise.
    pub v: Vec<u16>,
    /// The residual stream, bf16 bits `(layers + 1, hidden)`: after `embed` and after each layer; empty unless asked for.
    pub boundaries: Vec<u16>,
}

impl Row {
    /// A row without results.
    pub(crate) fn new(group: usize, slot: Slot, position: u32, token: u32) -> Self {
        let (k, v, boundaries) = (Vec::new(), Vec::new(), Vec::new());
        Self { group, slot, position, token, top2: None, logits: None, k, v, boundaries }
    }
}

/// Bits of a tapped result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapBits {
    /// bf16.
    Bf16(Vec<u16>),
    /// f32.
    F32(Vec<u32>),
}

/// The result of one operation over its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Which operation.
    pub at: OpAt,
    /// Indices into [`StepOutput::rows`] of the rows it holds, in order: all rows, or those with logits.
    pub rows: Vec<usize>,
    /// True width of a row.
    pub width: u32,
    /// `(rows, width)`.
    pub bits: TapBits,
}

/// What a step brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepOutput {
    /// Rows in batch order.
    pub rows: Vec<Row>,
    /// Tapped results in order of execution.
    pub taps: Vec<Tap>,
}

impl StepOutput {
    /// Drops all but the first `rows` rows: what follows is padding.
    pub(crate) fn without_padding(mut self, rows: usize) -> Self {
        self.rows.truncate(rows);
        for tap in &mut self.taps {
            tap.rows.retain(|r| *r < rows);
            let elements = tap.rows.len() * tap.width as usize;
            match &mut tap.bits {
                TapBits::Bf16(bits) => bits.truncate(elements),
                TapBits::F32(bits) => bits.truncate(elements),
            }
        }
        self
    }

    /// The tap of an operation.
    pub fn tap(&self, layer: Option<u32>, op: Op) -> Option<&Tap> {
        self.taps.iter().find(|t| t.at == OpAt { layer, op })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(groups: Vec<Group>) -> StepPlan {
        StepPlan { groups, dispatch: Dispatch::UNSPLIT, observe: Observe::TOKENS }
    }

    fn group(slot: Slot, start: u32, tokens: &[u32]) -> Group {
        Group { slot, start, tokens: tokens.to_vec(), logits: Logits::Last }
    }

    #[test]
    fn shapes_are_counted() {
        let mut groups = vec![group(Slot(0), 4, &[1]), group(Slot(1), 0, &[1, 2, 3])];
        assert_eq!(StepPlan::shape(&groups), Shape { rows: 4, logits_rows: 2, max_kv: 5 });
        groups[1].logits = Logits::All;
        groups[0].logits = Logits::None;
        assert_eq!(StepPlan::shape(&groups).logits_rows, 3);
    }

    #[test]
    fn plans_that_cannot_run_are_refused() {
        let mut kv = KvTables::new(8, 2, 64);
        let (a, b) = (kv.open().unwrap(), kv.open().unwrap());
        kv.extend(a, 3).unwrap();
        let check = |p: &StepPlan| p.check(&kv, 10, 5);
        assert!(check(&plan(vec![group(a, 3, &[1]), group(b, 0, &[9, 0])])).is_ok());
        let bad = [
            vec![],
            vec![group(a, 3, &[])],
            vec![group(a, 2, &[1])],
            vec![group(b, 0, &[10])],
            vec![group(a, 3, &[1]), group(a, 3, &[1])],
            vec![group(b, 0, &[0; 6])],
            vec![group(Slot(2), 0, &[1])],
        ];
        for groups in bad {
            assert!(matches!(check(&plan(groups.clone())), Err(Error::Plan { .. })), "{groups:?}");
        }
        let mut split = plan(vec![group(b, 0, &[1])]);
        split.dispatch.down = 0;
        assert!(matches!(check(&split), Err(Error::Dispatch { .. })));
    }
}
