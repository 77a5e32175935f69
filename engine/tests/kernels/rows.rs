//! Copies, residual addition, SiLU and RMSNorm against their stated order of operations.

use engine::kernels::{
    AddNormSpec, AddSpec, AllReduceSpec, EmbedSpec, GatherSpec, RmsNormSpec, SiluMulSpec, Units, pad,
};

use crate::arith::{self, Gpu, add, div, fma, mul, narrow, rcp_rn, sqrt, widen};
use crate::data::{Rng, pad_rows, value};
use crate::rig::{In, InOut, Out, U32, launch, u16s};

#[test]
fn embedding_and_gather_copy_rows() {
    let mut rng = Rng::new(10);
    let gpu = Gpu::named("sm_90");
    for (count, width, from_rows) in [(1, 16, 1), (7, 48, 5), (130, 208, 40)] {
        let table = rng.anything((from_rows * width) as usize);
        let index: Vec<u32> = (0..count).map(|_| rng.below(from_rows)).collect();
        let rows = index.iter().map(|&i| &table[(i * width) as usize..][..width as usize]);
        let want: Vec<u16> = rows.collect::<Vec<_>>().concat();
        let args = [In(&index), In(&table), Out(count * width * 2), U32(count)];
        let embed = EmbedSpec { hidden_pad: width };
        assert_eq!(u16s(&launch(&gpu, &embed.build(), embed.grid(count), &args)[0]), want, "embed");
        let gather = GatherSpec { width };
        assert_eq!(u16s(&launch(&gpu, &gather.build(), gather.grid(count), &args)[0]), want, "gather");
    }
}

#[test]
fn residual_addition_rounds_twice() {
    let mut rng = Rng::new(11);
    let gpu = Gpu::named("sm_90");
    for (rows, width) in [(1, 16), (9, 48), (40, 208)] {
        let count = (rows * width) as usize;
        for anything in [false, true] {
            let mut some = |count| if anything { rng.anything(count) } else { rng.activations(count) };
            let (x, y) = (some(count), some(count));
            let want: Vec<u16> = x.iter().zip(&y).map(|(&x, &y)| narrow(add(widen(x), widen(y)))).collect();
            let spec = AddSpec { width };
            let args = [In(&x), In(&y), Out(rows * width * 2), U32(rows)];
            assert_eq!(u16s(&launch(&gpu, &spec.build(), spec.grid(rows), &args)[0]), want);
        }
    }
}

#[test]
fn results_of_ranks_are_added_in_order_and_rounded_once() {
    let mut rng = Rng::new(16);
    let gpu = Gpu::named("sm_90");
    for (ranks, rows, width) in [(2, 1, 16), (4, 9, 48), (8, 20, 208)] {
        let count = (rows * width) as usize;
        for anything in [false, true] {
            let total = count * ranks as usize;
            let parts = if anything { rng.anything(total) } else { rng.activations(total) };
            let sum = |i: usize| {
                let mut all = parts[i..].iter().step_by(count).map(|&part| widen(part));
                let first = all.next().expect("a rank");
                narrow(all.fold(first, add))
            };
            let want: Vec<u16> = (0..count).map(sum).collect();
            let spec = AllReduceSpec { width, ranks };
            let args = [In(&parts), Out(rows * width * 2), U32(rows)];
            assert_eq!(u16s(&launch(&gpu, &spec.build(), spec.grid(rows), &args)[0]), want, "{ranks} ranks");
        }
    }
}

#[test]
fn residual_addition_in_place() {
    let mut rng = Rng::new(12);
    let gpu = Gpu::named("sm_80");
    let (rows, width) = (5, 64);
    let (x, y) = (rng.activations(320), rng.activations(320));
    let want: Vec<u16> = x.iter().zip(&y).map(|(&x, &y)| narrow(add(widen(x), widen(y)))).collect();
    let spec = AddSpec { width };
    // The third argument is the first buffer again.
    let args = [InOut(&x), In(&y), crate::rig::Same(0), U32(rows)];
    assert_eq!(u16s(&launch(&gpu, &spec.build(), spec.grid(rows), &args)[0]), want);
}

/// One element of SiLU times up.
fn silu_model(gpu: &Gpu, units: Units, gate: u16, up: u16) -> u16 {
    const ONE: u32 = 0x3f80_0000;
    const LOG2_E: u32 = 0x3fb8_aa3b;
    const SIGN: u32 = 0x8000_0000;
    let g = widen(gate);
    let silu = match units {
        Units::Special => {
            let e = gpu.ex2(mul(g, LOG2_E ^ SIGN));
            mul(g, gpu.rcp(add(e, ONE)))
        }
        Units::Ieee => {
            let e = arith::exp2(g | SIGN, LOG2_E);
            let positive = f32::from_bits(g) >= 0.0;
            div(if positive { g } else { mul(g, e) }, add(e, ONE))
        }
    };
    narrow(mul(widen(narrow(silu)), widen(up)))
}

#[test]
fn silu_is_the_stated_steps_for_every_gate() {
    let mut rng = Rng::new(13);
    for (gpu, units) in Gpu::all().into_iter().zip([Units::Special; 2]).chain([(Gpu::named("sm_90"), Units::Ieee)]) {
        // All 65,536 gates.
        let (rows, ffn_pad) = (32, 2048);
        let gates: Vec<u16> = (0..=u16::MAX).collect();
        let ups = rng.activations(gates.len());
        let mut gate_up = Vec::new();
        for (gate, up) in gates.chunks_exact(2048).zip(ups.chunks_exact(2048)) {
            gate_up.extend_from_slice(gate);
            gate_up.extend_from_slice(up);
        }
        let want: Vec<u16> = gates.iter().zip(&ups).map(|(&g, &u)| silu_model(&gpu, units, g, u)).collect();
        let spec = SiluMulSpec { ffn_pad, units };
        let args = [In(&gate_up), Out(rows * ffn_pad * 2), U32(rows)];
        assert_eq!(u16s(&launch(&gpu, &spec.build(), spec.grid(rows), &args)[0]), want, "{}", gpu.profile.name);

        // The mathematics, where silu and the product are ordinary numbers: two roundings to bf16.
        for ((&g, &u), &y) in gates.iter().zip(&ups).zip(&want) {
            let (g, u, y) = (value(g), value(u), value(y));
            let exact = g / (1.0 + libm::exp(-g)) * u;
            if g.abs() < 80.0 && exact.abs() > 1e-30 {
                assert!((y - exact).abs() <= exact.abs() * 0.009, "silu({g}) * {u} = {exact}, got {y}");
            }
        }
    }
}

#[test]
fn silu_keeps_rows_and_padding_apart() {
    let mut rng = Rng::new(14);
    let (gpu, units) = (Gpu::named("sm_90"), Units::Ieee);
    let (rows, ffn) = (3u32, 172usize);
    let ffn_pad = pad(172) as usize;
    let gates = pad_rows(&rng.activations(rows as usize * ffn), ffn, ffn_pad);
    let ups = pad_rows(&rng.activations(rows as usize * ffn), ffn, ffn_pad);
    let pairs = gates.chunks_exact(ffn_pad).zip(ups.chunks_exact(ffn_pad));
    let gate_up: Vec<u16> = pairs.map(|(g, u)| [g, u].concat()).collect::<Vec<_>>().concat();
    let want: Vec<u16> = gates.iter().zip(&ups).map(|(&g, &u)| silu_model(&gpu, units, g, u)).collect();
    assert!(want.chunks_exact(ffn_pad).all(|row| row[ffn..].iter().all(|&v| v == 0)), "padding stays +0");
    let spec = SiluMulSpec { ffn_pad: ffn_pad as u32, units };
    let args = [In(&gate_up), Out(rows * ffn_pad as u32 * 2), U32(rows)];
    assert_eq!(u16s(&launch(&gpu, &spec.build(), spec.grid(rows), &args)[0]), want);
}

/// One row of RMSNorm.
pub fn rmsnorm_model(gpu: &Gpu, units: Units, x: &[u16], w: &[u16], hidden: usize, eps: u32) -> Vec<u16> {
    let mut lanes = [0u32; 32];
    for (chunk, values) in x[..hidden].chunks(8).enumerate() {
        let sum = &mut lanes[chunk % 32];
        *sum = values.iter().fold(*sum, |sum, &v| fma(widen(v), widen(v), sum));
    }
    for distance in [16, 8, 4, 2, 1] {
        lanes = std::array::from_fn(|lane| add(lanes[lane], lanes[lane ^ distance]));
    }
    assert!(lanes.iter().all(|&sum| sum == lanes[0]), "the butterfly leaves one sum");
    let mean = mul(lanes[0], (1.0 / hidden as f32).to_bits());
    let shifted = add(mean, eps);
    let r = match units {
        Units::Special => gpu.rsq(shifted),
        Units::Ieee => rcp_rn(sqrt(shifted)),
    };
    let mut y: Vec<u16> =
        x.iter().zip(w).map(|(&x, &w)| narrow(mul(widen(narrow(mul(widen(x), r))), widen(w)))).collect();
    y[hidden..].fill(0);
    y
}

#[test]
fn rmsnorm_is_the_stated_reduction() {
    let mut rng = Rng::new(15);
    let eps = 1e-5_f32.to_bits();
    for gpu in Gpu::all() {
        // One lane's worth, less than a warp's, ragged chunks, whole columns of padding, unrolled and looped rows.
        for (rows, hidden) in [(2, 8), (3, 64), (5, 190), (2, 200), (4, 256), (3, 576), (2, 1100), (2, 1288), (1, 2053)]
        {
            let hidden_pad = pad(hidden);
            let (h, p) = (hidden as usize, hidden_pad as usize);
            let mut x = rng.activations(rows as usize * h);
            // A row of zeros: r is 1/sqrt(eps).
            x[..h].fill(0);
            let x = pad_rows(&x, h, p);
            // Negative weights: the padding must not become -0.
            let w = pad_rows(&rng.bf16s(h, 1.0), h, p);
            for units in [Units::Special, Units::Ieee] {
                let want: Vec<u16> =
                    x.chunks_exact(p).flat_map(|row| rmsnorm_model(&gpu, units, row, &w, h, eps)).collect();
                let spec = RmsNormSpec { hidden, hidden_pad, eps, units };
                let args = [In(&x), In(&w), Out(rows * hidden_pad * 2), U32(rows)];
                let y = u16s(&launch(&gpu, &spec.build(), spec.grid(rows), &args)[0]);
                assert_eq!(y, want, "{} {units:?} {rows}x{hidden}", gpu.profile.name);
                normalised(&x, &w, &y, h, p);
            }
        }
    }
}

/// One launch has the bits of two, whatever the numbers are.
#[test]
fn a_residual_and_its_norm_in_one_launch_are_those_of_two() {
    let mut rng = Rng::new(17);
    let eps = 1e-5_f32.to_bits();
    for gpu in Gpu::all() {
        for (rows, hidden) in [(2, 8), (3, 64), (5, 190), (2, 200), (3, 576), (2, 1100), (1, 2053)] {
            let hidden_pad = pad(hidden);
            let (h, p) = (hidden as usize, hidden_pad as usize);
            for anything in [false, true] {
                let mut some = || {
                    let count = rows as usize * h;
                    let values = if anything { rng.anything(count) } else { rng.activations(count) };
                    pad_rows(&values, h, p)
                };
                let (x, y) = (some(), some());
                let w = pad_rows(&rng.bf16s(h, 1.0), h, p);
                let norm = RmsNormSpec { hidden, hidden_pad, eps, units: Units::Special };
                let add = AddSpec { width: hidden_pad };
                let bytes = rows * hidden_pad * 2;
                let z = u16s(&launch(&gpu, &add.build(), add.grid(rows), &[In(&x), In(&y), Out(bytes), U32(rows)])[0]);
                let n = launch(&gpu, &norm.build(), norm.grid(rows), &[In(&z), In(&w), Out(bytes), U32(rows)]);
                let fused = AddNormSpec(norm);
                let args = [In(&x), In(&y), Out(bytes), In(&w), Out(bytes), U32(rows)];
                let both = launch(&gpu, &fused.build(), fused.grid(rows), &args);
                assert_eq!((u16s(&both[0]), u16s(&both[1])), (z, u16s(&n[0])), "{} {rows}x{hidden}", gpu.profile.name);
            }
        }
    }
}

/// The mathematics of RMSNorm, with epsilon 1e-5: two roundings to bf16.
fn normalised(x: &[u16], w: &[u16], y: &[u16], hidden: usize, padded: usize) {
    for (x, y) in x.chunks_exact(padded).zip(y.chunks_exact(padded)) {
        let mean = x.iter().map(|&v| value(v) * value(v)).sum::<f64>() / hidden as f64;
        for i in 0..hidden {
            let exact = value(x[i]) / (mean + 1e-5).sqrt() * value(w[i]);
            let error = (value(y[i]) - exact).abs();
            assert!(error <= exact.abs() * 0.009 + 1e-37, "{exact} came out as {}", value(y[i]));
        }
    }
}
