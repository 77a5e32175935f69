//! Sessions under random histories: requests come, go and are cancelled; the cache is too small; prefixes are shared. In `invariant` mode every row has the
//! bits it has alone; in `throughput` mode it has those of its logged schedule, and no others are needed to find them again.

mod common;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use common::{data, kjv, prefill};
use engine::batch::{Finish, Operator, OperatorError, Outcome, Request, StepLog};
use engine::device::EmulatedDevice;
use engine::kernels::PAGE;
use engine::kv::Slot;
use engine::scheduler::{Event, Preemption, RequestKey, Settings};
use engine::session::Session;
use engine::step::{Group, Observe, Row, StepPlan};
use engine::{Engine, Limits, Mode, Model};
use proptest::prelude::*;

const LIMITS: Limits = Limits { slots: 3, pages: 10, max_rows: 48 };

fn engine(mode: Mode, limits: Limits) -> Engine {
    engine_of(kjv(), mode, limits)
}

fn engine_of(model: Arc<Model>, mode: Mode, limits: Limits) -> Engine {
    Engine::new(model, Box::new(EmulatedDevice::new("sm_90").unwrap()), mode, limits).unwrap()
}

/// A step as a log would have it, and the bits it left.
struct Logged {
    events: Vec<Event>,
    requests: Vec<RequestKey>,
    plan: StepPlan,
    rows: Vec<Row>,
}

#[derive(Default)]
struct Keep(Vec<Logged>);

impl Operator for Keep {
    fn step(&mut self, step: &StepLog<'_>) -> Result<(), OperatorError> {
        self.0.push(Logged {
            events: step.events.to_vec(),
            requests: step.turns.iter().map(|t| t.request).collect(),
            plan: step.plan.clone(),
            rows: step.output.rows.clone(),
        });
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Act {
    Arrive(Request),
    Cancel(u8),
    Steps(u8),
}

/// Histories of requests with prompts of these lengths, over this vocabulary.
fn acts(lengths: Range<usize>, vocabulary: u32) -> impl Strategy<Value = Vec<Act>> {
    // Few beginnings, so that prefixes are found; lengths from one token to most of the cache.
    let prompt = (0..2u32, lengths, 0..vocabulary).prop_map(move |(kind, length, last)| {
        let beginning = (0..length as u32 - 1).map(|i| (37 * kind + 11 * i) % vocabulary);
        beginning.chain([last]).collect::<Vec<u32>>()
    });
    let request = (prompt, 1..12u32, -1..2i32, 0..2u32, prop::bool::weighted(0.2)).prop_map(
        |(prompt, max_new_tokens, priority, client, prompt_logprobs)| Request {
            priority,
            client,
            prompt_logprobs,
            ..Request::new(prompt, max_new_tokens)
        },
    );
    let act = prop_oneof![
        4 => request.prop_map(Act::Arrive),
        1 => any::<u8>().prop_map(Act::Cancel),
        4 => (1..6u8).prop_map(Act::Steps),
    ];
    prop::collection::vec(act, 3..14)
}

fn settings(max_rows: u32, chunks: Range<u32>, swap_pages: u32) -> impl Strategy<Value = Settings> {
    (prop::option::of(chunks), any::<bool>(), 0..swap_pages)
        .prop_map(move |(chunk, prefix_cache, swap_pages)| Settings { max_rows, chunk, prefix_cache, swap_pages })
}

/// Lives through a history; what was asked and what came of it, by request.
fn live(engine: &mut Engine, settings: Settings, acts: &[Act]) -> (Vec<Logged>, Vec<Request>, BTreeMap<u64, Outcome>) {
    let mut session = Session::new(engine, settings, Observe::STATE).unwrap();
    let (mut keep, mut asked, mut outcomes) = (Keep::default(), Vec::new(), BTreeMap::new());
    for act in acts {
        match act {
            Act::Arrive(request) => {
                session.submit(request.clone()).unwrap();
                asked.push(request.clone());
            }
            Act::Cancel(n) => {
                session.cancel(u64::from(*n % 6));
            }
            Act::Steps(n) => {
                for _ in 0..*n {
                    outcomes.extend(session.step(&mut keep).unwrap().unwrap_or_default().ended);
                }
            }
        }
    }
    while let Some(progress) = session.step(&mut keep).unwrap() {
        outcomes.extend(progress.ended);
    }
    assert_eq!(session.load(), (0, 0));
    (keep.0, asked, outcomes)
}

type Bits<'a> = (u32, u32, Option<&'a [u32]>, [&'a [u16]; 3]);

/// Bits of a row, and nothing about where it stood.
fn bits(row: &Row) -> Bits<'_> {
    (row.position, row.token, row.logits.as_deref(), [&row.k, &row.v, &row.boundaries])
}

/// Repeats a logged schedule in an engine without a scheduler, and without knowing pages: an adopted prefix is copied from what its source
/// had after the step that the log names.
fn replay(engine: &mut Engine, log: &[Logged], asked: usize) -> Vec<Vec<Row>> {
    let slots: Vec<Slot> = (0..asked).map(|_| engine.open().unwrap()).collect();
    let adopted = |e: &Event| match e {
        Event::Admit { cached, .. } => cached.clone(),
        _ => Vec::new(),
    };
    let mut wanted: Vec<_> = log.iter().flat_map(|s| &s.events).flat_map(adopted).map(|c| c.source).collect();
    wanted.dedup();
    let mut saved = BTreeMap::new();
    let mut rows = Vec::new();
    for (index, step) in log.iter().enumerate() {
        for event in &step.events {
            match event {
                Event::Admit { request, cached } => {
                    let slot = slots[*request as usize];
                    engine.truncate(slot, 0).unwrap();
                    let mut page = 0;
                    for part in cached {
                        let source: &Vec<Vec<u8>> = &saved[&(part.source.request, part.source.step)];
                        engine.extend(slot, (page + part.pages) * PAGE).unwrap();
                        for p in page..page + part.pages {
                            engine.restore(slot, p, &source[p as usize]).unwrap();
                        }
                        page += part.pages;
                    }
                }
                Event::Preempt { request, how: Preemption::Recompute } => {
                    engine.truncate(slots[*request as usize], 0).unwrap();
                }
                _ => {}
            }
        }
        let mut plan = step.plan.clone();
        for (group, request) in plan.groups.iter_mut().zip(&step.requests) {
            group.slot = slots[*request as usize];
        }
        rows.push(engine.step(&plan).unwrap().rows);
        for source in wanted.iter().filter(|s| s.step == index as u64) {
            let slot = slots[source.request as usize];
            let pages = engine.positions(slot).unwrap() / PAGE;
            let copies = (0..pages).map(|p| engine.save(slot, p..p + 1).unwrap()).collect();
            saved.insert((source.request, source.step), copies);
        }
    }
    rows
}

/// Every row of an `invariant` history has the bits it has when its request is computed alone, in one piece.
fn rows_are_those_alone(
    model: &Arc<Model>,
    limits: Limits,
    settings: Settings,
    acts: &[Act],
) -> Result<(), TestCaseError> {
    let (log, asked, outcomes) = live(&mut engine_of(model.clone(), Mode::Invariant, limits), settings, acts);
    let longest = asked.iter().map(|r| r.prompt.len() as u32 + r.max_new_tokens).max().unwrap_or(1);
    let mut lone = engine_of(
        model.clone(),
        Mode::Invariant,
        Limits { slots: 1, pages: longest.div_ceil(PAGE), max_rows: longest },
    );
    for (key, request) in asked.iter().enumerate() {
        let outcome = &outcomes[&(key as u64)];
        prop_assert!(outcome.finish == Finish::Cancelled || outcome.output.len() == request.max_new_tokens as usize);
        let tokens = [&request.prompt[..], &outcome.output].concat();
        let alone = prefill(&mut lone, &tokens, Observe::STATE).rows;
        let own = log.iter().flat_map(|s| &s.rows).zip(log.iter().flat_map(|s| {
            s.plan.groups.iter().zip(&s.requests).flat_map(|(g, r): (&Group, _)| vec![*r; g.tokens.len()])
        }));
        let mut prompt = vec![false; request.prompt.len() - 1];
        for (row, _) in own.filter(|(_, r)| *r == key as u64) {
            let same_row = &alone[row.position as usize];
            let same = bits(row)
                == bits(&Row { logits: row.logits.as_ref().and(same_row.logits.clone()), ..same_row.clone() });
            prop_assert!(same, "request {key}, position {}", row.position);
            if let (Some(known), Some(_)) = (prompt.get_mut(row.position as usize), &row.top2) {
                *known = true;
            }
        }
        // Whoever asks for it has logits in every row of the prompt, also where others find it computed.
        prop_assert!(!request.prompt_logprobs || outcome.output.is_empty() || prompt.iter().all(|known| *known));
    }
    Ok(())
}

/// Every row of a `throughput` history has the bits that its logged schedule gives again.
fn rows_are_those_of_the_log(
    model: &Arc<Model>,
    limits: Limits,
    settings: Settings,
    acts: &[Act],
) -> Result<(), TestCaseError> {
    let (log, asked, _) = live(&mut engine_of(model.clone(), Mode::Throughput, limits), settings, acts);
    let pages: u32 = asked.iter().map(|r| (r.prompt.len() as u32 + r.max_new_tokens).div_ceil(PAGE)).sum();
    let roomy = Limits { slots: asked.len().max(1) as u32, pages: pages.max(1), ..limits };
    let again = replay(&mut engine_of(model.clone(), Mode::Throughput, roomy), &log, asked.len());
    for (index, (step, rows)) in log.iter().zip(&again).enumerate() {
        prop_assert_eq!(step.rows.len(), rows.len());
        for (a, b) in step.rows.iter().zip(rows) {
            prop_assert!(bits(a) == bits(b), "step {index}, position {}", a.position);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn invariant_rows_have_the_bits_they_have_alone(
        settings in settings(LIMITS.max_rows, 3..20, 9), acts in acts(1..70, 1024),
    ) {
        rows_are_those_alone(&kjv(), LIMITS, settings, &acts)?;
    }

    #[test]
    fn throughput_rows_are_those_of_the_logged_schedule(
        settings in settings(LIMITS.max_rows, 3..20, 9), acts in acts(1..70, 1024),
    ) {
        rows_are_those_of_the_log(&kjv(), LIMITS, settings, &acts)?;
    }
}

/// A small model with positions for prompts of two thousand tokens: rotary tables grow, weights do not depend on it.
fn long() -> Arc<Model> {
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let mut bytes = std::fs::read(data("qwen2-tiny").join(name)).unwrap();
        if name == "config.json" {
            let mut config: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            config["max_position_embeddings"] = 4096.into();
            bytes = config.to_string().into_bytes();
        }
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    Arc::new(Model::load(folder.path()).unwrap())
}

/// Room for a request of 2,000 tokens and little more, so that long ones push each other out.
const LONG: Limits = Limits { slots: 4, pages: 150, max_rows: 512 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "deep: schedules of prompts up to 2,000 tokens"]
    fn long_invariant_rows_have_the_bits_they_have_alone(
        settings in settings(LONG.max_rows, 16..400, 140), acts in acts(1..2000, 96),
    ) {
        rows_are_those_alone(&long(), LONG, settings, &acts)?;
    }

    #[test]
    #[ignore = "deep: schedules of prompts up to 2,000 tokens"]
    fn long_throughput_rows_are_those_of_the_logged_schedule(
        settings in settings(LONG.max_rows, 16..400, 140), acts in acts(1..2000, 96),
    ) {
        rows_are_those_of_the_log(&long(), LONG, settings, &acts)?;
    }
}

/// Where the class map says so, a `throughput` row's bits differ from those it has alone: the suites compare something.
#[test]
fn throughput_rows_differ_from_those_alone_where_kernels_do() {
    let text: Vec<u32> = (0..40).map(|i| (7 * i) % 1024).collect();
    let acts: Vec<Act> = (0..3).map(|i| Act::Arrive(Request::new([&text[..], &[i]].concat(), 6))).collect();
    let (log, asked, outcomes) = live(&mut engine(Mode::Throughput, LIMITS), Settings::plain(48), &acts);
    let mut lone = engine(Mode::Throughput, LIMITS);
    let alone = live(&mut lone, Settings::plain(48), &[Act::Arrive(asked[0].clone())]).0;
    let decoded = |log: &[Logged]| -> Vec<Row> {
        let of = |s: &Logged| s.requests.iter().position(|r| *r == 0).map(|g| (g, s.rows.clone()));
        let rows = log.iter().filter_map(of).flat_map(|(g, rows)| rows.into_iter().filter(move |r| r.group == g));
        rows.filter(|r| r.position as usize > text.len()).collect()
    };
    let (together, apart) = (decoded(&log), decoded(&alone));
    assert_eq!((together.len(), apart.len()), (5, 5));
    assert!(outcomes.values().all(|o| o.finish == Finish::Length));
    let differ = together.iter().zip(&apart).filter(|(a, b)| bits(a) != bits(b)).count();
    assert!(differ > 0, "three rows a step are in another class than one");
}

/// The suites above would be empty without these.
#[test]
fn a_small_cache_preempts_both_ways_and_shares_prefixes() {
    let text: Vec<u32> = (0..33).map(|i| (7 * i) % 1024).collect();
    for (swap_pages, expected) in [(0, Preemption::Recompute), (4, Preemption::Swap)] {
        let settings = Settings { swap_pages, prefix_cache: true, ..Settings::plain(48) };
        let acts: Vec<Act> =
            (0..3).map(|i| Act::Arrive(Request::new([&text[..], &[i]].concat(), 40))).chain([Act::Steps(3)]).collect();
        let late = Act::Arrive(Request::new(text.clone(), 2));
        let (log, _, outcomes) = live(&mut engine(Mode::Throughput, LIMITS), settings, &[acts, vec![late]].concat());
        assert!(outcomes.values().all(|o| o.finish == Finish::Length));
        let events: Vec<&Event> = log.iter().flat_map(|s| &s.events).collect();
        assert!(events.iter().any(|e| matches!(e, Event::Preempt { how, .. } if *how == expected)), "{events:?}");
        assert!(events.iter().any(|e| matches!(e, Event::Admit { cached, .. } if !cached.is_empty())));
        assert_eq!(swap_pages > 0, events.iter().any(|e| matches!(e, Event::Resume { .. })));
    }
}
