//! f16 results, to nearest even, without a host rounding: by integers and conversions toward zero.

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

/// An f32 as f16 in the low half, to nearest even, zeros with their sign, NaN as `7fff`.
///
/// The magnitude is scaled by a power of two so that one bit below the result's last is worth one; it is cut to an integer, and that
/// bit, whether anything was lost, and the last bit decide. Adding the integer to the exponent's place carries as it must.
#[inline(always)]
pub(crate) fn rounded<S: Lanes>(s: S, x: S::V) -> S::V {
    let magnitude = s.and(x, s.splat(0x7fff_ffff));
    // Subnormal results share the exponent of the smallest normal ones.
    let exponent = s.max_unsigned(s.and(magnitude, s.splat(0x7f80_0000)), s.splat((127 - 14) << 23));
    let scaled = s.sub(s.add(magnitude, s.splat((127 + 11) << 23)), exponent);
    let cut = s.truncate(scaled);
    let lost = s.sub(s.to_float_toward_zero(cut), scaled);
    let last = s.and(s.shr::<1>(cut), s.splat(1));
    let significand = s.shr::<1>(s.add(cut, s.where_nonzero(lost, s.splat(1), last)));
    let bits = s.add(s.shr::<13>(s.sub(exponent, s.splat((127 - 14) << 23))), significand);
    let bits = s.or(s.min_unsigned(bits, s.splat(0x7c00)), s.and(s.shr::<16>(x), s.splat(0x8000)));
    let nan = s.max(s.sub(magnitude, s.splat(0x7f80_0000)), s.splat(0));
    s.where_nonzero(nan, s.splat(0x7fff), bits)
}

/// `d = a + b` of two f16 a lane: IEEE additions to nearest even. The sum of two f16 is exact in f64.
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
            let low = rounded(s, s.narrow_to_odd(s.add_f64(s.widen(a_low), s.widen(b_low))));
            let high = rounded(s, s.narrow_to_odd(s.add_f64(s.widen(a_high), s.widen(b_high))));
            s.store(s.or(low, s.shl::<16>(high)), &mut call.d.as_chunks_mut::<16>().0[half]);
        }
    }
}
