//! The lanes in one AVX-512 register.

#![allow(unsafe_code)]

use super::{Kernel, Lanes};
use std::arch::x86_64::*;

/// Proof that AVX-512 F, BW, DQ and VL, AVX2 and F16C are there.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

/// Runs a kernel compiled for AVX-512.
///
/// # Safety
/// The machine has what [`crate::simd::Level::Avx512`] names.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt")]
pub(crate) unsafe fn run<K: Kernel>(call: &mut K::Call<'_>) {
    K::run(Avx512(()), call);
}

#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt")]
#[inline(never)]
fn out_of_line<K: Kernel>(s: Avx512, call: &mut K::Call<'_>) {
    K::run(s, call);
}

/// Calls an intrinsic that only needs the instructions.
macro_rules! op {
    ($($call:tt)*) => {
        // SAFETY: an `Avx512` exists only inside `run`, whose caller vouches for the instructions.
        unsafe { $($call)* }
    };
}

type D = [__m512d; 2];

impl Lanes for Avx512 {
    type V = __m512i;
    type D = D;
    const ROWS: usize = 8;
    const PARTS: usize = 1;

    #[inline(always)]
    fn part<const PART: usize>(self, _: __m512i, from: __m512i) -> __m512i {
        from
    }
    #[inline(always)]
    fn load(self, from: &[u32; 16]) -> __m512i {
        // SAFETY: as `op`; the reference covers the 64 bytes read, unaligned.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn store(self, v: __m512i, to: &mut [u32; 16]) {
        // SAFETY: as `op`; the reference covers the 64 bytes written, unaligned.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), v) }
    }
    #[inline(always)]
    fn splat(self, word: u32) -> __m512i {
        op!(_mm512_set1_epi32(word as i32))
    }
    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_sub_epi32(a, b))
    }
    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn overflow(self, p: __m512i, c: __m512i, t: __m512i) -> __m512i {
        // Truth table of (p ^ t) & (c ^ t) with the inputs in this order.
        op!(_mm512_ternarylogic_epi32::<0x42>(p, c, t))
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: __m512i) -> __m512i {
        op!(_mm512_slli_epi32::<N>(a))
    }
    #[inline(always)]
    fn shr<const N: u32>(self, a: __m512i) -> __m512i {
        op!(_mm512_srli_epi32::<N>(a))
    }
    #[inline(always)]
    fn max_unsigned(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_max_epu32(a, b))
    }
    #[inline(always)]
    fn min_unsigned(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_min_epu32(a, b))
    }
    #[inline(always)]
    fn clear(self, a: __m512i, lanes: u16) -> __m512i {
        op!(_mm512_maskz_mov_epi32(!lanes, a))
    }
    #[inline(always)]
    fn add_where_nonzero_halves(self, test: __m512i, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_maskz_add_epi16(_mm512_test_epi16_mask(test, test), a, b))
    }
    #[inline(always)]
    fn gt_unsigned(self, a: __m512i, b: __m512i) -> u16 {
        op!(_mm512_cmpgt_epu32_mask(a, b))
    }
    #[inline(always)]
    fn nonzero(self, a: __m512i) -> u16 {
        op!(_mm512_test_epi32_mask(a, a))
    }
    #[inline(always)]
    fn max_bytes(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_max_epu8(a, b))
    }
    #[inline(always)]
    fn max_halves(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_max_epu16(a, b))
    }
    #[inline(always)]
    fn signs(self, a: __m512i) -> u16 {
        op!(_mm512_movepi32_mask(a))
    }
    #[inline(always)]
    fn mul(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b))))
    }
    #[inline(always)]
    fn fma(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        op!(_mm512_castps_si512(_mm512_fmadd_ps(
            _mm512_castsi512_ps(a),
            _mm512_castsi512_ps(b),
            _mm512_castsi512_ps(c)
        )))
    }
    #[inline(always)]
    fn truncate(self, a: __m512i) -> __m512i {
        op!(_mm512_cvttps_epi32(_mm512_castsi512_ps(a)))
    }
    #[inline(always)]
    fn to_float_toward_zero(self, a: __m512i) -> __m512i {
        op!(_mm512_castps_si512(_mm512_cvt_roundepi32_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(a)))
    }
    #[cfg(test)]
    fn to_float_nearest(self, a: __m512i) -> __m512i {
        op!(_mm512_castps_si512(_mm512_cvtepi32_ps(a)))
    }
    #[inline(always)]
    fn widen_f16(self, a: __m512i) -> (__m512i, __m512i) {
        op!({
            // Even halves to the lower, odd halves to the upper 256 bits.
            let index = _mm512_set_epi16(
                31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10,
                8, 6, 4, 2, 0,
            );
            let sorted = _mm512_permutexvar_epi16(index, a);
            (
                _mm512_castps_si512(_mm512_cvtph_ps(_mm512_castsi512_si256(sorted))),
                _mm512_castps_si512(_mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(sorted))),
            )
        })
    }
    #[inline(always)]
    fn narrow_f16(self, a: __m512i) -> __m512i {
        op!(_mm512_cvtepu16_epi32(_mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(
            _mm512_castsi512_ps(a)
        )))
    }
    #[inline(always)]
    fn round_f16(self, a: __m512i) -> __m512i {
        op!({
            let halves = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm512_castsi512_ps(a));
            _mm512_castps_si512(_mm512_cvtph_ps(halves))
        })
    }
    #[inline(always)]
    fn pack_pairs(self, a: __m512i) -> __m512i {
        op!(_mm512_or_si512(a, _mm512_srli_epi64::<16>(a)))
    }
    #[inline(always)]
    fn transpose(self, rows: [__m512i; 4]) -> [__m512i; 4] {
        op!({
            // Columns 0 and 1, then 2 and 3, of eight rows; then eight rows beside eight rows.
            let first = _mm512_set_epi32(29, 25, 21, 17, 13, 9, 5, 1, 28, 24, 20, 16, 12, 8, 4, 0);
            let second = _mm512_set_epi32(31, 27, 23, 19, 15, 11, 7, 3, 30, 26, 22, 18, 14, 10, 6, 2);
            let [r0, r1, r2, r3] = rows;
            let (x0, x1) = (_mm512_permutex2var_epi32(r0, first, r1), _mm512_permutex2var_epi32(r2, first, r3));
            let (y0, y1) = (_mm512_permutex2var_epi32(r0, second, r1), _mm512_permutex2var_epi32(r2, second, r3));
            [
                _mm512_shuffle_i64x2::<0x44>(x0, x1),
                _mm512_shuffle_i64x2::<0xee>(x0, x1),
                _mm512_shuffle_i64x2::<0x44>(y0, y1),
                _mm512_shuffle_i64x2::<0xee>(y0, y1),
            ]
        })
    }
    #[inline(always)]
    fn transpose_back(self, columns: [__m512i; 4]) -> [__m512i; 4] {
        op!({
            let [c0, c1, c2, c3] = columns;
            let (x0, x1) = (_mm512_shuffle_i64x2::<0x44>(c0, c1), _mm512_shuffle_i64x2::<0xee>(c0, c1));
            let (y0, y1) = (_mm512_shuffle_i64x2::<0x44>(c2, c3), _mm512_shuffle_i64x2::<0xee>(c2, c3));
            let low = _mm512_set_epi32(27, 19, 11, 3, 26, 18, 10, 2, 25, 17, 9, 1, 24, 16, 8, 0);
            let high = _mm512_set_epi32(31, 23, 15, 7, 30, 22, 14, 6, 29, 21, 13, 5, 28, 20, 12, 4);
            [
                _mm512_permutex2var_epi32(x0, low, y0),
                _mm512_permutex2var_epi32(x0, high, y0),
                _mm512_permutex2var_epi32(x1, low, y1),
                _mm512_permutex2var_epi32(x1, high, y1),
            ]
        })
    }
    #[inline(always)]
    fn widen(self, a: __m512i) -> D {
        op!([
            _mm512_cvtps_pd(_mm256_castsi256_ps(_mm512_castsi512_si256(a))),
            _mm512_cvtps_pd(_mm256_castsi256_ps(_mm512_extracti64x4_epi64::<1>(a))),
        ])
    }
    #[inline(always)]
    fn power(self, a: __m512i) -> D {
        op!({
            let field = _mm512_add_epi32(a, _mm512_set1_epi32(1023));
            [
                _mm512_castsi512_pd(_mm512_slli_epi64::<52>(_mm512_cvtepu32_epi64(_mm512_castsi512_si256(field)))),
                _mm512_castsi512_pd(_mm512_slli_epi64::<52>(_mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(
                    field,
                )))),
            ]
        })
    }
    #[inline(always)]
    fn splat_f64(self, value: f64) -> D {
        op!([_mm512_set1_pd(value); 2])
    }
    #[inline(always)]
    fn mul_f64(self, a: D, b: D) -> D {
        op!([_mm512_mul_pd(a[0], b[0]), _mm512_mul_pd(a[1], b[1])])
    }
    #[inline(always)]
    fn add_f64(self, a: D, b: D) -> D {
        op!([_mm512_add_pd(a[0], b[0]), _mm512_add_pd(a[1], b[1])])
    }
    #[inline(always)]
    fn truncate_f64(self, a: D) -> D {
        op!([
            _mm512_roundscale_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(a[0]),
            _mm512_roundscale_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(a[1]),
        ])
    }
    #[inline(always)]
    fn narrow_toward_zero(self, a: D) -> __m512i {
        op!({
            let half = |a: __m512d| _mm512_cvt_roundpd_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(a);
            let low = _mm512_castsi256_si512(_mm256_castps_si256(half(a[0])));
            let all = _mm512_inserti64x4::<1>(low, _mm256_castps_si256(half(a[1])));
            // Toward zero, an overflow stops at the largest finite number; one more in the bits is infinity.
            let limit = _mm512_set1_pd(f64::from_bits((1023 + 128) << 52));
            let beyond = |a: __m512d| u16::from(_mm512_cmp_pd_mask::<_CMP_GE_OQ>(_mm512_abs_pd(a), limit));
            let sign = _mm512_and_si512(all, _mm512_set1_epi32(i32::MIN));
            let infinity = _mm512_or_si512(sign, _mm512_set1_epi32(0x7f80_0000));
            let all = _mm512_mask_mov_epi32(all, beyond(a[0]) | beyond(a[1]) << 8, infinity);
            let nan = |a: __m512d| u16::from(_mm512_cmp_pd_mask::<_CMP_UNORD_Q>(a, a));
            let all = _mm512_mask_mov_epi32(all, nan(a[0]) | nan(a[1]) << 8, _mm512_set1_epi32(0x7fff_ffff));
            let magnitude = _mm512_slli_epi32::<1>(all);
            _mm512_maskz_mov_epi32(_mm512_test_epi32_mask(magnitude, magnitude), all)
        })
    }
    #[inline(always)]
    fn narrow_to_odd(self, a: D) -> __m512i {
        op!({
            let half = |a: __m512d| _mm512_cvt_roundpd_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(a);
            let lost = |a: __m512d| u16::from(_mm512_cmp_pd_mask::<_CMP_NEQ_OQ>(a, _mm512_cvtps_pd(half(a))));
            let low = _mm512_castsi256_si512(_mm256_castps_si256(half(a[0])));
            let all = _mm512_inserti64x4::<1>(low, _mm256_castps_si256(half(a[1])));
            _mm512_mask_or_epi32(all, lost(a[0]) | lost(a[1]) << 8, all, _mm512_set1_epi32(1))
        })
    }
    #[cfg(test)]
    #[inline(always)]
    fn store_f64(self, a: D, to: &mut [f64; 16]) {
        let (halves, _) = to.as_chunks_mut::<8>();
        for (half, a) in halves.iter_mut().zip(a) {
            // SAFETY: as `op`; the reference covers the 64 bytes written, unaligned.
            unsafe { _mm512_storeu_pd(half.as_mut_ptr(), a) }
        }
    }
    #[inline(always)]
    fn max(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_max_epi32(a, b))
    }
    #[inline(always)]
    fn where_nonzero(self, test: __m512i, a: __m512i, otherwise: __m512i) -> __m512i {
        op!(_mm512_mask_mov_epi32(otherwise, _mm512_test_epi32_mask(test, test), a))
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
