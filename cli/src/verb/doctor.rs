//! `lastbit doctor`: is this build, on this machine, fit to audit?

use std::io::Read as _;
use std::sync::Arc;

use emulator::conformance::{Answers, judge};
use emulator::profile::Profile;
use emulator::simd::Level;
use engine::batch::{BatchOptions, Request, generate};
use engine::device::EmulatedDevice;
use engine::journal::NUMERICS_REVISION;
use engine::runtime::Limits;
use engine::step::Observe;
use engine::{Engine, Mode, Model};
use serde::Serialize;

use super::conformance::BUILT_IN;
use crate::output::{Format, Outcome, progress};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    version: &'static str,
    numerics_revision: u64,
    cores: usize,
    vector_instructions: Vec<&'static str>,
    profiles: Vec<&'static str>,
    gpu: String,
    devices: Vec<Gpu>,
    checks: Vec<Check>,
}

/// A GPU that the driver shows.
#[derive(Serialize)]
struct Gpu {
    device: String,
    model: String,
    driver: String,
    memory_bytes: u64,
    /// Absent where kernels cannot run: `problem` says why.
    profile: Option<&'static str>,
    problem: Option<String>,
}

/// The GPUs, or why there are none.
fn gpus() -> (String, Vec<Gpu>) {
    let (driver, cards) = match engine::device::cuda::cards() {
        Ok((driver, cards)) if cards.is_empty() => {
            return (format!("none is shown by the driver ({driver})"), Vec::new());
        }
        Ok(found) => found,
        Err(e) => return (e.to_string(), Vec::new()),
    };
    let gpu = |card: engine::device::cuda::Card| {
        let profile = card.profile();
        Gpu {
            device: format!("cuda:{}", card.ordinal),
            driver: driver.clone(),
            memory_bytes: card.memory,
            profile: profile.as_ref().ok().map(|p| p.name),
            problem: profile.err().map(|e| e.to_string()),
            model: card.name,
        }
    };
    let devices: Vec<Gpu> = cards.into_iter().map(gpu).collect();
    let line = |g: &Gpu| match (&g.profile, &g.problem) {
        (Some(profile), _) => format!("{} {} ({profile}, {})", g.device, g.model, g.driver),
        (None, problem) => format!("{} {} ({})", g.device, g.model, problem.as_deref().unwrap_or("unusable")),
    };
    (devices.iter().map(line).collect::<Vec<_>>().join("; "), devices)
}

#[derive(Serialize)]
struct Check {
    check: String,
    passed: bool,
    detail: String,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let model = Arc::new(engine::model::embedded()?);
    let levels: Vec<Level> = Level::available().collect();
    let bar = progress(2 + levels.len() as u64, "self-test");
    let mut checks = vec![vectors()];
    bar.inc(1);
    checks.push(raceless(&model));
    bar.inc(1);
    let mut first = None;
    for level in &levels {
        let tokens = tokens(&model, *level);
        bar.inc(1);
        let check = format!("one batch on {}", level.name());
        checks.push(match tokens {
            Err(e) => Check { check, passed: false, detail: e.to_string() },
            Ok(bits) => {
                let same = *first.get_or_insert_with(|| bits.clone()) == bits;
                let detail = if same {
                    "the same logit bits as on the plainest level"
                } else {
                    "other bits: do not audit on this machine"
                };
                Check { check, passed: same, detail: detail.to_owned() }
            }
        });
    }
    bar.finish_and_clear();
    let (gpu, devices) = gpus();
    let report = Report {
        schema: "lastbit/doctor/v1",
        version: env!("CARGO_PKG_VERSION"),
        numerics_revision: NUMERICS_REVISION,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        vector_instructions: levels.iter().map(|l| l.name()).collect(),
        profiles: Profile::all().iter().map(|p| p.name).collect(),
        gpu,
        devices,
        checks,
    };
    args.format.print(&report, |out| {
        writeln!(out, "lastbit {}, numerics revision {}", report.version, report.numerics_revision)?;
        writeln!(out, "  cores                {}", report.cores)?;
        writeln!(out, "  vector instructions  {}", report.vector_instructions.join(", "))?;
        writeln!(out, "  profiles             {}", report.profiles.join(", "))?;
        writeln!(out, "  GPU                  {}", report.gpu)?;
        for c in &report.checks {
            writeln!(out, "  {} {}: {}", if c.passed { "ok    " } else { "FAILED" }, c.check, c.detail)?;
        }
        Ok(())
    })?;
    Ok(if report.checks.iter().all(|c| c.passed) { Outcome::AllMatch } else { Outcome::CouldNotTell })
}

/// The vectors inside the binary.
fn vectors() -> Check {
    let mut passed = 0;
    let mut failed = 0;
    let mut broken = None;
    for (name, compressed) in BUILT_IN {
        let mut text = Vec::new();
        let read = lzma_rust2::XzReader::new(*compressed, true).read_to_end(&mut text);
        match read
            .map_err(|e| e.to_string())
            .and_then(|_| judge(name, text.as_slice(), Answers::Both).map_err(|e| e.to_string()))
        {
            Ok(report) => (passed, failed) = (passed + report.passed, failed + report.failed),
            Err(e) => broken = Some(e),
        }
    }
    let detail = broken.clone().unwrap_or_else(|| format!("{passed} tensor-core vectors pass, {failed} fail"));
    Check { check: "arithmetic".to_owned(), passed: failed == 0 && broken.is_none(), detail }
}

/// Both modes under the checker, which permutes warps, delays copies and watches every access.
fn raceless(model: &Arc<Model>) -> Check {
    let outcome = Mode::ALL.into_iter().try_for_each(|mode| {
        let device = EmulatedDevice::new("sm_90")?.checked(1);
        serve(model, device, mode).map(|_| ())
    });
    let (passed, detail) = match outcome {
        Ok(()) => (true, "no race and no missing wait in any kernel".to_owned()),
        Err(e) => (false, e.to_string()),
    };
    Check { check: "kernels".to_owned(), passed, detail }
}

fn tokens(model: &Arc<Model>, level: Level) -> engine::Result<Vec<u32>> {
    serve(model, EmulatedDevice::new("sm_90")?.simd(level), Mode::Throughput)
}

/// Logit bits of a small batch, step after step.
fn serve(model: &Arc<Model>, device: EmulatedDevice, mode: Mode) -> engine::Result<Vec<u32>> {
    struct Keep(Vec<u32>);
    impl engine::batch::Operator for Keep {
        fn step(&mut self, step: &engine::batch::StepLog<'_>) -> Result<(), engine::batch::OperatorError> {
            self.0.extend(step.output.rows.iter().filter_map(|r| r.logits.as_deref()).flatten());
            Ok(())
        }
    }
    let mut engine = Engine::new(model.clone(), Box::new(device), mode, Limits { slots: 2, pages: 8, max_rows: 64 })?;
    let request = |text: &str| -> engine::Result<Request> {
        let prompt = model.tokenizer.encode(text)?;
        Ok(Request::new(prompt, 3))
    };
    let requests = [request("In the beginning")?, request("And the LORD said unto Moses")?];
    let options = BatchOptions { chunk: None, observe: Observe { logits: true, ..Observe::TOKENS } };
    let mut keep = Keep(Vec::new());
    generate(&mut engine, &requests, &options, &mut keep)?;
    Ok(keep.0)
}
