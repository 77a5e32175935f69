//! The files of a model, and their digests.
//!
//! Small files are read whole; weight files are mapped. A mapped file can change after it was hashed, so whoever has used one asks
//! [`ModelFiles::unchanged`] afterwards.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::mapped::Mapped;
use crate::error::{Error, Result};
use crate::gguf::Gguf;

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

/// Bytes of a file.
#[derive(Clone, Debug)]
enum Content {
    Owned(Vec<u8>),
    Mapped(Arc<Mapped>),
}

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Content::Owned(bytes) => bytes,
            Content::Mapped(map) => map,
        }
    }
}

/// The bytes of a model's files, by name.
#[derive(Clone, Debug, Default)]
pub struct ModelFiles {
    files: BTreeMap<String, Content>,
}

/// Files of a folder read when present; all but the weights.
const SMALL_FILES: &[&str] =
    &["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];
/// Those among them that count beside a GGUF file, which holds everything else itself.
const BESIDE_GGUF: &[&str] =
    &["generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];
/// Most bytes of one that is not weights; large tokenizers have tens of megabytes.
const MAX_SMALL_BYTES: u64 = 1 << 28;
/// Most bytes of one file of weights.
pub(super) const MAX_WEIGHTS: u64 = 1 << 37;
/// The weight file of an unsharded model.
pub(crate) const WEIGHTS: &str = "model.safetensors";
/// The index of a sharded model.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

impl ModelFiles {
    /// Files given as bytes.
    pub fn from_bytes<N: Into<String>>(files: impl IntoIterator<Item = (N, Vec<u8>)>) -> Self {
        Self { files: files.into_iter().map(|(n, b)| (n.into(), Content::Owned(b))).collect() }
    }

    /// Reads a model: a GGUF file, or a folder that holds a Hugging Face checkpoint (one `model.safetensors`, or the shards its
    /// index names) or a single GGUF file.
    ///
    /// # Errors
    /// [`Error::Read`] for a file that must exist and does not, is no regular file, or has more than 256 MiB (128 GiB for weights);
    /// [`Error::Json`] for a bad index, [`Error::NoModel`] for a path that holds neither.
    pub fn read(path: &Path) -> Result<Self> {
        if path.is_file() {
            if path.extension().is_some_and(|e| e == "gguf") {
                return Self::read_gguf(path);
            }
            let detail = "a model is a folder or a .gguf file".to_owned();
            return Err(Error::NoModel { path: path.to_owned(), detail });
        }
        if !path.join("config.json").exists()
            && let Some(file) = only_gguf(path)?
        {
            return Self::read_gguf(&file);
        }
        let mut files = read_small(path, SMALL_FILES)?;
        for name in ["config.json", "tokenizer.json"] {
            // Read again when absent, for the error that says so.
            if !files.contains_key(name) {
                files.insert(name.to_owned(), read(&path.join(name))?);
            }
        }
        let index = path.join(INDEX);
        if index.exists() {
            let text = read(&index)?;
            for shard in shards(text.bytes())? {
                let map = map(&path.join(&shard))?;
                files.insert(shard, map);
            }
            files.insert(INDEX.to_owned(), text);
        } else {
            files.insert(WEIGHTS.to_owned(), map(&path.join(WEIGHTS))?);
        }
        Ok(Self { files })
    }

    fn read_gguf(path: &Path) -> Result<Self> {
        let name = path.file_name().map_or_else(|| "model.gguf".into(), |n| n.to_string_lossy().into_owned());
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut files = read_small(folder, BESIDE_GGUF)?;
        files.insert(name, map(path)?);
        Ok(Self { files })
    }

    /// Name of the GGUF file, when the model is one.
    pub fn gguf_name(&self) -> Option<&str> {
        self.files.keys().map(String::as_str).find(|name| name.ends_with(".gguf"))
    }

    /// The GGUF file, when the model is one.
    ///
    /// # Errors
    /// See [`Gguf::parse`].
    pub fn gguf(&self) -> Result<Option<Gguf<'_>>> {
        let Some(name) = self.gguf_name() else { return Ok(None) };
        let named = |e| match e {
            Error::WeightFile { detail, .. } => Error::WeightFile { file: name.to_owned(), detail },
            other => other,
        };
        Gguf::parse(self.required(name)?).map(Some).map_err(named)
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
        self.files.get(name).map(Content::bytes)
    }

    /// A file's bytes, to be changed in place; none for a mapped file.
    pub fn bytes_mut(&mut self, name: &str) -> Option<&mut Vec<u8>> {
        match self.files.get_mut(name) {
            Some(Content::Owned(bytes)) => Some(bytes),
            Some(Content::Mapped(_)) | None => None,
        }
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

    /// The weight file of each tensor, when the model is sharded.
    ///
    /// # Errors
    /// [`Error::Json`] for a bad index.
    pub fn shard_index(&self) -> Result<Option<BTreeMap<String, String>>> {
        self.optional(INDEX).map(placed).transpose()
    }

    /// Digests of all files, by name.
    pub fn manifest(&self) -> Vec<FileDigest> {
        let digest = |(name, content): (&String, &Content)| FileDigest {
            name: name.clone(),
            bytes: content.bytes().len() as u64,
            sha256: Sha256::digest(content.bytes()).into(),
        };
        self.files.iter().map(digest).collect()
    }

    /// That mapped files still hold what `manifest` says.
    ///
    /// # Errors
    /// [`Error::FileChanged`].
    pub fn unchanged(&self, manifest: &[FileDigest]) -> Result<()> {
        for (name, content) in &self.files {
            let Content::Mapped(map) = content else { continue };
            let now: [u8; 32] = Sha256::digest(&***map).into();
            if manifest.iter().find(|f| f.name == *name).map(|f| f.sha256) != Some(now) {
                return Err(Error::FileChanged { file: name.clone() });
            }
        }
        Ok(())
    }
}

/// The one GGUF file of a folder.
fn only_gguf(folder: &Path) -> Result<Option<std::path::PathBuf>> {
    let failed = |source| Error::Read { path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|e| e == "gguf") {
            found.push(path);
        }
    }
    match found.len() {
        0 => Ok(None),
        1 => Ok(found.pop()),
        n => {
            let detail = format!("holds {n} GGUF files; name the one to load");
            Err(Error::NoModel { path: folder.to_owned(), detail })
        }
    }
}

fn read_small(folder: &Path, names: &[&str]) -> Result<BTreeMap<String, Content>> {
    let present = names.iter().map(|name| (*name, folder.join(name))).filter(|(_, path)| path.exists());
    present.map(|(name, path)| Ok((name.to_owned(), read(&path)?))).collect()
}

fn read(path: &Path) -> Result<Content> {
    let bytes = record::file::read(path, MAX_SMALL_BYTES);
    bytes.map(Content::Owned).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn map(path: &Path) -> Result<Content> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    Ok(Content::Mapped(Arc::new(Mapped::open(path).map_err(failed)?)))
}

/// File names of an index, each once, sorted.
fn shards(index: &[u8]) -> Result<Vec<String>> {
    let mut names: Vec<String> = placed(index)?.into_values().collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Tensor to file, as an index says. A name with a path in it is refused: an index is untrusted input.
fn placed(index: &[u8]) -> Result<BTreeMap<String, String>> {
    let bad = |detail: String| Error::Json { file: INDEX.to_owned(), detail };
    let value: serde_json::Value = serde_json::from_slice(index).map_err(|e| bad(e.to_string()))?;
    let map = value["weight_map"].as_object().ok_or_else(|| bad("no object `weight_map`".into()))?;
    let plain =
        |name: &str| name.ends_with(".safetensors") && !name.starts_with('.') && !name.contains(['/', '\\', ':', '\0']);
    let place = |(tensor, file): (&String, &serde_json::Value)| match file.as_str() {
        Some(name) if plain(name) => Ok((tensor.clone(), name.to_owned())),
        _ => Err(bad(format!("`weight_map` names {file}, which is not a plain name of a .safetensors file"))),
    };
    map.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_lists_its_shards_once_and_no_paths() {
        let index =
            br#"{"metadata":{},"weight_map":{"a":"m-2.safetensors","b":"m-1.safetensors","c":"m-2.safetensors"}}"#;
        assert_eq!(shards(index).unwrap(), ["m-1.safetensors", "m-2.safetensors"]);
        let names = ["../x.safetensors", "/x.safetensors", "a/b.safetensors", "c:x.safetensors", "..", "x.bin", ""];
        let bad = names.map(|name| serde_json::json!({"weight_map": {"a": name}}).to_string());
        let others = [r#"{"weight_map":{"a":1}}"#, "{}", "["];
        for bad in bad.iter().map(String::as_str).chain(others).map(str::as_bytes) {
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
