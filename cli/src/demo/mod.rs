//! `lastbit demo`: the main job. Nine operators serve the same requests on an emulated H100 and log them; each log is audited.

mod conduct;
mod operators;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use comfy_table::Cell;
use engine::batch::{BatchOptions, Request, generate};
use engine::journal::{Asked, Identity};
use engine::runtime::{Limits, pages_for};
use engine::sampler::{Sampling, Seeded};
use engine::scheduler::Settings;
use engine::{Engine, Mode, Model};
use record::envelope::{self, Statement, Subject as Signed};
use record::log::Directory;
use record::{Log, PrivateKey};
use serde::{Deserialize, Serialize};
use verifier::audit::Options;
use verifier::challenge::Plan;
use verifier::result::{AuditResult, SignedResult, Subject};
use verifier::{disclosure, plan, report};

use crate::inspect::{Inspection, inspect};
use crate::operate::{self, Declared, Evidence};
use crate::output::{Format, Outcome, progress, table};
use crate::source::{self, Emulation, now_unix_us};
use conduct::Conduct;
use operators::{Deed, OPERATORS, Operator};

/// What every operator claims to run on.
const CLAIMED: &str = "sm_90";
/// Predicate type of the signed summary.
pub const SUMMARY_TYPE: &str = "https://lastbit.dev/demo-summary/v1";
/// Longest answer, in tokens; the hidden requests last as long.
const LONGEST: u32 = 28;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for logs, keys and reports; must be empty or absent [default: lastbit-demo, or the first free lastbit-demo-N]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    emulation: Emulation,

    #[command(flatten)]
    format: Format,
}

/// [`Summary::schema`].
const SCHEMA: &str = "lastbit/demo/v1";

/// What is signed about all the audits together.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    schema: String,
    claimed: String,
    as_expected: bool,
    operators: Vec<Row>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    operator: String,
    does: String,
    verdict: String,
    expected: String,
    finding: String,
    as_expected: bool,
    file: String,
    digest: String,
}

impl Summary {
    /// Refuses a summary of another version.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.schema != SCHEMA {
            bail!("schema {:?}, this version reads {SCHEMA:?}", self.schema);
        }
        Ok(())
    }

    /// One line an operator.
    pub fn lines(&self, to: &mut dyn Write) -> io::Result<()> {
        for row in &self.operators {
            writeln!(to, "{}: {}\n  {}", row.operator, row.verdict, row.finding)?;
        }
        Ok(())
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let out = folder(args.out)?;
    let (operator, auditor) = keys(&out)?;
    let model = Arc::new(engine::model::embedded()?);
    let bar = progress(2 * OPERATORS.len() as u64, "nine operators");

    let mut rows = Vec::new();
    let mut signed = Vec::new();
    for who in &OPERATORS {
        let dir = out.join("logs").join(who.name);
        bar.set_message(format!("{} serves", who.name));
        serve(who, &dir, &operator, &model, &args.emulation)
            .with_context(|| format!("operator {} could not serve", who.name))?;
        bar.inc(1);
        bar.set_message(format!("{} is audited", who.name));
        let result = audit(who, &dir, &operator, &model, &args.emulation)?;
        bar.inc(1);
        let file = format!("{}.audit.json", who.name);
        let mut row = row(who, &result, &file);
        let result = SignedResult::sign(result, &auditor)?.named(format!("audits/{file}"));
        row.digest = result.digest().to_string();
        source::write_new(&out.join("audits").join(&file), &result.bytes)?;
        rows.push(row);
        signed.push(result);
    }
    bar.finish_and_clear();

    let summary = Summary {
        schema: SCHEMA.to_owned(),
        claimed: CLAIMED.to_owned(),
        as_expected: rows.iter().all(|r| r.as_expected),
        operators: rows,
    };
    source::write_new(&out.join("report.html"), report::render(&signed, "Nine operators, nine audits")?.as_bytes())?;
    source::write_new(&out.join("report.json"), &sign_summary(&summary, &signed, &auditor)?)?;
    args.format.print(&summary, |to| print_text(to, &summary, &out))?;
    Ok(if summary.as_expected { Outcome::AllMatch } else { Outcome::SomethingDiffers })
}

/// The output folder: the one asked for if it is empty, else the first free default.
fn folder(asked: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let free = |path: &Path| match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => !path.exists(),
    };
    let out = match asked {
        Some(path) if free(&path) => path,
        Some(path) => bail!("{} is not an empty folder; nothing is ever overwritten", path.display()),
        None => {
            let numbered =
                |n: u32| PathBuf::from(if n == 1 { "lastbit-demo".into() } else { format!("lastbit-demo-{n}") });
            (1..).map(numbered).find(|p| free(p)).context("no free name for the output folder")?
        }
    };
    for sub in ["logs", "audits", "keys"] {
        std::fs::create_dir_all(out.join(sub)).with_context(|| format!("creating {}", out.join(sub).display()))?;
    }
    Ok(out)
}

/// The keys of the demonstration. Their seeds are public, so that every run makes the same bits; never use them for anything else.
fn keys(out: &Path) -> anyhow::Result<(PrivateKey, PrivateKey)> {
    let make = |name: &str, byte: u8| -> anyhow::Result<PrivateKey> {
        let key = PrivateKey::from_seed(&[byte; 32]);
        key.public().write_new(&out.join("keys").join(format!("{name}.pub")))?;
        Ok(key)
    };
    Ok((make("operator", 0x0b)?, make("auditor", 0xa0)?))
}

/// The requests that clients sent: three greedy, one sampled.
fn requests(model: &Model, log: &Log) -> anyhow::Result<Vec<Declared>> {
    let asked = [
        (
            "And it came to pass, when the LORD had made an end of speaking all these words, that Moses went up into the mount",
            LONGEST,
            None,
        ),
        ("In the beginning God created the heaven and the earth. And the earth was without form", LONGEST - 4, None),
        ("Behold, I will send", LONGEST - 9, Some(0.8)),
        ("The king answered and said", LONGEST - 13, None),
    ];
    let declare = |(i, (text, max_new_tokens, temperature)): (usize, (&str, u32, Option<f32>))| {
        let asked = Asked::derived(format!("request-{i}"), format!("{i:032x}"));
        let sampling = match temperature {
            None => Sampling::Greedy,
            Some(temperature) => {
                let seed = operate::derived_seed(&asked, log)?;
                Sampling::Seeded(Seeded::plain(temperature, seed))
            }
        };
        let prompt = model.tokenizer.encode(text)?;
        Ok((asked, Request { sampling, ..Request::new(prompt, max_new_tokens) }))
    };
    asked.into_iter().enumerate().map(declare).collect()
}

/// One operator's day: a batch, a record, receipts - and its deed.
fn serve(
    who: &Operator,
    dir: &Path,
    key: &PrivateKey,
    model: &Arc<Model>,
    emulation: &Emulation,
) -> anyhow::Result<()> {
    Log::init(dir, who.name, key)?;
    let (mut log, _) = Log::open(dir, key.clone())?;
    let declared = requests(model, &log)?;
    let mut served: Vec<Request> = declared.iter().map(|(_, r)| r.clone()).collect();
    let (mut actual, mut profile) = (model.clone(), CLAIMED);
    match who.deed {
        Deed::WeightBit { tensor, row, column, bit } => {
            let mut changed = Model::clone(model);
            let places = engine::weights::places(&model.config);
            let place = places.iter().find(|p| p.name == tensor).context("the model has no such tensor")?;
            *changed.weights.element_mut(place, row, column).context("no such element")? ^= 1 << bit;
            actual = Arc::new(changed);
        }
        Deed::Quantised(scheme) => {
            let mut changed = Model::clone(model);
            changed.weights.quantise(&model.config, scheme);
            actual = Arc::new(changed);
        }
        Deed::HiddenRows(n) => {
            let text = "Thus saith the LORD of hosts";
            let prompt = model.tokenizer.encode(text)?;
            let hidden = Request::new(prompt, LONGEST);
            served.extend((0..n).map(|_| hidden.clone()));
        }
        Deed::Hardware(other) => profile = other,
        Deed::Seed(own) => {
            for request in &mut served {
                if let Sampling::Seeded(s) = &mut request.sampling {
                    s.seed = own;
                }
            }
        }
        Deed::Honest | Deed::TokenSwap { .. } | Deed::LogByte | Deed::AttentionSplit(_) => {}
    }
    let longest = served.iter().map(|r| r.prompt.len() as u32 + r.max_new_tokens).max().unwrap_or(1);
    let slots = served.len() as u32;
    let limits = Limits { slots, pages: pages_for(slots, longest), ..Limits::default() };
    let make = |model: &Arc<Model>, profile: &str| -> anyhow::Result<Engine> {
        Ok(Engine::new(model.clone(), Box::new(emulation.device(profile)?), Mode::Throughput, limits)?)
    };
    // What the record will state is the claimed stack, whatever really runs.
    let identity = Identity::of(&make(model, CLAIMED)?, Settings::plain(limits.max_rows))?;
    let mut engine = make(&actual, profile)?;
    let config = model.config.clone();
    let policy = Box::new(move |shape| engine::policy::dispatch(Mode::Throughput, &config, shape));
    let journal = operate::journal(&engine, &log, "request-", Evidence::A);
    let mut conduct = Conduct::honest(journal, declared.len(), policy);
    match who.deed {
        Deed::TokenSwap { request, index } => conduct.swap = Some((request, index)),
        Deed::AttentionSplit(n) => conduct.kv_splits = Some(n),
        _ => {}
    }
    let started = now_unix_us();
    let options = BatchOptions { chunk: None, observe: Evidence::A.observe() };
    let outcomes = generate(&mut engine, &served, &options, &mut conduct)?;
    operate::commit(&mut log, conduct.journal, &identity, &declared, &outcomes, &[], started)?;
    drop(log);
    if who.deed == Deed::LogByte {
        edit(&Directory::new(dir).entries_path())?;
    }
    Ok(())
}

/// Changes one character in the middle of the log's last line, into another one that base64 allows.
fn edit(entries: &Path) -> anyhow::Result<()> {
    let mut bytes = source::file(entries, source::MAX_TEXT)?;
    let middle = bytes.len() / 2;
    let byte = bytes.get_mut(middle).context("the log has no entry to edit")?;
    *byte = if *byte == b'A' { b'B' } else { b'A' };
    std::fs::write(entries, bytes).with_context(|| format!("editing {}", entries.display()))
}

fn audit(
    who: &Operator,
    dir: &Path,
    key: &PrivateKey,
    model: &Arc<Model>,
    emulation: &Emulation,
) -> anyhow::Result<AuditResult> {
    let what = Inspection {
        log: dir,
        subject: Subject { name: who.name.to_owned(), note: format!("This operator {}.", who.does) },
        key: &key.public(),
        origin: Some(who.name),
        pinned: None,
        receipts: Vec::new(),
        own_receipts: true,
        signed_model: None,
        plan: Plan::All,
        recheck: disclosure::recheck("logs/NAME", "MODEL", "keys/operator.pub", plan::Mode::Schedule),
    };
    inspect(&what, model, emulation, &Options::default(), &|_, _| ())
}

fn row(who: &Operator, result: &AuditResult, file: &str) -> Row {
    Row {
        operator: who.name.to_owned(),
        does: who.does.to_owned(),
        verdict: result.verdict.to_string(),
        expected: who.deed.expected().to_string(),
        finding: result.headline.clone(),
        as_expected: who.deed.is_found_by(result),
        file: format!("audits/{file}"),
        digest: String::new(),
    }
}

/// One signed statement about all the audits, by the digests of their files.
fn sign_summary(summary: &Summary, signed: &[SignedResult], key: &PrivateKey) -> anyhow::Result<Vec<u8>> {
    let subject = |(row, result): (&Row, &SignedResult)| Signed::new(row.file.clone(), "sha256", result.digest());
    let subjects = summary.operators.iter().zip(signed).map(subject).collect();
    Ok(envelope::sign(&Statement::new(SUMMARY_TYPE, subjects, summary), key)?)
}

fn print_text(to: &mut dyn Write, summary: &Summary, out: &Path) -> io::Result<()> {
    let mut t = table(["operator", "what it does", "verdict", "what the audit found", "expected"]);
    for r in &summary.operators {
        let expected = if r.as_expected { "yes".to_owned() } else { format!("NO: {}", r.expected) };
        t.add_row([
            Cell::new(&r.operator),
            Cell::new(&r.does),
            Cell::new(&r.verdict),
            Cell::new(&r.finding),
            Cell::new(expected),
        ]);
    }
    t.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    writeln!(
        to,
        "Nine operators served the same four requests and claimed an emulated H100 ({CLAIMED}); each log was re-computed here.\n"
    )?;
    writeln!(to, "{t}\n")?;
    writeln!(to, "report        {}", out.join("report.html").display())?;
    writeln!(to, "signed        {} (and audits/*.audit.json)", out.join("report.json").display())?;
    writeln!(
        to,
        "try next      lastbit explain {} --key {}",
        out.join("logs/a-weight-bit").display(),
        out.join("keys/operator.pub").display()
    )
}
