//! Sixteen lanes of 32 bits: the vocabulary the tensor-core paths are written in.
//!
//! One text of a kernel serves AVX-512, AVX2 and plain Rust: a [`Kernel`] is generic over [`Lanes`], and [`run`] calls it as compiled
//! for a level. Every operation of every level is compared with plain Rust.

#![allow(clippy::needless_range_loop)] // Index loops of constant length read like the lanes they are, and always unroll.
#![allow(unsafe_code)] // Only to call a kernel compiled for instructions that were detected.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod portable;

#[cfg(test)]
mod tests;

use super::Level;

/// Something to compile for each set of vector instructions. `run` and what it calls must be `#[inline(always)]`.
pub(crate) trait Kernel {
    /// What it reads and writes.
    type Call<'a>;

    /// Does the work.
    fn run<S: Lanes>(s: S, call: &mut Self::Call<'_>);
}

/// Runs `K` as compiled for `level`.
#[inline]
pub(crate) fn run<K: Kernel>(level: Level, call: &mut K::Call<'_>) {
    match level {
        Level::Portable => K::run(portable::Portable, call),
        // SAFETY: a `Level` above `Portable` exists only where the processor has its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2::run::<K>(call) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512::run::<K>(call) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => K::run(portable::Portable, call),
    }
}

/// A token that proves this machine has some vector instructions, and what it can do with them.
///
/// A vector `V` is sixteen 32-bit words without a type; each operation says how it reads them. "Halves" are the 32 16-bit words.
/// Operations on floats are exact, or toward zero, or their rounding is proven irrelevant where they are used.
/// A vector `D` is sixteen f64, for whatever f32 cannot hold.
pub(crate) trait Lanes: Copy {
    type V: Copy;
    type D: Copy;

    /// Rows of sixteen accumulators that stay in registers beside as many scales, one part of each at a time.
    const ROWS: usize;
    /// Registers of a vector. Where it is two, loops with many vectors in flight run once for each, so that all of a part fit.
    const PARTS: usize;
    /// `from` in the lanes of part `PART`, else `into`.
    fn part<const PART: usize>(self, into: Self::V, from: Self::V) -> Self::V;

    fn load(self, from: &[u32; 16]) -> Self::V;
    fn store(self, v: Self::V, to: &mut [u32; 16]);
    fn splat(self, word: u32) -> Self::V;

    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    fn or(self, a: Self::V, b: Self::V) -> Self::V;
    /// `(p ^ t) & (c ^ t)`: its sign bit tells whether `t = p + c` overflowed.
    fn overflow(self, p: Self::V, c: Self::V, t: Self::V) -> Self::V;
    fn shl<const N: u32>(self, a: Self::V) -> Self::V;
    fn shr<const N: u32>(self, a: Self::V) -> Self::V;
    fn max_unsigned(self, a: Self::V, b: Self::V) -> Self::V;
    fn min_unsigned(self, a: Self::V, b: Self::V) -> Self::V;
    /// Zero in `lanes`, else `a`.
    fn clear(self, a: Self::V, lanes: u16) -> Self::V;

    /// Per byte, unsigned.
    fn max_bytes(self, a: Self::V, b: Self::V) -> Self::V;
    /// Unsigned.
    fn max_halves(self, a: Self::V, b: Self::V) -> Self::V;
    /// Per half `test != 0 ? a + b : 0`.
    fn add_where_nonzero_halves(self, test: Self::V, a: Self::V, b: Self::V) -> Self::V;

    /// Lanes with `a > b`, unsigned.
    fn gt_unsigned(self, a: Self::V, b: Self::V) -> u16;
    /// Lanes that are not zero.
    fn nonzero(self, a: Self::V) -> u16;
    /// Lanes whose top bit is set.
    fn signs(self, a: Self::V) -> u16;

    /// f32 product, to nearest even.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c` rounded once, to nearest even: IEEE 754's fusedMultiplyAdd. A NaN has any payload.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// f32 to i32, toward zero. Lanes out of range give any value.
    fn truncate(self, a: Self::V) -> Self::V;
    /// i32 to f32, toward zero.
    fn to_float_toward_zero(self, a: Self::V) -> Self::V;
    /// i32 to f32, to nearest: a mistake the tests must notice.
    #[cfg(test)]
    fn to_float_nearest(self, a: Self::V) -> Self::V;
    /// The f32 values of the low and of the high halves, which hold f16.
    fn widen_f16(self, a: Self::V) -> (Self::V, Self::V);
    /// f32 to f16 in the low half of each lane, to nearest even, zeros with their sign. A NaN becomes one, with any payload.
    ///
    /// The one rounding to nearest that the host does for a tensor core: IEEE 754's, named in the instruction and not taken from a mode.
    fn narrow_f16(self, a: Self::V) -> Self::V;
    /// [`Lanes::narrow_f16`], and back to f32.
    fn round_f16(self, a: Self::V) -> Self::V;
    /// Even and odd 32-bit lanes of each pair packed as halves of the even lane; the odd lane is unspecified. Words below 2^16.
    fn pack_pairs(self, a: Self::V) -> Self::V;

    /// A 16 x 4 matrix by rows, taken as 4 columns of 16.
    fn transpose(self, rows: [Self::V; 4]) -> [Self::V; 4];
    /// The inverse of [`Lanes::transpose`].
    fn transpose_back(self, columns: [Self::V; 4]) -> [Self::V; 4];

    /// f32 to f64.
    fn widen(self, a: Self::V) -> Self::D;
    /// `2^a`, for exponents of normal f64.
    fn power(self, a: Self::V) -> Self::D;
    /// One f64 in all lanes.
    fn splat_f64(self, value: f64) -> Self::D;
    fn mul_f64(self, a: Self::D, b: Self::D) -> Self::D;
    fn add_f64(self, a: Self::D, b: Self::D) -> Self::D;
    /// To an integer, toward zero.
    fn truncate_f64(self, a: Self::D) -> Self::D;
    /// To f32 by the rules of a tensor core's final conversion: toward zero, both zeros to +0, infinity from 2^128 on, NaN to `7fffffff`.
    fn narrow_toward_zero(self, a: Self::D) -> Self::V;
    /// To f32, what is inexact rounded to odd: to the neighbour whose last bit is set. Zeros keep their sign, an infinity stays one, a NaN
    /// stays a NaN. Other magnitudes are at least `2^-126` and below `2^128`.
    fn narrow_to_odd(self, a: Self::D) -> Self::V;
    #[cfg(test)]
    fn store_f64(self, a: Self::D, to: &mut [f64; 16]);

    /// Signed.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// Per lane `test != 0 ? a : otherwise`.
    fn where_nonzero(self, test: Self::V, a: Self::V, otherwise: Self::V) -> Self::V;

    /// Asks for the cache line of `line` to come to the second-level cache. A hint: never wrong, wherever it points.
    fn prefetch(self, line: *const u32);

    /// Runs a kernel compiled for these instructions, out of line.
    fn outlined<K: Kernel>(self, call: &mut K::Call<'_>);
}
