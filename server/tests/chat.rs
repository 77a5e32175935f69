//! Conversations: rendered by the model's template, answered, on record as ids.

mod common;

use common::{Bench, Setup, json};
use engine::Mode;
use serde_json::{Value, json as value};

const TEMPLATE: &str = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}{% endif %}\
    {{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

fn bench() -> Bench {
    Bench::with(Setup { template: Some(TEMPLATE), mode: Mode::Invariant, ..Setup::default() })
}

fn asked() -> Value {
    value!({
        "messages": [{"role": "user", "content": "Who created"}, {"role": "assistant", "content": [{"type": "text", "text": "the heaven"}]}],
        "max_completion_tokens": 5, "temperature": 0, "logprobs": true, "top_logprobs": 2, "n": 2,
    })
}

#[test]
fn a_conversation_is_answered_as_its_text_is() {
    let mut bench = bench();
    let answer = bench.client.post("/v1/chat/completions", &asked().to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let body = json(&answer.body);
    assert_eq!(
        (&body["object"], body["id"].as_str().unwrap().starts_with("chatcmpl-")),
        (&value!("chat.completion"), true)
    );
    let records = bench.records(&bench.receipts(&body));
    // One of them may have been admitted a step before the other, and so have ended in a record of its own.
    let record = &record::inference::join(&records.iter().collect::<Vec<_>>()).unwrap();
    let tokenizer = engine::model::embedded().unwrap().tokenizer;
    let prompt = tokenizer.encode_rendered("user: Who created\nassistant: the heaven\nassistant:").unwrap();
    for (index, request) in record.requests.iter().enumerate() {
        assert_eq!(request.prompt, prompt);
        let choice = &body["choices"][index];
        assert_eq!(choice["message"]["role"], "assistant");
        assert_eq!(choice["message"]["content"], tokenizer.decode(&request.output).unwrap());
        let content = choice["logprobs"]["content"].as_array().unwrap();
        let bits: Vec<Value> = content.iter().map(|c| c["bits"].clone()).collect();
        assert_eq!(value!(request.logprobs), Value::Array(bits));
        assert!(content.iter().all(|c| c["top_logprobs"][0]["id"] == c["id"]), "greedy takes the most likely");
    }
    // No id is in front of every prompt where a template may put its own.
    assert_eq!(record.text.added_special.known().unwrap(), &Vec::<u32>::new());
    assert!(record.text.chat_template.known().unwrap().is_some());

    let mut streamed = asked();
    streamed["stream"] = value!(true);
    let events = bench.client.post("/v1/chat/completions", &streamed.to_string()).events();
    let chunks: Vec<Value> = events.iter().filter(|e| *e != "[DONE]").map(|e| json(e)).collect();
    for index in 0..2 {
        let own = || chunks.iter().map(|c| &c["choices"][0]).filter(|c| c["index"] == index);
        let text: String = own().filter_map(|c| c["delta"]["content"].as_str()).collect();
        assert_eq!(text, body["choices"][index]["message"]["content"].as_str().unwrap());
        assert_eq!(own().filter(|c| c["delta"]["role"] == "assistant").count(), 1);
        assert_eq!(own().filter(|c| c["finish_reason"] == "length").count(), 1);
    }
    bench.stop().unwrap();
}

#[test]
fn what_a_template_refuses_is_a_400() {
    let mut bench = bench();
    let ask = |change: fn(&mut Value)| {
        let mut body = asked();
        change(&mut body);
        let answer = bench.client.post("/v1/chat/completions", &body.to_string());
        assert_eq!(answer.status, 400, "{}", answer.body);
        json(&answer.body)["error"]["message"].as_str().unwrap().to_owned()
    };
    assert!(ask(|b| b["messages"][0]["role"] = value!("system")).contains("no system here"));
    assert!(ask(|b| b["messages"] = value!([])).contains("messages"));
    assert!(ask(|b| b["max_tokens"] = value!(6)).contains("differ"));
    assert!(ask(|b| b["logprobs"] = value!(false)).contains("top_logprobs"));
    assert!(ask(|b| b["messages"][0]["content"] = value!("x ".repeat(3000))).contains("positions"));
    assert!(ask(|b| b["tools"] = value!([{"type": "function"}])).contains("not supported"));
    bench.stop().unwrap();
    assert!(bench.records(&[]).is_empty());
}
