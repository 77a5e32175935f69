//! Tensor parallelism: ranks divide the work and leave their mark where their results are added.

mod common;

use std::sync::Arc;

use common::reference::Reference;
use common::{TINY, group, kjv, stories, tiny, wide32};
use engine::device::EmulatedDevice;
use engine::ops::{Op, OpAt};
use engine::step::{Logits, Observe, StepOutput};
use engine::{Build, Engine, Error, Limits, Mode, Model};

fn engine(model: &Arc<Model>, mode: Mode, ranks: u32) -> engine::Result<Engine> {
    let device = EmulatedDevice::new("sm_90").unwrap();
    Engine::built(model.clone(), Box::new(device), mode, Limits::default(), Build { ranks, ..Build::default() })
}

/// A prompt in chunks of these lengths, then two decode steps, at level A.
fn run(engine: &mut Engine, tokens: &[u32], chunks: &[usize]) -> Vec<StepOutput> {
    let slot = engine.open().unwrap();
    let mut at = 0;
    let mut steps = Vec::new();
    for length in chunks.iter().copied().chain([1, 1]) {
        let groups = vec![group(slot, at as u32, &tokens[at..at + length], Logits::All)];
        let plan = engine.plan(groups, Observe::ACTIVATIONS);
        steps.push(engine.step(&plan).unwrap());
        at += length;
    }
    engine.close(slot).unwrap();
    steps
}

fn tokens(model: &Model, count: u32) -> Vec<u32> {
    (0..count).map(|i| (3 + 11 * i) % model.config.vocab_size).collect()
}

/// Models with the degrees that divide them; more ranks than key/value heads among them.
fn divisible() -> Vec<(Arc<Model>, Vec<u32>)> {
    let mut all = vec![(kjv(), vec![2])];
    if let Some(model) = stories() {
        // The padding of its feed-forward layer counted as columns, of zeros: 8 divides 176.
        let mut wider = Model::clone(&model);
        wider.config.ffn = 176;
        all.extend([(model, vec![2, 4]), (Arc::new(wider), vec![8])]);
    }
    all.extend(TINY.map(|name| (tiny(name), vec![2, 4])));
    all
}

#[test]
fn one_rank_is_no_division() {
    let model = kjv();
    let tokens = tokens(&model, 20);
    let undivided = run(&mut common::engine(&model, Mode::Throughput), &tokens, &[18]);
    assert!(run(&mut engine(&model, Mode::Throughput, 1).unwrap(), &tokens, &[18]) == undivided);
}

/// What is divided by columns has the bits of one device; the first difference is where ranks are added. Twice the same is the same.
#[test]
fn ranks_part_from_one_device_where_their_results_are_added() {
    for (model, degrees) in divisible() {
        let tokens = tokens(&model, 24);
        let mut seen = vec![run(&mut engine(&model, Mode::Invariant, 1).unwrap(), &tokens, &[22])];
        for ranks in degrees {
            let mut divided = engine(&model, Mode::Invariant, ranks).unwrap();
            let out = run(&mut divided, &tokens, &[22]);
            assert!(run(&mut divided, &tokens, &[22]) == out, "{} on {ranks} ranks", model.name);
            let alike: Vec<OpAt> = out[0].taps.iter().map(|t| t.at).collect();
            assert_eq!(alike, seen[0][0].taps.iter().map(|t| t.at).collect::<Vec<_>>());
            let first = out[0].taps.iter().zip(&seen[0][0].taps).find(|(a, b)| a.bits != b.bits).map(|(a, _)| a.at);
            assert_eq!(first, Some(OpAt { layer: Some(0), op: Op::OProj }), "{} on {ranks} ranks", model.name);
            assert!(seen.iter().all(|other| out[0].rows != other[0].rows), "{} on {ranks} ranks", model.name);
            seen.push(out);
        }
    }
}

/// The mathematics is that of one device.
#[test]
fn divided_models_agree_with_plain_loops() {
    let model = kjv();
    let tokens = tokens(&model, 24);
    for mode in Mode::ALL {
        let out = run(&mut engine(&model, mode, 2).unwrap(), &tokens, &[22]);
        let got: Vec<f64> = out.iter().flat_map(|s| &s.rows).flat_map(|r| wide32(r.logits.as_ref().unwrap())).collect();
        let want = Reference::new(&model).forward(&tokens);
        assert_eq!(got.len(), want.len());
        let square = |v: f64| v * v;
        let error: f64 = got.iter().zip(&want).map(|(a, b)| square(a - b)).sum();
        let spread: f64 = want.iter().map(|v| square(*v)).sum();
        assert!(error.sqrt() < 0.02 * spread.sqrt(), "{mode:?}: {}", (error / spread).sqrt());
    }
}

/// In the modes in which a row's bits depend on its own tokens only, they do so on any number of ranks.
#[test]
fn chunks_change_nothing_on_ranks() {
    let model = kjv();
    let tokens = tokens(&model, 40);
    for mode in [Mode::Invariant, Mode::Portable] {
        let mut engine = engine(&model, mode, 2).unwrap();
        let rows = |steps: Vec<StepOutput>| -> Vec<_> {
            steps.into_iter().flat_map(|s| s.rows).map(|r| (r.position, r.logits, r.k, r.v, r.boundaries)).collect()
        };
        let whole = rows(run(&mut engine, &tokens, &[38]));
        assert!(rows(run(&mut engine, &tokens, &[1, 17, 3, 17])) == whole, "{mode:?}");
    }
}

/// Pages go to the host and back with the columns of every rank.
#[test]
fn saved_pages_hold_every_rank() {
    let model = kjv();
    let tokens = tokens(&model, 20);
    let mut engine = engine(&model, Mode::Invariant, 2).unwrap();
    let next = |engine: &mut Engine, slot, tokens: &[u32]| {
        let plan = engine.plan(vec![group(slot, 16, tokens, Logits::Last)], Observe::STATE);
        engine.step(&plan).unwrap().rows
    };
    let first = engine.open().unwrap();
    let plan = engine.plan(vec![group(first, 0, &tokens[..16], Logits::None)], Observe::TOKENS);
    engine.step(&plan).unwrap();
    let saved = engine.save(first, 0..1).unwrap();
    let want = next(&mut engine, first, &tokens[16..]);
    let second = engine.open().unwrap();
    engine.extend(second, 16).unwrap();
    engine.restore(second, 0, &saved).unwrap();
    let found = next(&mut engine, second, &tokens[16..]);
    assert!(want.iter().zip(&found).all(|(a, b)| (&a.logits, &a.k, &a.v) == (&b.logits, &b.k, &b.v)));
}

#[test]
fn what_cannot_be_divided_is_refused_by_name() {
    // 6 query heads over 2 key/value heads.
    for (ranks, what) in [(3, "1, 2, 4 or 8"), (4, "6 query heads"), (0, "1, 2, 4 or 8")] {
        let refused = engine(&kjv(), Mode::Invariant, ranks).err().unwrap();
        assert!(matches!(&refused, Error::Plan { detail } if detail.contains(what)), "{ranks}: {refused}");
    }
}
