//! `lastbit keygen`: an Ed25519 key pair.

use std::path::PathBuf;

use anyhow::Context as _;
use record::PrivateKey;
use record::tlog::WitnessKey;
use serde::Serialize;

use crate::output::{Format, Outcome};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Where to write the private key (PEM, readable by its owner only); the public key goes to the same path with `.pub`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Also print the key as C2SP tools and witnesses take it, under this name: a log's, or a witness's
    #[arg(long)]
    name: Option<String>,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Keys {
    schema: &'static str,
    private: PathBuf,
    public: PathBuf,
    key_id: String,
    /// For checkpoints and receipts: `name+id+base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    log_key: Option<String>,
    /// For cosignatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    witness_key: Option<String>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let mut public = args.file.clone().into_os_string();
    public.push(".pub");
    let public = PathBuf::from(public);
    for path in [&args.file, &public] {
        source::free(path)?;
    }
    let key = PrivateKey::generate()?;
    let witness = args.name.as_ref().map(|name| WitnessKey::new(name, key.public())).transpose()?;
    // The public half first: if either file exists nothing secret has been written yet.
    key.public().write_new(&public).context("writing the public key")?;
    if let Err(error) = key.write_new(&args.file) {
        let _ = std::fs::remove_file(&public);
        return Err(error).context("writing the private key");
    }
    let keys = Keys {
        schema: "lastbit/keygen/v1",
        private: args.file,
        public,
        key_id: key.public().id().to_string(),
        log_key: witness.as_ref().map(|witness| key.public().note_key(&witness.name)),
        witness_key: witness.as_ref().map(WitnessKey::to_text),
    };
    args.format.print(&keys, |out| {
        writeln!(out, "private key  {}  (keep it; it signs records)", keys.private.display())?;
        writeln!(out, "public key   {}  (give it to auditors)", keys.public.display())?;
        writeln!(out, "key id       {}", keys.key_id)?;
        for (what, text) in [("log key    ", &keys.log_key), ("witness key", &keys.witness_key)] {
            if let Some(text) = text {
                writeln!(out, "{what}  {text}")?;
            }
        }
        Ok(())
    })?;
    Ok(Outcome::AllMatch)
}
