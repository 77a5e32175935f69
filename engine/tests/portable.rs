//! `portable`: the bits are the model's. No generation, no native code, no vector instruction, no thread changes one.

mod common;

use std::sync::Arc;

use common::{TINY, group, kjv, tiny};
use emulator::profile::Profile;
use emulator::simd::Level;
use engine::device::EmulatedDevice;
use engine::kv::Slot;
use engine::step::{Logits, Observe, StepOutput};
use engine::{Engine, Limits, Mode, Model};

/// A prefill of 21 rows and a mixed step, at level A.
fn run(model: &Arc<Model>, device: EmulatedDevice) -> Vec<StepOutput> {
    let mut engine = Engine::new(model.clone(), Box::new(device), Mode::Portable, Limits::default()).unwrap();
    let [a, b]: [Slot; 2] = std::array::from_fn(|_| engine.open().unwrap());
    let tokens: Vec<u32> = (0..40).map(|i| (3 + 11 * i) % model.config.vocab_size).collect();
    let steps = [
        vec![group(a, 0, &tokens[..18], Logits::Last), group(b, 0, &tokens[5..8], Logits::None)],
        vec![group(b, 3, &tokens[8..40], Logits::Last), group(a, 18, &[1], Logits::Last)],
    ];
    steps
        .into_iter()
        .map(|groups| {
            let plan = engine.plan(groups, Observe::ACTIVATIONS);
            engine.step(&plan).unwrap()
        })
        .collect()
}

fn device(profile: &str) -> EmulatedDevice {
    EmulatedDevice::new(profile).unwrap()
}

/// Every NVIDIA generation that the kernels' header admits.
fn generations() -> impl Iterator<Item = &'static str> {
    Profile::all().iter().filter(|p| p.sm >= 70).map(|p| p.name)
}

#[test]
fn every_generation_gives_the_same_bits() {
    let model = kjv();
    let first = run(&model, device("sm_90").interpreted());
    assert!(generations().count() >= 7);
    assert!(generations().any(|name| name == "sm_70"));
    for profile in generations() {
        assert!(run(&model, device(profile)) == first, "{profile}, native");
        assert!(run(&model, device(profile).interpreted()) == first, "{profile}");
    }
}

#[test]
fn every_family_has_portable_bits() {
    for name in TINY {
        let model = tiny(name);
        assert!(run(&model, device("sm_75")) == run(&model, device("sm_120")), "{name}");
    }
}

#[test]
fn native_code_threads_vector_instructions_and_the_checker_change_nothing() {
    let model = tiny(TINY[0]);
    let first = run(&model, device("sm_90").interpreted());
    assert!(run(&model, device("sm_90")) == first, "native code");
    assert!(run(&model, device("sm_90").threads(3)) == first);
    assert!(run(&model, device("sm_90").simd(Level::Portable)) == first);
    for (seed, profile) in (0..).zip(["sm_90", "sm_80"]) {
        assert!(run(&model, device(profile).checked(seed)) == first, "{profile}");
    }
}

/// What the kernels of the two modes have in common computes nothing that a generation decides.
#[test]
fn portable_kernels_are_others() {
    let engine = Engine::new(kjv(), Box::new(device("sm_90")), Mode::Portable, Limits::default()).unwrap();
    let names: Vec<String> = engine.launches().kernels().iter().map(|k| k.name.clone()).collect();
    assert!(names.iter().any(|n| n == "attention_chain") && !names.iter().any(|n| n == "attention"), "{names:?}");
    let other = Engine::new(kjv(), Box::new(device("sm_90")), Mode::Invariant, Limits::default()).unwrap();
    let shared: Vec<_> = other.launches().kernels().iter().filter(|k| names.contains(&k.name)).cloned().collect();
    // Copies, additions, rotations and comparisons.
    let known = ["embed", "rope_store", "add", "gather_rows", "top2"];
    assert!(shared.iter().all(|k| known.contains(&k.name.as_str())), "{shared:?}");
}
