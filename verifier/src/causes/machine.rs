//! Another GPU generation, or quantised weights: one replay from the first step per supposition.

use crate::claims;
use crate::error::Error;
use crate::replay::{Machine, ReplayError, WeightChange};
use crate::result::{Outcome, Trial};
use crate::walk::{Context, Search, Walk};

/// A machine that explains every logged bit.
pub struct Explained {
    /// The machine.
    pub machine: Machine,
    /// Its walk.
    pub walk: Walk,
}

/// Tries one machine; a walk that stops at the first pass it does not explain is a contradiction.
///
/// Other splits are tried too, but only on passes after `first_difference`: a machine that gets further than the claim did has earned it.
///
/// # Errors
/// [`Error`] when the replay fails; a profile that is not known is a trial that was not made.
pub fn attempt(
    context: &Context<'_>,
    machine: Machine,
    hypothesis: String,
    first_difference: usize,
) -> Result<(Trial, Option<Explained>), Error> {
    let walk = match context.walk(&machine, Search::OnDifferenceFrom(first_difference + 1), true) {
        Ok(walk) => walk,
        Err(Error::Replay(ReplayError::Unknown { what })) => {
            let detail = format!("{what} is not known here");
            return Ok((Trial { hypothesis, outcome: Outcome::NotTried, detail }, None));
        }
        Err(e) => return Err(e),
    };
    Ok(match walk.first_unexplained() {
        Some(pass) => {
            let trial = Trial { hypothesis, outcome: Outcome::Contradicted, detail: failure(context, &walk, pass) };
            (trial, None)
        }
        None => {
            let detail = format!("all {} steps", walk.passes);
            (Trial { hypothesis, outcome: Outcome::Explains, detail }, Some(Explained { machine, walk }))
        }
    })
}

/// Where a walk fails, in words.
pub fn failure(context: &Context<'_>, walk: &Walk, pass: usize) -> String {
    let differing = walk.findings.get(pass).map(|f| f.differing.as_slice()).unwrap_or_default();
    let differences: Vec<_> = differing.iter().map(|(_, d)| d.clone()).collect();
    let place = crate::compare::earliest(&differences).and_then(|d| d.point);
    let rows = context.plan.items.get(pass).map_or(0, |i| i.rows.len());
    match place {
        Some(point) => format!("step {pass}: {point} differs, {} of {rows} rows", differing.len()),
        None => format!("step {pass}: {} of {rows} rows differ", differing.len()),
    }
}

/// The other profiles, schemes, numbers of ranks and types of the cache to try, with their hypotheses in words. In portable mode a profile changes nothing: there is none to try.
pub fn suppositions(context: &Context<'_>, claimed: &str) -> Vec<(Machine, String)> {
    let portable = claims::mode(context.record) == Some(engine::Mode::Portable);
    let profiles = context.replayer.profiles().into_iter().filter(|p| !portable && p != claimed);
    let profiles = profiles.map(|p| {
        let hypothesis = format!("computed on {p}");
        (Machine::declared(p), hypothesis)
    });
    let schemes = context.replayer.schemes().into_iter().map(|s| {
        let hypothesis = format!("weights rounded to {s}");
        (Machine { profile: claimed.to_owned(), weights: WeightChange::Quantised(s) }, hypothesis)
    });
    // Where nothing is split, the policy's splits are the logged ones.
    let splits = !context.replayer.splittable().is_empty();
    let degrees = context.replayer.degrees().into_iter().flat_map(|ranks| [(ranks, false), (ranks, true)]);
    let degrees = degrees.filter(|(_, by_policy)| splits || !by_policy).map(|(ranks, by_policy)| {
        let whose = if by_policy { "the policy's" } else { "the logged" };
        let hypothesis = format!("divided over {ranks} tensor-parallel ranks, with {whose} splits");
        (Machine { profile: claimed.to_owned(), weights: WeightChange::Divided { ranks, by_policy } }, hypothesis)
    });
    let caches = context.replayer.caches().into_iter().map(|kv| {
        let hypothesis = format!("keys and values kept as {kv}");
        (Machine { profile: claimed.to_owned(), weights: WeightChange::Cache(kv) }, hypothesis)
    });
    profiles.chain(schemes).chain(degrees).chain(caches).collect()
}
