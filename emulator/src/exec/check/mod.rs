//! The checker. Not in this version yet: a checked launch is refused.

use super::error::{ExecError, Place};
use super::launch::LaunchStats;
use super::program::Program;

pub(super) fn launch(program: &Program) -> Result<LaunchStats, ExecError> {
    let place = Place { kernel: program.name().to_owned(), text: String::new(), pos: ptx::ast::Pos::NONE };
    Err(ExecError::Unsupported { place, reason: "a checked launch" })
}
