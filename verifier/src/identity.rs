//! Model, software and hardware as a record declares them, against what the auditor has.
//!
//! A fact that is `unspecified` is not compared here: it caps the verdict as a missing field. What is declared and not at hand makes the
//! record unverifiable; nothing is substituted. What no replay can show (which GPU, which driver, which build) is listed as
//! [`unverified`], so that nobody takes it for checked.

use crate::error::Error;
use crate::result::{IdentityField, Unverified};
use engine::journal;
use engine::runtime::Engine;
use engine::scheduler::Settings;
use record::inference::{DeviceKind, Finish, Record, Stack};
use record::model_signing::{Listed, SignedModel};
use record::{Digest, Fact};
use serde::Serialize;

/// The field that compares kernel names. It decides no bit (texts are compared by digest), so it alone does not stop a replay.
pub const KERNEL_NAMES: &str = "kernel names";

/// Every declared identity against those of an engine of the declared profile and policy.
///
/// # Errors
/// [`Error`] when a declaration has no canonical form, or the engine cannot state its own identity.
pub fn compare(record: &Record, engine: &Engine) -> Result<Vec<IdentityField>, Error> {
    // The auditor schedules nothing; what the record states of its scheduler is judged apart.
    let settings = Settings::plain(engine.limits().max_rows);
    let ours = journal::Identity::of(engine, settings)
        .map_err(|e| crate::replay::ReplayError::Failed { reason: e.to_string() })?;
    let (m, n) = (&record.model, &ours.model);
    let mut fields = vec![
        plain("model architecture", &m.architecture, &n.architecture),
        digested("model files", &m.files, &n.files)?,
        plain("model configuration", &m.config.to_string(), &n.config.to_string()),
        plain("weights stored as", &m.dtype_stored, &n.dtype_stored),
        plain("weights computed as", &m.dtype_computed, &n.dtype_computed),
    ];
    let optional = |x: &Option<String>| x.clone().unwrap_or_else(|| "none".to_owned());
    let digest = |x: &Option<Digest>| x.map_or_else(|| "none".to_owned(), |d| d.to_string());
    fields.extend(fact("quantisation", &m.quantisation, &n.quantisation, optional));
    fields.extend(fact("adapters", &m.adapters, &n.adapters, |a| format!("{} adapters", a.len())));
    // A record without a template is of plain texts; one with a template must be of the model's own.
    let chat = record.text.chat_template.known().is_some_and(Option::is_some);
    let text = journal::text(engine.model(), chat)
        .map_err(|e| crate::replay::ReplayError::Failed { reason: e.to_string() })?;
    fields.extend(fact("tokenizer", &record.text.tokenizer, &text.tokenizer, digest));
    fields.extend(fact("chat template", &record.text.chat_template, &text.chat_template, digest));
    fields.extend(fact("special tokens added", &record.text.added_special, &text.added_special, |ids| {
        format!("{ids:?}")
    }));

    let (s, t) = (&record.stack, &ours.stack);
    let engine_name = |s: &Stack| format!("{} numerics {}", s.engine.name, s.engine.numerics_revision);
    fields.push(plain("engine", &engine_name(s), &engine_name(t)));
    // Another kind of device is no contradiction: a log of a GPU is replayed on an emulated one. It is listed as not verified.
    if s.device.kind == t.device.kind {
        fields.push(plain("device kind", kind(s.device.kind), kind(t.device.kind)));
    }
    fields.push(plain("hardware profile", &s.device.profile, &t.device.profile));
    fields.extend(fact("profile arithmetic", &s.device.profile_digest, &t.device.profile_digest, Digest::to_string));
    fields.push(plain("mode", &s.mode, &t.mode));
    fields.push(plain("dispatch policy", &s.dispatch_policy, &t.dispatch_policy));
    fields.extend(gate(s));
    fields.push(kernels(s, t)?);
    fields.push(kernel_names(s, t));
    fields.push(plain(
        "cache",
        &format!("{} pages of {}", s.kv.dtype, s.kv.page_size),
        &format!("{} pages of {}", t.kv.dtype, t.kv.page_size),
    ));
    fields.extend(fact("cache layout", &s.kv.layout, &t.kv.layout, Clone::clone));
    let rope = |r: &Option<record::inference::Rope>| {
        r.as_ref().map_or_else(|| "none".to_owned(), |r| format!("{} theta {:08x}", r.table, r.theta.0))
    };
    fields.extend(fact("rotary table", &s.rope, &t.rope, rope));
    let parallelism = Fact::Known(ours.parallelism);
    fields.extend(fact("parallelism", &record.parallelism, &parallelism, |p| {
        let algorithm = p.collectives.as_ref().and_then(|c| c.algorithm.known().cloned()).unwrap_or_default();
        format!(
            "tensor {} pipeline {} expert {} data {} sequence {} {algorithm}",
            p.tensor, p.pipeline, p.expert, p.data, p.sequence
        )
    }));
    fields.push(launches(record, engine));
    Ok(fields)
}

/// The identities that can be stated when the profile or the policy is not known here.
pub fn unknown(record: &Record, profile: bool, policy: bool) -> Vec<IdentityField> {
    let field = |name: &str, declared: &str, known: bool| IdentityField {
        field: name.to_owned(),
        declared: shown(declared),
        found: known.then(|| shown(declared)),
        agrees: known,
    };
    vec![
        field("hardware profile", &record.stack.device.profile, profile),
        field("dispatch policy", &record.stack.dispatch_policy, policy),
    ]
}

/// What a record states and no replay can show. Nothing here decides a bit: kernels are named by digest, the arithmetic by its profile, the
/// model by its files.
pub fn unverified(record: &Record) -> Vec<Unverified> {
    let (engine, device) = (&record.stack.engine, &record.stack.device);
    let mut out = Vec::new();
    let mut state = |fact: &str, declared: &str, why: &str| {
        out.push(Unverified { fact: fact.to_owned(), declared: shown(declared), why: why.to_owned() });
    };
    state("model name", &record.model.name, "for people; the model is identified by its files");
    state(
        "engine version",
        &engine.version,
        "the numerics revision is compared; releases of one revision give the same bits",
    );
    let host = "the host program decides no bit of the device";
    if let Some(Some(commit)) = engine.commit.known() {
        state("engine commit", commit, host);
    }
    if let Some(build) = engine.build.known() {
        state("engine build", build, host);
    }
    if device.kind != DeviceKind::Emulated {
        let why = "replayed on an emulated device: the bits are those of its arithmetic, whatever computed them";
        state("device kind", kind(device.kind), why);
    }
    if let Some(calibration) = engine_gate(record) {
        state(
            "calibration",
            &calibration,
            "the threshold's origin; decisions are checked against the threshold itself",
        );
    }
    let gpu = "bits show the arithmetic of a generation, not a model or its driver";
    if let Some(Some(model)) = device.gpu_model.known() {
        state("GPU model", model, gpu);
    }
    if let Some(Some(driver)) = device.driver.known() {
        state("driver", driver, gpu);
    }
    let timed = record.time.known().is_some() || record.steps.iter().any(|s| s.time.known().is_some());
    if timed {
        state("times", "of the record and its steps", "the operator's clock");
    }
    // Who withdrew a request, and why, no bit shows; where no step follows, not even that its place was given back.
    for request in record.requests.iter().filter(|r| r.finish == Finish::Cancelled) {
        let why = "that it was withdrawn, and not stopped by the operator, is the operator's word";
        state("cancellation", &request.id, why);
    }
    out
}

fn engine_gate(record: &Record) -> Option<String> {
    let gate = record.stack.gate.as_ref()?;
    Some(gate.calibration.map_or_else(|| "none: the threshold was chosen".to_owned(), |d| d.to_string()))
}

const fn kind(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Emulated => "emulated",
        DeviceKind::Cuda => "cuda",
        _ => "unknown",
    }
}

/// Longest text of a record that a result repeats, in characters.
const SHOWN: usize = 96;

/// A text of a record, cut if it is long.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}... ({} bytes)", text.get(..at).unwrap_or_default(), text.len()),
        None => text.to_owned(),
    }
}

fn plain(name: &str, declared: &str, found: &str) -> IdentityField {
    IdentityField {
        field: name.to_owned(),
        declared: shown(declared),
        found: Some(shown(found)),
        agrees: declared == found,
    }
}

/// A gate's rule, where one is stated: every word of it must be known here.
fn gate(declared: &Stack) -> Option<IdentityField> {
    let gate = declared.gate.as_ref()?;
    let known = engine::gated::Setup::from_record(gate);
    Some(IdentityField {
        field: "gate".to_owned(),
        declared: shown(&format!(
            "{} on {}, threshold {}, write-back {}, prompts by {}",
            gate.rule,
            gate.signal,
            gate.tau.value(),
            gate.write_back,
            gate.prefill
        )),
        agrees: known.is_ok(),
        found: Some(known.map_or_else(|e| e.to_string(), |_| "known".to_owned())),
    })
}

/// Structured facts, shown by digest; compared as they stand.
fn digested<T: Serialize + PartialEq>(name: &str, declared: &[T], found: &[T]) -> Result<IdentityField, Error> {
    let show = |list: &[T]| {
        let digest = record::digest::of_json("lastbit/model-files/v1", &list)?;
        Ok::<_, Error>(format!("{} files {digest}", list.len()))
    };
    Ok(IdentityField {
        field: name.to_owned(),
        declared: show(declared)?,
        found: Some(show(found)?),
        agrees: declared == found,
    })
}

/// A fact that may be unspecified, on either side: then there is nothing to compare, and nothing is shown.
fn fact<T: PartialEq>(
    name: &str,
    declared: &Fact<T>,
    found: &Fact<T>,
    show: impl Fn(&T) -> String,
) -> Option<IdentityField> {
    let declared = declared.known()?;
    let found = found.known();
    Some(IdentityField {
        field: name.to_owned(),
        declared: shown(&show(declared)),
        found: found.map(|x| shown(&show(x))),
        agrees: found == Some(declared),
    })
}

/// Every declared kernel text must be one of ours; ours may be more.
fn kernels(declared: &Stack, found: &Stack) -> Result<IdentityField, Error> {
    let missing: Vec<String> = declared
        .kernels
        .iter()
        .filter(|k| !found.kernels.iter().any(|ours| ours.ptx_sha256 == k.ptx_sha256))
        .map(|k| format!("{} {}", shown(&k.name), k.ptx_sha256))
        .collect();
    let all = record::digest::of_json("lastbit/kernel-table/v1", &declared.kernels)?;
    Ok(IdentityField {
        field: "kernels".to_owned(),
        declared: format!("{} texts {all}", declared.kernels.len()),
        found: (!missing.is_empty())
            .then(|| format!("not at hand: {}", missing.join(", ")))
            .or(Some("all at hand".to_owned())),
        agrees: missing.is_empty() && !declared.kernels.is_empty(),
    })
}

/// Is the model that a record declares the one that somebody signed? Every file that the engine read must be a file of it.
pub fn model_signature(record: &Record, signed: &SignedModel) -> IdentityField {
    let listed = signed.lists(&record.model.files);
    let declared = match &listed {
        Listed::All => format!("{} files of it", record.model.files.len()),
        Listed::Differs(path) => format!("{} with other bytes", shown(path)),
        Listed::Unknown(path) => format!("{}, which it does not have", shown(path)),
    };
    let found = format!("{}, {} files, {}", shown(&signed.name), signed.files.len(), signed.digest);
    let agrees = listed == Listed::All && !record.model.files.is_empty();
    IdentityField { field: "model signature".to_owned(), declared, found: Some(found), agrees }
}

/// A kernel is called what the text of its digest calls it.
fn kernel_names(declared: &Stack, found: &Stack) -> IdentityField {
    let ours = |k: &record::inference::Kernel| {
        let same: Vec<_> = found.kernels.iter().filter(|f| f.ptx_sha256 == k.ptx_sha256).collect();
        (!same.is_empty() && same.iter().all(|f| f.name != k.name)).then(|| same[0].name.clone())
    };
    let wrong: Vec<(String, String)> =
        declared.kernels.iter().filter_map(|k| Some((shown(&k.name), ours(k)?))).collect();
    let list = |pick: fn(&(String, String)) -> &String| wrong.iter().map(pick).cloned().collect::<Vec<_>>().join(", ");
    let all = format!("{} names", declared.kernels.len());
    IdentityField {
        field: KERNEL_NAMES.to_owned(),
        declared: if wrong.is_empty() { all.clone() } else { list(|(name, _)| name) },
        found: Some(if wrong.is_empty() { all } else { list(|(_, own)| own) }),
        agrees: wrong.is_empty(),
    }
}

/// Every step must be one that this engine can run exactly: the same operations by the same kernels, eager, not padded.
fn launches(record: &Record, engine: &Engine) -> IdentityField {
    let launches = engine.launches();
    let refusal = record.steps.iter().enumerate().find_map(|(index, step)| {
        let eager = step.schedule.execution == record::inference::Execution::Eager;
        let graph = (!eager).then(|| "a captured graph".to_owned());
        let own = journal::dispatch(&launches, &record.stack.kernels, &step.schedule).err().map(|e| e.to_string());
        graph.or(own).map(|why| format!("an engine that cannot run step {index}: {why}"))
    });
    IdentityField {
        field: "launches".to_owned(),
        declared: format!("{} steps", record.steps.len()),
        agrees: refusal.is_none(),
        found: refusal.or(Some("each can be run as logged".to_owned())),
    }
}
