//! Another token than the logged one was fed to the model: its embedding betrays it.

use super::machine::failure;
use crate::compare::Difference;
use crate::error::Error;
use crate::ops::{Op, Point};
use crate::plan::Plan;
use crate::replay::{Elements, Machine};
use crate::result::{Cause, Outcome, Trial};
use crate::walk::{Context, Search};

/// Looks the logged embeddings of the differing rows up in the table, and replays with the tokens found.
///
/// # Errors
/// [`Error`] when the replay fails.
pub fn attempt(
    context: &Context<'_>,
    machine: &Machine,
    pass: usize,
    differing: &[(usize, Difference)],
) -> Result<(Vec<Trial>, Vec<Cause>), Error> {
    let embed = Point::global(Op::Embed);
    let (mut plan, mut causes, mut names) = (context.plan.clone(), Vec::new(), Vec::new());
    for (step, d) in differing.iter().filter(|(_, d)| d.point == Some(embed)) {
        let Some(opened) = context.opened.row(*step, d.leaf).and_then(|r| r.outputs.get(&embed)) else { continue };
        let Elements::Bf16(bits) = &opened.bits else { continue };
        let found = context.replayer.embeddings(bits);
        let Some(token) = found.first() else { continue };
        let Some((request, position, logged)) = replace(&mut plan, pass, *step, d.leaf, *token) else { continue };
        let id = context.record.requests.get(request as usize).map_or_else(String::new, |r| r.id.clone());
        names.push(format!("{token} for {logged} at position {position} of {id}"));
        causes.push(Cause::OtherInput { request: id, position, logged, found });
    }
    if causes.is_empty() {
        let detail = "no differing row's embedding is that of another token".to_owned();
        let trial = Trial { hypothesis: "another token was fed".to_owned(), outcome: Outcome::Contradicted, detail };
        return Ok((vec![trial], Vec::new()));
    }
    let walk = Context { plan: &plan, ..*context }.walk(machine, Search::Off, true)?;
    let hypothesis = format!("token {} was fed", names.join(", "));
    Ok(match walk.first_unexplained() {
        None => {
            let detail = format!("all {} steps", walk.passes);
            (vec![Trial { hypothesis, outcome: Outcome::Explains, detail }], causes)
        }
        Some(at) => {
            let detail = failure(context, &walk, at);
            (vec![Trial { hypothesis, outcome: Outcome::Contradicted, detail }], Vec::new())
        }
    })
}

/// Puts another token in a row of the plan; returns request, position and the token that was there.
fn replace(plan: &mut Plan, pass: usize, step: usize, leaf: usize, token: u32) -> Option<(u32, u32, u32)> {
    let item = plan.items.get_mut(pass)?;
    let at = item.rows.iter().find(|(s, r)| *s == step && r.leaf == leaf)?.1;
    for group in item.input.groups.iter_mut().filter(|g| g.request == at.request) {
        let place = at.position.checked_sub(group.start).and_then(|i| group.tokens.get_mut(i as usize));
        if let Some(place) = place {
            let logged = std::mem::replace(place, token);
            return Some((at.request, at.position, logged));
        }
    }
    None
}
