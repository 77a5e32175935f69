//! Model, software and hardware as a record declares them, against what the auditor has.
//!
//! A fact that is `unspecified` is not compared here: it caps the verdict as a missing field. What is declared and not at hand makes the
//! record unverifiable; nothing is substituted.

use crate::error::Error;
use crate::result::IdentityField;
use engine::journal;
use engine::runtime::Engine;
use record::inference::{Parallelism, Record, Stack};
use record::{Digest, Fact};
use serde::Serialize;

/// Every declared identity against those of an engine of the declared profile and policy.
///
/// # Errors
/// [`Error`] when a declaration has no canonical form, or the engine cannot state its own identity.
pub fn compare(record: &Record, engine: &Engine) -> Result<Vec<IdentityField>, Error> {
    let ours =
        journal::Identity::of(engine).map_err(|e| crate::replay::ReplayError::Failed { reason: e.to_string() })?;
    let (m, n) = (&record.model, &ours.model);
    let mut fields = vec![
        plain("model architecture", &m.architecture, &n.architecture),
        digested("model files", &m.files, &n.files, m.files.len())?,
        plain("model configuration", &m.config.to_string(), &n.config.to_string()),
        plain("weights stored as", &m.dtype_stored, &n.dtype_stored),
        plain("weights computed as", &m.dtype_computed, &n.dtype_computed),
    ];
    let optional = |x: &Option<String>| x.clone().unwrap_or_else(|| "none".to_owned());
    let digest = |x: &Option<Digest>| x.map_or_else(|| "none".to_owned(), |d| d.to_string());
    fields.extend(fact("quantisation", &m.quantisation, &n.quantisation, optional));
    fields.extend(fact("adapters", &m.adapters, &n.adapters, |a| format!("{} adapters", a.len())));
    fields.extend(fact("tokenizer", &record.text.tokenizer, &ours.text.tokenizer, digest));
    fields.extend(fact("chat template", &record.text.chat_template, &ours.text.chat_template, digest));
    fields.extend(fact("special tokens added", &record.text.added_special, &ours.text.added_special, |ids| {
        format!("{ids:?}")
    }));

    let (s, t) = (&record.stack, &ours.stack);
    let engine_name = |s: &Stack| format!("{} numerics {}", s.engine.name, s.engine.numerics_revision);
    fields.push(plain("engine", &engine_name(s), &engine_name(t)));
    fields.push(plain("hardware profile", &s.device.profile, &t.device.profile));
    fields.extend(fact("profile arithmetic", &s.device.profile_digest, &t.device.profile_digest, Digest::to_string));
    fields.push(plain("mode", &s.mode, &t.mode));
    fields.push(plain("dispatch policy", &s.dispatch_policy, &t.dispatch_policy));
    fields.push(kernels(s, t)?);
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
    let single = Fact::Known(Parallelism::single());
    fields.extend(fact("parallelism", &record.parallelism, &single, |p| {
        format!(
            "tensor {} pipeline {} expert {} data {} sequence {}",
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
        declared: declared.to_owned(),
        found: known.then(|| declared.to_owned()),
        agrees: known,
    };
    vec![
        field("hardware profile", &record.stack.device.profile, profile),
        field("dispatch policy", &record.stack.dispatch_policy, policy),
    ]
}

fn plain(name: &str, declared: &str, found: &str) -> IdentityField {
    IdentityField {
        field: name.to_owned(),
        declared: declared.to_owned(),
        found: Some(found.to_owned()),
        agrees: declared == found,
    }
}

/// Structured facts, shown by digest; compared as they stand.
fn digested<T: Serialize + PartialEq>(
    name: &str,
    declared: &[T],
    found: &[T],
    count: usize,
) -> Result<IdentityField, Error> {
    let show = |list: &[T]| {
        Ok::<_, Error>(format!("{count} files {}", record::digest::of_json("lastbit/model-files/v1", &list)?))
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
        declared: show(declared),
        found: found.map(&show),
        agrees: found == Some(declared),
    })
}

/// Every declared kernel text must be one of ours; ours may be more.
fn kernels(declared: &Stack, found: &Stack) -> Result<IdentityField, Error> {
    let missing: Vec<String> = declared
        .kernels
        .iter()
        .filter(|k| !found.kernels.iter().any(|ours| ours.ptx_sha256 == k.ptx_sha256))
        .map(|k| format!("{} {}", k.name, k.ptx_sha256))
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

/// Every step must be one that this engine can run exactly: the same operations by the same kernels, eager, not padded.
fn launches(record: &Record, engine: &Engine) -> IdentityField {
    let launches = engine.launches();
    let refusal = record.steps.iter().enumerate().find_map(|(index, step)| {
        let eager = step.schedule.execution == record::inference::Execution::Eager;
        let graph = (!eager).then(|| "a captured graph".to_owned());
        let own = journal::dispatch(&launches, &record.stack.kernels, &step.schedule).err().map(|e| e.to_string());
        graph.or(own).map(|why| format!("step {index}: {why}"))
    });
    IdentityField {
        field: "launches".to_owned(),
        declared: format!("{} steps", record.steps.len()),
        agrees: refusal.is_none(),
        found: refusal.or(Some("each can be run as logged".to_owned())),
    }
}
