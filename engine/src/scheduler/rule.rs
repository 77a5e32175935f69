//! The rule `continuous/1`, in the order of `docs/spec/schedulers.md`.

use std::cmp::Reverse;

use super::entry::{Entry, State};
use super::{Copy, Decision, Event, Kind, Preemption, RequestKey, Scheduler, Turn};
use crate::error::{Error, Result};
use crate::kv::KvTables;
use crate::step::Logits;

pub(super) fn next(s: &mut Scheduler, kv: &mut KvTables) -> Result<Option<Decision>> {
    // Nothing happens between steps: withdrawn requests leave with the next step there is.
    if s.entries.keys().all(|r| s.cancelled.contains(r)) {
        return Ok(None);
    }
    for request in std::mem::take(&mut s.cancelled) {
        // It may have ended with the last step.
        if s.entries.contains_key(&request) {
            s.end(request, kv)?;
            s.events.push(Event::Cancel { request });
        }
    }
    let mut d = Decision { events: std::mem::take(&mut s.events), ..Decision::default() };
    room_for_decoding(s, kv, &mut d)?;
    let decoding = s.running.iter().filter(|r| s.entries[r].decodes()).count() as u32;
    let mut rows = s.settings.max_rows - decoding;
    for request in s.running.clone() {
        let entry = &s.entries[&request];
        let take = if entry.decodes() { 1 } else { prefill(s, entry, &mut rows) };
        turn(s, request, take, &mut d);
    }
    let preempted = d.events.iter().any(|e| matches!(e, Event::Preempt { .. }));
    while !preempted && rows > 0 {
        let Some(request) = first_waiting(s) else { break };
        if !admit(s, request, kv, &mut d)? {
            break;
        }
        let take = prefill(s, &s.entries[&request], &mut rows);
        turn(s, request, take, &mut d);
    }
    if d.turns.is_empty() {
        let detail = "no request can run: one of them does not fit the cache alone".into();
        return Err(Error::CacheFull { detail });
    }
    Ok(Some(d))
}

/// Every decoding request, in order of admission, gets a page for its row if it needs one; where there is none, requests are
/// preempted from the end.
fn room_for_decoding(s: &mut Scheduler, kv: &mut KvTables, d: &mut Decision) -> Result<()> {
    for request in s.running.clone() {
        while let Some(Entry { state: State::Running(slot), fed, .. }) = s.entries.get(&request).filter(|e| e.decodes())
        {
            let (slot, positions) = (*slot, fed + 1);
            if kv.has_room(slot, positions) {
                kv.reserve(slot, positions)?;
                break;
            }
            preempt(s, kv, d)?;
        }
    }
    Ok(())
}

/// Preempts the running request of lowest priority that was admitted last.
fn preempt(s: &mut Scheduler, kv: &mut KvTables, d: &mut Decision) -> Result<()> {
    let place = |(at, r): &(usize, &RequestKey)| (Reverse(s.entries[*r].arrival.priority), *at);
    let Some((_, victim)) = s.running.iter().enumerate().max_by_key(place) else { return Ok(()) };
    let request = *victim;
    s.running.retain(|r| *r != request);
    let Some(entry) = s.entries.get_mut(&request) else { return Ok(()) };
    let State::Running(slot) = entry.state else { return Ok(()) };
    entry.preempted = true;
    let held: Vec<u32> = kv.pages(slot)?[..kv.len(slot)?.div_ceil(crate::kernels::PAGE) as usize].to_vec();
    let pages = held.len() as u32;
    let how = if pages > 0 && s.swapped_pages + pages <= s.settings.swap_pages {
        s.swapped_pages += pages;
        entry.state = State::Swapped { pages };
        d.copies.push(Copy::Out { request, pages: held });
        Preemption::Swap
    } else {
        entry.state = State::Waiting;
        entry.fed = 0;
        entry.clean = 0;
        Preemption::Recompute
    };
    d.events.push(Event::Preempt { request, how });
    kv.close(slot)
}

/// The request that is next to get a slot: highest priority, then those that lost theirs, then the client that was served least, then who
/// came first.
fn first_waiting(s: &Scheduler) -> Option<RequestKey> {
    let waiting = s.entries.iter().filter(|(_, e)| !matches!(e.state, State::Running(_)));
    let rank = |(request, e): &(&RequestKey, &Entry)| {
        let served = s.served.get(&e.arrival.client).copied().unwrap_or(0);
        (Reverse(e.arrival.priority), !e.preempted, if e.preempted { 0 } else { served }, **request)
    };
    waiting.min_by_key(rank).map(|(request, _)| *request)
}

/// Gives a request a slot with pages for all its tokens and one more; false if there is no room.
fn admit(s: &mut Scheduler, request: RequestKey, kv: &mut KvTables, d: &mut Decision) -> Result<bool> {
    let share = s.settings.prefix_cache;
    let Some(entry) = s.entries.get_mut(&request) else { return Ok(false) };
    // The last token of all is never fed back, so a request never needs more than this.
    let most = (entry.arrival.prompt.len() as u32).saturating_add(entry.arrival.max_new_tokens).saturating_sub(1);
    let positions = (entry.tokens.len() as u32 + 1).min(most);
    let wanted = positions.div_ceil(crate::kernels::PAGE);
    let swapped = match entry.state {
        State::Swapped { pages } => Some(pages),
        _ => None,
    };
    // Adopted positions would have no logits.
    let computes_all = swapped.is_some() || entry.arrival.prompt_logits;
    let hits = if share && !computes_all { kv.cached(entry.adoptable()) } else { 0 };
    let names = &entry.adoptable()[..hits as usize];
    if kv.open_slots() == 0 || wanted - hits + kv.cached_idle(names) > kv.available() {
        return Ok(false);
    }
    let slot = kv.open()?;
    if let Some(pages) = swapped {
        kv.reserve(slot, positions)?;
        kv.extend(slot, entry.fed)?;
        d.copies.push(Copy::In { request, pages: kv.pages(slot)?[..pages as usize].to_vec() });
        d.events.push(Event::Resume { request });
        s.swapped_pages -= pages;
    } else {
        let cached = kv.adopt(slot, names)?;
        entry.fed = hits * crate::kernels::PAGE;
        // Where not everything is shared, shared pages are clean.
        entry.clean = entry.fed;
        kv.reserve(slot, positions)?;
        d.events.push(Event::Admit { request, cached });
    }
    entry.state = State::Running(slot);
    s.running.push(request);
    Ok(true)
}

/// How many tokens of a request that is not decoding go into this step; takes them out of `rows`.
fn prefill(s: &Scheduler, entry: &Entry, rows: &mut u32) -> u32 {
    let take = entry.left().min(s.settings.chunk.unwrap_or(u32::MAX)).min(*rows);
    *rows -= take;
    take
}

fn turn(s: &Scheduler, request: RequestKey, take: u32, d: &mut Decision) {
    let entry = &s.entries[&request];
    let State::Running(slot) = entry.state else { return };
    if take == 0 {
        return;
    }
    let chooses = take == entry.left();
    // Once a token was chosen, every row of the prompt has had its logits.
    let prompt = entry.arrival.prompt_logits && entry.tokens.len() == entry.arrival.prompt.len();
    d.turns.push(Turn {
        request,
        slot,
        start: entry.fed,
        tokens: entry.tokens[entry.fed as usize..][..take as usize].to_vec(),
        logits: match (prompt, chooses) {
            (true, _) => Logits::All,
            (false, true) => Logits::Last,
            (false, false) => Logits::None,
        },
        chooses,
        kind: if entry.decodes() { Kind::Decode } else { Kind::Prefill },
    });
}
