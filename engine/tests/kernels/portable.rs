//! The kernels without tensor cores and special functions: fused multiply-adds one by one, on every NVIDIA generation.

use emulator::profile::Profile;
use engine::kernels::{ChainAttentionSpec, GemmOut, GemmSpec, GemmTile, KV_TILE, Units, pad, scale_log2e};

use crate::arith::{self, Gpu, add, div, fma, max, mul, narrow, sub, widen};
use crate::attention::{Batch, HEADS, Heads, SHAPES, causal_softmax};
use crate::catalogue::texts;
use crate::data::Rng;
use crate::gemm;
use crate::rig::{In, Out, U32, launch, u16s, u32s};

const NEG_INF: u32 = 0xff80_0000;

/// Every generation that the header of the kernels admits.
fn generations() -> Vec<Gpu> {
    Profile::all().iter().filter(|p| p.sm >= 80).map(|p| Gpu::named(p.name)).collect()
}

/// `x w^T`, one chain an output.
fn product(x: &[u16], w: &[u16], k: usize) -> Vec<u32> {
    let chain = |x: &[u16], w: &[u16]| x.iter().zip(w).fold(0, |sum, (&x, &w)| fma(widen(x), widen(w), sum));
    x.chunks_exact(k).flat_map(|x| w.chunks_exact(k).map(|w| chain(x, w)).collect::<Vec<_>>()).collect()
}

#[test]
fn every_output_is_one_chain() {
    let mut rng = Rng::new(60);
    let gpu = Gpu::named("sm_90");
    for (i, (rows, n_pad, k_pad)) in gemm::SHAPES.into_iter().enumerate() {
        let (x, w) = gemm::inputs(&mut rng, i % 3, rows, n_pad, k_pad);
        let want = product(&x, &w, k_pad as usize);
        for tile in GemmTile::ALL {
            let what = format!("{tile:?} {rows}x{n_pad}x{k_pad}");
            let spec = GemmSpec { n_pad, k_pad, tile, out: GemmOut::F32, units: Units::Ieee };
            let args = [In(&x), In(&w), Out(rows * n_pad * 4), U32(rows)];
            assert_eq!(u32s(&launch(&gpu, &spec.build(), spec.grid(rows, 1), &args)[0]), want, "{what} f32");
            let spec = GemmSpec { out: GemmOut::Bf16, ..spec };
            let args = [In(&x), In(&w), Out(rows * n_pad * 2), U32(rows)];
            let y = u16s(&launch(&gpu, &spec.build(), spec.grid(rows, 1), &args)[0]);
            assert_eq!(y, want.iter().map(|&v| narrow(v)).collect::<Vec<_>>(), "{what} bf16");
        }
    }
}

#[test]
fn a_chain_is_the_same_on_every_generation() {
    let mut rng = Rng::new(61);
    let (rows, n_pad, k_pad) = (5, 48, 80);
    let (x, w) = gemm::inputs(&mut rng, 1, rows, n_pad, k_pad);
    let want = product(&x, &w, k_pad as usize);
    let spec = GemmSpec { n_pad, k_pad, tile: GemmTile::M8, out: GemmOut::F32, units: Units::Ieee };
    let args = [In(&x), In(&w), Out(rows * n_pad * 4), U32(rows)];
    assert!(generations().len() >= 5);
    for gpu in generations() {
        let y = launch(&gpu, &spec.build(), spec.grid(rows, 1), &args);
        assert_eq!(u32s(&y[0]), want, "{}", gpu.profile.name);
    }
}

/// The emulator's packed product is defined as these chains.
#[test]
fn the_packed_product_has_the_same_bits() {
    use emulator::format::Elem;
    use emulator::gemm::{Chain, ChainRows, Weights};
    let mut rng = Rng::new(62);
    let (rows, n_pad, k_pad) = (17, 80, 304);
    for kind in 0..3 {
        let (x, w) = gemm::inputs(&mut rng, kind, rows, n_pad, k_pad);
        let packed = ChainRows::pack(Elem::Bf16, rows as usize, k_pad as usize, &x).unwrap();
        let weights = Weights::pack(Elem::Bf16, n_pad as usize, k_pad as usize, &w).unwrap();
        assert_eq!(Chain::new().run(&packed, &weights).unwrap(), product(&x, &w, k_pad as usize));
    }
}

/// The exponential is within 1.05 units in the last place wherever it does not vanish.
#[test]
fn the_exponential_is_accurate() {
    let c = std::f32::consts::LOG2_E;
    let floor = -125.0 / c;
    let mut worst: f64 = 0.0;
    // Every 2^8th float from -0 down to below the floor.
    for x in (0x8000_0000..=0xc2b0_0000_u32).step_by(1 << 8) {
        let y = arith::exp2(x, c.to_bits());
        let value = f32::from_bits(x);
        if value < floor {
            assert_eq!(y, 0, "{value}");
            continue;
        }
        let exact = libm::exp2(f64::from(value) * f64::from(c));
        let ulp = libm::exp2(libm::floor(libm::log2(exact)) - 23.0);
        worst = worst.max((f64::from(f32::from_bits(y)) - exact).abs() / ulp);
    }
    assert!((0.5..1.05).contains(&worst), "{worst} ulp");
    assert_eq!(arith::exp2(0x8000_0000, c.to_bits()), 0x3f80_0000);
    assert_eq!(arith::exp2(NEG_INF, c.to_bits()), 0);
    assert!(f32::from_bits(arith::exp2(0x7fc0_0000, c.to_bits())).is_nan());
}

/// One row and head, the row being the only one there is.
fn attend(batch: &Batch, row: usize, head: usize) -> Vec<u16> {
    let (request, position) = batch.rows[row];
    let (tile, p) = (KV_TILE as usize, batch.pad);
    let c = scale_log2e(batch.heads.dim).to_bits();
    let q = batch.q(row, head);
    let (mut m, mut l, mut o) = (NEG_INF, [0u32; 32], vec![0u32; p]);
    for first in (0..=position).step_by(tile) {
        let keys = first..=position.min(first + tile - 1);
        let s = product(q, &keys.clone().flat_map(|j| batch.kv(0, request, j, head).to_vec()).collect::<Vec<_>>(), p);
        let top = s.iter().fold(m, |m, &s| max(m, s));
        let a = arith::exp2(sub(m, top), c);
        let probability: Vec<u32> = s.iter().map(|&s| arith::exp2(sub(s, top), c)).collect();
        for (j, l) in l.iter_mut().enumerate() {
            *l = fma(*l, a, probability.get(j).copied().unwrap_or(0));
        }
        for (d, o) in o.iter_mut().enumerate() {
            let v = |j: usize| widen(batch.kv(1, request, j, head)[d]);
            *o = keys.clone().zip(&probability).fold(mul(*o, a), |o, (j, &p)| fma(p, v(j), o));
        }
        m = top;
    }
    for distance in [16, 8, 4, 2, 1] {
        l = std::array::from_fn(|j| add(l[j], l[j ^ distance]));
    }
    o.into_iter().map(|o| narrow(div(o, l[0]))).collect()
}

fn run(gpu: &Gpu, batch: &Batch) -> Vec<u16> {
    let Heads { q, kv, dim } = batch.heads;
    let spec = ChainAttentionSpec { q_heads: q, kv_heads: kv, head_dim: dim, head_pad: pad(dim), kv: batch.kv_type };
    let caches = [batch.cache(0), batch.cache(1)];
    let rows = batch.rows.len() as u32;
    let largest = batch.tiles.chunks_exact(4).map(|tile| tile[2]).max().expect("a tile");
    let args = [
        In(&batch.q),
        In(&*caches[0]),
        In(&*caches[1]),
        In(&batch.tiles),
        In(&batch.tables),
        Out(rows * q * batch.pad as u32 * 2),
        U32(rows),
        U32(batch.tile_count()),
        U32(batch.max_pages as u32),
    ];
    u16s(&launch(gpu, &spec.build(), spec.grid(batch.tile_count(), largest), &args)[0])
}

#[test]
fn attention_rows_have_the_bits_they_would_have_alone() {
    let mut rng = Rng::new(63);
    let gpu = Gpu::named("sm_90");
    for heads in HEADS.into_iter().chain([Heads { q: 2, kv: 1, dim: 96 }]) {
        for (shape, scale) in SHAPES.into_iter().zip([1.5, 0.01, 40.0]) {
            let batch = Batch::new(&mut rng, heads, shape, scale);
            let fp8 = Batch::new(&mut rng, heads, shape, scale).fp8();
            for batch in [batch, fp8] {
                let lines = (0..batch.rows.len()).flat_map(|row| (0..heads.q as usize).map(move |head| (row, head)));
                let want: Vec<u16> = lines.flat_map(|(row, head)| attend(&batch, row, head)).collect();
                assert_eq!(run(&gpu, &batch), want, "{heads:?} {shape:?} {:?}", batch.kv_type);
            }
        }
    }
}

#[test]
fn attention_is_the_same_on_every_generation() {
    let mut rng = Rng::new(64);
    let batch = Batch::new(&mut rng, HEADS[2], SHAPES[2], 1.5);
    let mut all = generations().into_iter().map(|gpu| run(&gpu, &batch));
    let first = all.next().expect("a generation");
    assert!(all.all(|other| other == first));
}

/// Only the result is rounded to bf16.
#[test]
fn attention_is_a_causal_softmax() {
    let gpu = Gpu::named("sm_90");
    causal_softmax(|batch| run(&gpu, batch), 0.005);
}

/// What portable mode launches holds no instruction whose result a profile decides.
#[test]
fn portable_texts_hold_neither_matrix_instructions_nor_approximations() {
    let shared = ["embed", "gather_rows", "bias", "rope_store", "add", "top2"];
    let is_portable = |name: &str| {
        shared.contains(&name) || name.starts_with("all_reduce") || name.contains("chain") || name.ends_with("_ieee")
    };
    let portable: Vec<_> = texts().into_iter().filter(|(_, text)| is_portable(&text.name)).collect();
    assert!(portable.len() > 60);
    for (what, text) in portable {
        assert!(!text.ptx.contains("mma.") && !text.ptx.contains(".approx") && !text.ptx.contains(".ftz"), "{what}");
    }
}
