//! What the suites of this crate share.
#![allow(dead_code)]

pub mod reference;

use std::sync::{Arc, OnceLock};

use engine::device::EmulatedDevice;
use engine::kv::Slot;
use engine::model::embedded;
use engine::step::{Group, Logits, Observe, StepOutput};
use engine::{Engine, Limits, Mode, Model};
use half::bf16;

/// The embedded model, loaded once.
pub fn kjv() -> Arc<Model> {
    static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
    MODEL.get_or_init(|| Arc::new(embedded().unwrap())).clone()
}

/// `stories260K`, when `../shared` is there; otherwise the calling test is reported as skipped.
pub fn stories() -> Option<Arc<Model>> {
    let folder = lastbit_tests::shared("models/stories260K")?;
    Some(Arc::new(Model::load(&folder).unwrap()))
}

/// `golden.json` of a model.
pub struct Golden {
    pub prompt: Vec<u32>,
    pub greedy: Vec<u32>,
    pub top5_ids: Vec<u32>,
    pub top5_logits: Vec<f64>,
}

impl Golden {
    pub fn parse(text: &[u8]) -> Golden {
        let json: serde_json::Value = serde_json::from_slice(text).unwrap();
        let ids = |key: &str| json[key].as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect();
        Golden {
            prompt: ids("prompt_ids"),
            greedy: ids("greedy_ids"),
            top5_ids: ids("top5_ids"),
            top5_logits: json["top5_logits"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect(),
        }
    }

    pub fn kjv() -> Golden {
        Golden::parse(include_bytes!("../../models/kjv-llama-2M/golden.json"))
    }

    pub fn stories() -> Option<Golden> {
        let path = lastbit_tests::shared("models/stories260K/golden.json")?;
        Some(Golden::parse(&std::fs::read(path).unwrap()))
    }
}

/// An engine on an emulated sm_90.
pub fn engine(model: &Arc<Model>, mode: Mode) -> Engine {
    let device = EmulatedDevice::new("sm_90").unwrap();
    Engine::new(model.clone(), Box::new(device), mode, Limits::default()).unwrap()
}

/// One group of a plan.
pub fn group(slot: Slot, start: u32, tokens: &[u32], logits: Logits) -> Group {
    Group { slot, start, tokens: tokens.to_vec(), logits }
}

/// Runs `tokens` as one prefill in a fresh slot, with logits everywhere.
pub fn prefill(engine: &mut Engine, tokens: &[u32], observe: Observe) -> StepOutput {
    let slot = engine.open().unwrap();
    let plan = engine.plan(vec![group(slot, 0, tokens, Logits::All)], observe);
    let out = engine.step(&plan).unwrap();
    engine.close(slot).unwrap();
    out
}

/// bf16 bits as f64.
pub fn wide(bits: &[u16]) -> Vec<f64> {
    bits.iter().map(|b| bf16::from_bits(*b).to_f64()).collect()
}

/// f32 bits as f64.
pub fn wide32(bits: &[u32]) -> Vec<f64> {
    bits.iter().map(|b| f64::from(f32::from_bits(*b))).collect()
}
