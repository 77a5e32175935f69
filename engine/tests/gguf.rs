//! GGUF files: number formats, a whole file, and damaged ones.

mod common;

use std::collections::BTreeMap;

use common::{TinyGolden, data, engine, floats, prefill, wide32};
use engine::chat::Message;
use engine::gguf::{BlockType, Gguf};
use engine::step::Observe;
use engine::{Error, Mode, Model};
use half::bf16;

/// Vectors by the Python package: every value of every format, to the bit.
#[test]
fn blocks_decode_to_the_bits_of_the_reference() {
    let text = std::fs::read_to_string(data("gguf-blocks.txt")).unwrap();
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    for line in text.lines() {
        let [name, bytes, bits] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let kind = BlockType::ALL.into_iter().find(|t| t.name() == name).unwrap_or_else(|| panic!("{name}"));
        let bytes = hex::decode(bytes).unwrap();
        let mut values = Vec::new();
        bytes.chunks_exact(kind.bytes()).for_each(|block| kind.decode(block, &mut values));
        assert_eq!(values.len(), bytes.len() / kind.bytes() * kind.elements());
        let ours: String = values.iter().map(|v| format!("{:08x}", v.to_bits())).collect();
        assert_eq!(ours, bits, "{name}");
        *rows.entry(kind.name()).or_default() += 1;
    }
    assert_eq!(rows.len(), BlockType::ALL.len(), "{rows:?}");
}

fn tiny() -> Model {
    Model::load(&data("llama-tiny.gguf")).unwrap()
}

/// The file that another writer made, as transformers reads it: weights, logits, ids.
#[test]
fn a_file_is_read_as_transformers_reads_it() {
    let model = tiny();
    assert_eq!(model.weights.source_formats, ["BF16", "F16", "F32", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]);
    assert!(model.config.tied);
    assert_eq!((model.config.bos, model.config.eos.as_slice()), (Some(1), &[2][..]));
    let golden = std::fs::read(data("llama-tiny.golden.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&golden).unwrap();
    let places = engine::weights::places(&model.config);
    for (name, key) in [("q_proj", "q0"), ("k_proj", "k0")] {
        let place = places.iter().find(|p| p.name == format!("model.layers.0.self_attn.{name}.weight")).unwrap();
        let want: Vec<u16> = floats(&file, key).unwrap().iter().map(|v| bf16::from_f32(*v).to_bits()).collect();
        let ours: Vec<u16> = (0..place.rows)
            .flat_map(|row| (0..place.cols).map(move |col| (row, col)))
            .map(|(row, col)| model.weights.element(place, row, col).unwrap())
            .collect();
        assert_eq!(ours, want, "{name}");
    }
    // transformers keeps the decoded weights in f32; here they are rounded to bf16.
    let golden = TinyGolden::read(&data("llama-tiny.golden.safetensors"));
    let mut engine = engine(&std::sync::Arc::new(model), Mode::Invariant);
    let (mut error, mut spread) = (0.0, 0.0);
    for (ids, logits) in golden.ids.iter().zip(&golden.logits) {
        let out = prefill(&mut engine, ids, Observe::STATE);
        let ours = out.rows.iter().flat_map(|r| wide32(r.logits.as_ref().unwrap()));
        for (a, b) in ours.zip(logits) {
            let b = f64::from(*b);
            error += (a - b) * (a - b);
            spread += b * b;
        }
    }
    assert!((error / spread).sqrt() < 0.03, "error {} of the logits' spread", (error / spread).sqrt());
}

#[test]
fn the_tokenizer_and_the_template_come_from_the_file() {
    let model = tiny();
    let cases: serde_json::Value =
        serde_json::from_slice(&std::fs::read(data("llama-tiny.tokenizer.json")).unwrap()).unwrap();
    for case in cases.as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let ids: Vec<u64> = case["ids"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect();
        let ours: Vec<u64> = model.tokenizer.encode(text).unwrap().into_iter().map(u64::from).collect();
        assert_eq!(ours, ids, "{text}");
    }
    let prompt = model.chat.unwrap().render(&[Message::new("user", "Hi")]).unwrap();
    assert_eq!(prompt, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    assert_eq!(model.tokenizer.encode_rendered(&prompt).unwrap()[..2], [1, 87]);
    assert_eq!((model.config_file.as_str(), model.tokenizer_file.as_str()), ("llama-tiny.gguf", "llama-tiny.gguf"));
    assert_eq!(model.manifest.len(), 1);
}

/// A writer of small files, well-formed or not.
#[derive(Clone, Default)]
struct Writer {
    keys: Vec<(String, Vec<u8>)>,
    tensors: Vec<(String, Vec<u64>, u32, u64)>,
    data: Vec<u8>,
}

fn text(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes(), value.as_bytes()].concat()
}

impl Writer {
    fn key(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.keys.push((key.into(), [&kind.to_le_bytes(), value].concat()));
        self
    }

    fn tensor(mut self, name: &str, shape: &[u64], kind: u32, offset: u64) -> Self {
        self.tensors.push((name.into(), shape.to_vec(), kind, offset));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            out.extend(text(key));
            out.extend(value);
        }
        for (name, shape, kind, offset) in &self.tensors {
            out.extend(text(name));
            out.extend((shape.len() as u32).to_le_bytes());
            shape.iter().for_each(|s| out.extend(s.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend(offset.to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&self.data);
        out
    }
}

#[test]
fn damaged_headers_are_refused_in_words() {
    let fine = Writer { data: vec![0; 128], ..Writer::default() }.tensor("a", &[8], 0, 0).tensor("b", &[8], 0, 32);
    let parsed = fine.bytes();
    assert_eq!(Gguf::parse(&parsed).unwrap().tensors.len(), 2);
    let with = |name: &str, shape: &[u64], kind, offset| {
        let bytes = fine.clone().tensor(name, shape, kind, offset).bytes();
        Gguf::parse(&bytes).map(|_| ()).unwrap_err().to_string()
    };
    let cases = [
        (with("c", &[8], 0, 16), "multiple of 32"),
        (with("c", &[8], 0, 32), "overlap"),
        (with("a", &[8], 0, 64), "twice"),
        (with("c", &[33], 0, 64), "outside"),
        (with("c", &[8], 0, 1 << 60), "outside"),
        (with("c", &[1 << 60], 0, 64), "outside"),
        (with("c", &[1 << 40, 1 << 40], 0, 64), "larger than any file"),
        (with("c", &[u64::MAX], 1, 64), "larger than any file"),
        (with("c", &[31], 8, 64), "whole Q8_0 blocks"),
        (with("c", &[8], 99, 64), "GGUF type 99"),
        (with("c", &[], 0, 64), "dimensions"),
        (with("c", &[1; 5], 0, 64), "dimensions"),
    ];
    for (found, wanted) in cases {
        assert!(found.contains(wanted), "{wanted}: {found}");
    }
    let key = |kind: u32, value: &[u8]| {
        let bytes = fine.clone().key("k", kind, value).bytes();
        Gguf::parse(&bytes).map(|_| ()).unwrap_err().to_string()
    };
    let nested = [9u32.to_le_bytes(), 1u32.to_le_bytes(), 0u32.to_le_bytes()].concat();
    let endless = [4u32.to_le_bytes().to_vec(), (1u64 << 60).to_le_bytes().to_vec()].concat();
    let cases = [
        (key(8, &(1u64 << 60).to_le_bytes()), "past the end"),
        (key(8, &[1, 0, 0, 0, 0, 0, 0, 0, 0xff]), "UTF-8"),
        (key(9, &nested), "array of arrays"),
        (key(9, &endless), "do not fit"),
        (key(7, &[2]), "truth value"),
        (key(13, &[0]), "unknown type 13"),
        (Gguf::parse(&fine.clone().key("k", 0, &[1]).key("k", 0, &[2]).bytes()).unwrap_err().to_string(), "twice"),
    ];
    for (found, wanted) in cases {
        assert!(found.contains(wanted), "{wanted}: {found}");
    }
    let alignment = fine.clone().key("general.alignment", 4, &48u32.to_le_bytes()).bytes();
    assert!(Gguf::parse(&alignment).unwrap_err().to_string().contains("power of two"));
    for version in [1u32, 4, 3 << 24] {
        let mut bytes = parsed.clone();
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        assert!(Gguf::parse(&bytes).unwrap_err().to_string().contains("version"));
    }
    for count in [8..16, 16..24] {
        let mut bytes = parsed.clone();
        bytes[count].copy_from_slice(&(1u64 << 60).to_le_bytes());
        assert!(Gguf::parse(&bytes).unwrap_err().to_string().contains("do not fit"));
    }
}

/// Cut anywhere, or with any byte of the header changed, a file is refused or read, and nothing panics.
#[test]
fn no_cut_and_no_byte_panics() {
    let whole = std::fs::read(data("llama-tiny.gguf")).unwrap();
    let header = whole.len() - Gguf::parse(&whole).unwrap().tensors.values().map(|t| t.data.len()).sum::<usize>();
    for cut in (0..header).step_by(7).chain([whole.len() - 1]) {
        assert!(Gguf::parse(&whole[..cut]).is_err(), "cut at {cut}");
    }
    for at in 0..header {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        if let Ok(gguf) = Gguf::parse(&bytes) {
            let _ = gguf.config().and_then(|c| engine::gguf::tokenizer_json(&gguf, &c));
        }
    }
}

/// A scratch copy of the file, changed.
fn edited(from: &[u8], to: &[u8]) -> Result<Model, Error> {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(data("llama-tiny.gguf")).unwrap();
    let at = bytes.windows(from.len()).position(|w| w == from).expect("it is in the file");
    bytes[at..at + to.len()].copy_from_slice(to);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model.gguf"), bytes).unwrap();
    Model::load(folder.path())
}

#[test]
fn what_is_not_understood_is_refused() {
    assert!(edited(b"llama.context_length", b"llama.context_length").is_ok());
    let error = |from: &[u8], to: &[u8]| edited(from, to).map(|_| ()).unwrap_err().to_string();
    assert!(error(b"llama.rope.freq_base", b"llama.rope.freq_bass").contains("llama.rope.freq_bass"));
    assert!(error(b"smollm", b"falcon").contains("falcon"));
    assert!(error(b"gpt2", b"bert").contains("bert"));
    assert!(error(b"blk.1.ffn_up.weight", b"blk.1.ffn_ap.weight").contains("layers.1.mlp.up_proj"));
    assert!(error(b"blk.1.ffn_up.weight", b"blk.7.ffn_up.weight").contains("layers.1.mlp.up_proj"));
    // An f16 scale that is infinite, in the first block of the embedding.
    let whole = std::fs::read(data("llama-tiny.gguf")).unwrap();
    let gguf = Gguf::parse(&whole).unwrap();
    let block = gguf.tensors["token_embd.weight"].data[..34].to_vec();
    let mut infinite = block.clone();
    infinite[..2].copy_from_slice(&[0x00, 0x7c]);
    let found = error(&block, &infinite);
    assert!(found.contains("model.embed_tokens.weight") && found.contains("not finite"), "{found}");
}

/// A checkpoint of the test data as a GGUF file, in the names and order of that format.
fn as_gguf(name: &str) -> Writer {
    let model = Model::load(&data(name)).unwrap();
    let (c, prefix) = (&model.config, model.config.architecture.model_type());
    let mut w = Writer::default();
    let count = |w: Writer, key: &str, n: u32| w.key(&format!("{prefix}.{key}"), 4, &n.to_le_bytes());
    w = w.key("general.architecture", 8, &text(prefix));
    for (key, n) in [
        ("block_count", c.layers),
        ("context_length", c.max_positions),
        ("embedding_length", c.hidden),
        ("feed_forward_length", c.ffn),
        ("attention.head_count", c.q_heads),
        ("attention.head_count_kv", c.kv_heads),
        ("attention.key_length", c.head_dim),
        ("attention.value_length", c.head_dim),
    ] {
        w = count(w, key, n);
    }
    w = w.key(&format!("{prefix}.rope.freq_base"), 6, &(c.rope_theta as f32).to_le_bytes());
    w = w.key(&format!("{prefix}.attention.layer_norm_rms_epsilon"), 6, &c.rms_eps.to_le_bytes());
    w = w.key("tokenizer.ggml.bos_token_id", 4, &0u32.to_le_bytes()).key(
        "tokenizer.ggml.eos_token_id",
        4,
        &1u32.to_le_bytes(),
    );
    let bytes = std::fs::read(data(name).join("model.safetensors")).unwrap();
    for (name, view) in safetensors::SafeTensors::deserialize(&bytes).unwrap().tensors() {
        let name = name
            .replace("model.layers.", "blk.")
            .replace("model.embed_tokens", "token_embd")
            .replace("model.norm", "output_norm")
            .replace("lm_head", "output")
            .replace("input_layernorm", "attn_norm")
            .replace("post_attention_layernorm", "ffn_norm")
            .replace("self_attn.o_proj", "attn_output")
            .replace("self_attn.", "attn_")
            .replace("mlp.", "ffn_")
            .replace("_proj", "");
        let shape: Vec<u64> = view.shape().iter().rev().map(|s| *s as u64).collect();
        let offset = w.data.len() as u64;
        w.data.extend(view.data());
        w.data.resize(w.data.len().next_multiple_of(32), 0);
        w = w.tensor(&name, &shape, 30, offset);
    }
    w
}

/// Families whose q and k are stored as they are; the tokenizer lies beside the file.
#[test]
fn other_families_load_to_the_same_weights() {
    for name in ["qwen2-tiny", "qwen3-tiny"] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("model.gguf"), as_gguf(name).bytes()).unwrap();
        let alone = Model::load(folder.path()).map(|_| ()).unwrap_err().to_string();
        assert!(alone.contains("tokenizer.json"), "{alone}");
        std::fs::copy(data(name).join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
        let (ours, original) = (Model::load(folder.path()).unwrap(), Model::load(&data(name)).unwrap());
        assert!(ours.weights == original.weights, "{name}");
        assert_eq!(ours.config, original.config);
        assert_eq!((ours.manifest.len(), ours.tokenizer_file.as_str()), (2, "tokenizer.json"));
    }
}

/// Llama 3.1's scaling travels as a tensor of divisors.
#[test]
fn rotary_divisors_are_read_and_checked() {
    let with = |values: &[f32]| {
        let mut w = as_gguf("qwen3-tiny");
        let offset = w.data.len() as u64;
        w.data.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        let bytes = w.tensor("rope_freqs.weight", &[values.len() as u64], 0, offset).bytes();
        Gguf::parse(&bytes).unwrap().config()
    };
    let divisors: Vec<f32> = (0..20).map(|i| 1.0 + i as f32).collect();
    assert_eq!(with(&divisors).unwrap().rope_scaling, engine::config::RopeScaling::Divisors(divisors.clone()));
    assert!(matches!(with(&divisors[..19]), Err(Error::TensorShape { .. })));
    for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let mut wrong = divisors.clone();
        wrong[7] = bad;
        assert!(matches!(with(&wrong), Err(Error::TensorValue { index: 7, .. })), "{bad}");
    }
}
