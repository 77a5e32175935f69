//! Chat templates: from messages to the text of a prompt.
//!
//! Rendering is what transformers' `apply_chat_template` does, by a crate that is compared with it byte for byte. A template is a
//! program from an untrusted file: [`ChatTemplate::render`] bounds its own size, that of the messages and the depth of recursion, but neither time
//! nor memory. Whoever did not write the template renders it in a process with limits on both, as the command line does.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::gguf;
use crate::model::ModelFiles;

/// Longest template, in bytes; the longest of well-known models has a tenth of it.
pub const MAX_SOURCE_BYTES: usize = 1 << 18;
/// Longest conversation, in bytes of all messages.
pub const MAX_MESSAGE_BYTES: usize = 1 << 22;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`.
    pub role: String,
    /// What was said.
    pub content: String,
}

impl Message {
    /// A message.
    pub fn new(role: &str, content: &str) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// A model's chat template, and the special tokens it may name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatTemplate {
    source: String,
    special: Vec<(String, String)>,
}

impl ChatTemplate {
    /// A template and the text of special tokens by name (`bos_token`).
    ///
    /// # Errors
    /// [`Error::ChatTemplate`] for one that is too long.
    pub fn new(source: &str, special: Vec<(String, String)>) -> Result<Self> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(refused(format!("it has {} bytes, more than {MAX_SOURCE_BYTES}", source.len())));
        }
        Ok(Self { source: source.to_owned(), special })
    }

    /// The template of a model: `chat_template.jinja`, or what `tokenizer_config.json` holds, or what a GGUF file holds, in that order.
    ///
    /// # Errors
    /// [`Error::Json`] and [`Error::ChatTemplate`].
    pub fn of_files(files: &ModelFiles, config: &Config) -> Result<Option<Self>> {
        let settings = match files.optional("tokenizer_config.json") {
            Some(text) => object(text)?,
            None => Map::new(),
        };
        let gguf = files.gguf()?;
        let mut special = special_tokens(&settings);
        if let Some(gguf) = &gguf {
            for (name, id) in [("bos_token", config.bos), ("eos_token", config.eos.first().copied())] {
                let text = id.and_then(|id| gguf::token_text(gguf, id));
                if let Some(text) = text.filter(|_| special.iter().all(|(n, _)| n != name)) {
                    special.push((name.into(), text.into()));
                }
            }
        }
        let source = match files.optional("chat_template.jinja") {
            Some(text) => {
                let text = std::str::from_utf8(text).map_err(|_| refused("chat_template.jinja is not UTF-8".into()))?;
                Some(text.to_owned())
            }
            None => inline(&settings)?.or_else(|| gguf.as_ref().and_then(gguf::chat_template).map(ToOwned::to_owned)),
        };
        source.map(|source| Self::new(&source, special)).transpose()
    }

    /// SHA-256 of the template's text: what a record calls it by.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.source).into()
    }

    /// The template's text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The prompt for these messages, up to where the assistant speaks. Special tokens are in the text already: it is encoded
    /// without adding any.
    ///
    /// # Errors
    /// [`Error::ChatTemplate`] when the template does not compile, fails, or refuses the conversation.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        let bytes: usize = messages.iter().map(|m| m.role.len() + m.content.len()).sum();
        if bytes > MAX_MESSAGE_BYTES {
            return Err(refused(format!("the conversation has {bytes} bytes, more than {MAX_MESSAGE_BYTES}")));
        }
        let template = hf_chat_template::ChatTemplate::from_str(&self.source).map_err(|e| refused(chain(&e)))?;
        let mut context: Map<String, Value> = self.special.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        context.insert("messages".into(), json!(messages));
        // Present and empty, as in transformers.
        context.insert("tools".into(), Value::Null);
        context.insert("documents".into(), Value::Null);
        context.insert("add_generation_prompt".into(), Value::Bool(true));
        template.render_context(&context).map_err(|e| refused(chain(&e)))
    }
}

fn object(text: &[u8]) -> Result<Map<String, Value>> {
    serde_json::from_slice(text)
        .map_err(|e| Error::Json { file: "tokenizer_config.json".into(), detail: e.to_string() })
}

/// `bos_token` and the like: text, or an object with `content`.
fn special_tokens(settings: &Map<String, Value>) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().or_else(|| v["content"].as_str()).map(ToOwned::to_owned);
    let one = |name: &str| Some((name.to_owned(), text(settings.get(name)?)?));
    ["bos_token", "eos_token", "pad_token", "unk_token"].into_iter().filter_map(one).collect()
}

/// The template in `tokenizer_config.json`: text, or the one called `default` among several.
fn inline(settings: &Map<String, Value>) -> Result<Option<String>> {
    match settings.get("chat_template") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(list)) => {
            let default = list.iter().find(|t| t["name"].as_str() == Some("default"));
            let text = default.and_then(|t| t["template"].as_str());
            text.map(|t| Some(t.to_owned())).ok_or_else(|| refused("none of them is called `default`".into()))
        }
        Some(_) => Err(refused("`chat_template` is neither text nor a list of templates".into())),
    }
}

/// An error and what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

fn refused(detail: String) -> Error {
    Error::ChatTemplate { detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(source: &str) -> ChatTemplate {
        ChatTemplate::new(source, vec![("bos_token".into(), "<s>".into())]).unwrap()
    }

    #[test]
    fn messages_tokens_and_prompt_are_rendered() {
        let source = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}\
            {% if tools is none and add_generation_prompt %}[assistant]{% endif %}";
        let messages = [Message::new("system", "Be brief."), Message::new("user", " Hi ")];
        let text = template(source).render(&messages).unwrap();
        assert_eq!(text, "<s>[system] Be brief.\n[user] Hi\n[assistant]");
    }

    #[test]
    fn templates_refuse_fail_and_do_not_recurse_for_ever() {
        let messages = [Message::new("user", "Hi")];
        let error = |source: &str| template(source).render(&messages).unwrap_err().to_string();
        assert!(error("{{ raise_exception('roles must alternate') }}").contains("roles must alternate"));
        assert!(error("{% for m in %}").contains("chat template"));
        assert!(error("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}").contains("recursion"));
        assert!(ChatTemplate::new(&" ".repeat(MAX_SOURCE_BYTES + 1), Vec::new()).is_err());
        let long = Message::new("user", &"x".repeat(MAX_MESSAGE_BYTES));
        assert!(template("").render(&[long]).is_err());
    }

    #[test]
    fn a_template_is_found_in_each_of_its_places() {
        let config = crate::model::embedded().unwrap().config;
        let of = |files: &[(&str, &str)]| {
            let files = files.iter().map(|(n, text)| (*n, text.as_bytes().to_vec()));
            ChatTemplate::of_files(&ModelFiles::from_bytes(files), &config)
        };
        let inline = r#"{"chat_template":"A","bos_token":{"content":"<b>"}}"#;
        let named = r#"{"chat_template":[{"name":"rag","template":"R"},{"name":"default","template":"D"}]}"#;
        assert_eq!(of(&[]).unwrap(), None);
        let found = of(&[("tokenizer_config.json", inline)]).unwrap().unwrap();
        assert_eq!((found.source(), found.special.as_slice()), ("A", &[("bos_token".into(), "<b>".into())][..]));
        assert_eq!(of(&[("tokenizer_config.json", named)]).unwrap().unwrap().source(), "D");
        let both = of(&[("tokenizer_config.json", inline), ("chat_template.jinja", "J")]).unwrap().unwrap();
        assert_eq!(both.source(), "J");
        assert!(of(&[("tokenizer_config.json", r#"{"chat_template":[]}"#)]).is_err());
        assert!(of(&[("tokenizer_config.json", r#"{"chat_template":7}"#)]).is_err());
    }
}
