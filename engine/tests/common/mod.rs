//! What the suites of this crate share.
#![allow(dead_code)]

pub mod reference;

use std::path::{Path, PathBuf};
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

/// A file of this crate's test data.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The tiny models in the test data.
pub const TINY: [&str; 4] = ["qwen2-tiny", "qwen3-tiny", "llama3-tiny", "mistral-tiny"];

/// One of them.
pub fn tiny(name: &str) -> Arc<Model> {
    Arc::new(Model::load(&data(name)).unwrap())
}

/// What transformers computes with a model of the test data.
pub struct TinyGolden {
    pub ids: Vec<Vec<u32>>,
    /// By sequence; positions one after another.
    pub logits: Vec<Vec<f32>>,
    /// Empty when the file has none.
    pub inv_freq: Vec<f32>,
}

impl TinyGolden {
    pub fn of(name: &str) -> TinyGolden {
        Self::read(&data(name).join("golden.safetensors"))
    }

    pub fn read(path: &Path) -> TinyGolden {
        let bytes = std::fs::read(path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let ids = file.tensor("ids").unwrap();
        let [sequences, length] = ids.shape() else { panic!("ids are rows") };
        let all: Vec<u32> = ids.data().chunks_exact(8).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let logits = floats(&file, "logits").unwrap();
        TinyGolden {
            ids: all.chunks_exact(*length).map(<[u32]>::to_vec).collect(),
            logits: logits.chunks_exact(logits.len() / sequences).map(<[f32]>::to_vec).collect(),
            inv_freq: floats(&file, "inv_freq").unwrap_or_default(),
        }
    }
}

/// An f32 tensor of a file.
pub fn floats(file: &safetensors::SafeTensors, name: &str) -> Option<Vec<f32>> {
    let tensor = file.tensor(name).ok()?;
    assert_eq!(tensor.dtype(), safetensors::Dtype::F32);
    Some(tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
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
