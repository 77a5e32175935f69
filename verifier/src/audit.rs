//! The audit of one record: checks, replay, causes, and the verdict that follows.
//!
//! Source: `docs/spec/audit-result.md`. Every claim gets its own verdict; the record's is their fold, fail closed.

use crate::alternatives;
use crate::causes::{self, Found};
use crate::checks;
use crate::compare::{self, Opened};
use crate::error::Error;
use crate::plan::{Mode, Plan};
use crate::ranges::Ranges;
use crate::replay::{Machine, ReplayError, Replayer};
use crate::result::{Alternatives, Cause, ClaimKind, ClaimResult, IdentityField, Limits, RecordResult, RecordSize};
use crate::tokens::{self, TokenCheck};
use crate::verdict::{Level, Verdict, fold};
use crate::walk::{Context, Search, Walk, suppositions};
use crate::{headline, tables};
use record::{EvidenceLevel, Record};

/// How a record is audited.
#[derive(Clone, Debug)]
pub struct Options {
    /// By the logged schedule, or by one prefill per request.
    pub mode: Mode,
    /// Claims that the verdict requires.
    pub required: Vec<ClaimKind>,
    /// How far the search for causes and alternatives goes.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self { mode: Mode::Schedule, required: ClaimKind::DEFAULT_REQUIRED.to_vec(), limits: Limits::default() }
    }
}

/// A record and what came with it.
pub struct Input<'a> {
    /// Place in the log.
    pub seq: u64,
    /// The record.
    pub record: &'a Record,
    /// Opened rows, or why what was presented does not open the record's leaves.
    pub opened: Result<Opened, String>,
    /// Receipts presented by clients: what each says against the record, or nothing if it agrees.
    pub receipts: Vec<Result<(), String>>,
    /// Declared identities against those at hand.
    pub identity: Vec<IdentityField>,
    /// The arithmetic; absent when the declared one is not at hand.
    pub replayer: Option<&'a dyn Replayer>,
}

/// Audits one record.
///
/// `progress` is told after every replayed pass: passes done, of all in this walk.
///
/// # Errors
/// [`Error`] when the audit cannot be made: a device that fails, a replayer that breaks its contract. What the record does wrong is
/// in the result.
pub fn audit(input: &Input<'_>, options: &Options, progress: &dyn Fn(usize, usize)) -> Result<RecordResult, Error> {
    let record = input.record;
    let mut claims = vec![checks::completeness(record)?, checks::identity(&input.identity), checks::seeds(record)];
    let consistency = checks::consistency(record);
    let consistent = consistency.iter().all(|c| c.verdict == Verdict::Match);
    claims.extend(consistency);
    claims.extend(receipts(&input.receipts));

    let nothing = Opened::default();
    let opened = match &input.opened {
        Ok(opened) => opened,
        Err(why) => {
            let detail = format!("the evidence presented does not open the record's leaves: {why}");
            claims.retain(|c| c.claim != ClaimKind::Commitments);
            claims.push(ClaimResult::new(ClaimKind::Commitments, Verdict::Error, detail));
            &nothing
        }
    };

    let mut result = blank(input, record)?;
    let identified = claims.iter().any(|c| c.claim == ClaimKind::Identity && c.verdict == Verdict::Match);
    let prefill_unsound = options.mode == Mode::Prefill && record.stack.mode != "invariant";
    let obstacle = match (input.replayer, consistent) {
        (_, false) => {
            Some((Verdict::Inconclusive, "not replayed: the record contradicts itself or is not whole".to_owned()))
        }
        _ if !identified => Some((Verdict::Unverifiable, "not replayed: what is declared is not at hand".to_owned())),
        (None, _) => Some((Verdict::Unverifiable, "not replayed: no arithmetic for the declared profile".to_owned())),
        _ if prefill_unsound => {
            let why =
                format!("not replayed: in mode {} a prefill does not give the bits of decode steps", record.stack.mode);
            Some((Verdict::Unverifiable, why))
        }
        _ => None,
    };
    let plan = if consistent { Plan::new(record, options.mode) } else { Plan::default() };
    match (obstacle, input.replayer) {
        (None, Some(replayer)) => {
            match checks::dispatch(record, replayer, options.limits.extra_rows) {
                Ok(claim) => claims.push(claim),
                Err(e) => return Err(e.into()),
            }
            let suppositions = suppositions(replayer, options.limits.extra_rows, options.limits.splits);
            let context = Context { record, opened, plan: &plan, replayer, suppositions: &suppositions, progress };
            replayed(&context, options, &mut claims, &mut result)?;
        }
        (obstacle, _) => {
            let (verdict, why) = obstacle.unwrap_or((Verdict::Inconclusive, "not replayed".to_owned()));
            for claim in [ClaimKind::Bits, ClaimKind::Tokens] {
                claims.push(ClaimResult::new(claim, verdict, why.clone()));
            }
            result.matrix = tables::matrix(record, &plan, None, &TokenCheck::default());
        }
    }
    claims.sort_by_key(|c| c.claim);
    let required = claims.iter().filter(|c| options.required.contains(&c.claim));
    let present = |kind: &ClaimKind| claims.iter().any(|c| c.claim == *kind) || *kind == ClaimKind::Receipts;
    let absent = options.required.iter().filter(|kind| !present(kind)).map(|_| Verdict::Inconclusive);
    result.verdict = fold(required.map(|c| c.verdict).chain(absent));
    result.level = claims.iter().find(|c| c.claim == ClaimKind::Bits).and_then(|c| c.level);
    result.claims = claims;
    result.headline = headline::record(&result);
    Ok(result)
}

fn receipts(presented: &[Result<(), String>]) -> Option<ClaimResult> {
    let wrong: Vec<&str> = presented.iter().filter_map(|r| r.as_ref().err().map(String::as_str)).collect();
    if presented.is_empty() {
        return None;
    }
    Some(if wrong.is_empty() {
        ClaimResult::holds(ClaimKind::Receipts, format!("{} presented, all agree", presented.len()))
    } else {
        ClaimResult::new(ClaimKind::Receipts, Verdict::Mismatch, wrong.join("; "))
    })
}

fn blank(input: &Input<'_>, record: &Record) -> Result<RecordResult, Error> {
    Ok(RecordResult {
        seq: input.seq,
        digest: record.digest()?.to_string(),
        identity: input.identity.clone(),
        size: RecordSize {
            requests: record.requests.len() as u32,
            steps: record.steps.len() as u32,
            rows: record.steps.iter().map(|s| s.leaves.len() as u32).sum(),
            tokens: record.requests.iter().map(|r| r.output.len() as u32).sum(),
        },
        verdict: Verdict::Inconclusive,
        level: None,
        headline: String::new(),
        claims: Vec::new(),
        divergence: None,
        growth: Vec::new(),
        causes: Vec::new(),
        alternatives: Alternatives::default(),
        tried: Vec::new(),
        matrix: crate::result::StepMatrix::default(),
        margins: crate::result::Margins::default(),
    })
}

/// Replays, compares, searches; fills in the claims that bits decide.
fn replayed(
    context: &Context<'_>,
    options: &Options,
    claims: &mut Vec<ClaimResult>,
    result: &mut RecordResult,
) -> Result<(), Error> {
    let (record, plan) = (context.record, context.plan);
    let claimed = Machine::declared(&record.stack.device.profile);
    let walk = match context.walk(&claimed, Search::OnDifferenceFrom(0), false) {
        Ok(walk) => walk,
        Err(Error::Replay(ReplayError::Unknown { what })) => {
            for claim in [ClaimKind::Bits, ClaimKind::Tokens] {
                claims.push(ClaimResult::new(claim, Verdict::Unverifiable, format!("{what} is not known here")));
            }
            return Ok(());
        }
        Err(e) => return Err(e),
    };
    let found = if walk.matches() { Found::default() } else { causes::find(context, &claimed, &walk)? };
    claims.push(bits_claim(record, &walk));
    if let Some(pass) = walk.first_difference() {
        first_difference(context, &claimed, &walk, pass, &found, result)?;
    }
    result.tried.extend(found.trials);
    result.causes.extend(found.causes);

    // Tokens: from the logits of whatever replay gives the logged bits.
    let explaining = found.walk.as_ref().unwrap_or(&walk);
    let sampled = tokens::sampled(record, plan, explaining, context.opened);
    let check = tokens::check(record, context.replayer, &sampled)?;
    let (token_causes, token_trials) =
        tokens::causes(record, context.replayer, &sampled, &check, options.limits.seeds)?;
    claims.push(tokens_claim(&check));
    result.causes.extend(token_causes);
    result.tried.extend(token_trials);
    result.matrix = tables::matrix(record, plan, Some(&walk), &check);
    result.margins = tables::margins(&sampled);

    if walk.matches() {
        alternatives::find(context, &claimed, &walk, result)?;
    }
    claims.push(rows_claim(record, &walk, result, options.limits.extra_rows));
    claims.push(hardware_claim(&walk, &claimed, result));
    Ok(())
}

fn level(record: &Record) -> Level {
    match record.evidence {
        EvidenceLevel::A => Level::A,
        EvidenceLevel::S => Level::S,
    }
}

fn bits_claim(record: &Record, walk: &Walk) -> ClaimResult {
    let rows: usize = record.steps.iter().map(|s| s.leaves.len()).sum();
    let verdict = if walk.matches() { Verdict::Match } else { Verdict::Mismatch };
    let detail = match walk.first_difference() {
        None => format!("{rows} rows in {} passes replayed, every bit agrees", walk.passes),
        Some(pass) => {
            let differing: usize = walk.findings.iter().map(|f| f.differing.len()).sum();
            format!("{differing} of {rows} rows differ, the first in step {pass}")
        }
    };
    ClaimResult { claim: ClaimKind::Bits, verdict, level: Some(level(record)), detail }
}

fn tokens_claim(check: &TokenCheck) -> ClaimResult {
    let (verdict, detail) = match (&check.unknown, check.wrong.len(), check.unchecked) {
        (_, n, _) if n > 0 => {
            (Verdict::Mismatch, format!("{n} of {} tokens are not the admissible one", check.checked))
        }
        (Some(what), ..) => (Verdict::Unverifiable, format!("{what} is not known here")),
        (None, _, n) if n > 0 => (
            Verdict::Inconclusive,
            format!("{n} tokens not checked: no replay gives their logits and none were opened"),
        ),
        _ => (Verdict::Match, format!("{} tokens, each the one admissible", check.checked)),
    };
    ClaimResult { claim: ClaimKind::Tokens, verdict, level: Some(Level::T), detail }
}

/// Where the log first leaves the claim, in detail.
fn first_difference(
    context: &Context<'_>,
    claimed: &Machine,
    walk: &Walk,
    pass: usize,
    found: &Found,
    result: &mut RecordResult,
) -> Result<(), Error> {
    let (Some(finding), Some(item)) = (walk.findings.get(pass), context.plan.items.get(pass)) else { return Ok(()) };
    let differences: Vec<_> = finding.differing.iter().map(|(_, d)| d.clone()).collect();
    let Some(first) = compare::earliest(&differences) else { return Ok(()) };
    let Some((step, _)) = finding.differing.iter().find(|(_, d)| d == first) else { return Ok(()) };
    let Some(place) = item.rows.iter().position(|(s, at)| s == step && at.leaf == first.leaf) else { return Ok(()) };
    let at = &item.rows[place].1;
    let in_step = finding.differing.iter().filter(|(s, _)| s == step).count();
    let mut divergence = compare::divergence(context.record, *step, at, first, in_step);
    divergence.origin = found.origin.map(|p| p.to_string());
    if let Some(opened) = context.opened.row(*step, first.leaf) {
        let rows = causes::origin::taps(context, claimed, pass, &item.declared)?;
        if let Some(row) = rows.get(place) {
            result.growth = compare::growth(row, opened);
        }
    }
    result.divergence = Some(divergence);
    Ok(())
}

fn rows_claim(record: &Record, walk: &Walk, result: &RecordResult, most: u32) -> ClaimResult {
    let new = |verdict, detail: String| ClaimResult::new(ClaimKind::Rows, verdict, detail);
    if record.stack.mode == "invariant" {
        let detail = "in invariant mode unreported rows leave no trace in the bits";
        return new(Verdict::Indistinguishable, detail.to_owned());
    }
    if result.causes.iter().any(|c| matches!(c, Cause::UnreportedRows { .. })) {
        return new(Verdict::Mismatch, "unreported rows explain the bits".to_owned());
    }
    if !walk.matches() {
        return new(Verdict::Inconclusive, "the bits are not those of the claim".to_owned());
    }
    let a = &result.alternatives;
    if a.hidden_capacity == 0 {
        return new(Verdict::Match, format!("any 1 to {most} extra rows would have changed bits, as far as replayed"));
    }
    let joint: Ranges = a.extra_rows.iter().filter(|n| *n > 0).collect();
    let joint = if joint.is_empty() {
        "no one number fits every decode step".to_owned()
    } else {
        format!("{joint} extra in every decode step fit as well")
    };
    let detail = format!("a step's bits can be the same with up to {} extra rows; {joint}", a.hidden_capacity);
    new(Verdict::Indistinguishable, detail)
}

fn hardware_claim(walk: &Walk, claimed: &Machine, result: &RecordResult) -> ClaimResult {
    let new = |verdict, detail: String| ClaimResult::new(ClaimKind::Hardware, verdict, detail);
    let other = result.causes.iter().find_map(|c| match c {
        Cause::OtherProfile { found, .. } => Some(found.join(", ")),
        _ => None,
    });
    match other {
        Some(found) => new(Verdict::Mismatch, format!("the bits are those of {found}")),
        None if !walk.matches() => new(Verdict::Inconclusive, "the bits are not those of the claim".to_owned()),
        None if result.alternatives.profiles.is_empty() => {
            new(Verdict::Match, format!("no other profile that is known here gives the bits of {}", claimed.profile))
        }
        None => {
            let others = result.alternatives.profiles.join(", ");
            new(Verdict::Indistinguishable, format!("{others} would give the same bits"))
        }
    }
}
