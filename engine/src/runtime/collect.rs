//! Bringing results back from the device, without the padding.

use crate::config::Config;
use crate::device::{Buffer, Device};
use crate::error::Result;
use crate::kernels::{KvType, PAGE, TOP2_WORDS};
use crate::kv::e4m3;
use crate::ops::{Op, OpAt};
use crate::parallel::Division;
use crate::step::{Observe, Row, StepOutput, Tap, TapBits, Top2};
use crate::weights::Padded;

/// How the columns of a device array map to true columns: `parts` parts of `pad` columns, `true_width` of them real.
#[derive(Clone, Copy)]
struct Columns {
    parts: u32,
    true_width: u32,
    pad: u32,
}

/// Collects what [`Observe`] asks for while the step runs.
pub(super) struct Collector {
    config: Config,
    division: Division,
    padded: Padded,
    kv: KvType,
    logit_rows: Vec<u32>,
    observe: Observe,
    taps: Vec<Tap>,
    /// K and V of all layers so far, by row.
    columns: [Vec<Vec<u16>>; 2],
    boundaries: Vec<Vec<u16>>,
    logits: Vec<Vec<u32>>,
    top2: Vec<Top2>,
}

impl Collector {
    pub fn new(config: &Config, division: &Division, kv: KvType, logit_rows: Vec<u32>, observe: Observe) -> Self {
        Self {
            config: config.clone(),
            division: division.clone(),
            padded: Padded::of(&division.shard),
            kv,
            logit_rows,
            observe,
            taps: Vec::new(),
            columns: [Vec::new(), Vec::new()],
            boundaries: Vec::new(),
            logits: Vec::new(),
            top2: Vec::new(),
        }
    }

    /// Columns of an operation's device array, of one rank where it is divided.
    fn shape(&self, op: Op) -> Columns {
        let p = self.padded;
        let (parts, true_width) = match op.row_shape(&self.division.shard)[..] {
            [parts, width] => (parts as u32, width as u32),
            [width] => (1, width as u32),
            _ => (0, 0),
        };
        let pad = match op {
            Op::Qkv | Op::RopeQ | Op::K | Op::V | Op::Attention => p.head,
            Op::GateUp | Op::SiluMul => p.ffn,
            Op::LmHead => p.vocab,
            _ => p.hidden,
        };
        Columns { parts, true_width, pad }
    }

    /// Reads an operation's bf16 result, if it is wanted.
    pub fn tap(&mut self, device: &mut dyn Device, layer: Option<u32>, op: Op, address: u64, rows: u32) -> Result<()> {
        if self.observe.taps.wants(OpAt { layer, op }) {
            let shape = self.shape(op);
            let ranks = if self.pieces(op).is_empty() { 1 } else { self.division.ranks };
            let bits = unpad(&halves(device, address, ranks * rows * shape.parts * shape.pad)?, shape);
            let bits = if ranks == 1 { bits } else { self.merge(op, &bits, rows as usize) };
            let rows = if op == Op::FinalNorm { self.logit_rows.clone() } else { (0..rows).collect() };
            self.push_tap(layer, op, rows, TapBits::Bf16(bits));
        }
        Ok(())
    }

    /// Parts of a rank's row of an operation that is divided, each with whether ranks may share it; none for the others. The whole row is
    /// the first part of every rank, then the second.
    fn pieces(&self, op: Op) -> Vec<(usize, bool)> {
        let c = &self.division.shard;
        let heads = |n: u32| (n * c.head_dim) as usize;
        match op {
            Op::Qkv => vec![(heads(c.q_heads), false), (heads(c.kv_heads), true), (heads(c.kv_heads), true)],
            Op::RopeQ | Op::Attention => vec![(heads(c.q_heads), false)],
            Op::GateUp => vec![(c.ffn as usize, false); 2],
            Op::SiluMul => vec![(c.ffn as usize, false)],
            _ => Vec::new(),
        }
    }

    /// The whole rows of an operation, from `(ranks, rows, width)`.
    fn merge(&self, op: Op, bits: &[u16], rows: usize) -> Vec<u16> {
        let pieces = self.pieces(op);
        let width: usize = pieces.iter().map(|p| p.0).sum();
        let mut out = Vec::with_capacity(bits.len());
        for row in 0..rows {
            let mut first = 0;
            for (piece, shared) in &pieces {
                let step = if *shared { self.division.sharing as usize } else { 1 };
                for rank in (0..self.division.ranks as usize).step_by(step) {
                    out.extend(&bits[(rank * rows + row) * width + first..][..*piece]);
                }
                first += piece;
            }
        }
        out
    }

    /// Reads the K and V columns that a layer's rows have just stored, if they are wanted; `caches` by rank.
    pub fn columns(
        &mut self,
        device: &mut dyn Device,
        layer: u32,
        caches: &[[Buffer; 2]],
        columns: &[u32],
        rows: u32,
    ) -> Result<()> {
        let wants = |op| self.observe.taps.wants(OpAt { layer: Some(layer), op });
        let wanted = [wants(Op::K), wants(Op::V)];
        if !self.observe.state && wanted == [false; 2] {
            return Ok(());
        }
        for (i, op) in [Op::K, Op::V].into_iter().enumerate() {
            let mut all = Vec::new();
            for (row, column) in columns[..rows as usize].iter().enumerate() {
                let mut bits = Vec::new();
                for caches in caches.iter().step_by(self.division.sharing as usize) {
                    self.column(device, caches[i], *column, &mut bits)?;
                }
                if self.observe.state {
                    self.columns[i].resize(rows as usize, Vec::new());
                    self.columns[i][row].extend(&bits);
                }
                all.extend(bits);
            }
            if wanted[i] {
                self.push_tap(Some(layer), op, (0..rows).collect(), TapBits::Bf16(all));
            }
        }
        Ok(())
    }

    /// Adds one column of a rank's cache to `bits`, as attention reads it: bf16 `(kv_heads, head_dim)`.
    fn column(&self, device: &mut dyn Device, cache: Buffer, column: u32, bits: &mut Vec<u16>) -> Result<()> {
        let (page, offset) = (column / PAGE, column % PAGE);
        let kv_heads = self.division.shard.kv_heads;
        for head in 0..kv_heads {
            let place = (page * kv_heads + head) * PAGE + offset;
            let address = cache.address + u64::from(place) * u64::from(self.padded.head) * u64::from(self.kv.bytes());
            match self.kv {
                KvType::Bf16 => bits.extend(halves(device, address, self.config.head_dim)?),
                KvType::Fp8 => {
                    let mut codes = vec![0; self.config.head_dim as usize];
                    device.download(address, &mut codes)?;
                    bits.extend(codes.into_iter().map(e4m3::to_bf16));
                }
            }
        }
        Ok(())
    }

    /// Reads the residual stream at all borders, if it is wanted.
    pub fn boundaries(&mut self, device: &mut dyn Device, address: u64, rows: u32) -> Result<()> {
        if self.observe.state {
            let shape = self.shape(Op::Embed);
            let all = unpad(&halves(device, address, (self.config.layers + 1) * rows * shape.pad)?, shape);
            let width = shape.true_width as usize;
            let row = |r: usize| all.chunks_exact(width).skip(r).step_by(rows as usize).flatten().copied().collect();
            self.boundaries = (0..rows as usize).map(row).collect();
        }
        Ok(())
    }

    /// Reads the top two logits, and the logits if they are wanted.
    pub fn logits(&mut self, device: &mut dyn Device, logits: u64, top2: u64) -> Result<()> {
        let rows = self.logit_rows.len() as u32;
        for word in words(device, top2, rows * TOP2_WORDS)?.chunks_exact(TOP2_WORDS as usize) {
            self.top2.push(Top2 {
                first: word[0],
                first_bits: word[1],
                second: word[2],
                second_bits: word[3],
                margin_bits: word[4],
            });
        }
        let tapped = self.observe.taps.wants(OpAt { layer: None, op: Op::LmHead });
        if self.observe.logits || tapped {
            let shape = self.shape(Op::LmHead);
            let bits = unpad(&words(device, logits, rows * shape.pad)?, shape);
            if self.observe.logits {
                self.logits = bits.chunks_exact(shape.true_width as usize).map(<[u32]>::to_vec).collect();
            }
            if tapped {
                self.push_tap(None, Op::LmHead, self.logit_rows.clone(), TapBits::F32(bits));
            }
        }
        Ok(())
    }

    /// Hands everything to the rows.
    pub fn finish(self, mut rows: Vec<Row>) -> StepOutput {
        let [k, v] = self.columns;
        for (row, bits) in rows.iter_mut().zip(k) {
            row.k = bits;
        }
        for (row, bits) in rows.iter_mut().zip(v) {
            row.v = bits;
        }
        for (row, bits) in rows.iter_mut().zip(self.boundaries) {
            row.boundaries = bits;
        }
        let mut logits = self.logits.into_iter();
        for (index, top2) in self.logit_rows.iter().zip(self.top2) {
            let row = &mut rows[*index as usize];
            row.top2 = Some(top2);
            row.logits = logits.next();
        }
        StepOutput { rows, taps: self.taps }
    }

    fn push_tap(&mut self, layer: Option<u32>, op: Op, rows: Vec<u32>, bits: TapBits) {
        self.taps.push(Tap {
            at: OpAt { layer, op },
            rows: rows.into_iter().map(|r| r as usize).collect(),
            width: op.row_shape(&self.config).iter().product::<u64>() as u32,
            bits,
        });
    }
}

/// Leaves out the padding columns.
fn unpad<T: Copy>(padded: &[T], shape: Columns) -> Vec<T> {
    padded.chunks_exact(shape.pad as usize).flat_map(|part| &part[..shape.true_width as usize]).copied().collect()
}

fn halves(device: &mut dyn Device, address: u64, count: u32) -> Result<Vec<u16>> {
    let mut bytes = vec![0; count as usize * 2];
    device.download(address, &mut bytes)?;
    Ok(bytes.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect())
}

fn words(device: &mut dyn Device, address: u64, count: u32) -> Result<Vec<u32>> {
    let mut bytes = vec![0; count as usize * 4];
    device.download(address, &mut bytes)?;
    Ok(bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect())
}
