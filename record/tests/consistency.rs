//! `Record::check`: each way a record can contradict itself, and its refusal.

mod support;

use record::commit::EvidenceLevel;
use record::inference::{
    CachedPages, Decode, Device, DeviceKind, Event, Finish, Link, Mentions, Preemption, Record, RecordRefusal as R,
    RowKind, Rows, join,
};
use record::log::Next;
use record::{F32Bits, Fact, U64Text, commit};
use support::{ORIGIN, key, reseal};

fn honest() -> Record {
    let link = Link { origin: ORIGIN.to_owned(), sequence: 0, previous: None, key_id: key().public().id() };
    support::record(&Next { link, chain: commit::genesis(ORIGIN) }, EvidenceLevel::S).0
}

/// The refusal after an edit that the operator sealed again, so that only the fact itself is wrong.
fn refusal(edit: impl FnOnce(&mut Record)) -> R {
    let mut record = honest();
    record.check().unwrap();
    edit(&mut record);
    reseal(&mut record);
    record.check().unwrap_err()
}

#[test]
fn requests() {
    assert_eq!(refusal(|r| r.requests[1].id = "r0".to_owned()), R::RequestId { request: 1 });
    assert_eq!(refusal(|r| r.requests[0].id = String::new()), R::RequestId { request: 0 });
    assert_eq!(refusal(|r| r.requests[0].id = "x".repeat(65)), R::RequestId { request: 0 });
    for nonce in ["", "0", "0G", "AB", &"00".repeat(17)] {
        assert_eq!(refusal(|r| r.requests[1].nonce = Some(nonce.to_owned())), R::Nonce { request: 1 }, "{nonce:?}");
    }
    assert_eq!(refusal(|r| r.requests[1].prompt.clear()), R::EmptyPrompt { request: 1 });
}

#[test]
fn outputs() {
    let what = |edit: fn(&mut Record)| match refusal(edit) {
        R::Output { what, .. } => what,
        other => panic!("{other}"),
    };
    let max = what(|r| r.requests[0].decode.max_new_tokens = 1);
    assert_eq!(max, "more output than max_new_tokens");
    let logprobs = what(|r| r.requests[0].logprobs = Some(vec![F32Bits(0)]));
    assert_eq!(logprobs, "not one log-probability a token");
    let length = what(|r| r.requests[0].decode.max_new_tokens = 3);
    assert_eq!(length, "finished by length before max_new_tokens");
    let stop = what(|r| r.requests[0].finish = Finish::Stop);
    assert_eq!(stop, "finished by a stop token that is not one");
    let stopped = what(|r| r.requests[0].output[1] = 0);
    assert_eq!(stopped, "ends in a stop token, but says otherwise");
    let beyond = what(|r| r.requests[0].output[0] = 0);
    assert_eq!(beyond, "goes on after a stop token");
    let unlogged = what(|r| drop(r.steps.pop()));
    assert_eq!(unlogged, "its rows end before the row that chose its last token");
    let unseen = what(|r| {
        let mut extra = r.requests[0].clone();
        extra.id = "r2".to_owned();
        r.requests.push(extra);
    });
    assert_eq!(unseen, "no row of any step belongs to it");
    let blind = what(|r| r.steps[2].schedule.rows[0].logits = 0);
    assert_eq!(blind, "a token was chosen from a row without logits");
}

#[test]
fn decode_parameters() {
    let what = |edit: fn(&mut Decode)| match refusal(|r| edit(&mut r.requests[1].decode)) {
        R::Decode { request: 1, what } => what,
        other => panic!("{other}"),
    };
    type Edit = fn(&mut Decode);
    // Greedy choice reads none of these.
    let greedy: [(&str, Edit); 8] = [
        ("temperature", |d| d.temperature = F32Bits::new(1.0)),
        ("temperature", |d| d.temperature = F32Bits::new(-0.0)),
        ("top_k", |d| d.top_k = 5),
        ("top_p", |d| d.top_p = F32Bits::new(0.5)),
        ("min_p", |d| d.min_p = F32Bits::new(0.5)),
        ("counter", |d| d.counter = "x".into()),
        ("seed_derivation", |d| d.seed = Some(U64Text(7))),
        ("seed_derivation", |d| d.seed_derivation = Fact::Known("operator".into())),
    ];
    for (name, edit) in greedy {
        assert!(what(edit).starts_with(name), "{name}: {}", what(edit));
    }
    let seeded_greedy = |d: &mut Decode| {
        d.seed = Some(U64Text(7));
        d.seed_derivation = Fact::Known("client".into());
    };
    assert!(what(seeded_greedy).starts_with("seed: greedy"));
    // No number at all, or none of the range, whatever the sampler.
    let ranges: [(&str, Edit); 11] = [
        ("temperature", |d| d.temperature = F32Bits::new(f32::NAN)),
        ("temperature", |d| d.temperature = F32Bits::new(f32::NEG_INFINITY)),
        ("temperature", |d| d.temperature = F32Bits::new(-1.0)),
        ("top_p", |d| d.top_p = F32Bits::new(f32::NAN)),
        ("top_p", |d| d.top_p = F32Bits::new(0.0)),
        ("top_p", |d| d.top_p = F32Bits::new(1.5)),
        ("min_p", |d| d.min_p = F32Bits::new(f32::NAN)),
        ("repetition_penalty", |d| d.repetition_penalty = F32Bits::new(0.0)),
        ("logit_bias", |d| d.logit_bias = vec![(3, F32Bits::new(0.0)), (3, F32Bits::new(0.0))]),
        ("logit_bias", |d| d.logit_bias = vec![(3, F32Bits::new(f32::NEG_INFINITY))]),
        ("stop_ids", |d| d.stop_ids = vec![9, 0]),
    ];
    for (name, edit) in ranges {
        for sampler in ["greedy-lowest-id/1", "another/1"] {
            let found = refusal(|r| {
                edit(&mut r.requests[1].decode);
                r.requests[1].decode.sampler = sampler.into();
            });
            assert!(matches!(found, R::Decode { request: 1, what } if what.starts_with(name)), "{name}: {found}");
        }
    }
    let seeded = |edit: fn(&mut Decode)| {
        let mut decode = Decode::greedy(2, vec![0]);
        decode.sampler = "gumbel-philox4x32-10/1".into();
        decode.temperature = F32Bits::new(0.8);
        decode.seed = Some(U64Text(7));
        decode.seed_derivation = Fact::Known("client".into());
        decode.counter = "next-position/1".into();
        assert_eq!(decode.check(), Ok(()));
        edit(&mut decode);
        decode.check().unwrap_err()
    };
    assert!(seeded(|d| d.temperature = F32Bits::new(0.0)).starts_with("temperature"));
    assert!(seeded(|d| d.counter = "none".into()).starts_with("counter"));
    assert!(seeded(|d| d.seed_derivation = Fact::Known("none".into())).starts_with("seed_derivation: none"));
    assert!(seeded(|d| (d.seed, d.seed_derivation) = (None, Fact::Unspecified)).starts_with("seed"));
}

#[test]
fn devices() {
    let what = |edit: fn(&mut Device)| match refusal(|r| edit(&mut r.stack.device)) {
        R::Device { what } => what,
        other => panic!("{other}"),
    };
    let h100 = || Fact::Known(Some("NVIDIA H100 80GB HBM3".to_owned()));
    assert_eq!(what(|d| d.gpu_model = Fact::Known(Some("H100".into()))), "an emulated device has no GPU model");
    assert_eq!(what(|d| d.driver = Fact::Known(Some("570".into()))), "an emulated device has no driver");
    assert_eq!(what(|d| d.kind = DeviceKind::Cuda), "a GPU has a model; null says that there is none");
    let mut gpu = honest().stack.device;
    gpu.kind = DeviceKind::Cuda;
    (gpu.gpu_model, gpu.driver) = (h100(), Fact::Unspecified);
    assert_eq!(gpu.check(), Ok(()));
}

/// The honest record with its first request withdrawn before the last step.
fn cancelled() -> Record {
    let mut record = honest();
    record.requests[0].finish = Finish::Cancelled;
    record.requests[0].output.pop();
    record.steps.pop();
    reseal(&mut record);
    record
}

#[test]
fn a_cancelled_request_may_end_early_and_states_no_more_than_was_chosen() {
    cancelled().check().unwrap();
    let what = |edit: fn(&mut Record)| {
        let mut record = cancelled();
        edit(&mut record);
        reseal(&mut record);
        match record.check().unwrap_err() {
            R::Output { what, .. } => what,
            other => panic!("{other}"),
        }
    };
    let invented = what(|r| {
        r.requests[0].decode.max_new_tokens = 500;
        r.requests[0].output.extend([2; 400]);
    });
    assert_eq!(invented, "states tokens that no row chose");
    assert_eq!(what(|r| r.requests[0].output.clear()), "a row with logits chose no token");
    assert_eq!(what(|r| r.requests[0].decode.stop_ids = vec![7]), "ends in a stop token, but says otherwise");
    assert_eq!(what(|r| r.requests[0].decode.max_new_tokens = 1), "has max_new_tokens, but says otherwise");
    // Mentioned only, and never computed.
    let ghost = what(|r| {
        let mut ghost = r.requests[0].clone();
        ghost.id = "r9".to_owned();
        r.requests.push(ghost);
        r.steps[0].schedule.events.push(Event::Arrive { request: 2, priority: 0, client: 0 });
    });
    assert_eq!(ghost, "states tokens that no row chose");
}

#[test]
fn schedules() {
    let what = |edit: fn(&mut Rows)| match refusal(|r| edit(&mut r.steps[1].schedule.rows[1])) {
        R::Rows { step: 1, group: 1, what } => what,
        other => panic!("{other}"),
    };
    assert_eq!(what(|rows| rows.request = 2), "no such request");
    assert_eq!(what(|rows| rows.logits = 2), "logits of more rows than there are");
    assert_eq!(what(|rows| rows.start = 0), "does not continue where the request's rows ended");
    assert_eq!(what(|rows| rows.start = u32::MAX), "does not continue where the request's rows ended");
    // `reseal` cannot be used where the number of rows changes: the leaves no longer fit.
    let unsealed = |edit: fn(&mut Record)| {
        let mut record = honest();
        edit(&mut record);
        record.check().unwrap_err()
    };
    let rows = |edit: fn(&mut Rows)| {
        let mut record = honest();
        edit(&mut record.steps[1].schedule.rows[1]);
        match record.check().unwrap_err() {
            R::Rows { what, .. } => what,
            other => panic!("{other}"),
        }
    };
    assert_eq!(rows(|rows| rows.count = 0), "no rows");
    assert_eq!(rows(|rows| rows.count = 2), "a decode group has exactly one row");
    let far = |rows: &mut Rows| (rows.kind, rows.count) = (RowKind::Prefill, u32::MAX);
    assert_eq!(rows(far), "reaches beyond the request's tokens");
    assert!(matches!(unsealed(|r| r.steps[0].schedule.padded_rows = 2), R::LeafCount { padded: 2, .. }));
    assert!(matches!(unsealed(|r| r.steps[0].leaves.truncate(2)), R::LeafCount { leaves: 2, .. }));
    let dispatch = |op: &str| R::Dispatch { step: 0, op: op.to_owned() };
    assert_eq!(refusal(|r| r.steps[0].schedule.dispatch.ops[0].kernels[1] = 3), dispatch("qkv"));
    assert_eq!(refusal(|r| r.steps[0].schedule.dispatch.ops[1].splits = 0), dispatch("attention"));
    assert_eq!(refusal(|r| r.steps[2].index = 3), R::StepIndex { expected: 2, found: 3 });
    assert_eq!(refusal(|r| r.steps.clear()), R::NoSteps);
}

#[test]
fn events() {
    let what = |step: usize, events: Vec<Event>| match refusal(|r| r.steps[step].schedule.events.extend(events)) {
        R::Event { what, .. } | R::Rows { what, .. } => what,
        other => panic!("{other}"),
    };
    let admit = |request| Event::Admit { request, cached: Vec::new() };
    let preempt = |how| Event::Preempt { request: 0, how };
    assert_eq!(what(0, vec![admit(2)]), "no such request");
    assert_eq!(what(0, vec![admit(1)]), "a request is admitted that has a place");
    let late = Event::Arrive { request: 1, priority: 0, client: 0 };
    assert_eq!(what(1, vec![late]), "a request arrives that was there before");
    assert_eq!(what(1, vec![Event::Resume { request: 0 }]), "a request is resumed that was not swapped out");
    for how in [Preemption::Recompute, Preemption::Swap] {
        assert_eq!(what(1, vec![preempt(how)]), "has no place in the cache");
        assert_eq!(what(1, vec![preempt(how), preempt(how)]), "a request is preempted that has no place");
    }
    let cancel = Event::Cancel { request: 0 };
    assert_eq!(what(1, vec![cancel.clone()]), "has no place in the cache");
    assert_eq!(what(1, vec![cancel, admit(0)]), "something happens to a request after it was cancelled");
    let cached = vec![CachedPages { source: "r1".to_owned(), step: 0, pages: 1 }];
    let again = vec![preempt(Preemption::Recompute), Event::Admit { request: 0, cached }];
    assert_eq!(what(1, again), "does not continue where the request's rows ended");
}

#[test]
fn a_swapped_request_goes_on_where_it_was() {
    let mut record = honest();
    let out = Event::Preempt { request: 0, how: Preemption::Swap };
    record.steps[2].schedule.events = vec![out, Event::Resume { request: 0 }];
    reseal(&mut record);
    record.check().unwrap();
}

/// The first two steps make a record in which request 0 goes on, the third step is the next record.
#[test]
fn a_request_may_go_on_in_the_next_record() {
    let (mut first, mut second) = (honest(), honest());
    first.steps.pop();
    first.requests[0].output.pop();
    first.requests[0].finish = Finish::Continues;
    reseal(&mut first);
    first.check().unwrap();
    second.steps.drain(..2);
    second.requests.pop();
    second.chain.before = first.chain.after;
    reseal(&mut second);
    second.check().unwrap();
    // It had its place before: the record need not say where it came from, but may not claim to.
    second.steps[0].schedule.events = vec![Event::Arrive { request: 0, priority: 0, client: 0 }];
    reseal(&mut second);
    assert!(matches!(second.check(), Err(R::Rows { what: "has no place in the cache", .. })));
}

#[test]
fn commitments() {
    let unsealed = |edit: fn(&mut Record)| {
        let mut record = honest();
        edit(&mut record);
        record.check().unwrap_err()
    };
    assert_eq!(unsealed(|r| r.steps[1].leaves.swap(0, 1)), R::StepRoot { step: 1 });
    assert_eq!(unsealed(|r| r.steps[1].root = r.steps[0].root), R::StepRoot { step: 1 });
    assert_eq!(unsealed(|r| r.steps[1].chain = r.steps[0].chain), R::ChainBreak { step: 1 });
    assert_eq!(unsealed(|r| r.steps[1].schedule.padded_rows = 8), R::ChainBreak { step: 1 });
    assert_eq!(unsealed(|r| r.chain.before = r.chain.after), R::ChainBreak { step: 0 });
    assert_eq!(unsealed(|r| r.chain.after = r.chain.before), R::ChainEnd);
}

/// Runs of consecutive records; an absent one could not be read.
fn runs(records: &[Option<&Record>]) -> Vec<std::ops::Range<usize>> {
    record::inference::runs(&records.iter().map(|r| r.map(Mentions::of)).collect::<Vec<_>>())
}

/// Three records of two sessions: the first request of the first goes on in the second.
fn session() -> [Record; 3] {
    let (mut first, mut second) = (honest(), honest());
    first.steps.pop();
    first.requests[0].output.pop();
    first.requests[0].finish = Finish::Continues;
    second.steps.drain(..2);
    second.requests.pop();
    [first, second, honest()]
}

#[test]
fn records_that_belong_together_are_found_and_joined() {
    let [first, second, third] = session();
    let all = [Some(&first), Some(&second), Some(&third), None, Some(&second)];
    assert_eq!(runs(&all), [0..2, 2..3, 3..4, 4..5]);
    let joined = join(&[&first, &second]).unwrap();
    joined.check_whole().unwrap();
    let whole = honest();
    assert_eq!((joined.requests, joined.steps.len()), (whole.requests, whole.steps.len()));
    for (a, b) in joined.steps.iter().zip(&whole.steps) {
        assert_eq!(a.schedule, b.schedule);
    }
    // Alone, the second half lacks its beginning.
    assert!(matches!(second.check_whole(), Err(R::Rows { what: "begins in a record that is not at hand", .. })));
}

#[test]
fn a_cached_prefix_ties_records_together() {
    let [mut first, _, mut later] = session();
    first.requests[0].finish = Finish::Cancelled;
    for (i, step) in later.steps.iter_mut().enumerate() {
        step.index = 2 + i as u64;
    }
    for (i, r) in later.requests.iter_mut().enumerate() {
        r.id = format!("later{i}");
    }
    assert_eq!(runs(&[Some(&first), Some(&later)]), [0..1, 1..2]);
    let cached = |pages| vec![CachedPages { source: "r0".to_owned(), step: 1, pages }];
    first.stack.kv.page_size = 2;
    later.stack.kv.page_size = 2;
    later.steps[0].schedule.events[2] = Event::Admit { request: 0, cached: cached(1) };
    later.steps[0].schedule.rows.remove(0);
    later.steps[0].leaves.drain(..2);
    later.steps[0].schedule.padded_rows = 1;
    assert_eq!(runs(&[Some(&first), Some(&later)]).first(), Some(&(0..2)));
    join(&[&first, &later]).unwrap().check_whole().unwrap();
    later.steps[0].schedule.events[2] = Event::Admit { request: 0, cached: cached(2) };
    let refused = join(&[&first, &later]).unwrap().check_whole().unwrap_err();
    assert!(matches!(refused, R::Event { step: 2, event: 2, what } if what.contains("did not hold")), "{refused}");
}

#[test]
fn records_that_contradict_one_another_do_not_join() {
    let refused = |edit: fn(&mut Record)| {
        let [first, mut second, _] = session();
        edit(&mut second);
        join(&[&first, &second]).unwrap_err().to_string()
    };
    assert!(refused(|r| r.steps[0].index = 4).contains("step 2 is missing"));
    assert!(refused(|r| r.stack.mode = "invariant".to_owned()).contains("another stack"));
    assert!(refused(|r| r.requests[0].prompt[0] = 2).contains("another prompt"));
    assert!(refused(|r| r.requests[0].output[0] = 2).contains("other output"));
    assert!(refused(|r| r.requests[0].logprobs = Some(vec![F32Bits(0); 2])).contains("log-prob"));
    let whole = |r: &Record| Some(vec![F32Bits(0); r.requests[0].prompt.len() - 1]);
    let [mut first, mut second, _] = session();
    second.requests[0].prompt_logprobs = whole(&second);
    assert!(join(&[&first, &second]).unwrap_err().to_string().contains("log-prob"));
    first.requests[0].prompt_logprobs = Some(Vec::new());
    join(&[&first, &second]).unwrap();
    (first.requests[0].prompt_logprobs, second.requests[0].prompt_logprobs) = (whole(&first), Some(Vec::new()));
    assert!(join(&[&first, &second]).unwrap_err().to_string().contains("log-prob"));
    let [mut first, second, _] = session();
    first.requests[0].finish = Finish::Cancelled;
    assert!(join(&[&first, &second]).unwrap_err().to_string().contains("after its end"));
    assert!(join(&[]).is_err());
}

/// Requests that went on and were withdrawn before anything else ran.
#[test]
fn a_record_without_steps_ends_what_went_on() {
    let [first, mut end, _] = session();
    end.steps.clear();
    end.requests[0].output.pop();
    end.requests[0].finish = Finish::Cancelled;
    end.chain.before = first.chain.after;
    end.chain.after = first.chain.after;
    end.check().unwrap();
    let joined = join(&[&first, &end]).unwrap();
    joined.check_whole().unwrap();
    assert_eq!((joined.requests[0].finish, joined.steps.len()), (Finish::Cancelled, 2));
    end.requests[0].finish = Finish::Continues;
    assert_eq!(end.check(), Err(R::NoSteps));
    end.requests.clear();
    assert_eq!(end.check(), Err(R::NoSteps));
}

/// Log-probabilities of a prompt are whole once a token was chosen, and never more than there are tokens to tell of.
#[test]
fn log_probabilities_of_prompts_are_counted() {
    let with = |values: usize| {
        let mut first = honest();
        first.requests[0].prompt_logprobs = Some(vec![F32Bits(0xbf80_0000); values]);
        first.check()
    };
    let first = honest();
    let (all, chosen) = (first.requests[0].prompt.len() - 1, first.requests[0].output.len());
    assert!(chosen > 0 && all > 0);
    assert_eq!(with(all), Ok(()));
    for values in [all - 1, all + 1] {
        let refused = with(values);
        assert!(matches!(refused, Err(R::Output { request: 0, what }) if what.contains("prompt token")), "{refused:?}");
    }
}
