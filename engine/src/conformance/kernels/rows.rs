//! Kernels that work on rows: copies, norms, products, the largest logits.

use super::{Argument, Case};
use crate::conformance::data::{Rng, bytes16, bytes32, padded};
use crate::kernels::{
    AddNormSpec, AddSpec, AllReduceSpec, BiasSpec, EmbedSpec, GatherSpec, GemmOut, GemmSpec, GemmTile, HeadNormSpec,
    KernelText, RmsNormSpec, SiluMulSpec, SplitKReduceSpec, Stream, TOP2_WORDS, Top2Spec, Units, pad,
};
use Argument::{In, InOut, Out, U32};

/// Which numbers a case is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Usual,
    AnyBits,
}

const UNITS: [Units; 2] = [Units::Special, Units::Ieee];
const KINDS: [Kind; 2] = [Kind::Usual, Kind::AnyBits];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Usual => "",
            Kind::AnyBits => ", any bits",
        }
    }

    fn bf16(self, rng: &mut Rng, count: u32) -> Vec<u16> {
        match self {
            Kind::Usual => rng.bf16s(count as usize, 1.0),
            Kind::AnyBits => rng.any16(count as usize),
        }
    }

    fn f32(self, rng: &mut Rng, count: u32) -> Vec<u32> {
        match self {
            Kind::Usual => rng.f32s(count as usize, 4.0),
            Kind::AnyBits => rng.any32(count as usize),
        }
    }
}

fn case(what: String, kernel: KernelText, grid: [u32; 3], args: Vec<Argument>) -> Case {
    Case { what: format!("{} {what}", kernel.name), kernel, grid, args }
}

pub(super) fn cases() -> Vec<Case> {
    let mut rng = Rng::new(0x726f_7773);
    let mut out = Vec::new();
    copies(&mut out, &mut rng);
    elementwise(&mut out, &mut rng);
    norms(&mut out, &mut rng);
    products(&mut out, &mut rng);
    largest(&mut out, &mut rng);
    out
}

fn copies(out: &mut Vec<Case>, rng: &mut Rng) {
    for (count, width, from_rows) in [(1, 16, 1), (7, 48, 5), (130, 208, 40)] {
        let index: Vec<u32> = (0..count).map(|_| rng.below(from_rows)).collect();
        let table = rng.any16((from_rows * width) as usize);
        let mut push = |kernel, grid| {
            let bytes = Out((count * width) as usize, 2);
            let args = vec![In(bytes32(&index)), In(bytes16(&table)), bytes, U32(count)];
            out.push(case(format!("{count}x{width}, any bits"), kernel, grid, args));
        };
        let embed = EmbedSpec { hidden_pad: width };
        push(embed.build(), embed.grid(count));
        let gather = GatherSpec { width };
        push(gather.build(), gather.grid(count));
    }
}

fn elementwise(out: &mut Vec<Case>, rng: &mut Rng) {
    for (rows, width) in [(1, 16), (9, 48), (40, 208)] {
        for kind in KINDS {
            let shape = format!("{rows}x{width}{}", kind.name());
            let (x, y) = (kind.bf16(rng, rows * width), kind.bf16(rng, rows * width));
            let add = AddSpec { width };
            let args = vec![In(bytes16(&x)), In(bytes16(&y)), Out(x.len(), 2), U32(rows)];
            out.push(case(shape.clone(), add.build(), add.grid(rows), args));
            let bias = BiasSpec { width };
            let b = kind.bf16(rng, width);
            let args = vec![InOut(bytes16(&x)), In(bytes16(&b)), U32(rows)];
            out.push(case(shape, bias.build(), bias.grid(rows), args));
        }
    }
    for ranks in [2, 4, 8] {
        for kind in KINDS {
            let (rows, width) = (5, 48);
            let parts = kind.bf16(rng, ranks * rows * width);
            let reduce = AllReduceSpec { width, ranks };
            let args = vec![In(bytes16(&parts)), Out((rows * width) as usize, 2), U32(rows)];
            out.push(case(format!("{rows}x{width}{}", kind.name()), reduce.build(), reduce.grid(rows), args));
        }
    }
    // Every gate.
    let (rows, ffn_pad) = (32, 2048);
    let gates: Vec<u16> = (0..=u16::MAX).collect();
    for kind in KINDS {
        let ups = kind.bf16(rng, 1 << 16);
        let both: Vec<u16> =
            gates.chunks(2048).zip(ups.chunks(2048)).flat_map(|(gate, up)| [gate, up].concat()).collect();
        for units in UNITS {
            let silu = SiluMulSpec { ffn_pad, units };
            let args = vec![In(bytes16(&both)), Out(gates.len(), 2), U32(rows)];
            out.push(case(format!("of every gate{}", kind.name()), silu.build(), silu.grid(rows), args));
        }
    }
}

fn norms(out: &mut Vec<Case>, rng: &mut Rng) {
    let eps = 1e-5_f32.to_bits();
    for (rows, hidden) in [(1, 16), (5, 200), (3, 1000)] {
        for kind in KINDS {
            let hidden_pad = pad(hidden);
            let x = padded(&kind.bf16(rng, rows * hidden), hidden as usize, hidden_pad as usize);
            let w = padded(&kind.bf16(rng, hidden), hidden as usize, hidden_pad as usize);
            let what = format!("{rows}x{hidden}{}", kind.name());
            for units in UNITS {
                let norm = RmsNormSpec { hidden, hidden_pad, eps, units };
                let args = vec![In(bytes16(&x)), In(bytes16(&w)), Out(x.len(), 2), U32(rows)];
                out.push(case(what.clone(), norm.build(), norm.grid(rows), args));
            }
            let y = padded(&kind.bf16(rng, rows * hidden), hidden as usize, hidden_pad as usize);
            let both = AddNormSpec(RmsNormSpec { hidden, hidden_pad, eps, units: Units::Special });
            let sum = Out(x.len(), 2);
            let args = vec![In(bytes16(&x)), In(bytes16(&y)), sum, In(bytes16(&w)), Out(x.len(), 2), U32(rows)];
            out.push(case(what, both.build(), both.grid(rows), args));
        }
    }
    for (rows, q_heads, kv_heads, head_dim) in [(3, 4, 2, 40), (2, 3, 1, 128)] {
        for kind in KINDS {
            let (dim, head_pad) = (head_dim as usize, pad(head_dim));
            let mut heads = |count| padded(&kind.bf16(rng, count * head_dim), dim, head_pad as usize);
            let (x, q_w, k_w) = (heads(rows * (q_heads + 2 * kv_heads)), heads(1), heads(1));
            for units in UNITS {
                let norm = HeadNormSpec { q_heads, kv_heads, head_dim, head_pad, eps, units };
                let args = vec![InOut(bytes16(&x)), In(bytes16(&q_w)), In(bytes16(&k_w)), U32(rows)];
                let what = format!("{rows} rows of {q_heads}/{kv_heads} heads of {head_dim}{}", kind.name());
                out.push(case(what, norm.build(), norm.grid(rows), args));
            }
        }
    }
}

fn products(out: &mut Vec<Case>, rng: &mut Rng) {
    for (rows, n_pad, k_pad) in [(1, 16, 16), (17, 80, 48), (5, 144, 208), (70, 48, 272)] {
        for kind in KINDS {
            let (x, w) = (kind.bf16(rng, rows * k_pad), kind.bf16(rng, n_pad * k_pad));
            let variants = GemmTile::ALL.into_iter().flat_map(|tile| UNITS.map(|units| (tile, units)));
            for (tile, units) in variants {
                for (output, name, width, splits) in [
                    (GemmOut::Bf16, "bf16", 2, 1),
                    (GemmOut::F32, "f32", 4, 1),
                    (GemmOut::Partial, "in 3 slices", 4, 3),
                    (GemmOut::Stream, "by 3 workers", 4, 3),
                ] {
                    let gemm = GemmSpec { n_pad, k_pad, tile, out: output, units };
                    let bytes = (gemm.parts(splits) * rows * n_pad) as usize * width;
                    // What a stream leaves out stays as it was.
                    let bytes =
                        if output == GemmOut::Stream { InOut(vec![0; bytes]) } else { Out(bytes / width, width) };
                    let mut args = vec![In(bytes16(&x)), In(bytes16(&w)), bytes, U32(rows)];
                    if splits > 1 {
                        args.push(U32(splits));
                    }
                    let what = format!("{rows}x{n_pad}x{k_pad} {name}{}", kind.name());
                    out.push(case(what, gemm.build(), gemm.grid(rows, splits), args));
                }
            }
        }
    }
    for (rows, n_pad, splits) in [(1, 16, 1), (5, 80, 3), (3, 144, 9)] {
        for (f32_out, width) in [(false, 2), (true, 4)] {
            for kind in KINDS {
                let ws = kind.f32(rng, splits * rows * n_pad);
                let reduce = SplitKReduceSpec { n_pad, f32_out, stream: None };
                let args = vec![In(bytes32(&ws)), Out((rows * n_pad) as usize, width), U32(rows), U32(splits)];
                let what = format!("{splits} slices of {rows}x{n_pad}{}", kind.name());
                out.push(case(what, reduce.build(), reduce.grid(rows), args));
                let stream = Stream::new(n_pad, 272, splits);
                let ws = kind.f32(rng, stream.segments() * rows * n_pad);
                let reduce = SplitKReduceSpec { n_pad, f32_out, stream: Some(272) };
                let args = vec![In(bytes32(&ws)), Out((rows * n_pad) as usize, width), U32(rows), U32(splits)];
                let what = format!("{splits} workers of {rows}x{n_pad}{}", kind.name());
                out.push(case(what, reduce.build(), reduce.grid(rows), args));
            }
        }
    }
}

fn largest(out: &mut Vec<Case>, rng: &mut Rng) {
    for vocab in [1, 33, 1025, 5000] {
        for kind in KINDS {
            let vocab_pad = pad(vocab);
            let mut logits = padded(&kind.f32(rng, 4 * vocab), vocab as usize, vocab_pad as usize);
            if kind == Kind::Usual {
                // Ties of both zeros.
                logits.extend((0..vocab_pad).map(|_| 0x8000_0000 * rng.below(2)));
            }
            let rows = logits.len() as u32 / vocab_pad;
            let top2 = Top2Spec { vocab, vocab_pad };
            let args = vec![In(bytes32(&logits)), Out((rows * TOP2_WORDS) as usize, 4), U32(rows)];
            out.push(case(format!("{rows}x{vocab}{}", kind.name()), top2.build(), top2.grid(rows), args));
        }
    }
}
