//! `lastbit keygen`: an Ed25519 key pair.

use std::path::PathBuf;

use anyhow::Context as _;
use record::PrivateKey;
use serde::Serialize;

use crate::output::{Format, Outcome};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Where to write the private key (PEM, readable by its owner only); the public key goes to the same path with `.pub`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Keys {
    schema: &'static str,
    private: PathBuf,
    public: PathBuf,
    key_id: String,
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
    // The public half first: if either file exists nothing secret has been written yet.
    key.public().write_new(&public).context("writing the public key")?;
    if let Err(error) = key.write_new(&args.file) {
        let _ = std::fs::remove_file(&public);
        return Err(error).context("writing the private key");
    }
    let keys = Keys { schema: "lastbit/keygen/v1", private: args.file, public, key_id: key.public().id().to_string() };
    args.format.print(&keys, |out| {
        writeln!(out, "private key  {}  (keep it; it signs records)", keys.private.display())?;
        writeln!(out, "public key   {}  (give it to auditors)", keys.public.display())?;
        writeln!(out, "key id       {}", keys.key_id)
    })?;
    Ok(Outcome::AllMatch)
}
