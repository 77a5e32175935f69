//! The PTX subset lastbit's kernels are written in: syntax tree, parser, printer, builder, lint.

pub mod ast;
pub mod builder;
mod visit;

pub use visit::Access;
