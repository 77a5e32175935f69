//! What a client gets, and what the log says of it.

mod common;

use common::{Bench, Setup, json};
use engine::Limits;
use engine::sampler::log_probability;
use record::inference::Finish;
use serde_json::{Value, json as value};

#[test]
fn a_completion_is_on_record_when_it_is_answered() {
    let mut bench = Bench::new();
    let asked = value!({"model": "kjv-llama-2M", "prompt": "In the beginning", "max_tokens": 6, "temperature": 0, "nonce": "00ff"});
    let answer = bench.client.post("/v1/completions", &asked.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let body = json(&answer.body);
    let choice = &body["choices"][0];
    assert_eq!((&body["object"], &choice["finish_reason"]), (&value!("text_completion"), &value!("length")));
    assert_eq!(body["usage"]["completion_tokens"], 6);
    // On disk already: before the service has stopped.
    let receipts = bench.receipts(&body);
    let records = bench.records(&receipts);
    let request = &records[0].requests[0];
    assert_eq!((request.nonce.as_deref(), request.finish), (Some("00ff"), Finish::Length));
    let tokenizer = engine::model::embedded().unwrap().tokenizer;
    assert_eq!(request.prompt, tokenizer.encode("In the beginning").unwrap());
    assert_eq!(choice["text"], tokenizer.decode(&request.output).unwrap());
    let id = body["lastbit"]["choices"][0]["id"].as_str().unwrap();
    assert_eq!((request.id.as_str(), body["id"].as_str().unwrap()), (id, format!("cmpl-{id}").as_str()));

    // The receipt can be had again, by either id.
    for name in [id, body["id"].as_str().unwrap()] {
        let again = json(&bench.client.get(&format!("/v1/receipts/{name}")).body);
        assert_eq!(again["receipt"], body["lastbit"]["choices"][0]["receipt"]);
    }
    assert_eq!(bench.client.get("/v1/receipts/9-9").status, 404);
    bench.stop().unwrap();
}

#[test]
fn seeds_are_the_clients_or_derived_from_its_nonce() {
    let mut bench = Bench::invariant();
    let ask = |extra: Value| {
        let mut asked = value!({"prompt": "And the LORD said", "max_tokens": 5, "n": 2});
        asked.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json(&bench.client.post("/v1/completions", &asked.to_string()).body)
    };
    let texts = |body: &Value| [0, 1].map(|i| body["choices"][i]["text"].as_str().unwrap().to_owned());
    let (own, again) = (ask(value!({"seed": 7})), ask(value!({"seed": 7})));
    assert_eq!(texts(&own), texts(&again));
    assert_eq!([0, 1].map(|i| own["lastbit"]["choices"][i]["seed"].as_str().unwrap().to_owned()), ["7", "8"]);
    let derived = ask(value!({"nonce": "abcd"}));
    let mut receipts = Vec::new();
    for body in [&own, &again, &derived] {
        receipts.extend(bench.receipts(body));
    }
    let records = bench.records(&receipts);
    for record in &records {
        for request in &record.requests {
            let rule = request.decode.seed_derivation.known().unwrap().as_str();
            let seed = request.decode.seed.unwrap().0;
            if request.nonce.as_deref() == Some("abcd") {
                assert_eq!(rule, "sha256-nonce-record-request/1");
                let key = &record.link.key_id;
                assert_eq!(seed, engine::journal::derived_seed(Some("abcd"), key, &request.id).unwrap());
            } else {
                assert_eq!(rule, "client");
                assert!([7, 8].contains(&seed));
            }
        }
    }
    bench.stop().unwrap();
}

#[test]
fn streams_say_the_same_and_end_on_record() {
    let mut bench = Bench::invariant();
    let asked = value!({"prompt": "In the beginning", "max_tokens": 8, "temperature": 0, "n": 2, "logprobs": 2});
    let whole = json(&bench.client.post("/v1/completions", &asked.to_string()).body);
    let mut streamed = asked.clone();
    streamed["stream"] = value!(true);
    streamed["stream_options"] = value!({"include_usage": true});
    let answer = bench.client.post("/v1/completions", &streamed.to_string());
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = answer.events();
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|e| json(e)).collect();
    for index in 0..2 {
        let own = || chunks.iter().filter_map(|c| c["choices"].get(0)).filter(|c| c["index"] == index);
        let text: String = own().map(|c| c["text"].as_str().unwrap()).collect();
        assert_eq!(text, whole["choices"][index]["text"].as_str().unwrap());
        let bits = |c: &Value| c["logprobs"]["lastbit_bits"].as_array().cloned().unwrap_or_default();
        assert_eq!(own().flat_map(bits).collect::<Vec<_>>(), bits(&whole["choices"][index]));
        let offsets = |c: &Value| c["logprobs"]["text_offset"].as_array().cloned().unwrap_or_default();
        assert_eq!(own().flat_map(offsets).collect::<Vec<_>>(), offsets(&whole["choices"][index]));
        assert_eq!(own().filter(|c| c["finish_reason"] == "length").count(), 1);
    }
    let usage = &chunks.last().unwrap()["usage"];
    assert_eq!((&usage["completion_tokens"], usage), (&value!(16), &whole["usage"]));
    let receipts: Vec<_> = chunks.iter().filter(|c| !c["lastbit"].is_null()).flat_map(|c| bench.receipts(c)).collect();
    assert_eq!(receipts.len(), 2);
    bench.records(&receipts);
    bench.stop().unwrap();
}

#[test]
fn log_probabilities_are_those_of_the_record() {
    let mut bench = Bench::new();
    let asked = value!({"prompt": "And it came to pass", "max_tokens": 4, "seed": 3, "logprobs": 3});
    let body = json(&bench.client.post("/v1/completions", &asked.to_string()).body);
    let logprobs = &body["choices"][0]["logprobs"];
    let records = bench.records(&bench.receipts(&body));
    let request = &records[0].requests[0];
    let recorded = request.logprobs.clone().unwrap();
    assert_eq!(value!(recorded), logprobs["lastbit_bits"]);
    assert_eq!(value!(request.output), logprobs["lastbit_ids"]);

    // And those of the same tokens computed on another engine.
    let model = std::sync::Arc::new(engine::model::embedded().unwrap());
    let device = Box::new(engine::device::EmulatedDevice::new("sm_90").unwrap());
    let limits = Limits { slots: 1, pages: 8, max_rows: 64 };
    let mut engine = engine::Engine::new(model, device, engine::Mode::Throughput, limits).unwrap();
    let slot = engine.open().unwrap();
    let (mut tokens, mut start) = (request.prompt.clone(), 0);
    for (at, token) in request.output.iter().enumerate() {
        let group = engine::step::Group { slot, start, tokens: tokens.clone(), logits: engine::step::Logits::Last };
        start += tokens.len() as u32;
        let plan = engine.plan(vec![group], engine::step::Observe::STATE);
        let output = engine.step(&plan).unwrap();
        let logits = output.rows.last().unwrap().logits.clone().unwrap();
        assert_eq!(recorded[at].0, log_probability(&logits, start, *token).unwrap());
        for top in logprobs["lastbit_top"][at].as_array().unwrap() {
            let bits = log_probability(&logits, start, top[0].as_u64().unwrap() as u32).unwrap();
            assert_eq!(top[1], format!("{bits:08x}"));
        }
        tokens = vec![*token];
    }
    bench.stop().unwrap();
}

#[test]
fn stop_strings_end_a_choice_where_they_begin() {
    let mut bench = Bench::new();
    let ask = |extra: Value| {
        let mut asked = value!({"prompt": "In the beginning", "max_tokens": 24, "temperature": 0});
        asked.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json(&bench.client.post("/v1/completions", &asked.to_string()).body)
    };
    let free = ask(value!({}));
    let text = free["choices"][0]["text"].as_str().unwrap();
    // From the middle of a word to the middle of another one, across token borders.
    let middle: Vec<(usize, char)> = text.char_indices().skip(12).collect();
    let stop: String = middle[..7].iter().map(|c| c.1).collect();
    let body = ask(value!({"stop": [stop, "no such words"]}));
    let choice = &body["choices"][0];
    assert_eq!(choice["text"].as_str().unwrap(), &text[..text.find(&stop).unwrap()]);
    assert_eq!(choice["finish_reason"], "stop");
    let records = bench.records(&bench.receipts(&body));
    let request = records.last().unwrap().requests.last().unwrap();
    assert_eq!((request.finish, request.decode.stop_strings.len()), (Finish::Stop, 2));
    let tokenizer = engine::model::embedded().unwrap().tokenizer;
    assert!(tokenizer.text_has(&request.output, &request.decode.stop_strings).unwrap());
    let before = &request.output[..request.output.len() - 1];
    assert!(!tokenizer.text_has(before, &request.decode.stop_strings).unwrap());
    bench.stop().unwrap();
}

#[test]
fn several_prompts_and_choices_come_in_order() {
    let mut bench = Bench::new();
    let tokenizer = engine::model::embedded().unwrap().tokenizer;
    let (first, second) = ("In the beginning", "And the LORD said");
    let ids = [tokenizer.encode(first).unwrap(), tokenizer.encode(second).unwrap()];
    let ask = |prompt: Value| {
        let asked = value!({"prompt": prompt, "max_tokens": 4, "temperature": 0, "n": 2});
        let body = json(&bench.client.post("/v1/completions", &asked.to_string()).body);
        body["choices"].as_array().unwrap().iter().map(|c| c["text"].clone()).collect::<Vec<_>>()
    };
    let texts = ask(value!([first, second]));
    assert_eq!(texts.len(), 4);
    assert!(texts[0] == texts[1] && texts[2] == texts[3] && texts[0] != texts[2]);
    assert_eq!(ask(value!(ids)), texts);
    assert_eq!(ask(value!(ids[1])), texts[2..]);
    bench.stop().unwrap();
}

#[test]
fn without_a_log_nothing_is_promised() {
    let mut bench = Bench::with(Setup { logged: false, ..Setup::default() });
    let body = json(&bench.client.post("/v1/completions", r#"{"prompt":"Amen","max_tokens":3,"logprobs":1}"#).body);
    assert_eq!(body["lastbit"]["logged"], false);
    let choice = &body["lastbit"]["choices"][0];
    assert!(choice["record"].is_null() && choice["receipt"].is_null());
    assert_eq!(body["choices"][0]["logprobs"]["tokens"].as_array().unwrap().len(), 3);
    bench.stop().unwrap();
    assert!(bench.records(&[]).is_empty());
}
