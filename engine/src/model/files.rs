//! The files of a model: read whole, hashed, then parsed from the bytes that were hashed.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Name and digest of one file of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// File name within the model folder.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content.
    pub sha256: [u8; 32],
}

/// The bytes of a model's files, by name. Nothing is mapped: a mapped file can change after it was hashed.
#[derive(Clone, Debug, Default)]
pub struct ModelFiles {
    files: BTreeMap<String, Vec<u8>>,
}

/// Most bytes of one file of weights.
const MAX_WEIGHTS: u64 = 1 << 37;
/// Most bytes of a JSON file of a model; large tokenizers have tens of megabytes.
const MAX_JSON: u64 = 1 << 28;

/// Files read when present; all but the weights, which the index may name.
const SMALL_FILES: &[(&str, bool)] = &[
    ("config.json", true),
    ("generation_config.json", false),
    ("tokenizer.json", true),
    ("tokenizer_config.json", false),
];
/// The weight file of an unsharded model.
pub(crate) const WEIGHTS: &str = "model.safetensors";
/// The index of a sharded model.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

impl ModelFiles {
    /// Files given as bytes.
    pub fn from_bytes<N: Into<String>>(files: impl IntoIterator<Item = (N, Vec<u8>)>) -> Self {
        Self { files: files.into_iter().map(|(n, b)| (n.into(), b)).collect() }
    }

    /// Reads a Hugging Face model folder: one `model.safetensors`, or the shards its index names.
    ///
    /// # Errors
    /// [`Error::Read`] for a file that must exist and does not, is no regular file, or has more than 256 MiB (JSON) or 128 GiB (weights);
    /// [`Error::Json`] for a bad index.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        for (name, required) in SMALL_FILES {
            let path = folder.join(name);
            if *required || path.exists() {
                files.insert((*name).to_owned(), read(&path, MAX_JSON)?);
            }
        }
        let index = folder.join(INDEX);
        if index.exists() {
            let text = read(&index, MAX_JSON)?;
            for shard in shards(&text)? {
                files.insert(shard.clone(), read(&folder.join(&shard), MAX_WEIGHTS)?);
            }
            files.insert(INDEX.to_owned(), text);
        } else {
            files.insert(WEIGHTS.to_owned(), read(&folder.join(WEIGHTS), MAX_WEIGHTS)?);
        }
        Ok(Self { files })
    }

    /// A file that must be there.
    ///
    /// # Errors
    /// [`Error::MissingFile`].
    pub fn required(&self, name: &str) -> Result<&[u8]> {
        self.optional(name).ok_or_else(|| Error::MissingFile {
            name: name.to_owned(),
            present: self.files.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// A file that may be there.
    pub fn optional(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(Vec::as_slice)
    }

    /// A file's bytes, to be changed in place.
    pub fn bytes_mut(&mut self, name: &str) -> Option<&mut Vec<u8>> {
        self.files.get_mut(name)
    }

    /// Names of the weight files, in order.
    ///
    /// # Errors
    /// [`Error::Json`] for a bad index.
    pub fn weight_files(&self) -> Result<Vec<String>> {
        match self.optional(INDEX) {
            Some(text) => shards(text),
            None => Ok(vec![WEIGHTS.to_owned()]),
        }
    }

    /// Digests of all files, by name.
    pub fn manifest(&self) -> Vec<FileDigest> {
        let digest = |(name, bytes): (&String, &Vec<u8>)| FileDigest {
            name: name.clone(),
            bytes: bytes.len() as u64,
            sha256: Sha256::digest(bytes).into(),
        };
        self.files.iter().map(digest).collect()
    }
}

fn read(path: &Path, max: u64) -> Result<Vec<u8>> {
    record::file::read(path, max).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// File names of an index, each once, sorted. A name with a path in it is refused: an index is untrusted input.
fn shards(index: &[u8]) -> Result<Vec<String>> {
    let bad = |detail: String| Error::Json { file: INDEX.to_owned(), detail };
    let value: serde_json::Value = serde_json::from_slice(index).map_err(|e| bad(e.to_string()))?;
    let map = value["weight_map"].as_object().ok_or_else(|| bad("no object `weight_map`".into()))?;
    let mut names = Vec::new();
    for file in map.values() {
        match file.as_str() {
            Some(name) if !name.is_empty() && !name.contains(['/', '\\']) && !name.starts_with('.') => {
                names.push(name.to_owned())
            }
            _ => return Err(bad(format!("`weight_map` names {file}, which is not a plain file name"))),
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_lists_its_shards_once_and_no_paths() {
        let index =
            br#"{"metadata":{},"weight_map":{"a":"m-2.safetensors","b":"m-1.safetensors","c":"m-2.safetensors"}}"#;
        assert_eq!(shards(index).unwrap(), ["m-1.safetensors", "m-2.safetensors"]);
        for bad in [&br#"{"weight_map":{"a":"../x"}}"#[..], br#"{"weight_map":{"a":1}}"#, b"{}", b"["] {
            assert!(matches!(shards(bad), Err(Error::Json { .. })));
        }
    }

    #[test]
    fn the_manifest_is_of_the_bytes_held() {
        let mut files = ModelFiles::from_bytes([("config.json", b"abc".to_vec())]);
        let before = files.manifest();
        assert_eq!(before[0].sha256[..4], [0xba, 0x78, 0x16, 0xbf]);
        files.bytes_mut("config.json").unwrap()[0] ^= 1;
        assert_ne!(files.manifest(), before);
        assert!(matches!(files.required(WEIGHTS), Err(Error::MissingFile { .. })));
    }
}
