//! The engine as a [`Replayer`]: the same kernels, the same `step`, on whatever device the caller makes.

use crate::capture;
use crate::error::Error;
use crate::identity;
use crate::log::Prepared;
use crate::ops::{Op, Point};
use crate::replay::{
    Again, Kept, Machine, Prefix, ReplayError, Replayer, Row, Run, Shape, Splits, StepInput, WeightChange, WeightRow,
};
use emulator::format::Elem;
use emulator::mma::{Instruction, M16N8K16, Types};
use emulator::profile::Profile;
use emulator::simd::Level;
use engine::device::{Device, EmulatedDevice};
use engine::gated::Signal;
use engine::kernels::{KvType, PAGE, Stream, Units};
use engine::kv::Slot;
use engine::model::Model;
use engine::parallel::{Division, RANKS};
use engine::policy::{self, Dispatch, KDivision, Mode};
use engine::runtime::{Build, Engine, Limits, pages_for};
use engine::sampler::{Adjust, Past, Sampling};
use engine::step::{Group, Logits, Observe, StepOutput, StepPlan};
use engine::weights::{Padded, Scheme, TensorPlace, places};
use record::Record;
use record::inference::Decode;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes a device of a profile; [`ReplayError::Unknown`] for one that is not known.
pub type Devices = Arc<dyn Fn(&str) -> Result<Box<dyn Device>, ReplayError>>;

/// A model at hand, and devices to replay on.
pub struct AtHand {
    model: Arc<Model>,
    devices: Devices,
    profiles: Vec<String>,
}

impl AtHand {
    /// The model, a maker of devices, and the profiles it knows.
    pub fn new(model: Arc<Model>, devices: Devices, profiles: Vec<String>) -> Self {
        Self { model, devices, profiles }
    }

    /// The model on emulated devices, with every profile that can run the engine's matrix instruction.
    ///
    /// Neither `threads` nor `simd` changes a bit of a result; without `simd`, the fastest vector instructions of this machine.
    pub fn emulated(model: Arc<Model>, threads: usize, simd: Option<Level>) -> Self {
        let simd = simd.unwrap_or_else(Level::detect);
        Self::on_emulated(model, move |name| Ok(EmulatedDevice::new(name)?.threads(threads).simd(simd)))
    }

    /// The same on emulated devices that `device` makes of the name of a profile.
    pub fn on_emulated(model: Arc<Model>, device: impl Fn(&str) -> engine::Result<EmulatedDevice> + 'static) -> Self {
        let runs = |p: &&Profile| p.mma(&Instruction::mma(M16N8K16, Types::new(Elem::Bf16, Elem::F32))).is_ok();
        let profiles = Profile::all().iter().filter(runs).map(|p| p.name.to_owned()).collect();
        let devices = move |name: &str| -> Result<Box<dyn Device>, ReplayError> {
            let unknown = |_| ReplayError::Unknown { what: format!("profile {name}") };
            Ok(Box::new(device(name).map_err(unknown)?))
        };
        Self::new(model, Arc::new(devices), profiles)
    }

    /// Compares what a record declares with what is at hand, and prepares the replay if all of it is.
    ///
    /// # Errors
    /// [`Error`] when the engine cannot be made for a reason that is not the record's.
    pub fn prepare(&self, record: &Record) -> Result<Prepared, Error> {
        let profile = &record.stack.device.profile;
        let mode = Mode::from_policy(&record.stack.dispatch_policy);
        // A degree that this engine cannot run is compared as one rank, and so disagrees.
        let declared = record.parallelism.known().map_or(1, |p| p.tensor);
        let division = Division::new(&self.model.config, declared).or_else(|_| Division::new(&self.model.config, 1));
        let division = division.map_err(failed)?;
        let (mut identity, mut replayer) = (Vec::new(), None);
        let device = match (self.devices)(profile) {
            Ok(device) => Some(device),
            Err(ReplayError::Unknown { .. }) => None,
            Err(e) => return Err(e.into()),
        };
        match (device, mode) {
            (Some(device), Some(mode)) => {
                let limits = limits(record, self.model.config.max_positions);
                // A type that this engine does not have is compared as bf16, and so disagrees.
                let kv = KvType::from_id(&record.stack.kv.dtype).unwrap_or_default();
                let build = Build { ranks: division.ranks, kv };
                let engine = Engine::built(self.model.clone(), device, mode, limits, build).map_err(failed)?;
                identity.extend(identity::compare(record, &engine)?);
                if identity.iter().all(|f| f.agrees || f.field == identity::KERNEL_NAMES) {
                    replayer = Some(Box::new(EngineReplayer {
                        model: self.model.clone(),
                        devices: self.devices.clone(),
                        profiles: self.profiles.clone(),
                        mode,
                        limits,
                        division,
                        kv,
                        places: places(&self.model.config),
                    }) as Box<dyn Replayer>);
                }
            }
            (device, mode) => identity.extend(identity::unknown(record, device.is_some(), mode.is_some())),
        }
        Ok(Prepared { identity, replayer })
    }
}

/// An engine large enough for every step of a record, and for each of its requests as one prefill; but never for more positions than the
/// model has, whatever the record says.
fn limits(record: &Record, positions: u32) -> Limits {
    let length = |r: &record::inference::Request| u32::try_from(r.prompt.len() + r.output.len()).unwrap_or(u32::MAX);
    let lengths = || record.requests.iter().map(|r| length(r).clamp(1, positions.max(1)));
    let requests = u32::try_from(record.requests.len()).unwrap_or(u32::MAX);
    let widest = record.steps.iter().map(|s| s.leaves.len() as u32).max().unwrap_or(1);
    Limits {
        slots: requests.max(1),
        pages: lengths().map(|n| pages_for(1, n)).fold(0, u32::saturating_add).max(1),
        max_rows: widest.max(lengths().max().unwrap_or(1)).max(1),
    }
}

struct EngineReplayer {
    model: Arc<Model>,
    devices: Devices,
    profiles: Vec<String>,
    mode: Mode,
    limits: Limits,
    division: Division,
    kv: KvType,
    places: Vec<TensorPlace>,
}

fn failed(e: engine::Error) -> ReplayError {
    ReplayError::Failed { reason: e.to_string() }
}

fn sampling(decode: &Decode) -> Result<(Sampling, Adjust), ReplayError> {
    engine::journal::sampling(decode).map_err(|e| ReplayError::Unknown {
        what: match e {
            engine::Error::UnknownDecode { parameter, value } => format!("decoding parameter `{parameter}` = {value}"),
            other => format!("decoding with these parameters ({other})"),
        },
    })
}

/// The sampler counts the position that the chosen token will take.
const fn next(position: u32) -> u32 {
    position.saturating_add(1)
}

impl EngineReplayer {
    fn altered(&self, change: &WeightChange) -> Result<Arc<Model>, ReplayError> {
        let unknown = |what: String| ReplayError::Unknown { what };
        let mut model = match change {
            WeightChange::None | WeightChange::Divided { .. } | WeightChange::Cache(_) => {
                return Ok(self.model.clone());
            }
            _ => Model::clone(&self.model),
        };
        match change {
            WeightChange::None | WeightChange::Divided { .. } | WeightChange::Cache(_) => {}
            WeightChange::Quantised(id) => {
                let scheme = Scheme::from_id(id).ok_or_else(|| unknown(format!("quantisation {id}")))?;
                model.weights.quantise(&model.config, scheme);
            }
            WeightChange::Bit(bit) => {
                let place = self.places.iter().find(|p| p.name == bit.tensor);
                let element = place.and_then(|p| model.weights.element_mut(p, bit.row, bit.column));
                let element = element.ok_or_else(|| unknown(format!("{}[{}, {}]", bit.tensor, bit.row, bit.column)))?;
                *element ^= 1_u16.checked_shl(bit.bit).unwrap_or(0);
            }
        }
        Ok(Arc::new(model))
    }

    /// Tensor and row behind an element of an operation's output; a vector's element is its column.
    fn tensor(&self, point: Point, index: u32, token: u32) -> Option<(String, u32, Option<u32>)> {
        let c = &self.model.config;
        let (q, kv) = (c.q_heads * c.head_dim, c.kv_heads * c.head_dim);
        let layer = |part: &str| Some(format!("model.layers.{}.{part}.weight", point.layer?));
        Some(match point.op {
            Op::Embed => ("model.embed_tokens.weight".to_owned(), token, Some(index)),
            Op::AttnNorm => (layer("input_layernorm")?, 0, Some(index)),
            Op::MlpNorm => (layer("post_attention_layernorm")?, 0, Some(index)),
            Op::FinalNorm => ("model.norm.weight".to_owned(), 0, Some(index)),
            Op::Qkv if index < q => (layer("self_attn.q_proj")?, index, None),
            Op::Qkv if index < q + kv => (layer("self_attn.k_proj")?, index - q, None),
            Op::Qkv => (layer("self_attn.v_proj")?, index - q - kv, None),
            Op::V => (layer("self_attn.v_proj")?, index, None),
            Op::OProj => (layer("self_attn.o_proj")?, index, None),
            Op::GateUp if index < c.ffn => (layer("mlp.gate_proj")?, index, None),
            Op::GateUp => (layer("mlp.up_proj")?, index - c.ffn, None),
            Op::Down | Op::MlpResidual => (layer("mlp.down_proj")?, index, None),
            Op::LmHead if c.tied => ("model.embed_tokens.weight".to_owned(), index, None),
            Op::LmHead => ("lm_head.weight".to_owned(), index, None),
            Op::RopeQ | Op::K | Op::Attention | Op::AttnResidual | Op::SiluMul => return None,
        })
    }

    /// A row as the product sees it: heads of the attention output are padded one by one, everything else at the end.
    fn padded(&self, op: Op, values: &[u16]) -> Vec<u16> {
        let part = if op == Op::OProj { self.model.config.head_dim as usize } else { values.len() };
        let pad = engine::kernels::PAD as usize;
        let mut out = Vec::new();
        for piece in values.chunks(part.max(1)) {
            out.extend_from_slice(piece);
            out.resize(out.len().next_multiple_of(pad), 0);
        }
        out
    }

    /// Padded width and depth of a product's weight, of one rank.
    fn weight(&self, op: Op) -> (u32, u32) {
        let p = Padded::of(&self.division.shard);
        match op {
            Op::Qkv => (p.qkv, p.hidden),
            Op::OProj => (p.hidden, p.attn),
            Op::GateUp => (2 * p.ffn, p.hidden),
            Op::Down => (p.hidden, p.ffn),
            _ => (p.vocab, p.hidden),
        }
    }

    /// The column of a rank's product that an output element is.
    fn column(&self, op: Op, index: u32) -> u32 {
        let (c, s) = (&self.model.config, &self.division.shard);
        let p = Padded::of(s);
        match op {
            Op::Qkv | Op::V => {
                let first = if op == Op::V { (c.q_heads + c.kv_heads) * c.head_dim } else { 0 };
                let (head, within) = ((first + index) / c.head_dim, (first + index) % c.head_dim);
                let local = match head.checked_sub(c.q_heads) {
                    None => head % s.q_heads,
                    Some(k) if k < c.kv_heads => s.q_heads + k % s.kv_heads,
                    Some(v) => s.q_heads + s.kv_heads + (v - c.kv_heads) % s.kv_heads,
                };
                local * p.head + within
            }
            Op::GateUp if index < c.ffn => index % s.ffn,
            Op::GateUp => p.ffn + (index - c.ffn) % s.ffn,
            _ => index,
        }
    }
}

impl Replayer for EngineReplayer {
    fn start(&self, machine: &Machine) -> Result<Box<dyn Run + '_>, ReplayError> {
        let device = (self.devices)(&machine.profile)?;
        let model = self.altered(&machine.weights)?;
        let mut build = Build { ranks: self.division.ranks, kv: self.kv };
        let mut by_policy = false;
        match &machine.weights {
            WeightChange::Divided { ranks, by_policy: chosen } => (build.ranks, by_policy) = (*ranks, *chosen),
            WeightChange::Cache(id) => {
                let unknown = || ReplayError::Unknown { what: format!("a cache of {id}") };
                build.kv = KvType::from_id(id).ok_or_else(unknown)?;
            }
            _ => {}
        }
        let engine = Engine::built(model, device, self.mode, self.limits, build).map_err(failed)?;
        Ok(Box::new(EngineRun { engine, by_policy, slots: BTreeMap::new(), kept: BTreeMap::new() }))
    }

    fn policy(&self, shape: &Shape) -> Result<Splits, ReplayError> {
        let shape = policy::Shape { rows: shape.rows, logits_rows: shape.logits_rows, max_kv: shape.longest_kv };
        Ok(named(&policy::dispatch(self.mode, &self.division.shard, shape)))
    }

    fn splittable(&self) -> Vec<String> {
        if self.mode.units() == Units::Ieee {
            return Vec::new();
        }
        named_all(&Dispatch::UNSPLIT).into_iter().map(|(op, _)| op.to_owned()).collect()
    }

    fn profiles(&self) -> Vec<String> {
        self.profiles.clone()
    }

    fn degrees(&self) -> Vec<u32> {
        let possible = |ranks: &u32| *ranks != self.division.ranks && Division::new(&self.model.config, *ranks).is_ok();
        RANKS.into_iter().filter(possible).collect()
    }

    fn caches(&self) -> Vec<String> {
        KvType::ALL.into_iter().filter(|t| *t != self.kv).map(|t| t.id().to_owned()).collect()
    }

    fn schemes(&self) -> Vec<String> {
        Scheme::ALL.iter().map(|s| s.id().to_owned()).collect()
    }

    /// Numerically, split-K is which 16-blocks a slice holds. More slices than the blocks fill are empty and add `+0.0` to sums that a
    /// tensor core never leaves at `-0.0`. A stream's blocks without work do nothing at all.
    fn canonical(&self, splits: &Splits) -> Splits {
        [Op::Qkv, Op::OProj, Op::GateUp, Op::Down, Op::LmHead].into_iter().fold(splits.clone(), |splits, op| {
            let ((n, k), wanted) = (self.weight(op), splits.of(op.name()).max(1));
            let least = match self.mode.k_division() {
                KDivision::Slices => {
                    let blocks = k.div_ceil(engine::kernels::PAD).max(1);
                    blocks.div_ceil(blocks.div_ceil(wanted))
                }
                KDivision::Stream => Stream::new(n, k, wanted).workers(),
            };
            splits.with(op.name(), least)
        })
    }

    fn vocabulary(&self) -> u32 {
        self.model.config.vocab_size
    }

    fn positions(&self) -> u32 {
        self.model.config.max_positions
    }

    fn choose(&self, decode: &Decode, past: Past<'_>, logits: &[u32], position: u32) -> Result<u32, ReplayError> {
        let (sampling, adjust) = sampling(decode)?;
        Ok(sampling.choose_adjusted(&adjust, logits, past, next(position)).map_err(failed)?.token)
    }

    fn risk(&self, signal: &str, decode: &Decode, logits: &[u32], position: u32) -> Result<u32, ReplayError> {
        let unknown = |what: String| ReplayError::Unknown { what };
        let signal = Signal::from_id(signal).ok_or_else(|| unknown(format!("the signal {signal}")))?;
        let (sampling, adjust) = sampling(decode)?;
        if !adjust.is_off() {
            return Err(unknown("the risk of a choice from adjusted logits".to_owned()));
        }
        Ok(sampling.risk(&self.model, signal, logits, next(position)).map_err(failed)?.bits())
    }

    fn rank(
        &self,
        decode: &Decode,
        past: Past<'_>,
        logits: &[u32],
        position: u32,
        token: u32,
    ) -> Result<Option<u32>, ReplayError> {
        let (sampling, adjust) = sampling(decode)?;
        sampling.rank(&adjust, logits, past, next(position), token).map_err(failed)
    }

    fn logprob(&self, logits: &[u32], position: u32, token: u32) -> Result<u32, ReplayError> {
        engine::sampler::log_probability(logits, next(position), token).map_err(failed)
    }

    fn text_has(&self, ids: &[u32], strings: &[String]) -> Result<bool, ReplayError> {
        self.model.tokenizer.text_has(ids, strings).map_err(failed)
    }

    fn weights(&self, point: Point, index: u32, token: u32) -> Option<WeightRow> {
        let (tensor, row, column) = self.tensor(point, index, token)?;
        let place = self.places.iter().find(|p| p.name == tensor)?;
        let columns = column.map_or(0..place.cols, |c| c..c + 1);
        let first_column = columns.start;
        let values: Option<Vec<u16>> = columns.map(|c| self.model.weights.element(place, row, c)).collect();
        let bias = tensor.strip_suffix("weight").map(|stem| format!("{stem}bias"));
        let bias = self.places.iter().find(|p| Some(&p.name) == bias.as_ref());
        let bias = bias.and_then(|place| self.model.weights.element(place, 0, row));
        Some(WeightRow { tensor, row, first_column, values: values?, bias })
    }

    fn dot(
        &self,
        profile: &str,
        (op, index): (Op, u32),
        x: &[u16],
        w: &[u16],
        splits: u32,
    ) -> Result<u32, ReplayError> {
        let column = self.column(op, index);
        let op = match op {
            Op::V => Op::Qkv,
            Op::MlpResidual => Op::Down,
            op => op,
        };
        let one = |x: &[u16], w: &[u16]| {
            let (x, w) = (self.padded(op, x), self.padded(op, w));
            let cuts = match self.mode.k_division() {
                KDivision::Stream if splits > 1 => {
                    let cuts = Stream::new(self.weight(op).0, x.len() as u32, splits).cuts(column);
                    cuts.into_iter().map(|cut| cut.start as usize..cut.end as usize).collect()
                }
                _ => crate::dot::slices(x.len() / engine::kernels::PAD as usize, splits),
            };
            match self.mode.units() {
                Units::Special => crate::dot::dot(profile, &x, &w, &cuts),
                Units::Ieee => Ok(crate::dot::chain(&x, &w)),
            }
        };
        if self.division.ranks == 1 || !matches!(op, Op::OProj | Op::Down) {
            return one(x, w);
        }
        // Each rank has its columns.
        let width = x.len().div_ceil(self.division.ranks as usize).max(1);
        let parts = x.chunks(width).zip(w.chunks(width)).map(|(x, w)| one(x, w));
        Ok(crate::dot::all_reduce(&parts.collect::<Result<Vec<_>, _>>()?))
    }

    fn embeddings(&self, bits: &[u16]) -> Vec<u32> {
        let (c, table) = (&self.model.config, &self.model.weights.embed);
        (0..c.vocab_size).filter(|t| table.row(*t).get(..c.hidden as usize) == Some(bits)).collect()
    }
}

/// An engine in mid-replay.
struct EngineRun {
    engine: Engine,
    /// Steps run as the engine's own policy chooses.
    by_policy: bool,
    slots: BTreeMap<u32, Slot>,
    /// Columns that requests had after a step, page by page.
    kept: BTreeMap<Kept, Vec<Vec<u8>>>,
}

impl EngineRun {
    fn slot(&mut self, request: u32) -> Result<Slot, ReplayError> {
        let slot = match self.slots.get(&request) {
            Some(slot) => *slot,
            None => self.engine.open().map_err(failed)?,
        };
        self.slots.insert(request, slot);
        Ok(slot)
    }

    /// Gives a request the pages that it began with.
    fn begin(&mut self, prefix: &Prefix) -> Result<(), ReplayError> {
        let slot = self.slot(prefix.request)?;
        self.engine.truncate(slot, 0).map_err(failed)?;
        let mut page = 0_u32;
        for part in &prefix.parts {
            let end = page.saturating_add(part.pages);
            let known = self.kept.get(&part.kept).and_then(|pages| pages.get(page as usize..end as usize));
            let Some(pages) = known.map(<[Vec<u8>]>::to_vec) else {
                let reason = format!("the log has no pages {page}..{end} of a prefix after step {}", part.kept.step);
                return Err(ReplayError::Failed { reason });
            };
            self.engine.extend(slot, end.saturating_mul(PAGE)).map_err(failed)?;
            for bytes in pages {
                self.engine.restore(slot, page, &bytes).map_err(failed)?;
                page += 1;
            }
        }
        Ok(())
    }

    /// Computes rows again that the cache holds, and leaves their columns as they were unless they are replaced.
    fn again(
        &mut self,
        input: &StepInput,
        again: &Again,
        splits: &Splits,
        taps: bool,
    ) -> Result<Vec<Row>, ReplayError> {
        let (mut groups, mut saved) = (Vec::new(), Vec::new());
        for (group, replaces) in input.groups.iter().zip(&again.replaces) {
            let slot = self.slot(group.request)?;
            let logits = if group.logits == 0 { Logits::None } else { Logits::Last };
            groups.push(Group { slot, start: group.start, tokens: group.tokens.clone(), logits });
            if !replaces {
                let page = group.start / PAGE;
                saved.push((slot, page, self.engine.save(slot, page..page + 1).map_err(failed)?));
            }
        }
        let observe = if taps { Observe::ACTIVATIONS } else { Observe::STATE };
        let plan = StepPlan { groups, dispatch: dispatch(splits)?, observe };
        let output = self.engine.again(&plan, again.padded).map_err(failed)?;
        for (slot, page, bytes) in saved {
            self.engine.restore(slot, page, &bytes).map_err(failed)?;
        }
        for kept in &input.keep {
            self.keep(*kept)?;
        }
        Ok(rows(&output, input, &self.engine.model().config))
    }

    fn keep(&mut self, kept: Kept) -> Result<(), ReplayError> {
        let slot = self.slot(kept.request)?;
        let full = self.engine.positions(slot).map_err(failed)? / PAGE;
        let pages: Result<Vec<_>, _> = (0..full).map(|p| self.engine.save(slot, p..p + 1).map_err(failed)).collect();
        self.kept.insert(kept, pages?);
        Ok(())
    }
}

impl Run for EngineRun {
    fn step(&mut self, input: &StepInput, splits: &Splits, taps: bool) -> Result<Vec<Row>, ReplayError> {
        if let Some(again) = &input.again {
            return self.again(input, again, splits, taps);
        }
        let mut groups = Vec::new();
        for prefix in &input.prefixes {
            self.begin(prefix)?;
        }
        for group in &input.groups {
            let slot = self.slot(group.request)?;
            if self.engine.positions(slot).map_err(failed)? > group.start {
                self.engine.truncate(slot, group.start).map_err(failed)?;
            }
            let rows = group.tokens.len() as u32;
            let logits = match group.logits {
                0 => Logits::None,
                1 => Logits::Last,
                _ => Logits::All,
            };
            debug_assert!(group.logits <= rows);
            groups.push(Group { slot, start: group.start, tokens: group.tokens.clone(), logits });
        }
        let observe = if taps { Observe::ACTIVATIONS } else { Observe::STATE };
        let shape = input.shape();
        let shape = policy::Shape { rows: shape.rows, logits_rows: shape.logits_rows, max_kv: shape.longest_kv };
        let dispatch = if self.by_policy { self.engine.dispatch(shape) } else { dispatch(splits)? };
        let plan = StepPlan { groups, dispatch, observe };
        let output = self.engine.step(&plan).map_err(failed)?;
        for kept in &input.keep {
            self.keep(*kept)?;
        }
        Ok(rows(&output, input, &self.engine.model().config))
    }
}

/// The rows of a step's output as the verifier compares them.
fn rows(output: &StepOutput, input: &StepInput, config: &engine::config::Config) -> Vec<Row> {
    let requests: Vec<u32> = input.groups.iter().map(|g| g.request).collect();
    let mut out = capture::rows(output, config, &requests);
    // The engine computes logits for none, the last or all rows of a group; what was not asked for is not compared.
    let mut at = 0;
    for group in &input.groups {
        let without = group.tokens.len().saturating_sub(group.logits as usize);
        for row in out.iter_mut().skip(at).take(without) {
            row.outputs.retain(|p, _| !matches!(p.op, Op::FinalNorm | Op::LmHead));
        }
        at += group.tokens.len();
    }
    out
}

/// Choices by operation.
fn named_all(d: &Dispatch) -> [(&'static str, u32); 6] {
    [
        ("qkv", d.qkv),
        ("attention", d.kv_splits),
        ("o_proj", d.o_proj),
        ("gate_up", d.gate_up),
        ("down", d.down),
        ("lm_head", d.lm_head),
    ]
}

fn named(d: &Dispatch) -> Splits {
    Splits::new(named_all(d).map(|(op, splits)| (op.to_owned(), splits)))
}

fn dispatch(splits: &Splits) -> Result<Dispatch, ReplayError> {
    let d = Dispatch {
        qkv: splits.of("qkv"),
        kv_splits: splits.of("attention"),
        o_proj: splits.of("o_proj"),
        gate_up: splits.of("gate_up"),
        down: splits.of("down"),
        lm_head: splits.of("lm_head"),
    };
    if named(&d) != *splits {
        return Err(ReplayError::Unknown { what: format!("a split in {}", splits.words().join(" ")) });
    }
    d.check().map_err(|e| ReplayError::Unknown { what: format!("a choice of kernels ({e})") })?;
    Ok(d)
}
