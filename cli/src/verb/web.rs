//! `lastbit web`: the compliance interface on this machine, or for people who sign in.

use std::io::BufRead as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use engine::Model;
use record::{Digest, PublicKey};
use serde::Serialize;
use verifier::audit::Options;
use verifier::challenge::Plan;
use verifier::disclosure;
use verifier::plan::Mode;
use verifier::result::Subject;
use web_ui::{Auditing, Config, Role, Store};

use super::serve;
use crate::inspect::{Inspection, inspect};
use crate::output::{Format, Outcome, sentence};
use crate::source::{self, Emulation};

/// Options.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,

    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Add somebody who may sign in, or give them another role and password; the password is the first line of standard input
    User(UserArgs),
}

#[derive(clap::Args)]
struct UserArgs {
    /// Name to sign in with
    name: String,

    /// viewer reads; auditor also hands in and starts audits; admin also trusts keys and adds people
    #[arg(long, value_parser = role)]
    role: Role,

    /// Folder of the store
    #[arg(long, value_name = "DIR", default_value = STORE)]
    store: PathBuf,

    #[command(flatten)]
    format: Format,
}

#[derive(clap::Args)]
struct ServeArgs {
    /// Folder of the store; made if there is none
    #[arg(long, value_name = "DIR", default_value = STORE)]
    store: PathBuf,

    /// Port on this machine, reachable from nowhere else and without signing in; 0 takes a free one
    #[arg(long, default_value_t = 8090, conflicts_with = "listen")]
    port: u16,

    /// Listen on this address instead; everybody has to sign in (`lastbit web user`). Put a proxy with TLS before it
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    /// Address under which people reach it, for example `https://audits.example.org`
    #[arg(long)]
    url: Option<String>,

    /// Take in what appears in this folder: what `demo --out` and `audit --out` write; may be given several times
    #[arg(long, value_name = "DIR")]
    watch: Vec<PathBuf>,

    /// Public key of an auditor or operator to trust; may be given several times
    #[arg(long, value_name = "FILE")]
    trust: Vec<PathBuf>,

    /// Private key that signs audits started from the interface; without it none can be started
    #[arg(long, value_name = "FILE")]
    auditor_key: Option<PathBuf>,

    /// Model folder for live audits and texts of tokens [default: the model inside this binary]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,

    #[command(flatten)]
    emulation: Emulation,

    #[command(flatten)]
    format: Format,
}

const STORE: &str = "lastbit-web";

#[derive(Serialize)]
struct Begun {
    schema: &'static str,
    address: SocketAddr,
    store: PathBuf,
}

#[derive(Serialize)]
struct Added<'a> {
    schema: &'static str,
    name: &'a str,
    role: &'static str,
}

fn role(name: &str) -> Result<Role, String> {
    Role::parse(name).ok_or_else(|| "it is viewer, auditor or admin".to_owned())
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.verb {
        Some(Verb::User(args)) => user(&args),
        None => serve(args.serve),
    }
}

fn user(args: &UserArgs) -> anyhow::Result<Outcome> {
    let mut password = String::new();
    std::io::stdin().lock().read_line(&mut password).context("reading the password from standard input")?;
    let store = Store::open(&args.store).with_context(|| format!("opening {}", args.store.display()))?;
    web_ui::put_user(&store, &args.name, args.role, password.trim_end_matches(['\r', '\n']))?;
    let added = Added { schema: "lastbit/web-user/v1", name: &args.name, role: args.role.name() };
    args.format.print(&added, |out| writeln!(out, "{} may sign in as {}", added.name, added.role))?;
    Ok(Outcome::AllMatch)
}

fn serve(args: ServeArgs) -> anyhow::Result<Outcome> {
    serve::trace(false)?;
    let model = Arc::new(source::model(args.model.as_deref())?);
    let named = |path: &PathBuf| -> anyhow::Result<(String, PublicKey)> {
        let name = path.file_stem().map_or_else(|| "key".to_owned(), |n| n.to_string_lossy().into_owned());
        Ok((name, source::public_key(path)?))
    };
    for folder in &args.watch {
        if !folder.is_dir() {
            bail!("{} is not a folder that could be watched", folder.display());
        }
    }
    let key = args.auditor_key.as_deref().map(source::private_key).transpose()?;
    let config = Config {
        watch: args.watch.clone(),
        trust: args.trust.iter().map(named).collect::<anyhow::Result<_>>()?,
        people: args.listen.is_some(),
        url: args.url.clone(),
        auditing: key.map(|key| Auditing { audit: auditor(model.clone(), args.emulation.clone()), key }),
        tokens: tokenizer(model),
        ..Config::local(&args.store)
    };
    let address = args.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], args.port)));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        let listener =
            tokio::net::TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))?;
        let begun = Begun { schema: "lastbit/web/v1", address: listener.local_addr()?, store: args.store.clone() };
        let stop = serve::stop()?;
        args.format.print(&begun, |out| {
            writeln!(out, "open   http://{}", begun.address)?;
            writeln!(out, "store  {}", begun.store.display())
        })?;
        web_ui::serve(listener, config, stop).await?;
        Ok(Outcome::AllMatch)
    })
}

/// Audits a folder as `lastbit audit` does, every record of it.
fn auditor(model: Arc<Model>, emulation: Emulation) -> Arc<web_ui::AuditFn> {
    Arc::new(move |log: &Path, name: &str, key: &PublicKey, told: &dyn Fn(usize, usize)| {
        let what = Inspection {
            log,
            subject: Subject { name: name.to_owned(), note: String::new() },
            key,
            origin: None,
            pinned: None,
            receipts: Vec::new(),
            own_receipts: true,
            signed_model: None,
            plan: Plan::All,
            recheck: disclosure::recheck("LOG", "MODEL", "OPERATOR.pub", Mode::Schedule),
        };
        inspect(&what, &model, &emulation, &Options::default(), told).map_err(|e| sentence(&e))
    })
}

/// Pieces of the vocabulary at hand, for records that were made with it.
fn tokenizer(model: Arc<Model>) -> Option<Arc<web_ui::TokensFn>> {
    let own = Digest::from_bytes(model.manifest.iter().find(|f| f.name == model.tokenizer_file)?.sha256);
    Some(Arc::new(move |tokenizer: &Digest, ids: &[u32]| {
        let piece = |id: &u32| {
            let piece = model.tokenizer.piece(*id).unwrap_or_else(|| format!("[{id}]"));
            piece.replace(['Ġ', '▁'], " ").replace('Ċ', "\n")
        };
        (*tokenizer == own).then(|| ids.iter().map(piece).collect())
    }))
}
