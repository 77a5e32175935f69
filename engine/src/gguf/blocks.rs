//! Number formats of GGUF tensors, and their values.
//!
//! A quantised format stores a row in blocks that share scales. Source: the layout that llama.cpp defines and the Python package `gguf`
//! decodes; the vectors in `tests/data/gguf-blocks.txt` are that package's.
//!
//! **Bits.** Scales are f16, widened exactly. With `q` the small integer of a value, all f32, each operation rounded to nearest even,
//! from left to right:
//!
//! ```text
//! Q8_0, Q4_0, Q5_0     d * q
//! Q4_1, Q5_1           d * q + m
//! Q4_K, Q5_K           (d * scale) * q - (dmin * minimum)
//! Q6_K                 (d * scale) * q
//! ```
//!
//! Every product but the last of Q6_K is exact, so the result does not depend on contraction: it is the true value rounded once to f32.

use half::f16;

/// A number format of GGUF tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are those of the format
pub enum BlockType {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

/// Values in a block of the K family.
const SUPER: usize = 256;

impl BlockType {
    /// All formats.
    pub const ALL: [BlockType; 11] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// Number in the file, name, values in a block, bytes of a block.
    const fn row(self) -> (u32, &'static str, usize, usize) {
        match self {
            Self::F32 => (0, "F32", 1, 4),
            Self::F16 => (1, "F16", 1, 2),
            Self::Bf16 => (30, "BF16", 1, 2),
            Self::Q4_0 => (2, "Q4_0", 32, 2 + 16),
            Self::Q4_1 => (3, "Q4_1", 32, 4 + 16),
            Self::Q5_0 => (6, "Q5_0", 32, 2 + 4 + 16),
            Self::Q5_1 => (7, "Q5_1", 32, 4 + 4 + 16),
            Self::Q8_0 => (8, "Q8_0", 32, 2 + 32),
            Self::Q4K => (12, "Q4_K", SUPER, 4 + 12 + 128),
            Self::Q5K => (13, "Q5_K", SUPER, 4 + 12 + 32 + 128),
            Self::Q6K => (14, "Q6_K", SUPER, 128 + 64 + 16 + 2),
        }
    }

    /// The format of this number.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.row().0 == id)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Values in a block; 1 for plain numbers.
    pub fn elements(self) -> usize {
        self.row().2
    }

    /// Bytes of a block.
    pub fn bytes(self) -> usize {
        self.row().3
    }

    /// Appends the values of one block.
    ///
    /// # Panics
    /// When `block` is not [`BlockType::bytes`] long.
    pub fn decode(self, block: &[u8], out: &mut Vec<f32>) {
        assert_eq!(block.len(), self.bytes(), "a block of {}", self.name());
        match self {
            Self::F32 => out.push(f32::from_le_bytes([block[0], block[1], block[2], block[3]])),
            Self::F16 => out.push(half(block, 0)),
            Self::Bf16 => out.push(half::bf16::from_le_bytes([block[0], block[1]]).to_f32()),
            Self::Q8_0 => out.extend(block[2..].iter().map(|q| half(block, 0) * f32::from(*q as i8))),
            Self::Q4_0 => {
                let d = half(block, 0);
                out.extend(nibbles(&block[2..]).map(|q| d * (f32::from(q) - 8.0)));
            }
            Self::Q4_1 => {
                let (d, m) = (half(block, 0), half(block, 2));
                out.extend(nibbles(&block[4..]).map(|q| d * f32::from(q) + m));
            }
            Self::Q5_0 => {
                let d = half(block, 0);
                out.extend(fives(&block[2..]).map(|q| d * (f32::from(q) - 16.0)));
            }
            Self::Q5_1 => {
                let (d, m) = (half(block, 0), half(block, 2));
                out.extend(fives(&block[4..]).map(|q| d * f32::from(q) + m));
            }
            Self::Q4K => k_mins(block, &block[16..], |_, _| 0, out),
            Self::Q5K => {
                let high = &block[16..48];
                k_mins(block, &block[48..], |group, i| high[i] >> group & 1, out);
            }
            Self::Q6K => q6_k(block, out),
        }
    }
}

fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Low halves of all bytes, then high halves.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    bytes.iter().map(|b| b & 15).chain(bytes.iter().map(|b| b >> 4))
}

/// Nibbles with a fifth bit each: four bytes of fifth bits come first.
fn fives(bytes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let high = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    nibbles(&bytes[4..]).enumerate().map(move |(i, q)| q | ((high >> i & 1) as u8) << 4)
}

/// Q4_K and Q5_K: eight groups of 32 values, each with a 6-bit scale and a 6-bit minimum. `high(group, i)` is the fifth bit.
fn k_mins(block: &[u8], low: &[u8], high: impl Fn(usize, usize) -> u8, out: &mut Vec<f32>) {
    let (d, dmin) = (half(block, 0), half(block, 2));
    let packed = &block[4..16];
    for group in 0..8 {
        let (scale, minimum) = six_bits(packed, group);
        let (d, m) = (d * f32::from(scale), dmin * f32::from(minimum));
        let bytes = &low[group / 2 * 32..][..32];
        for (i, byte) in bytes.iter().enumerate() {
            let q = (byte >> (4 * (group % 2)) & 15) | high(group, i) << 4;
            out.push(d * f32::from(q) - m);
        }
    }
}

/// Scale and minimum of a group. The first four of each lie in the low 6 bits of bytes 0..4 and 4..8; the others take 4 bits from
/// bytes 8..12 and their upper 2 from the top of the former.
fn six_bits(packed: &[u8], group: usize) -> (u8, u8) {
    if group < 4 {
        return (packed[group] & 63, packed[group + 4] & 63);
    }
    let i = group - 4;
    let (top_scale, top_minimum) = (packed[i] >> 6, packed[i + 4] >> 6);
    (packed[i + 8] & 15 | top_scale << 4, packed[i + 8] >> 4 | top_minimum << 4)
}

/// Q6_K: two halves of 128 values; each value has 4 low and 2 high bits, each run of 16 an 8-bit scale.
fn q6_k(block: &[u8], out: &mut Vec<f32>) {
    let (low, high, scales, d) = (&block[..128], &block[128..192], &block[192..208], half(block, 208));
    for n in 0..SUPER {
        let (part, group, i) = (n / 128, n % 128 / 32, n % 32);
        // Groups 0 and 1 are the low nibbles of 64 bytes, groups 2 and 3 the high ones.
        let four = low[part * 64 + group % 2 * 32 + i] >> (4 * (group / 2)) & 15;
        let two = high[part * 32 + i] >> (2 * group) & 3;
        let scale = d * f32::from(scales[n / 16] as i8);
        out.push(scale * (f32::from(four | two << 4) - 32.0));
    }
}
