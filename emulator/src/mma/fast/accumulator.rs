//! Accumulators: how C and D sit in registers, and how the sum of a step becomes one.

use super::Call;
use super::kernel::N;
use super::operand::halves;
use crate::mma::{Conversion, TFdpa, ZeroPolicy, convert};
use crate::simd::lanes::Lanes;

/// Exponent fields sit at bit 23.
const FIELD: u32 = 23;

/// The type of C and D. Between steps an accumulator is held as f32, exactly, one to a lane.
pub(super) trait Accumulator {
    /// f32 exponent field that subnormals share with the smallest normal number.
    const MIN_FIELD: u32;

    /// C by columns of 16 rows.
    fn load<S: Lanes>(s: S, call: &Call<'_>) -> [S::V; N];

    /// Stores D.
    fn store<S: Lanes>(s: S, call: &mut Call<'_>, columns: [S::V; N]);

    /// The f32 exponent field of a value's unnormalised exponent, in its place; less than every field of the window for a zero.
    fn field<S: Lanes>(s: S, value: S::V) -> S::V;

    /// The least alignment exponent of the window, as such a field: the floor, where results have one that high.
    fn floor(params: &TFdpa) -> Option<u32>;

    /// `sum * scale`, converted; `scale` is a power of two, and the product a normal f32 or zero.
    fn converted<S: Lanes>(s: S, params: &TFdpa, sum: S::V, scale: S::V) -> S::V;

    /// The same of an exact f64.
    fn converted_f64<S: Lanes>(s: S, params: &TFdpa, value: S::D) -> S::V;
}

/// f32, toward zero.
pub(super) struct F32;

impl Accumulator for F32 {
    const MIN_FIELD: u32 = 1;

    #[inline(always)]
    fn load<S: Lanes>(s: S, call: &Call<'_>) -> [S::V; N] {
        let mut out = [s.splat(0); N];
        for odd in 0..2 {
            let ([x, y], [z, w]) = (halves(s, call.c[odd]), halves(s, call.c[odd + 2]));
            let columns = s.transpose([x, y, z, w]);
            for i in 0..4 {
                out[2 * i + odd] = columns[i];
            }
        }
        out
    }

    #[inline(always)]
    fn store<S: Lanes>(s: S, call: &mut Call<'_>, columns: [S::V; N]) {
        for odd in 0..2 {
            let rows = s.transpose_back([columns[odd], columns[odd + 2], columns[odd + 4], columns[odd + 6]]);
            for (i, row) in rows.into_iter().enumerate() {
                let (register, half) = (odd + i / 2 * 2, i % 2);
                s.store(row, &mut call.d[register].as_chunks_mut::<16>().0[half]);
            }
        }
    }

    #[inline(always)]
    fn field<S: Lanes>(s: S, value: S::V) -> S::V {
        s.and(value, s.splat(0xff << FIELD))
    }

    #[inline(always)]
    fn floor(_: &TFdpa) -> Option<u32> {
        None
    }

    #[inline(always)]
    fn converted<S: Lanes>(s: S, params: &TFdpa, sum: S::V, scale: S::V) -> S::V {
        s.and(s.mul(s.to_float_toward_zero(sum), scale), s.splat(params.conversion.kept()))
    }

    #[inline(always)]
    fn converted_f64<S: Lanes>(s: S, params: &TFdpa, value: S::D) -> S::V {
        convert::narrowed(s, value, params.conversion.kept())
    }
}

/// f16, to nearest even.
pub(super) struct F16;

impl Accumulator for F16 {
    const MIN_FIELD: u32 = 127 - 14;

    #[inline(always)]
    fn load<S: Lanes>(s: S, call: &Call<'_>) -> [S::V; N] {
        let ([x, y], [z, w]) = (halves(s, call.c[0]), halves(s, call.c[1]));
        let columns = s.transpose([x, y, z, w]);
        let mut out = [s.splat(0); N];
        for i in 0..4 {
            (out[2 * i], out[2 * i + 1]) = s.widen_f16(columns[i]);
        }
        out
    }

    #[inline(always)]
    fn store<S: Lanes>(s: S, call: &mut Call<'_>, columns: [S::V; N]) {
        let mut pairs = [s.splat(0); 4];
        for i in 0..4 {
            pairs[i] = s.or(convert::packed(s, columns[2 * i]), s.shl::<16>(convert::packed(s, columns[2 * i + 1])));
        }
        for (i, row) in s.transpose_back(pairs).into_iter().enumerate() {
            s.store(row, &mut call.d[i / 2].as_chunks_mut::<16>().0[i % 2]);
        }
    }

    #[inline(always)]
    fn field<S: Lanes>(s: S, value: S::V) -> S::V {
        // (As f32, every f16 but zero is a normal number.)
        let field = s.and(value, s.splat(0xff << FIELD));
        s.where_nonzero(field, s.max_unsigned(field, s.splat(Self::MIN_FIELD << FIELD)), s.splat(0))
    }

    #[inline(always)]
    fn floor(params: &TFdpa) -> Option<u32> {
        match (params.zeros, params.floor) {
            (ZeroPolicy::Exclude, Some(floor)) if floor >= -100 => Some((127 + floor) as u32),
            _ => None,
        }
    }

    #[inline(always)]
    fn converted<S: Lanes>(s: S, params: &TFdpa, sum: S::V, scale: S::V) -> S::V {
        signed(s, params, s.round_f16(s.mul(convert::odd(s, sum), scale)))
    }

    #[inline(always)]
    fn converted_f64<S: Lanes>(s: S, params: &TFdpa, value: S::D) -> S::V {
        signed(s, params, s.round_f16(s.narrow_to_odd(value)))
    }
}

/// Zeros lose their sign, unless negative sums that underflow keep it. (A sum of no terms is `+0` already.)
#[inline(always)]
fn signed<S: Lanes>(s: S, params: &TFdpa, value: S::V) -> S::V {
    if params.conversion == Conversion::Rne16Signed {
        return value;
    }
    s.where_nonzero(s.shl::<1>(value), value, s.splat(0))
}
