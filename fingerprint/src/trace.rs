//! What an endpoint returned for a set of probes. Specified by `docs/spec/fingerprint-trace.md`.

use std::path::{Path, PathBuf};

use record::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Answer;
use crate::client::Exchange;
use crate::error::{Error, Result, file};

/// Version of the format.
pub const SCHEMA: &str = "lastbit/fingerprint-trace/v1";
/// End of a trace's file name.
pub const SUFFIX: &str = ".trace.jsonl";
/// Most bytes of a trace that is read.
pub const MAX_BYTES: u64 = 1 << 28;

/// The model that answered, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name by which it was asked for.
    pub name: Option<String>,
    /// Digest of its weights, where the recorder had them.
    pub weights: Option<String>,
    /// Digest of its tokenizer, where the recorder had it.
    pub tokenizer: Option<String>,
}

/// What answered: each member a short name, `unknown` where it is not known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// Format of weights, activations and cache: `bf16`, `f32`, `q8_0 kv:f16`.
    pub format: String,
    /// Engine family.
    pub engine: String,
    /// Version of the engine.
    pub version: String,
    /// Attention and matrix kernels, and the mode they are chosen in.
    pub backend: String,
    /// Hardware class.
    pub hardware: String,
}

impl Stack {
    /// The tree of labels, coarse to fine.
    pub fn path(&self) -> [&str; 4] {
        [&self.format, &self.engine, &self.backend, &self.hardware]
    }
}

impl std::fmt::Display for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} / {} / {} / {}", self.engine, self.version, self.backend, self.format, self.hardware)
    }
}

/// First line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// Program that recorded.
    pub tool: String,
    /// The model.
    pub model: Model,
    /// The stack, for references.
    pub stack: Option<Stack>,
    /// Address asked; no key is ever part of it.
    pub endpoint: String,
    /// Seed of the probes, decimal.
    pub seed: String,
    /// Probes that ran at a time: the noise setting of this draw.
    pub batch: u32,
    /// Which draw of this setting.
    pub draw: u32,
    /// Seconds since 1970; 0 where it is not told.
    pub date: u64,
}

/// One exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Name of the probe, unique in the trace.
    pub probe: String,
    /// Path below the base address.
    pub path: String,
    /// The request's body, verbatim.
    pub request: Option<Value>,
    /// HTTP status.
    pub status: Option<u16>,
    /// Kept headers.
    pub headers: Vec<(String, String)>,
    /// What went wrong.
    pub fault: Option<String>,
    /// Plain SHA-256 of the body as received, the API key struck out.
    pub body: Digest,
    /// Its bytes.
    pub bytes: u64,
    /// Microseconds until the headers came.
    pub first_us: u64,
    /// Microseconds until the answer was there.
    pub total_us: u64,
    /// Times the endpoint said "later".
    pub retries: u32,
    /// What the body says.
    pub answer: Option<Answer>,
}

impl Record {
    /// An exchange as it is kept.
    pub fn new(probe: &str, path: &str, request: Option<Value>, exchange: &Exchange) -> Self {
        let read = Answer::read(exchange);
        Self {
            probe: probe.to_owned(),
            path: path.to_owned(),
            request,
            status: exchange.status,
            headers: exchange.headers.clone(),
            fault: read.as_ref().err().map(ToString::to_string),
            body: Digest::of_file(&exchange.body),
            bytes: exchange.body.len() as u64,
            first_us: exchange.first_us,
            total_us: exchange.total_us,
            retries: exchange.retries,
            answer: read.ok(),
        }
    }

    /// The answer, if the endpoint gave one: status 200, no error, at least one choice.
    pub fn good(&self) -> Option<&Answer> {
        let answer = self.answer.as_ref()?;
        (self.status == Some(200) && answer.error.is_none() && !answer.choices.is_empty()).then_some(answer)
    }

    /// Refused: an HTTP error, or an error in the answer.
    pub fn refused(&self) -> bool {
        self.status.is_some_and(|s| s >= 400) || self.answer.as_ref().is_some_and(|a| a.error.is_some())
    }

    /// Why there is no good answer, in few words.
    pub fn why(&self) -> String {
        match (&self.fault, self.status, self.answer.as_ref().and_then(|a| a.error.as_ref())) {
            (_, status, Some((message, _))) => format!("{}: {message}", status.unwrap_or(0)),
            (Some(fault), _, _) => fault.clone(),
            (None, Some(status), None) => format!("status {status}"),
            (None, None, None) => "no answer".to_owned(),
        }
    }

    /// A kept header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// A trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// What it is of.
    pub header: Header,
    /// Exchanges, sorted by probe.
    pub records: Vec<Record>,
}

impl Trace {
    /// The record of a probe.
    pub fn get(&self, probe: &str) -> Option<&Record> {
        self.records.binary_search_by(|r| r.probe.as_str().cmp(probe)).ok().map(|at| &self.records[at])
    }

    /// Records whose probe begins so.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Record> {
        self.records.iter().filter(move |r| r.probe.starts_with(prefix))
    }

    /// The file's bytes: JSON lines.
    ///
    /// # Errors
    /// [`Error::Report`] never in practice: every member can be written.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut out = line(&self.header)?;
        for record in &self.records {
            out.extend(line(record)?);
        }
        Ok(out)
    }

    /// Reads a trace.
    ///
    /// # Errors
    /// [`Error::Trace`] with the line: not JSON, another schema, a probe twice.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self> {
        let refuse = |line: usize, why: String| Error::Trace { trace: name.to_owned(), line, why };
        let mut lines = bytes.split(|b| *b == b'\n').enumerate().filter(|(_, l)| !l.is_empty());
        let (_, first) = lines.next().ok_or_else(|| refuse(0, "it is empty".into()))?;
        let header: Header = serde_json::from_slice(first).map_err(|e| refuse(1, e.to_string()))?;
        if header.schema != SCHEMA {
            return Err(refuse(1, format!("schema {:?}; this version reads {SCHEMA:?}", header.schema)));
        }
        let mut records: Vec<Record> = Vec::new();
        for (at, text) in lines {
            records.push(serde_json::from_slice(text).map_err(|e| refuse(at + 1, e.to_string()))?);
        }
        records.sort_by(|a, b| a.probe.cmp(&b.probe));
        if let Some(twice) = records.windows(2).find(|w| w[0].probe == w[1].probe) {
            return Err(refuse(0, format!("probe {:?} is there twice", twice[0].probe)));
        }
        Ok(Self { header, records })
    }

    /// Reads a file. If its name is a digest, the bytes must have it.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Trace`].
    pub fn open(path: &Path) -> Result<Self> {
        let bytes = record::file::read(path, MAX_BYTES).map_err(file(path))?;
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if let Some(stem) = name.strip_suffix(SUFFIX)
            && let Ok(stated) = format!("sha256:{stem}").parse::<Digest>()
            && stated != Digest::of_file(&bytes)
        {
            let why = "the content is not the one its name is the digest of".to_owned();
            return Err(Error::Trace { trace: path.display().to_string(), line: 0, why });
        }
        Self::read(&path.display().to_string(), &bytes)
    }

    /// Writes it into a folder under the digest of its content; the same trace twice is one file.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, folder: &Path) -> Result<(PathBuf, Digest)> {
        let bytes = self.to_bytes()?;
        let digest = Digest::of_file(&bytes);
        let path = folder.join(format!("{}{SUFFIX}", digest.to_hex()));
        let part = folder.join(format!(".{}.part", digest.to_hex()));
        std::fs::write(&part, &bytes).map_err(file(&part))?;
        std::fs::rename(&part, &path).map_err(file(&path))?;
        Ok((path, digest))
    }
}

/// One line, its end included.
pub(crate) fn line<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value).map_err(|e| Error::Report(e.to_string()))?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> Trace {
        let header = Header {
            schema: SCHEMA.into(),
            tool: "t".into(),
            model: Model::default(),
            stack: None,
            endpoint: "http://h/v1".into(),
            seed: "7".into(),
            batch: 1,
            draw: 0,
            date: 0,
        };
        let body = br#"{"choices":[{"index":0,"text":"e\u0301","logprobs":{"tokens":["x"],"token_logprobs":[-0.10],"top_logprobs":[{"x":-0.10}]}}]}"#;
        let exchange = Exchange {
            status: Some(200),
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.to_vec(),
            ..Exchange::default()
        };
        Trace {
            header,
            records: vec![Record::new("a", "completions", Some(serde_json::json!({"temperature": 0.7})), &exchange)],
        }
    }

    #[test]
    fn a_trace_is_named_by_its_content_and_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, _) = trace().write(dir.path()).unwrap();
        assert_eq!(Trace::open(&path).unwrap(), trace());
        assert_eq!(trace().get("a").unwrap().good().unwrap().steps()[0].logprob.as_ref().unwrap().text(), "-0.10");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(4).position(|w| w == b"0.10").unwrap();
        bytes[at + 3] = b'1';
        std::fs::write(&path, &bytes).unwrap();
        assert!(Trace::open(&path).unwrap_err().to_string().contains("digest"));
    }

    #[test]
    fn what_is_no_trace_is_refused_by_line() {
        let bytes = trace().to_bytes().unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        let refused = |text: &str| Trace::read("t", text.as_bytes()).unwrap_err().to_string();
        assert!(refused("").contains("empty"));
        assert!(refused(&text.replace("/v1\",\"tool", "/v9\",\"tool")).contains("v9"));
        assert!(refused(&format!("{text}{{}}\n")).contains("line 3"));
        assert!(refused(&format!("{text}{}", text.lines().nth(1).unwrap())).contains("twice"));
        assert!(refused(&text.replace("\"batch\"", "\"bitch\"")).contains("line 1"));
    }
}
