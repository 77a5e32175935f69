//! Tensors of safetensors files as bf16.
//!
//! **Bits.** f32 and f16 are rounded to bf16 to nearest, ties to even (f16 to bf16 goes through f32, which is exact). A value that
//! is not finite afterwards is an error, so NaN payloads never matter.

use std::collections::{BTreeMap, BTreeSet};

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use super::TensorPlace;
use crate::error::{Error, Result};
use crate::model::ModelFiles;

struct Tensor {
    shape: Vec<usize>,
    bits: Vec<u16>,
}

/// Tensors not yet taken.
pub(super) struct Tensors {
    tensors: BTreeMap<String, Tensor>,
    formats: BTreeSet<String>,
}

impl Tensors {
    pub(super) fn read(files: &ModelFiles) -> Result<Self> {
        let mut all = Self { tensors: BTreeMap::new(), formats: BTreeSet::new() };
        for file in files.weight_files()? {
            let bad = |detail: String| Error::Safetensors { file: file.clone(), detail };
            let parsed = SafeTensors::deserialize(files.required(&file)?).map_err(|e| bad(e.to_string()))?;
            for (name, view) in parsed.tensors() {
                let bits = to_bf16(&name, view.dtype(), view.data())?;
                all.formats.insert(format!("{:?}", view.dtype()));
                let tensor = Tensor { shape: view.shape().to_vec(), bits };
                if all.tensors.insert(name.clone(), tensor).is_some() {
                    return Err(bad(format!("tensor `{name}` is in two files")));
                }
            }
        }
        Ok(all)
    }

    /// Removes a tensor, checking its shape.
    pub(super) fn take(&mut self, place: &TensorPlace) -> Result<Vec<u16>> {
        let name = &place.name;
        let tensor = self.tensors.remove(name).ok_or_else(|| Error::MissingTensor { name: name.clone() })?;
        if tensor.shape != place.shape() {
            return Err(Error::TensorShape { name: name.clone(), found: tensor.shape, expected: place.shape() });
        }
        Ok(tensor.bits)
    }

    /// Removes a tensor that repeats another one; one that differs stays and is reported as unexpected.
    pub(super) fn drop_copy_of(&mut self, name: &str, original: &[u16]) {
        if self.tensors.get(name).is_some_and(|t| t.bits == original) {
            self.tensors.remove(name);
        }
    }

    /// The formats seen, once nothing is left over.
    pub(super) fn finish(self) -> Result<Vec<String>> {
        if self.tensors.is_empty() {
            return Ok(self.formats.into_iter().collect());
        }
        let count = self.tensors.len();
        let mut names: Vec<String> = self.tensors.into_keys().take(4).collect();
        if count > names.len() {
            names.push(format!("and {} more", count - names.len()));
        }
        Err(Error::UnexpectedTensors { names: names.join(", ") })
    }
}

fn to_bf16(name: &str, dtype: Dtype, data: &[u8]) -> Result<Vec<u16>> {
    let bits: Vec<u16> = match dtype {
        Dtype::BF16 => halves(data).collect(),
        Dtype::F16 => halves(data).map(|b| bf16::from_f32(f16::from_bits(b).to_f32()).to_bits()).collect(),
        Dtype::F32 => words(data).map(|b| bf16::from_f32(f32::from_bits(b)).to_bits()).collect(),
        other => return Err(Error::TensorType { name: name.into(), dtype: format!("{other:?}") }),
    };
    match bits.iter().position(|b| !bf16::from_bits(*b).is_finite()) {
        None => Ok(bits),
        Some(index) => Err(Error::TensorValue { name: name.into(), index, bits: u32::from(bits[index]) << 16 }),
    }
}

fn halves(data: &[u8]) -> impl Iterator<Item = u16> + '_ {
    data.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]]))
}

fn words(data: &[u8]) -> impl Iterator<Item = u32> + '_ {
    data.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn narrowing_rounds_to_nearest_even() {
        // 1 + 2^-8 is a tie between 3f80 and 3f81; 1 + 3*2^-8 between 3f81 and 3f82; one ulp above a tie goes up.
        let data = f32s(&[0x3f80_8000, 0x3f81_8000, 0x3f80_8001, 0x8000_0001, 0x0001_8000]);
        assert_eq!(to_bf16("t", Dtype::F32, &data).unwrap(), [0x3f80, 0x3f82, 0x3f81, 0x8000, 0x0002]);
        // f16 1 + 2^-10 needs more bits than bf16 has; the smallest f16 subnormal is exact.
        let halves: Vec<u8> = [0x3c01u16, 0x0001].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(to_bf16("t", Dtype::F16, &halves).unwrap(), [0x3f80, 0x3380]);
    }

    #[test]
    fn what_is_not_finite_or_not_float_is_refused() {
        for bad in [0x7f80_0000, 0x7fc0_0000, 0x7f7f_ffff] {
            assert!(matches!(to_bf16("t", Dtype::F32, &f32s(&[0, bad])), Err(Error::TensorValue { index: 1, .. })));
        }
        assert!(matches!(to_bf16("t", Dtype::I8, &[0]), Err(Error::TensorType { .. })));
    }
}
