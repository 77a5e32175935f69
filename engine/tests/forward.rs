//! Every operation against straight f64 loops on the inputs that the device had, and the whole pass against a whole f64 pass.

mod common;

use common::reference::Reference;
use common::{Golden, TINY, TinyGolden, engine, group, kjv, prefill, stories, tiny, wide, wide32};
use engine::ops::Op;
use engine::step::{Logits, Observe, StepOutput, TapBits};
use engine::{Dispatch, Mode, Model};

fn tap(out: &StepOutput, layer: Option<u32>, op: Op) -> Vec<f64> {
    match &out.tap(layer, op).unwrap_or_else(|| panic!("no tap of {op}")).bits {
        TapBits::Bf16(bits) => wide(bits),
        TapBits::F32(bits) => wide32(bits),
    }
}

/// `got` within `ulps` bf16 roundings of `want`, plus as many of a twentieth of the typical size, for cancelled sums.
fn close(got: &[f64], want: &[f64], ulps: f64, what: &str) {
    let typical = (want.iter().map(|v| v * v).sum::<f64>() / want.len() as f64).sqrt();
    let sizes: Vec<f64> = want.iter().map(|w| w.abs() + 0.05 * typical).collect();
    close_to(got, want, &sizes, ulps, what);
}

/// `got` within `ulps` bf16 roundings (2^-8) of quantities of the given sizes.
fn close_to(got: &[f64], want: &[f64], sizes: &[f64], ulps: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, ((g, w), size)) in got.iter().zip(want).zip(sizes).enumerate() {
        let slack = ulps * size / 256.0;
        assert!((g - w).abs() <= slack, "{what}[{i}]: {g} is not {w} (slack {slack})");
    }
}

fn each_operation(model: &Model, out: &StepOutput, tokens: &[u32]) {
    each_operation_of(&Reference::new(model), out, tokens);
}

fn each_operation_of(r: &Reference, out: &StepOutput, tokens: &[u32]) {
    let x = tap(out, None, Op::Embed);
    assert_eq!(x, r.embed(tokens), "embed");
    let mut x = x;
    for (l, w) in r.layers.iter().enumerate() {
        let layer = Some(l as u32);
        let t = |op| tap(out, layer, op);
        let at = |op: Op| format!("layers.{l}.{op}");
        close(&t(Op::AttnNorm), &r.norm(&x, &w.attn_norm), 2.0, &at(Op::AttnNorm));
        // Rounded before a bias is added, and after.
        let product = w.qkv.apply(&t(Op::AttnNorm));
        let want = r.project(w, &t(Op::AttnNorm));
        let typical = (product.iter().map(|v| v * v).sum::<f64>() / product.len() as f64).sqrt();
        let biased = w.qkv_bias.iter().any(|b| *b != 0.0);
        let before = |p: &f64| if biased { p.abs() } else { 0.0 };
        let sizes: Vec<f64> = want.iter().zip(&product).map(|(y, p)| y.abs() + before(p) + 0.05 * typical).collect();
        close_to(&t(Op::Qkv), &want, &sizes, 1.0, &at(Op::Qkv));
        let [q, k, v] = r.split_and_rotate(w, &t(Op::Qkv));
        match &w.head_norms {
            None => {
                close(&t(Op::RopeQ), &q, 1.0, &at(Op::RopeQ));
                close(&t(Op::K), &k, 1.0, &at(Op::K));
            }
            // The norm rounds twice before the rotation does, and errors of both of a pair reach either.
            Some(_) => {
                close_to(&t(Op::RopeQ), &q, &r.pair_sizes(&q), 3.0, &at(Op::RopeQ));
                close_to(&t(Op::K), &k, &r.pair_sizes(&k), 3.0, &at(Op::K));
            }
        }
        assert_eq!(t(Op::V), v, "{}", at(Op::V));
        // P and the result are rounded to bf16; the error of P is of the size of the sum of all |P v|.
        let attend = |v: &[f64]| r.attention(&t(Op::RopeQ), &t(Op::K), v);
        let sizes = attend(&t(Op::V).iter().map(|v| v.abs()).collect::<Vec<_>>());
        close_to(&t(Op::Attention), &attend(&t(Op::V)), &sizes, 2.0, &at(Op::Attention));
        close(&t(Op::OProj), &w.o_proj.apply(&t(Op::Attention)), 1.0, &at(Op::OProj));
        let sum: Vec<f64> = x.iter().zip(t(Op::OProj)).map(|(a, b)| a + b).collect();
        close(&t(Op::AttnResidual), &sum, 1.0, &at(Op::AttnResidual));
        close(&t(Op::MlpNorm), &r.norm(&t(Op::AttnResidual), &w.mlp_norm), 2.0, &at(Op::MlpNorm));
        close(&t(Op::GateUp), &w.gate_up.apply(&t(Op::MlpNorm)), 1.0, &at(Op::GateUp));
        close(&t(Op::SiluMul), &r.silu_mul(&t(Op::GateUp)), 2.0, &at(Op::SiluMul));
        close(&t(Op::Down), &w.down.apply(&t(Op::SiluMul)), 1.0, &at(Op::Down));
        let sum: Vec<f64> = t(Op::AttnResidual).iter().zip(t(Op::Down)).map(|(a, b)| a + b).collect();
        close(&t(Op::MlpResidual), &sum, 1.0, &at(Op::MlpResidual));
        x = t(Op::MlpResidual);
    }
    close(&tap(out, None, Op::FinalNorm), &r.norm(&x, &r.final_norm), 2.0, "final_norm");
    close(&tap(out, None, Op::LmHead), &r.head.apply(&tap(out, None, Op::FinalNorm)), 0.01, "lm_head");
}

fn whole_pass(model: &Model, out: &StepOutput, tokens: &[u32]) {
    whole_pass_of(&Reference::new(model), out, tokens);
}

fn whole_pass_of(r: &Reference, out: &StepOutput, tokens: &[u32]) {
    let want = r.forward(tokens);
    let got = tap(out, None, Op::LmHead);
    let spread = (want.iter().map(|v| v * v).sum::<f64>() / want.len() as f64).sqrt();
    let error = (got.iter().zip(&want).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / want.len() as f64).sqrt();
    assert!(error < 0.02 * spread, "root mean square error {error}, logits {spread}");
}

/// Golden prompt and answer as one prefill of 40 to 68 tokens, so that there are several query and KV tiles.
fn tokens(golden: &Golden) -> Vec<u32> {
    golden.prompt.iter().chain(&golden.greedy).copied().collect()
}

#[test]
fn kjv_agrees_with_plain_loops() {
    let (model, tokens) = (kjv(), tokens(&Golden::kjv()));
    for mode in [Mode::Invariant, Mode::Portable] {
        let out = prefill(&mut engine(&model, mode), &tokens, Observe::ACTIVATIONS);
        each_operation(&model, &out, &tokens);
        whole_pass(&model, &out, &tokens);
    }
}

#[test]
fn stories_agrees_with_plain_loops() {
    let (Some(model), Some(golden)) = (stories(), Golden::stories()) else { return };
    let tokens = tokens(&golden);
    for mode in [Mode::Invariant, Mode::Portable] {
        let out = prefill(&mut engine(&model, mode), &tokens, Observe::ACTIVATIONS);
        each_operation(&model, &out, &tokens);
        whole_pass(&model, &out, &tokens);
    }
}

/// Biases, norms of heads, scaled frequencies and widths that are no multiples of a tile; whole and split.
#[test]
fn every_family_agrees_with_plain_loops() {
    for name in TINY {
        let (model, golden) = (tiny(name), TinyGolden::of(name));
        let mut reference = Reference::new(&model);
        reference.frequencies = golden.inv_freq.iter().map(|f| f64::from(*f)).collect();
        let tokens = &golden.ids[0];
        for mode in [Mode::Invariant, Mode::Portable] {
            let out = prefill(&mut engine(&model, mode), tokens, Observe::ACTIVATIONS);
            each_operation_of(&reference, &out, tokens);
            whole_pass_of(&reference, &out, tokens);
        }
        let mut engine = engine(&model, Mode::Throughput);
        let slot = engine.open().unwrap();
        let mut plan = engine.plan(vec![group(slot, 0, tokens, Logits::All)], Observe::ACTIVATIONS);
        plan.dispatch = Dispatch { qkv: 3, o_proj: 2, gate_up: 2, down: 5, lm_head: 4, kv_splits: 2 };
        each_operation_of(&reference, &engine.step(&plan).unwrap(), tokens);
    }
}

/// Splits, also ragged ones with empty slices, change roundings but not what is computed.
#[test]
fn split_kernels_agree_with_plain_loops() {
    let (model, tokens) = (kjv(), tokens(&Golden::kjv()));
    let mut engine = engine(&model, Mode::Throughput);
    let dispatches = [
        Dispatch { qkv: 2, o_proj: 3, gate_up: 4, down: 5, lm_head: 6, kv_splits: 2 },
        Dispatch { qkv: 12, o_proj: 7, gate_up: 5, down: 32, lm_head: 11, kv_splits: 8 },
    ];
    for dispatch in dispatches {
        let slot = engine.open().unwrap();
        let mut plan = engine.plan(vec![group(slot, 0, &tokens, Logits::All)], Observe::ACTIVATIONS);
        plan.dispatch = dispatch;
        let out = engine.step(&plan).unwrap();
        engine.close(slot).unwrap();
        each_operation(&model, &out, &tokens);
    }
}

/// What a row carries is what the taps show, and the top two are the top two.
#[test]
fn rows_and_taps_tell_the_same_story() {
    let (model, tokens) = (kjv(), tokens(&Golden::kjv()));
    let c = &model.config;
    let mut engine = engine(&model, Mode::Throughput);
    let slot = engine.open().unwrap();
    let plan = engine.plan(vec![group(slot, 0, &tokens[..20], Logits::Last)], Observe::ACTIVATIONS);
    let out = engine.step(&plan).unwrap();
    let bits = |layer, op| match &out.tap(layer, op).unwrap().bits {
        TapBits::Bf16(bits) => bits.clone(),
        TapBits::F32(_) => unreachable!(),
    };
    let (kv, hidden) = ((c.kv_heads * c.head_dim) as usize, c.hidden as usize);
    for (i, row) in out.rows.iter().enumerate() {
        assert_eq!((row.position, row.token, row.slot), (i as u32, tokens[i], slot));
        assert_eq!(row.boundaries[..hidden], bits(None, Op::Embed)[i * hidden..][..hidden]);
        for l in 0..c.layers as usize {
            let layer = Some(l as u32);
            assert_eq!(row.k[l * kv..][..kv], bits(layer, Op::K)[i * kv..][..kv]);
            assert_eq!(row.v[l * kv..][..kv], bits(layer, Op::V)[i * kv..][..kv]);
            let after = bits(layer, Op::MlpResidual);
            assert_eq!(row.boundaries[(l + 1) * hidden..][..hidden], after[i * hidden..][..hidden]);
        }
        assert_eq!(row.logits.is_some(), i == 19);
        assert_eq!(row.top2.is_some(), i == 19);
    }
    let last = out.rows.last().unwrap();
    assert_eq!(out.tap(None, Op::LmHead).unwrap().rows, [19]);
    let (logits, top2) = (last.logits.as_ref().unwrap(), last.top2.unwrap());
    let choice = engine::sampler::Sampling::Greedy.choose(logits, 20).unwrap();
    assert_eq!((choice.token, choice.runner_up), (top2.first, Some(top2.second)));
    assert_eq!((logits[top2.first as usize], logits[top2.second as usize]), (top2.first_bits, top2.second_bits));
    let margin = f32::from_bits(top2.first_bits) - f32::from_bits(top2.second_bits);
    assert_eq!(margin.to_bits(), top2.margin_bits);
}
