//! What the verifier asks of a machine that can repeat a record.
//!
//! [`Replayer`] is the only door to arithmetic: the checks and the search for causes are written against it, so they can be tested with
//! a machine of a few lines whose answers are known.

use crate::ops::{Op, Point};
pub use engine::sampler::Past;
use record::inference::Decode;
use record::{DType, EvidenceLevel, RowComponents, TensorView};
use std::collections::BTreeMap;

/// Splits by operation: split-K of a matrix product, KV splits of attention. Operations that are not named have 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Splits(BTreeMap<String, u32>);

impl Splits {
    /// Splits by name; ones are dropped, since naming them or not means the same.
    pub fn new(named: impl IntoIterator<Item = (String, u32)>) -> Self {
        Self(named.into_iter().filter(|(_, splits)| *splits != 1).collect())
    }

    /// The splits of one operation.
    pub fn of(&self, op: &str) -> u32 {
        self.0.get(op).copied().unwrap_or(1)
    }

    /// The same with one operation changed.
    #[must_use]
    pub fn with(&self, op: &str, splits: u32) -> Self {
        let mut changed = self.clone();
        if splits == 1 {
            changed.0.remove(op);
        } else {
            changed.0.insert(op.to_owned(), splits);
        }
        changed
    }

    /// `op=splits` of those that are not 1, by name.
    pub fn words(&self) -> Vec<String> {
        self.0.iter().map(|(op, splits)| format!("{op}={splits}")).collect()
    }
}

/// A device and weights to repeat a record with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Hardware profile.
    pub profile: String,
    /// What is done to the weights first.
    pub weights: WeightChange,
}

impl Machine {
    /// The weights at hand on a profile.
    pub fn declared(profile: impl Into<String>) -> Self {
        Self { profile: profile.into(), weights: WeightChange::None }
    }
}

/// A change of the weights before replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightChange {
    /// The weights as the model files have them.
    None,
    /// Rounded to a scheme and back; one of [`Replayer::schemes`].
    Quantised(String),
    /// One bit of one element flipped.
    Bit(WeightBit),
    /// Divided over tensor-parallel ranks.
    Divided {
        /// How many; one of [`Replayer::degrees`].
        ranks: u32,
        /// Steps have the splits that the policy chooses for these ranks, whatever splits are asked for.
        by_policy: bool,
    },
    /// As they are, but keys and values are kept in another type; one of [`Replayer::caches`].
    Cache(String),
}

/// One bit of one weight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WeightBit {
    /// Tensor name as in the model files.
    pub tensor: String,
    /// Row; 0 for a vector.
    pub row: u32,
    /// Column.
    pub column: u32,
    /// Bit of the bf16 pattern, 0 the least significant.
    pub bit: u32,
}

/// Consecutive rows of one request in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Index of the request in the record.
    pub request: u32,
    /// Position of the first row.
    pub start: u32,
    /// Token ids of the rows.
    pub tokens: Vec<u32>,
    /// For how many of the last rows logits are computed.
    pub logits: u32,
}

/// Whole pages of columns that a request begins with instead of computing them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Index of the request in the record.
    pub request: u32,
    /// Where its pages come from, in order of position.
    pub parts: Vec<PrefixPart>,
}

/// Consecutive pages that were computed for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PrefixPart {
    /// What [`StepInput::keep`] kept.
    pub kept: Kept,
    /// How many pages; their places are the same in both requests.
    pub pages: u32,
}

/// The columns of a request as a step left them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kept {
    /// Index of the request in the record.
    pub request: u32,
    /// Index of the step.
    pub step: u64,
}

/// The rows of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepInput {
    /// Prefixes that requests are given before the step.
    pub prefixes: Vec<Prefix>,
    /// Groups in batch order.
    pub groups: Vec<Group>,
    /// Whose columns are wanted later as this step leaves them.
    pub keep: Vec<Kept>,
    /// The groups are rows that were computed before and are computed again.
    pub again: Option<Again>,
}

/// How rows are computed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// Rows that the step is padded to.
    pub padded: u32,
    /// By group: the columns are replaced by what the step computes.
    pub replaces: Vec<bool>,
}

impl StepInput {
    /// Number of rows.
    pub fn rows(&self) -> u32 {
        self.groups.iter().map(|g| g.tokens.len() as u32).sum()
    }

    /// What a dispatch policy sees of this step.
    pub fn shape(&self) -> Shape {
        Shape {
            rows: self.rows(),
            logits_rows: self.groups.iter().map(|g| g.logits).sum(),
            longest_kv: self.groups.iter().map(|g| g.start + g.tokens.len() as u32).max().unwrap_or(0),
        }
    }

    /// True when some group has several rows: a prefill, alone or mixed with decode rows.
    pub fn prefills(&self) -> bool {
        self.groups.iter().any(|g| g.tokens.len() > 1)
    }
}

/// What selects kernels in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// Rows in the batch.
    pub rows: u32,
    /// Rows whose logits are computed.
    pub logits_rows: u32,
    /// Largest number of positions that any row attends to.
    pub longest_kv: u32,
}

impl Shape {
    /// The shape with `n` more single rows, each with logits and none with a longer context.
    #[must_use]
    pub const fn with_extra_rows(self, n: u32) -> Self {
        Self { rows: self.rows + n, logits_rows: self.logits_rows + n, longest_kv: self.longest_kv }
    }
}

/// One output of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Shape, outermost dimension first.
    pub shape: Vec<u64>,
    /// Elements.
    pub bits: Elements,
}

/// Bit patterns of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elements {
    /// bf16.
    Bf16(Vec<u16>),
    /// f32.
    F32(Vec<u32>),
}

impl Tensor {
    /// A bf16 tensor.
    pub const fn bf16(shape: Vec<u64>, bits: Vec<u16>) -> Self {
        Self { shape, bits: Elements::Bf16(bits) }
    }

    /// An f32 tensor.
    pub const fn f32(shape: Vec<u64>, bits: Vec<u32>) -> Self {
        Self { shape, bits: Elements::F32(bits) }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.bits {
            Elements::Bf16(e) => e.len(),
            Elements::F32(e) => e.len(),
        }
    }

    /// True when it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pattern at `index`, if there is one.
    pub fn at(&self, index: usize) -> Option<u32> {
        match &self.bits {
            Elements::Bf16(e) => e.get(index).map(|b| u32::from(*b)),
            Elements::F32(e) => e.get(index).copied(),
        }
    }

    /// Element type.
    pub const fn dtype(&self) -> DType {
        match self.bits {
            Elements::Bf16(_) => DType::Bf16,
            Elements::F32(_) => DType::F32,
        }
    }

    /// The pattern at `index` in lower-case hex of fixed width.
    pub fn hex_at(&self, index: usize) -> Option<String> {
        let bits = self.at(index)?;
        Some(match self.bits {
            Elements::Bf16(_) => format!("{bits:04x}"),
            Elements::F32(_) => format!("{bits:08x}"),
        })
    }

    /// The tensor as the record hashes it.
    pub fn view(&self) -> TensorView<'_> {
        match &self.bits {
            Elements::Bf16(e) => TensorView::bf16(&self.shape, e),
            Elements::F32(e) => TensorView::f32(&self.shape, e),
        }
    }
}

/// One replayed row: the output of every observed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of the request in the record.
    pub request: u32,
    /// Position.
    pub position: u32,
    /// Outputs in order of execution. Level `S` has `embed`, `k` and `v` and `mlp_residual` of each layer, and
    /// `lm_head` where logits were computed; level `A` has every operation.
    pub outputs: BTreeMap<Point, Tensor>,
}

impl Row {
    /// Logits bits, if computed.
    pub fn logits(&self) -> Option<&[u32]> {
        match &self.outputs.get(&Point::global(Op::LmHead))?.bits {
            Elements::F32(bits) => Some(bits),
            Elements::Bf16(_) => None,
        }
    }

    /// The digests that enter the row's leaf.
    ///
    /// # Errors
    /// [`record::Error`] when an output does not fill its shape: a bug of the replayer.
    pub fn components(&self, level: EvidenceLevel) -> Result<RowComponents, record::Error> {
        self.evidence(level).components()
    }

    /// The row's tensors as commitments and evidence files take them.
    pub fn evidence(&self, level: EvidenceLevel) -> record::RowEvidence<'_> {
        let all = |op: Op| self.outputs.iter().filter(move |(p, _)| p.op == op).map(|(_, t)| t.view());
        record::RowEvidence {
            logits: self.outputs.get(&Point::global(Op::LmHead)).map(Tensor::view),
            k: all(Op::K).collect(),
            v: all(Op::V).collect(),
            boundaries: all(Op::Embed).chain(all(Op::MlpResidual)).collect(),
            activations: (level == EvidenceLevel::A)
                .then(|| self.outputs.iter().map(|(p, t)| (p.path(), t.view())).collect()),
        }
    }
}

/// A weight row that one output element is computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightRow {
    /// Tensor name as in the model files.
    pub tensor: String,
    /// Its row; 0 for a vector.
    pub row: u32,
    /// First column of `values` in the tensor: 0 for a matrix row, the element for a vector.
    pub first_column: u32,
    /// bf16 patterns.
    pub values: Vec<u16>,
    /// The bf16 pattern that is added to the rounded product, where the model has a bias there.
    pub bias: Option<u16>,
}

/// Why a replay could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The replayer does not know something that the record names: nothing is concluded.
    #[error("{what} is not known here")]
    Unknown {
        /// What, by kind and name, e.g. `profile sm_42`.
        what: String,
    },
    /// The device or the engine refused.
    #[error("replay failed: {reason}")]
    Failed {
        /// Its reason.
        reason: String,
    },
}

/// A machine in mid-replay: it holds the KV cache.
pub trait Run {
    /// Computes a step. A group that starts below the end of what its request holds starts anew from there; the columns a step writes replace those that an earlier call wrote at the same positions, so a step can be
    /// repeated with other splits. With `taps` every operation's output is returned, otherwise those of level `S`.
    ///
    /// # Errors
    /// [`ReplayError`].
    fn step(&mut self, input: &StepInput, splits: &Splits, taps: bool) -> Result<Vec<Row>, ReplayError>;
}

/// Something that can repeat the steps of a record.
pub trait Replayer {
    /// A fresh machine with an empty cache.
    ///
    /// # Errors
    /// [`ReplayError::Unknown`] for a profile or scheme that is not known.
    fn start(&self, machine: &Machine) -> Result<Box<dyn Run + '_>, ReplayError>;

    /// What the record's dispatch policy chooses for a shape.
    ///
    /// # Errors
    /// [`ReplayError::Unknown`] for a policy that is not known.
    fn policy(&self, shape: &Shape) -> Result<Splits, ReplayError>;

    /// Names of the operations that can be split.
    fn splittable(&self) -> Vec<String>;

    /// Hardware profiles that can be emulated.
    fn profiles(&self) -> Vec<String>;

    /// Other numbers of tensor-parallel ranks that can be supposed.
    fn degrees(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Quantisation schemes that can be supposed.
    fn schemes(&self) -> Vec<String>;

    /// Other types of the K and V caches that can be supposed.
    fn caches(&self) -> Vec<String> {
        Vec::new()
    }

    /// Number of tokens that the model knows: ids are below it.
    fn vocabulary(&self) -> u32;

    /// Number of positions that the model has: positions are below it.
    fn positions(&self) -> u32;

    /// Splits that cut every operation into the same pieces: one spelling for all that cannot differ in a bit.
    fn canonical(&self, splits: &Splits) -> Splits {
        splits.clone()
    }

    /// The one token that a sampler admits after `past`, from logits (f32 bits) of the row at `position`.
    ///
    /// # Errors
    /// [`ReplayError::Unknown`] for a sampler or a parameter that is not known.
    fn choose(&self, decode: &Decode, past: Past<'_>, logits: &[u32], position: u32) -> Result<u32, ReplayError>;

    /// The risk that a margin gate compares with its threshold, as f32 bits, from logits of the row at `position`.
    ///
    /// # Errors
    /// [`ReplayError::Unknown`] for a signal that is not known; by default none is.
    fn risk(&self, signal: &str, decode: &Decode, logits: &[u32], position: u32) -> Result<u32, ReplayError> {
        let _ = (decode, logits, position);
        Err(ReplayError::Unknown { what: format!("the signal {signal}") })
    }

    /// Where `token` ranks under the sampler, 1 for the admissible one; none when the sampler cannot draw it.
    ///
    /// # Errors
    /// As [`Replayer::choose`].
    fn rank(
        &self,
        decode: &Decode,
        past: Past<'_>,
        logits: &[u32],
        position: u32,
        token: u32,
    ) -> Result<Option<u32>, ReplayError>;

    /// The log-probability of `token`, as the f32 bits that the record's engine logs, from logits (f32 bits) of the row at `position`.
    ///
    /// # Errors
    /// [`ReplayError::Failed`] for logits or a token that have none.
    fn logprob(&self, logits: &[u32], position: u32, token: u32) -> Result<u32, ReplayError>;

    /// True if the text of token ids has one of `strings` in it.
    ///
    /// # Errors
    /// [`ReplayError::Failed`] if the ids have no text.
    fn text_has(&self, ids: &[u32], strings: &[String]) -> Result<bool, ReplayError>;

    /// The weights that output element `index` of an operation is computed from, in a row whose input token is `token`; none if
    /// it has no weights of its own. [`Op::V`] means the part of the qkv product that is stored as V, [`Op::MlpResidual`] the down product.
    fn weights(&self, point: Point, index: u32, token: u32) -> Option<WeightRow>;

    /// Output element `index` of the matrix product `op` on a profile: f32 bits of the accumulator after `splits` slices are added. [`Op::V`] and
    /// [`Op::MlpResidual`] mean what they mean in [`Replayer::weights`].
    ///
    /// # Errors
    /// [`ReplayError`].
    fn dot(&self, profile: &str, at: (Op, u32), x: &[u16], w: &[u16], splits: u32) -> Result<u32, ReplayError>;

    /// Token ids whose embedding is `bits`.
    fn embeddings(&self, bits: &[u16]) -> Vec<u32>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_are_not_named() {
        let a = Splits::new([("qkv".to_owned(), 1), ("down".to_owned(), 2)]);
        assert_eq!(a, Splits::default().with("down", 2));
        assert_eq!((a.of("qkv"), a.of("down")), (1, 2));
        assert_eq!(a.with("down", 1), Splits::default());
    }

    #[test]
    fn state_enters_the_components_in_order() {
        let bf = |x: u16| Tensor::bf16(vec![1], vec![x]);
        let mut row = Row { request: 0, position: 0, outputs: BTreeMap::new() };
        for (i, p) in [
            Point::global(Op::Embed),
            Point::at(0, Op::K),
            Point::at(0, Op::V),
            Point::at(0, Op::MlpResidual),
            Point::at(1, Op::K),
        ]
        .into_iter()
        .enumerate()
        {
            row.outputs.insert(p, bf(i as u16));
        }
        let c = row.components(EvidenceLevel::S).unwrap();
        let list = |bits: &[u16]| {
            let digests: Vec<_> = bits.iter().map(|b| bf(*b).view().digest().unwrap()).collect();
            record::commit::list_digest(&digests)
        };
        assert_eq!(c.k, list(&[1, 4]));
        assert_eq!(c.v, list(&[2]));
        assert_eq!(c.boundaries, list(&[0, 3]));
        assert_eq!((c.logits, c.activations), (None, None));
        assert!(row.components(EvidenceLevel::A).unwrap().activations.is_some());
    }
}
