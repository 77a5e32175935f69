//! The interface's description as a page, from `openapi.json` itself.

use askama::Template;
use axum::extract::Extension;
use axum::response::Response;
use serde_json::Value;

use super::{Nav, page};
use crate::access::Who;
use crate::error::{Error, Result};

#[derive(Template)]
#[template(path = "reference.html")]
struct Reference {
    nav: Nav,
    intro: String,
    operations: Vec<Operation>,
    schemas: Vec<(String, String)>,
}

struct Operation {
    method: String,
    path: String,
    summary: String,
    parameters: Vec<(String, String, String)>,
    answers: Vec<(String, String, String)>,
}

pub(super) async fn show(Extension(who): Extension<Who>) -> Response {
    page(read(Nav::new("reference", &who)), Some(&who))
}

fn read(nav: Nav) -> Result<Reference> {
    let document: Value =
        serde_json::from_str(include_str!("../../static/openapi.json")).map_err(|e| Error::Bug(e.to_string()))?;
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        let shared = &methods["parameters"];
        for (method, operation) in methods.as_object().into_iter().flatten().filter(|(m, _)| *m != "parameters") {
            let all = [shared, &operation["parameters"]];
            let parameters = all.into_iter().filter_map(Value::as_array).flatten();
            let answers = operation["responses"].as_object().into_iter().flatten().map(|(status, answer)| {
                let schema = answer["content"].as_object().and_then(|c| c.values().next()).map(|c| &c["schema"]);
                let reference = schema.map(name_of).unwrap_or_default();
                (status.clone(), text(&answer["description"]), reference)
            });
            operations.push(Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                summary: text(&operation["summary"]),
                parameters: parameters.map(|p| (text(&p["name"]), text(&p["in"]), text(&p["description"]))).collect(),
                answers: answers.collect(),
            });
        }
    }
    let schemas = document["components"]["schemas"].as_object().into_iter().flatten();
    let schemas = schemas
        .map(|(name, schema)| (name.clone(), serde_json::to_string_pretty(schema).unwrap_or_default()))
        .collect();
    Ok(Reference { nav, intro: text(&document["info"]["description"]), operations, schemas })
}

/// The name of the schema that this one is, or is a list of.
fn name_of(schema: &Value) -> String {
    let of = |v: &Value| v["$ref"].as_str().and_then(|r| r.rsplit('/').next()).map(str::to_owned);
    of(schema).or_else(|| of(&schema["items"])).unwrap_or_default()
}
