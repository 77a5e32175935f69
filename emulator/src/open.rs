//! Operations whose bits nobody has made public, each with the measurement that would settle it.
//!
//! They are refused by name. A new answer is a new row of data or a new module; until then nothing here is guessed.

use crate::Error;

/// An operation, or a corner of one, without a public model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Open {
    /// `sqrt.approx[.ftz].f32`.
    SqrtApprox,
    /// `tanh.approx.f32`.
    TanhApprox,
    /// `ex2.approx.{f16,f16x2}`.
    Ex2F16,
    /// `ex2.approx.ftz.{bf16,bf16x2}`.
    Ex2Bf16,
    /// `tanh.approx.{f16,f16x2}`.
    TanhF16,
    /// `tanh.approx.{bf16,bf16x2}`.
    TanhBf16,
    /// `rcp.approx.ftz.f64`.
    Rcp64h,
    /// `rsqrt.approx.ftz.f64`.
    Rsqrt64h,
    /// `div.full[.ftz].f32`.
    DivFull,
    /// `div.approx.f32` of a subnormal divisor.
    DivApproxSubnormal,
    /// `cvt.rs` to f16 below the normal range.
    StochasticSubnormal,
    /// Which random bits of the register belong to which element of `cvt.rs.{f16x2,bf16x2,e4m3x4,...}`.
    StochasticPair,
    /// `sinf`, `cosf` of magnitudes of 105615 and more.
    LargeSine,
    /// `tanhf` of the CUDA math library.
    Tanhf,
    /// PyTorch reductions of rows so long that several blocks share one.
    TorchSeveralBlocks,
}

impl Open {
    /// Every entry.
    pub const ALL: [Self; 15] = [
        Self::SqrtApprox,
        Self::TanhApprox,
        Self::Ex2F16,
        Self::Ex2Bf16,
        Self::TanhF16,
        Self::TanhBf16,
        Self::Rcp64h,
        Self::Rsqrt64h,
        Self::DivFull,
        Self::DivApproxSubnormal,
        Self::StochasticSubnormal,
        Self::StochasticPair,
        Self::LargeSine,
        Self::Tanhf,
        Self::TorchSeveralBlocks,
    ];

    /// The operation as PTX or CUDA writes it.
    #[must_use]
    pub const fn operation(self) -> &'static str {
        match self {
            Self::SqrtApprox => "sqrt.approx.f32",
            Self::TanhApprox => "tanh.approx.f32",
            Self::Ex2F16 => "ex2.approx.f16",
            Self::Ex2Bf16 => "ex2.approx.ftz.bf16",
            Self::TanhF16 => "tanh.approx.f16",
            Self::TanhBf16 => "tanh.approx.bf16",
            Self::Rcp64h => "rcp.approx.ftz.f64",
            Self::Rsqrt64h => "rsqrt.approx.ftz.f64",
            Self::DivFull => "div.full.f32",
            Self::DivApproxSubnormal => "div.approx.f32 of a subnormal divisor",
            Self::StochasticSubnormal => "cvt.rs.f16x2.f32 of a result below the normal range",
            Self::StochasticPair => "cvt.rs of packed results",
            Self::LargeSine => "sinf and cosf from 105615 up",
            Self::Tanhf => "tanhf",
            Self::TorchSeveralBlocks => "a PyTorch reduction of a row that several blocks share",
        }
    }

    /// The measurement that would settle it.
    #[must_use]
    pub const fn probe(self) -> &'static str {
        match self {
            Self::SqrtApprox => {
                "a dump of sqrt.approx.ftz.f32 over [1, 4), which tells x * RSQ(x) from a unit of its own, and over the \
                 subnormals without .ftz"
            }
            Self::TanhApprox => "a dump of tanh.approx.f32 over [2^-14, 16)",
            Self::Ex2F16 => "all 2^16 outputs of ex2.approx.f16",
            Self::Ex2Bf16 => "all 2^16 outputs of ex2.approx.ftz.bf16",
            Self::TanhF16 => "all 2^16 outputs of tanh.approx.f16",
            Self::TanhBf16 => "all 2^16 outputs of tanh.approx.bf16",
            Self::Rcp64h => "the high words of rcp.approx.ftz.f64 for all 2^20 upper fractions of [1, 2)",
            Self::Rsqrt64h => {
                "the high words of rsqrt.approx.ftz.f64 for all 2^20 upper fractions of [1, 2) and [2, 4)"
            }
            Self::DivFull => {
                "outputs of div.full.f32 for divisors 2^e * (1 + 2^-23) at every exponent e, which show where it scales"
            }
            Self::DivApproxSubnormal => "outputs of div.approx.f32 for all 2^23 subnormal divisors of 1",
            Self::StochasticSubnormal => {
                "outputs of cvt.rs.f16x2.f32 for (1 + 2^-20) * 2^-16 with each of its random bits set alone"
            }
            Self::StochasticPair => {
                "outputs of each packed cvt.rs for halfway values with each of the 32 random bits set alone"
            }
            Self::LargeSine => {
                "outputs of sinf and cosf at 105615 * 2^k and the Payne-Hanek table of that library release"
            }
            Self::Tanhf => "outputs of tanhf over [2^-12, 10) and the library release it came from",
            Self::TorchSeveralBlocks => "sums of such rows on a card, with its number of multiprocessors",
        }
    }

    /// The refusal.
    #[must_use]
    pub const fn unsupported(self) -> Error {
        Error::Unsupported { operation: self.operation(), probe: self.probe() }
    }
}
