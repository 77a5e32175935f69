//! Sixteen lanes of 32 bits: the vocabulary the fast path is written in.

/// A token that proves this machine has some vector instructions, and what it can do with them.
///
/// A vector `V` is sixteen 32-bit words without a type; each operation says how it reads them. "Halves" are the 32 16-bit words.
/// Operations on floats are exact, or toward zero, or their rounding is proven irrelevant where they are used.
/// A vector `D` is sixteen f64, for the [`careful`](super::careful) path.
pub(super) trait Lanes: Copy {
    type V: Copy;
    type D: Copy;

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
    /// f32 to i32, toward zero. Lanes out of range give any value.
    fn truncate(self, a: Self::V) -> Self::V;
    /// i32 to f32, toward zero.
    fn to_float_toward_zero(self, a: Self::V) -> Self::V;
    /// i32 to f32, to nearest: a mistake the tests must notice.
    #[cfg(test)]
    fn to_float_nearest(self, a: Self::V) -> Self::V;
    /// The f32 values of the low and of the high halves, which hold f16.
    fn widen_f16(self, a: Self::V) -> (Self::V, Self::V);
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
    fn mul_f64(self, a: Self::D, b: Self::D) -> Self::D;
    fn add_f64(self, a: Self::D, b: Self::D) -> Self::D;
    /// To an integer, toward zero.
    fn truncate_f64(self, a: Self::D) -> Self::D;
    /// To f32, toward zero, both zeros to +0, with the lanes that are not done: NaN, infinities, magnitudes from 2^128 on, and such
    /// subnormal results as this level leaves to others.
    fn narrow_toward_zero(self, a: Self::D) -> (Self::V, u16);
    fn store_f64(self, a: Self::D, to: &mut [f64; 16]);

    /// Signed.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// Per lane `test != 0 ? a : otherwise`.
    fn where_nonzero(self, test: Self::V, a: Self::V, otherwise: Self::V) -> Self::V;

    /// [`super::careful::run`], compiled for these instructions and kept out of line.
    fn careful(self, work: &mut super::careful::Work<'_>);
}
