//! Bits belong to the profile: not to threads, vector instructions, native code or the checker.

mod common;

use common::{group, kjv, stories};
use emulator::simd::Level;
use engine::device::EmulatedDevice;
use engine::ops::{Op, OpAt};
use engine::step::{Logits, Observe, StepOutput};
use engine::{Dispatch, Engine, Limits, Mode};

/// A prefill of 21 rows and a mixed step, with splits everywhere.
fn run(model: &std::sync::Arc<engine::Model>, device: EmulatedDevice) -> Vec<StepOutput> {
    let mut engine = Engine::new(model.clone(), Box::new(device), Mode::Throughput, Limits::default()).unwrap();
    let (a, b) = (engine.open().unwrap(), engine.open().unwrap());
    let tokens: Vec<u32> = (0..40).map(|i| (3 + 11 * i) % model.config.vocab_size).collect();
    let steps = [
        vec![group(a, 0, &tokens[..18], Logits::Last), group(b, 0, &tokens[5..8], Logits::None)],
        vec![group(b, 3, &tokens[8..40], Logits::Last), group(a, 18, &[1], Logits::Last)],
    ];
    let run = |groups| {
        let mut plan = engine.plan(groups, Observe::ACTIVATIONS);
        plan.dispatch = Dispatch { qkv: 3, o_proj: 2, gate_up: 2, down: 4, lm_head: 3, kv_splits: 2 };
        engine.step(&plan).unwrap()
    };
    steps.into_iter().map(run).collect()
}

fn device() -> EmulatedDevice {
    EmulatedDevice::new("sm_90").unwrap()
}

#[test]
fn threads_and_vector_instructions_do_not_change_bits() {
    let model = kjv();
    let plain = run(&model, device().simd(Level::Portable));
    assert!(plain == run(&model, device().threads(2)));
    assert!(plain == run(&model, device().threads(3).simd(Level::Portable)));
}

/// Every result of every operation of a whole step, K and V and the logits among them.
#[test]
fn native_code_does_not_change_bits() {
    let models = ["qwen2-tiny", "qwen3-tiny", "llama3-tiny"].map(common::tiny);
    for model in [kjv()].iter().chain(&models) {
        for profile in ["sm_80", "sm_90", "sm_100", "sm_120"] {
            let device = || EmulatedDevice::new(profile).unwrap();
            let interpreted = run(model, device().interpreted());
            assert!(interpreted == run(model, device()), "{profile}");
            assert!(interpreted == run(model, device().threads(2).simd(Level::Portable)), "{profile}");
        }
    }
}

/// Warps interleaved at random, copies delayed, every shared access watched: no kernel of a whole forward pass has a race, reads what
/// nobody wrote or leaves its buffers, and the bits are the same.
#[test]
fn the_checker_finds_nothing_in_a_forward_pass() {
    let model = stories().unwrap_or_else(kjv);
    let plain = run(&model, device());
    for seed in [1, 2] {
        assert!(plain == run(&model, device().checked(seed)), "seed {seed}");
    }
}

/// An A100's bits part from an H100's at a tensor-core operation, never before one.
#[test]
fn generations_part_at_a_tensor_core_operation() {
    let model = kjv();
    let (hopper, ampere) = (run(&model, device()), run(&model, EmulatedDevice::new("sm_80").unwrap()));
    let first = hopper[0].taps.iter().zip(&ampere[0].taps).find(|(h, a)| h.bits != a.bits).map(|(h, _)| h.at);
    let tensor_core = [Op::Qkv, Op::Attention, Op::OProj, Op::GateUp, Op::Down, Op::LmHead];
    let OpAt { layer, op } = first.expect("sm_80 and sm_90 give the same bits");
    assert!(tensor_core.contains(&op), "{layer:?} {op}");
    // Ada shares Ampere's tensor cores for bf16.
    assert!(ampere == run(&model, EmulatedDevice::new("sm_89").unwrap()));
}
