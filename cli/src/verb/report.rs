//! `lastbit report`: signed reports checked, and their pages drawn again, from the signed bytes alone.

use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use record::envelope::{self, Subject};
use record::{Digest, PublicKey};
use serde::Serialize;
use verifier::report::{self, export};
use verifier::result::{AuditResult, SignedResult};

use super::audit::{report_title, summary};
use crate::demo::{SUMMARY_TYPE, Summary};
use crate::output::{EXIT_CODES, Format, Outcome};
use crate::source;

/// Options.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Verify the signature of an `*.audit.json` or of the demo's `report.json`, then print what it says. The exit code speaks of the signature and the
    /// files it covers, not of the verdict
    #[command(after_help = EXIT_CODES)]
    Verify(VerifyArgs),
    /// Draw the HTML page of one or more `*.audit.json`, whose signatures are verified first
    #[command(after_help = EXIT_CODES)]
    Html(HtmlArgs),
    /// Write an `*.audit.json`, whose signature is verified first, in a format of other tools
    #[command(after_help = EXIT_CODES)]
    Export(ExportArgs),
}

#[derive(clap::Args)]
struct VerifyArgs {
    /// The signed file
    file: PathBuf,

    /// Public key of the auditor
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    #[command(flatten)]
    format: Format,
}

#[derive(clap::Args)]
struct HtmlArgs {
    /// The signed files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Public key of an auditor; may be given several times
    #[arg(long, value_name = "FILE", required = true)]
    key: Vec<PathBuf>,

    /// Page to write (an existing file is not overwritten)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Title of the page
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    #[command(flatten)]
    format: Format,
}

#[derive(clap::Args)]
struct ExportArgs {
    /// The signed file
    file: PathBuf,

    /// Public key of the auditor
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// oscal, cyclonedx, sarif, junit or csv
    #[arg(long = "as", value_name = "FORMAT", value_parser = export_format)]
    wanted: export::Format,

    /// File to write (an existing file is not overwritten)
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Time that OSCAL demands, as 2026-01-31T12:00:00Z: a signed result holds none [default: the first second of 1970]
    #[arg(long, value_parser = utc)]
    time: Option<String>,

    #[command(flatten)]
    format: Format,
}

fn export_format(name: &str) -> Result<export::Format, String> {
    export::Format::parse(name).ok_or_else(|| "it is oscal, cyclonedx, sarif, junit or csv".to_owned())
}

fn utc(text: &str) -> Result<String, String> {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    if shape == "0000-00-00T00:00:00Z" {
        Ok(text.to_owned())
    } else {
        Err("it has the form 2026-01-31T12:00:00Z".to_owned())
    }
}

#[derive(Serialize)]
struct Verified {
    schema: &'static str,
    file: PathBuf,
    /// Plain SHA-256 of the file.
    digest: Digest,
    verified: bool,
    /// Why not.
    reason: Option<String>,
    signer: Option<Digest>,
    result: Option<AuditResult>,
    summary: Option<Summary>,
    /// What the summary covers.
    covers: Vec<Covered>,
}

/// A file that a summary names by digest.
#[derive(Serialize)]
struct Covered {
    file: String,
    /// `matches`, `differs`, or why it could not be read.
    state: String,
}

const PAGE_SCHEMA: &str = "lastbit/report-html/v1";

#[derive(Serialize)]
struct Page {
    schema: &'static str,
    /// Where it is, if it was drawn.
    page: Option<PathBuf>,
    files: Vec<PathBuf>,
    /// Why it was not.
    reason: Option<String>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.verb {
        Verb::Verify(args) => verify(args),
        Verb::Html(args) => html(args),
        Verb::Export(args) => exported(args),
    }
}

/// A signed file, or why its bytes are not those that one of the keys signed. Anything else that is wrong with it is an error.
enum Opened<T> {
    Signed(T),
    Altered(String),
}

/// Someone changed the file, or signed in another's name: a finding. A file that has nothing to do with the keys is none.
fn opened<T>(result: Result<T, record::Error>) -> Result<Opened<T>, record::Error> {
    match result {
        Ok(signed) => Ok(Opened::Signed(signed)),
        Err(e) if e.contradicts_trusted_key() => Ok(Opened::Altered(e.to_string())),
        Err(e) => Err(e),
    }
}

fn verify(args: VerifyArgs) -> anyhow::Result<Outcome> {
    let key = source::public_key(&args.key)?;
    let bytes = source::file(&args.file, source::MAX_REPORT)?;
    let (verified, outcome) = judge(&args.file, &bytes, &key).with_context(|| args.file.display().to_string())?;
    args.format.print(&verified, |out| print_text(out, &verified))?;
    Ok(outcome)
}

fn judge(path: &Path, bytes: &[u8], key: &PublicKey) -> anyhow::Result<(Verified, Outcome)> {
    let mut report = Verified {
        schema: "lastbit/report-verify/v1",
        file: path.to_owned(),
        digest: Digest::of_file(bytes),
        verified: false,
        reason: None,
        signer: None,
        result: None,
        summary: None,
        covers: Vec::new(),
    };
    let verified = match opened(envelope::verify(bytes, &[key]))? {
        Opened::Signed(verified) => verified,
        Opened::Altered(why) => {
            report.reason = Some(why);
            return Ok((report, Outcome::SomethingDiffers));
        }
    };
    (report.verified, report.signer) = (true, Some(verified.key_id));
    match verified.statement::<Summary>(SUMMARY_TYPE) {
        Ok(statement) => {
            statement.predicate.check()?;
            let folder = path.parent().unwrap_or(Path::new(""));
            report.covers = statement.subject.iter().map(|subject| covered(folder, subject)).collect();
            report.summary = Some(statement.predicate);
        }
        Err(record::Error::UnknownType { .. }) => report.result = Some(SignedResult::open(bytes, &[key])?.result),
        Err(e) => return Err(e.into()),
    }
    let differs = report.covers.iter().any(|c| c.state == DIFFERS);
    let outcome = match report.covers.iter().all(|c| c.state == MATCHES) {
        true => Outcome::AllMatch,
        false if differs => Outcome::SomethingDiffers,
        false => Outcome::CouldNotTell,
    };
    Ok((report, outcome))
}

const MATCHES: &str = "matches";
const DIFFERS: &str = "differs";

/// The file beside the summary that a subject names. Names that lead out of the folder are not followed.
fn covered(folder: &Path, subject: &Subject) -> Covered {
    let inside = Path::new(&subject.name).components().all(|c| matches!(c, Component::Normal(_)));
    let state = match (inside, subject.digest.get("sha256")) {
        (true, Some(digest)) => match record::file::read(&folder.join(&subject.name), source::MAX_REPORT) {
            Ok(bytes) if Digest::of_file(&bytes).to_hex() == *digest => MATCHES.to_owned(),
            Ok(_) => DIFFERS.to_owned(),
            Err(e) => format!("not checked: {e}"),
        },
        _ => "not checked: it names no file beside this one".to_owned(),
    };
    Covered { file: subject.name.clone(), state }
}

fn print_text(out: &mut dyn Write, report: &Verified) -> io::Result<()> {
    writeln!(out, "file       {}", report.digest)?;
    match (&report.reason, &report.signer) {
        (None, Some(signer)) => writeln!(out, "signature  verifies, by key {signer}")?,
        (reason, _) => writeln!(out, "signature  DOES NOT VERIFY: {}", reason.as_deref().unwrap_or("not signed"))?,
    }
    if let Some(result) = &report.result {
        let (auditor, sampling) = (&result.auditor, &result.sampling);
        writeln!(
            out,
            "audited    {} of {} records, by {} {}, numerics revision {}\n",
            sampling.audited, sampling.population, auditor.tool, auditor.version, auditor.numerics_revision
        )?;
        summary(out, result)?;
    }
    if let Some(found) = &report.summary {
        writeln!(out)?;
        found.lines(out)?;
        writeln!(out)?;
        report.covers.iter().try_for_each(|c| writeln!(out, "{}: {}", c.file, c.state))?;
    }
    Ok(())
}

fn html(args: HtmlArgs) -> anyhow::Result<Outcome> {
    source::free(&args.out)?;
    let keys = args.key.iter().map(|path| source::public_key(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let keys: Vec<&PublicKey> = keys.iter().collect();
    let mut results = Vec::new();
    for path in &args.files {
        let bytes = source::file(path, source::MAX_REPORT)?;
        match opened(envelope::verify(&bytes, &keys)).with_context(|| path.display().to_string())? {
            Opened::Signed(_) => {}
            Opened::Altered(why) => {
                let reason = format!("{}: the signature does not verify, so no page is drawn: {why}", path.display());
                let page = Page { schema: PAGE_SCHEMA, page: None, files: args.files, reason: Some(reason.clone()) };
                args.format.print(&page, |out| writeln!(out, "{reason}"))?;
                return Ok(Outcome::SomethingDiffers);
            }
        }
        let result = SignedResult::open(&bytes, &keys).with_context(|| path.display().to_string())?;
        let name = path.file_name().with_context(|| format!("{} names no file", path.display()))?;
        results.push(result.named(name.to_string_lossy()));
    }
    let title = match (&args.title, results.as_slice()) {
        (Some(title), _) => title.clone(),
        (None, [one]) => report_title(&one.result.subject.name),
        (None, all) => format!("{} audits", all.len()),
    };
    source::write_new(&args.out, report::render(&results, &title)?.as_bytes())?;
    let page = Page { schema: PAGE_SCHEMA, page: Some(args.out.clone()), files: args.files, reason: None };
    args.format.print(&page, |out| writeln!(out, "wrote {}", args.out.display()))?;
    Ok(Outcome::AllMatch)
}

#[derive(Serialize)]
struct Exported {
    schema: &'static str,
    /// Where it is, if it was written.
    file: Option<PathBuf>,
    as_format: &'static str,
    /// Plain SHA-256 of the signed file.
    signed: Digest,
    /// Why it was not.
    reason: Option<String>,
}

fn exported(args: ExportArgs) -> anyhow::Result<Outcome> {
    source::free(&args.out)?;
    let key = source::public_key(&args.key)?;
    let bytes = source::file(&args.file, source::MAX_REPORT)?;
    let mut done = Exported {
        schema: "lastbit/report-export/v1",
        file: None,
        as_format: args.wanted.name(),
        signed: Digest::of_file(&bytes),
        reason: None,
    };
    if let Opened::Altered(why) =
        opened(envelope::verify(&bytes, &[&key])).with_context(|| args.file.display().to_string())?
    {
        let reason = format!("{}: the signature does not verify, so nothing is written: {why}", args.file.display());
        done.reason = Some(reason.clone());
        args.format.print(&done, |out| writeln!(out, "{reason}"))?;
        return Ok(Outcome::SomethingDiffers);
    }
    let name = args.file.file_name().with_context(|| format!("{} names no file", args.file.display()))?;
    let signed = SignedResult::open(&bytes, &[&key]).with_context(|| args.file.display().to_string())?;
    let signed = signed.named(name.to_string_lossy());
    source::write_new(&args.out, &export::write(&signed, args.wanted, args.time.as_deref())?)?;
    done.file = Some(args.out.clone());
    args.format.print(&done, |out| writeln!(out, "wrote {}", args.out.display()))?;
    Ok(Outcome::AllMatch)
}
