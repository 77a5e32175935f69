//! The fast path: one warp-level T-FDPA instruction with vectors, bit for bit.
//!
//! Covers f16, bf16 and TF32 operands with f32 accumulators, f16 operands with f16 accumulators, and FP8 with both: where there is a unit
//! for it, and where it is widened to f16 ([`fp8`]); m16n8kK. Lanes are the 16 rows of the tile; a vector holds one k of A, and
//! one element of B multiplies it. With `E` the alignment exponent of an output and `h = F - E`, a product costs four instructions:
//!
//! ```text
//! p = a * b               f32 product, exact where it matters
//! q = bits(p) + (h << 23) p * 2^h, by integer addition to the exponent field
//! t = truncate(q)         float to i32 toward zero: the truncated term
//! sum += t                exact in i32
//! ```
//!
//! and the result is `sum` converted to f32 toward zero, times `2^-h`, both exact or truncating as the specification wants. No host
//! rounding decides a bit, because of five facts (`fast-exact-mma`, sections 2 to 4):
//!
//! 1. **Exponents.** An operand becomes a 16-bit word, its exponent field shifted so that the sum of two words is the (twice biased) field
//!    of the product's unnormalised exponent, and so that one 32-bit addition serves two k at once. The maximum over k and over the
//!    accumulator's field is `E`. Only terms with a zero or subnormal operand are misstated, and operands are limited to less than
//!    `2^(F+2)` so that all of those lie, truly and as stated, below the window or at its edge: an `E` found inside the window is right
//!    under either zero policy, and above every exponent floor.
//! 2. **The window.** For `0 <= h <= 125` the integer addition cannot carry out of the exponent field: `|p| < 2^(E+2)`, so the field ends
//!    at most at `128 + F`. A zero or subnormal `p` becomes less than 1/2, and truncates to 0 as it should: the unit `2^-h` is at least
//!    `2^-125`.
//! 3. **Products round only below the unit.** `p` is inexact only below `2^-126`, where the term truncates to 0 anyway.
//! 4. **The end.** A conversion toward zero keeps the top 24 bits, and the power of two is exact: the result is 0 (as `+0`) or at least
//!    `2^-125`, and `E <= F` excludes overflow.
//! 5. **i32 suffices** for 16 products (`4 * terms * 2^F <= 2^31`, and truncated significands stay below 4). Adding the accumulator can
//!    overflow if that bound is tight (16 terms, 25 bits); the sign test of signed addition finds it. Of 32 products, FP8 all of them, the
//!    second 16 are added last, with the same test.
//!
//! FP8 products reach `2^30`, above a window that ends at `2^F`. So A is held times `2^-20`, and every `h` above is 20 more; the accumulator
//! alone may then have a negative one, and is scaled by a float product instead, exactly where its term is not 0.
//!
//! With f16 accumulators the end is another: the sum becomes an f32 rounded to odd, and that an f16 to nearest even
//! ([`convert`](super::convert)). The exponent floor lies inside the window there, and is applied.
//!
//! Outputs outside the window without any nonzero term are zero. All others there, overflowed ones, and tiles with an operand beyond the
//! limit (infinities and NaNs among them) take the [`careful`] path: the same sum in f64, which holds every product and every scale
//! exactly, at a quarter of the speed.
//!
//! One text serves AVX-512, AVX2 and plain Rust ([`Lanes`](crate::simd::lanes::Lanes)). Every level is compared bit for bit with
//! [`TFdpa::dot`](super::TFdpa::dot), and deliberate mistakes in the steps above are shown to be noticed.

#![allow(clippy::needless_range_loop)] // Index loops of constant length read like the lanes they are, and always unroll.
#![allow(unsafe_code)] // Only to call a kernel compiled for instructions that were detected.

mod accumulator;
mod careful;
mod fp8;
mod kernel;
mod operand;
#[cfg(test)]
mod tests;

use super::layout::{Layout, Register};
use super::{Conversion, Operation, TFdpa};
use crate::format::Elem;
use crate::simd::Level;
use crate::simd::lanes::{Kernel, portable};
#[cfg(target_arch = "x86_64")]
use crate::simd::lanes::{avx2, avx512};
use accumulator::Accumulator;
use fp8::TwoSteps;
use kernel::{Dense, Hooks, Production};
use operand::{Bf16, F16, Form, Fp8, Fp8AsF16, Operand, Tf32};

/// One instruction to execute.
pub(super) struct Call<'a> {
    pub params: &'a TFdpa,
    /// Of A and B, where they have 8 bits.
    forms: [Form; 2],
    pub a: &'a [&'a Register],
    pub b: &'a [&'a Register],
    pub c: &'a [&'a Register],
    pub d: &'a mut [Register],
}

/// The fast path of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fast {
    /// One kernel.
    One { params: TFdpa, forms: [Form; 2], path: Path },
    /// Two steps and an addition.
    Two(TwoSteps),
}

impl Fast {
    /// The fast path of `operation` on `level`, if there is one and the machine has the level.
    pub(super) fn new(operation: &Operation, layout: &Layout, level: Level) -> Option<Self> {
        match operation {
            Operation::TFdpa(params) => {
                let forms = [layout.types.a, layout.types.b].map(Form::of);
                Path::with::<Production>(params, layout, level).map(|path| Self::One { params: *params, forms, path })
            }
            Operation::Fp8ThroughF16(rule) => TwoSteps::new(rule, layout, level).map(Self::Two),
            _ => None,
        }
    }

    /// `d = a b + c`, for as many registers as the layout says.
    #[inline]
    pub(super) fn run(&self, a: &[&Register], b: &[&Register], c: &[&Register], d: &mut [Register]) {
        match self {
            Self::One { params, forms, path } => path.run(&mut Call { params, forms: *forms, a, b, c, d }),
            Self::Two(steps) => steps.run(a, b, c, d),
        }
    }
}

/// A compiled kernel. To call one, the machine must have the instructions it was compiled for.
type Compiled = unsafe fn(&mut Call<'_>);

/// A compiled kernel that this machine can run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path(Compiled);

impl Path {
    fn with<H: Hooks>(params: &TFdpa, layout: &Layout, level: Level) -> Option<Self> {
        if level > Level::detect() {
            return None;
        }
        compiled::<H>(params, layout, level).map(Self)
    }

    /// Executes `call`, which must have as many registers as the layout says.
    #[inline]
    fn run(self, call: &mut Call<'_>) {
        // SAFETY: `with` has seen that the machine has the level this was compiled for.
        unsafe { self.0(call) }
    }
}

/// Whether the kernels have this arithmetic.
fn covers(params: &TFdpa) -> bool {
    // Inside the window a floor of f32 results must not matter, nor a user's floor leave the range of the careful path.
    let (elem, highest) = match params.conversion {
        Conversion::Rz32 | Conversion::RzE8m13 => (Elem::F32, params.fraction - 125),
        Conversion::Rne16 | Conversion::Rne16Signed => (Elem::F16, 0),
    };
    params.c == elem
        && (1..=25).contains(&params.fraction)
        && params.floor.is_none_or(|floor| (-1000..=highest).contains(&floor))
}

fn compiled<H: Hooks>(params: &TFdpa, layout: &Layout, level: Level) -> Option<Compiled> {
    let fp8 = |elem| matches!(elem, Elem::E4m3 | Elem::E5m2);
    let mixed = layout.types.a != layout.types.b && !(fp8(layout.types.a) && fp8(layout.types.b));
    if !covers(params) || layout.matrices != 1 || mixed {
        return None;
    }
    let k = layout.shape.k as usize;
    let blocks = k.div_ceil(params.max_terms);
    if !k.is_multiple_of(blocks) || (k / blocks != params.max_terms && blocks != 1) {
        return None;
    }
    match (layout.types.a, params.c, k, blocks) {
        (Elem::Bf16, Elem::F32, 16, 1) => at::<Bf16, accumulator::F32, H, 8, 1>(level),
        (Elem::Bf16, Elem::F32, 16, 2) => at::<Bf16, accumulator::F32, H, 8, 2>(level),
        (Elem::Bf16, Elem::F32, 8, 1) => at::<Bf16, accumulator::F32, H, 4, 1>(level),
        (Elem::F16, Elem::F32, 16, 1) => at::<F16, accumulator::F32, H, 8, 1>(level),
        (Elem::F16, Elem::F32, 16, 2) => at::<F16, accumulator::F32, H, 8, 2>(level),
        (Elem::F16, Elem::F32, 8, 1) => at::<F16, accumulator::F32, H, 4, 1>(level),
        (Elem::F16, Elem::F16, 16, 1) => at::<F16, accumulator::F16, H, 8, 1>(level),
        (Elem::F16, Elem::F16, 16, 2) => at::<F16, accumulator::F16, H, 8, 2>(level),
        (Elem::F16, Elem::F16, 8, 1) => at::<F16, accumulator::F16, H, 4, 1>(level),
        (Elem::Tf32, Elem::F32, 8, 1) => at::<Tf32, accumulator::F32, H, 4, 1>(level),
        (Elem::Tf32, Elem::F32, 8, 2) => at::<Tf32, accumulator::F32, H, 4, 2>(level),
        (Elem::Tf32, Elem::F32, 4, 1) => at::<Tf32, accumulator::F32, H, 2, 1>(level),
        (Elem::E4m3 | Elem::E5m2, Elem::F32, 32, 1) => at::<Fp8, accumulator::F32, H, 16, 1>(level),
        (Elem::E4m3 | Elem::E5m2, Elem::F32, 32, 2) => at::<Fp8, accumulator::F32, H, 16, 2>(level),
        (Elem::E4m3 | Elem::E5m2, Elem::F32, 16, 1) => at::<Fp8, accumulator::F32, H, 8, 1>(level),
        (Elem::E4m3 | Elem::E5m2, Elem::F16, 32, 1) => at::<Fp8, accumulator::F16, H, 16, 1>(level),
        (Elem::E4m3 | Elem::E5m2, Elem::F16, 32, 2) => at::<Fp8, accumulator::F16, H, 16, 2>(level),
        (Elem::E4m3 | Elem::E5m2, Elem::F16, 16, 1) => at::<Fp8, accumulator::F16, H, 8, 1>(level),
        _ => None,
    }
}

fn at<T: Operand, C: Accumulator, H: Hooks, const PAIRS: usize, const BLOCKS: usize>(level: Level) -> Option<Compiled> {
    match level {
        Level::Portable => Some(|call| Dense::<T, C, H, PAIRS, BLOCKS>::run(portable::Portable, call)),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => Some(avx2::run::<Dense<T, C, H, PAIRS, BLOCKS>>),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => Some(avx512::run::<Dense<T, C, H, PAIRS, BLOCKS>>),
        #[cfg(not(target_arch = "x86_64"))]
        _ => None,
    }
}
