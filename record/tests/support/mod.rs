//! Honest records and logs to take apart. Tensors are pseudo-random: nothing here computes a model.
#![allow(dead_code)] // Each test binary uses its own part of this module.

pub mod cases;
pub mod forge;

use std::path::Path;

use record::commit::{self, RowEvidence, RowId};
use record::inference::{
    ChainSpan, Decode, Device, DeviceKind, Dispatch, Engine, Event, Execution, FileDigest, Finish, Kernel, KvCache,
    Model, OpDispatch, Parallelism, Record, Request, Rope, RowKind, Rows, Schedule, Scheduler, Stack, StepTime, Text,
    Time,
};
use record::log::{Ack, Directory, Memory, Next};
use record::{Digest, Evidence, EvidenceLevel, F32Bits, Fact, Log, PrivateKey, TensorView};

pub const ORIGIN: &str = "example.org/log";
pub const START_US: u64 = 1_764_547_200_000_000;
const LAYERS: usize = 2;
const VOCAB: usize = 11;

pub fn key() -> PrivateKey {
    PrivateKey::from_seed(&[0x11; 32])
}

pub fn other_key() -> PrivateKey {
    PrivateKey::from_seed(&[0x22; 32])
}

/// SplitMix64, so that tests need no random crate and no clock.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// The tensors of one row, owned.
pub struct RowTensors {
    logits: Option<Vec<u32>>,
    k: Vec<Vec<u16>>,
    v: Vec<Vec<u16>>,
    boundaries: Vec<Vec<u16>>,
}

impl RowTensors {
    pub fn new(seed: u64, logits: bool) -> Self {
        let mut random = Random(seed);
        let mut column = |n: usize| -> Vec<u16> { (0..n).map(|_| random.next() as u16).collect() };
        let k = (0..LAYERS).map(|_| column(8)).collect();
        let v = (0..LAYERS).map(|_| column(8)).collect();
        let boundaries = (0..=LAYERS).map(|_| column(6)).collect();
        let logits = logits.then(|| (0..VOCAB).map(|_| random.next() as u32).collect());
        Self { logits, k, v, boundaries }
    }

    pub fn evidence(&self, level: EvidenceLevel) -> RowEvidence<'_> {
        fn columns(list: &[Vec<u16>]) -> Vec<TensorView<'_>> {
            list.iter().map(|bits| TensorView::bf16(&[2, 4], bits)).collect()
        }
        let boundaries: Vec<_> = self.boundaries.iter().map(|bits| TensorView::bf16(&[6], bits)).collect();
        let activations = (level == EvidenceLevel::A).then(|| {
            let mut named = vec![("embed".to_owned(), boundaries[0])];
            for layer in 0..LAYERS {
                named.push((format!("layers.{layer}.k"), TensorView::bf16(&[2, 4], &self.k[layer])));
                named.push((format!("layers.{layer}.mlp_residual"), boundaries[layer + 1]));
            }
            named
        });
        RowEvidence {
            logits: self.logits.as_ref().map(|bits| TensorView::f32(&[VOCAB as u64], bits)),
            k: columns(&self.k),
            v: columns(&self.v),
            boundaries,
            activations,
        }
    }
}

fn hash(text: &str) -> Digest {
    Digest::of_file(text.as_bytes())
}

pub fn model() -> Model {
    Model {
        name: "toy".to_owned(),
        architecture: "LlamaForCausalLM".to_owned(),
        files: vec![
            FileDigest { path: "config.json".to_owned(), size: 600, sha256: hash("config") },
            FileDigest { path: "model.safetensors".to_owned(), size: 4_000_000, sha256: hash("weights") },
        ],
        config: hash("config"),
        dtype_stored: "f32".to_owned(),
        dtype_computed: "bf16".to_owned(),
        quantisation: Fact::Known(None),
        adapters: Fact::Known(Vec::new()),
    }
}

pub fn stack() -> Stack {
    Stack {
        engine: Engine {
            name: "lastbit".to_owned(),
            version: "0.1.0".to_owned(),
            numerics_revision: 1,
            commit: Fact::Unspecified,
            build: Fact::Known("release".to_owned()),
        },
        device: Device {
            kind: DeviceKind::Emulated,
            profile: "sm_90".to_owned(),
            profile_digest: Fact::Known(hash("profile")),
            gpu_model: Fact::Known(None),
            driver: Fact::Known(None),
        },
        mode: "throughput".to_owned(),
        dispatch_policy: "throughput/1".to_owned(),
        scheduler: Fact::Known(Scheduler {
            rule: "continuous/1".to_owned(),
            max_rows: 64,
            slots: 4,
            pages: 32,
            chunk: Some(2),
            prefix_cache: false,
            swap_pages: 0,
        }),
        kernels: ["gemm", "reduce", "attention"]
            .map(|name| Kernel { name: name.to_owned(), ptx_sha256: hash(name) })
            .to_vec(),
        kv: KvCache { dtype: "bf16".to_owned(), page_size: 16, layout: Fact::Known("position-order/1".to_owned()) },
        rope: Fact::Known(Some(Rope { table: hash("rope"), theta: F32Bits::new(10000.0) })),
        gate: None,
    }
}

fn schedule(rows: Vec<Rows>) -> Schedule {
    let count: u64 = rows.iter().map(|rows| u64::from(rows.count)).sum();
    Schedule {
        events: Vec::new(),
        padded_rows: count,
        rows,
        execution: Execution::Eager,
        dispatch: Dispatch {
            ops: vec![
                OpDispatch { op: "qkv".to_owned(), kernels: vec![0, 1], splits: 4 },
                OpDispatch { op: "attention".to_owned(), kernels: vec![2], splits: 1 },
            ],
        },
    }
}

/// Two requests: one prefilled in two chunks, both decoded together. Seven rows in three steps.
pub fn record(next: &Next, level: EvidenceLevel) -> (Record, Evidence) {
    let request = |id: &str, nonce: Option<&str>, prompt: &[u32], output: &[u32]| Request {
        id: id.to_owned(),
        nonce: nonce.map(str::to_owned),
        prompt: prompt.to_vec(),
        decode: Decode::greedy(2, vec![0]),
        output: output.to_vec(),
        finish: Finish::Length,
        logprobs: None,
        prompt_logprobs: None,
    };
    let group = |request, start, count, kind, logits| Rows { request, start, count, kind, logits, gate: None };
    let mut schedules = [
        schedule(vec![group(0, 0, 2, RowKind::Prefill, 0), group(1, 0, 1, RowKind::Prefill, 1)]),
        schedule(vec![group(0, 2, 1, RowKind::Prefill, 1), group(1, 1, 1, RowKind::Decode, 1)]),
        schedule(vec![group(0, 3, 1, RowKind::Decode, 1)]),
    ];
    let arrive = |request| Event::Arrive { request, priority: 0, client: request };
    let admit = |request| Event::Admit { request, cached: Vec::new() };
    schedules[0].events = vec![arrive(0), arrive(1), admit(0), admit(1)];
    let mut record = Record {
        kind: record::inference::RECORD_TYPE.to_owned(),
        model: model(),
        text: Text {
            tokenizer: Fact::Known(Some(hash("tokenizer"))),
            chat_template: Fact::Known(None),
            added_special: Fact::Known(vec![1]),
        },
        stack: stack(),
        parallelism: Fact::Known(Parallelism::single()),
        requests: vec![request("r0", Some("00ff"), &[1, 5, 9], &[7, 3]), request("r1", None, &[1], &[4, 6])],
        steps: Vec::new(),
        chain: ChainSpan { before: next.chain, after: next.chain },
        evidence: level,
        time: Fact::Known(Time { start_unix_us: START_US, end_unix_us: START_US + 900 }),
        link: next.link.clone(),
    };
    let first = next.link.sequence * 3;
    let mut opened = Vec::new();
    for (offset, schedule) in schedules.into_iter().enumerate() {
        let index = first + offset as u64;
        let mut leaves = Vec::new();
        for row in schedule.each_row() {
            let tensors = RowTensors::new(index * 100 + row.leaf as u64, row.logits);
            let components = tensors.evidence(level).components().unwrap();
            let id: RowId<'_> = record.row_id(&row).unwrap();
            leaves.push(commit::leaf(&id, &components));
            opened.push((index, row.leaf as u32, tensors));
        }
        let mut step = commit::seal(index, schedule, leaves, &record.chain.after).unwrap();
        step.time = Fact::Known(StepTime { start_us: index * 10, end_us: index * 10 + 9 });
        record.chain.after = step.chain;
        record.steps.push(step);
    }
    let mut evidence = Evidence::new(record.digest().unwrap(), level);
    for (step, leaf, tensors) in &opened {
        evidence.add_row(*step, *leaf, &tensors.evidence(level)).unwrap();
    }
    (record, evidence)
}

/// Recomputes roots and chain after an edit, as a dishonest operator would.
pub fn reseal(record: &mut Record) {
    let mut chain = record.chain.before;
    for step in &mut record.steps {
        let time = step.time.clone();
        *step = commit::seal(step.index, step.schedule.clone(), step.leaves.clone(), &chain).unwrap();
        step.time = time;
        chain = step.chain;
    }
    record.chain.after = chain;
}

/// Creates a log of `n` records under `key`.
pub fn make_log(dir: &Path, origin: &str, key: &PrivateKey, n: usize) -> (Log, Vec<(Record, Ack)>) {
    Log::init(dir, origin, key).unwrap();
    let (mut log, _) = Log::open(dir, key.clone()).unwrap();
    let records = (0..n).map(|_| append(&mut log)).collect();
    (log, records)
}

/// Appends one more honest record.
pub fn append(log: &mut Log) -> (Record, Ack) {
    let (record, _) = record(&log.next(), EvidenceLevel::S);
    let ack = log.append(&record, START_US + log.size()).unwrap();
    (record, ack)
}

pub fn memory(dir: &Path) -> Memory {
    Memory::load(&Directory::new(dir)).unwrap()
}

/// An honest log of `n` records, in memory.
pub fn honest(origin: &str, key: &PrivateKey, n: usize) -> Memory {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    drop(make_log(&path, origin, key, n));
    memory(&path)
}

/// Writes a log in memory as a directory.
pub fn copy_log(log: &Memory, dir: &Path) {
    for sub in ["records", "evidence", "receipts", "torn"] {
        std::fs::create_dir_all(dir.join(sub)).unwrap();
    }
    let directory = Directory::new(dir);
    let files = [
        (dir.join("lock"), &Vec::new()),
        (directory.entries_path(), &log.entries),
        (directory.keys_path(), &log.keys),
        (directory.checkpoint_path(), &log.checkpoint),
    ];
    let records = log.records.iter().map(|(digest, file)| (directory.record_path(digest), file));
    for (path, bytes) in files.into_iter().chain(records) {
        std::fs::write(path, bytes).unwrap();
    }
}
