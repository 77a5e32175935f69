//! The one error type of the crate.

use crate::conformance::VectorProblem;

/// What went wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The generation has no such matrix instruction, or nobody has modelled it.
    #[error(
        "{profile} has no model of `{instruction}`: use a shape and types that `Profile::describe` lists, or another profile"
    )]
    UnsupportedMma {
        /// Profile name.
        profile: &'static str,
        /// The instruction, in PTX order.
        instruction: String,
    },
    /// The instruction is modelled, but its fragment layout in warp registers is not.
    #[error(
        "`{instruction}` has no warp register layout here: only mma.sync m16n8k16, m16n8k8, m16n8k4 and m8n8k4 have"
    )]
    UnsupportedLayout {
        /// The instruction, in PTX order.
        instruction: String,
    },
    /// The instruction is modelled, but has no fast matrix product.
    #[error(
        "`{instruction}` of {profile} has no packed product: only truncated fused dot-adds with f32 accumulators have; use the reference, `Operation::dot`"
    )]
    UnsupportedGemm {
        /// Profile name.
        profile: &'static str,
        /// The instruction, in PTX order.
        instruction: String,
    },
    /// An operand of a matrix product does not fit it.
    #[error("matrix product: {operand}: {problem}")]
    GemmOperand {
        /// `rows`, `weights`, `accumulators` or `ranges`.
        operand: &'static str,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// A caller passed the wrong number of registers.
    #[error("operand {operand} of `{instruction}` takes {expected} registers, not {found}")]
    FragmentCount {
        /// The instruction, in PTX order.
        instruction: String,
        /// `A`, `B`, `C` or `D`.
        operand: char,
        /// Registers the instruction takes.
        expected: usize,
        /// Registers passed.
        found: usize,
    },
    /// A line of a vector file is not a vector.
    #[error("{file}:{line}: {problem}")]
    MalformedVector {
        /// Name of the file, as the caller gave it.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        problem: VectorProblem,
    },
    /// A vector file could not be read to its end.
    #[error("{file}:{line}: cannot read: {source}")]
    UnreadableVectors {
        /// Name of the file, as the caller gave it.
        file: String,
        /// Line number, from 1, that was being read.
        line: usize,
        /// The cause.
        source: std::io::Error,
    },
    /// A function of the special function unit that nobody has modelled.
    #[error("MUFU.{function} has no model: a dump of {probe} from a real unit would settle it")]
    UnsupportedMufu {
        /// The function, in lower case.
        function: &'static str,
        /// The probe that is missing.
        probe: &'static str,
    },
    /// A dump of the special function unit cannot be used.
    #[error("MUFU dump {name}: {problem}")]
    MufuDump {
        /// Which dump.
        name: String,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// A MUFU profile cannot be read.
    #[error("MUFU profile, line {line}: {problem}")]
    MufuText {
        /// Line number, from 1.
        line: usize,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// An operation, or a corner of one, whose bits nobody has made public.
    #[error("`{operation}` has no public model: {probe} would settle it")]
    Unsupported {
        /// The operation, as PTX or CUDA writes it.
        operation: &'static str,
        /// The measurement that is missing.
        probe: &'static str,
    },
}
