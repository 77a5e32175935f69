//! The PTX subset lastbit's kernels are written in: syntax tree, parser, printer, builder, lint.
//!
//! A kernel is one text. The driver of a GPU compiles it, the emulator interprets it, and its
//! digest names it; so everything here goes through one tree ([`ast`]):
//!
//! - [`builder`] writes a kernel in Rust, each rounding spelled out;
//! - [`print()`] gives its one canonical text, [`parse()`] reads text back, and
//!   `parse(&print(&m)) == m` for every valid module;
//! - [`validate()`] says what is a module of the subset at all;
//! - [`lint()`] says whether its bits can be relied on: roundings, special functions, divergence.
//!
//! No I/O, no clock, no panic on any text. The subset is PTX ISA 7.0 for `sm_80` and later, and of
//! younger versions the arithmetic of narrow types: 16-bit floats and pairs, conversions down to four bits, matrix
//! operands of 8 and 4 bits ([`least_header`] says which header they need). What is outside it is refused, never skipped.
//!
//! # Examples
//!
//! ```
//! use ptx::ast::Module;
//! use ptx::builder::{F32, KernelBuilder};
//!
//! // out[row] = sum of the 32 numbers of a row: one warp a row, a butterfly in fixed order.
//! let mut k = KernelBuilder::new("row_sum");
//! k.max_ntid(32, 1, 1);
//! let (x, out) = (k.param_ptr("x"), k.param_ptr("out"));
//! let (row, lane) = (k.ctaid_x(), k.tid_x());
//! let i = k.mad_lo_u32(row, 32, lane);
//! let from = k.mad_wide_u32(i, 4, x);
//! let mut sum: F32 = k.ld_global(from, 0);
//! for distance in [16, 8, 4, 2, 1] {
//!     let other = k.shfl_bfly(sum, distance);
//!     sum = k.add_rn(sum, other);
//! }
//! let to = k.mad_wide_u32(row, 4, out);
//! let first = k.setp_eq_u32(lane, 0);
//! k.with_guard(first, |k| k.st_global(to, 0, sum));
//! let module = Module::new(vec![k.finish()]);
//!
//! let text = ptx::print(&module);
//! assert!(text.contains("\tadd.rn.f32 %f2, %f0, %f1;\n"));
//! assert_eq!(ptx::parse(&text)?, module);
//! assert!(ptx::lint(&module).is_empty());
//!
//! // The same sum with its rounding left out is refused.
//! let sloppy = ptx::parse(&text.replace("add.rn", "add"))?;
//! assert_eq!(ptx::lint(&sloppy)[0].rule, ptx::Rule::Rounding);
//! # Ok::<(), ptx::ParseError>(())
//! ```

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
    Defect, MAX_BLOCK_THREADS, MAX_PARAM_BYTES, MAX_SHARED_BYTES, MmaForm, ValidateError, least_header, param_offsets,
    shared_offsets, validate, validate_kernel,
};
pub use visit::Access;
