//! Parameters of sampling and of what is told of it, from the call to the record.

mod common;

use common::{Bench, Setup, json};
use engine::Limits;
use engine::sampler::log_probability;
use engine::scheduler::Settings;
use record::inference::Finish;
use record::{F32Bits, Record};
use serde_json::{Value, json as value};

fn ask(bench: &Bench, extra: Value) -> Value {
    let mut asked = value!({"prompt": "In the beginning God", "max_tokens": 8, "temperature": 0});
    asked.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let answer = bench.client.post("/v1/completions", &asked.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    json(&answer.body)
}

fn ids(request: &record::inference::Request) -> Vec<u32> {
    request.prompt.iter().chain(&request.output).copied().collect()
}

/// Logits of every row of these tokens, computed alone.
fn logits(tokens: &[u32]) -> Vec<Vec<u32>> {
    let model = std::sync::Arc::new(engine::model::embedded().unwrap());
    let device = Box::new(engine::device::EmulatedDevice::new("sm_90").unwrap());
    let limits = Limits { slots: 1, pages: 16, max_rows: 256 };
    let mut engine = engine::Engine::new(model, device, engine::Mode::Throughput, limits).unwrap();
    let slot = engine.open().unwrap();
    let group = engine::step::Group { slot, start: 0, tokens: tokens.to_vec(), logits: engine::step::Logits::All };
    let plan = engine.plan(vec![group], engine::step::Observe::STATE);
    engine.step(&plan).unwrap().rows.into_iter().map(|r| r.logits.unwrap()).collect()
}

#[test]
fn bias_and_penalties_change_what_is_said_and_are_on_record() {
    let mut bench = Bench::new();
    let plain = ask(&bench, value!({}));
    let output = |answer: &Value, records: &[Record]| {
        let id = answer["lastbit"]["choices"][0]["id"].as_str().unwrap().to_owned();
        records.iter().flat_map(|r| &r.requests).find(|r| r.id == id).unwrap().clone()
    };
    let banned = output(&plain, &bench.records(&[])).output[0];
    let biased = ask(&bench, value!({"logit_bias": {banned.to_string(): -100}}));
    let penalised = ask(&bench, value!({"frequency_penalty": 2, "presence_penalty": 0.5, "max_tokens": 24}));
    let repeated = ask(&bench, value!({"repetition_penalty": 2.5, "max_tokens": 24}));
    let narrow = ask(&bench, value!({"temperature": 1, "min_p": 1, "seed": 4}));
    let records = bench.records(&[]);
    let biased = output(&biased, &records);
    assert!(!biased.output.contains(&banned), "{biased:?}");
    assert_eq!(biased.decode.logit_bias, [(banned, F32Bits::new(-100.0))]);
    let penalised = output(&penalised, &records);
    assert_eq!(penalised.decode.frequency_penalty, F32Bits::new(2.0));
    assert_eq!(penalised.decode.presence_penalty, F32Bits::new(0.5));
    let repeated = output(&repeated, &records);
    assert_eq!(repeated.decode.repetition_penalty, F32Bits::new(2.5));
    let most = |r: &record::inference::Request| {
        r.output.iter().map(|id| r.output.iter().filter(|o| *o == id).count()).max().unwrap()
    };
    let free = output(&ask(&bench, value!({"max_tokens": 24})), &bench.records(&[]));
    assert!(most(&penalised) < most(&free) && most(&repeated) < most(&free), "{penalised:?} {repeated:?}");
    // Only the likeliest is left.
    assert_eq!(narrow["choices"][0]["text"], plain["choices"][0]["text"]);
    assert_eq!(output(&narrow, &records).decode.min_p, F32Bits::new(1.0));
    bench.stop().unwrap();
}

#[test]
fn prompts_are_scored_by_bits_that_stand_in_the_record() {
    // Chunks, and a cache that would share the prompt.
    let settings = |l: Limits| Settings { chunk: Some(3), prefix_cache: true, ..Settings::plain(l.max_rows) };
    let mut bench = Bench::with(Setup { settings, ..Setup::default() });
    let prompt = "In the beginning God created the heaven and the earth. And the earth was without form, and void";
    let first = ask(&bench, value!({"prompt": prompt}));
    let body = ask(&bench, value!({"prompt": prompt, "echo": true, "logprobs": 2, "prompt_logprobs": 1}));
    let records = bench.records(&[bench.receipts(&first), bench.receipts(&body)].concat());
    let request = records.iter().flat_map(|r| &r.requests).find(|r| r.prompt_logprobs.is_some()).unwrap();
    let (stated, choice) = (request.prompt_logprobs.clone().unwrap(), &body["choices"][0]);
    assert_eq!(stated.len(), request.prompt.len() - 1);
    // Computed in one piece instead of chunks, so that bits may differ, but not by much; bits are the business of audits.
    let rows = logits(&ids(request));
    for (at, bits) in stated.iter().enumerate() {
        let own = log_probability(&rows[at], at as u32 + 1, request.prompt[at + 1]).unwrap();
        let apart = (f32::from_bits(own) - bits.value()).abs();
        assert!(apart < 0.1, "prompt token {}: {own:08x} {bits:?}", at + 1);
    }
    let logprobs = &choice["logprobs"];
    let count = request.prompt.len() + request.output.len();
    let lists = ["tokens", "token_logprobs", "top_logprobs", "text_offset", "lastbit_bits"];
    for list in lists {
        assert_eq!(logprobs[list].as_array().unwrap().len(), count, "{list}");
    }
    assert_eq!((&logprobs["token_logprobs"][0], &logprobs["top_logprobs"][0]), (&Value::Null, &Value::Null));
    let bits: Vec<Value> = stated.iter().chain(request.logprobs.iter().flatten()).map(|b| value!(b)).collect();
    assert_eq!(logprobs["lastbit_bits"].as_array().unwrap()[1..], bits);
    assert_eq!(logprobs["lastbit_ids"], value!(ids(request)));
    let text = choice["text"].as_str().unwrap();
    assert_eq!(text, format!("{prompt}{}", first["choices"][0]["text"].as_str().unwrap()));
    for (at, bits) in stated.iter().enumerate() {
        let place = choice["prompt_logprobs"][at + 1].as_object().unwrap();
        assert_eq!(place[&request.prompt[at + 1].to_string()]["bits"], value!(bits));
        assert!((1..=2).contains(&place.len()));
        assert!(logprobs["lastbit_top"][at + 1].as_array().unwrap().len() == 2);
    }

    // A stream tells the same, the prompt before the first token.
    let asked = value!({"prompt": prompt, "max_tokens": 8, "temperature": 0, "echo": true, "logprobs": 2,
        "prompt_logprobs": 1, "stream": true});
    let events = bench.client.post("/v1/completions", &asked.to_string()).events();
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|e| json(e)).collect();
    let streamed: String = chunks.iter().map(|c| c["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(streamed, text);
    assert_eq!(chunks[0]["choices"][0]["prompt_logprobs"], choice["prompt_logprobs"]);
    let of = |list: &str| -> Vec<Value> {
        let parts = chunks.iter().map(|c| &c["choices"][0]["logprobs"][list]);
        parts.filter_map(Value::as_array).flatten().cloned().collect()
    };
    for list in lists {
        assert_eq!(of(list), *logprobs[list].as_array().unwrap(), "{list}");
    }
    // An echo alone, of ids.
    let echo = ask(&bench, value!({"prompt": request.prompt, "echo": true}));
    assert_eq!(echo["choices"][0]["text"], value!(text));
    assert_eq!(echo["choices"][0]["logprobs"], Value::Null);
    bench.stop().unwrap();
}

#[test]
fn the_best_of_several_are_told_and_all_are_on_record() {
    let mut bench = Bench::new();
    let extra =
        value!({"prompt": ["And the LORD said", "In the"], "temperature": 1.2, "seed": 5, "n": 2, "best_of": 4});
    let body = ask(&bench, extra);
    let told = body["choices"].as_array().unwrap();
    assert_eq!(told.iter().map(|c| c["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(told.iter().all(|c| c["logprobs"].is_null()));
    let entries = |list: &str| body["lastbit"][list].as_array().unwrap().clone();
    let (chosen, others) = (entries("choices"), entries("others"));
    assert_eq!((chosen.len(), others.len()), (4, 4));
    let records = bench.records(&bench.receipts(&body));
    let all: Vec<_> = records.iter().flat_map(|r| &r.requests).filter(|r| r.finish != Finish::Continues).collect();
    assert_eq!(all.len(), 8);
    // Ranked again from the records.
    let mean = |entry: &Value| {
        let request = all.iter().find(|r| entry["id"] == r.id.as_str()).unwrap();
        let values = request.logprobs.as_ref().unwrap();
        let mut sum = 0.0;
        for bits in values {
            sum += f64::from(bits.value());
        }
        assert_eq!(entry["mean_logprob"].as_f64().unwrap(), sum / values.len() as f64);
        sum / values.len() as f64
    };
    let tokenizer = engine::model::embedded().unwrap().tokenizer;
    for prompt in 0..2 {
        let (best, rest) = (&chosen[2 * prompt..][..2], &others[2 * prompt..][..2]);
        assert!(mean(&best[0]) >= mean(&best[1]) && rest.iter().all(|r| mean(&best[1]) >= mean(r)));
        assert!(rest.iter().all(|r| r["index"].is_null() && r["receipt"].is_string()));
        for (at, entry) in best.iter().enumerate() {
            let request = all.iter().find(|r| entry["id"] == r.id.as_str()).unwrap();
            assert_eq!(told[2 * prompt + at]["text"], value!(tokenizer.decode(&request.output).unwrap()));
        }
    }
    // Each prompt is counted once, and every token that was made.
    let prompts: usize = ["And the LORD said", "In the"].iter().map(|p| tokenizer.encode(p).unwrap().len()).sum();
    assert_eq!(body["usage"]["prompt_tokens"], value!(prompts));
    assert_eq!(body["usage"]["completion_tokens"], value!(all.iter().map(|r| r.output.len()).sum::<usize>()));
    bench.stop().unwrap();
}

#[test]
fn faults_are_told_with_every_answer_and_in_every_record() {
    let mut bench = Bench::with(Setup { faults: &["swap@2", "delay=1"], ..Setup::default() });
    let health = bench.client.get("/health");
    assert_eq!(json(&health.body), value!({"status": "ok", "faults": "swap@2 delay=1"}));
    assert_eq!(health.header("x-lastbit-faults"), Some("swap@2 delay=1"));
    let answer = bench.client.post("/v1/completions", r#"{"prompt":"In the","max_tokens":4,"temperature":0}"#);
    assert_eq!(answer.header("x-lastbit-faults"), Some("swap@2 delay=1"));
    assert_eq!(bench.client.get("/nowhere").header("x-lastbit-faults"), Some("swap@2 delay=1"));
    let record = &bench.records(&bench.receipts(&json(&answer.body)))[0];
    assert_eq!(record.stack.mode, "throughput+swap@2+delay=1");
    bench.stop().unwrap();

    let mut honest = Bench::new();
    assert_eq!(honest.client.get("/health").header("x-lastbit-faults"), None);
    assert_eq!(json(&honest.client.get("/health").body), value!({"status": "ok"}));
    let right = ask(&honest, value!({"prompt": "In the", "max_tokens": 4}));
    assert_ne!(json(&answer.body)["choices"][0]["text"], right["choices"][0]["text"]);
    honest.stop().unwrap();
}

/// When everybody leaves at once and the service stops, the log still ends what it began.
#[test]
fn what_was_withdrawn_last_is_on_record_as_cancelled() {
    let mut bench = Bench::new();
    let asked = value!({"prompt": "In the", "max_tokens": 500, "temperature": 0, "stream": true, "n": 2});
    let stream = bench.client.send("POST", "/v1/completions", asked.to_string().as_bytes());
    bench.wait_for("lastbit_generated_tokens_total", |n| n > 4.0);
    drop(stream);
    bench.wait_for("lastbit_requests_ended_total{finish=\"cancelled\"}", |n| n == 2.0);
    bench.stop().unwrap();
    let records = bench.records(&[]);
    let last = records.last().unwrap();
    assert!(last.requests.iter().all(|r| r.finish == Finish::Cancelled), "{:?}", last.requests);
    let joined = record::inference::join(&records.iter().collect::<Vec<_>>()).unwrap();
    joined.check_whole().unwrap();
    assert!(joined.requests.len() == 2 && joined.requests.iter().all(|r| r.finish == Finish::Cancelled));
}
