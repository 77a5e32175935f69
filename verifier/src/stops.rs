//! Did requests with stop strings end where their text came to one, and nowhere else?
//!
//! Source: `docs/spec/sampling.md`, *Ends*. Everything else about ends follows from token ids and is checked with the record's consistency.

use crate::explain::request as named;
use crate::replay::Replayer;
use crate::result::{ClaimKind, ClaimResult};
use crate::verdict::Verdict;
use record::Record;
use record::inference::{Finish, Request};

/// What the text says of the ends of requests: nothing where no request has stop strings.
pub fn check(record: &Record, replayer: Option<&dyn Replayer>) -> Option<ClaimResult> {
    let mut checked = 0;
    for request in record.requests.iter().filter(|r| !r.decode.stop_strings.is_empty()) {
        let Some(replayer) = replayer else {
            let why = format!("{}: no tokenizer at hand to look for its stop strings", named(&request.id));
            return Some(ClaimResult::new(ClaimKind::Outputs, Verdict::Inconclusive, why));
        };
        match wrong(request, replayer) {
            Ok(None) => checked += 1,
            Ok(Some(what)) => {
                let why = format!("{} {what}", named(&request.id));
                return Some(ClaimResult::new(ClaimKind::Outputs, Verdict::Mismatch, why));
            }
            Err(e) => {
                let why = format!("{}: its text could not be made: {e}", named(&request.id));
                return Some(ClaimResult::new(ClaimKind::Outputs, Verdict::Inconclusive, why));
            }
        }
    }
    let requests = record.requests.len();
    let detail =
        format!("lengths and finish reasons of {requests} requests fit, and the text of {checked} with stop strings");
    (checked > 0).then(|| ClaimResult::holds(ClaimKind::Outputs, detail))
}

/// What is wrong with a request's end.
fn wrong(request: &Request, replayer: &dyn Replayer) -> Result<Option<&'static str>, crate::replay::ReplayError> {
    let (output, stops) = (&request.output, &request.decode.stop_strings);
    for n in 1..output.len() {
        if replayer.text_has(&output[..n], stops)? {
            return Ok(Some("goes on after its text came to a stop string"));
        }
    }
    let there = replayer.text_has(output, stops)?;
    let stopped_by_id = output.last().is_some_and(|last| request.decode.stop_ids.contains(last));
    Ok(match request.finish {
        Finish::Stop if !there && !stopped_by_id => Some("says that it stopped, but its text has no stop string"),
        Finish::Stop | Finish::Cancelled => None,
        _ if there => Some("came to a stop string, but says that it ended otherwise"),
        _ => None,
    })
}
