//! Parsers of files that come from someone else, outside `record` (which fuzzes its own): models, kernels, vectors, coefficients, traces, settings.
//! Fed with mutations of honest ones, nothing panics and nothing takes memory that a file only asks for.

use std::time::Duration;

use emulator::conformance::{Answers, judge};
use emulator::mufu::MufuTables;
use engine::Model;
use engine::chat::ChatTemplate;
use engine::config::Config;
use engine::gguf::Gguf;
use engine::model::ModelFiles;
use engine::tokenizer::Tokenizer;
use fingerprint::api::Answer;
use fingerprint::client::Exchange;
use fingerprint::trace::Trace;
use lastbit_tests::fuzz::{Budget, run};
use lastbit_tests::workspace_root;

const QUICK: Budget = Budget::Inputs(200);
const DEEP: Budget = Budget::Time(Duration::from_secs(20));

fn data(path: &str) -> Vec<u8> {
    let path = workspace_root().join(path);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn tiny(file: &str) -> Vec<u8> {
    data(&format!("engine/tests/data/qwen2-tiny/{file}"))
}

/// A whole model of which one file was tampered with. What loads is a model: its weights have the sizes of its configuration.
fn model_file(name: &'static str, budget: Budget) {
    let names = ["config.json", "tokenizer.json", "model.safetensors"];
    run(&format!("model: {name}"), &[tiny(name)], budget, |bytes| {
        let files = names.map(|n| (n, if n == name { bytes.to_vec() } else { tiny(n) }));
        if let Ok(model) = Model::from_files("fuzz", &ModelFiles::from_bytes(files)) {
            assert!(engine::weights::places(&model.config).len() > 2);
        }
    });
}

fn configurations(budget: Budget) {
    let seeds = [tiny("config.json"), data("engine/tests/data/llama3-tiny/config.json")];
    run("config", &seeds, budget, |bytes| {
        if let Ok(mut config) = Config::parse(bytes) {
            let _ = (config.parameters(), config.apply_generation_config(bytes));
        }
    });
    let config = Config::parse(&seeds[0]).unwrap();
    run("generation config", &[br#"{"eos_token_id":[1,2],"temperature":0.6,"top_k":20}"#.to_vec()], budget, |bytes| {
        let _ = config.clone().apply_generation_config(bytes);
    });
    let index = br#"{"metadata":{"total_size":8},"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}"#;
    run("shard index", &[index.to_vec()], budget, |bytes| {
        let files = ModelFiles::from_bytes([("model.safetensors.index.json", bytes.to_vec())]);
        let _ = (files.weight_files(), files.shard_index());
    });
}

fn gguf(budget: Budget) {
    let whole = data("engine/tests/data/llama-tiny.gguf");
    // Most mutations of a whole file hit weights; those of its beginning hit what is parsed.
    let head = whole[..whole.len().min(8 << 10)].to_vec();
    run("gguf", &[head, whole], budget, |bytes| {
        if Gguf::parse(bytes).is_ok() {
            let _ = Model::from_files("fuzz", &ModelFiles::from_bytes([("model.gguf", bytes.to_vec())]));
        }
    });
}

fn tokenizers(budget: Budget) {
    let config = Config::parse(&tiny("config.json")).unwrap();
    run("tokenizer", &[tiny("tokenizer.json")], budget, |bytes| {
        if let Ok(tokenizer) = Tokenizer::new(bytes, None, &config) {
            let ids = tokenizer.encode("In the beginning \u{4e16}\u{754c}").unwrap_or_default();
            let _ = (tokenizer.decode(&ids), tokenizer.added_special());
        }
    });
}

#[test]
fn a_tokenizer_that_is_no_json_in_its_middle_is_refused() {
    let config = Config::parse(&tiny("config.json")).unwrap();
    let text = String::from_utf8(tiny("tokenizer.json")).unwrap();
    let broken = text.replace("\"decoder\": ", "\"decoder\": ecoder\": ");
    assert_ne!(broken, text);
    assert!(Tokenizer::new(broken.as_bytes(), None, &config).is_err());
}

fn templates(budget: Budget) {
    let template =
        b"{% for m in messages %}<{{ m['role'] }}>{{ m['content'] | trim }}{% endfor %}{{ bos_token }}".to_vec();
    let settings = serde_json::to_vec(&serde_json::json!({
        "chat_template": String::from_utf8(template.clone()).unwrap(), "bos_token": {"content": "<s>"},
    }));
    run("template settings", &[settings.unwrap()], budget, |bytes| {
        let config = Config::parse(&tiny("config.json")).unwrap();
        let files = ModelFiles::from_bytes([("tokenizer_config.json", bytes.to_vec())]);
        let _ = ChatTemplate::of_files(&files, &config);
    });
}

fn kernels(budget: Budget) {
    let kernel = b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u32 n)\n{\n.reg .pred %p<4>;\n\
        .reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.reg .f32 %f<8>;\n.shared .align 16 .b8 tile[64];\nld.param.u64 %rd1, [x];\n\
        mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 7;\n@%p1 bra done;\nld.global.f32 %f1, [%rd1+4];\nfma.rn.f32 %f2, %f1, %f1, %f1;\n\
        ex2.approx.ftz.f32 %f3, %f2;\nst.shared.f32 [tile], %f3;\nbar.sync 0;\ndone:\nret;\n}\n";
    assert!(ptx::parse(std::str::from_utf8(kernel).unwrap()).is_ok());
    run("ptx", &[kernel.to_vec()], budget, |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes)
            && let Ok(module) = ptx::parse(text)
        {
            let _ = ptx::lint(&module);
            assert_eq!(ptx::parse(&ptx::print(&module)).as_ref(), Ok(&module));
        }
    });
}

fn vectors_and_coefficients(budget: Budget) {
    let vector = br#"{"arch":"Volta","op":"mma","inst":"m8n8k4.f32.f16.f16.f32","cls":"normal","src":"mma-sim","a":"3f5137e53b853e03","b":"b270ac2d30963e31","c":"be8afbc6","d":"3fe50b46"}"#;
    assert_eq!(judge("v", &vector[..], Answers::Both).unwrap().uncovered().count(), 0);
    run("vectors", &[vector.to_vec()], budget, |bytes| {
        let _ = judge("v", bytes, Answers::Both);
    });
    run("coefficients", &[data("emulator/data/mufu-g80.txt")], budget, |bytes| {
        let _ = MufuTables::parse(&String::from_utf8_lossy(bytes));
    });
}

fn answers_of_endpoints(budget: Budget) {
    let whole = br#"{"id":"cmpl-1","model":"m","choices":[{"index":0,"text":" a b","logprobs":{"tokens":[" a"," b"],"token_logprobs":[-0.1,-0.2],"top_logprobs":[{" a":-0.1},{" b":-0.2}]},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let chat = br#"{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"logprobs":{"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[]}]},"finish_reason":"stop"}]}"#;
    let events = [b"data: ".as_slice(), whole, b"\n\n: comment\r\n\r\ndata: ", chat, b"\n\ndata: [DONE]\n\n"].concat();
    let read = |kind: &str, bytes: &[u8]| {
        let headers = vec![("content-type".to_owned(), kind.to_owned())];
        Answer::read(&Exchange { status: Some(200), headers, body: bytes.to_vec(), ..Exchange::default() })
    };
    assert!(read("application/json", whole).is_ok() && read("text/event-stream", &events).is_ok());
    run("answer", &[whole.to_vec(), chat.to_vec()], budget, |bytes| {
        if let Ok(answer) = read("application/json", bytes) {
            let _ = (answer.text(), answer.steps());
        }
    });
    run("events", &[events], budget, |bytes| {
        if let Ok(answer) = read("text/event-stream", bytes) {
            let _ = (answer.text(), answer.steps());
        }
    });
    let header = br#"{"schema":"lastbit/fingerprint-trace/v1","tool":"lastbit 0.1.0","model":{"name":"m","weights":null,"tokenizer":null},"stack":{"format":"bf16","engine":"vLLM","version":"0.32.0","backend":"flash","hardware":"H100"},"endpoint":"https://host/v1","seed":"1","batch":1,"draw":0,"date":1790000000}"#;
    assert!(Trace::read("t", header).is_ok());
    run("trace", &[header.to_vec()], budget, |bytes| {
        if let Ok(trace) = Trace::read("t", bytes) {
            assert_eq!(Trace::read("t", &trace.to_bytes().unwrap()).unwrap().header, trace.header);
        }
    });
}

fn settings(budget: Budget) {
    let header = margingate::trace::HEADER;
    let trace = format!("{header}\n0,1,2,33,4,34,3,0,7,9,3f800000,3c000000,3f000000,0\n");
    run("gate trace", &[trace.into_bytes()], budget, |bytes| {
        let _ = margingate::trace::read(&String::from_utf8_lossy(bytes));
    });
    run("api keys", &[b"# keys\n0123456789abcdef\nfedcba9876543210\n".to_vec()], budget, |bytes| {
        let _ = server::ApiKeys::parse(&String::from_utf8_lossy(bytes));
    });
}

/// Every suite, as a quick test and as a deep one.
macro_rules! suites {
    ($($quick:ident, $deep:ident: $suite:expr;)+) => {$(
        #[test]
        fn $quick() {
            let suite: fn(Budget) = $suite;
            suite(QUICK);
        }

        #[test]
        #[ignore = "deep: 20 seconds a parser"]
        fn $deep() {
            let suite: fn(Budget) = $suite;
            suite(DEEP);
        }
    )+};
}

suites! {
    damaged_configurations_do_no_harm, damaged_configurations_deep: configurations;
    damaged_model_configurations_do_no_harm, damaged_model_configurations_deep: |b| model_file("config.json", b);
    damaged_weights_do_no_harm, damaged_weights_deep: |b| model_file("model.safetensors", b);
    damaged_gguf_files_do_no_harm, damaged_gguf_files_deep: gguf;
    damaged_tokenizers_do_no_harm, damaged_tokenizers_deep: tokenizers;
    damaged_template_settings_do_no_harm, damaged_template_settings_deep: templates;
    damaged_kernels_do_no_harm, damaged_kernels_deep: kernels;
    damaged_vectors_and_coefficients_do_no_harm, damaged_vectors_and_coefficients_deep: vectors_and_coefficients;
    damaged_answers_of_endpoints_do_no_harm, damaged_answers_of_endpoints_deep: answers_of_endpoints;
    damaged_settings_do_no_harm, damaged_settings_deep: settings;
}
