//! `lastbit model info`: what a model holds.

use std::path::PathBuf;

use engine::weights::Padded;
use serde::Serialize;

use crate::output::{Format, Outcome};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Hugging Face model folder, GGUF file, or name of a pulled model [default: the model inside this binary]
    model: Option<PathBuf>,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Info {
    schema: &'static str,
    name: String,
    architecture: &'static str,
    model_digest: String,
    parameters: u64,
    vocab_size: u32,
    hidden: u32,
    ffn: u32,
    layers: u32,
    query_heads: u32,
    kv_heads: u32,
    head_dim: u32,
    max_positions: u32,
    rope_theta: String,
    rope_scaling: &'static str,
    rms_eps_bits: String,
    tied_head: bool,
    stored_as: Vec<String>,
    computed_as: &'static str,
    quantisation: Option<String>,
    padded_hidden: u32,
    stop_ids: Vec<u32>,
    /// SHA-256 of the chat template, when there is one.
    chat_template: Option<String>,
    recommended: Option<Recommended>,
    files: Vec<File>,
}

/// Sampling as `generation_config.json` recommends it.
#[derive(Serialize)]
struct Recommended {
    sample: bool,
    temperature: Option<f32>,
    top_k: Option<u32>,
    top_p: Option<f32>,
    not_computed: Vec<String>,
}

#[derive(Serialize)]
struct File {
    path: String,
    bytes: u64,
    sha256: String,
}

/// Runs the verb.
pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    let model = source::model(args.model.as_deref())?;
    let c = &model.config;
    let stated = engine::journal::model(&model);
    let info = Info {
        schema: "lastbit/model-info/v1",
        name: model.name.clone(),
        architecture: c.architecture.class(),
        model_digest: stated.digest()?.to_string(),
        parameters: c.parameters(),
        vocab_size: c.vocab_size,
        hidden: c.hidden,
        ffn: c.ffn,
        layers: c.layers,
        query_heads: c.q_heads,
        kv_heads: c.kv_heads,
        head_dim: c.head_dim,
        max_positions: c.max_positions,
        rope_theta: c.rope_theta.to_string(),
        rope_scaling: c.rope_scaling.name(),
        rms_eps_bits: format!("{:08x}", c.rms_eps.to_bits()),
        tied_head: c.tied,
        stored_as: model.weights.source_formats.iter().map(ToString::to_string).collect(),
        computed_as: "bf16",
        quantisation: stated.quantisation.known().cloned().flatten(),
        padded_hidden: Padded::of(c).hidden,
        stop_ids: c.eos.clone(),
        chat_template: model.chat.as_ref().map(|t| record::Digest::from_bytes(t.sha256()).to_string()),
        recommended: (c.recommended != Default::default()).then(|| Recommended {
            sample: c.recommended.sample,
            temperature: c.recommended.temperature,
            top_k: c.recommended.top_k,
            top_p: c.recommended.top_p,
            not_computed: c.recommended.not_computed.clone(),
        }),
        files: stated
            .files
            .iter()
            .map(|f| File { path: f.path.clone(), bytes: f.size, sha256: f.sha256.to_string() })
            .collect(),
    };
    args.format.print(&info, |out| {
        writeln!(out, "{}  ({}, {} parameters)", info.name, info.architecture, info.parameters)?;
        writeln!(out, "  identity     {}", info.model_digest)?;
        writeln!(
            out,
            "  dimensions   {} layers, hidden {}, ffn {}, {} query and {} KV heads of {}, vocabulary {}, {} positions",
            info.layers,
            info.hidden,
            info.ffn,
            info.query_heads,
            info.kv_heads,
            info.head_dim,
            info.vocab_size,
            info.max_positions
        )?;
        writeln!(
            out,
            "  numbers      stored as {}, computed as {} (rounded to nearest even where they differ){}",
            info.stored_as.join(", "),
            info.computed_as,
            if info.tied_head { "; the LM head is the embedding" } else { "" }
        )?;
        writeln!(out, "  rotary       base {}, scaling {}", info.rope_theta, info.rope_scaling)?;
        writeln!(out, "  stop ids     {:?}", info.stop_ids)?;
        writeln!(out, "  chat         {}", info.chat_template.as_deref().unwrap_or("no template"))?;
        for file in &info.files {
            writeln!(out, "  {:<28} {:>12} bytes  {}", file.path, file.bytes, file.sha256)?;
        }
        Ok(())
    })?;
    Ok(Outcome::AllMatch)
}
