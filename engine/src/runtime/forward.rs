//! The forward pass: launches in order, top to bottom.

use super::Engine;
use super::buffers::{RankBuffers, Scratch};
use super::collect::Collector;
use super::kernels::{Attention, Gemm};
use super::layout::{Layout, Section};
use crate::device::{Arg, Buffer, KernelId};
use crate::error::Result;
use crate::kernels::TOP2_WORDS;
use crate::ops::Op;
use crate::step::{StepOutput, StepPlan};
use crate::weights::Padded;

/// Which matrix product.
type Pick = fn(&super::KernelSet) -> &Gemm;

impl Engine {
    pub(super) fn run(&mut self, layout: Layout, plan: &StepPlan) -> Result<StepOutput> {
        // Widths of a rank: those of the residual stream are the same for all.
        let p = Padded::of(&self.division.shard);
        let d = plan.dispatch;
        let (rows, ranks) = (layout.row_count(), self.division.ranks);
        let inputs = self.inputs(&layout)?;
        let at = |section| Arg::Ptr(inputs.address + layout.offset(section));
        let n = Arg::U32(rows);
        let mut seen = Collector::new(
            &self.model.config,
            &self.division,
            self.kv_type,
            layout.logit_rows.clone(),
            plan.observe.clone(),
        );

        let border = self.halves(Scratch::Boundaries, rows * (self.model.config.layers + 1), p.hidden)?;
        let boundary = |index: u32| border.address + u64::from(index) * u64::from(rows) * u64::from(p.hidden) * 2;
        let normed = self.halves(Scratch::Normed, rows, p.hidden)?;
        let qkv = self.halves(Scratch::Qkv, ranks * rows, p.qkv)?;
        let query = self.halves(Scratch::Query, ranks * rows, p.attn)?;
        let mixed = self.halves(Scratch::Attention, ranks * rows, p.attn)?;
        let projected = self.halves(Scratch::Projected, rows, p.hidden)?;
        let middle = self.halves(Scratch::Middle, rows, p.hidden)?;
        let gate_up = self.halves(Scratch::GateUp, ranks * rows, 2 * p.ffn)?;
        let activated = self.halves(Scratch::Activated, ranks * rows, p.ffn)?;
        // One rank has nobody to add to.
        let shares = if ranks == 1 { projected } else { self.halves(Scratch::Shares, ranks * rows, p.hidden)? };
        let part = |of: Buffer, width: u32, rank: u32| {
            let bytes = u64::from(rows) * u64::from(width) * 2;
            Buffer { address: of.address + u64::from(rank) * bytes, bytes }
        };

        let (kernel, grid) = (self.kernels.embed.id, self.kernels.embed.spec.grid(rows));
        self.launch(kernel, grid, &[at(Section::Ids), self.resident.embed.arg(), Arg::Ptr(boundary(0)), n])?;
        seen.tap(self.device.as_mut(), None, Op::Embed, boundary(0), rows)?;

        for l in 0..self.model.config.layers {
            let w = &self.resident.layers[l as usize];
            let (attn_norm, mlp_norm, head_norms) = (w.attn_norm.arg(), w.mlp_norm.arg(), w.head_norms);
            let held: Vec<(u32, RankBuffers)> = (0..).zip(w.ranks.iter().copied()).collect();
            let (x, y) = (boundary(l), boundary(l + 1));

            self.norm([Arg::Ptr(x), attn_norm, normed.arg(), n], rows)?;
            seen.tap(self.device.as_mut(), Some(l), Op::AttnNorm, normed.address, rows)?;
            for (rank, w) in &held {
                let qkv = part(qkv, p.qkv, *rank);
                self.gemm(|k| &k.qkv, [normed, w.qkv, qkv], rows, d.qkv, p.qkv)?;
                if let (Some(kernel), Some(b)) = (&self.kernels.qkv_bias, w.qkv_bias) {
                    let (id, grid) = (kernel.id, kernel.spec.grid(rows));
                    self.launch(id, grid, &[qkv.arg(), b.arg(), n])?;
                }
            }
            seen.tap(self.device.as_mut(), Some(l), Op::Qkv, qkv.address, rows)?;

            for (rank, w) in &held {
                let (qkv, query) = (part(qkv, p.qkv, *rank), part(query, p.attn, *rank));
                if let (Some(kernel), Some([q_w, k_w])) = (&self.kernels.head_norm, head_norms) {
                    let (id, grid) = (kernel.id, kernel.spec.grid(rows));
                    self.launch(id, grid, &[qkv.arg(), q_w.arg(), k_w.arg(), n])?;
                }
                let (kernel, grid) = (self.kernels.rope.id, self.kernels.rope.spec.grid(rows));
                let tables =
                    [self.resident.cos.arg(), self.resident.sin.arg(), at(Section::Positions), at(Section::Columns)];
                let stores = [w.caches[0].arg(), w.caches[1].arg(), query.arg(), n];
                self.launch(kernel, grid, &[&[qkv.arg()][..], &tables, &stores].concat())?;
            }
            seen.tap(self.device.as_mut(), Some(l), Op::RopeQ, query.address, rows)?;
            let caches: Vec<[Buffer; 2]> = held.iter().map(|(_, w)| w.caches).collect();
            seen.columns(self.device.as_mut(), l, &caches, layout.section(Section::Columns), rows)?;

            for (rank, w) in &held {
                let (query, mixed) = (part(query, p.attn, *rank), part(mixed, p.attn, *rank));
                self.attention(query, w.caches, inputs, &layout, d.kv_splits, mixed)?;
                self.gemm(|k| &k.o_proj, [mixed, w.o_proj, part(shares, p.hidden, *rank)], rows, d.o_proj, p.hidden)?;
            }
            seen.tap(self.device.as_mut(), Some(l), Op::Attention, mixed.address, rows)?;
            self.all_reduce(shares, projected, rows)?;
            seen.tap(self.device.as_mut(), Some(l), Op::OProj, projected.address, rows)?;
            if let Some(fused) = &self.kernels.add_norm {
                let (id, grid) = (fused.id, fused.spec.grid(rows));
                self.launch(id, grid, &[Arg::Ptr(x), projected.arg(), middle.arg(), mlp_norm, normed.arg(), n])?;
            } else {
                self.add([Arg::Ptr(x), projected.arg(), middle.arg(), n], rows)?;
                self.norm([middle.arg(), mlp_norm, normed.arg(), n], rows)?;
            }
            seen.tap(self.device.as_mut(), Some(l), Op::AttnResidual, middle.address, rows)?;
            seen.tap(self.device.as_mut(), Some(l), Op::MlpNorm, normed.address, rows)?;
            for (rank, w) in &held {
                let (gate_up, activated) = (part(gate_up, 2 * p.ffn, *rank), part(activated, p.ffn, *rank));
                self.gemm(|k| &k.gate_up, [normed, w.gate_up, gate_up], rows, d.gate_up, 2 * p.ffn)?;
                let (kernel, grid) = (self.kernels.silu_mul.id, self.kernels.silu_mul.spec.grid(rows));
                self.launch(kernel, grid, &[gate_up.arg(), activated.arg(), n])?;
                self.gemm(|k| &k.down, [activated, w.down, part(shares, p.hidden, *rank)], rows, d.down, p.hidden)?;
            }
            seen.tap(self.device.as_mut(), Some(l), Op::GateUp, gate_up.address, rows)?;
            seen.tap(self.device.as_mut(), Some(l), Op::SiluMul, activated.address, rows)?;
            self.all_reduce(shares, projected, rows)?;
            seen.tap(self.device.as_mut(), Some(l), Op::Down, projected.address, rows)?;
            self.add([middle.arg(), projected.arg(), Arg::Ptr(y), n], rows)?;
            seen.tap(self.device.as_mut(), Some(l), Op::MlpResidual, y, rows)?;
        }
        seen.boundaries(self.device.as_mut(), border.address, rows)?;
        if !layout.logit_rows.is_empty() {
            self.head(&layout, inputs, boundary(self.model.config.layers), d.lm_head, &mut seen)?;
        }
        Ok(seen.finish(layout.rows))
    }

    /// Uploads the step's input arrays.
    fn inputs(&mut self, layout: &Layout) -> Result<Buffer> {
        let bytes = layout.to_bytes();
        let buffer = self.scratch.get(self.device.as_mut(), Scratch::Inputs, bytes.len() as u64)?;
        self.device.upload(buffer.address, &bytes)?;
        Ok(buffer)
    }

    /// Final norm, LM head and top two logits, on the rows that want logits.
    fn head(&mut self, layout: &Layout, inputs: Buffer, x: u64, splits: u32, seen: &mut Collector) -> Result<()> {
        let p = Padded::of(&self.model.config);
        let count = layout.logit_rows.len() as u32;
        let n = Arg::U32(count);
        let gathered = self.halves(Scratch::Gathered, count, p.hidden)?;
        let normed = self.halves(Scratch::FinalNormed, count, p.hidden)?;
        let logits = self.words(Scratch::Logits, count, p.vocab)?;
        let top2 = self.words(Scratch::Top2, count, TOP2_WORDS)?;

        let index = Arg::Ptr(inputs.address + layout.offset(Section::LogitRows));
        let (kernel, grid) = (self.kernels.gather.id, self.kernels.gather.spec.grid(count));
        self.launch(kernel, grid, &[index, Arg::Ptr(x), gathered.arg(), n])?;
        self.norm([gathered.arg(), self.resident.final_norm.arg(), normed.arg(), n], count)?;
        seen.tap(self.device.as_mut(), None, Op::FinalNorm, normed.address, count)?;
        self.gemm(|k| &k.lm_head, [normed, self.resident.lm_head, logits], count, splits, p.vocab)?;
        let (kernel, grid) = (self.kernels.top2.id, self.kernels.top2.spec.grid(count));
        self.launch(kernel, grid, &[logits.arg(), top2.arg(), n])?;
        seen.logits(self.device.as_mut(), logits.address, top2.address)
    }

    fn attention(
        &mut self,
        query: Buffer,
        caches: [Buffer; 2],
        inputs: Buffer,
        layout: &Layout,
        splits: u32,
        out: Buffer,
    ) -> Result<()> {
        let (rows, tiles) = (layout.row_count(), layout.tile_count);
        let at = |section| Arg::Ptr(inputs.address + layout.offset(section));
        let common = [query.arg(), caches[0].arg(), caches[1].arg(), at(Section::Tiles), at(Section::BlockTable)];
        let sizes = [Arg::U32(rows), Arg::U32(tiles), Arg::U32(self.kv.max_pages())];
        let (partial, combine) = match &self.kernels.attention {
            Attention::Tensor { partial, combine, .. } if splits != 1 => {
                ((partial.id, partial.spec.grid(tiles, splits)), (combine.id, combine.spec.grid(rows)))
            }
            whole => {
                let (kernel, grid) = match whole {
                    Attention::Tensor { whole, .. } => (whole.id, whole.spec.grid(tiles, 1)),
                    Attention::Chain(chain) => (chain.id, chain.spec.grid(tiles, layout.tile_rows)),
                };
                return self.launch(kernel, grid, &[&common[..], &[out.arg()], &sizes].concat());
            }
        };
        let heads = self.division.shard.q_heads;
        let width = Padded::of(&self.division.shard).attn;
        let o = self.words(Scratch::KvOutput, splits * rows, width)?;
        let m = self.words(Scratch::KvMax, splits * rows, heads)?;
        let l = self.words(Scratch::KvSum, splits * rows, heads)?;
        let parts = [o.arg(), m.arg(), l.arg()];
        self.launch(partial.0, partial.1, &[&common[..], &parts, &sizes, &[Arg::U32(splits)]].concat())?;
        self.launch(combine.0, combine.1, &[&parts[..], &[out.arg(), Arg::U32(rows), Arg::U32(splits)]].concat())
    }

    /// `y = x w^T` in one walk, in `splits` slices of K, or as a stream of `splits` workers.
    fn gemm(&mut self, pick: Pick, [x, w, y]: [Buffer; 3], rows: u32, splits: u32, n_pad: u32) -> Result<()> {
        let n = Arg::U32(rows);
        let gemm = pick(&self.kernels);
        let Some((partial, reduce)) = gemm.split(rows, splits) else {
            let whole = gemm.whole(rows);
            let (kernel, grid) = (whole.id, whole.spec.grid(rows, 1));
            return self.launch(kernel, grid, &[x.arg(), w.arg(), y.arg(), n]);
        };
        let (kernel, grid) = (partial.id, partial.spec.grid(rows, splits));
        let (kernel2, grid2) = (reduce.id, reduce.spec.grid(rows));
        let parts = partial.spec.parts(splits);
        let ws = self.words(Scratch::Partials, parts * rows, n_pad)?;
        self.launch(kernel, grid, &[x.arg(), w.arg(), ws.arg(), n, Arg::U32(splits)])?;
        self.launch(kernel2, grid2, &[ws.arg(), y.arg(), n, Arg::U32(splits)])
    }

    /// What the ranks computed, added; nothing to do for one, which has computed it in place.
    fn all_reduce(&mut self, shares: Buffer, sum: Buffer, rows: u32) -> Result<()> {
        let Some(kernel) = &self.kernels.all_reduce else { return Ok(()) };
        let (id, grid) = (kernel.id, kernel.spec.grid(rows));
        self.launch(id, grid, &[shares.arg(), sum.arg(), Arg::U32(rows)])
    }

    fn norm(&mut self, args: [Arg; 4], rows: u32) -> Result<()> {
        let (kernel, grid) = (self.kernels.norm.id, self.kernels.norm.spec.grid(rows));
        self.launch(kernel, grid, &args)
    }

    fn add(&mut self, args: [Arg; 4], rows: u32) -> Result<()> {
        let (kernel, grid) = (self.kernels.add.id, self.kernels.add.spec.grid(rows));
        self.launch(kernel, grid, &args)
    }

    fn launch(&mut self, kernel: KernelId, grid: [u32; 3], args: &[Arg]) -> Result<()> {
        self.device.launch(kernel, grid, args)
    }

    /// A scratch array of `rows` rows of 16-bit elements.
    fn halves(&mut self, name: Scratch, rows: u32, width: u32) -> Result<Buffer> {
        self.scratch.get(self.device.as_mut(), name, u64::from(rows) * u64::from(width) * 2)
    }

    /// A scratch array of `rows` rows of 32-bit elements.
    fn words(&mut self, name: Scratch, rows: u32, width: u32) -> Result<Buffer> {
        self.scratch.get(self.device.as_mut(), name, u64::from(rows) * u64::from(width) * 4)
    }
}
