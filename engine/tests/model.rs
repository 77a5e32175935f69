//! The models of the acceptance list load, and their tokenizers agree with transformers.

use engine::model::{Model, ModelFiles, embedded, embedded_files};
use engine::{Error, weights::Padded};
use serde_json::Value;

/// `golden.json` of a model: prompt text and ids, by transformers.
fn tokenizer_agrees(model: &Model, golden: &[u8]) {
    let golden: Value = serde_json::from_slice(golden).unwrap();
    let ids = |key: &str| -> Vec<u32> {
        golden[key].as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
    };
    let prompt = golden["prompt"].as_str().unwrap();
    assert_eq!(model.tokenizer.encode(prompt).unwrap(), ids("prompt_ids"));
    let all: Vec<u32> = ids("prompt_ids").into_iter().chain(ids("greedy_ids")).collect();
    let text = golden["text"].as_str().unwrap();
    let text = text.strip_prefix("<s> ").unwrap_or(text);
    assert_eq!(model.tokenizer.decode(&all).unwrap(), text);
}

#[test]
fn the_embedded_model_is_what_its_readme_says() {
    let model = embedded().unwrap();
    assert_eq!(model.config.parameters(), 1_771_200);
    assert_eq!(model.weights.source_formats, ["BF16"]);
    assert!(model.weights.lm_head.is_none() && model.config.tied);
    let readme = include_str!("../models/README.md");
    let weights = model.manifest.iter().find(|f| f.name == "model.safetensors").unwrap();
    let hex: String = weights.sha256.iter().map(|b| format!("{b:02x}")).collect();
    assert!(readme.contains(&hex), "README.md does not name {hex}");
    tokenizer_agrees(&model, include_bytes!("../models/kjv-llama-2M/golden.json"));
}

#[test]
fn stories260k_is_padded_and_rounded() {
    let Some(folder) = lastbit_tests::shared("models/stories260K") else { return };
    let model = Model::load(&folder).unwrap();
    assert_eq!(model.weights.source_formats, ["F32"]);
    let p = Padded::of(&model.config);
    assert_eq!((p.hidden, p.ffn, p.head, p.vocab, p.qkv, p.attn), (64, 176, 16, 512, 256, 128));
    // Heads of 8 lie in rows of 16: the second half of each is padding.
    let qkv = &model.weights.layers[0].qkv;
    assert!((0..256).all(|r| (r % 16 >= 8) == qkv.row(r).iter().all(|b| *b == 0)));
    tokenizer_agrees(&model, &std::fs::read(folder.join("golden.json")).unwrap());
}

#[test]
fn weights_that_do_not_fit_the_configuration_are_refused() {
    let edited = |from: &str, to: &str| {
        let mut files = embedded_files();
        let config = files.bytes_mut("config.json").unwrap();
        let text = String::from_utf8(config.clone()).unwrap();
        assert!(text.contains(from), "{from}");
        *config = text.replace(from, to).into_bytes();
        Model::from_files("edited", &files).map(|_| ())
    };
    let layers = "\"num_hidden_layers\": 4";
    assert!(matches!(edited(layers, "\"num_hidden_layers\": 3"), Err(Error::UnexpectedTensors { .. })));
    assert!(matches!(edited(layers, "\"num_hidden_layers\": 5"), Err(Error::MissingTensor { .. })));
    let ffn = edited("\"intermediate_size\": 512", "\"intermediate_size\": 511");
    assert!(matches!(ffn, Err(Error::TensorShape { .. })));
    let untied = edited("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    assert!(matches!(untied, Err(Error::MissingTensor { .. })));
    let vocab = edited("\"vocab_size\": 1024", "\"vocab_size\": 1023");
    assert!(matches!(vocab, Err(Error::Tokenizer { .. })));

    let mut files = embedded_files();
    files.bytes_mut("model.safetensors").unwrap().truncate(1_000_000);
    assert!(matches!(Model::from_files("cut", &files), Err(Error::WeightFile { .. })));
    let config = embedded_files().required("config.json").unwrap().to_vec();
    let mut alone = ModelFiles::from_bytes([("config.json", config)]);
    assert!(matches!(Model::from_files("alone", &alone), Err(Error::MissingFile { .. })));
    alone.bytes_mut("config.json").unwrap().clear();
    assert!(matches!(Model::from_files("empty", &alone), Err(Error::Json { .. })));
}

/// The same tensors in two shards load to the same weights; a missing shard is named.
#[test]
fn shards_load_like_one_file() {
    let one = embedded().unwrap();
    let files = embedded_files();
    let all = files.required("model.safetensors").unwrap();
    let tensors = safetensors::SafeTensors::deserialize(all).unwrap();
    let (mut parts, mut map) = ([Vec::new(), Vec::new()], serde_json::Map::new());
    for (i, (name, view)) in tensors.tensors().into_iter().enumerate() {
        map.insert(name.clone(), format!("part-{}.safetensors", i % 2).into());
        parts[i % 2].push((name, view));
    }
    let index = serde_json::json!({"metadata": {}, "weight_map": map}).to_string().into_bytes();
    let mut sharded: Vec<(String, Vec<u8>)> = ["config.json", "tokenizer.json"]
        .iter()
        .map(|n| ((*n).to_owned(), files.required(n).unwrap().to_vec()))
        .collect();
    sharded.push(("model.safetensors.index.json".into(), index));
    for (i, part) in parts.into_iter().enumerate() {
        sharded.push((format!("part-{i}.safetensors"), safetensors::serialize(part, None).unwrap()));
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in &sharded {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let model = Model::load(folder.path()).unwrap();
    assert!(model.weights == one.weights);
    assert_eq!(model.manifest.len(), 5);
    std::fs::remove_file(folder.path().join("part-1.safetensors")).unwrap();
    let missing = Model::load(folder.path()).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(missing.contains("part-1.safetensors"), "{missing}");
}
