//! A toy operator: serves requests on the toy machine, honestly or not, and logs them.
#![allow(dead_code)] // each test file uses its part

pub mod machine;

use machine::Toy;
use record::inference::*;
use record::{Digest, EvidenceLevel, F32Bits, Fact, Record, U64Text, commit};
use verifier::audit::{Input, Options, audit};
use verifier::compare::{Opened, OpenedRow};
use verifier::ops::Op;
use verifier::replay::{Group, Machine, Past, Replayer, Splits, StepInput};
use verifier::result::{IdentityField, RecordResult};
use verifier::scheduling::Follower;

/// What the operator does, and what it claims.
pub struct Operator {
    pub machine: Machine,
    pub claims_profile: &'static str,
    pub mode: &'static str,
    pub level: EvidenceLevel,
    /// Rows that run beside the logged ones, by step.
    pub extra_rows: fn(usize) -> u32,
    /// Splits actually used, from those of the policy.
    pub splits: fn(Splits) -> Splits,
    /// Seed actually used, from the one that is logged.
    pub seed: fn(u64) -> u64,
    /// Token actually emitted: request, output index, ranked tokens.
    pub emit: fn(usize, usize, &[u32]) -> u32,
    /// Token actually fed, from the one that is logged, by request and position.
    pub feed: fn(usize, u32, u32) -> u32,
    pub seeded: bool,
}

impl Default for Operator {
    fn default() -> Self {
        Self {
            machine: Machine::declared("sm_90"),
            claims_profile: "sm_90",
            mode: "throughput",
            level: EvidenceLevel::A,
            extra_rows: |_| 0,
            splits: |s| s,
            seed: |s| s,
            emit: |_, _, ranked| ranked[0],
            feed: |_, _, token| token,
            seeded: false,
        }
    }
}

/// A served record with everything opened.
pub struct Served {
    pub record: Record,
    pub opened: Opened,
}

const STEPS: usize = 7;

impl Operator {
    /// Serves two requests: one prefill step of 3 + 2 rows, then decode steps of 2 rows.
    pub fn serve(&self) -> Served {
        let toy = Toy::default();
        let mut run = toy.start(&self.machine).unwrap();
        let mut requests = [request("a", vec![3, 1, 4], self.seeded), request("b", vec![1, 5], self.seeded)];
        let mut steps: Vec<Step> = Vec::new();
        let mut opened = Opened::default();
        let genesis = commit::genesis("toy");
        let mut chain = genesis;
        for s in 0..STEPS {
            let mut groups = Vec::new();
            for (r, request) in requests.iter().enumerate() {
                let end = request.prompt.len() + request.output.len();
                let start = if s == 0 { 0 } else { end - 1 };
                let logged = |p: usize| request.token_at(p as u64).unwrap();
                let tokens = (start..end).map(|p| (self.feed)(r, p as u32, logged(p))).collect();
                groups.push(Group { request: r as u32, start: start as u32, tokens, logits: 1 });
            }
            let input = StepInput { groups, ..StepInput::default() };
            let invariant = self.mode == "invariant";
            let policy =
                |n| if invariant { Splits::default() } else { toy.policy(&input.shape().with_extra_rows(n)).unwrap() };
            let ran = (self.splits)(policy((self.extra_rows)(s)));
            let claimed = policy(0);
            let rows = run.step(&input, &ran, self.level == EvidenceLevel::A).unwrap();
            for row in &rows {
                let r = row.request as usize;
                let Some(logits) = row.logits() else { continue };
                let mut decode = requests[r].decode.clone();
                decode.seed = decode.seed.map(|s| U64Text((self.seed)(s.0)));
                let mut ranked: Vec<(u32, u32)> = (0..machine::VOCAB as u32)
                    .map(|id| (toy.rank(&decode, Past::default(), logits, row.position, id).unwrap().unwrap(), id))
                    .collect();
                ranked.sort_unstable();
                let ranked: Vec<u32> = ranked.into_iter().map(|(_, id)| id).collect();
                let token = (self.emit)(r, requests[r].output.len(), &ranked);
                requests[r].output.push(token);
            }
            let schedule = Schedule {
                events: if s == 0 { arrivals(&requests) } else { Vec::new() },
                rows: input.groups.iter().map(|g| rows_of(g, s)).collect(),
                padded_rows: u64::from(input.rows()),
                execution: Execution::Eager,
                dispatch: Dispatch {
                    ops: toy
                        .splittable()
                        .into_iter()
                        .map(|op| OpDispatch { splits: claimed.of(&op), op, kernels: vec![0] })
                        .collect(),
                },
            };
            let mut leaves = Vec::new();
            for (leaf, (row, at)) in rows.iter().zip(schedule.each_row()).enumerate() {
                let request = &requests[at.request as usize];
                let id = commit::RowId {
                    request: &request.id,
                    position: at.position,
                    token: request.token_at(u64::from(at.position)).unwrap(),
                    chosen: at.logits.then(|| request.chosen_at(u64::from(at.position))).flatten(),
                };
                leaves.push(commit::leaf(&id, &row.components(self.level).unwrap()));
                let digests = row.outputs.iter().map(|(p, t)| (*p, t.view().digest().unwrap())).collect();
                opened.insert(s, leaf, OpenedRow { digests, outputs: row.outputs.clone() });
            }
            let mut step = commit::seal(s as u64, schedule, leaves, &chain).unwrap();
            step.time = Fact::Known(StepTime { start_us: 0, end_us: 1 });
            chain = step.chain;
            steps.push(step);
        }
        let record = self.record(requests.to_vec(), steps, ChainSpan { before: genesis, after: chain });
        record.check().expect("the toy operator writes consistent records");
        Served { record, opened }
    }

    fn record(&self, requests: Vec<Request>, steps: Vec<Step>, chain: ChainSpan) -> Record {
        let digest = Digest::of_file(b"toy");
        Record {
            kind: RECORD_TYPE.into(),
            model: Model {
                name: "toy".into(),
                architecture: "Toy".into(),
                files: vec![],
                config: digest,
                dtype_stored: "bf16".into(),
                dtype_computed: "bf16".into(),
                quantisation: Fact::Known(None),
                adapters: Fact::Known(vec![]),
            },
            text: Text {
                tokenizer: Fact::Known(None),
                chat_template: Fact::Known(None),
                added_special: Fact::Known(vec![]),
            },
            stack: Stack {
                engine: Engine {
                    name: "toy".into(),
                    version: "1".into(),
                    numerics_revision: 1,
                    commit: Fact::Known(None),
                    build: Fact::Known("none".into()),
                },
                device: Device {
                    kind: DeviceKind::Emulated,
                    profile: self.claims_profile.into(),
                    profile_digest: Fact::Known(digest),
                    gpu_model: Fact::Known(None),
                    driver: Fact::Known(None),
                },
                mode: self.mode.into(),
                dispatch_policy: "toy/1".into(),
                scheduler: Fact::Known(Scheduler {
                    rule: engine::scheduler::SCHEDULER.into(),
                    max_rows: 8,
                    slots: 2,
                    pages: 2,
                    chunk: None,
                    prefix_cache: false,
                    swap_pages: 0,
                }),
                kernels: vec![Kernel { name: "toy".into(), ptx_sha256: digest }],
                kv: KvCache { dtype: "bf16".into(), page_size: 16, layout: Fact::Known("position-order/1".into()) },
                rope: Fact::Known(None),
                gate: None,
            },
            parallelism: Fact::Known(Parallelism::single()),
            requests,
            steps,
            chain,
            evidence: self.level,
            time: Fact::Known(Time { start_unix_us: 0, end_unix_us: 1 }),
            link: Link { origin: "toy".into(), sequence: 0, previous: None, key_id: digest },
        }
    }
}

/// All requests come before the first step, and all find room.
fn arrivals(requests: &[Request]) -> Vec<Event> {
    let numbers = || 0..requests.len() as u32;
    let arrive = numbers().map(|request| Event::Arrive { request, priority: 0, client: 0 });
    arrive.chain(numbers().map(|request| Event::Admit { request, cached: vec![] })).collect()
}

fn rows_of(g: &Group, step: usize) -> Rows {
    let kind = if step == 0 { RowKind::Prefill } else { RowKind::Decode };
    Rows { request: g.request, start: g.start, count: g.tokens.len() as u32, kind, logits: g.logits, gate: None }
}

fn request(id: &str, prompt: Vec<u32>, seeded: bool) -> Request {
    let mut decode = Decode::greedy(STEPS as u32, vec![]);
    if seeded {
        decode.sampler = machine::GUMBEL.into();
        decode.temperature = F32Bits::new(1.0);
        decode.seed = Some(U64Text(41));
        decode.seed_derivation = Fact::Known("client".into());
        decode.counter = "absolute-position/1".into();
    }
    Request {
        id: id.into(),
        nonce: None,
        prompt,
        decode,
        output: vec![],
        finish: Finish::Length,
        logprobs: None,
        prompt_logprobs: None,
    }
}

impl Served {
    /// Audits with everything opened.
    pub fn audit(&self) -> RecordResult {
        self.audit_with(&Toy::default(), self.opened.clone(), &Options::default())
    }

    /// Audits with nothing opened.
    pub fn audit_blind(&self) -> RecordResult {
        self.audit_with(&Toy::default(), Opened::default(), &Options::default())
    }

    pub fn audit_with(&self, toy: &Toy, opened: Opened, options: &Options) -> RecordResult {
        let input = Input {
            seq: 0,
            parts: std::slice::from_ref(&self.record),
            record: &self.record,
            opened,
            set_aside: vec![],
            receipts: vec![],
            scheduling: Follower::default().record(Some(&self.record)),
            identity: vec![IdentityField {
                field: "model".into(),
                declared: "toy".into(),
                found: Some("toy".into()),
                agrees: true,
            }],
            replayer: Some(toy),
        };
        audit(&input, options, &|_, _| {}).unwrap()
    }
}

/// Leaves only what level `S` opens.
pub fn state_only(opened: &Opened, record: &Record) -> Opened {
    let mut out = Opened::default();
    for (s, step) in record.steps.iter().enumerate() {
        for leaf in 0..step.leaves.len() {
            let mut row = opened.row(s, leaf).unwrap().clone();
            row.outputs.retain(|p, _| matches!(p.op, Op::Embed | Op::K | Op::V | Op::MlpResidual | Op::LmHead));
            row.digests.clear();
            out.insert(s, leaf, row);
        }
    }
    out
}
