//! `lastbit fingerprint replay`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::Serialize;

use super::connect;
use crate::output::{Format, Outcome};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Trace to serve
    trace: PathBuf,

    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8001")]
    listen: SocketAddr,

    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Begun {
    schema: &'static str,
    address: SocketAddr,
    records: usize,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let trace = connect::trace(&args.trace)?;
    connect::block_on(async {
        let listener = tokio::net::TcpListener::bind(args.listen)
            .await
            .with_context(|| format!("listening on {}", args.listen))?;
        let address = listener.local_addr()?;
        let begun = Begun { schema: "lastbit/fingerprint-replay/v1", address, records: trace.records.len() };
        args.format.print(&begun, |out| {
            writeln!(out, "listening on http://{address}/v1, {} recorded answers, until interrupted", begun.records)
        })?;
        let stop = async {
            let _ = tokio::signal::ctrl_c().await;
        };
        fingerprint::replay::serve(listener, &trace, stop).await?;
        Ok(Outcome::AllMatch)
    })
}
