//! Batches, chunks, stops and failures of generation.

mod common;

use common::{Golden, engine, kjv};
use engine::batch::{BatchOptions, Finish, NoLog, Operator, OperatorError, Request, StepLog, generate};
use engine::policy::Shape;
use engine::sampler::{Choice, Sampling, Seeded};
use engine::scheduler::{Kind, RequestKey};
use engine::step::Observe;
use engine::{Dispatch, Error, Limits, Mode};

fn request(prompt: &[u32], max_new_tokens: u32) -> Request {
    Request::new(prompt.to_vec(), max_new_tokens)
}

/// Counts rows and checks what every step says about itself.
#[derive(Default)]
struct Watch {
    steps: u64,
    rows: usize,
    prefill_groups: usize,
    fail_at: Option<u64>,
    split: Option<Dispatch>,
    swap_first: bool,
}

impl Operator for Watch {
    fn dispatch(&mut self, _: Shape, policy: Dispatch) -> Dispatch {
        self.split.unwrap_or(policy)
    }

    fn emit(&mut self, _: RequestKey, _: u32, choice: Choice) -> u32 {
        if std::mem::take(&mut self.swap_first) { choice.runner_up.unwrap() } else { choice.token }
    }

    fn step(&mut self, step: &StepLog<'_>) -> Result<(), OperatorError> {
        assert_eq!(step.index, self.steps);
        assert_eq!(step.plan.groups.len(), step.turns.len());
        self.steps += 1;
        self.rows += step.output.rows.len();
        self.prefill_groups += step.turns.iter().filter(|t| t.kind == Kind::Prefill).count();
        if self.fail_at == Some(step.index) { Err("disk full".into()) } else { Ok(()) }
    }
}

#[test]
fn invariant_output_is_the_same_in_any_batch_and_chunking() {
    let golden = Golden::kjv();
    let requests = [request(&golden.prompt, 12), request(&golden.prompt[..3], 5), request(&[40, 41, 42, 43], 9)];
    let mut engine = engine(&kjv(), Mode::Invariant);
    let whole = generate(&mut engine, &requests, &BatchOptions::default(), &mut NoLog).unwrap();
    assert_eq!(whole[0].output, golden.greedy[..12]);
    let mut watch = Watch::default();
    let chunked = BatchOptions { chunk: Some(4), observe: Observe::TOKENS };
    assert_eq!(generate(&mut engine, &requests, &chunked, &mut watch).unwrap(), whole);
    // 9 + 3 + 4 prompt rows and each output token but the last; 3 + 1 + 1 chunks; the longest request sets the steps.
    assert_eq!((watch.rows, watch.prefill_groups, watch.steps), (16 + 11 + 4 + 8, 5, 3 + 11));
    for (r, outcome) in requests.iter().zip(&whole) {
        let alone = generate(&mut engine, std::slice::from_ref(r), &BatchOptions::default(), &mut NoLog).unwrap();
        assert_eq!(alone, std::slice::from_ref(outcome));
    }
}

#[test]
fn a_stop_id_ends_a_request_and_is_reported() {
    let golden = Golden::kjv();
    let mut r = request(&golden.prompt, 12);
    r.stop = vec![golden.greedy[3]];
    let out = generate(&mut engine(&kjv(), Mode::Invariant), &[r], &BatchOptions::default(), &mut NoLog).unwrap();
    assert_eq!((out[0].output.as_slice(), out[0].finish), (&golden.greedy[..4], Finish::Stop));
}

#[test]
fn seeded_output_follows_the_seed() {
    let prompt = Golden::kjv().prompt;
    let mut engine = engine(&kjv(), Mode::Invariant);
    let mut with = |seed, top_k| {
        let mut r = request(&prompt, 10);
        r.sampling = Sampling::Seeded(Seeded { top_k, ..Seeded::plain(1.0, seed) });
        generate(&mut engine, &[r], &BatchOptions::default(), &mut NoLog).unwrap().remove(0).output
    };
    assert_eq!(with(1, None), with(1, None));
    assert_ne!(with(1, None), with(2, None));
    assert_eq!(with(1, Some(1)), Golden::kjv().greedy[..10]);
}

#[test]
fn an_operator_can_interfere_and_fail() {
    let golden = Golden::kjv();
    let mut engine = engine(&kjv(), Mode::Throughput);
    let requests = [request(&golden.prompt, 4)];
    let mut swap = Watch { swap_first: true, split: Some(Dispatch::UNSPLIT), ..Watch::default() };
    let out = generate(&mut engine, &requests, &BatchOptions::default(), &mut swap).unwrap();
    assert_eq!(out[0].output[0], golden.top5_ids[1]);
    let mut fail = Watch { fail_at: Some(2), ..Watch::default() };
    let error = generate(&mut engine, &requests, &BatchOptions::default(), &mut fail).unwrap_err();
    assert!(matches!(&error, Error::Observer(e) if e.to_string() == "disk full"));
    // The slot came back.
    for _ in 0..engine.limits().slots {
        engine.open().unwrap();
    }
}

#[test]
fn impossible_requests_are_refused_before_anything_runs() {
    let model = kjv();
    let device = engine::device::EmulatedDevice::new("sm_90").unwrap();
    let limits = Limits { slots: 2, pages: 4, max_rows: 8 };
    let mut engine = engine::Engine::new(model, Box::new(device), Mode::Invariant, limits).unwrap();
    let options = BatchOptions::default();
    let mut refused = |requests: &[Request]| {
        let mut watch = Watch::default();
        let error = generate(&mut engine, requests, &options, &mut watch).unwrap_err();
        assert_eq!(watch.steps, 0);
        error
    };
    assert!(matches!(refused(&[request(&[1], 1), request(&[], 1)]), Error::Request { index: 1, .. }));
    assert!(matches!(refused(&[request(&[1], 0)]), Error::Request { index: 0, .. }));
    assert!(matches!(refused(&[request(&[1024], 1)]), Error::Request { .. }));
    assert!(matches!(refused(&[request(&[1], 1025)]), Error::Request { .. }));
    assert!(matches!(refused(&[request(&[1], 65)]), Error::CacheFull { .. }));
    assert!(matches!(refused(&[request(&[1], 1), request(&[1], 1), request(&[1], 1)]), Error::CacheFull { .. }));
    let mut r = request(&[1], 1);
    r.sampling = Sampling::Seeded(Seeded::plain(0.0, 0));
    assert!(matches!(refused(&[r]), Error::Sampling { .. }));
    // A prompt longer than a step's rows is cut into chunks by the row limit.
    let long = generate(&mut engine, &[request(&[7; 20], 1)], &options, &mut Watch::default()).unwrap();
    assert_eq!(long[0].output.len(), 1);
}
