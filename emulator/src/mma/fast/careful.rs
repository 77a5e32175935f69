//! The careful path: whole columns in f64, for whatever leaves the window.
//!
//! f64 holds every product of two operands (at most 48 bits), every power of two in reach and every sum of truncated terms exactly, so
//! again no rounding decides a bit. Infinities and NaNs need no case of their own: IEEE rules give a sum that is NaN or an infinity
//! exactly when the specification does.

use super::accumulator::Accumulator;
use super::kernel::N;
use crate::mma::{TFdpa, ZeroPolicy};
use crate::simd::lanes::{Kernel, Lanes};
use std::marker::PhantomData;

/// The most products of a step.
pub(super) const MOST_TERMS: usize = 32;

/// One step of a tile: inputs, and the results of some columns.
pub(super) struct Work<'a> {
    pub params: &'a TFdpa,
    /// Products of the step.
    pub terms: usize,
    /// f32 exponent fields that the subnormals of A share, and those of B.
    pub min_fields: [u32; 2],
    /// f32 bits of A by k, lanes are rows.
    pub a: [[u32; 16]; MOST_TERMS],
    /// f32 bits of B by column, then k.
    pub b: [[u32; MOST_TERMS]; N],
    /// f32 bits of the values of C by column, lanes are rows.
    pub c: [[u32; 16]; N],
    /// Which columns to compute.
    pub columns: [bool; N],
    /// Their results.
    pub d: [[u32; 16]; N],
}

/// An exponent below every other, also in a sum with another: no term.
const NONE: i32 = -10_000;
/// Exponents below are sums with [`NONE`].
const NO_TERM: i32 = -5_000;

/// The unnormalised exponents of f32 whose format has its smallest exponent at `min_field`.
#[inline(always)]
fn exponents<S: Lanes>(s: S, bits: S::V, min_field: u32, zero: S::V) -> S::V {
    let magnitude = s.shl::<1>(bits);
    let field = s.max(s.shr::<24>(magnitude), s.splat(min_field));
    s.where_nonzero(magnitude, s.sub(field, s.splat(127)), zero)
}

/// Computes the columns that the work asks for, as accumulators `C`.
pub(super) struct Careful<C>(PhantomData<C>);

impl<C: Accumulator> Kernel for Careful<C> {
    type Call<'a> = Work<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, work: &mut Work<'_>) {
        run::<S, C>(s, work);
    }
}

#[inline(always)]
fn run<S: Lanes, C: Accumulator>(s: S, work: &mut Work<'_>) {
    let TFdpa { fraction, zeros, floor, .. } = *work.params;
    let (zero, floor) = match zeros {
        ZeroPolicy::SentinelMinus126 => (-126, NONE),
        ZeroPolicy::Exclude => (NONE, floor.unwrap_or(NONE)),
    };
    let splat = |value: i32| s.splat(value as u32);
    let zero = splat(zero);
    let [min_a, min_b] = work.min_fields;
    let mut a = [s.widen(zero); MOST_TERMS];
    let mut a_exponents = [zero; MOST_TERMS];
    for k in 0..work.terms {
        let bits = s.load(&work.a[k]);
        (a[k], a_exponents[k]) = (s.widen(bits), exponents(s, bits, min_a, zero));
    }
    for n in 0..N {
        if !work.columns[n] {
            continue;
        }
        let c = s.load(&work.c[n]);
        let mut largest = exponents(s, c, C::MIN_FIELD, zero);
        for k in 0..work.terms {
            let b = exponents(s, s.splat(work.b[n][k]), min_b, zero);
            largest = s.max(largest, s.add(a_exponents[k], b));
        }
        // Without a term every summand is a zero, so any scale will do.
        largest =
            s.where_nonzero(s.max(s.sub(largest, splat(NO_TERM)), splat(0)), s.max(largest, splat(floor)), splat(0));
        let up = s.power(s.sub(splat(fraction), largest));
        let mut sum = s.truncate_f64(s.mul_f64(s.widen(c), up));
        for k in 0..work.terms {
            let product = s.mul_f64(a[k], s.widen(s.splat(work.b[n][k])));
            sum = s.add_f64(sum, s.truncate_f64(s.mul_f64(product, up)));
        }
        let value = s.mul_f64(sum, s.power(s.sub(largest, splat(fraction))));
        s.store(C::converted_f64(s, work.params, value), &mut work.d[n]);
    }
}
