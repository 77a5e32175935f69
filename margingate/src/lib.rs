//! Margin-gated decoding: tokens that depend less on the batch, or not at all, for the price of verifying steps that are at risk.
//!
//! A decode step runs with fast kernels whose bits depend on the shape of the step. Where the token's [`margin`] is small, the row is
//! computed again by kernels whose bits do not (the *reference*), and that result decides. Source: MarginGate (arXiv 2605.30218), which gives a
//! token-level, greedy, empirical policy; thresholds with a stated risk, sampling, the miss meter, the queue and the bounds are added here.
//!
//! * [`margin`]: how far a step is from choosing another token.
//! * [`gate`]: the decisions, the queue of held rows, write-back policies; an engine sits behind the trait [`Reference`].
//! * [`threshold`]: a threshold belongs to one model on one stack and refuses any other.
//! * [`calibrate`](mod@calibrate), [`trace`], [`bound`]: thresholds from measured pairs, the pairs as text, and what a count may claim.
//! * [`signal`], [`study`](mod@study): risk signals beyond the raw margin, compared at equal misses on the same traces.
//! * [`window`]: the always-on baseline that verifies windows; [`cost`]: fixed and proportional cost.
//!
//! Nothing here knows an engine, a record or a clock. Logarithms and exponentials are those of the pinned `libm`.

pub mod bound;
pub mod calibrate;
pub mod cost;
pub mod gate;
pub mod margin;
pub mod signal;
pub mod study;
pub mod threshold;
pub mod trace;
pub mod window;

pub use gate::{Decision, Gate, Reference, Settings, WriteBack};
pub use margin::{Margin, Top};
pub use threshold::{Binding, Threshold};

/// What every report about a gated run must say.
pub const LIMITS: [&str; 6] = [
    "Equality is of token ids (level T) only: K/V columns and logits of steps that were not verified keep the bits of their batch, so log-probabilities and cache contents are not reproducible.",
    "The guarantee is statistical: a flip at a margin above the threshold is not seen. Counts carry a bound; no count proves that there are none.",
    "The bound holds for steps like those that were counted: another model, stack, kind of prompt or load needs its own calibration.",
    "With write-back `catch-up` and `all` the reference decides over its own K/V columns, as for the request alone; otherwise it reads columns that keep their batch's bits, and a near-exact tie can fall differently in it as well.",
    "Long reasoning traces have smaller margins and trigger more.",
    "Prefill runs by the reference, or else its first token is gated like any other and its columns keep their batch's bits.",
];
