//! What can go wrong in the engine, and what to do about it.

use std::path::PathBuf;

/// Result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

/// An engine error: what happened, where, and what the caller can do.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A model file could not be read.
    #[error("cannot read {path}: {source}; a model folder holds config.json, tokenizer.json and model.safetensors")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A model folder lacks a file.
    #[error("the model has no {name}; it holds {present}")]
    MissingFile {
        /// The missing name.
        name: String,
        /// What is there, comma separated.
        present: String,
    },
    /// A file is not JSON, or not the JSON object expected there.
    #[error("{file} is not the JSON expected: {detail}")]
    Json {
        /// The file's name.
        file: String,
        /// What the parser said.
        detail: String,
    },
    /// A key of `config.json` whose meaning for the numbers is not known here. Never ignored: a silently dropped key is a
    /// wrong verdict.
    #[error(
        "config.json: key `{key}` = {value} is not known to this engine and may change the numbers; this model cannot be run or verified here"
    )]
    UnknownConfigKey {
        /// Path of the key.
        key: String,
        /// Its value, shortened.
        value: String,
    },
    /// A key of `config.json` that this engine needs and does not find.
    #[error("config.json: key `{key}` is missing; it has no default here, state it")]
    MissingConfigKey {
        /// Path of the key.
        key: String,
    },
    /// A key of `config.json` with a value this engine does not compute.
    #[error("config.json: `{key}` = {value} is not supported: {why}")]
    UnsupportedConfig {
        /// Path of the key.
        key: String,
        /// Its value, shortened.
        value: String,
        /// What is supported.
        why: &'static str,
    },
    /// A weight file is damaged, or not of the format it claims.
    #[error("{file}: {detail}; fetch the file again and compare its SHA-256")]
    WeightFile {
        /// The file's name.
        file: String,
        /// What the reader said.
        detail: String,
    },
    /// A tensor that the architecture needs is in no weight file.
    #[error("tensor `{name}` is missing from the weights; the files do not belong to this config.json")]
    MissingTensor {
        /// Its name.
        name: String,
    },
    /// Tensors that the architecture does not use. Ignoring them could hide a bias or an adapter.
    #[error(
        "the weights hold tensors this architecture does not use: {names}; they would be ignored, so the model is refused"
    )]
    UnexpectedTensors {
        /// The first few names.
        names: String,
    },
    /// A tensor has another shape than config.json says.
    #[error("tensor `{name}` has shape {found:?}, config.json implies {expected:?}")]
    TensorShape {
        /// Its name.
        name: String,
        /// In the file.
        found: Vec<usize>,
        /// From the configuration.
        expected: Vec<usize>,
    },
    /// A tensor in a number format that is not loaded.
    #[error(
        "tensor `{name}` is stored as {dtype}; loaded are bf16, f16 and f32, and from GGUF files also Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K"
    )]
    TensorType {
        /// Its name.
        name: String,
        /// The format's name.
        dtype: String,
    },
    /// A weight rounds to an infinity or is no number.
    #[error("tensor `{name}` element {index} has bits {bits:#010x}, which is not finite as bf16; the model is refused")]
    TensorValue {
        /// Its name.
        name: String,
        /// Flat index.
        index: usize,
        /// The value's bits, widened to f32.
        bits: u32,
    },
    /// A file's bytes are not those that were hashed before: somebody wrote to it while it was being loaded.
    #[error("{file} changed while it was being loaded; load it again when nobody writes to it")]
    FileChanged {
        /// The file's name.
        file: String,
    },
    /// A path holds no model in a form that is loaded.
    #[error("{path}: {detail}")]
    NoModel {
        /// The path.
        path: PathBuf,
        /// What is there, and what is loaded.
        detail: String,
    },
    /// A chat template was refused or failed.
    #[error("chat template: {detail}")]
    ChatTemplate {
        /// What it said, or which limit it broke.
        detail: String,
    },
    /// tokenizer.json was refused, or text could not be encoded or decoded.
    #[error("tokenizer: {detail}")]
    Tokenizer {
        /// What the tokenizer said.
        detail: String,
    },
    /// A kernel failed to parse.
    #[error("kernel `{kernel}` does not parse at {line}:{column}: {detail}")]
    KernelParse {
        /// Its name.
        kernel: String,
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// What the parser said.
        detail: String,
    },
    /// A kernel failed the lint; such a kernel is never launched.
    #[error("kernel `{kernel}` breaks the rules of reproducible PTX: {findings}")]
    KernelLint {
        /// Its name.
        kernel: String,
        /// Findings, one after another.
        findings: String,
    },
    /// The device refused or failed an operation.
    #[error("device {device}: {doing}: {detail}")]
    Device {
        /// Name of the device.
        device: String,
        /// What was asked of it.
        doing: String,
        /// What it said.
        detail: String,
    },
    /// No GPU can be used.
    #[error("no CUDA device can be used: {why}")]
    NoCuda {
        /// What is missing.
        why: String,
    },
    /// The device has no such profile.
    #[error("no hardware profile is called `{name}`; known: {known}")]
    UnknownProfile {
        /// The name asked for.
        name: String,
        /// Names that exist.
        known: String,
    },
    /// A step plan that cannot be run.
    #[error("step plan: {detail}")]
    Plan {
        /// Which rule it breaks.
        detail: String,
    },
    /// A dispatch that the engine cannot honour. Never replaced by another one.
    #[error("dispatch: {detail}")]
    Dispatch {
        /// Which choice, and why not.
        detail: String,
    },
    /// The KV cache has no free page, or no free request slot.
    #[error("the KV cache is full: {detail}; end a request or build the engine with a larger cache")]
    CacheFull {
        /// What was wanted.
        detail: String,
    },
    /// Sampling parameters that are not implemented or make no sense.
    #[error("sampling: `{parameter}` = {value}: {why}")]
    Sampling {
        /// Name of the parameter.
        parameter: &'static str,
        /// Its value.
        value: String,
        /// What is accepted.
        why: &'static str,
    },
    /// Faults on purpose that this engine does not have.
    #[error("faults on purpose: {detail}")]
    Fault {
        /// Why not.
        detail: String,
    },
    /// The model produced a logit from which no token can be chosen.
    #[error("the logits for position {position} hold {bits:#010x}, which is not finite; no token can be chosen")]
    BadLogits {
        /// Position that the token was to occupy.
        position: u32,
        /// Bits of the logit.
        bits: u32,
    },
    /// A request that cannot be served as asked.
    #[error("request {index}: {detail}")]
    Request {
        /// Index in the batch.
        index: usize,
        /// What is wrong with it.
        detail: String,
    },
    /// A threshold or the settings of a gate cannot be used.
    #[error("gate: {0}")]
    Gate(#[from] margingate::threshold::Refusal),
    /// A record states a gate that this engine does not have.
    #[error("record: the gate's `{parameter}` = {value} is not known to this engine")]
    UnknownGate {
        /// Name of the member.
        parameter: &'static str,
        /// Its value.
        value: String,
    },
    /// The caller that watches the steps failed.
    #[error("the operator failed after a step: {0}")]
    Observer(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A record could not be written or understood.
    #[error("record: {0}")]
    Record(#[from] record::Error),
    /// A record states decoding parameters that this engine does not compute.
    #[error("record: decoding parameter `{parameter}` = {value} is not computed by this engine")]
    UnknownDecode {
        /// Name of the parameter.
        parameter: &'static str,
        /// Its value.
        value: String,
    },
    /// Decoding parameters of a record that do not fit together.
    #[error("inconsistent decode parameters: {what}")]
    InconsistentDecode {
        /// The rule that is broken; it names the parameter.
        what: &'static str,
    },
}
