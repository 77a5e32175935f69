//! The tokenizer in GGUF metadata, as the `tokenizer.json` that means the same.
//!
//! Read are byte-level BPE tokenizers (`tokenizer.ggml.model` = `gpt2`) whose splitting of text is one of [`PRE`]. How text is split is not in the
//! file but only named there, so an unknown name is refused: whoever has the original `tokenizer.json` puts it beside the file.

use serde_json::{Map, Value as Json, json};

use super::read::Gguf;
use super::value::Value;
use crate::config::Config;
use crate::error::{Error, Result};

/// Token types, as the file numbers them.
const UNKNOWN: u64 = 2;
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;

/// A way to split text before merging.
struct Pre {
    /// Names in `tokenizer.ggml.pre`.
    names: &'static [&'static str],
    /// Unicode normalisation.
    normalizer: Option<&'static str>,
    /// Each digit is a piece of its own.
    digits: bool,
    /// Pieces; none: GPT-2's.
    pattern: Option<&'static str>,
    /// A piece that is a token is taken whole, merges or not.
    ignore_merges: bool,
    /// A beginning-of-sequence token comes first unless the file says otherwise.
    adds_bos: bool,
}

const PRE: &[Pre] = &[
    Pre { names: &["gpt-2"], normalizer: None, digits: false, pattern: None, ignore_merges: false, adds_bos: false },
    Pre { names: &["smollm"], normalizer: None, digits: true, pattern: None, ignore_merges: false, adds_bos: false },
    Pre {
        names: &["qwen2", "deepseek-r1-qwen"],
        normalizer: Some("NFC"),
        digits: false,
        pattern: Some(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        ignore_merges: false,
        adds_bos: false,
    },
    Pre {
        names: &["llama-bpe", "llama3", "llama-v3"],
        normalizer: None,
        digits: false,
        pattern: Some(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        ignore_merges: true,
        adds_bos: true,
    },
];

/// The chat template in the file.
pub fn chat_template<'a>(gguf: &Gguf<'a>) -> Option<&'a str> {
    match gguf.metadata.get("tokenizer.chat_template") {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// The text of a token.
pub(crate) fn token_text<'a>(gguf: &Gguf<'a>, id: u32) -> Option<&'a str> {
    match gguf.metadata.get("tokenizer.ggml.tokens") {
        Some(Value::Array(list)) => match list.get(id as usize) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// A `tokenizer.json` that means the same.
///
/// # Errors
/// [`Error::Tokenizer`] for a tokenizer of another kind or a damaged one.
pub fn tokenizer_json(gguf: &Gguf<'_>, config: &Config) -> Result<Vec<u8>> {
    let model = gguf.text("tokenizer.ggml.model").map_err(|_| refused("the file holds none".into()))?;
    if model != "gpt2" {
        return Err(refused(format!("`{model}` tokenizers in GGUF files are not read, `gpt2` (byte-level BPE) is")));
    }
    let name = gguf.text("tokenizer.ggml.pre").map_err(|_| refused("it does not say how it splits text".into()))?;
    let pre = PRE.iter().find(|p| p.names.contains(&name)).ok_or_else(|| {
        let known = PRE.iter().flat_map(|p| p.names).copied().collect::<Vec<_>>().join(", ");
        refused(format!("it splits text by `{name}`, which is not known here; known are {known}"))
    })?;
    if flag(gguf, "tokenizer.ggml.add_eos_token")? == Some(true) {
        return Err(refused("it adds a token after every text, which no record can state".into()));
    }
    let tokens = texts(gguf, "tokenizer.ggml.tokens")?;
    let merges = texts(gguf, "tokenizer.ggml.merges")?;
    let kinds = match gguf.metadata.get("tokenizer.ggml.token_type") {
        Some(Value::Array(kinds)) if kinds.len() == tokens.len() => kinds.as_slice(),
        Some(_) => return Err(refused("there are not as many token types as tokens".into())),
        None => &[],
    };
    let vocab: Map<String, Json> = (0u32..).zip(&tokens).map(|(id, t)| ((*t).to_owned(), id.into())).collect();
    if vocab.len() != tokens.len() {
        return Err(refused("a token stands twice".into()));
    }
    let added: Vec<Json> = (0u32..)
        .zip(tokens.iter().zip(kinds))
        .filter_map(|(id, (token, kind))| match kind {
            Value::Uint(CONTROL | UNKNOWN) => Some(added(id, token, true)),
            Value::Uint(USER_DEFINED) => Some(added(id, token, false)),
            _ => None,
        })
        .collect();
    let adds_bos = flag(gguf, "tokenizer.ggml.add_bos_token")?.unwrap_or(pre.adds_bos);
    let post = match (adds_bos, config.bos) {
        (false, _) => Json::Null,
        (true, None) => return Err(refused("it adds a beginning-of-sequence token and does not say which".into())),
        (true, Some(bos)) => {
            let text = tokens.get(bos as usize).ok_or_else(|| refused(format!("it has no token {bos}")))?;
            template(bos, text)
        }
    };
    let json = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": pre.normalizer.map(|kind| json!({"type": kind})),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splitters(pre)},
        "post_processor": post,
        "decoder": byte_level(true),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "ignore_merges": pre.ignore_merges, "vocab": vocab, "merges": merges,
        },
    });
    serde_json::to_vec(&json).map_err(|e| refused(e.to_string()))
}

fn splitters(pre: &Pre) -> Vec<Json> {
    let mut all = Vec::new();
    if pre.digits {
        all.push(json!({"type": "Digits", "individual_digits": true}));
    }
    if let Some(pattern) = pre.pattern {
        all.push(json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false}));
    }
    all.push(byte_level(pre.pattern.is_none()));
    all
}

fn byte_level(use_regex: bool) -> Json {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

fn added(id: u32, content: &str, special: bool) -> Json {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": special})
}

/// Puts one token before every text.
fn template(id: u32, text: &str) -> Json {
    let special = json!({"SpecialToken": {"id": text, "type_id": 0}});
    let sequence = |id: &str, type_id: u32| json!({"Sequence": {"id": id, "type_id": type_id}});
    let mut known = Map::new();
    known.insert(text.to_owned(), json!({"id": text, "ids": [id], "tokens": [text]}));
    json!({
        "type": "TemplateProcessing",
        "single": [special, sequence("A", 0)],
        "pair": [special, sequence("A", 0), sequence("B", 1)],
        "special_tokens": known,
    })
}

fn texts<'a>(gguf: &Gguf<'a>, key: &str) -> Result<Vec<&'a str>> {
    let Some(Value::Array(list)) = gguf.metadata.get(key) else { return Err(refused(format!("`{key}` is no list"))) };
    let one = |v: &Value<'a>| match v {
        Value::Text(text) => Some(*text),
        _ => None,
    };
    list.iter().map(one).collect::<Option<_>>().ok_or_else(|| refused(format!("`{key}` holds what is not text")))
}

fn flag(gguf: &Gguf<'_>, key: &str) -> Result<Option<bool>> {
    match gguf.metadata.get(key) {
        None => Ok(None),
        Some(Value::Bool(on)) => Ok(Some(*on)),
        Some(_) => Err(refused(format!("`{key}` is neither true nor false"))),
    }
}

fn refused(detail: String) -> Error {
    Error::Tokenizer {
        detail: format!("{detail}; the original tokenizer.json beside the GGUF file is used instead of it"),
    }
}
