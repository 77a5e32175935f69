//! An auditor's work: everything that `audit`, `explain` and `demo` do to a log before they print.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Model;
use record::log::{Checkpoint, Directory};
use record::model_signing::SignedModel;
use record::{Digest, PublicKey};
use verifier::audit::Options;
use verifier::challenge::Plan;
use verifier::directory;
use verifier::engine_replay::AtHand;
use verifier::identity;
use verifier::log::{Holder, LogInput, Presented, audit};
use verifier::result::{AuditResult, Subject};

use crate::output::progress;
use crate::source::{self, Emulation};

/// A log and what the auditor brings.
pub struct Inspection<'a> {
    /// Folder of the log.
    pub log: &'a Path,
    /// Name and note of whose log it is, for the report.
    pub subject: Subject,
    /// Key that must have signed it.
    pub key: &'a PublicKey,
    /// Name that the log must have.
    pub origin: Option<&'a str>,
    /// A checkpoint seen before.
    pub pinned: Option<&'a Checkpoint>,
    /// Receipts of clients.
    pub receipts: Vec<PathBuf>,
    /// Take the copies of receipts that the operator kept as well.
    pub own_receipts: bool,
    /// A model as its signer lists it: records must declare files of it.
    pub signed_model: Option<&'a SignedModel>,
    /// Which records.
    pub plan: Plan,
    /// Commands that repeat the audit, for the report.
    pub recheck: Vec<String>,
}

/// Audits a log against a model. `told` hears of passes done, of all in the walk.
pub fn inspect(
    what: &Inspection<'_>,
    model: &Arc<Model>,
    emulation: &Emulation,
    options: &Options,
    told: &dyn Fn(usize, usize),
) -> anyhow::Result<AuditResult> {
    let directory = Directory::new(what.log);
    let presented = |path: &PathBuf| -> anyhow::Result<Presented> {
        let (name, bytes) = (path.display().to_string(), Ok(source::file(path, source::MAX_RECEIPT)?));
        Ok(Presented { name, bytes, holder: Holder::Client })
    };
    let mut receipts = what.receipts.iter().map(presented).collect::<anyhow::Result<Vec<_>>>()?;
    if what.own_receipts {
        receipts.extend(directory::receipts(&directory)?);
    }
    let at_hand = {
        let emulation = emulation.clone();
        AtHand::on_emulated(model.clone(), move |profile| emulation.device(profile))
    };
    let input = LogInput {
        subject: what.subject.clone(),
        source: &directory,
        key: what.key,
        origin: what.origin,
        pinned: what.pinned,
        receipts,
        evidence: &|record: &Digest| directory::evidence(&directory, record),
        prepare: &|record| {
            let mut prepared = at_hand.prepare(record)?;
            prepared.identity.extend(what.signed_model.map(|signed| identity::model_signature(record, signed)));
            Ok(prepared)
        },
        plan: what.plan.clone(),
        recheck: what.recheck.clone(),
    };
    let bar = progress(1, &what.subject.name);
    let result = audit(&input, options, &|_, done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
        told(done, of);
        if done == of {
            bar.set_message(format!("{}: what else fits", what.subject.name));
        }
    });
    bar.finish_and_clear();
    Ok(result?)
}
