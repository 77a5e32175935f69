//! Serves a trace as an endpoint: an engine is not needed to try what was recorded of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use crate::api::{Answer, Choice, Shape, Step};
use crate::decimal::Decimal;
use crate::error::{Error, Result};
use crate::trace::{Record, Trace};

/// Recorded answers by path and request.
struct Tape {
    answers: BTreeMap<(String, String), Vec<Record>>,
    /// How often each was asked for.
    played: Mutex<BTreeMap<(String, String), usize>>,
}

/// Serves until `stop` is done. A request that was recorded gets its recorded answer, several recordings of it in turn; any other a 404.
///
/// # Errors
/// [`Error::Network`].
pub async fn serve(
    listener: TcpListener,
    trace: &Trace,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let mut answers: BTreeMap<(String, String), Vec<Record>> = BTreeMap::new();
    for record in &trace.records {
        answers.entry(key(&record.path, record.request.as_ref())).or_default().push(record.clone());
    }
    let tape = Arc::new(Tape { answers, played: Mutex::default() });
    let app = Router::new().fallback(play).with_state(tape);
    axum::serve(listener, app).with_graceful_shutdown(stop).await.map_err(|e| Error::Network(e.to_string()))
}

/// Requests are the same if their JSON is: `serde_json` sorts members. How an answer is to come does not count.
fn key(path: &str, request: Option<&Value>) -> (String, String) {
    (path.to_owned(), request.map_or(String::new(), Value::to_string))
}

async fn play(State(tape): State<Arc<Tape>>, uri: Uri, body: Bytes) -> Response {
    let path = uri.path().trim_start_matches("/v1").trim_start_matches('/');
    let request: Option<Value> = if body.is_empty() { None } else { serde_json::from_slice(&body).ok() };
    let key = key(path, request.as_ref());
    let Some(recorded) = tape.answers.get(&key) else {
        let error = json!({"error": {"message": "this request was not recorded", "type": "not_found_error"}});
        return (StatusCode::NOT_FOUND, axum::Json(error)).into_response();
    };
    let mut played = tape.played.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let turn = played.entry(key).or_default();
    let record = &recorded[*turn % recorded.len()];
    *turn += 1;
    let status = record.status.and_then(|s| StatusCode::from_u16(s).ok()).unwrap_or(StatusCode::BAD_GATEWAY);
    let Some(answer) = &record.answer else {
        return (status, record.fault.clone().unwrap_or_default()).into_response();
    };
    let mut response = if answer.events > 0 {
        let text = format!("data: {}\n\ndata: [DONE]\n\n", written(record, answer, "delta"));
        ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response()
    } else {
        ([(header::CONTENT_TYPE, "application/json")], written(record, answer, "message")).into_response()
    };
    *response.status_mut() = status;
    if let Some(server) = record.header("server").and_then(|s| s.parse().ok()) {
        response.headers_mut().insert(header::SERVER, server);
    }
    response
}

/// The answer in the shape it had.
fn written(record: &Record, answer: &Answer, message: &str) -> String {
    let mut members: Vec<(String, String)> = Vec::new();
    let mut put = |name: &str, value: String| members.push((name.to_owned(), value));
    let text = |s: &str| Value::from(s).to_string();
    for name in &answer.keys {
        match name.as_str() {
            "id" => put(name, answer.id.as_deref().map_or("null".into(), text)),
            "model" => put(name, answer.model.as_deref().map_or("null".into(), text)),
            "system_fingerprint" => {
                let told = answer.fingerprint.as_deref().filter(|f| !f.is_empty());
                put(name, told.map_or("null".into(), text));
            }
            "choices" => {
                let all: Vec<String> =
                    answer.choices.iter().enumerate().map(|(i, c)| choice(i, c, &record.path, message)).collect();
                put(name, format!("[{}]", all.join(",")));
            }
            "usage" => {
                let usage = answer.usage.map(|u| json!({"prompt_tokens": u.prompt, "completion_tokens": u.output}));
                put(name, usage.map_or("null".into(), |u| u.to_string()));
            }
            "data" => put(name, json!(answer.models.iter().map(|m| json!({"id": m})).collect::<Vec<_>>()).to_string()),
            "error" => {
                let error = answer.error.as_ref().map(|(m, t)| json!({"message": m, "type": t}));
                put(name, error.map_or("null".into(), |e| e.to_string()));
            }
            // What was not kept is there, and null.
            _ => put(name, "null".into()),
        }
    }
    object(&members)
}

/// Decimals must stay as they were written, so objects are put together as text.
fn object(members: &[(String, String)]) -> String {
    let all: Vec<String> = members.iter().map(|(n, v)| format!("{}:{v}", Value::from(n.as_str()))).collect();
    format!("{{{}}}", all.join(","))
}

fn choice(index: usize, choice: &Choice, path: &str, message: &str) -> String {
    let mut members = vec![("index".to_owned(), index.to_string())];
    if path.starts_with("chat") {
        let mut said = Map::new();
        said.insert("role".into(), json!("assistant"));
        said.insert("content".into(), json!(choice.text));
        if !choice.reasoning.is_empty() {
            said.insert("reasoning_content".into(), json!(choice.reasoning));
        }
        if choice.tool_calls > 0 {
            said.insert("tool_calls".into(), json!(vec![json!({}); choice.tool_calls]));
        }
        members.push((message.to_owned(), Value::Object(said).to_string()));
    } else {
        members.push(("text".to_owned(), Value::from(choice.text.as_str()).to_string()));
    }
    match choice.shape {
        Shape::Absent => {}
        Shape::Null => members.push(("logprobs".to_owned(), "null".to_owned())),
        Shape::Classic => members.push(("logprobs".to_owned(), classic(&choice.steps))),
        Shape::Entries => members.push(("logprobs".to_owned(), entries(&choice.steps))),
    }
    members.push(("finish_reason".to_owned(), json!(choice.finish).to_string()));
    // In the order recorded; what was not kept is null.
    let mut ordered: Vec<(String, String)> = Vec::new();
    for key in &choice.keys {
        let own = members.iter().position(|m| m.0 == *key).map(|at| members.remove(at).1);
        ordered.push((key.clone(), own.unwrap_or_else(|| "null".to_owned())));
    }
    ordered.extend(members);
    object(&ordered)
}

fn number(value: Option<&Decimal>) -> String {
    value.map_or("null".to_owned(), |d| d.text().to_owned())
}

fn classic(steps: &[Step]) -> String {
    let list = |all: Vec<String>| format!("[{}]", all.join(","));
    let top = |s: &Step| object(&s.top.iter().map(|(t, _, v)| (t.clone(), v.text().to_owned())).collect::<Vec<_>>());
    let mut members = vec![
        ("tokens".to_owned(), list(steps.iter().map(|s| Value::from(s.token.as_str()).to_string()).collect())),
        ("token_logprobs".to_owned(), list(steps.iter().map(|s| number(s.logprob.as_ref())).collect())),
        (
            "top_logprobs".to_owned(),
            list(steps.iter().map(|s| if s.top.is_empty() { "null".to_owned() } else { top(s) }).collect()),
        ),
    ];
    if steps.iter().all(|s| s.id.is_some()) {
        members.push(("lastbit_ids".to_owned(), json!(steps.iter().map(|s| s.id).collect::<Vec<_>>()).to_string()));
    }
    object(&members)
}

fn entries(steps: &[Step]) -> String {
    let entry = |token: &str, id: Option<u32>, value: String| {
        let mut members = vec![("token".to_owned(), Value::from(token).to_string()), ("logprob".to_owned(), value)];
        members.extend(id.map(|id| ("id".to_owned(), id.to_string())));
        members
    };
    let one = |s: &Step| {
        let mut members = entry(&s.token, s.id, number(s.logprob.as_ref()));
        let top: Vec<String> = s.top.iter().map(|(t, id, v)| object(&entry(t, *id, v.text().to_owned()))).collect();
        members.push(("top_logprobs".to_owned(), format!("[{}]", top.join(","))));
        object(&members)
    };
    format!("{{\"content\":[{}]}}", steps.iter().map(one).collect::<Vec<_>>().join(","))
}
