//! `lastbit log witness`: a witness server.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use record::PublicKey;
use record::tlog::Witness;
use serde::Serialize;

use crate::output::{Format, Outcome};
use crate::source;
use crate::verb::serve;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for what the witness must remember; losing it, the witness would cosign anything again
    dir: PathBuf,

    /// Name of the witness, by convention an address without a scheme
    #[arg(long)]
    name: String,

    /// Private key of the witness
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// A log to cosign, as `origin+id+base64` (`lastbit keygen --name` prints it); may be given several times
    #[arg(long, value_name = "KEY", required = true, value_parser = log_key)]
    log: Vec<(String, PublicKey)>,

    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,

    #[command(flatten)]
    format: Format,
}

fn log_key(text: &str) -> Result<(String, PublicKey), String> {
    PublicKey::from_note_key(text).map_err(|_| "the key of a log is its name, plus, id, plus, base64".to_owned())
}

#[derive(Serialize)]
struct Begun {
    schema: &'static str,
    address: SocketAddr,
    witness_key: String,
    logs: Vec<String>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let key = source::private_key(&args.key)?;
    let logs: Vec<String> = args.log.iter().map(|(origin, _)| origin.clone()).collect();
    let witness = Witness::open(&args.dir, &args.name, key, args.log)?;
    serve::trace(false)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(2)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(args.listen)
            .await
            .with_context(|| format!("listening on {}", args.listen))?;
        let (schema, address) = ("lastbit/log-witness/v1", listener.local_addr()?);
        let begun = Begun { schema, address, witness_key: witness.identity().to_text(), logs };
        let stop = serve::stop()?;
        args.format.print(&begun, |out| {
            writeln!(out, "listening on http://{address}")?;
            writeln!(out, "witness key  {}", begun.witness_key)?;
            writeln!(out, "cosigning    {}", begun.logs.join(", "))
        })?;
        server::witness::serve(listener, witness, stop).await;
        Ok(Outcome::AllMatch)
    })
}
