//! Every key is used, inert under a condition that is checked, or refused.

use serde_json::{Map, Value};

use super::*;

const OLD: &str = r#"{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":172,
    "num_hidden_layers":5,"num_attention_heads":8,"num_key_value_heads":4,"max_position_embeddings":512,"rope_theta":10000.0,
    "rms_norm_eps":1e-05,"vocab_size":512,"hidden_act":"silu","tie_word_embeddings":true,"bos_token_id":1,"eos_token_id":2,
    "torch_dtype":"float32","pretraining_tp":1,"attention_dropout":0.0,"rope_scaling":null}"#;

fn with(edit: impl FnOnce(&mut Map<String, Value>)) -> Result<Config> {
    let mut map: Map<String, Value> = serde_json::from_str(OLD).unwrap();
    edit(&mut map);
    Config::parse(&serde_json::to_vec(&map).unwrap())
}

#[test]
fn both_generations_of_keys_give_the_same_config() {
    let old = Config::parse(OLD.as_bytes()).unwrap();
    assert_eq!((old.head_dim, old.kv_heads, old.rms_eps.to_bits()), (8, 4, 0x3727_c5ac));
    let new = with(|m| {
        m.remove("rope_theta");
        m.remove("rope_scaling");
        m.remove("torch_dtype");
        m.insert("dtype".into(), "float32".into());
        m.insert("rope_parameters".into(), serde_json::json!({"rope_theta": 10000.0, "rope_type": "default"}));
        m.insert("eos_token_id".into(), serde_json::json!([2]));
    });
    assert_eq!(new.unwrap(), old);
}

#[test]
fn every_unknown_or_unsupported_key_is_refused_by_name() {
    let cases: &[(&str, Value)] = &[
        ("logit_scale", 0.5.into()),
        ("use_qk_norm", true.into()),
        ("rope_scaling", serde_json::json!({"type": "linear", "factor": 2.0})),
        (
            "rope_parameters",
            serde_json::json!({"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5}),
        ),
        ("rope_parameters", serde_json::json!({"rope_theta": 500000.0})),
        ("pretraining_tp", 2.into()),
        ("attention_dropout", 0.1.into()),
        ("attention_bias", true.into()),
        ("hidden_act", "gelu".into()),
        ("model_type", "gemma".into()),
        ("num_key_value_heads", 3.into()),
        ("head_dim", 7.into()),
        ("vocab_size", 0.into()),
        ("hidden_size", (1u64 << 40).into()),
        ("rms_norm_eps", "1e-5".into()),
    ];
    for (key, value) in cases {
        let error = with(|m| {
            m.insert((*key).into(), value.clone());
        })
        .expect_err(key);
        let text = error.to_string();
        assert!(text.contains(key) || text.contains("rope_theta"), "{key}: {text}");
    }
    for key in ["rms_norm_eps", "tie_word_embeddings", "vocab_size"] {
        let error = with(|m| {
            m.remove(key);
        });
        assert!(matches!(error, Err(Error::MissingConfigKey { key: k }) if k == key));
    }
    // The files of Llama 1 and 2 do not state it.
    let old = with(|m| drop(m.remove("rope_theta"))).unwrap();
    assert_eq!(old.rope_theta, 10_000.0);
}

#[test]
fn null_keys_and_malformed_files() {
    assert!(with(|m| drop(m.insert("some_future_key".into(), Value::Null))).is_ok());
    assert!(matches!(Config::parse(b"[1]"), Err(Error::Json { .. })));
    assert!(matches!(Config::parse(b"\xff"), Err(Error::Json { .. })));
}

#[test]
fn generation_config_states_the_stop_ids() {
    let mut config = Config::parse(OLD.as_bytes()).unwrap();
    config.apply_generation_config(br#"{"eos_token_id":[2,7]}"#).unwrap();
    assert_eq!(config.eos, [2, 7]);
    config.apply_generation_config(b"{}").unwrap();
    assert_eq!(config.eos, [2, 7]);
}

#[test]
fn llama3_scaling_is_read_in_both_generations_and_refused_when_incomplete() {
    let wanted = RopeScaling::Llama3(Llama3Scaling {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_positions: 8192.0,
    });
    let scaling = serde_json::json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192});
    let old = with(|m| drop(m.insert("rope_scaling".into(), scaling.clone()))).unwrap();
    assert_eq!((&old.rope_scaling, old.rope_theta), (&wanted, 10_000.0));
    let new = with(|m| {
        m.remove("rope_theta");
        let mut rope = scaling.clone();
        rope["rope_theta"] = 10_000.0.into();
        m.insert("rope_parameters".into(), rope);
    });
    assert_eq!(new.unwrap(), old);
    for key in ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"] {
        let without = with(|m| {
            let mut rope = scaling.clone();
            rope.as_object_mut().unwrap().remove(key);
            m.insert("rope_scaling".into(), rope);
        });
        assert!(matches!(without, Err(Error::MissingConfigKey { key: k }) if k == key));
        for bad in [Value::from(0.0), (-1.0).into(), "8".into(), 1e12.into()] {
            let wrong = with(|m| {
                let mut rope = scaling.clone();
                rope[key] = bad.clone();
                m.insert("rope_scaling".into(), rope);
            });
            assert!(matches!(wrong, Err(Error::UnsupportedConfig { .. })), "{key} = {bad}");
        }
    }
    let two = with(|m| {
        m.insert("rope_scaling".into(), scaling.clone());
        m.insert("rope_parameters".into(), serde_json::json!({"rope_type": "default"}));
    });
    assert!(matches!(two, Err(Error::UnsupportedConfig { .. })));
    let unknown = with(|m| {
        let mut rope = scaling.clone();
        rope["beta_fast"] = 32.into();
        m.insert("rope_scaling".into(), rope);
    });
    assert!(matches!(unknown, Err(Error::UnknownConfigKey { key, .. }) if key == "rope_scaling.beta_fast"));
}

/// A file of another family, from the Llama one.
fn family(architecture: Architecture, edit: impl FnOnce(&mut Map<String, Value>)) -> Result<Config> {
    with(|m| {
        m.insert("model_type".into(), architecture.model_type().into());
        m.insert("architectures".into(), serde_json::json!([architecture.class()]));
        m.remove("pretraining_tp");
        m.insert("head_dim".into(), 16.into());
        edit(m);
    })
}

#[test]
fn families_have_their_own_keys() {
    for architecture in Architecture::ALL {
        let config = family(architecture, |_| ()).unwrap();
        assert_eq!((config.architecture, config.head_dim), (architecture, 16));
    }
    let set = |architecture, key: &'static str, value: Value| {
        family(architecture, move |m| drop(m.insert(key.into(), value))).map(|_| ())
    };
    // Windows that are switched off, or wider than the context, change nothing; others are refused.
    for qwen in [Architecture::Qwen2, Architecture::Qwen3] {
        set(qwen, "sliding_window", 4096.into()).unwrap();
        set(qwen, "use_sliding_window", false.into()).unwrap();
        assert!(set(qwen, "use_sliding_window", true.into()).is_err());
        let used = family(qwen, |m| {
            m.insert("sliding_window".into(), 4096.into());
            m.insert("use_sliding_window".into(), true.into());
        });
        assert!(used.is_err());
    }
    set(Architecture::Mistral, "sliding_window", Value::Null).unwrap();
    set(Architecture::Mistral, "sliding_window", 512.into()).unwrap();
    assert!(set(Architecture::Mistral, "sliding_window", 511.into()).is_err());
    assert!(set(Architecture::Llama, "sliding_window", 512.into()).is_err());
    set(Architecture::Qwen2, "layer_types", serde_json::json!(["full_attention"])).unwrap();
    assert!(set(Architecture::Qwen2, "layer_types", serde_json::json!(["sliding_attention"])).is_err());
    // Keys of one family are unknown to another.
    assert!(matches!(set(Architecture::Qwen2, "mlp_bias", false.into()), Err(Error::UnknownConfigKey { .. })));
    assert!(matches!(set(Architecture::Mistral, "use_mrope", false.into()), Err(Error::UnknownConfigKey { .. })));
    for needs_base in [Architecture::Mistral, Architecture::Qwen2, Architecture::Qwen3] {
        let without = family(needs_base, |m| drop(m.remove("rope_theta")));
        assert!(matches!(without, Err(Error::MissingConfigKey { .. })));
    }
    let without = family(Architecture::Qwen3, |m| drop(m.remove("head_dim")));
    assert!(matches!(without, Err(Error::MissingConfigKey { .. })));
    let crossed = family(Architecture::Qwen2, |m| drop(m.insert("model_type".into(), "qwen3".into())));
    assert!(matches!(crossed, Err(Error::UnsupportedConfig { .. })));
}

#[test]
fn recommended_sampling_is_read_and_what_is_not_computed_is_named() {
    let mut config = Config::parse(OLD.as_bytes()).unwrap();
    let text =
        br#"{"do_sample":true,"temperature":0.7,"top_k":20,"top_p":0.8,"min_p":0.05,"repetition_penalty":1.05,"typical_p":0.9,"max_length":9}"#;
    config.apply_generation_config(text).unwrap();
    let r = &config.recommended;
    assert!(r.sample);
    assert_eq!((r.temperature, r.top_k, r.top_p), (Some(0.7), Some(20), Some(0.8)));
    assert_eq!((r.min_p, r.repetition_penalty), (Some(0.05), Some(1.05)));
    assert_eq!(r.not_computed, ["typical_p = 0.9"]);
    config.apply_generation_config(br#"{"top_k":0,"top_p":1.0,"min_p":0.0,"repetition_penalty":1.0}"#).unwrap();
    assert_eq!(config.recommended, Recommended::default());
    assert!(config.apply_generation_config(br#"{"temperature":"warm"}"#).is_err());
}
