//! e4m3 elements of a cache on the host.
//!
//! # Bits
//! Those of [`KvType::Fp8`](crate::kernels::KvType): by the emulator's reference conversions, and compared with the kernels' own steps for
//! every operand.

use std::sync::LazyLock;

use emulator::format::{E4M3, narrow_f32, widen_to_f32};
use emulator::round::{Overflow, Rounding};

static TO_BF16: LazyLock<[u16; 256]> =
    LazyLock::new(|| std::array::from_fn(|code| (widen_to_f32(code as u64, &E4M3) >> 16) as u16));

static FROM_BF16: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let code = |bf16: u32| narrow_f32(bf16 << 16, &E4M3, Rounding::NearestEven, Overflow::Saturate) as u8;
    (0..=0xffff).map(code).collect()
});

/// An e4m3 as bf16: exact, `7fff` for both NaNs.
pub fn to_bf16(code: u8) -> u16 {
    TO_BF16[usize::from(code)]
}

/// A bf16 as e4m3: nearest even, at most 448, `7f` for every NaN.
pub fn from_bf16(bf16: u16) -> u8 {
    FROM_BF16[usize::from(bf16)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    fn value(code: u8) -> f32 {
        bf16::from_bits(to_bf16(code)).to_f32()
    }

    /// By search among the finite codes: nearest, then the even one.
    #[test]
    fn the_nearest_code_is_taken() {
        let finite: Vec<u8> = (0..=255).filter(|code| code & 0x7f != 0x7f).collect();
        assert_eq!((value(0x38), value(0x7e), value(0x01), value(0x81)), (1.0, 448.0, 1.0 / 512.0, -1.0 / 512.0));
        for bits in 0..=0xffff_u16 {
            let x = bf16::from_bits(bits).to_f32();
            let code = from_bf16(bits);
            if x.is_nan() {
                assert_eq!(code, 0x7f);
                continue;
            }
            let x = x.clamp(-448.0, 448.0);
            let best = finite
                .iter()
                .filter(|c| (**c >= 0x80) == x.is_sign_negative())
                .min_by(|a, b| {
                    let off = |c: u8| (f64::from(value(c)) - f64::from(x)).abs();
                    off(**a).total_cmp(&off(**b)).then((**a & 1).cmp(&(**b & 1)))
                })
                .unwrap();
            assert_eq!(code, *best, "{x}");
        }
        assert_eq!((to_bf16(0x7f), to_bf16(0xff)), (0x7fff, 0x7fff));
    }
}
