//! The PTX subset lastbit's kernels are written in: syntax tree, parser, printer, builder, lint.

pub mod ast;
