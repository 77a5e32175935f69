//! Final conversions, and additions of f16, on vectors.

use crate::mma::layout::Register;
use crate::simd::lanes::{Kernel, Lanes};

/// i32 as f32, what is inexact rounded to odd: to the neighbour whose last bit is set. A later rounding to fewer than 23 bits then gives what
/// it would of the exact value.
#[inline(always)]
pub(crate) fn odd<S: Lanes>(s: S, sum: S::V) -> S::V {
    let cut = s.to_float_toward_zero(sum);
    let lost = s.sub(sum, s.truncate(cut));
    s.where_nonzero(lost, s.or(cut, s.splat(1)), cut)
}

/// The final conversion to f32 of an exact f64: toward zero, with the bits that it keeps; a NaN is kept whole, and what becomes zero is +0.
#[inline(always)]
pub(crate) fn narrowed<S: Lanes>(s: S, value: S::D, kept: u32) -> S::V {
    let d = s.narrow_toward_zero(value);
    if kept == !0 {
        return d;
    }
    let nan = s.gt_unsigned(s.shl::<1>(d), s.splat(0xff00_0000));
    let cut = s.and(d, s.splat(kept));
    let whole = s.or(cut, s.clear(s.splat(!kept), !nan));
    s.clear(whole, !s.nonzero(s.shl::<1>(cut)))
}

/// The sum of two f16, held as f32, rounded to f16 and held so.
///
/// It is rounded twice, first to f32, and comes out as if once: where a sum of two numbers of 11 bits is rounded to 24, at least
/// `2 * 11 + 2`, no second rounding to 11 bits can go wrong (Figueroa 1995), and sums among the subnormals of f16 are exact.
#[inline(always)]
pub(crate) fn sum<S: Lanes>(s: S, a: S::V, b: S::V) -> S::V {
    s.round_f16(s.fma(s.splat(127 << 23), a, b))
}

/// `d = a + b` of two f16 a lane: IEEE additions to nearest even, NaN as `7fff`.
pub(crate) struct Sum<'a> {
    pub a: &'a Register,
    pub b: &'a Register,
    pub d: &'a mut Register,
}

/// Computes a [`Sum`].
pub(crate) struct Add;

impl Kernel for Add {
    type Call<'a> = Sum<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, call: &mut Sum<'_>) {
        for half in 0..2 {
            let (a, b) = (s.load(&call.a.as_chunks::<16>().0[half]), s.load(&call.b.as_chunks::<16>().0[half]));
            let ((a_low, a_high), (b_low, b_high)) = (s.widen_f16(a), s.widen_f16(b));
            let [low, high] = [sum(s, a_low, b_low), sum(s, a_high, b_high)].map(|sum| packed(s, sum));
            s.store(s.or(low, s.shl::<16>(high)), &mut call.d.as_chunks_mut::<16>().0[half]);
        }
    }
}

/// An f16 held as f32 in the low half, NaN as `7fff`.
#[inline(always)]
pub(crate) fn packed<S: Lanes>(s: S, value: S::V) -> S::V {
    let bits = s.narrow_f16(value);
    let nan = s.max(s.sub(s.and(bits, s.splat(0x7fff)), s.splat(0x7c00)), s.splat(0));
    s.where_nonzero(nan, s.splat(0x7fff), bits)
}
