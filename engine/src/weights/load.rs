//! Tensors of weight files as bf16, one row at a time.
//!
//! **Bits.** Every stored value becomes an f32 first (exact for f32, f16 and bf16; for blocks see [`crate::gguf`]) and is then rounded to bf16 to
//! nearest, ties to even. A value that is not finite afterwards is an error, so NaN payloads never matter.

use std::collections::{BTreeMap, BTreeSet};

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use super::TensorPlace;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::gguf::{BlockType, Gguf};
use crate::model::ModelFiles;

/// How numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Bf16,
    F16,
    F32,
    Blocks(BlockType),
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Bf16 => "BF16",
            Format::F16 => "F16",
            Format::F32 => "F32",
            Format::Blocks(t) => t.name(),
        }
    }

    /// Bytes of a row of `cols` values; a row of blocks is whole blocks, which the reader of the file has checked.
    fn row_bytes(self, cols: usize) -> usize {
        match self {
            Format::Bf16 | Format::F16 => cols * 2,
            Format::F32 => cols * 4,
            Format::Blocks(t) => cols / t.elements() * t.bytes(),
        }
    }

    /// Appends the values of whole rows, widened to f32 where that is not their own width.
    fn widen(self, data: &[u8], out: &mut Vec<f32>) {
        match self {
            Format::Bf16 => out.extend(halves(data).map(|b| bf16::from_bits(b).to_f32())),
            Format::F16 => out.extend(halves(data).map(|b| f16::from_bits(b).to_f32())),
            Format::F32 => {
                out.extend(data.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])));
            }
            Format::Blocks(t) => data.chunks_exact(t.bytes()).for_each(|block| t.decode(block, out)),
        }
    }
}

fn halves(data: &[u8]) -> impl Iterator<Item = u16> + '_ {
    data.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]]))
}

/// A tensor where it lies in its file.
struct Stored<'a> {
    shape: Vec<usize>,
    format: Format,
    data: &'a [u8],
    /// Rows come in heads of this many, whose halves are interleaved: stored row `2j + h` is row `h * dim/2 + j`.
    interleaved: Option<u32>,
}

impl Stored<'_> {
    fn cols(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The bf16 bits of one row.
    fn row(&self, name: &str, row: u32) -> Result<Vec<u16>> {
        let stored = match self.interleaved {
            None => row,
            Some(dim) => {
                let (head, within) = (row / dim, row % dim);
                head * dim + 2 * (within % (dim / 2)) + within / (dim / 2)
            }
        };
        let bytes = self.format.row_bytes(self.cols());
        let start = stored as usize * bytes;
        let mut wide = Vec::with_capacity(self.cols());
        self.format.widen(&self.data[start..start + bytes], &mut wide);
        let bits: Vec<u16> = wide.iter().map(|v| bf16::from_f32(*v).to_bits()).collect();
        match bits.iter().position(|b| !bf16::from_bits(*b).is_finite()) {
            None => Ok(bits),
            Some(col) => Err(Error::TensorValue {
                name: name.into(),
                index: row as usize * self.cols() + col,
                bits: wide[col].to_bits(),
            }),
        }
    }
}

/// Tensors not yet taken.
pub(super) struct Tensors<'a> {
    tensors: BTreeMap<String, Stored<'a>>,
    formats: BTreeSet<&'static str>,
}

impl<'a> Tensors<'a> {
    pub(super) fn read(config: &Config, files: &'a ModelFiles) -> Result<Self> {
        let mut all = Self { tensors: BTreeMap::new(), formats: BTreeSet::new() };
        match files.gguf()? {
            Some(gguf) => all.read_gguf(config, &gguf),
            None => all.read_safetensors(files),
        }?;
        Ok(all)
    }

    fn read_safetensors(&mut self, files: &'a ModelFiles) -> Result<()> {
        let index = files.shard_index()?;
        for file in files.weight_files()? {
            let bad = |detail: String| Error::WeightFile { file: file.clone(), detail };
            let parsed = SafeTensors::deserialize(files.required(&file)?).map_err(|e| bad(e.to_string()))?;
            for (name, view) in parsed.iter() {
                let format = match view.dtype() {
                    Dtype::BF16 => Format::Bf16,
                    Dtype::F16 => Format::F16,
                    Dtype::F32 => Format::F32,
                    other => return Err(Error::TensorType { name: name.into(), dtype: format!("{other:?}") }),
                };
                if index.as_ref().is_some_and(|i| i.get(name) != Some(&file)) {
                    return Err(bad(format!("holds tensor `{name}`, which the index does not place there")));
                }
                let stored = Stored { shape: view.shape().to_vec(), format, data: view.data(), interleaved: None };
                if !self.add(name.to_owned(), stored) {
                    return Err(bad(format!("tensor `{name}` is in two files")));
                }
            }
        }
        match index.iter().flatten().find(|(name, _)| !self.tensors.contains_key(*name)) {
            None => Ok(()),
            Some((name, file)) => Err(Error::WeightFile {
                file: file.clone(),
                detail: format!("lacks tensor `{name}`, which the index places there"),
            }),
        }
    }

    fn read_gguf(&mut self, config: &Config, gguf: &Gguf<'a>) -> Result<()> {
        for tensor in gguf.weights(config)? {
            let format = match tensor.block {
                BlockType::F32 => Format::F32,
                BlockType::F16 => Format::F16,
                BlockType::Bf16 => Format::Bf16,
                other => Format::Blocks(other),
            };
            let stored = Stored { shape: tensor.shape, format, data: tensor.data, interleaved: tensor.interleaved };
            if !self.add(tensor.name.clone(), stored) {
                let file = "GGUF".to_owned();
                return Err(Error::WeightFile { file, detail: format!("tensor `{}` stands twice", tensor.name) });
            }
        }
        Ok(())
    }

    fn add(&mut self, name: String, stored: Stored<'a>) -> bool {
        self.formats.insert(stored.format.name());
        self.tensors.insert(name, stored).is_none()
    }

    /// That a tensor is there, in its shape.
    pub(super) fn check(&self, place: &TensorPlace) -> Result<()> {
        let name = &place.name;
        let tensor = self.tensors.get(name).ok_or_else(|| Error::MissingTensor { name: name.clone() })?;
        if tensor.shape != place.shape() {
            let (found, expected) = (tensor.shape.clone(), place.shape());
            return Err(Error::TensorShape { name: name.clone(), found, expected });
        }
        Ok(())
    }

    /// Removes a tensor and hands over its rows.
    pub(super) fn take(&mut self, place: &TensorPlace, mut put: impl FnMut(u32, &[u16])) -> Result<()> {
        self.check(place)?;
        let Some(tensor) = self.tensors.remove(&place.name) else { return Ok(()) };
        for row in 0..place.rows {
            put(row, &tensor.row(&place.name, row)?);
        }
        Ok(())
    }

    /// Removes a tensor that repeats the one at `place`; one that differs stays and is reported as unexpected.
    pub(super) fn drop_copy(
        &mut self,
        name: &str,
        place: &TensorPlace,
        original: impl Fn(u32, u32) -> Option<u16>,
    ) -> Result<()> {
        let Some(tensor) = self.tensors.get(name).filter(|t| t.shape == place.shape()) else { return Ok(()) };
        for row in 0..place.rows {
            let bits = tensor.row(name, row)?;
            if !(0..).zip(&bits).all(|(col, b)| original(row, col) == Some(*b)) {
                return Ok(());
            }
        }
        self.tensors.remove(name);
        Ok(())
    }

    /// The formats seen, once nothing is left over.
    pub(super) fn finish(self) -> Result<Vec<String>> {
        if self.tensors.is_empty() {
            return Ok(self.formats.into_iter().map(ToOwned::to_owned).collect());
        }
        let count = self.tensors.len();
        let mut names: Vec<String> = self.tensors.into_keys().take(4).collect();
        if count > names.len() {
            names.push(format!("and {} more", count - names.len()));
        }
        Err(Error::UnexpectedTensors { names: names.join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(format: Format, data: &[u8]) -> Result<Vec<u16>> {
        let cols = data.len() / format.row_bytes(1);
        Stored { shape: vec![1, cols], format, data, interleaved: None }.row("t", 0)
    }

    fn f32s(values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn narrowing_rounds_to_nearest_even() {
        // 1 + 2^-8 is a tie between 3f80 and 3f81; 1 + 3*2^-8 between 3f81 and 3f82; one ulp above a tie goes up.
        let data = f32s(&[0x3f80_8000, 0x3f81_8000, 0x3f80_8001, 0x8000_0001, 0x0001_8000]);
        assert_eq!(row(Format::F32, &data).unwrap(), [0x3f80, 0x3f82, 0x3f81, 0x8000, 0x0002]);
        // f16 1 + 2^-10 needs more bits than bf16 has; the smallest f16 subnormal is exact.
        let halves: Vec<u8> = [0x3c01u16, 0x0001].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(row(Format::F16, &halves).unwrap(), [0x3f80, 0x3380]);
    }

    #[test]
    fn what_is_not_finite_is_refused() {
        for bad in [0x7f80_0000, 0x7fc0_0000, 0x7f7f_ffff] {
            let found = row(Format::F32, &f32s(&[0, bad]));
            assert!(matches!(found, Err(Error::TensorValue { index: 1, bits, .. }) if bits == bad));
        }
    }

    /// Every bf16 pattern survives: widening and narrowing again is the identity.
    #[test]
    fn bf16_stays_as_it_is() {
        let finite: Vec<u16> = (0..=u16::MAX).filter(|b| bf16::from_bits(*b).is_finite()).collect();
        let data: Vec<u8> = finite.iter().flat_map(|b| b.to_le_bytes()).collect();
        assert_eq!(row(Format::Bf16, &data).unwrap(), finite);
    }

    #[test]
    fn interleaved_heads_are_put_in_halves() {
        let data: Vec<u8> = (0..16u16).flat_map(|i| bf16::from_f32(f32::from(i)).to_bits().to_le_bytes()).collect();
        let stored = Stored { shape: vec![16, 1], format: Format::Bf16, data: &data, interleaved: Some(8) };
        let rows: Vec<f32> = (0..16).map(|r| bf16::from_bits(stored.row("t", r).unwrap()[0]).to_f32()).collect();
        assert_eq!(rows, [0., 2., 4., 6., 1., 3., 5., 7., 8., 10., 12., 14., 9., 11., 13., 15.]);
    }
}
