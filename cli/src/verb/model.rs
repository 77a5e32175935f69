//! `lastbit model`: what a model folder holds.

use std::path::PathBuf;

use engine::weights::Padded;
use serde::Serialize;

use crate::output::{Format, Outcome};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Load a model as the engine would, and show its dimensions, identity and what loading changed
    Info(InfoArgs),
}

#[derive(clap::Args)]
struct InfoArgs {
    /// Hugging Face model folder [default: the model inside this binary]
    folder: Option<PathBuf>,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Info {
    schema: &'static str,
    name: String,
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
    rms_eps_bits: String,
    tied_head: bool,
    stored_as: Vec<String>,
    computed_as: &'static str,
    padded_hidden: u32,
    files: Vec<File>,
}

#[derive(Serialize)]
struct File {
    path: String,
    bytes: u64,
    sha256: String,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let Verb::Info(args) = args.verb;
    let model = source::model(args.folder.as_deref())?;
    let c = &model.config;
    let stated = engine::journal::model(&model);
    let info = Info {
        schema: "lastbit/model-info/v1",
        name: model.name.clone(),
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
        rms_eps_bits: format!("{:08x}", c.rms_eps.to_bits()),
        tied_head: c.tied,
        stored_as: model.weights.source_formats.iter().map(ToString::to_string).collect(),
        computed_as: "bf16",
        padded_hidden: Padded::of(c).hidden,
        files: stated
            .files
            .iter()
            .map(|f| File { path: f.path.clone(), bytes: f.size, sha256: f.sha256.to_string() })
            .collect(),
    };
    args.format.print(&info, |out| {
        writeln!(out, "{}  ({} parameters)", info.name, info.parameters)?;
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
        for file in &info.files {
            writeln!(out, "  {:<28} {:>12} bytes  {}", file.path, file.bytes, file.sha256)?;
        }
        Ok(())
    })?;
    Ok(Outcome::AllMatch)
}
