//! The lanes in two AVX2 registers: lanes 0 to 7 and 8 to 15.

#![allow(unsafe_code)]

use super::{Kernel, Lanes};
use std::arch::x86_64::*;

/// Proof that AVX2 and F16C are there.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

/// Runs a kernel compiled for AVX2.
///
/// # Safety
/// The machine has what [`crate::simd::Level::Avx2`] names.
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt")]
pub(crate) unsafe fn run<K: Kernel>(call: &mut K::Call<'_>) {
    K::run(Avx2(()), call);
}

#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt")]
#[inline(never)]
fn out_of_line<K: Kernel>(s: Avx2, call: &mut K::Call<'_>) {
    K::run(s, call);
}

/// Calls intrinsics that only need the instructions.
macro_rules! op {
    ($($call:tt)*) => {
        // SAFETY: an `Avx2` exists only inside `run`, whose caller vouches for the instructions.
        unsafe { $($call)* }
    };
}

/// The same intrinsic on both registers.
macro_rules! both {
    ($f:ident ($a:expr, $b:expr)) => {
        op!([$f($a[0], $b[0]), $f($a[1], $b[1])])
    };
}

type V = [__m256i; 2];
type D = [__m256d; 4];

#[inline(always)]
fn toward_zero(a: __m256i) -> __m256i {
    op!({
        // A conversion to nearest rounds up only if the first bit it drops is set. That bit lies where the leading one comes to after
        // a shift by 24: clear it. (-2^31 is its own magnitude and its own negative, and converts to itself.)
        let magnitude = _mm256_abs_epi32(a);
        let cut = _mm256_andnot_si256(_mm256_srli_epi32::<24>(magnitude), magnitude);
        _mm256_castps_si256(_mm256_cvtepi32_ps(_mm256_sign_epi32(cut, a)))
    })
}

#[inline(always)]
fn widen(a: __m256i) -> (__m256i, __m256i) {
    op!({
        // In each 128-bit lane: even halves first, then odd halves; then the even ones of both lanes side by side.
        let order = _mm256_setr_epi8(
            0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
        );
        let sorted = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(a, order));
        (
            _mm256_castps_si256(_mm256_cvtph_ps(_mm256_castsi256_si128(sorted))),
            _mm256_castps_si256(_mm256_cvtph_ps(_mm256_extracti128_si256::<1>(sorted))),
        )
    })
}

/// f32 to f16, to nearest even.
#[inline(always)]
fn to_f16(a: __m256i) -> __m128i {
    op!(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_castsi256_ps(a)))
}

/// Lanes of 64 bits whose magnitude is above `limit`.
#[inline(always)]
fn above(magnitude: __m256i, limit: i64) -> __m256i {
    op!(_mm256_cmpgt_epi64(magnitude, _mm256_set1_epi64x(limit)))
}

/// Four f64 by the rules of the final conversion: f32 bits in the low halves, packed in either 128-bit lane. (Functions, not closures:
/// only those are sure to be compiled for the instructions of their caller.)
#[inline(always)]
fn narrow(a: __m256d) -> __m256i {
    op!({
        let bits = _mm256_castpd_si256(a);
        let magnitude = _mm256_srli_epi64::<1>(_mm256_slli_epi64::<1>(bits));
        // Dropping bits is truncation, where the result is a normal number.
        let normal = _mm256_srli_epi64::<29>(_mm256_sub_epi64(magnitude, _mm256_set1_epi64x((1023 - 127) << 52)));
        // Below 2^-126: the significand in units of 2^-149. Shifts of 64 and more give 0.
        let field = _mm256_srli_epi64::<52>(magnitude);
        let fraction = _mm256_srli_epi64::<12>(_mm256_slli_epi64::<12>(bits));
        let significand = _mm256_or_si256(fraction, _mm256_set1_epi64x(1 << 52));
        let subnormal = _mm256_srlv_epi64(significand, _mm256_sub_epi64(_mm256_set1_epi64x(926), field));
        let mut out = _mm256_blendv_epi8(subnormal, normal, above(magnitude, ((1023 - 126) << 52) - 1));
        let infinity = _mm256_set1_epi64x(0x7f80_0000);
        out = _mm256_blendv_epi8(out, infinity, above(magnitude, ((1023 + 128) << 52) - 1));
        // The sign, unless the result is zero or NaN.
        let sign = _mm256_and_si256(_mm256_srli_epi64::<32>(bits), _mm256_set1_epi64x(1 << 31));
        let zero = _mm256_cmpeq_epi64(out, _mm256_setzero_si256());
        out = _mm256_or_si256(out, _mm256_andnot_si256(zero, sign));
        out = _mm256_blendv_epi8(out, _mm256_set1_epi64x(0x7fff_ffff), above(magnitude, 2047 << 52));
        _mm256_permutevar8x32_epi32(out, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6))
    })
}

/// Four f64 rounded to odd, as [`narrow`] lays them out.
#[inline(always)]
fn narrow_odd(a: __m256d) -> __m256i {
    op!({
        let bits = _mm256_castpd_si256(a);
        let magnitude = _mm256_srli_epi64::<1>(_mm256_slli_epi64::<1>(bits));
        let cut = _mm256_srli_epi64::<29>(_mm256_sub_epi64(magnitude, _mm256_set1_epi64x((1023 - 127) << 52)));
        let lost = above(_mm256_and_si256(bits, _mm256_set1_epi64x((1 << 29) - 1)), 0);
        let odd = _mm256_or_si256(cut, _mm256_and_si256(lost, _mm256_set1_epi64x(1)));
        let finite = _mm256_and_si256(odd, above(magnitude, 0));
        let infinity = _mm256_blendv_epi8(finite, _mm256_set1_epi64x(0x7f80_0000), above(magnitude, (2047 << 52) - 1));
        let out = _mm256_blendv_epi8(infinity, _mm256_set1_epi64x(0x7fc0_0000), above(magnitude, 2047 << 52));
        let sign = _mm256_and_si256(_mm256_srli_epi64::<32>(bits), _mm256_set1_epi64x(1 << 31));
        _mm256_permutevar8x32_epi32(_mm256_or_si256(out, sign), _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6))
    })
}

/// `2^(field - 1023)` for four fields.
#[inline(always)]
fn power_of(field: __m128i) -> __m256d {
    op!(_mm256_castsi256_pd(_mm256_slli_epi64::<52>(_mm256_cvtepu32_epi64(field))))
}

/// Eight rows of four as four columns of eight.
#[inline(always)]
fn transpose_8x4(rows: [__m256i; 4]) -> [__m256i; 4] {
    op!({
        let [r0, r1, r2, r3] = rows;
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let (a, b) = (_mm256_unpacklo_epi32(r0, r1), _mm256_unpacklo_epi32(r2, r3));
        let (c, d) = (_mm256_unpackhi_epi32(r0, r1), _mm256_unpackhi_epi32(r2, r3));
        [
            _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(a, b), order),
            _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(a, b), order),
            _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(c, d), order),
            _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(c, d), order),
        ]
    })
}

#[inline(always)]
fn transpose_8x4_back(columns: [__m256i; 4]) -> [__m256i; 4] {
    op!({
        let order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
        let [c0, c1, c2, c3] = columns;
        let c0 = _mm256_permutevar8x32_epi32(c0, order);
        let c1 = _mm256_permutevar8x32_epi32(c1, order);
        let c2 = _mm256_permutevar8x32_epi32(c2, order);
        let c3 = _mm256_permutevar8x32_epi32(c3, order);
        let (a, b) = (_mm256_unpacklo_epi32(c0, c1), _mm256_unpacklo_epi32(c2, c3));
        let (c, d) = (_mm256_unpackhi_epi32(c0, c1), _mm256_unpackhi_epi32(c2, c3));
        [
            _mm256_unpacklo_epi64(a, b),
            _mm256_unpackhi_epi64(a, b),
            _mm256_unpacklo_epi64(c, d),
            _mm256_unpackhi_epi64(c, d),
        ]
    })
}

impl Lanes for Avx2 {
    type V = V;
    type D = D;
    const ROWS: usize = 4;
    const PARTS: usize = 2;

    #[inline(always)]
    fn part<const PART: usize>(self, into: V, from: V) -> V {
        if PART == 0 { [from[0], into[1]] } else { [into[0], from[1]] }
    }
    #[inline(always)]
    fn load(self, from: &[u32; 16]) -> V {
        let pointer = from.as_ptr().cast::<__m256i>();
        // SAFETY: as `op`; the reference covers the 64 bytes read, unaligned.
        unsafe { [_mm256_loadu_si256(pointer), _mm256_loadu_si256(pointer.add(1))] }
    }
    #[inline(always)]
    fn store(self, v: V, to: &mut [u32; 16]) {
        let pointer = to.as_mut_ptr().cast::<__m256i>();
        // SAFETY: as `op`; the reference covers the 64 bytes written, unaligned.
        unsafe {
            _mm256_storeu_si256(pointer, v[0]);
            _mm256_storeu_si256(pointer.add(1), v[1]);
        }
    }
    #[inline(always)]
    fn splat(self, word: u32) -> V {
        op!([_mm256_set1_epi32(word as i32); 2])
    }
    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        both!(_mm256_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        both!(_mm256_sub_epi32(a, b))
    }
    #[inline(always)]
    fn and(self, a: V, b: V) -> V {
        both!(_mm256_and_si256(a, b))
    }
    #[inline(always)]
    fn or(self, a: V, b: V) -> V {
        both!(_mm256_or_si256(a, b))
    }
    #[inline(always)]
    fn overflow(self, p: V, c: V, t: V) -> V {
        let (x, y) = (both!(_mm256_xor_si256(p, t)), both!(_mm256_xor_si256(c, t)));
        both!(_mm256_and_si256(x, y))
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: V) -> V {
        op!({
            let count = _mm_cvtsi32_si128(N as i32);
            [_mm256_sll_epi32(a[0], count), _mm256_sll_epi32(a[1], count)]
        })
    }
    #[inline(always)]
    fn shr<const N: u32>(self, a: V) -> V {
        op!({
            let count = _mm_cvtsi32_si128(N as i32);
            [_mm256_srl_epi32(a[0], count), _mm256_srl_epi32(a[1], count)]
        })
    }
    #[inline(always)]
    fn max_unsigned(self, a: V, b: V) -> V {
        both!(_mm256_max_epu32(a, b))
    }
    #[inline(always)]
    fn min_unsigned(self, a: V, b: V) -> V {
        both!(_mm256_min_epu32(a, b))
    }
    #[inline(always)]
    fn clear(self, a: V, lanes: u16) -> V {
        op!({
            let bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let keep = |lanes: u16| {
                _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(i32::from(lanes)), bit), _mm256_setzero_si256())
            };
            [_mm256_and_si256(a[0], keep(lanes)), _mm256_and_si256(a[1], keep(lanes >> 8))]
        })
    }
    #[inline(always)]
    fn add_where_nonzero_halves(self, test: V, a: V, b: V) -> V {
        let none = op!([_mm256_setzero_si256(); 2]);
        let zero = both!(_mm256_cmpeq_epi16(test, none));
        let sum = both!(_mm256_add_epi16(a, b));
        both!(_mm256_andnot_si256(zero, sum))
    }
    #[inline(always)]
    fn gt_unsigned(self, a: V, b: V) -> u16 {
        let larger = self.max_unsigned(a, b);
        let not_above = both!(_mm256_cmpeq_epi32(larger, b));
        !self.signs(not_above)
    }
    #[inline(always)]
    fn nonzero(self, a: V) -> u16 {
        let none = op!([_mm256_setzero_si256(); 2]);
        let zero = both!(_mm256_cmpeq_epi32(a, none));
        !self.signs(zero)
    }
    #[inline(always)]
    fn max_bytes(self, a: V, b: V) -> V {
        both!(_mm256_max_epu8(a, b))
    }
    #[inline(always)]
    fn max_halves(self, a: V, b: V) -> V {
        both!(_mm256_max_epu16(a, b))
    }
    #[inline(always)]
    fn signs(self, a: V) -> u16 {
        op!({
            let low = _mm256_movemask_ps(_mm256_castsi256_ps(a[0]));
            let high = _mm256_movemask_ps(_mm256_castsi256_ps(a[1]));
            (low | high << 8) as u16
        })
    }
    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        op!([
            _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(b[0]))),
            _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(a[1]), _mm256_castsi256_ps(b[1]))),
        ])
    }
    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        let half = |i: usize| {
            let [a, b, c] = [a[i], b[i], c[i]];
            op!(_mm256_castps_si256(_mm256_fmadd_ps(
                _mm256_castsi256_ps(a),
                _mm256_castsi256_ps(b),
                _mm256_castsi256_ps(c)
            )))
        };
        [half(0), half(1)]
    }
    #[inline(always)]
    fn truncate(self, a: V) -> V {
        op!([_mm256_cvttps_epi32(_mm256_castsi256_ps(a[0])), _mm256_cvttps_epi32(_mm256_castsi256_ps(a[1]))])
    }
    #[inline(always)]
    fn to_float_toward_zero(self, a: V) -> V {
        [toward_zero(a[0]), toward_zero(a[1])]
    }
    #[cfg(test)]
    fn to_float_nearest(self, a: V) -> V {
        op!([_mm256_castps_si256(_mm256_cvtepi32_ps(a[0])), _mm256_castps_si256(_mm256_cvtepi32_ps(a[1]))])
    }
    #[inline(always)]
    fn widen_f16(self, a: V) -> (V, V) {
        let ((even0, odd0), (even1, odd1)) = (widen(a[0]), widen(a[1]));
        ([even0, even1], [odd0, odd1])
    }
    #[inline(always)]
    fn narrow_f16(self, a: V) -> V {
        op!([_mm256_cvtepu16_epi32(to_f16(a[0])), _mm256_cvtepu16_epi32(to_f16(a[1]))])
    }
    #[inline(always)]
    fn round_f16(self, a: V) -> V {
        op!([_mm256_castps_si256(_mm256_cvtph_ps(to_f16(a[0]))), _mm256_castps_si256(_mm256_cvtph_ps(to_f16(a[1]))),])
    }
    #[inline(always)]
    fn pack_pairs(self, a: V) -> V {
        op!([
            _mm256_or_si256(a[0], _mm256_srli_epi64::<16>(a[0])),
            _mm256_or_si256(a[1], _mm256_srli_epi64::<16>(a[1])),
        ])
    }
    #[inline(always)]
    fn transpose(self, rows: [V; 4]) -> [V; 4] {
        let [[a, b], [c, d], [e, f], [g, h]] = rows;
        let [l0, l1, l2, l3] = transpose_8x4([a, b, c, d]);
        let [h0, h1, h2, h3] = transpose_8x4([e, f, g, h]);
        [[l0, h0], [l1, h1], [l2, h2], [l3, h3]]
    }
    #[inline(always)]
    fn transpose_back(self, columns: [V; 4]) -> [V; 4] {
        let [[l0, h0], [l1, h1], [l2, h2], [l3, h3]] = columns;
        let [a, b, c, d] = transpose_8x4_back([l0, l1, l2, l3]);
        let [e, f, g, h] = transpose_8x4_back([h0, h1, h2, h3]);
        [[a, b], [c, d], [e, f], [g, h]]
    }
    #[inline(always)]
    fn widen(self, a: V) -> D {
        op!({
            let [low, high] = [_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(a[1])];
            [
                _mm256_cvtps_pd(_mm256_castps256_ps128(low)),
                _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(low)),
                _mm256_cvtps_pd(_mm256_castps256_ps128(high)),
                _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(high)),
            ]
        })
    }
    #[inline(always)]
    fn power(self, a: V) -> D {
        let field = self.add(a, self.splat(1023));
        op!({
            [
                power_of(_mm256_castsi256_si128(field[0])),
                power_of(_mm256_extracti128_si256::<1>(field[0])),
                power_of(_mm256_castsi256_si128(field[1])),
                power_of(_mm256_extracti128_si256::<1>(field[1])),
            ]
        })
    }
    #[inline(always)]
    fn splat_f64(self, value: f64) -> D {
        op!([_mm256_set1_pd(value); 4])
    }
    #[inline(always)]
    fn mul_f64(self, a: D, b: D) -> D {
        op!([
            _mm256_mul_pd(a[0], b[0]),
            _mm256_mul_pd(a[1], b[1]),
            _mm256_mul_pd(a[2], b[2]),
            _mm256_mul_pd(a[3], b[3]),
        ])
    }
    #[inline(always)]
    fn add_f64(self, a: D, b: D) -> D {
        op!([
            _mm256_add_pd(a[0], b[0]),
            _mm256_add_pd(a[1], b[1]),
            _mm256_add_pd(a[2], b[2]),
            _mm256_add_pd(a[3], b[3]),
        ])
    }
    #[inline(always)]
    fn truncate_f64(self, a: D) -> D {
        const MODE: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
        op!([
            _mm256_round_pd::<MODE>(a[0]),
            _mm256_round_pd::<MODE>(a[1]),
            _mm256_round_pd::<MODE>(a[2]),
            _mm256_round_pd::<MODE>(a[3]),
        ])
    }
    #[inline(always)]
    fn narrow_toward_zero(self, a: D) -> V {
        op!([
            _mm256_blend_epi32::<0xf0>(narrow(a[0]), narrow(a[1])),
            _mm256_blend_epi32::<0xf0>(narrow(a[2]), narrow(a[3])),
        ])
    }
    #[inline(always)]
    fn narrow_to_odd(self, a: D) -> V {
        op!([
            _mm256_blend_epi32::<0xf0>(narrow_odd(a[0]), narrow_odd(a[1])),
            _mm256_blend_epi32::<0xf0>(narrow_odd(a[2]), narrow_odd(a[3])),
        ])
    }
    #[cfg(test)]
    #[inline(always)]
    fn store_f64(self, a: D, to: &mut [f64; 16]) {
        let (quarters, _) = to.as_chunks_mut::<4>();
        for (quarter, a) in quarters.iter_mut().zip(a) {
            // SAFETY: as `op`; the reference covers the 32 bytes written, unaligned.
            unsafe { _mm256_storeu_pd(quarter.as_mut_ptr(), a) }
        }
    }
    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        both!(_mm256_max_epi32(a, b))
    }
    #[inline(always)]
    fn where_nonzero(self, test: V, a: V, otherwise: V) -> V {
        let none = op!([_mm256_setzero_si256(); 2]);
        let zero = both!(_mm256_cmpeq_epi32(test, none));
        op!([_mm256_blendv_epi8(a[0], otherwise[0], zero[0]), _mm256_blendv_epi8(a[1], otherwise[1], zero[1])])
    }
    #[inline(always)]
    fn prefetch(self, line: *const u32) {
        // SAFETY: as `op`; a prefetch reads nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
    }
    #[inline(always)]
    fn outlined<K: Kernel>(self, call: &mut K::Call<'_>) {
        // SAFETY: as `op`.
        unsafe { out_of_line::<K>(self, call) }
    }
}
