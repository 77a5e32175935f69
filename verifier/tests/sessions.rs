//! Logs of a server that batches continuously: requests go on from record to record, share prefixes, are preempted and cancelled.

use engine::batch::{Operator, OperatorError, Outcome, Request, StepLog};
use engine::device::EmulatedDevice;
use engine::journal::{Asked, Identity, Journal, request, unfinished};
use engine::sampler::Choice;
use engine::scheduler::{RequestKey, Settings};
use engine::session::Session;
use engine::step::Observe;
use engine::{Engine, Limits, Mode, Model};
use record::inference::Event;
use record::log::Directory;
use record::{Digest, EvidenceLevel, Fact, Log, PrivateKey, Record};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use verifier::Verdict;
use verifier::audit::Options;
use verifier::challenge::Plan;
use verifier::engine_replay::AtHand;
use verifier::log::{LogInput, audit};
use verifier::result::{AuditResult, ClaimKind, Subject};

const LIMITS: Limits = Limits { slots: 3, pages: 6, max_rows: 64 };
const SETTINGS: Settings = Settings { max_rows: 64, chunk: Some(24), prefix_cache: true, swap_pages: 3 };

fn key() -> PrivateKey {
    PrivateKey::from_seed(&[5; 32])
}

fn model() -> Arc<Model> {
    Arc::new(engine::model::embedded().unwrap())
}

/// Journals every step; may emit the runner-up once.
struct Server {
    journal: Journal,
    emitted: usize,
    swap: Option<usize>,
}

impl Operator for Server {
    fn emit(&mut self, _: RequestKey, _: u32, choice: Choice) -> u32 {
        self.emitted += 1;
        match (self.swap == Some(self.emitted), choice.runner_up) {
            (true, Some(other)) => other,
            _ => choice.token,
        }
    }

    fn step(&mut self, step: &StepLog<'_>) -> Result<(), OperatorError> {
        self.journal.step(step)
    }
}

/// Serves requests that come every few steps, with one common beginning, and writes a record whenever one ends.
fn serve(folder: &Path, mode: Mode, swap: Option<usize>) {
    Log::init(folder, "sessions", &key()).unwrap();
    let (mut log, _) = Log::open(folder, key()).unwrap();
    let device = EmulatedDevice::new("sm_90").unwrap().threads(2);
    let mut engine = Engine::new(model(), Box::new(device), mode, LIMITS).unwrap();
    let identity = Identity::of(&engine, SETTINGS).unwrap();
    let journal = Journal::new(&engine, EvidenceLevel::S, "s-", log.next().chain);
    let mut server = Server { journal, emitted: 0, swap };
    let mut session = Session::new(&mut engine, SETTINGS, Observe::STATE).unwrap();
    let beginning: Vec<u32> = (0..34).map(|i| 5 + 7 * i).collect();
    let mut asked: Vec<Request> = Vec::new();
    let (mut ended, mut outputs): (BTreeMap<RequestKey, Outcome>, BTreeMap<RequestKey, Vec<u32>>) = Default::default();
    for round in 0.. {
        if asked.len() < 6 && round % 3 == 0 {
            let number = asked.len() as u32;
            let prompt = [&beginning[..], &[number; 3]].concat();
            asked.push(Request { client: number % 2, ..Request::new(prompt, 9 + 4 * number) });
            session.submit(asked[number as usize].clone()).unwrap();
        }
        if round == 20 {
            session.cancel(4);
        }
        let Some(progress) = session.step(&mut server).unwrap() else { break };
        for (key, token) in progress.chosen {
            outputs.entry(key).or_default().push(token);
        }
        if progress.ended.is_empty() {
            continue;
        }
        ended.extend(progress.ended);
        let state = |key: RequestKey| {
            let name = Asked { id: format!("s-{key}"), nonce: None, seed_derivation: "none" };
            let asked = &asked[key as usize];
            match ended.get(&key) {
                Some(outcome) => request(&name, asked, outcome),
                None => unfinished(&name, asked, outputs.get(&key).map_or(&[], Vec::as_slice)),
            }
        };
        let (record, _) = server.journal.to_record(identity.clone(), state, log.next().link, Fact::Unspecified);
        record.check().unwrap();
        log.append(&record, 1).unwrap();
    }
    assert!(server.journal.steps().is_empty() && ended.len() == 6);
}

fn audited(folder: &Path, plan: Plan, mode: verifier::plan::Mode) -> AuditResult {
    let directory = Directory::new(folder);
    let at_hand = AtHand::emulated(model(), 2, None);
    let input = LogInput {
        subject: Subject { name: "server".into(), note: String::new() },
        source: &directory,
        key: &key().public(),
        origin: Some("sessions"),
        pinned: None,
        receipts: Vec::new(),
        evidence: &|_: &Digest| Ok(None),
        prepare: &|record: &Record| at_hand.prepare(record),
        plan,
        recheck: Vec::new(),
    };
    audit(&input, &Options { mode, ..Options::default() }, &|_, _, _| {}).unwrap()
}

#[test]
fn a_server_that_batches_continuously_is_audited_across_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    serve(&path, Mode::Throughput, None);
    let result = audited(&path, Plan::All, verifier::plan::Mode::Schedule);
    assert_eq!(result.verdict, Verdict::Match, "{}", result.headline);
    let [one] = result.records.as_slice() else { panic!("{} findings", result.records.len()) };
    assert!(one.last >= 4 && one.further.len() as u64 == one.last, "several records, audited as one");
    let scheduling = one.claims.iter().find(|c| c.claim == ClaimKind::Scheduling).unwrap();
    assert_eq!(scheduling.verdict, Verdict::Match, "{}", scheduling.detail);

    let cancelled: Vec<&str> =
        one.unverified.iter().filter(|u| u.fact == "cancellation").map(|u| u.declared.as_str()).collect();
    assert_eq!(cancelled, ["s-4"], "who withdrew it is the operator's word");

    // The history is worth the name.
    let directory = Directory::new(&path);
    let log = record::log::verify(&directory, &key().public(), &record::log::Expect::default()).unwrap();
    let records: Vec<Record> = (0..log.entries.len() as u64).map(|i| log.record(i).unwrap()).collect();
    let events: Vec<&Event> = records.iter().flat_map(|r| &r.steps).flat_map(|s| &s.schedule.events).collect();
    assert!(events.iter().any(|e| matches!(e, Event::Admit { cached, .. } if !cached.is_empty())));
    assert!(events.iter().any(|e| matches!(e, Event::Preempt { .. })));
    assert!(events.iter().any(|e| matches!(e, Event::Cancel { .. })));
}

#[test]
fn in_invariant_mode_one_prefill_a_request_shows_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    serve(&path, Mode::Invariant, None);
    let result = audited(&path, Plan::All, verifier::plan::Mode::Prefill);
    assert_eq!(result.verdict, Verdict::Match, "{}", result.headline);
}

#[test]
fn a_token_swapped_in_the_middle_of_a_session_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    serve(&path, Mode::Throughput, Some(17));
    let result = audited(&path, Plan::All, verifier::plan::Mode::Schedule);
    assert_eq!(result.verdict, Verdict::Mismatch, "{}", result.headline);
    let tokens = result.records[0].claims.iter().find(|c| c.claim == ClaimKind::Tokens).unwrap();
    assert_eq!(tokens.verdict, Verdict::Mismatch, "{}", tokens.detail);
}
