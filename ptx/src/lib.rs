//! The PTX subset lastbit's kernels are written in: syntax tree, parser, printer, builder, lint.

pub mod ast;
pub mod builder;
mod names;
mod print;
mod visit;

pub use names::is_identifier;
pub use print::print;
pub use visit::Access;
