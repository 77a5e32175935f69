//! The header of a GGUF file.

use std::collections::BTreeMap;

use super::BlockType;
use super::value::{Cursor, Value, bad};
use crate::error::{Error, Result};

/// A tensor of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<'a> {
    /// Its name in the file.
    pub name: &'a str,
    /// Rows before columns, the reverse of the order in the file.
    pub shape: Vec<usize>,
    /// Number format.
    pub block: BlockType,
    /// Its bytes.
    pub data: &'a [u8],
}

/// A parsed file.
#[derive(Clone, Debug)]
pub struct Gguf<'a> {
    /// Metadata by key.
    pub metadata: BTreeMap<&'a str, Value<'a>>,
    /// Tensors by name.
    pub tensors: BTreeMap<&'a str, Tensor<'a>>,
}

/// Where tensors begin, unless the file says otherwise: multiples of so many bytes.
const ALIGNMENT: u64 = 32;
const MAX_ALIGNMENT: u64 = 1 << 16;
const MAX_DIMENSIONS: u32 = 4;
/// A key and an empty value; a tensor with an empty name and no dimensions.
const LEAST_KEY: usize = 8 + 4 + 1;
const LEAST_TENSOR: usize = 8 + 4 + 4 + 8;

impl<'a> Gguf<'a> {
    /// Reads the header and finds the tensors.
    ///
    /// # Errors
    /// [`Error::WeightFile`] for whatever is damaged: unknown versions and types, counts and lengths beyond the file, names that
    /// repeat, tensors that overlap or lie outside the file. [`Error::TensorType`] for a number format that is not decoded here.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut at = Cursor::new(bytes);
        let magic = at.u32("the magic number")?;
        if magic != u32::from_le_bytes(*b"GGUF") {
            return Err(bad("this is no GGUF file: it does not begin with `GGUF`".into()));
        }
        let version = at.u32("the version")?;
        if !(2..=3).contains(&version) {
            return Err(bad(format!("version {version} (as little-endian) is not read here, versions 2 and 3 are")));
        }
        let tensor_count = at.count(LEAST_TENSOR, "tensors")?;
        let key_count = at.count(LEAST_KEY, "metadata keys")?;
        let mut metadata = BTreeMap::new();
        for _ in 0..key_count {
            let key = at.text("a metadata key")?;
            let value = at.value(key)?;
            if metadata.insert(key, value).is_some() {
                return Err(bad(format!("metadata key `{key}` stands twice")));
            }
        }
        let headers = (0..tensor_count).map(|_| Header::read(&mut at)).collect::<Result<Vec<_>>>()?;
        let alignment = match metadata.get("general.alignment") {
            None => ALIGNMENT,
            Some(Value::Uint(n)) if n.is_power_of_two() && *n <= MAX_ALIGNMENT => *n,
            Some(other) => {
                return Err(bad(format!("`general.alignment` = {other:?} is not a power of two up to 65536")));
            }
        };
        let start = (at.position() as u64).next_multiple_of(alignment);
        let start = usize::try_from(start).ok().filter(|s| *s <= bytes.len());
        let data = match (start, headers.is_empty()) {
            (Some(start), _) => &bytes[start..],
            (None, true) => &[],
            (None, false) => return Err(bad("ends before its tensors".into())),
        };
        place(headers, data, alignment).map(|tensors| Self { metadata, tensors })
    }
}

/// What the header says of a tensor.
struct Header<'a> {
    name: &'a str,
    shape: Vec<usize>,
    block: BlockType,
    offset: u64,
    bytes: u64,
}

impl<'a> Header<'a> {
    fn read(at: &mut Cursor<'a>) -> Result<Self> {
        let name = at.text("a tensor's name")?;
        let dimensions = at.u32(name)?;
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(bad(format!("tensor `{name}` has {dimensions} dimensions")));
        }
        let sizes = (0..dimensions).map(|_| at.u64(name)).collect::<Result<Vec<_>>>()?;
        let id = at.u32(name)?;
        let block = BlockType::from_id(id)
            .ok_or_else(|| Error::TensorType { name: name.into(), dtype: format!("GGUF type {id}") })?;
        let offset = at.u64(name)?;
        let (elements, row) = (block.elements() as u64, sizes[0]);
        if !row.is_multiple_of(elements) {
            return Err(bad(format!(
                "tensor `{name}` has rows of {row} values, not whole {} blocks of {elements}",
                block.name()
            )));
        }
        let count = sizes.iter().try_fold(1u64, |n, s| n.checked_mul(*s));
        let bytes = count.and_then(|n| (n / elements).checked_mul(block.bytes() as u64));
        let shape = sizes.iter().rev().map(|s| usize::try_from(*s).ok()).collect::<Option<Vec<_>>>();
        match (bytes, shape) {
            (Some(bytes), Some(shape)) => Ok(Self { name, shape, block, offset, bytes }),
            _ => Err(bad(format!("tensor `{name}` of size {sizes:?} is larger than any file"))),
        }
    }
}

/// Finds each tensor's bytes; no byte belongs to two.
fn place<'a>(mut headers: Vec<Header<'a>>, data: &'a [u8], alignment: u64) -> Result<BTreeMap<&'a str, Tensor<'a>>> {
    headers.sort_by_key(|h| (h.offset, h.bytes));
    let mut tensors = BTreeMap::new();
    let (mut free, mut before) = (0, "");
    for h in headers {
        let name = h.name;
        if !h.offset.is_multiple_of(alignment) {
            return Err(bad(format!("tensor `{name}` begins at {}, no multiple of {alignment}", h.offset)));
        }
        let end = h.offset.checked_add(h.bytes).filter(|end| *end <= data.len() as u64);
        let Some(end) = end else {
            return Err(bad(format!(
                "tensor `{name}` ({} bytes at {}) lies outside the {} bytes of tensors",
                h.bytes,
                h.offset,
                data.len()
            )));
        };
        if h.offset < free {
            return Err(bad(format!("tensors `{before}` and `{name}` overlap")));
        }
        (free, before) = (end, name);
        let data = &data[h.offset as usize..end as usize];
        if tensors.insert(name, Tensor { name, shape: h.shape, block: h.block, data }).is_some() {
            return Err(bad(format!("tensor `{name}` stands twice")));
        }
    }
    Ok(tensors)
}
