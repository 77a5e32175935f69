//! The careful path: rows of one block in f64, for whatever leaves the window.
//!
//! f64 holds every product of two operands (at most 48 bits), every power of two in reach and every sum of truncated terms exactly, so no
//! rounding decides a bit. Infinities and NaNs need no case of their own: IEEE rules give a sum that is NaN or an infinity exactly
//! when the specification does.

use super::spec::{LEAST_HALF, MOST_TERMS, Spec};
use super::weights::Line;
use crate::mma::{TFdpa, ZeroPolicy, convert};
use crate::simd::lanes::{Kernel, Lanes};

/// Rows of a block.
pub(super) const ROWS: usize = 8;

/// One block of up to eight rows and sixteen columns.
pub(super) struct Work<'a> {
    pub spec: &'a Spec,
    /// f32 bits of A, as rows are held, `(k, row)`.
    pub a: &'a [[u32; ROWS]],
    /// f32 bits of B: line `k * stride` holds the columns of one k.
    pub b: &'a [Line],
    pub stride: usize,
    /// First row of A; the rest counts from there.
    pub row: usize,
    /// f32 bits of C, `(row, column)`.
    pub c: [Line; ROWS],
    /// Which outputs of a row are not to be trusted; 0 leaves the row alone.
    pub outside: [u16; ROWS],
    /// Results so far, mended here.
    pub d: [Line; ROWS],
    /// Rows that had to be computed again.
    pub mended: usize,
}

/// An exponent below every other, also in a sum with another: no term.
const NONE: i32 = -10_000;
/// Exponents below are sums with [`NONE`].
const NO_TERM: i32 = -5_000;

/// Unnormalised exponents of f32 bits, for a format whose smallest field is `min_field`, of values held times `2^-rescale`.
#[inline(always)]
fn exponents<S: Lanes>(s: S, bits: S::V, min_field: u32, rescale: u32, zero: S::V) -> S::V {
    let magnitude = s.shl::<1>(bits);
    let field = s.max(s.shr::<24>(magnitude), s.splat(min_field - rescale));
    s.where_nonzero(magnitude, s.sub(field, s.splat(127 - rescale)), zero)
}

/// Mends the rows that the work names.
pub(super) struct Mend;

impl Kernel for Mend {
    type Call<'a> = Work<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, work: &mut Work<'_>) {
        skip_nothing(s, work);
        // As many rows at once as registers hold with their sums and scales in f64.
        if S::ROWS == 8 { by_rows::<S, 4>(s, work) } else { by_rows::<S, 1>(s, work) }
    }
}

/// Where a row of A is zero and so are its accumulators, the results are zero: no need to compute them.
#[inline(always)]
fn skip_nothing<S: Lanes>(s: S, work: &mut Work<'_>) {
    for r in 0..ROWS {
        let outside = work.outside[r];
        let accumulators = s.nonzero(s.shl::<1>(s.load(&work.c[r].0)));
        // (Rows that there are not are never outside.)
        if outside == 0 || outside & accumulators != 0 || work.a.iter().any(|a| a[work.row + r] << 1 != 0) {
            continue;
        }
        // Zero times an infinity or a NaN is a NaN.
        let mut largest = s.splat(0);
        for line in work.b.iter().step_by(work.stride) {
            largest = s.max_unsigned(largest, s.shl::<1>(s.load(&line.0)));
        }
        if s.gt_unsigned(largest, s.splat(0xfeff_ffff)) == 0 {
            s.store(s.clear(s.load(&work.d[r].0), outside), &mut work.d[r].0);
            work.outside[r] = 0;
        }
    }
}

#[inline(always)]
fn by_rows<S: Lanes, const R: usize>(s: S, work: &mut Work<'_>) {
    let TFdpa { fraction, zeros, floor, .. } = work.spec.params;
    let [min_a, min_b] = work.spec.min_fields;
    let rescale = work.spec.rescale();
    let least = if work.spec.halves() { LEAST_HALF } else { 1 };
    let factor = f64::from_bits(u64::from(1023 + rescale) << 52);
    let splat = |value: i32| s.splat(value as u32);
    let (zero, floor) = match zeros {
        ZeroPolicy::SentinelMinus126 => (splat(-126), NONE),
        ZeroPolicy::Exclude => (splat(NONE), floor.unwrap_or(NONE)),
    };
    let mut a_exponents = [[0; ROWS]; MOST_TERMS];
    let (pairs, _) = work.a.as_flattened().as_chunks::<16>();
    for (pair, out) in pairs.iter().zip(a_exponents.as_flattened_mut().as_chunks_mut::<16>().0) {
        s.store(exponents(s, s.load(pair), min_a, rescale, zero), out);
    }
    for first in (0..ROWS).step_by(R) {
        // (Only rows that there are can be outside.)
        if work.outside[first..first + R].iter().all(|&lanes| lanes == 0) {
            continue;
        }
        let mut largest = [zero; R];
        for r in 0..R {
            largest[r] = exponents(s, s.load(&work.c[first + r].0), least, 0, zero);
        }
        for (line, a) in work.b.iter().step_by(work.stride).zip(&a_exponents) {
            let b = exponents(s, s.load(&line.0), min_b, 0, zero);
            let a = &a.as_chunks::<R>().0[(work.row + first) / R];
            for r in 0..R {
                largest[r] = s.max(largest[r], s.add(b, s.splat(a[r])));
            }
        }
        let mut up = [s.widen(zero); R];
        let mut sum = up;
        for r in 0..R {
            // Without a term every summand is a zero, so any scale will do.
            let some = s.max(s.sub(largest[r], splat(NO_TERM)), splat(0));
            largest[r] = s.where_nonzero(some, s.max(largest[r], splat(floor)), splat(0));
            up[r] = s.power(s.sub(splat(fraction), largest[r]));
            sum[r] = s.truncate_f64(s.mul_f64(s.widen(s.load(&work.c[first + r].0)), up[r]));
        }
        for (line, a) in work.b.iter().step_by(work.stride).zip(work.a) {
            let b = s.widen(s.load(&line.0));
            let a = &a.as_chunks::<R>().0[(work.row + first) / R];
            for r in 0..R {
                let product = s.mul_f64(b, s.splat_f64(f64::from(f32::from_bits(a[r])) * factor));
                sum[r] = s.add_f64(sum[r], s.truncate_f64(s.mul_f64(product, up[r])));
            }
        }
        for r in 0..R {
            if work.outside[first + r] == 0 {
                continue;
            }
            work.mended += 1;
            let value = s.mul_f64(sum[r], s.power(s.sub(largest[r], splat(fraction))));
            let d = if work.spec.halves() {
                work.spec.half(s, s.narrow_to_odd(value))
            } else {
                convert::narrowed(s, value, work.spec.params.conversion.kept())
            };
            s.store(d, &mut work.d[first + r].0);
        }
    }
}
