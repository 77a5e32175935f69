use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

fn arrival(prompt: &[u32], max_new_tokens: u32) -> Arrival {
    Arrival { prompt: prompt.to_vec(), max_new_tokens, priority: 0, client: 0, prompt_logits: false }
}

/// Runs a scheduler without an engine: the token chosen at a position is a function of the tokens before it.
struct Bench {
    scheduler: Scheduler,
    kv: KvTables,
    /// Tokens of each request, and how many it may have.
    texts: BTreeMap<RequestKey, (Vec<u32>, usize)>,
    held: BTreeMap<RequestKey, u32>,
}

fn token_after(tokens: &[u32]) -> u32 {
    tokens.iter().fold(17, |h: u32, t| h.wrapping_mul(31).wrapping_add(*t)) % 50
}

impl Bench {
    fn new(settings: Settings, pages: u32, slots: u32) -> Self {
        let kv = KvTables::new(pages, slots, 4096);
        let scheduler = Scheduler::new(settings, &kv).unwrap();
        Self { scheduler, kv, texts: BTreeMap::new(), held: BTreeMap::new() }
    }

    fn arrive(&mut self, a: Arrival) -> RequestKey {
        let end = a.prompt.len() + a.max_new_tokens as usize;
        let key = self.scheduler.arrive(a.clone());
        self.texts.insert(key, (a.prompt, end));
        key
    }

    /// One step, checked: contiguous rows, known tokens, no more rows than allowed.
    fn step(&mut self) -> Option<Decision> {
        let d = self.scheduler.next(&mut self.kv).unwrap()?;
        for event in &d.events {
            match event {
                Event::Admit { request, cached } => {
                    let pages: u32 = cached.iter().map(|c| c.pages).sum();
                    self.held.insert(*request, pages * PAGE);
                }
                Event::Preempt { request, how: Preemption::Recompute } | Event::Cancel { request } => {
                    self.held.remove(request);
                }
                _ => {}
            }
        }
        let rows: usize = d.turns.iter().map(|t| t.tokens.len()).sum();
        assert!(rows > 0 && rows <= self.scheduler.settings().max_rows as usize);
        let mut chosen = Vec::new();
        for t in &d.turns {
            let (text, end) = self.texts.get_mut(&t.request).unwrap();
            let held = self.held.get_mut(&t.request).unwrap();
            assert_eq!(t.start, *held, "request {} goes on where it was", t.request);
            *held += t.tokens.len() as u32;
            assert_eq!(t.tokens, text[t.start as usize..*held as usize]);
            assert_eq!(t.chooses, *held as usize == text.len());
            assert!(!t.chooses || t.logits != Logits::None);
            assert!(t.chooses || t.logits != Logits::Last);
            chosen.push(t.chooses.then(|| {
                text.push(token_after(text));
                (text[text.len() - 1], text.len() == *end)
            }));
        }
        self.scheduler.computed(&d.turns, &chosen, false, &mut self.kv).unwrap();
        Some(d)
    }

    fn finish(&mut self) -> Vec<Decision> {
        std::iter::from_fn(|| self.step()).take(100_000).collect()
    }
}

fn sizes(d: &Decision) -> Vec<(RequestKey, u32, usize, Logits)> {
    d.turns.iter().map(|t| (t.request, t.start, t.tokens.len(), t.logits)).collect()
}

#[test]
fn chunks_fill_what_decoding_leaves() {
    let mut bench = Bench::new(Settings { chunk: Some(4), ..Settings::plain(8) }, 64, 4);
    for prompt in [10, 3, 9, 2] {
        bench.arrive(arrival(&vec![1; prompt], 4));
    }
    assert_eq!(
        sizes(&bench.step().unwrap()),
        [(0, 0, 4, Logits::None), (1, 0, 3, Logits::Last), (2, 0, 1, Logits::None)]
    );
    // One row for the decoding request, then 4 + 3, and no room for the last prompt.
    let second = [(0, 4, 4, Logits::None), (1, 3, 1, Logits::Last), (2, 1, 3, Logits::None)];
    assert_eq!(sizes(&bench.step().unwrap()), second);
    bench.finish();
    assert_eq!(bench.kv.available(), 64);
}

#[test]
fn priority_then_fair_shares_then_arrival() {
    let mut bench = Bench::new(Settings::plain(64), 64, 1);
    let of = |client, priority| Arrival { priority, client, ..arrival(&[5; 8], 2) };
    let order = [of(1, 0), of(1, 0), of(2, 0), of(3, 9)];
    for a in order {
        bench.arrive(a);
    }
    let admitted: Vec<RequestKey> = bench
        .finish()
        .iter()
        .flat_map(|d| &d.events)
        .filter_map(|e| if let Event::Admit { request, .. } = e { Some(*request) } else { None })
        .collect();
    // The urgent one first; then client 1 once, and client 2 before client 1 again.
    assert_eq!(admitted, [3, 0, 2, 1]);
}

#[test]
fn a_full_cache_preempts_the_last_and_serves_all() {
    for swap_pages in [0, 8] {
        let mut bench = Bench::new(Settings { swap_pages, ..Settings::plain(64) }, 6, 3);
        for i in 0..3 {
            bench.arrive(arrival(&[i; 20], 40));
        }
        let steps = bench.finish();
        let how: Vec<Preemption> = steps
            .iter()
            .flat_map(|d| &d.events)
            .filter_map(|e| if let Event::Preempt { how, .. } = e { Some(*how) } else { None })
            .collect();
        assert!(!how.is_empty());
        assert!(how.contains(&if swap_pages > 0 { Preemption::Swap } else { Preemption::Recompute }), "{how:?}");
        assert!(bench.texts.values().all(|(text, end)| text.len() == *end));
        assert_eq!((bench.kv.available(), bench.scheduler.load()), (6, (0, 0)));
    }
}

#[test]
fn shared_prefixes_are_computed_once() {
    let mut bench = Bench::new(Settings { prefix_cache: true, ..Settings::plain(256) }, 64, 4);
    let system: Vec<u32> = (0..40).collect();
    bench.arrive(arrival(&[&system[..], &[1, 2, 3]].concat(), 3));
    bench.finish();
    bench.arrive(arrival(&[&system[..], &[7]].concat(), 1));
    let d = bench.step().unwrap();
    assert_eq!(
        d.events[1],
        Event::Admit { request: 1, cached: vec![Adopted { source: Source { request: 0, step: 0 }, pages: 2 }] }
    );
    assert_eq!(sizes(&d), [(1, 32, 9, Logits::Last)]);
    // A prompt that is cached whole still computes its last token.
    bench.arrive(arrival(&system[..32], 1));
    assert_eq!(sizes(&bench.step().unwrap()), [(2, 16, 16, Logits::Last)]);
}

#[test]
fn a_cancelled_request_leaves_and_is_reported() {
    let mut bench = Bench::new(Settings::plain(16), 16, 2);
    let keys: Vec<RequestKey> = (0..3).map(|i| bench.arrive(arrival(&[i; 4], 9))).collect();
    bench.step().unwrap();
    assert!(bench.scheduler.cancel(keys[0]) && bench.scheduler.cancel(keys[2]) && !bench.scheduler.cancel(9));
    let d = bench.step().unwrap();
    assert_eq!(d.events, [Event::Cancel { request: 0 }, Event::Cancel { request: 2 }]);
    assert_eq!(sizes(&d), [(1, 4, 1, Logits::Last)]);
    bench.finish();
    assert!(!bench.scheduler.cancel(keys[1]), "it has ended");
    assert_eq!(bench.kv.available(), 16);
}

#[test]
fn settings_that_could_starve_a_request_are_refused() {
    let kv = KvTables::new(4, 4, 64);
    assert!(matches!(Scheduler::new(Settings::plain(3), &kv), Err(Error::Plan { .. })));
    assert!(matches!(Scheduler::new(Settings { chunk: Some(0), ..Settings::plain(9) }, &kv), Err(Error::Plan { .. })));
}

#[derive(Clone, Debug)]
enum Act {
    Arrive(Arrival),
    Cancel(u8),
    Step,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    // Prompts share beginnings, so that the cache has something to find.
    let prompt = (0..3u32, 1..90usize, 0..4u32).prop_map(|(kind, length, end)| {
        let mut prompt: Vec<u32> = (0..length as u32).map(|i| i + kind).collect();
        prompt.push(end);
        prompt
    });
    let arrival = (prompt, 1..40u32, -1..2i32, 0..3u32, prop::bool::weighted(0.2)).prop_map(
        |(prompt, max_new_tokens, priority, client, prompt_logits)| Arrival {
            prompt,
            max_new_tokens,
            priority,
            client,
            prompt_logits,
        },
    );
    let act =
        prop_oneof![3 => arrival.prop_map(Act::Arrive), 1 => any::<u8>().prop_map(Act::Cancel), 6 => Just(Act::Step)];
    prop::collection::vec(act, 1..60)
}

proptest! {
    /// Whatever comes and goes: rows are contiguous (checked in `step`), everybody is served to the end, the same history gives the same
    /// decisions, and every page comes back.
    #[test]
    fn every_history_is_served(
        acts in acts(),
        chunk in prop::option::of(1..20u32),
        prefix_cache: bool,
        swap_pages in 0..12u32,
        slots in 1..5u32,
    ) {
        let settings = Settings { max_rows: 24, chunk, prefix_cache, swap_pages };
        let run = || {
            let mut bench = Bench::new(settings, 9, slots);
            let (mut decisions, mut cancelled) = (Vec::new(), Vec::new());
            for act in &acts {
                match act {
                    Act::Arrive(a) => { bench.arrive(a.clone()); }
                    Act::Cancel(n) => {
                        let key = RequestKey::from(*n % 8);
                        if bench.scheduler.cancel(key) { cancelled.push(key); }
                    }
                    Act::Step => decisions.extend(bench.step()),
                }
            }
            decisions.extend(bench.finish());
            (decisions, cancelled, bench)
        };
        let (decisions, cancelled, bench) = run();
        prop_assert_eq!(bench.scheduler.load(), (0, 0));
        // Withdrawn requests that were the last ones hold theirs until there is another step.
        let withdrawn = bench.texts.keys().any(|k| cancelled.contains(k));
        prop_assert!(bench.kv.available() == 9 || withdrawn);
        // Prompts that are to have logits have them in every row, also where others find them computed.
        let scored: BTreeMap<RequestKey, usize> = acts.iter().filter_map(|a| match a { Act::Arrive(a) => Some(a), _ => None })
            .enumerate().filter(|(_, a)| a.prompt_logits).map(|(key, a)| (key as RequestKey, a.prompt.len())).collect();
        for (key, length) in &scored {
            let mut reached = 0;
            for t in decisions.iter().flat_map(|d| &d.turns).filter(|t| t.request == *key && (t.start as usize) < *length) {
                if reached < *length {
                    prop_assert_eq!(t.logits, Logits::All);
                    reached = reached.max(t.start as usize + t.tokens.len());
                    prop_assert!(t.start as usize <= reached);
                }
            }
        }
        for (key, (text, end)) in &bench.texts {
            prop_assert!(text.len() == *end || cancelled.contains(key), "request {}", key);
        }
        prop_assert_eq!(run().0, decisions);
    }
}
