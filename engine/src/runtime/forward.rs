//! The forward pass: launches in order, top to bottom.

use super::Engine;
use super::buffers::Scratch;
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
        let p = Padded::of(&self.model.config);
        let d = plan.dispatch;
        let rows = layout.row_count();
        let inputs = self.inputs(&layout)?;
        let at = |section| Arg::Ptr(inputs.address + layout.offset(section));
        let n = Arg::U32(rows);
        let mut seen = Collector::new(&self.model.config, layout.logit_rows.clone(), plan.observe.clone());

        let border = self.halves(Scratch::Boundaries, rows * (self.model.config.layers + 1), p.hidden)?;
        let boundary = |index: u32| border.address + u64::from(index) * u64::from(rows) * u64::from(p.hidden) * 2;
        let normed = self.halves(Scratch::Normed, rows, p.hidden)?;
        let qkv = self.halves(Scratch::Qkv, rows, p.qkv)?;
        let query = self.halves(Scratch::Query, rows, p.attn)?;
        let mixed = self.halves(Scratch::Attention, rows, p.attn)?;
        let projected = self.halves(Scratch::Projected, rows, p.hidden)?;
        let middle = self.halves(Scratch::Middle, rows, p.hidden)?;
        let gate_up = self.halves(Scratch::GateUp, rows, 2 * p.ffn)?;
        let activated = self.halves(Scratch::Activated, rows, p.ffn)?;

        let (kernel, grid) = (self.kernels.embed.id, self.kernels.embed.spec.grid(rows));
        self.launch(kernel, grid, &[at(Section::Ids), self.resident.embed.arg(), Arg::Ptr(boundary(0)), n])?;
        seen.tap(self.device.as_mut(), None, Op::Embed, boundary(0), rows)?;

        for l in 0..self.model.config.layers {
            let w = &self.resident.layers[l as usize];
            let (attn_norm, mlp_norm) = (w.attn_norm.arg(), w.mlp_norm.arg());
            let (w_qkv, w_o, w_gate_up, w_down) = (w.qkv, w.o_proj, w.gate_up, w.down);
            let (bias, head_norms) = (w.qkv_bias, w.head_norms);
            let caches = [w.k_cache, w.v_cache];
            let (x, y) = (boundary(l), boundary(l + 1));

            self.norm([Arg::Ptr(x), attn_norm, normed.arg(), n], rows)?;
            seen.tap(self.device.as_mut(), Some(l), Op::AttnNorm, normed.address, rows)?;
            self.gemm(|k| &k.qkv, [normed, w_qkv, qkv], rows, d.qkv, p.qkv)?;
            if let (Some(kernel), Some(b)) = (&self.kernels.qkv_bias, bias) {
                let (id, grid) = (kernel.id, kernel.spec.grid(rows));
                self.launch(id, grid, &[qkv.arg(), b.arg(), n])?;
            }
            seen.tap(self.device.as_mut(), Some(l), Op::Qkv, qkv.address, rows)?;

            if let (Some(kernel), Some([q_w, k_w])) = (&self.kernels.head_norm, head_norms) {
                let (id, grid) = (kernel.id, kernel.spec.grid(rows));
                self.launch(id, grid, &[qkv.arg(), q_w.arg(), k_w.arg(), n])?;
            }
            let (kernel, grid) = (self.kernels.rope.id, self.kernels.rope.spec.grid(rows));
            let tables =
                [self.resident.cos.arg(), self.resident.sin.arg(), at(Section::Positions), at(Section::Columns)];
            let stores = [caches[0].arg(), caches[1].arg(), query.arg(), n];
            self.launch(kernel, grid, &[&[qkv.arg()][..], &tables, &stores].concat())?;
            seen.tap(self.device.as_mut(), Some(l), Op::RopeQ, query.address, rows)?;
            seen.columns(self.device.as_mut(), l, caches, layout.section(Section::Columns), rows)?;

            self.attention(query, caches, inputs, &layout, d.kv_splits, mixed)?;
            seen.tap(self.device.as_mut(), Some(l), Op::Attention, mixed.address, rows)?;
            self.gemm(|k| &k.o_proj, [mixed, w_o, projected], rows, d.o_proj, p.hidden)?;
            seen.tap(self.device.as_mut(), Some(l), Op::OProj, projected.address, rows)?;
            self.add([Arg::Ptr(x), projected.arg(), middle.arg(), n], rows)?;
            seen.tap(self.device.as_mut(), Some(l), Op::AttnResidual, middle.address, rows)?;

            self.norm([middle.arg(), mlp_norm, normed.arg(), n], rows)?;
            seen.tap(self.device.as_mut(), Some(l), Op::MlpNorm, normed.address, rows)?;
            self.gemm(|k| &k.gate_up, [normed, w_gate_up, gate_up], rows, d.gate_up, 2 * p.ffn)?;
            seen.tap(self.device.as_mut(), Some(l), Op::GateUp, gate_up.address, rows)?;
            let (kernel, grid) = (self.kernels.silu_mul.id, self.kernels.silu_mul.spec.grid(rows));
            self.launch(kernel, grid, &[gate_up.arg(), activated.arg(), n])?;
            seen.tap(self.device.as_mut(), Some(l), Op::SiluMul, activated.address, rows)?;
            self.gemm(|k| &k.down, [activated, w_down, projected], rows, d.down, p.hidden)?;
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
        let heads = self.model.config.q_heads;
        let width = Padded::of(&self.model.config).attn;
        let o = self.words(Scratch::KvOutput, splits * rows, width)?;
        let m = self.words(Scratch::KvMax, splits * rows, heads)?;
        let l = self.words(Scratch::KvSum, splits * rows, heads)?;
        let parts = [o.arg(), m.arg(), l.arg()];
        self.launch(partial.0, partial.1, &[&common[..], &parts, &sizes, &[Arg::U32(splits)]].concat())?;
        self.launch(combine.0, combine.1, &[&parts[..], &[out.arg(), Arg::U32(rows), Arg::U32(splits)]].concat())
    }

    /// `y = x w^T` in one walk or in `splits` slices of K.
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
        let ws = self.words(Scratch::Partials, splits * rows, n_pad)?;
        self.launch(kernel, grid, &[x.arg(), w.arg(), ws.arg(), n, Arg::U32(splits)])?;
        self.launch(kernel2, grid2, &[ws.arg(), y.arg(), n, Arg::U32(splits)])
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
