//! Tensor digests, specified by `docs/spec/tensor-digest.md`.
//!
//! `H("lastbit/tensor/v1" || 0 || dtype || rank || dims || little-endian bytes)`: two tensors have the same digest
//! only if they have the same element type, the same shape and the same bits.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::digest::{Digest, Tagged};

/// Element type of a stored tensor. Its name, not an enum number, enters the digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE 754 binary16.
    F16,
    /// Unsigned 32-bit integer (token ids, masks).
    U32,
    /// Bytes.
    U8,
}

impl DType {
    /// The name that is hashed and written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::U32 => "u32",
            Self::U8 => "u8",
        }
    }

    /// Bytes per element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::F32 | Self::U32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::U8 => 1,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Elements as the engine holds them; hashing writes them little-endian whatever the host is.
#[derive(Debug, Clone, Copy)]
pub enum Elements<'a> {
    /// 16-bit patterns.
    U16(&'a [u16]),
    /// 32-bit patterns.
    U32(&'a [u32]),
    /// Little-endian bytes.
    Bytes(&'a [u8]),
}

impl Elements<'_> {
    fn byte_len(&self) -> usize {
        match self {
            Self::U16(e) => e.len() * 2,
            Self::U32(e) => e.len() * 4,
            Self::Bytes(e) => e.len(),
        }
    }

    fn width(&self) -> Option<usize> {
        match self {
            Self::U16(_) => Some(2),
            Self::U32(_) => Some(4),
            Self::Bytes(_) => None,
        }
    }

    /// The elements as little-endian bytes.
    #[must_use]
    pub fn to_le_bytes(&self) -> Vec<u8> {
        match self {
            Self::U16(e) => e.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Self::U32(e) => e.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Self::Bytes(e) => e.to_vec(),
        }
    }
}

/// A borrowed tensor: element type, shape (row-major) and elements.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    /// Element type.
    pub dtype: DType,
    /// Row-major shape, outermost dimension first; at most [`MAX_RANK`] dimensions.
    pub shape: &'a [u64],
    /// The elements.
    pub elements: Elements<'a>,
}

/// Most dimensions a tensor may have.
pub const MAX_RANK: usize = 8;

impl<'a> TensorView<'a> {
    /// A bf16 tensor of 16-bit patterns.
    #[must_use]
    pub fn bf16(shape: &'a [u64], bits: &'a [u16]) -> Self {
        Self { dtype: DType::Bf16, shape, elements: Elements::U16(bits) }
    }

    /// An f32 tensor of 32-bit patterns.
    #[must_use]
    pub fn f32(shape: &'a [u64], bits: &'a [u32]) -> Self {
        Self { dtype: DType::F32, shape, elements: Elements::U32(bits) }
    }

    /// A tensor given as little-endian bytes.
    #[must_use]
    pub fn bytes(dtype: DType, shape: &'a [u64], bytes: &'a [u8]) -> Self {
        Self { dtype, shape, elements: Elements::Bytes(bytes) }
    }

    /// The tensor digest.
    ///
    /// # Errors
    /// [`Error::TensorShape`] when the elements do not fill the shape exactly, their width is not that of the element
    /// type, or there are more than [`MAX_RANK`] dimensions: the caller's mistake.
    pub fn digest(&self) -> Result<Digest, Error> {
        let wrong =
            || Error::TensorShape { dtype: self.dtype, shape: self.shape.to_vec(), bytes: self.elements.byte_len() };
        let width_fits = self.elements.width().is_none_or(|width| width == self.dtype.size());
        if !width_fits || byte_len(self.dtype, self.shape) != Some(self.elements.byte_len() as u64) {
            return Err(wrong());
        }
        let mut hash = Tagged::new("lastbit/tensor/v1");
        hash.text(self.dtype.name());
        hash.u8(u8::try_from(self.shape.len()).map_err(|_| wrong())?);
        for dim in self.shape {
            hash.u64(*dim);
        }
        match self.elements {
            Elements::Bytes(bytes) => {
                hash.bytes(bytes);
            }
            Elements::U16(bits) => hash_chunks(&mut hash, bits, u16::to_le_bytes),
            Elements::U32(bits) => hash_chunks(&mut hash, bits, u32::to_le_bytes),
        }
        Ok(hash.finish())
    }
}

/// Bytes that a tensor of this type and shape occupies; `None` when that overflows or the rank is too high.
#[must_use]
pub fn byte_len(dtype: DType, shape: &[u64]) -> Option<u64> {
    if shape.len() > MAX_RANK {
        return None;
    }
    shape.iter().try_fold(dtype.size() as u64, |product, dim| product.checked_mul(*dim))
}

fn hash_chunks<T: Copy, const N: usize>(hash: &mut Tagged, elements: &[T], to_le: fn(T) -> [u8; N]) {
    let mut buffer = [0_u8; 4096];
    for chunk in elements.chunks(buffer.len() / N) {
        for (place, element) in buffer.chunks_exact_mut(N).zip(chunk) {
            place.copy_from_slice(&to_le(*element));
        }
        hash.bytes(&buffer[..chunk.len() * N]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_the_documented_one() {
        let digest = TensorView::bf16(&[1, 2], &[0x3f80, 0x8000]).digest().unwrap();
        let mut bytes = b"lastbit/tensor/v1\0\x04\0\0\0bf16\x02".to_vec();
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(2_u64.to_le_bytes());
        bytes.extend([0x80, 0x3f, 0x00, 0x80]);
        assert_eq!(digest, Digest::of_file(&bytes));
    }

    #[test]
    fn words_and_bytes_agree_across_chunk_borders() {
        let bits: Vec<u32> = (0..5000).map(|i: u32| i.wrapping_mul(0x9e37_79b9)).collect();
        let shape = [5000];
        let words = TensorView::f32(&shape, &bits);
        let bytes = words.elements.to_le_bytes();
        assert_eq!(words.digest().unwrap(), TensorView::bytes(DType::F32, &shape, &bytes).digest().unwrap());
    }

    #[test]
    fn type_and_shape_enter_the_digest() {
        let bytes = [0_u8; 8];
        let of = |dtype, shape: &[u64]| TensorView::bytes(dtype, shape, &bytes).digest().unwrap();
        let all = [of(DType::F32, &[2]), of(DType::U32, &[2]), of(DType::F32, &[1, 2]), of(DType::F32, &[2, 1])];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn wrong_sizes_are_refused() {
        assert!(TensorView::bf16(&[3], &[0, 0]).digest().is_err());
        assert!(TensorView::bytes(DType::F32, &[u64::MAX, 2], &[0]).digest().is_err());
        assert!(TensorView::bytes(DType::U8, &[1; 9], &[0]).digest().is_err());
        let elements = Elements::U16(&[0, 0]);
        assert!(TensorView { dtype: DType::F32, shape: &[1], elements }.digest().is_err());
    }
}
