//! Sessions under random histories: requests come, go and are cancelled; the cache is too small; prefixes are shared. In `invariant` mode every row has the
//! bits it has alone; in `throughput` mode it has those of its logged schedule, and no others are needed to find them again.

mod common;

use std::collections::BTreeMap;

use common::{kjv, prefill};
use engine::batch::{Finish, Operator, OperatorError, Outcome, Request, StepLog};
use engine::device::EmulatedDevice;
use engine::kernels::PAGE;
use engine::kv::Slot;
use engine::scheduler::{Event, Preemption, RequestKey, Settings};
use engine::session::Session;
use engine::step::{Group, Observe, Row, StepPlan};
use engine::{Engine, Limits, Mode};
use proptest::prelude::*;

const LIMITS: Limits = Limits { slots: 3, pages: 10, max_rows: 48 };

fn engine(mode: Mode, limits: Limits) -> Engine {
    Engine::new(kjv(), Box::new(EmulatedDevice::new("sm_90").unwrap()), mode, limits).unwrap()
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

fn acts() -> impl Strategy<Value = Vec<Act>> {
    // Few beginnings, so that prefixes are found; lengths from one token to most of the cache.
    let prompt = (0..2u32, 1..70usize, 0..1024u32).prop_map(|(kind, length, last)| {
        let beginning = (0..length as u32 - 1).map(|i| (37 * kind + 11 * i) % 1024);
        beginning.chain([last]).collect::<Vec<u32>>()
    });
    let request = (prompt, 1..12u32, -1..2i32, 0..2u32).prop_map(|(prompt, max_new_tokens, priority, client)| {
        Request { priority, client, ..Request::new(prompt, max_new_tokens) }
    });
    let act = prop_oneof![
        4 => request.prop_map(Act::Arrive),
        1 => any::<u8>().prop_map(Act::Cancel),
        4 => (1..6u8).prop_map(Act::Steps),
    ];
    prop::collection::vec(act, 3..14)
}

fn settings() -> impl Strategy<Value = Settings> {
    (prop::option::of(3..20u32), any::<bool>(), 0..9u32).prop_map(|(chunk, prefix_cache, swap_pages)| Settings {
        max_rows: LIMITS.max_rows,
        chunk,
        prefix_cache,
        swap_pages,
    })
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn invariant_rows_have_the_bits_they_have_alone(settings in settings(), acts in acts()) {
        let (log, asked, outcomes) = live(&mut engine(Mode::Invariant, LIMITS), settings, &acts);
        let mut lone = engine(Mode::Invariant, Limits { max_rows: 128, ..LIMITS });
        for (key, request) in asked.iter().enumerate() {
            let outcome = &outcomes[&(key as u64)];
            prop_assert!(outcome.finish == Finish::Cancelled || outcome.output.len() == request.max_new_tokens as usize);
            let tokens = [&request.prompt[..], &outcome.output].concat();
            let alone = prefill(&mut lone, &tokens, Observe::STATE).rows;
            let own = log.iter().flat_map(|s| &s.rows).zip(log.iter().flat_map(|s| {
                s.plan.groups.iter().zip(&s.requests).flat_map(|(g, r): (&Group, _)| vec![*r; g.tokens.len()])
            }));
            for (row, _) in own.filter(|(_, r)| *r == key as u64) {
                let same_row = &alone[row.position as usize];
                let same = bits(row) == bits(&Row { logits: row.logits.as_ref().and(same_row.logits.clone()), ..same_row.clone() });
                prop_assert!(same, "request {key}, position {}", row.position);
            }
        }
    }

    #[test]
    fn throughput_rows_are_those_of_the_logged_schedule(settings in settings(), acts in acts()) {
        let (log, asked, _) = live(&mut engine(Mode::Throughput, LIMITS), settings, &acts);
        let roomy = Limits { slots: asked.len().max(1) as u32, pages: 8 * asked.len().max(1) as u32, ..LIMITS };
        let again = replay(&mut engine(Mode::Throughput, roomy), &log, asked.len());
        for (index, (step, rows)) in log.iter().zip(&again).enumerate() {
            prop_assert_eq!(step.rows.len(), rows.len());
            for (a, b) in step.rows.iter().zip(rows) {
                prop_assert!(bits(a) == bits(b), "step {index}, position {}", a.position);
            }
        }
    }
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
