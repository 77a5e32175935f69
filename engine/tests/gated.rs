//! Mode `gated` on the embedded model: the tests of the specification's list that need an engine.

mod common;

use std::collections::BTreeMap;

use common::{Golden, kjv, prefill};
use engine::batch::{Finish, Operator, OperatorError, Outcome, Request, StepLog};
use engine::device::EmulatedDevice;
use engine::gated::{Judged, Prefill, Setup, Signal};
use engine::sampler::{Adjust, Sampling, Seeded};
use engine::scheduler::{Event, Kind, Preemption, RequestKey, Settings};
use engine::session::Session;
use engine::step::{Observe, Row};
use engine::{Engine, Error, Limits, Mode};
use margingate::{Margin, WriteBack};
use record::inference::RowGate;

const LIMITS: Limits = Limits { slots: 20, pages: 400, max_rows: 256 };

fn device() -> Box<EmulatedDevice> {
    Box::new(EmulatedDevice::new("sm_90").unwrap())
}

fn ungated(mode: Mode, limits: Limits) -> Engine {
    Engine::new(kjv(), device(), mode, limits).unwrap()
}

fn gated(setup: Setup, limits: Limits) -> Engine {
    ungated(Mode::Gated, limits).with_gate(setup).unwrap()
}

/// Chosen generously: the suite tests the mechanism, calibration has tests of its own.
const TAU: f32 = 0.5;

fn setup(tau: f32, write_back: WriteBack) -> Setup {
    Setup::chosen(margingate::Settings { write_back, verify_rows: 4, patience: 3, ..margingate::Settings::new(tau) })
}

/// What a step left, without the step's own place.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    events: Vec<Event>,
    rows: Vec<(RequestKey, Kind, Row)>,
    emitted: Vec<Option<u32>>,
    gate: Vec<Option<RowGate>>,
    padded: u32,
}

/// Watches, and interferes where a test says so.
#[derive(Default)]
struct Watch {
    seen: Vec<Seen>,
    /// Tokens that the fast step is made to choose, by request and position, at a low margin.
    injected: BTreeMap<(RequestKey, u32), u32>,
    /// Every tenth position is made to choose a wrong token, and of middling risk.
    confident: bool,
}

impl Operator for Watch {
    fn judge(&mut self, request: RequestKey, position: u32, judged: Judged) -> Judged {
        if self.confident && position.is_multiple_of(10) {
            return Judged { token: judged.token ^ 1, risk: Margin::new(2.0) };
        }
        match self.injected.get(&(request, position)) {
            Some(token) => Judged { token: *token, risk: Margin::new(0.0) },
            None => judged,
        }
    }

    fn step(&mut self, step: &StepLog<'_>) -> Result<(), OperatorError> {
        let whose = |row: &Row| (step.turns[row.group].request, step.turns[row.group].kind);
        self.seen.push(Seen {
            events: step.events.to_vec(),
            rows: step.output.rows.iter().map(|r| (whose(r).0, whose(r).1, r.clone())).collect(),
            emitted: step.emitted.to_vec(),
            gate: step.gate.to_vec(),
            padded: step.padded_rows,
        });
        Ok(())
    }
}

impl Watch {
    fn verified(&self) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(|s| s.rows.iter().any(|r| r.1 == Kind::Verify))
    }
}

/// Serves requests of which `together` are in flight; the others come as those end.
fn serve(
    engine: &mut Engine,
    requests: &[Request],
    together: usize,
    settings: Settings,
    watch: &mut Watch,
) -> Vec<Outcome> {
    let mut session = Session::new(engine, settings, Observe::STATE).unwrap();
    let (mut waiting, mut outcomes) = (requests.iter(), BTreeMap::new());
    let mut flying = 0;
    loop {
        while flying < together {
            let Some(request) = waiting.next() else { break };
            session.submit(request.clone()).unwrap();
            flying += 1;
        }
        match session.step(watch).unwrap() {
            None => break,
            Some(progress) => {
                flying -= progress.ended.len();
                outcomes.extend(progress.ended);
            }
        }
    }
    outcomes.into_values().collect()
}

fn prompts(count: u32) -> Vec<Request> {
    let text = Golden::kjv().prompt;
    (0..count)
        .map(|i| {
            let length = 3 + (5 * i as usize) % (text.len() - 3);
            let prompt: Vec<u32> = text[..length].iter().chain(&[100 + i]).copied().collect();
            Request::new(prompt, 24)
        })
        .collect()
}

fn alone(requests: &[Request]) -> Vec<Outcome> {
    let mut engine = ungated(Mode::Invariant, LIMITS);
    serve(&mut engine, requests, 1, Settings::plain(256), &mut Watch::default())
}

/// Where verifications read the reference's columns only, tokens are its tokens whatever the batch, its size and its order. Policies that repair less leave
/// near-exact ties to columns of a batch: fewer sequences part from the reference than without a gate, and how few is what the benchmark counts.
#[test]
fn tokens_do_not_depend_on_the_batch() {
    let requests = prompts(64);
    let expected = alone(&requests);
    let limits = Limits { slots: 64, pages: 512, max_rows: 256 };
    let (mut plain, mut sparse) = (0, 0);
    for (n, together) in [1usize, 2, 3, 4, 5, 8, 9, 16, 17, 32, 44, 45, 64].into_iter().enumerate() {
        // Another order each time, and of small batches fewer requests: a batch of one is as it is for eight.
        let count = together.max(8);
        let picked: Vec<usize> = (0..count).map(|i| (i * 37 + n * 5) % 64).collect();
        let order: Vec<Request> = picked.iter().map(|i| requests[*i].clone()).collect();
        let wanted: Vec<Outcome> = picked.iter().map(|i| expected[*i].clone()).collect();
        let parted = |found: &[Outcome]| found.iter().zip(&wanted).filter(|(a, b)| a != b).count();
        let mut throughput = ungated(Mode::Throughput, limits);
        plain += parted(&serve(&mut throughput, &order, together, Settings::plain(256), &mut Watch::default()));
        let settings = Settings { chunk: [None, Some(4)][n / 2 % 2], ..Settings::plain(256) };
        for write_back in [WriteBack::All, WriteBack::CatchUp, [WriteBack::Mismatch, WriteBack::Trigger][n % 2]] {
            let mut watch = Watch::default();
            let found = serve(&mut gated(setup(TAU, write_back), limits), &order, together, settings, &mut watch);
            assert!(watch.verified().all(|s| s.padded == (s.rows.len() as u32).next_multiple_of(4)));
            assert!(watch.verified().all(|s| s.gate.len() <= 4 && s.events.is_empty()));
            // Of more than 32 rows nothing is split: there is nothing to verify.
            assert!(together > 32 || watch.verified().count() > 0);
            match write_back {
                WriteBack::All | WriteBack::CatchUp => assert_eq!(found, wanted, "{together} together, {write_back:?}"),
                _ => sparse += parted(&found),
            }
        }
    }
    assert!(plain > 0 && sparse < plain, "{plain} sequences part without a gate, {sparse} with a sparse one");
}

#[test]
fn restarts_repeat_every_bit() {
    let requests = prompts(6);
    let run = || {
        let mut watch = Watch::default();
        let mut s = setup(TAU, WriteBack::Mismatch);
        s.settings.probe_every = 3;
        let out = serve(&mut gated(s, LIMITS), &requests, 5, Settings::plain(256), &mut watch);
        (out, watch.seen)
    };
    assert_eq!(run(), run());
}

/// A threshold of 0 with prompts left alone is plain `throughput`, bit for bit.
#[test]
fn a_threshold_of_zero_is_plain() {
    let requests = prompts(7);
    let (mut a, mut b) = (Watch::default(), Watch::default());
    let zero = Setup { prefill: Prefill::Throughput, ..setup(0.0, WriteBack::Mismatch) };
    let found = serve(&mut gated(zero, LIMITS), &requests, 5, Settings::plain(256), &mut a);
    let plain = serve(&mut ungated(Mode::Throughput, LIMITS), &requests, 5, Settings::plain(256), &mut b);
    assert_eq!(found, plain);
    assert_eq!(a.seen.len(), b.seen.len());
    for (x, y) in a.seen.iter().zip(&b.seen) {
        assert!((&x.rows, &x.emitted, x.padded) == (&y.rows, &y.emitted, y.padded));
        assert!(x.gate.iter().all(|g| matches!(g, Some(RowGate::Commit { .. } | RowGate::Reference { .. }))));
    }
}

/// An infinite threshold is always-on verification, bit for bit; and that has the state of `invariant` at every step.
#[test]
fn an_infinite_threshold_is_always_on_and_has_the_state_of_invariant() {
    let requests = prompts(5);
    let run = |tau, write_back| {
        let mut watch = Watch::default();
        let out = serve(&mut gated(setup(tau, write_back), LIMITS), &requests, 4, Settings::plain(256), &mut watch);
        (out, watch.seen)
    };
    let always = run(0.25, WriteBack::All);
    assert_eq!(run(f32::INFINITY, WriteBack::Trigger), always);
    assert_eq!(run(f32::INFINITY, WriteBack::CatchUp), always, "there is nothing to catch up");
    assert_eq!(always.0, alone(&requests));
    let mut lone = ungated(Mode::Invariant, LIMITS);
    for (key, (request, outcome)) in (0..).zip(requests.iter().zip(&always.0)) {
        let tokens = [&request.prompt[..], &outcome.output].concat();
        let rows = prefill(&mut lone, &tokens, Observe::STATE).rows;
        let own = always.1.iter().flat_map(|s| &s.rows).filter(|r| r.0 == key && r.1 != Kind::Decode);
        let mut count = 0;
        for (_, _, row) in own {
            let same = &rows[row.position as usize];
            assert_eq!((&row.k, &row.v, &row.boundaries), (&same.k, &same.v, &same.boundaries), "{}", row.position);
            assert!(row.logits.is_none() || row.logits == same.logits);
            count += 1;
        }
        assert_eq!(count, tokens.len() - 1, "every position was prefilled or verified once");
    }
}

/// What the fast step got wrong never shows: at the first token after the prompt, at a stop token, inside and before a stop string, within a character.
#[test]
fn injected_flips_never_show() {
    let mut requests = prompts(4);
    let reference = alone(&requests);
    // The fourth token of request 1 is its stop token; request 2 ends by the text of its fifth.
    requests[1].stop = vec![reference[1].output[3]];
    let tokenizer = &kjv().tokenizer;
    requests[2].stop_strings = vec![tokenizer.decode(&reference[2].output[3..5]).unwrap()];
    let expected = alone(&requests);
    assert_eq!((expected[1].finish, expected[2].finish), (Finish::Stop, Finish::Stop));
    let stop = requests[1].stop[0];
    // Byte tokens are pieces of characters: what is made of one alone is no whole character.
    let piece = (0..kjv().config.vocab_size).find(|t| tokenizer.decode(&[*t]).unwrap().contains('\u{fffd}')).unwrap();
    for write_back in [WriteBack::Mismatch, WriteBack::Trigger, WriteBack::CatchUp] {
        let at = |r: usize, n: u32| (r as RequestKey, requests[r].prompt.len() as u32 + n);
        let mut watch = Watch {
            injected: BTreeMap::from([
                (at(0, 1), stop),
                (at(0, 2), piece),
                (at(1, 1), stop),
                (at(1, 3), 7),
                (at(2, 2), 9),
                (at(2, 4), piece),
                (at(3, 1), 11),
            ]),
            ..Watch::default()
        };
        let found = serve(&mut gated(setup(1e-6, write_back), LIMITS), &requests, 4, Settings::plain(256), &mut watch);
        for (f, e) in found.iter().zip(&expected) {
            assert_eq!(f.finish, e.finish);
        }
        // Only injected rows were verified, so a true flip may remain; up to the injected places the tokens are the reference's.
        assert_eq!(found[1].output, expected[1].output);
        assert_eq!(found[2].output, expected[2].output);
        let wrong = watch
            .verified()
            .flat_map(|s| &s.gate)
            .filter(|g| matches!(g, Some(RowGate::Verified { repaired: true, .. })));
        assert!(wrong.count() >= 5);
        assert!(watch.verified().any(|s| s.rows.len() > 1), "several triggers share a batch");
    }
}

#[test]
fn the_first_token_is_the_references_and_needs_no_verification() {
    let requests = prompts(3);
    let mut watch = Watch::default();
    serve(&mut gated(setup(TAU, WriteBack::Mismatch), LIMITS), &requests, 3, Settings::plain(256), &mut watch);
    let mut prefills = 0;
    for step in &watch.seen {
        let mixed = step.rows.iter().any(|r| r.1 == Kind::Prefill);
        for gate in step.gate.iter().flatten() {
            assert_eq!(mixed, matches!(gate, RowGate::Reference { .. }), "three rows alone are split: {gate:?}");
        }
        prefills += u32::from(mixed);
    }
    assert!(prefills > 0);
    // Left to `throughput`, the first token is gated like any other.
    let setup = Setup { prefill: Prefill::Throughput, ..setup(f32::INFINITY, WriteBack::Trigger) };
    let mut watch = Watch::default();
    serve(&mut gated(setup, LIMITS), &requests, 3, Settings::plain(256), &mut watch);
    assert!(watch.seen[0].gate.iter().all(|g| matches!(g, Some(RowGate::Hold { .. }))));
}

/// The very first token is wrong in the fast step: with prompts left to `throughput` it is gated, and catching up makes the prompt's columns the reference's.
#[test]
fn a_flip_at_the_first_token_is_caught() {
    let requests = prompts(4);
    let expected = alone(&requests);
    let first = |r: usize| ((r as RequestKey, requests[r].prompt.len() as u32), expected[r].output[0] ^ 1);
    let mut watch = Watch { injected: (0..4).map(first).collect(), ..Watch::default() };
    let left = Setup { prefill: Prefill::Throughput, ..setup(TAU, WriteBack::CatchUp) };
    let found = serve(&mut gated(left, LIMITS), &requests, 4, Settings::plain(256), &mut watch);
    assert_eq!(found, expected);
    let replaced = |s: &&Seen| s.rows.iter().any(|r| r.1 == Kind::Verify && r.2.position == 0);
    assert!(watch.seen.iter().find(replaced).is_some(), "verified from the prompt's first column on");
}

/// Synthetic mismatches from 0 to 100 %: whatever the share, the tokens are the reference's, and every wrong token is counted.
#[test]
fn injected_mismatches_of_any_share_leave_the_tokens_alone() {
    let requests = prompts(6);
    let expected = alone(&requests);
    let (mut rates, mut batches) = (Vec::new(), Vec::new());
    for share in [0u32, 5, 20, 50, 100] {
        let places = (0..).zip(&requests).flat_map(|(key, r)| (1..24).map(move |n| (key, r.prompt.len() as u32 + n)));
        let hit = |(key, at): &(RequestKey, u32)| margingate::gate::mix(7, *key, *at) % 100 < u64::from(share);
        let injected = places.filter(hit).map(|place| (place, 1023)).collect();
        let mut watch = Watch { injected, ..Watch::default() };
        let mut engine = gated(setup(TAU, WriteBack::CatchUp), LIMITS);
        let mut session = Session::new(&mut engine, Settings::plain(256), Observe::TOKENS).unwrap();
        for request in &requests {
            session.submit(request.clone()).unwrap();
        }
        let mut outcomes = BTreeMap::new();
        let mut meter = margingate::gate::Meter::default();
        while let Some(progress) = session.step(&mut watch).unwrap() {
            outcomes.extend(progress.ended);
            meter = session.gate().unwrap().1;
        }
        assert_eq!(outcomes.into_values().collect::<Vec<_>>(), expected, "{share} %");
        assert!(meter.mismatches >= watch.injected.len() as u64 * 9 / 10, "{share} %: {meter:?}");
        assert!(meter.rows <= meter.judged, "every column is computed again at most once: {meter:?}");
        rates.push(meter.triggered as f64 / meter.judged as f64);
        batches.push(meter.batches);
    }
    assert!(rates.is_sorted() && rates[0] < 0.5 && rates[4] == 1.0, "{rates:?}");
    assert!(batches.is_sorted(), "{batches:?}");
}

/// Two tokens with the same row in the LM head tie exactly: the lowest id wins, in fast steps, in verifications and alone.
#[test]
fn exact_ties_fall_to_the_lowest_id_everywhere() {
    let requests = prompts(5);
    let plain = alone(&requests);
    // A token that the reference likes to choose, and a lower one that becomes its twin.
    let twin = plain.iter().flat_map(|o| &o.output).copied().find(|t| *t > 300).unwrap();
    let low = twin - 200;
    let mut model = engine::Model::clone(&kjv());
    let head = model.weights.lm_head.get_or_insert_with(|| model.weights.embed.clone());
    let row = head.row(twin).to_vec();
    head.row_mut(low).copy_from_slice(&row);
    let model = std::sync::Arc::new(model);
    let new = |mode| Engine::new(model.clone(), device(), mode, LIMITS).unwrap();
    let mut lone = new(Mode::Invariant);
    let expected = serve(&mut lone, &requests, 1, Settings::plain(256), &mut Watch::default());
    assert!(expected.iter().any(|o| o.output.contains(&low)) && expected.iter().all(|o| !o.output.contains(&twin)));
    let mut watch = Watch::default();
    let mut engine = new(Mode::Gated).with_gate(setup(1e-30, WriteBack::CatchUp)).unwrap();
    let found = serve(&mut engine, &requests, 5, Settings::plain(256), &mut watch);
    assert!(found.iter().all(|o| !o.output.contains(&twin)));
    let ties = watch
        .seen
        .iter()
        .flat_map(|s| &s.gate)
        .filter(|g| matches!(g, Some(RowGate::Hold { margin, .. }) if margin.0 == 0));
    assert!(ties.count() > 0, "a tie has no margin, so the reference decides it");
}

/// Tensor-parallel ranks: a verification repeats their sums, and every rank's columns are repaired.
#[test]
fn ranks_are_verified_and_repaired() {
    let requests = prompts(7);
    let parallel = |mode, limits| Engine::parallel(kjv(), device(), mode, limits, 2).unwrap();
    let mut lone = parallel(Mode::Invariant, LIMITS);
    let expected = serve(&mut lone, &requests, 1, Settings::plain(256), &mut Watch::default());
    for write_back in [WriteBack::All, WriteBack::CatchUp] {
        let mut engine = parallel(Mode::Gated, LIMITS).with_gate(setup(TAU, write_back)).unwrap();
        let mut watch = Watch::default();
        let found = serve(&mut engine, &requests, 6, Settings::plain(256), &mut watch);
        assert_eq!(found, expected, "{write_back:?}");
        for (key, (request, outcome)) in (0..).zip(requests.iter().zip(&found)) {
            let tokens = [&request.prompt[..], &outcome.output].concat();
            let rows = prefill(&mut parallel(Mode::Invariant, LIMITS), &tokens, Observe::STATE).rows;
            let verified = watch.verified().flat_map(|s| &s.rows).filter(|r| r.0 == key);
            for (_, _, row) in verified {
                let same = &rows[row.position as usize];
                assert_eq!((&row.k, &row.v, &row.boundaries), (&same.k, &same.v, &same.boundaries));
                assert!(row.logits.is_none() || row.logits == same.logits);
            }
        }
        assert!(watch.verified().count() > 0);
    }
}

/// More columns to catch up than a step has rows: they come in several steps, and the last one decides.
#[test]
fn long_lags_are_caught_up_in_parts() {
    let requests: Vec<Request> = prompts(3).into_iter().map(|r| Request { max_new_tokens: 60, ..r }).collect();
    let expected = alone(&requests);
    let small = Limits { slots: 3, pages: 60, max_rows: 12 };
    // Nothing is at risk but the 50th token of each.
    let places = (0..).zip(&requests).map(|(key, r)| ((key, r.prompt.len() as u32 + 50), 7));
    let mut watch = Watch { injected: places.collect(), ..Watch::default() };
    let settings = Settings { chunk: Some(6), ..Settings::plain(12) };
    let found = serve(&mut gated(setup(1e-30, WriteBack::CatchUp), small), &requests, 3, settings, &mut watch);
    let parts = watch.verified().filter(|s| s.gate == [None] && s.emitted == [None]).count();
    assert!(parts >= 3 * 4, "{parts}");
    assert!(watch.seen.iter().all(|s| s.rows.len() <= 12));
    for (f, e) in found.iter().zip(&expected) {
        // Nothing else was verified, so a flip may come before; where none did, the wrong token never shows.
        let agree = f.output.iter().zip(&e.output).take_while(|(a, b)| a == b).count();
        assert!(agree < 50 || f.output[50] == e.output[50]);
    }
}

/// A neighbour's prompt comes in chunks while rows are held; decode rows of such steps run by the reference.
#[test]
fn a_neighbours_chunked_prefill_changes_nothing() {
    let mut requests = prompts(3);
    requests[2].prompt = (0..90).map(|i| (i * 31 + 5) % 1000).collect();
    let expected = alone(&requests);
    let settings = Settings { chunk: Some(7), ..Settings::plain(256) };
    let mut watch = Watch::default();
    let found = serve(&mut gated(setup(TAU, WriteBack::CatchUp), LIMITS), &requests, 3, settings, &mut watch);
    assert_eq!(found, expected);
    let mixed = |s: &Seen| {
        let has = |kind| s.rows.iter().any(|r| r.1 == kind);
        has(Kind::Decode) && has(Kind::Prefill)
    };
    assert!(watch.seen.iter().any(mixed));
    // The reference's kernels over columns of a batch are not the reference: such rows are judged like others. Here the neighbours come later.
    requests.rotate_right(1);
    let expected = alone(&requests);
    let late = |r: Request| Request { max_new_tokens: 40, ..r };
    let many: Vec<Request> = requests.iter().cloned().chain(prompts(6)).map(late).collect();
    let mut watch = Watch::default();
    let found = serve(&mut gated(setup(TAU, WriteBack::CatchUp), LIMITS), &many, 3, settings, &mut watch);
    assert_eq!(found, alone(&many));
    assert_eq!(found[0].output[..24], expected[0].output[..]);
    let held = |s: &Seen| mixed(s) && s.gate.iter().any(|g| matches!(g, Some(RowGate::Hold { .. })));
    assert!(watch.seen.iter().any(held), "a trigger while a neighbour's prompt comes in chunks");
}

#[test]
fn preempted_and_resumed_requests_keep_their_tokens() {
    let small = Limits { slots: 3, pages: 10, max_rows: 48 };
    let text: Vec<u32> = (0..33).map(|i| (7 * i) % 1024).collect();
    let requests: Vec<Request> = (0..4).map(|i| Request::new([&text[..], &[i]].concat(), 40)).collect();
    let expected = alone(&requests);
    for (swap_pages, how) in [(0, Preemption::Recompute), (4, Preemption::Swap)] {
        for prefix_cache in [false, true] {
            let settings = Settings { swap_pages, prefix_cache, ..Settings::plain(48) };
            for write_back in [WriteBack::All, WriteBack::CatchUp] {
                let mut watch = Watch::default();
                let found = serve(&mut gated(setup(TAU, write_back), small), &requests, 4, settings, &mut watch);
                assert_eq!(found, expected, "{how:?} {prefix_cache} {write_back:?}");
                let events = || watch.seen.iter().flat_map(|s| &s.events);
                assert!(events().any(|e| matches!(e, Event::Preempt { how: h, .. } if *h == how)));
            }
        }
    }
}

/// Pages that the second request begins with.
fn adopted_by_second(event: &Event) -> u32 {
    match event {
        Event::Admit { request: 1, cached } => cached.iter().map(|c| c.pages).sum(),
        _ => 0,
    }
}

/// Columns that decode steps left are provisional: a request adopts prompt pages, never pages that another's decode steps filled.
#[test]
fn provisional_columns_are_not_shared() {
    let prompt: Vec<u32> = (0..32).map(|i| (11 * i) % 1000).collect();
    let first = Request::new(prompt.clone(), 40);
    let settings = Settings { prefix_cache: true, ..Settings::plain(256) };
    let mut throughput = ungated(Mode::Throughput, LIMITS);
    let came = serve(&mut throughput, std::slice::from_ref(&first), 1, settings, &mut Watch::default());
    // The second prompt is the first with everything that came of it.
    let second = Request::new([&prompt[..], &came[0].output].concat(), 4);
    let adopted = |mode: Option<Setup>| {
        let mut engine = mode.map_or_else(|| ungated(Mode::Throughput, LIMITS), |s| gated(s, LIMITS));
        let mut watch = Watch::default();
        serve(&mut engine, &[first.clone(), second.clone()], 1, settings, &mut watch);
        watch.seen.iter().flat_map(|s| &s.events).map(adopted_by_second).sum::<u32>()
    };
    assert!(adopted(None) >= 4, "throughput shares what decode steps left");
    assert_eq!(adopted(Some(setup(TAU, WriteBack::Mismatch))), 2);
    assert_eq!(adopted(Some(Setup { prefill: Prefill::Throughput, ..setup(TAU, WriteBack::Mismatch) })), 0);
    // Once caught up, columns are the reference's, whoever computed them: they are shared, and nobody sees the difference.
    let came = alone(std::slice::from_ref(&first));
    let second = Request::new([&prompt[..], &came[0].output].concat(), 4);
    let both = [first.clone(), second];
    let expected = alone(&both);
    for (tau, least) in [(TAU, 3), (f32::INFINITY, 4)] {
        let mut watch = Watch::default();
        let mut engine = gated(setup(tau, WriteBack::CatchUp), LIMITS);
        assert_eq!(serve(&mut engine, &both, 1, settings, &mut watch), expected, "{tau}");
        let pages: u32 = watch.seen.iter().flat_map(|s| &s.events).map(adopted_by_second).sum();
        assert!(pages >= least, "{tau}: {pages}");
    }
}

/// Steps of so many rows that nothing is split are the reference's: nothing is verified, and every bit is that of `invariant`.
#[test]
fn large_steps_are_the_references_already() {
    let requests = prompts(40);
    let limits = Limits { slots: 40, pages: 320, max_rows: 512 };
    let mut watch = Watch::default();
    let mut engine = gated(setup(f32::INFINITY, WriteBack::CatchUp), limits);
    let found = serve(&mut engine, &requests, 40, Settings::plain(512), &mut watch);
    assert_eq!(found, alone(&requests));
    assert_eq!(watch.verified().count(), 0);
    assert!(watch.seen.iter().flat_map(|s| &s.gate).all(|g| matches!(g, Some(RowGate::Reference { .. }))));
}

#[test]
fn a_request_cancelled_while_its_row_waits_leaves() {
    let requests = prompts(3);
    let mut engine = gated(setup(f32::INFINITY, WriteBack::Trigger), LIMITS);
    let mut watch = Watch::default();
    let mut session = Session::new(&mut engine, Settings::plain(256), Observe::STATE).unwrap();
    for request in &requests {
        session.submit(request.clone()).unwrap();
    }
    let (mut outcomes, mut cancelled) = (BTreeMap::new(), false);
    while let Some(progress) = session.step(&mut watch).unwrap() {
        let held = watch.seen.last().is_some_and(|s| s.gate.iter().flatten().any(RowGate::waits));
        if held && !cancelled {
            assert!(progress.chosen.is_empty(), "no token before its decision");
            cancelled = session.cancel(1);
        }
        outcomes.extend(progress.ended);
    }
    assert!(cancelled);
    assert_eq!(outcomes[&1].finish, Finish::Cancelled);
    let expected = alone(&requests);
    assert_eq!((&outcomes[&0], &outcomes[&2]), (&expected[0], &expected[2]));
}

#[test]
fn seeded_sampling_is_gated_too() {
    let mut requests = prompts(6);
    for (i, r) in requests.iter_mut().enumerate() {
        let seeded = Seeded {
            temperature: 0.8,
            top_k: [None, Some(20)][i % 2],
            top_p: [None, Some(0.9)][i / 2 % 2],
            min_p: [None, Some(0.05)][i / 4 % 2],
            seed: i as u64,
        };
        r.sampling = Sampling::Seeded(seeded);
    }
    let expected = alone(&requests);
    let mut watch = Watch::default();
    let found =
        serve(&mut gated(setup(TAU, WriteBack::CatchUp), LIMITS), &requests, 5, Settings::plain(256), &mut watch);
    assert_eq!(found, expected);
    assert!(watch.verified().count() > 0);
}

#[test]
fn probes_verify_rows_of_high_margin() {
    let mut s = setup(0.0, WriteBack::Mismatch);
    s.settings.probe_every = 2;
    let requests = prompts(4);
    let mut engine = gated(s, LIMITS);
    let mut watch = Watch::default();
    let mut session = Session::new(&mut engine, Settings::plain(256), Observe::STATE).unwrap();
    for r in &requests {
        session.submit(r.clone()).unwrap();
    }
    // A fast step that chose a wrong token with confidence: the probe that happens on it is a miss. (Of two rows, one is probed.)
    watch.confident = true;
    let mut marked = Vec::new();
    while let Some(progress) = session.step(&mut watch).unwrap() {
        marked.extend(progress.unverified);
    }
    let (tau, meter) = session.gate().unwrap();
    assert!(meter.probes > 10 && meter.misses > 0 && tau > 0.0);
    assert!(
        !marked.is_empty() && marked.iter().all(|key| *key < 4),
        "requests that went on with such tokens are marked"
    );
}

#[test]
fn signals_and_risks_agree_with_the_logits() {
    let model = kjv();
    let out = prefill(&mut ungated(Mode::Throughput, LIMITS), &Golden::kjv().prompt, Observe::STATE);
    for row in &out.rows {
        let logits = row.logits.as_ref().unwrap();
        for signal in Signal::ALL {
            let from_top2 = engine::gated::risk(&model, signal, &Sampling::Greedy, row).unwrap();
            let from_logits = Sampling::Greedy.risk(&model, signal, logits, row.position + 1).unwrap();
            assert_eq!(from_top2.bits(), from_logits.bits());
        }
    }
    assert_eq!(engine::gated::head_row_distance(&model, 5, 5), 0.0);
}

#[test]
fn what_a_gate_does_not_judge_is_refused() {
    let mut engine = gated(setup(TAU, WriteBack::All), LIMITS);
    let mut session = Session::new(&mut engine, Settings::plain(256), Observe::TOKENS).unwrap();
    let plain = Request::new(vec![1, 2, 3], 2);
    let cases = [
        ("penalties", Request { adjust: Adjust { presence: 0.5, ..Adjust::default() }, ..plain.clone() }),
        ("penalties", Request { adjust: Adjust { bias: vec![(3, 1.0)], ..Adjust::default() }, ..plain.clone() }),
        ("prompts", Request { prompt_logprobs: true, ..plain.clone() }),
    ];
    for (words, request) in cases {
        let refused = session.submit(request).unwrap_err();
        assert!(matches!(refused, Error::Request { .. }) && refused.to_string().contains(words), "{refused}");
    }
    session.submit(plain).unwrap();
}

#[test]
fn a_gate_is_wanted_and_bound_to_model_and_stack() {
    let mut engine = ungated(Mode::Gated, LIMITS);
    assert!(matches!(Session::new(&mut engine, Settings::plain(256), Observe::TOKENS), Err(Error::Plan { .. })));
    let binding = engine.binding().unwrap();
    let calibrated = |binding| engine::gated::Calibrated { document: record::Digest::of_file(b"x"), binding };
    let with = |binding| Setup { calibrated: Some(calibrated(binding)), ..setup(TAU, WriteBack::Mismatch) };
    let engine = engine.with_gate(with(binding.clone())).unwrap();
    // The gate, the scheduler and the limits are no part of the stack that a calibration belongs to.
    assert_eq!(engine.binding().unwrap(), binding);
    assert_eq!(ungated(Mode::Gated, Limits { slots: 2, ..LIMITS }).binding().unwrap(), binding);
    let other = Engine::new(kjv(), Box::new(EmulatedDevice::new("sm_80").unwrap()), Mode::Gated, LIMITS).unwrap();
    let refused = other.with_gate(with(binding)).err().unwrap();
    assert!(matches!(refused, Error::Gate(_)) && refused.to_string().contains("stack"), "{refused}");
    assert!(ungated(Mode::Throughput, LIMITS).with_gate(setup(TAU, WriteBack::Mismatch)).is_err());
}
