//! The audit of one record: checks, replay, causes, and the verdict that follows.
//!
//! Source: `docs/spec/audit-result.md`. Every claim gets its own verdict; the record's is their fold, fail closed.

use crate::alternatives;
use crate::causes::{self, Found};
use crate::checks;
use crate::claims;
use crate::compare::{self, Opened};
use crate::error::Error;
use crate::logprobs::Prompts;
use crate::plan::{Mode, Plan};
use crate::replay::{Machine, ReplayError, Replayer};
use crate::result::{
    Alternatives, Cause, ClaimKind, ClaimResult, IdentityField, Limits, Margins, Outcome, RecordResult, RecordSize,
    SetAside, StepMatrix, Trial,
};
use crate::tokens::{self, TokenCheck};
use crate::verdict::{Verdict, fold};
use crate::walk::{Context, Search, Walk, suppositions};
use crate::{gate, headline, identity, level_t, logprobs, scheduling, stops, tables};
use record::{Digest, Record};

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

/// A record and what came with it; or several records of a session, audited as one because requests go on from one to the next.
pub struct Input<'a> {
    /// Place in the log, of the first.
    pub seq: u64,
    /// The records as they are in the log, in order; at least one.
    pub parts: &'a [Record],
    /// What they say together: the record itself, or what [`join`](record::inference::join) makes of several.
    pub record: &'a Record,
    /// Opened rows, checked against the record's leaves.
    pub opened: Opened,
    /// Evidence that was handed over and refused: it is reported, and the audit recomputes without it.
    pub set_aside: Vec<SetAside>,
    /// Valid receipts of the operator for this record: what each says against the record, or nothing if it agrees.
    pub receipts: Vec<Result<(), String>>,
    /// What the declared scheduling rule says of the schedule.
    pub scheduling: scheduling::Outcome,
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
/// [`Error`] when the record has no canonical form, so that it cannot even be named. Whatever else goes wrong is in the result: what the record
/// does wrong, and a replay that cannot be made.
pub fn audit(input: &Input<'_>, options: &Options, progress: &dyn Fn(usize, usize)) -> Result<RecordResult, Error> {
    let record = input.record;
    let mut result = blank(input)?;
    let mut claims = vec![
        checks::completeness(record)?,
        checks::identity(record, &input.identity),
        checks::decoding(record),
        checks::seeds(record),
    ];
    let mut consistency = checks::consistency(input.parts, record);
    if consistency.replayable
        && let Some(why) = input.replayer.and_then(|replayer| checks::impossible(record, replayer))
    {
        consistency.refuse(ClaimKind::Schedule, why);
    }
    if consistency.replayable
        && let Some(claim) = stops::check(record, input.replayer)
    {
        consistency.narrow(claim);
    }
    claims.extend(consistency.claims);
    let scheduling::Outcome { verdict, detail } = &input.scheduling;
    claims.push(ClaimResult::new(ClaimKind::Scheduling, *verdict, detail));
    claims.extend(claims::receipts(&input.receipts));

    // A gated log is audited by prefill at level T: tokens only.
    let tokens_only = options.mode == Mode::Prefill && record.stack.gate.is_some();
    let own = claims::mode(record).is_some_and(engine::Mode::own_tokens_only);
    let prefill_unsound = options.mode == Mode::Prefill && !own && !tokens_only;
    let obstacle = match input.replayer {
        _ if !consistency.replayable => {
            Some((Verdict::Inconclusive, "not replayed: the record contradicts itself or is not whole".to_owned()))
        }
        None if claims.iter().any(|c| c.claim == ClaimKind::Identity && c.verdict == Verdict::Match) => {
            Some((Verdict::Unverifiable, "not replayed: no arithmetic for the declared profile".to_owned()))
        }
        None => Some((Verdict::Unverifiable, "not replayed: what is declared is not at hand".to_owned())),
        Some(_) if prefill_unsound => {
            let why =
                format!("not replayed: in mode {} a prefill does not give the bits of decode steps", record.stack.mode);
            Some((Verdict::Unverifiable, why))
        }
        Some(_) => None,
    };
    let plan = if consistency.replayable { Plan::new(record, options.mode) } else { Plan::default() };
    match (obstacle, input.replayer) {
        (None, Some(replayer)) => {
            claims.push(checks::dispatch(record, replayer, options.limits.extra_rows).unwrap_or_else(|e| {
                ClaimResult::new(ClaimKind::Dispatch, Verdict::Unverifiable, format!("not judged: {e}"))
            }));
            let suppositions = suppositions(replayer, options.limits.extra_rows, options.limits.splits);
            let opened = &input.opened;
            let context = Context { record, opened, plan: &plan, replayer, suppositions: &suppositions, progress };
            let done = if tokens_only {
                level_t::audit(&context, &mut claims, &mut result)
            } else {
                replayed(&context, options, &mut claims, &mut result)
            };
            if let Err(e) = done {
                // What was found before the failure stays; what was not reached is not known.
                let why = match &e {
                    Error::Replay(ReplayError::Unknown { what }) => format!("{what} is not known here"),
                    e => format!("the replay could not be made: {e}"),
                };
                unreached(record, Verdict::Unverifiable, &why, &mut claims, &mut result);
            }
        }
        (obstacle, _) => {
            let (verdict, why) = obstacle.unwrap_or((Verdict::Inconclusive, "not replayed".to_owned()));
            unreached(record, verdict, &why, &mut claims, &mut result);
        }
    }
    if result.matrix.steps.is_empty() {
        result.matrix = tables::matrix(record, &plan, None, &TokenCheck::default());
    }
    let mut required = options.required.clone();
    if tokens_only {
        required.retain(|c| !matches!(c, ClaimKind::Bits | ClaimKind::Logprobs));
    }
    conclude(&mut result, claims, &required);
    Ok(result)
}

/// Claims that only a replay can judge, where there was none.
fn unreached(record: &Record, verdict: Verdict, why: &str, claims: &mut Vec<ClaimResult>, result: &mut RecordResult) {
    for claim in [ClaimKind::Bits, ClaimKind::Tokens] {
        if !claims.iter().any(|c| c.claim == claim) {
            claims.push(ClaimResult::new(claim, verdict, why));
        }
    }
    if record.stack.gate.is_some() && !claims.iter().any(|c| c.claim == ClaimKind::Gate) {
        claims.push(ClaimResult::new(ClaimKind::Gate, verdict, why));
    }
    if !claims.iter().any(|c| c.claim == ClaimKind::Logprobs)
        && let Some((claim, left)) = logprobs::not_replayed(record, verdict, why)
    {
        claims.push(claim);
        result.unverified.extend(left);
    }
}

/// Folds the claims into the verdict, and says it in one line.
fn conclude(result: &mut RecordResult, mut claims: Vec<ClaimResult>, requires: &[ClaimKind]) {
    claims.sort_by_key(|c| c.claim);
    let judged = |kind: &ClaimKind| claims.iter().any(|c| c.claim == *kind);
    let required = claims.iter().filter(|c| requires.contains(&c.claim)).map(|c| (c.claim, c.verdict));
    let absent = requires.iter().filter(|kind| !judged(kind) && !kind.may_be_absent());
    result.verdict = fold(required.chain(absent.map(|kind| (*kind, Verdict::Inconclusive))));
    let level = |kind| claims.iter().find(|c| c.claim == kind).and_then(|c| c.level);
    result.level =
        level(ClaimKind::Bits).or_else(|| level(ClaimKind::Tokens).filter(|_| !requires.contains(&ClaimKind::Bits)));
    result.claims = claims;
    result.headline = headline::record(result);
}

/// The result of a record that could not even be read: one claim says why, and nothing else is judged.
pub fn unread(seq: u64, digest: &Digest, verdict: Verdict, why: String) -> RecordResult {
    let mut result = empty(seq, digest);
    result.verdict = verdict;
    result.claims.push(ClaimResult::new(ClaimKind::Commitments, verdict, why));
    result.headline = headline::record(&result);
    result
}

fn empty(seq: u64, digest: &Digest) -> RecordResult {
    RecordResult {
        seq,
        last: seq,
        digest: digest.to_string(),
        further: Vec::new(),
        identity: Vec::new(),
        unverified: Vec::new(),
        set_aside: Vec::new(),
        size: RecordSize::default(),
        verdict: Verdict::Inconclusive,
        level: None,
        headline: String::new(),
        claims: Vec::new(),
        divergence: None,
        growth: Vec::new(),
        causes: Vec::new(),
        alternatives: Alternatives::default(),
        tried: Vec::new(),
        matrix: StepMatrix::default(),
        margins: Margins::default(),
    }
}

fn digests(records: &[Record]) -> Result<Vec<String>, Error> {
    records.iter().map(|r| Ok(r.digest()?.to_string())).collect()
}

fn blank(input: &Input<'_>) -> Result<RecordResult, Error> {
    let record = input.record;
    let first = input.parts.first().unwrap_or(record);
    Ok(RecordResult {
        last: input.seq + input.parts.len().saturating_sub(1) as u64,
        further: digests(input.parts.get(1..).unwrap_or_default())?,
        identity: input.identity.clone(),
        unverified: identity::unverified(record),
        set_aside: input.set_aside.clone(),
        size: RecordSize {
            requests: record.requests.len() as u32,
            steps: record.steps.len() as u32,
            rows: record.steps.iter().map(|s| s.leaves.len() as u32).sum(),
            tokens: record.requests.iter().map(|r| r.output.len() as u32).sum(),
        },
        ..empty(input.seq, &first.digest()?)
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
    let walk = context.walk(&claimed, Search::OnDifferenceFrom(0), false)?;
    // From here on the bits are judged: a search that fails afterwards leaves that as it is.
    claims.push(claims::bits(record, &walk));
    let found = if walk.matches() {
        Found::default()
    } else {
        causes::find(context, &claimed, &walk).unwrap_or_else(|e| not_searched(&e))
    };
    if let Some(pass) = walk.first_difference()
        && let Err(e) = first_difference(context, &claimed, &walk, pass, &found, result)
    {
        result.tried.push(failed_search("where the difference arises", &e));
    }
    result.tried.extend(found.trials);
    result.causes.extend(found.causes);

    // Tokens: from the logits of whatever replay gives the logged bits.
    let explaining = found.walk.as_ref().unwrap_or(&walk);
    let sampled = tokens::sampled(record, plan, explaining, context.opened);
    let check = tokens::check(record, context.replayer, &sampled);
    match tokens::causes(record, context.replayer, &sampled, &check, options.limits.seeds) {
        Ok((causes, trials)) => {
            result.causes.extend(causes);
            result.tried.extend(trials);
        }
        Err(e) => result.tried.push(failed_search("what made the tokens", &e)),
    }
    claims.push(claims::tokens(&check));
    claims.extend(gate::check(record, plan, explaining, context.replayer));
    let prompts = Prompts { plan, walk: explaining, opened: context.opened };
    if let Some((claim, left)) = logprobs::check(record, context.replayer, &sampled, &prompts) {
        claims.push(claim);
        result.unverified.extend(left);
    }
    result.matrix = tables::matrix(record, plan, Some(&walk), &check);
    result.margins = tables::margins(&sampled);

    if walk.matches()
        && let Err(e) = alternatives::find(context, &claimed, &walk, result)
    {
        result.tried.push(failed_search("what else gives these bits", &e));
        for claim in [ClaimKind::Rows, ClaimKind::Hardware] {
            claims.push(ClaimResult::new(claim, Verdict::Inconclusive, format!("not searched: {e}")));
        }
        return Ok(());
    }
    claims.push(claims::rows(record, &walk, result, options.limits.extra_rows));
    claims.push(claims::hardware(record, &walk, &claimed, result));
    Ok(())
}

fn failed_search(what: &str, error: &Error) -> Trial {
    Trial { hypothesis: format!("the search for {what}"), outcome: Outcome::NotTried, detail: error.to_string() }
}

fn not_searched(error: &Error) -> Found {
    let narrowed = "the search for causes could not be made".to_owned();
    let cause = Cause::Unexplained { narrowed, needed: "a replay that does not fail".to_owned() };
    Found { causes: vec![cause], trials: vec![failed_search("causes", error)], ..Found::default() }
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
