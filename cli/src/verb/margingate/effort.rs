//! What a way of serving computes, counted: forward passes, rows, rows with logits. Unlike seconds these counts repeat exactly.

use engine::batch::{Operator, OperatorError, StepLog};
use engine::config::Config;
use engine::gated::Judged;
use engine::policy::{Dispatch, Shape};
use engine::sampler::Choice;
use engine::scheduler::RequestKey;
use engine::step::{StepOutput, StepPlan};
use engine::{Engine, Result};
use serde::{Deserialize, Serialize};

/// Counts of a run, padding included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// Forward passes: each reads all weights.
    pub passes: u64,
    /// Rows.
    pub rows: u64,
    /// Rows with logits.
    pub heads: u64,
}

impl Effort {
    /// One more pass of a plan, padded to `rows` rows; padding has logits.
    pub fn add(&mut self, plan: &StepPlan, rows: u32) {
        let shape = StepPlan::shape(&plan.groups);
        self.passes += 1;
        self.rows += u64::from(rows);
        self.heads += u64::from(shape.logits_rows + rows.saturating_sub(shape.rows));
    }

    /// All of two runs.
    pub fn and(self, other: Self) -> Self {
        Self { passes: self.passes + other.passes, rows: self.rows + other.rows, heads: self.heads + other.heads }
    }

    /// Multiply-accumulates of the matrix products; attention is left out.
    pub fn products(self, c: &Config) -> f64 {
        let (hidden, ffn, head) = (f64::from(c.hidden), f64::from(c.ffn), f64::from(c.head_dim));
        let (q, kv) = (f64::from(c.q_heads) * head, f64::from(c.kv_heads) * head);
        let body = f64::from(c.layers) * hidden * (2.0 * q + 2.0 * kv + 3.0 * ffn);
        self.rows as f64 * body + self.heads as f64 * hidden * f64::from(c.vocab_size)
    }
}

/// Counts what an operator lets run.
pub struct Counted<'a> {
    /// The operator.
    pub inner: &'a mut dyn Operator,
    /// So far.
    pub effort: Effort,
}

impl Operator for Counted<'_> {
    fn dispatch(&mut self, shape: Shape, policy: Dispatch) -> Dispatch {
        self.inner.dispatch(shape, policy)
    }

    fn run(&mut self, engine: &mut Engine, plan: &StepPlan) -> Result<StepOutput> {
        self.inner.run(engine, plan)
    }

    fn emit(&mut self, request: RequestKey, position: u32, choice: Choice) -> u32 {
        self.inner.emit(request, position, choice)
    }

    fn judge(&mut self, request: RequestKey, position: u32, judged: Judged) -> Judged {
        self.inner.judge(request, position, judged)
    }

    fn step(&mut self, step: &StepLog<'_>) -> std::result::Result<(), OperatorError> {
        self.effort.add(step.plan, step.padded_rows);
        self.inner.step(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::kv::Slot;
    use engine::step::{Group, Logits, Observe};

    #[test]
    fn padding_is_counted_with_its_logits() {
        let group =
            |slot, rows: u32, logits| Group { slot: Slot(slot), start: 0, tokens: vec![1; rows as usize], logits };
        let groups = vec![group(0, 5, Logits::Last), group(1, 2, Logits::None)];
        let plan = StepPlan { groups, dispatch: Dispatch::UNSPLIT, observe: Observe::TOKENS };
        let mut effort = Effort::default();
        effort.add(&plan, 7);
        effort.add(&plan, 8);
        assert_eq!(effort, Effort { passes: 2, rows: 15, heads: 3 });
        let config = engine::model::embedded().unwrap().config;
        let one = Effort { passes: 1, rows: 1, heads: 0 };
        let head = Effort { passes: 1, rows: 0, heads: 1 };
        let whole = one.products(&config) + head.products(&config);
        // A product a weight: all of the model's but the nine norms; its head is the embedding.
        assert_eq!(whole, 1_771_200.0 - 9.0 * 192.0);
    }
}
