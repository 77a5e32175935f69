//! Which variant of each kernel a step runs: a pure function of the mode, the model's sizes and the step's shape. Specified by
//! `docs/spec/dispatch-policies.md`.
//!
//! The result is data. [`Dispatch`] is executed, logged, and may be overridden in a replay, so that "what if two more rows had
//! been in the batch" is an ordinary call. Policies are named and versioned: a changed table is a new identifier.
//!
//! * `invariant/1`: no split anywhere. A row's bits depend on that row's own tokens only.
//! * `portable/1`: no split anywhere, and kernels that compute with IEEE operations alone: the same bits on every machine.
//! * `throughput/1`: as GEMM and attention libraries do, few rows are spread over more slices of K, and long prefixes
//!   over more ranges of KV. What counts numerically is which 16-blocks a slice holds, so tables are of slices.
//! * `throughput/2`: the same with stream-K in the place of split-K; tables are of workers.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::kernels::{PAD, Stream, Units};
use crate::weights::Padded;

/// How the engine computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// A row's bits depend on its own tokens only.
    Invariant,
    /// The same, and they do not depend on the hardware: no tensor core, no special function.
    Portable,
    /// Kernel variants follow the shape of the step.
    Throughput,
    /// The same, and matrix products of few rows are streams: policy `throughput/2`.
    Stream,
    /// `Throughput`, and rows at risk are computed again as `Invariant` does ([`crate::gated`]).
    Gated,
}

impl Mode {
    /// Those that are one set of choices each; [`Mode::Gated`] is made of two.
    pub const ALL: [Mode; 4] = [Mode::Invariant, Mode::Portable, Mode::Throughput, Mode::Stream];

    /// Name of the mode, for records and command lines. Two policies of one mode have one name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Invariant => "invariant",
            Mode::Portable => "portable",
            Mode::Throughput | Mode::Stream => "throughput",
            Mode::Gated => "gated",
        }
    }

    /// Identifier of the dispatch policy, as records carry it.
    pub fn policy(self) -> &'static str {
        match self {
            Mode::Invariant => "invariant/1",
            Mode::Portable => "portable/1",
            Mode::Throughput => "throughput/1",
            Mode::Stream => "throughput/2",
            Mode::Gated => "gated/1",
        }
    }

    /// The mode whose policy has this identifier; none for another policy or version.
    pub fn from_policy(id: &str) -> Option<Mode> {
        Mode::ALL.into_iter().chain([Mode::Gated]).find(|m| m.policy() == id)
    }

    /// The mode of this name, the first of its policies; or of the policy of this identifier.
    pub fn from_name(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().chain([Mode::Gated]).find(|m| m.name() == name).or_else(|| Mode::from_policy(name))
    }

    /// Whether a row's bits depend on that row's own tokens only.
    pub fn own_tokens_only(self) -> bool {
        matches!(self, Mode::Invariant | Mode::Portable)
    }

    /// What the mode's kernels compute with.
    pub fn units(self) -> Units {
        match self {
            Mode::Portable => Units::Ieee,
            Mode::Invariant | Mode::Throughput | Mode::Stream | Mode::Gated => Units::Special,
        }
    }

    /// Whether the residual addition after attention and the norm after it are one launch; the bits are the same.
    pub fn fuses_norms(self) -> bool {
        self == Mode::Stream
    }

    /// How matrix products are divided along K where they are.
    pub fn k_division(self) -> KDivision {
        match self {
            Mode::Stream => KDivision::Stream,
            Mode::Invariant | Mode::Portable | Mode::Throughput | Mode::Gated => KDivision::Slices,
        }
    }
}

/// How a matrix product is divided along K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KDivision {
    /// In equal slices, the same for every column.
    Slices,
    /// As a [`Stream`]: a choice is the number of its workers.
    Stream,
}

/// What of a step the policy looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows of the step: decode rows and prefill tokens together.
    pub rows: u32,
    /// Rows whose logits are computed.
    pub logits_rows: u32,
    /// Longest KV length after the step, over its requests.
    pub max_kv: u32,
}

/// The choices of one step. Every entry is at least 1; 1 means one uninterrupted walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dispatch {
    /// K slices of the fused q, k, v projection.
    pub qkv: u32,
    /// K slices of the attention output projection.
    pub o_proj: u32,
    /// K slices of the fused gate and up projection.
    pub gate_up: u32,
    /// K slices of the down projection.
    pub down: u32,
    /// K slices of the LM head.
    pub lm_head: u32,
    /// Ranges that each request's KV tiles are divided into.
    pub kv_splits: u32,
}

/// More slices than any table here holds; a foreign record may not ask for absurd workspaces.
pub const MAX_SPLITS: u32 = 64;

impl Dispatch {
    /// No split anywhere.
    pub const UNSPLIT: Dispatch = Dispatch { qkv: 1, o_proj: 1, gate_up: 1, down: 1, lm_head: 1, kv_splits: 1 };

    /// The choices by operation, in the order of execution: K slices of the matrix products, KV ranges of `attention`.
    pub fn entries(&self) -> [(&'static str, u32); 6] {
        [
            ("qkv", self.qkv),
            ("attention", self.kv_splits),
            ("o_proj", self.o_proj),
            ("gate_up", self.gate_up),
            ("down", self.down),
            ("lm_head", self.lm_head),
        ]
    }

    /// The choices from a table as [`Dispatch::entries`] gives it.
    ///
    /// # Errors
    /// [`Error::Dispatch`] if a name is missing, unknown or repeated, or a value is 0 or above [`MAX_SPLITS`].
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = (&'a str, u32)>) -> Result<Dispatch> {
        let mut table = BTreeMap::new();
        for (name, value) in entries {
            if !Dispatch::UNSPLIT.entries().iter().any(|e| e.0 == name) {
                return Err(Error::Dispatch { detail: format!("`{name}` is no choice of this engine") });
            }
            if table.insert(name, value).is_some() {
                return Err(Error::Dispatch { detail: format!("`{name}` is stated twice") });
            }
        }
        let take = |name: &str| {
            table.get(name).copied().ok_or_else(|| Error::Dispatch { detail: format!("`{name}` is not stated") })
        };
        let dispatch = Dispatch {
            qkv: take("qkv")?,
            o_proj: take("o_proj")?,
            gate_up: take("gate_up")?,
            down: take("down")?,
            lm_head: take("lm_head")?,
            kv_splits: take("attention")?,
        };
        dispatch.check()?;
        Ok(dispatch)
    }

    /// Changes the entry of one operation. Operations that are never split accept only 1.
    ///
    /// # Errors
    /// [`Error::Dispatch`] for a split of an operation that this engine does not split.
    pub fn set(&mut self, op: &str, splits: u32) -> Result<()> {
        let entry = match op {
            "qkv" => &mut self.qkv,
            "attention" => &mut self.kv_splits,
            "o_proj" => &mut self.o_proj,
            "gate_up" => &mut self.gate_up,
            "down" => &mut self.down,
            "lm_head" => &mut self.lm_head,
            _ if splits == 1 => return Ok(()),
            _ => return Err(Error::Dispatch { detail: format!("`{op}` is never split here, {splits} are stated") }),
        };
        *entry = splits;
        self.check()
    }

    /// Refuses values outside `1..=MAX_SPLITS`.
    ///
    /// # Errors
    /// [`Error::Dispatch`].
    pub fn check(&self) -> Result<()> {
        match self.entries().iter().find(|e| e.1 == 0 || e.1 > MAX_SPLITS) {
            None => Ok(()),
            Some((name, value)) => {
                Err(Error::Dispatch { detail: format!("`{name}` = {value} is not in 1..={MAX_SPLITS}") })
            }
        }
    }
}

/// Upper ends of the row classes of `throughput/1`; the last class has no end.
const ROW_CLASSES: [u32; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 32];
/// K slices wanted in each row class, before the depth of the weight has its say.
const SLICES: [u32; 10] = [16, 11, 8, 7, 6, 5, 4, 3, 2, 1];
/// The same for a wide weight, whose columns alone nearly fill the machine.
const WIDE_SLICES: [u32; 10] = [12, 6, 4, 3, 2, 1, 1, 1, 1, 1];
/// Workers of a stream in each row class; 1 is no division.
const WORKERS: [u32; 10] = [64, 56, 48, 40, 32, 24, 20, 16, 12, 1];
/// A weight at least this many times wider than deep is wide.
const WIDE: u32 = 4;
/// KV ranges wanted in each row class.
const KV_RANGES: [u32; 10] = [8, 4, 3, 2, 2, 1, 1, 1, 1, 1];
/// A KV range shorter than this is not worth a launch.
const MIN_KV_RANGE: u32 = 32;
/// Class of a number of rows, from 0.
pub fn row_class(rows: u32) -> usize {
    ROW_CLASSES.iter().position(|end| rows <= *end).unwrap_or(ROW_CLASSES.len())
}

/// The choices for a step. Those of a gated engine are the throughput table's: which steps run unsplit instead, its gate says.
pub fn dispatch(mode: Mode, config: &Config, shape: Shape) -> Dispatch {
    if mode.own_tokens_only() {
        return Dispatch::UNSPLIT;
    }
    let p = Padded::of(config);
    let rows = row_class(shape.rows);
    let slices = |class: usize, n, k| match mode.k_division() {
        KDivision::Slices => slices(class, n, k),
        KDivision::Stream => Stream::new(n, k, WORKERS[class]).workers(),
    };
    Dispatch {
        qkv: slices(rows, p.qkv, p.hidden),
        o_proj: slices(rows, p.hidden, p.attn),
        gate_up: slices(rows, 2 * p.ffn, p.hidden),
        down: slices(rows, p.hidden, p.ffn),
        // A step without logits does not run the head.
        lm_head: if shape.logits_rows == 0 { 1 } else { slices(row_class(shape.logits_rows), p.vocab, p.hidden) },
        kv_splits: KV_RANGES[rows].min(shape.max_kv.div_ceil(MIN_KV_RANGE)).max(1),
    }
}

/// K slices for a row class and a weight `[n, k]`; none of them empty.
fn slices(class: usize, n: u32, k: u32) -> u32 {
    let blocks = k.div_ceil(PAD);
    let wanted = if n >= WIDE * k { WIDE_SLICES[class] } else { SLICES[class] };
    blocks.div_ceil(blocks.div_ceil(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        crate::model::embedded().unwrap().config
    }

    fn shape(rows: u32) -> Shape {
        Shape { rows, logits_rows: rows, max_kv: 100 }
    }

    #[test]
    fn invariant_and_portable_never_split() {
        for rows in [1, 2, 17, 1000] {
            assert_eq!(dispatch(Mode::Invariant, &config(), shape(rows)), Dispatch::UNSPLIT);
            assert_eq!(dispatch(Mode::Portable, &config(), shape(rows)), Dispatch::UNSPLIT);
        }
    }

    #[test]
    fn each_row_class_has_its_own_dispatch() {
        let config = config();
        let of = |rows| dispatch(Mode::Throughput, &config, shape(rows));
        let ends = [1, 2, 3, 4, 6, 8, 12, 16, 32, 33];
        for (i, a) in ends.iter().enumerate() {
            assert!(ends[i + 1..].iter().all(|b| of(*a) != of(*b)), "{a}");
        }
        for (a, b) in [(5, 6), (7, 8), (9, 12), (13, 16), (17, 32), (33, 5000)] {
            assert_eq!(of(a), of(b));
        }
        assert_eq!(of(33), Dispatch::UNSPLIT);
        let inner = Shape { logits_rows: 0, ..shape(1) };
        assert_eq!(dispatch(Mode::Throughput, &config, inner).lm_head, 1);
        let one = Dispatch { qkv: 12, o_proj: 12, gate_up: 12, down: 16, lm_head: 12, kv_splits: 4 };
        assert_eq!(of(1), one);
    }

    /// Of 5 tiles of 3 units: 15 workers at most, and no more of them than divide the work differently.
    #[test]
    fn streams_have_workers_by_row_class() {
        let of = |rows| dispatch(Mode::Stream, &config(), shape(rows)).qkv;
        assert_eq!([of(1), of(6), of(12), of(16), of(32), of(33)], [15, 15, 15, 15, 8, 1]);
    }

    #[test]
    fn no_slice_is_empty() {
        for class in 0..SLICES.len() {
            for blocks in 1..200 {
                for n in [16, 100_000] {
                    let s = slices(class, n, blocks * PAD);
                    assert!((s - 1) * blocks.div_ceil(s) < blocks, "{class} {blocks} {s}");
                }
            }
        }
    }

    #[test]
    fn kv_ranges_follow_the_length() {
        let config = config();
        let of = |max_kv| dispatch(Mode::Throughput, &config, Shape { rows: 1, logits_rows: 1, max_kv }).kv_splits;
        assert_eq!([of(1), of(32), of(33), of(256), of(1000)], [1, 1, 2, 8, 8]);
    }

    #[test]
    fn tables_round_trip_and_bad_ones_are_refused() {
        let d = dispatch(Mode::Throughput, &config(), shape(3));
        assert_eq!(Dispatch::from_entries(d.entries()).unwrap(), d);
        let text = |entries: Vec<(&str, u32)>| Dispatch::from_entries(entries).unwrap_err().to_string();
        let mut missing = d.entries().to_vec();
        missing.pop();
        assert!(text(missing).contains("not stated"));
        let mut twice = d.entries().to_vec();
        twice.push(twice[0]);
        assert!(text(twice).contains("twice"));
        let mut unknown = d.entries().to_vec();
        unknown.push(("stages", 3));
        assert!(text(unknown).contains("stages"));
        for bad in [0, MAX_SPLITS + 1] {
            let mut entries = d.entries().to_vec();
            entries[2].1 = bad;
            assert!(text(entries).contains("o_proj"));
        }
        assert_eq!(Mode::from_policy("throughput/1"), Some(Mode::Throughput));
        assert_eq!(Mode::from_policy("gated/1"), Some(Mode::Gated));
        assert_eq!(Mode::from_policy("throughput/2"), Some(Mode::Stream));
        assert_eq!(Mode::from_policy("throughput/3"), None);
        assert_eq!(Mode::from_name("throughput"), Some(Mode::Throughput));
        assert_eq!(Mode::from_name("throughput/2"), Some(Mode::Stream));
    }
}
