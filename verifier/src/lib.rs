//! Replays logged inference to the last bit, says what differs first and what else would explain it, and reports.
//!
//! * [`verdict`]: what an audit can conclude, and how conclusions fold.
//! * [`audit`](mod@audit): one record; [`log`](mod@log): a whole log.
//! * [`replay`]: the door to arithmetic; [`engine_replay`]: the engine behind it.
//! * [`walk`](mod@walk) and [`causes`]: replay pass by pass, and the search for what explains the bits.
//! * [`classmap`]: which numbers of rows share their bits, measured.
//! * [`result`]: the signed document `audit-result/v1`; [`explain`]: the same in words; [`report`]: the same as a page.
//!
//! A verdict needs a complete bundle and the model files: no GPU, no network, no clock. Whatever is not known fails closed.

pub mod alternatives;
pub mod audit;
pub mod bound;
pub mod capture;
pub mod causes;
pub mod challenge;
pub mod checks;
pub mod claims;
pub mod classmap;
pub mod compare;
pub mod directory;
pub mod disclosure;
pub mod dot;
pub mod engine_replay;
pub mod error;
pub mod explain;
pub mod gate;
pub mod headline;
pub mod identity;
pub mod intake;
pub mod level_t;
pub mod log;
pub mod logprobs;
pub mod ops;
pub mod plan;
pub mod ranges;
pub mod replay;
pub mod report;
pub mod result;
pub mod reveal;
pub mod scheduling;
pub mod stops;
pub mod strata;
pub mod tables;
pub mod tokens;
pub mod verdict;
pub mod walk;

pub use error::Error;
pub use verdict::{Level, Verdict};
