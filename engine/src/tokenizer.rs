//! Text to token ids and back, by the model's `tokenizer.json`.
//!
//! Records and verdicts are about *ids*; text is a convenience at the edges, because `encode(decode(ids)) == ids` does not
//! hold in general.

use std::sync::Arc;

use crate::config::Config;
use crate::error::{Error, Result};

/// A tokenizer.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
}

impl Tokenizer {
    /// Reads `tokenizer.json`, and checks it against `tokenizer_config.json` and the model's configuration.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] if the file is refused, knows ids beyond the vocabulary, or disagrees with `add_bos_token`.
    pub fn new(json: &[u8], settings: Option<&[u8]>, config: &Config) -> Result<Self> {
        // The library takes for granted that what it looks at twice is JSON, and panics where it is not.
        serde_json::from_slice::<serde::de::IgnoredAny>(json).map_err(|e| refused(e.to_string()))?;
        let read = std::panic::catch_unwind(|| tokenizers::Tokenizer::from_bytes(json));
        let read = read.map_err(|_| refused("the library that reads it gave up".to_owned()))?;
        let inner = read.map_err(|e| refused(e.to_string()))?;
        let last = inner.get_vocab(true).into_values().max().unwrap_or(0);
        if last >= config.vocab_size {
            return Err(refused(format!("id {last} is beyond the model's vocabulary of {}", config.vocab_size)));
        }
        let tokenizer = Self { inner: Arc::new(inner) };
        if let Some(settings) = settings {
            tokenizer.check_bos(settings, config)?;
        }
        Ok(tokenizer)
    }

    /// Ids of `text`, with the special tokens (such as a beginning-of-sequence id) that the model's template adds.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.inner.encode(text, true).map_err(|e| refused(e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Ids of text that holds its special tokens already, as a rendered chat template does.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub fn encode_rendered(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.inner.encode(text, false).map_err(|e| refused(e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The special ids that [`Tokenizer::encode`] puts before a text.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub fn added_special(&self) -> Result<Vec<u32>> {
        let plain = self.inner.encode("a", false).map_err(|e| refused(e.to_string()))?;
        let with = self.encode("a")?;
        match with.strip_suffix(plain.get_ids()) {
            Some(before) => Ok(before.to_vec()),
            None => Err(refused("the template adds ids after the text, which no record can state".into())),
        }
    }

    /// Text of `ids`, special tokens left out.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.inner.decode(ids, true).map_err(|e| refused(e.to_string()))
    }

    /// True if the text of `ids`, special tokens left out, has one of `strings` in it: what ends a request with stop strings. Bytes that are no
    /// character (yet) count as U+FFFD.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub fn text_has(&self, ids: &[u32], strings: &[String]) -> Result<bool> {
        if strings.is_empty() {
            return Ok(false);
        }
        let text = self.decode(ids)?;
        Ok(strings.iter().any(|s| text.contains(s.as_str())))
    }

    /// The piece of vocabulary behind an id, as stored (`Ġthe`, `▁a`, `<s>`).
    pub fn piece(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// `add_bos_token` of the settings and the template of `tokenizer.json` must say the same.
    fn check_bos(&self, settings: &[u8], config: &Config) -> Result<()> {
        let settings: serde_json::Value = serde_json::from_slice(settings)
            .map_err(|e| Error::Json { file: "tokenizer_config.json".into(), detail: e.to_string() })?;
        let Some(wanted) = settings["add_bos_token"].as_bool() else { return Ok(()) };
        // The settings name the token; some models' config.json states another one that is never used.
        let named = settings["bos_token"].as_str().or_else(|| settings["bos_token"]["content"].as_str());
        let bos = named.and_then(|text| self.inner.token_to_id(text)).or(config.bos);
        let adds = bos.is_some() && self.encode("a")?.first() == bos.as_ref();
        if adds == wanted {
            return Ok(());
        }
        Err(refused(format!(
            "tokenizer_config.json says add_bos_token = {wanted}, but the template in tokenizer.json {} the id",
            if adds { "adds" } else { "does not add" }
        )))
    }
}

fn refused(detail: String) -> Error {
    Error::Tokenizer { detail }
}
