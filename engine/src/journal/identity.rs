//! What ran, in a record's words.

use record::inference as rec;
use record::{Digest, F32Bits, Fact};

use super::schedule::{kernel_table, scheduler};
use crate::error::Result;
use crate::kernels::PAGE;
use crate::model::Model;
use crate::parallel::{ALL_REDUCE, Division};
use crate::rope;
use crate::runtime::Engine;
use crate::scheduler::Settings;

/// Name of this engine in records.
pub const ENGINE_NAME: &str = "lastbit";
/// Counts changes of any output bit of this engine.
pub const NUMERICS_REVISION: u64 = 2;

/// How quantised blocks become the bf16 numbers that are computed with: see [`crate::gguf`]. Which formats a file holds is stated as
/// `dtype_stored`.
pub const GGUF_BLOCKS: &str = "gguf-blocks-to-bf16/1";

/// The model: its files by digest.
pub fn model(model: &Model) -> rec::Model {
    let digest = |sha256| Digest::from_bytes(sha256);
    let file = |f: &crate::model::FileDigest| rec::FileDigest {
        path: f.name.clone(),
        size: f.bytes,
        sha256: digest(f.sha256),
    };
    let quantised = model.weights.source_formats.iter().any(|f| f.starts_with('Q'));
    rec::Model {
        name: model.name.clone(),
        architecture: model.config.architecture.class().into(),
        files: model.manifest.iter().map(file).collect(),
        config: file_digest(model, &model.config_file),
        dtype_stored: model.weights.source_formats.join("+").to_lowercase(),
        dtype_computed: "bf16".into(),
        quantisation: Fact::Known(quantised.then(|| GGUF_BLOCKS.to_owned())),
        adapters: Fact::Known(Vec::new()),
    }
}

/// How text became ids: by the tokenizer, or by the chat template first. A rendered template holds its special tokens itself.
///
/// # Errors
/// [`Error::Tokenizer`](crate::Error::Tokenizer).
pub fn text(model: &Model, chat: bool) -> Result<rec::Text> {
    let template = model.chat.as_ref().filter(|_| chat);
    Ok(rec::Text {
        tokenizer: Fact::Known(Some(file_digest(model, &model.tokenizer_file))),
        chat_template: Fact::Known(template.map(|t| Digest::from_bytes(t.sha256()))),
        added_special: Fact::Known(if template.is_some() { Vec::new() } else { model.tokenizer.added_special()? }),
    })
}

/// Engine, device and kernels.
///
/// # Errors
/// None in practice: a table that does not fill its shape.
pub fn stack(engine: &Engine, settings: Settings) -> Result<rec::Stack> {
    let info = engine.device_info();
    let emulated = info.kind == "emulated";
    let config = &engine.model().config;
    Ok(rec::Stack {
        engine: rec::Engine {
            name: ENGINE_NAME.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            numerics_revision: NUMERICS_REVISION,
            commit: Fact::Unspecified,
            build: Fact::Unspecified,
        },
        device: rec::Device {
            kind: if emulated { rec::DeviceKind::Emulated } else { rec::DeviceKind::Cuda },
            profile: info.profile,
            profile_digest: Fact::Known(Digest::of_file(info.description.as_bytes())),
            gpu_model: Fact::Known(info.gpu.as_ref().map(|gpu| gpu.model.clone())),
            driver: Fact::Known(info.gpu.map(|gpu| gpu.driver)),
        },
        mode: engine.mode().name().into(),
        dispatch_policy: engine.mode().policy().into(),
        scheduler: Fact::Known(scheduler(engine.limits(), settings, engine.gate().is_some())),
        kernels: kernel_table(&engine.launches()),
        kv: rec::KvCache {
            dtype: engine.kv_type().id().into(),
            page_size: PAGE,
            layout: Fact::Known("position-order/1".into()),
        },
        rope: Fact::Known(Some(rec::Rope {
            table: rope::tables(config).digest(config)?,
            theta: F32Bits::new(config.rope_theta as f32),
        })),
        gate: engine.gate().map(crate::gated::Setup::to_record),
    })
}

/// How layers are divided over ranks, and what adds up their results.
pub fn parallelism(division: &Division) -> rec::Parallelism {
    let collectives = rec::Collectives {
        rank_order: (0..division.ranks).collect(),
        algorithm: Fact::Known(ALL_REDUCE.into()),
        protocol: Fact::Known("memory".into()),
        channels: Fact::Known(1),
        fused: Fact::Known(false),
    };
    rec::Parallelism {
        tensor: division.ranks,
        collectives: (division.ranks > 1).then_some(collectives),
        ..rec::Parallelism::single()
    }
}

fn file_digest(model: &Model, name: &str) -> Digest {
    // A model cannot be loaded without these files.
    let file = model.manifest.iter().find(|f| f.name == name);
    file.map_or_else(|| Digest::of_file(&[]), |f| Digest::from_bytes(f.sha256))
}
