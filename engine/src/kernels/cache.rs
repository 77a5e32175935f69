//! Element types of the K and V caches, and their conversions in kernels.

use ptx::builder::{F32, KernelBuilder, R32};

/// Element type of the K and V caches.
///
/// # Bits
/// [`KvType::Fp8`] stores e4m3 with a scale of one, as vLLM does for a model whose files state no scales (`kv_cache_dtype` "fp8"; its
/// `scaled_convert`): a bf16 is rounded to the nearest e4m3, ties to even, and what exceeds 448 becomes 448 of its sign, infinities too;
/// every NaN becomes `7f`. Attention widens an element to bf16, which is exact; `7f` gives `7fff`. This is `cvt.rn.satfinite.e4m3x2.f32`
/// computed by integers and one addition, so that it needs no Ada and has the same bits on every generation. Checked for all 65,536 bf16
/// and all 256 codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KvType {
    /// bf16: what the model computes, as it is.
    #[default]
    Bf16,
    /// e4m3.
    Fp8,
}

impl KvType {
    /// Every type.
    pub const ALL: [KvType; 2] = [KvType::Bf16, KvType::Fp8];

    /// Name for command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            KvType::Bf16 => "bf16",
            KvType::Fp8 => "fp8",
        }
    }

    /// What records call it.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            KvType::Bf16 => "bf16",
            KvType::Fp8 => "fp8-e4m3/1",
        }
    }

    /// The type of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<KvType> {
        KvType::ALL.into_iter().find(|t| t.name() == name)
    }

    /// The type that records call so; none for another one.
    #[must_use]
    pub fn from_id(id: &str) -> Option<KvType> {
        KvType::ALL.into_iter().find(|t| t.id() == id)
    }

    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            KvType::Bf16 => 2,
            KvType::Fp8 => 1,
        }
    }
}

/// Bits of 448, the largest e4m3; of `2^-6`, the least that is not subnormal; above those of infinity there are NaNs.
const LARGEST: u32 = 0x43e0_0000;
const NORMAL: u32 = 0x3c80_0000;
const INFINITY: u32 = 0x7f80_0000;
/// `2^14`, whose ulp is that of a subnormal e4m3: a sum with it is rounded to one, and its low bits are the code.
const MAGIC: u32 = 0x4680_0000;
/// What exponents differ by, in units of the last place of an e4m3.
const REBIAS: u32 = (127 - 7) << 3;
/// `2^120`: an f32 with the fields of an e4m3 is too small by this factor.
const FACTOR: u32 = 0x7b80_0000;
const NAN: u32 = 0x7fff_ffff;
/// The code of a NaN.
const NAN_CODE: u32 = 0x7f;

/// One f32 as e4m3, in the low byte.
fn encode(k: &mut KernelBuilder, x: F32) -> R32 {
    let bits = k.bits_of_f32(x);
    let size = k.and_b32(bits, 0x7fff_ffff_u32);
    let nan = k.setp_gt_u32(size, INFINITY);
    let size = k.min_u32(size, LARGEST);
    // Nearest even at bit 20: a carry runs into the exponent.
    let odd = k.bfe_u32(size, 20u32, 1u32);
    let rounded = k.add_u32(size, 0x7_ffff_u32);
    let rounded = k.add_u32(rounded, odd);
    let normal = k.shr_u32(rounded, 20);
    let normal = k.sub_u32(normal, REBIAS);
    let value = k.f32_of_bits(size);
    let shifted = k.add_rn(value, f32::from_bits(MAGIC));
    let shifted = k.bits_of_f32(shifted);
    let subnormal = k.sub_u32(shifted, MAGIC);
    let is_normal = k.setp_ge_u32(size, NORMAL);
    let code = k.selp_b32(normal, subnormal, is_normal);
    let sign = k.shr_u32(bits, 24);
    let sign = k.and_b32(sign, 0x80);
    let code = k.or_b32(code, sign);
    k.selp_b32(NAN_CODE, code, nan)
}

/// Four f32 as e4m3, the first in the low byte.
pub(super) fn encode4(k: &mut KernelBuilder, x: [F32; 4]) -> R32 {
    let [a, b, c, d] = x.map(|x| encode(k, x));
    let join = |k: &mut KernelBuilder, low, high, bits: u32| {
        let high = k.shl_b32(high, bits);
        k.or_b32(low, high)
    };
    let (low, high) = (join(k, a, b, 8), join(k, c, d, 8));
    join(k, low, high, 16)
}

/// The e4m3 in byte `place` of a word as f32: exact, and a NaN for `7f` and `ff`.
fn decode(k: &mut KernelBuilder, word: R32, place: u32) -> F32 {
    // The code in the high byte, its fields then where an f32 has them.
    let top = if place == 3 { word } else { k.shl_b32(word, 24 - 8 * place) };
    let sign = k.and_b32(top, 0x8000_0000_u32);
    let code = k.and_b32(top, 0x7f00_0000_u32);
    let nan = k.setp_eq_u32(code, NAN_CODE << 24);
    let fields = k.shr_u32(code, 4);
    let fields = k.or_b32(fields, sign);
    let value = k.f32_of_bits(fields);
    let value = k.mul_rn(value, f32::from_bits(FACTOR));
    k.selp_f32(f32::from_bits(NAN), value, nan)
}

/// Two e4m3 in the low bytes of a word as f32, in order.
pub(super) fn decode2(k: &mut KernelBuilder, word: R32) -> [F32; 2] {
    [decode(k, word, 0), decode(k, word, 1)]
}

/// Eight e4m3 as f32, in order.
pub(super) fn decode8(k: &mut KernelBuilder, words: [R32; 2]) -> [F32; 8] {
    std::array::from_fn(|i| decode(k, words[i / 4], i as u32 % 4))
}
