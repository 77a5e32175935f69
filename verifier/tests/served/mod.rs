//! Serves a few requests on the embedded model, honestly or not, and logs them: what the audits of the other tests are given.
#![allow(dead_code)] // each test file uses its part

use engine::batch::{BatchOptions, Operator, OperatorError, Request, StepLog, generate};
use engine::device::EmulatedDevice;
use engine::fault::Faults;
use engine::gated::{Judged, Setup};
use engine::journal::{Asked, Identity, Journal, request};
use engine::kernels::KvType;
use engine::parallel::Division;
use engine::sampler::{Choice, Sampling, Seeded};
use engine::scheduler::{RequestKey, Settings};
use engine::scores::{Scores, Wanted};
use engine::step::{Observe, StepOutput, StepPlan};
use engine::{Build, Dispatch, Engine, Limits, Mode, Model, policy};
use record::inference::{Link, RowGate, Time};
use record::{Digest, Evidence, EvidenceLevel, F32Bits, Fact, Record, commit};
use std::sync::Arc;
use verifier::audit::{Input, Options, audit};
use verifier::compare::Opened;
use verifier::engine_replay::AtHand;
use verifier::intake;
use verifier::result::RecordResult;
use verifier::scheduling::Follower;

/// Changes the weights of the model that serves.
pub type Alter = fn(&mut Model);

pub struct Serving {
    pub profile: &'static str,
    pub claims_profile: &'static str,
    pub mode: Mode,
    /// Tensor-parallel ranks that compute, and that are claimed.
    pub ranks: u32,
    pub claims_ranks: u32,
    /// Element type of the caches, and the one claimed.
    pub kv: KvType,
    pub claims_kv: KvType,
    pub level: EvidenceLevel,
    pub alter: Alter,
    /// Unreported rows beside decode steps.
    pub extra_rows: u32,
    /// Requests served together, at least 1.
    pub batch: u32,
    pub kv_splits: Option<u32>,
    /// Which emitted token, counted over the whole batch, is the runner-up instead.
    pub swap: Option<usize>,
    pub seed: Option<u64>,
    pub logged_seed: u64,
    pub new_tokens: u32,
    pub chunk: Option<u32>,
    /// Length of the first prompt, when not the usual few tokens.
    pub long_prompt: u32,
    /// How a gated engine decides.
    pub gate: Option<Setup>,
    /// What the operator has the gate think of a row.
    pub judge: fn(Judged) -> Judged,
    /// What the operator logs of the gate's decisions.
    pub decided: fn(RowGate) -> RowGate,
    /// A model of the engine's test data instead of the embedded one.
    pub tiny: Option<&'static str>,
    /// What both requests ask for, besides.
    pub ask: fn(&mut Request),
    /// What the record says that they asked for.
    pub log: fn(&mut Request),
    /// What the record says of them and of what came.
    pub state: fn(&mut record::inference::Request),
    /// Log-probabilities of the chosen tokens are logged.
    pub logprobs: bool,
    /// What goes wrong, and nobody is told.
    pub faults: &'static [&'static str],
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            profile: "sm_90",
            claims_profile: "sm_90",
            mode: Mode::Throughput,
            ranks: 1,
            claims_ranks: 1,
            kv: KvType::Bf16,
            claims_kv: KvType::Bf16,
            level: EvidenceLevel::S,
            alter: |_| {},
            extra_rows: 0,
            batch: 2,
            kv_splits: None,
            swap: None,
            seed: None,
            logged_seed: 5,
            new_tokens: 4,
            chunk: None,
            long_prompt: 0,
            gate: None,
            judge: |judged| judged,
            decided: |gate| gate,
            tiny: None,
            ask: |_| {},
            log: |_| {},
            state: |_| {},
            logprobs: false,
            faults: &[],
        }
    }
}

pub struct Served {
    pub record: Record,
    pub evidence: Evidence,
    pub model: Arc<Model>,
}

/// Journals what the policy says, runs something else, keeps every row.
struct Cheat<'a> {
    serving: &'a Serving,
    model: &'a Model,
    journal: Journal,
    emitted: usize,
    claimed: Vec<Dispatch>,
    faults: Faults,
    scores: Scores,
    /// Log-probabilities by request: of its tokens, and of its prompt's.
    values: Vec<[Vec<F32Bits>; 2]>,
}

impl Operator for Cheat<'_> {
    fn dispatch(&mut self, shape: policy::Shape, policy: Dispatch) -> Dispatch {
        if self.serving.gate.is_some() {
            self.claimed.push(policy);
            return policy;
        }
        let n = if shape.rows > shape.logits_rows { 0 } else { self.serving.extra_rows };
        let more = policy::Shape { rows: shape.rows + n, logits_rows: shape.logits_rows + n, ..shape };
        let division = Division::new(&self.model.config, self.serving.ranks).expect("a degree that divides the model");
        let mut d = policy::dispatch(self.serving.mode, &division.shard, more);
        if let Some(splits) = self.serving.kv_splits {
            d.kv_splits = splits;
        }
        let claims =
            Division::new(&self.model.config, self.serving.claims_ranks).expect("a degree that divides the model");
        let hidden = self.serving.claims_ranks != self.serving.ranks;
        self.claimed.push(if hidden { policy::dispatch(self.serving.mode, &claims.shard, shape) } else { policy });
        self.faults.dispatch(shape, d)
    }

    fn run(&mut self, engine: &mut Engine, plan: &StepPlan) -> engine::Result<StepOutput> {
        self.faults.run(engine, plan)
    }

    fn emit(&mut self, _: RequestKey, _: u32, choice: Choice) -> u32 {
        let choice = Choice { token: self.faults.emit(choice), ..choice };
        self.emitted += 1;
        match (self.serving.swap == Some(self.emitted - 1), choice.runner_up) {
            (true, Some(other)) => other,
            _ => choice.token,
        }
    }

    fn judge(&mut self, _: RequestKey, _: u32, judged: Judged) -> Judged {
        (self.serving.judge)(judged)
    }

    fn step(&mut self, step: &StepLog<'_>) -> Result<(), OperatorError> {
        let gate: Vec<_> = step.gate.iter().map(|g| g.map(self.serving.decided)).collect();
        let mut plan = step.plan.clone();
        plan.dispatch = *self.claimed.last().ok_or("no dispatch was asked for")?;
        self.scores.step(step)?;
        for (key, score) in &self.scores.chosen {
            self.values[*key as usize][0].push(score.token);
        }
        for (key, scores) in &self.scores.prompt {
            self.values[*key as usize][1].extend(scores.iter().map(|s| s.token));
        }
        Ok(self.journal.push(&StepLog { plan: &plan, gate: &gate, ..*step })?)
    }
}

pub fn model() -> Arc<Model> {
    Arc::new(engine::model::embedded().expect("the embedded model loads"))
}

impl Serving {
    fn limits(&self) -> Limits {
        Limits { slots: 4.max(self.batch), pages: 32 + self.batch, max_rows: 128 }
    }

    pub fn serve(&self) -> Served {
        let honest = match self.tiny {
            None => model(),
            Some(name) => {
                let folder = lastbit_tests::workspace_root().join("engine/tests/data").join(name);
                Arc::new(Model::load(&folder).expect("a model of the test data"))
            }
        };
        let mut altered = Model::clone(&honest);
        (self.alter)(&mut altered);
        let altered = Arc::new(altered);
        let device = || EmulatedDevice::new(self.profile).unwrap().threads(2);
        let gate = |engine: Engine| match &self.gate {
            Some(setup) => engine.with_gate(setup.clone()).unwrap(),
            None => engine,
        };
        let build = Build { ranks: self.ranks, kv: self.kv };
        let mut engine =
            gate(Engine::built(altered.clone(), Box::new(device()), self.mode, self.limits(), build).unwrap());
        let long: Vec<u32> = (0..self.long_prompt).map(|i| i * 37 % 1000).collect();
        let first: &[u32] = if long.is_empty() { &[0, 45, 300, 12, 77, 501] } else { &long };
        let others = (0..self.batch - 1).map(|i| vec![0, 9 + i, 640]);
        let prompts = std::iter::once(first.to_vec()).chain(others);
        let mut asked: Vec<Request> = prompts
            .map(|prompt| Request {
                sampling: match self.seed {
                    None => Sampling::Greedy,
                    Some(seed) => Sampling::Seeded(Seeded::plain(1.0, seed)),
                },
                ..Request::new(prompt.iter().map(|id| *id % honest.config.vocab_size).collect(), self.new_tokens)
            })
            .collect();
        asked.iter_mut().for_each(self.ask);
        let names: Vec<Asked> = (0..self.batch).map(|i| Asked::derived(format!("r{i}"), "00ff")).collect();
        let genesis = commit::genesis("test");
        let claims = EmulatedDevice::new(self.claims_profile).unwrap();
        let build = Build { ranks: self.claims_ranks, kv: self.claims_kv };
        let claimed = gate(Engine::built(honest.clone(), Box::new(claims), self.mode, self.limits(), build).unwrap());
        let journal = Journal::new(&claimed, self.level, "r", genesis).keeping_evidence();
        let observe = if self.level == EvidenceLevel::A { Observe::ACTIVATIONS } else { Observe::STATE };
        let options = BatchOptions { chunk: self.chunk, observe };
        let faults = self.faults.iter().map(|f| f.parse().unwrap()).collect();
        let faults = Faults::new(faults, &engine).unwrap();
        let mut scores = Scores::default();
        for (key, request) in (0..).zip(&asked) {
            let prompt = request.prompt_logprobs.then(|| (0, request.prompt.clone()));
            scores.want(key, Wanted { output: self.logprobs.then_some(0), prompt });
        }
        let values = vec![Default::default(); asked.len()];
        let mut operator =
            Cheat { serving: self, model: &altered, journal, emitted: 0, claimed: vec![], faults, scores, values };
        let outcomes = generate(&mut engine, &asked, &options, &mut operator).unwrap();
        let values = operator.values;
        let logged = |key: u64| {
            let mut logged = asked[key as usize].clone();
            if let Sampling::Seeded(s) = &mut logged.sampling {
                s.seed = self.logged_seed;
            }
            (self.log)(&mut logged);
            let mut stated = request(&names[key as usize], &logged, &outcomes[key as usize]);
            let [output, prompt] = values[key as usize].clone();
            stated.logprobs = self.logprobs.then_some(output);
            stated.prompt_logprobs = logged.prompt_logprobs.then_some(prompt);
            (self.state)(&mut stated);
            stated
        };
        let key_id = Digest::of_file(b"key");
        let settings = Settings { chunk: self.chunk, ..Settings::plain(self.limits().max_rows) };
        let (record, evidence) = operator.journal.to_record(
            Identity::of(&claimed, settings).unwrap(),
            logged,
            Link { origin: "test".into(), sequence: 0, previous: None, key_id },
            Fact::Known(Time { start_unix_us: 0, end_unix_us: 1 }),
        );
        record.check().expect("a consistent record");
        let mut evidence = evidence.expect("evidence was kept");
        evidence.record = record.digest().unwrap();
        Served { record, evidence, model: honest }
    }
}

impl Served {
    pub fn audit(&self) -> RecordResult {
        self.audit_on(&AtHand::emulated(self.model.clone(), 2, None), &Options::default(), true)
    }

    pub fn audit_on(&self, at_hand: &AtHand, options: &Options, open: bool) -> RecordResult {
        let prepared = at_hand.prepare(&self.record).unwrap();
        let file = self.evidence.to_file().unwrap();
        let opened = if open { intake::open(&file, &self.record).unwrap() } else { Opened::default() };
        let input = Input {
            seq: 0,
            parts: std::slice::from_ref(&self.record),
            record: &self.record,
            opened,
            set_aside: vec![],
            receipts: vec![],
            scheduling: Follower::default().record(Some(&self.record)),
            identity: prepared.identity,
            replayer: prepared.replayer.as_deref(),
        };
        let start = std::time::Instant::now();
        let r = audit(&input, options, &|_, _| {}).unwrap();
        if std::env::var_os("LASTBIT_TIMES").is_some() {
            eprintln!("audit: {:?}: {}", start.elapsed(), r.headline);
        }
        r
    }
}
