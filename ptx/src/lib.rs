//! The PTX subset lastbit's kernels are written in: syntax tree, parser, printer, builder, lint.

pub mod ast;
pub mod builder;
mod lint;
mod names;
mod parse;
mod print;
mod types;
mod validate;
mod visit;

pub use lint::{APPROX_ALLOWED, AllowedApprox, Finding, LintOptions, Rule, Severity, lint, lint_with};
pub use names::is_identifier;
pub use parse::{Limits, MAX_NAME, ParseError, ParseErrorKind, parse, parse_with};
pub use print::{print, print_inst};
pub use validate::{
    Defect, MAX_BLOCK_THREADS, MAX_PARAM_BYTES, MAX_SHARED_BYTES, MmaForm, ValidateError, param_offsets,
    shared_offsets, validate, validate_kernel,
};
pub use visit::Access;
