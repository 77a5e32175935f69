//! Scalar PTX arithmetic on bit patterns: one operation, one file.
//!
//! Follows the PTX ISA 9.1 sections on floating-point instructions, and `specs/gpu-arithmetic.md` 5.1-5.3 where the ISA
//! leaves bits open. Every function takes bits and returns bits and computes on integers only: no host floating-point
//! operation takes part. The shape is always the same: take the operands apart, dispose of the special cases, compute
//! exactly (with a sticky last bit where the exact value is infinite), and end in the one rounding routine of the crate,
//! [`crate::round::pack`].
//!
//! # Bits
//! Results are those of IEEE 754 in the stated rounding, with these rules where the standard leaves room:
//! NaN results of f32, f16 and bf16 operations are the canonical `7fffffff` / `7fff`; an exact zero sum is `+0`, `-0`
//! when rounding toward minus infinity; `.ftz` flushes subnormal operands and subnormal *rounded* results to zero of
//! their sign; `.sat` clamps to `[+0, 1]` and turns NaN into `+0`. Compared with `rustc_apfloat` and SoftFloat on
//! boundary pairs and weighted random operands, and exhaustively where operands have 16 bits.
//!
//! [`lanes`] holds the same operations over the 32 lanes of a warp, written without branches; each is bit-compared with
//! its function here.
//!
//! Approximate forms (`.approx`) are [`crate::mufu::approx`]; what nobody has described is listed in [`crate::open`].
//!
//! Missing on purpose: status flags (PTX has none), signalling NaNs (PTX does not distinguish them).

mod float;
pub mod lanes;

mod abs_neg;
mod add;
mod atomic;
mod compare;
mod cvt_float;
mod cvt_int;
mod cvt_narrow;
mod div;
mod fma;
mod min_max;
mod mixed;
mod mul;
mod packed;
mod rcp;
mod redux;
mod relu;
mod round_int;
mod sqrt;
mod stochastic;

pub use crate::format::f32_to_tf32;
pub use crate::round::Rounding;
pub use abs_neg::{abs, neg};
pub use add::{add, sub};
pub use atomic::{AtomicOp, AtomicSpace, accumulate, atomic};
pub use compare::{Compare, compare};
pub use cvt_float::{convert, convert_satfinite, pack2, widen_bf16, widen_f16};
pub use cvt_int::{Int, from_int, to_int};
pub use cvt_narrow::{
    Narrow, ScaleRounding, bf16_to_ue8m0, half_to_narrow, narrow_to_bf16, narrow_to_f16, pack_narrow, to_narrow,
    to_ue8m0, ue8m0_to_bf16, unpack_narrow,
};
pub use div::div;
pub use float::{Bf16, F16, F32, F64, Ieee};
use float::{Magnitude, Unpacked};
pub use fma::fma;
pub use min_max::{MinMax, Signs, max, max_with, max3, min, min_with, min3};
pub use mixed::{add_mixed, fma_mixed, sub_mixed};
pub use mul::mul;
pub use packed::{Bf16x2, F16x2, F32x2, Packed, add_x2, fma_x2, map, max_x2, min_x2, mul_x2, sub_x2, zip};
pub use rcp::rcp;
pub use redux::{ReduxOp, redux, redux_f32};
pub use relu::relu;
pub use round_int::round_to_integral;
pub use sqrt::sqrt;
pub use stochastic::{Stochastic, convert_stochastic};

/// The modifiers of an arithmetic instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mods {
    /// Rounding of the result.
    pub rounding: Rounding,
    /// `.ftz`: subnormal operands and results become zero of their sign.
    pub ftz: bool,
    /// `.sat`: clamp the result to `[+0, 1]`, NaN to `+0`.
    pub sat: bool,
}

impl Mods {
    /// `.rn`, subnormals kept, no clamping: what PTX does without modifiers.
    pub const RN: Self = Self { rounding: Rounding::NearestEven, ftz: false, sat: false };
    /// `.rn.ftz`.
    pub const RN_FTZ: Self = Self { rounding: Rounding::NearestEven, ftz: true, sat: false };

    /// These modifiers with another rounding.
    #[must_use]
    pub const fn with_rounding(self, rounding: Rounding) -> Self {
        Self { rounding, ..self }
    }
}
