//! A batch becomes a record that is consistent with itself, and the record's words lead back to the same bits.

mod common;

use common::{Golden, engine, group, kjv};
use engine::batch::{BatchOptions, Request, generate};
use engine::journal::{self, Asked, Identity, Journal, RowShapes};
use engine::sampler::{Adjust, Past, Sampling, Seeded};
use engine::scheduler::Settings;
use engine::step::{Logits, Observe, StepPlan};
use engine::{Dispatch, Engine, Error, Mode};
use record::inference::Link;
use record::{Digest, EvidenceLevel, Fact, Record};

fn requests() -> Vec<Request> {
    let prompt = Golden::kjv().prompt;
    let seeded = Sampling::Seeded(Seeded { top_k: Some(40), ..Seeded::plain(0.8, 11) });
    let request = |prompt: &[u32], max_new_tokens, sampling| Request {
        prompt: prompt.to_vec(),
        max_new_tokens,
        sampling,
        stop: vec![0],
        ..Request::new(Vec::new(), 1)
    };
    let adjust = Adjust { bias: vec![(3, 1.5)], repetition: 1.2, frequency: 0.5, presence: 0.25 };
    vec![
        request(&prompt, 5, Sampling::Greedy),
        request(&prompt[..4], 3, seeded),
        request(&[7], 6, Sampling::Greedy),
        Request { adjust, ..request(&prompt[..3], 9, Sampling::Greedy) },
        Request { prompt_logprobs: true, ..request(&prompt[..8], 2, Sampling::Greedy) },
    ]
}

fn record_of(engine: &mut Engine, level: EvidenceLevel) -> Record {
    let requests = requests();
    let asked: Vec<Asked> = (0..requests.len()).map(|i| Asked::derived(format!("r{i}"), "00ff")).collect();
    let genesis = record::commit::genesis("test");
    let mut journal = Journal::new(engine, level, "r", genesis);
    let observe = if level == EvidenceLevel::A { Observe::ACTIVATIONS } else { Observe::STATE };
    let options = BatchOptions { chunk: Some(6), observe };
    let outcomes = generate(engine, &requests, &options, &mut journal).unwrap();
    let stated = |key: u64| {
        let i = key as usize;
        journal::request(&asked[i], &requests[i], &outcomes[i])
    };
    let link = Link { origin: "test".into(), sequence: 0, previous: None, key_id: Digest::of_file(b"key") };
    let settings = Settings { chunk: Some(6), ..Settings::plain(engine.limits().max_rows) };
    journal.to_record(Identity::of(engine, settings).unwrap(), stated, link, Fact::Unspecified).0
}

/// Replays a record's schedule in a fresh engine and compares every leaf.
fn replay(record: &Record, engine: &mut Engine, level: EvidenceLevel) {
    let launches = engine.launches();
    let shapes = RowShapes::of(&engine.model().config);
    let slots: Vec<_> = record.requests.iter().map(|_| engine.open().unwrap()).collect();
    for step in &record.steps {
        let groups = step.schedule.rows.iter().map(|rows| {
            let request = &record.requests[rows.request as usize];
            let tokens = (rows.start..rows.start + rows.count).map(|p| request.token_at(p.into()).unwrap());
            let logits = match rows.logits {
                0 => Logits::None,
                1 => Logits::Last,
                _ => Logits::All,
            };
            group(slots[rows.request as usize], rows.start, &tokens.collect::<Vec<_>>(), logits)
        });
        let dispatch = journal::dispatch(&launches, &record.stack.kernels, &step.schedule).unwrap();
        let plan = StepPlan { groups: groups.collect(), dispatch, observe: Observe::ACTIVATIONS };
        assert_eq!(dispatch, engine.dispatch(StepPlan::shape(&plan.groups)));
        let output = engine.step(&plan).unwrap();
        for (index, row) in step.schedule.each_row().enumerate() {
            let request = &record.requests[row.request as usize];
            let chosen = record.row_id(&row).unwrap().chosen;
            let parts = journal::evidence(&shapes, &output, index, level).unwrap().components().unwrap();
            assert_eq!(journal::leaf(&request.id, &output.rows[index], chosen, &parts), step.leaves[index]);
            // Sampling is part of what is replayed.
            if let (Some(chosen), Some(logits)) = (chosen, &output.rows[index].logits) {
                let (sampling, adjust) = journal::sampling(&request.decode).unwrap();
                let output = &request.output[..row.position as usize + 1 - request.prompt.len()];
                let past = Past { prompt: &request.prompt, output };
                let choice = sampling.choose_adjusted(&adjust, logits, past, row.position + 1).unwrap();
                assert_eq!(choice.token, chosen);
            }
        }
    }
}

#[test]
fn a_batch_makes_a_consistent_record_that_replays() {
    let modes = [Mode::Throughput, Mode::Portable, Mode::Invariant];
    for (mode, level) in modes.into_iter().zip([EvidenceLevel::S, EvidenceLevel::S, EvidenceLevel::A]) {
        let record = record_of(&mut engine(&kjv(), mode), level);
        record.check().unwrap();
        assert_eq!(record.steps[0].index, 0);
        let bytes = record.to_bytes().unwrap();
        let back = Record::from_bytes(&bytes).unwrap();
        assert_eq!(back, record);
        assert_eq!(back.stack.device.profile, "sm_90");
        assert_eq!(back.requests[1].decode.sampler, engine::sampler::GUMBEL);
        replay(&back, &mut engine(&kjv(), mode), level);
    }
}

#[test]
fn a_schedule_that_this_engine_cannot_run_is_refused_by_name() {
    let mut engine = engine(&kjv(), Mode::Throughput);
    let record = record_of(&mut engine, EvidenceLevel::S);
    let launches = engine.launches();
    let mut schedule = record.steps[1].schedule.clone();
    let kernels = record.stack.kernels.clone();
    let refused =
        |schedule: &record::inference::Schedule, kernels: &[record::inference::Kernel]| match journal::dispatch(
            &launches, kernels, schedule,
        ) {
            Err(Error::Dispatch { detail }) => detail,
            other => panic!("{other:?}"),
        };
    let mut foreign = kernels.clone();
    let down = schedule.dispatch.ops.iter().find(|op| op.op == "down").unwrap().kernels[0] as usize;
    foreign[down].ptx_sha256 = Digest::of_file(b"another kernel");
    assert!(refused(&schedule, &foreign).contains("which this engine does not have"));
    schedule.padded_rows += 1;
    assert!(refused(&schedule, &kernels).contains("padded"));
    schedule.padded_rows -= 1;
    let norm = schedule.dispatch.ops.iter().position(|op| op.op == "mlp_norm").unwrap();
    schedule.dispatch.ops[norm].splits = 2;
    assert!(refused(&schedule, &kernels).contains("mlp_norm"));
    schedule.dispatch.ops[norm].splits = 1;
    schedule.dispatch.ops.swap(norm, norm + 1);
    assert!(refused(&schedule, &kernels).contains("mlp_norm"));
    schedule.dispatch.ops.swap(norm, norm + 1);
    assert!(journal::dispatch(&launches, &kernels, &schedule).is_ok());
    schedule.dispatch.ops.pop();
    assert!(refused(&schedule, &kernels).contains("launches"));
}

/// Portable kernels are never split: a record that says so was not computed by this engine.
#[test]
fn a_split_in_portable_mode_is_refused() {
    let mut engine = engine(&kjv(), Mode::Portable);
    let record = record_of(&mut engine, EvidenceLevel::S);
    let mut schedule = record.steps[1].schedule.clone();
    schedule.dispatch.ops.iter_mut().find(|op| op.op == "down").unwrap().splits = 2;
    let refused = journal::dispatch(&engine.launches(), &record.stack.kernels, &schedule).unwrap_err();
    assert!(matches!(&refused, Error::Dispatch { detail } if detail.contains("`down` = 2")), "{refused}");
    let slot = engine.open().unwrap();
    let mut plan = engine.plan(vec![group(slot, 0, &[1, 2], Logits::Last)], Observe::TOKENS);
    plan.dispatch.kv_splits = 2;
    assert!(matches!(engine.step(&plan), Err(Error::Dispatch { .. })));
    assert_eq!(engine.positions(slot).unwrap(), 0);
}

#[test]
fn evidence_that_was_not_observed_is_an_error() {
    let mut engine = engine(&kjv(), Mode::Invariant);
    let shapes = RowShapes::of(&engine.model().config);
    let slot = engine.open().unwrap();
    let groups = vec![group(slot, 0, &[1, 2], Logits::Last)];
    let plan = StepPlan { groups, dispatch: Dispatch::UNSPLIT, observe: Observe::TOKENS };
    let output = engine.step(&plan).unwrap();
    let missing = journal::evidence(&shapes, &output, 1, EvidenceLevel::S);
    assert!(matches!(missing, Err(Error::Plan { .. })));
}
