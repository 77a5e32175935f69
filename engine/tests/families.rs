//! Every model family against Hugging Face transformers: logits, rotary frequencies, configurations of well-known models.

mod common;

use common::{TINY, TinyGolden, data, engine, prefill, tiny, wide32};
use engine::config::{Architecture, Config};
use engine::step::Observe;
use engine::{Error, Mode};

/// Root mean square error of the logits as a part of their spread, and positions whose largest logit is another one.
fn compare(ours: &[f64], golden: &[f32], vocab: usize) -> (f64, usize) {
    assert_eq!(ours.len(), golden.len());
    let square = |v: f64| v * v;
    let mean_square = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / golden.len() as f64;
    let error = mean_square(&mut ours.iter().zip(golden).map(|(a, b)| square(a - f64::from(*b))));
    let spread = mean_square(&mut golden.iter().map(|b| square(f64::from(*b))));
    let top = |row: &mut dyn Iterator<Item = f64>| row.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i);
    let other = ours
        .chunks_exact(vocab)
        .zip(golden.chunks_exact(vocab))
        .filter(|(a, b)| top(&mut a.iter().copied()) != top(&mut b.iter().copied().map(f64::from)))
        .count();
    ((error / spread).sqrt(), other)
}

/// Teacher-forced, against an eager float32 forward pass with the same bf16 weights. The numbers between operations are bf16 here, hence
/// an error of some thousandths.
#[test]
fn logits_agree_with_transformers() {
    for name in TINY {
        let (model, golden) = (tiny(name), TinyGolden::of(name));
        let vocab = model.config.vocab_size as usize;
        for mode in Mode::ALL {
            let mut engine = engine(&model, mode);
            let (mut positions, mut others) = (0, 0);
            for (ids, logits) in golden.ids.iter().zip(&golden.logits) {
                let out = prefill(&mut engine, ids, Observe::STATE);
                let ours: Vec<f64> = out.rows.iter().flat_map(|r| wide32(r.logits.as_ref().unwrap())).collect();
                let (error, other) = compare(&ours, logits, vocab);
                assert!(error < 0.01, "{name}, {}: error {error} of the logits' spread", mode.name());
                // The first position says which rule a sequence follows, and so has no right answer to agree on.
                positions += ids.len();
                others += other;
            }
            assert!(others * 100 <= positions, "{name}, {}: {others} of {positions} differ", mode.name());
        }
    }
}

#[test]
fn families_are_what_their_files_say() {
    let families = [Architecture::Qwen2, Architecture::Qwen3, Architecture::Llama, Architecture::Mistral];
    for (name, family) in TINY.into_iter().zip(families) {
        let model = tiny(name);
        let layer = &model.weights.layers[0];
        assert_eq!(model.config.architecture, family);
        assert_eq!(layer.qkv_bias.is_some(), family == Architecture::Qwen2);
        assert_eq!(
            (layer.q_norm.is_some(), layer.k_norm.is_some()),
            (family == Architecture::Qwen3, family == Architecture::Qwen3)
        );
        let golden = TinyGolden::of(name).inv_freq;
        let ours = engine::rope::frequencies(&model.config);
        assert_eq!(ours.len(), golden.len());
        assert!(ours.iter().zip(&golden).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}: {ours:?} {golden:?}");
    }
}

/// Parameter counts as published with the models.
#[test]
fn configurations_of_well_known_models_load() {
    let cases = [
        ("llama-2-7b", 6_738_415_616),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.2-1b", 1_235_814_400),
        ("deepseek-r1-distill-qwen-1.5b", 1_777_088_000),
        ("qwen2.5-0.5b-instruct", 494_032_768),
        ("qwen3-0.6b", 596_049_920),
        ("mistral-7b-v0.3", 7_248_023_552),
    ];
    let read = |name: &str| Config::parse(&std::fs::read(data(&format!("configs/{name}.json"))).unwrap());
    for (name, parameters) in cases {
        assert_eq!(read(name).unwrap_or_else(|e| panic!("{name}: {e}")).parameters(), parameters, "{name}");
    }
    let window = read("mistral-7b-v0.1").unwrap_err();
    assert!(matches!(&window, Error::UnsupportedConfig { key, .. } if key == "sliding_window"), "{window}");
}
