//! The kernels of a model: built, registered, named.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::config::Config;
use crate::device::{Device, KernelId};
use crate::error::{Error, Result};
use crate::kernels::{
    AddNormSpec, AddSpec, AllReduceSpec, AttentionCombineSpec, AttentionSpec, BiasSpec, ChainAttentionSpec, EmbedSpec,
    GatherSpec, GemmOut, GemmSpec, GemmTile, HeadNormSpec, KernelText, KvType, RmsNormSpec, RopeStoreSpec, SiluMulSpec,
    SplitKReduceSpec, Top2Spec, Units, for_volta,
};
use crate::parallel::Division;
use crate::policy::{Dispatch, KDivision, Mode};
use crate::weights::Padded;

/// A kernel by name and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRef {
    /// Entry name.
    pub name: String,
    /// SHA-256 of the PTX text.
    pub sha256: [u8; 32],
}

/// A spec with its kernel.
#[derive(Clone, Debug)]
pub(super) struct Built<S> {
    pub spec: S,
    pub id: KernelId,
    /// Index into [`KernelSet::refs`].
    pub at: usize,
}

/// The variants of one matrix product.
#[derive(Clone, Debug)]
pub(super) struct Gemm {
    /// One walk over K, by tile.
    whole: [Built<GemmSpec>; TILES],
    /// Slices of K.
    split: Option<SplitGemm>,
}

/// A matrix product in slices of K, or in the segments of a stream.
#[derive(Clone, Debug)]
struct SplitGemm {
    /// By tile.
    partial: [Built<GemmSpec>; TILES],
    reduce: Built<SplitKReduceSpec>,
}

/// The variants of attention.
#[derive(Clone, Debug)]
pub(super) enum Attention {
    /// On tensor cores.
    Tensor { whole: Built<AttentionSpec>, partial: Built<AttentionSpec>, combine: Built<AttentionCombineSpec> },
    /// By fused multiply-adds.
    Chain(Built<ChainAttentionSpec>),
}

impl Gemm {
    pub fn whole(&self, rows: u32) -> &Built<GemmSpec> {
        &self.whole[tile(rows)]
    }

    /// The kernel of slices for `rows` rows, and the one that adds them up, where there are such kernels and `splits` asks for them.
    pub fn split(&self, rows: u32, splits: u32) -> Option<(&Built<GemmSpec>, &Built<SplitKReduceSpec>)> {
        self.split.as_ref().filter(|_| splits != 1).map(|s| (&s.partial[tile(rows)], &s.reduce))
    }

    /// Kernels launched for `rows` rows in `splits` slices.
    fn chosen(&self, rows: u32, splits: u32) -> Vec<usize> {
        match self.split(rows, splits) {
            None => vec![self.whole(rows).at],
            Some((partial, reduce)) => vec![partial.at, reduce.at],
        }
    }
}

impl Attention {
    /// Kernels launched for `splits` ranges of KV.
    fn chosen(&self, splits: u32) -> Vec<usize> {
        match self {
            Attention::Chain(kernel) => vec![kernel.at],
            Attention::Tensor { whole, .. } if splits == 1 => vec![whole.at],
            Attention::Tensor { partial, combine, .. } => vec![partial.at, combine.at],
        }
    }
}

const TILES: usize = GemmTile::ALL.len();

/// Index into [`GemmTile::ALL`].
fn tile(rows: u32) -> usize {
    GemmTile::for_rows(rows) as usize
}

/// All kernels of a model on a device.
#[derive(Clone, Debug)]
pub(super) struct KernelSet {
    pub embed: Built<EmbedSpec>,
    pub norm: Built<RmsNormSpec>,
    pub qkv: Gemm,
    /// After `qkv`, in families with such biases.
    pub qkv_bias: Option<Built<BiasSpec>>,
    /// Before `rope`, in families that normalise heads.
    pub head_norm: Option<Built<HeadNormSpec>>,
    pub rope: Built<RopeStoreSpec>,
    pub attention: Attention,
    pub o_proj: Gemm,
    pub add: Built<AddSpec>,
    /// The residual addition after attention and the norm after it, where they are one launch.
    pub add_norm: Option<Built<AddNormSpec>>,
    pub gate_up: Gemm,
    pub silu_mul: Built<SiluMulSpec>,
    pub down: Gemm,
    /// After `o_proj` and `down`, where there is more than one rank.
    pub all_reduce: Option<Built<AllReduceSpec>>,
    pub gather: Built<GatherSpec>,
    pub lm_head: Gemm,
    pub top2: Built<Top2Spec>,
    /// The distinct kernels, in order of first use.
    pub refs: Vec<KernelRef>,
    units: Units,
}

/// How one operation of a step is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpChoice {
    /// Name of the launch: an operation's name, or `rope_store` (which gives `rope_q`, `k` and `v`), `gather`, `top2`.
    pub op: &'static str,
    /// Kernels in launch order, as indices into [`Launches::kernels`].
    pub kernels: Vec<usize>,
    /// Slices of K, or ranges of KV; 1 elsewhere.
    pub splits: u32,
}

/// Which kernels a dispatch means: the part of an engine that records are written and checked with.
#[derive(Clone, Debug)]
pub struct Launches(Arc<KernelSet>);

impl Launches {
    pub(super) fn new(set: Arc<KernelSet>) -> Self {
        Self(set)
    }

    /// The distinct kernels, in a fixed order.
    pub fn kernels(&self) -> &[KernelRef] {
        &self.0.refs
    }

    /// The launches of a step, in order; those of a layer once. Without logits, those after the last layer are left out.
    pub fn of(&self, dispatch: &Dispatch, rows: u32, logits_rows: u32) -> Vec<OpChoice> {
        self.0.choices(dispatch, rows, logits_rows)
    }

    /// Refuses a dispatch that there are no kernels for.
    ///
    /// # Errors
    /// [`Error::Dispatch`] naming the operation.
    pub fn check(&self, dispatch: &Dispatch) -> Result<()> {
        self.0.check(dispatch)
    }
}

/// Registers texts once each.
struct Registrar<'a> {
    device: &'a mut dyn Device,
    refs: Vec<KernelRef>,
    units: Units,
    division: KDivision,
    kv: KvType,
}

impl Registrar<'_> {
    fn add<S>(&mut self, spec: S, build: impl Fn(&S) -> KernelText) -> Result<Built<S>> {
        let text = build(&spec);
        // What needs no matrix instruction needs no Ampere either.
        let text = match self.units {
            Units::Special => text,
            Units::Ieee => for_volta(&text).unwrap_or(text),
        };
        let id = self.device.register(&text)?;
        let sha256: [u8; 32] = Sha256::digest(&text.ptx).into();
        let at = self.refs.iter().position(|r| r.sha256 == sha256).unwrap_or_else(|| {
            self.refs.push(KernelRef { name: text.name.clone(), sha256 });
            self.refs.len() - 1
        });
        Ok(Built { spec, id, at })
    }

    fn gemm(&mut self, n_pad: u32, k_pad: u32, f32_out: bool) -> Result<Gemm> {
        let (units, division) = (self.units, self.division);
        let out = if f32_out { GemmOut::F32 } else { GemmOut::Bf16 };
        let mut of = |out| -> Result<[Built<GemmSpec>; TILES]> {
            let [a, b, c] =
                GemmTile::ALL.map(|tile| self.add(GemmSpec { n_pad, k_pad, out, tile, units }, GemmSpec::build));
            Ok([a?, b?, c?])
        };
        let whole = of(out)?;
        let split = match units {
            Units::Ieee => None,
            Units::Special => {
                let (partial, stream) = match division {
                    KDivision::Slices => (GemmOut::Partial, None),
                    KDivision::Stream => (GemmOut::Stream, Some(k_pad)),
                };
                let partial = of(partial)?;
                let reduce = self.add(SplitKReduceSpec { n_pad, f32_out, stream }, SplitKReduceSpec::build)?;
                Some(SplitGemm { partial, reduce })
            }
        };
        Ok(Gemm { whole, split })
    }

    fn attention(&mut self, config: &Config) -> Result<Attention> {
        let (q_heads, kv_heads, head_dim) = (config.q_heads, config.kv_heads, config.head_dim);
        let (head_pad, kv) = (Padded::of(config).head, self.kv);
        let tensor = |partial| AttentionSpec { q_heads, kv_heads, head_dim, head_pad, partial, kv };
        Ok(match self.units {
            Units::Ieee => Attention::Chain(
                self.add(ChainAttentionSpec { q_heads, kv_heads, head_dim, head_pad, kv }, ChainAttentionSpec::build)?,
            ),
            Units::Special => Attention::Tensor {
                whole: self.add(tensor(false), AttentionSpec::build)?,
                partial: self.add(tensor(true), AttentionSpec::build)?,
                combine: self.add(AttentionCombineSpec { q_heads, head_dim, head_pad }, AttentionCombineSpec::build)?,
            },
        })
    }
}

impl KernelSet {
    pub fn new(division: &Division, mode: Mode, kv: KvType, device: &mut dyn Device) -> Result<Self> {
        let (config, ranks, units) = (&division.shard, division.ranks, mode.units());
        let p = Padded::of(config);
        let (q_heads, kv_heads, head_dim, head_pad) = (config.q_heads, config.kv_heads, config.head_dim, p.head);
        let eps = config.rms_eps.to_bits();
        let norm = RmsNormSpec { hidden: config.hidden, hidden_pad: p.hidden, eps, units };
        let rope = RopeStoreSpec { q_heads, kv_heads, head_dim, head_pad, kv };
        let bias = config.architecture.qkv_bias().then_some(BiasSpec { width: p.qkv });
        let head_norm =
            config.architecture.qk_norm().then_some(HeadNormSpec { q_heads, kv_heads, head_dim, head_pad, eps, units });
        let mut r = Registrar { device, refs: Vec::new(), units, division: mode.k_division(), kv };
        Ok(Self {
            embed: r.add(EmbedSpec { hidden_pad: p.hidden }, EmbedSpec::build)?,
            norm: r.add(norm.clone(), RmsNormSpec::build)?,
            qkv: r.gemm(p.qkv, p.hidden, false)?,
            qkv_bias: bias.map(|spec| r.add(spec, BiasSpec::build)).transpose()?,
            head_norm: head_norm.map(|spec| r.add(spec, HeadNormSpec::build)).transpose()?,
            rope: r.add(rope, RopeStoreSpec::build)?,
            attention: r.attention(config)?,
            o_proj: r.gemm(p.hidden, p.attn, false)?,
            add: r.add(AddSpec { width: p.hidden }, AddSpec::build)?,
            add_norm: mode.fuses_norms().then(|| r.add(AddNormSpec(norm), AddNormSpec::build)).transpose()?,
            gate_up: r.gemm(2 * p.ffn, p.hidden, false)?,
            silu_mul: r.add(SiluMulSpec { ffn_pad: p.ffn, units }, SiluMulSpec::build)?,
            down: r.gemm(p.hidden, p.ffn, false)?,
            all_reduce: (ranks > 1)
                .then(|| r.add(AllReduceSpec { width: p.hidden, ranks }, AllReduceSpec::build))
                .transpose()?,
            gather: r.add(GatherSpec { width: p.hidden }, GatherSpec::build)?,
            lm_head: r.gemm(p.vocab, p.hidden, true)?,
            top2: r.add(Top2Spec { vocab: config.vocab_size, vocab_pad: p.vocab }, Top2Spec::build)?,
            refs: r.refs,
            units,
        })
    }

    /// Refuses a dispatch that there are no kernels for.
    pub fn check(&self, dispatch: &Dispatch) -> Result<()> {
        dispatch.check()?;
        match dispatch.entries().iter().find(|e| e.1 != 1) {
            Some((op, splits)) if self.units == Units::Ieee => {
                Err(Error::Dispatch { detail: format!("portable kernels are never split, `{op}` = {splits}") })
            }
            _ => Ok(()),
        }
    }

    fn choices(&self, d: &Dispatch, rows: u32, logits_rows: u32) -> Vec<OpChoice> {
        let one = |op, at| OpChoice { op, kernels: vec![at], splits: 1 };
        let gemm = |op, g: &Gemm, rows, splits| OpChoice { op, kernels: g.chosen(rows, splits), splits };
        // Part of the operation before, or after it: what a family adds has no result of its own.
        let mut qkv = gemm("qkv", &self.qkv, rows, d.qkv);
        qkv.kernels.extend(self.qkv_bias.as_ref().map(|b| b.at));
        let rope_store = self.head_norm.as_ref().map(|n| n.at).into_iter().chain([self.rope.at]).collect();
        let attention = self.attention.chosen(d.kv_splits);
        // The sum over ranks is part of the product that it completes.
        let row_parallel = |op, g: &Gemm, splits| {
            let mut choice = gemm(op, g, rows, splits);
            choice.kernels.extend(self.all_reduce.as_ref().map(|a| a.at));
            choice
        };
        let mut all = vec![
            one("embed", self.embed.at),
            one("attn_norm", self.norm.at),
            qkv,
            OpChoice { op: "rope_store", kernels: rope_store, splits: 1 },
            OpChoice { op: "attention", kernels: attention, splits: d.kv_splits },
            row_parallel("o_proj", &self.o_proj, d.o_proj),
            one("attn_residual", self.add_norm.as_ref().map_or(self.add.at, |fused| fused.at)),
            gemm("gate_up", &self.gate_up, rows, d.gate_up),
            one("silu_mul", self.silu_mul.at),
            row_parallel("down", &self.down, d.down),
            one("mlp_residual", self.add.at),
        ];
        if self.add_norm.is_none() {
            let at = all.iter().position(|c| c.op == "gate_up").unwrap_or(all.len());
            all.insert(at, one("mlp_norm", self.norm.at));
        }
        if logits_rows > 0 {
            all.extend([
                one("gather", self.gather.at),
                one("final_norm", self.norm.at),
                gemm("lm_head", &self.lm_head, logits_rows, d.lm_head),
                one("top2", self.top2.at),
            ]);
        }
        all
    }
}
