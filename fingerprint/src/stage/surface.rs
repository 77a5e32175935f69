//! P0: what an endpoint's manners say of the software in front. Anyone can imitate them, so this is never numeric evidence.

use serde_json::json;

use crate::api::{Prompt, Route, Shape};
use crate::error::Result;
use crate::report::{Finding, Word, quoted};
use crate::session::Session;
use crate::stats::wilson;
use crate::tier::{Capability, Scoring};
use crate::trace::Record;

/// What was seen of one manner: its name and value.
pub type Marker = (&'static str, String);

/// Manners of an engine: marker, values that were observed of it.
struct Engine {
    name: &'static str,
    manners: &'static [(&'static str, &'static [&'static str])],
}

/// Observed on vLLM 0.32.0, llama-server (2026-10), mlx-lm 0.32.2 and lastbit; the others from their documentation.
const ENGINES: &[Engine] = &[
    Engine {
        name: "vLLM",
        manners: &[
            ("server", &["uvicorn"]),
            ("fingerprint", &["vllm-"]),
            ("id", &["cmpl-"]),
            ("logprobs", &["classic"]),
            ("ids", &["yes"]),
            ("echo", &["scored"]),
            ("prompt_logprobs", &["scored"]),
            ("max_tokens 0", &["400"]),
            ("temperature -1", &["400"]),
            ("temperature 5", &["400"]),
            ("top_p 0", &["400"]),
            ("unknown model", &["404"]),
            ("unknown field", &["200"]),
            ("empty prompt", &["400"]),
            ("id out of range", &["400"]),
            ("n 2", &["yes"]),
            ("key stop_reason", &["yes"]),
            ("key lastbit", &["no"]),
            ("key timings", &["no"]),
        ],
    },
    Engine {
        name: "llama-server",
        manners: &[
            ("server", &["llama.cpp"]),
            ("fingerprint", &["b-commit"]),
            ("id", &["chatcmpl-"]),
            ("logprobs", &["entries"]),
            ("ids", &["yes"]),
            ("echo", &["ignored"]),
            ("prompt_logprobs", &["ignored"]),
            ("max_tokens 0", &["200"]),
            ("temperature -1", &["200"]),
            ("temperature 5", &["200"]),
            ("top_p 0", &["200"]),
            ("unknown model", &["200"]),
            ("unknown field", &["200"]),
            ("empty prompt", &["200"]),
            ("id out of range", &["400"]),
            ("key timings", &["yes"]),
            ("key lastbit", &["no"]),
        ],
    },
    Engine {
        name: "mlx-lm server",
        manners: &[
            ("server", &["BaseHTTP"]),
            ("id", &["cmpl-"]),
            ("ids", &["no"]),
            ("max_tokens 0", &["400"]),
            ("temperature -1", &["400"]),
            ("key lastbit", &["no"]),
        ],
    },
    Engine {
        name: "SGLang",
        manners: &[
            ("server", &["uvicorn"]),
            ("fingerprint", &["none"]),
            ("logprobs", &["classic"]),
            ("ids", &["yes"]),
            ("echo", &["scored"]),
            ("temperature -1", &["400"]),
            ("n 2", &["yes"]),
            ("key matched_stop", &["yes"]),
            ("key lastbit", &["no"]),
        ],
    },
    Engine {
        name: "Ollama",
        manners: &[
            ("fingerprint", &["fp_ollama"]),
            ("ids", &["no"]),
            ("echo", &["ignored"]),
            ("unknown model", &["404"]),
            ("unknown field", &["200"]),
            ("n 2", &["no"]),
            ("key lastbit", &["no"]),
        ],
    },
    Engine {
        name: "lastbit",
        manners: &[
            ("server", &["none"]),
            ("fingerprint", &["none"]),
            ("id", &["cmpl-"]),
            ("logprobs", &["classic"]),
            ("ids", &["yes"]),
            ("echo", &["refused"]),
            ("prompt_logprobs", &["refused"]),
            ("max_tokens 0", &["400"]),
            ("temperature -1", &["400"]),
            ("temperature 5", &["400"]),
            ("top_p 0", &["400"]),
            ("unknown model", &["404"]),
            ("unknown field", &["400"]),
            ("empty prompt", &["400"]),
            ("id out of range", &["400"]),
            ("n 2", &["yes"]),
            ("key lastbit", &["yes"]),
        ],
    },
];

/// Fewest markers that agree before an engine is named.
const FEWEST: usize = 4;

/// What the surface looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct Surface {
    /// Everything seen.
    pub markers: Vec<Marker>,
    /// Engines with markers that agree and that contradict, best first.
    pub engines: Vec<(&'static str, usize, Vec<&'static str>)>,
}

/// Looks at what the first requests brought, and sends up to nine malformed ones, all harmless.
///
/// # Errors
/// What [`Session::ask`] fails with.
pub async fn observe(session: &Session, cap: &Capability, base: &Record) -> Result<Surface> {
    let mut markers: Vec<Marker> = Vec::new();
    let mut see = |name: &'static str, value: String| markers.push((name, value));
    see("server", server(base));
    if let Some(answer) = base.good() {
        see("fingerprint", fingerprint(answer.fingerprint.as_deref()));
        if cap.route == Route::Completions {
            let id = answer.id.as_deref().unwrap_or_default();
            see("id", id.split_once('-').map_or("none".to_owned(), |(p, _)| format!("{p}-")));
            let shape = answer.choices[0].shape;
            see(
                "logprobs",
                match shape {
                    Shape::Classic => "classic",
                    Shape::Entries => "entries",
                    Shape::Null => "null",
                    Shape::Absent => "absent",
                }
                .to_owned(),
            );
        }
        let has = |key: &str| answer.keys.iter().chain(&answer.choices[0].keys).any(|k| k == key);
        for (name, key) in [
            ("key stop_reason", "stop_reason"),
            ("key matched_stop", "matched_stop"),
            ("key timings", "timings"),
            ("key lastbit", "lastbit"),
        ] {
            see(name, yes(has(key)));
        }
    }
    see("n 2", yes(cap.many));
    let trace = session.trace();
    let scored = |probe: &str, way: Scoring| match trace.get(probe) {
        None => None,
        Some(_) if cap.scoring == Some(way) => Some("scored"),
        Some(record) if record.refused() => Some("refused"),
        Some(_) => Some("ignored"),
    };
    for (name, probe, way) in
        [("echo", "t/echo", Scoring::Echo), ("prompt_logprobs", "t/prompt_logprobs", Scoring::PromptLogprobs)]
    {
        if let Some(value) = scored(probe, way) {
            see(name, value.to_owned());
        }
    }
    let text = || Prompt::Text("a".into());
    let base = crate::api::Ask::new(cap.route, cap.model.as_deref(), text(), 1);
    let mut asks = vec![
        ("max_tokens 0", crate::api::Ask { max_tokens: 0, ..base.clone() }),
        ("temperature -1", base.clone().temperature(-1.0)),
        ("temperature 5", base.clone().temperature(5.0)),
        ("top_p 0", base.clone().temperature(1.0).with("top_p", json!(0))),
        ("unknown model", crate::api::Ask { model: Some("no-such-model-7b1".into()), ..base.clone() }),
        ("unknown field", base.clone().with("no_such_field_7b1", json!(1))),
        ("empty prompt", crate::api::Ask { prompt: Prompt::Text(String::new()), ..base.clone() }),
    ];
    if cap.route == Route::Completions {
        see("ids", yes(cap.ids));
        if cap.ids {
            asks.push(("id out of range", crate::api::Ask { prompt: Prompt::Ids(vec![2_000_000_000]), ..base }));
        }
    }
    for (name, ask) in asks {
        let record = session.ask(&format!("p0/{name}"), &ask).await?;
        if let Some(status) = record.status {
            // An error in a 200 is no acceptance.
            see(
                name,
                if status == 200 && record.good().is_none() { "200 error".to_owned() } else { status.to_string() },
            );
        }
    }
    Ok(judge(markers))
}

/// Compares markers with the table.
pub fn judge(markers: Vec<Marker>) -> Surface {
    let against = |engine: &Engine| {
        let (mut agree, mut contradict) = (0, Vec::new());
        for (name, values) in engine.manners {
            let Some((_, seen)) = markers.iter().find(|(n, _)| n == name) else { continue };
            if values.iter().any(|v| seen == v || (v.len() > 4 && seen.contains(v))) {
                agree += 1;
            } else {
                contradict.push(*name);
            }
        }
        (engine.name, agree, contradict)
    };
    let mut engines: Vec<_> = ENGINES.iter().map(against).collect();
    engines.sort_by_key(|(_, agree, contradict)| (contradict.len(), std::cmp::Reverse(*agree)));
    engines.sort_by(|a, b| share(b).total_cmp(&share(a)));
    Surface { markers, engines }
}

fn share(e: &(&str, usize, Vec<&str>)) -> f64 {
    // The lower end: three of three is less than fifteen of sixteen.
    wilson(e.1, e.1 + e.2.len()).low
}

fn server(record: &Record) -> String {
    let header = record.header("server").or_else(|| record.header("x-powered-by"));
    header.unwrap_or("none").to_owned()
}

/// The form of `system_fingerprint`, without versions.
fn fingerprint(value: Option<&str>) -> String {
    let Some(value) = value.filter(|v| !v.is_empty()) else { return "none".to_owned() };
    let build = value.strip_prefix('b').and_then(|r| r.split_once('-'));
    if value.starts_with("vllm-") {
        "vllm-".to_owned()
    } else if build.is_some_and(|(n, _)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
        "b-commit".to_owned()
    } else {
        value.to_owned()
    }
}

fn yes(b: bool) -> String {
    if b { "yes" } else { "no" }.to_owned()
}

/// In a report's words. The engine's name is that of the table, or none.
pub fn findings(surface: &Surface, stated: Option<&str>) -> (Vec<Finding>, Option<&'static str>) {
    let mut out = Vec::new();
    let mut named = None;
    match surface.engines.first() {
        Some(best @ (name, agree, contradict)) if *agree >= FEWEST && agree > &contradict.len() => {
            let of = agree + contradict.len();
            let but =
                if contradict.is_empty() { String::new() } else { format!("; against it: {}", contradict.join(", ")) };
            let near = surface.engines.get(1).filter(|next| share(next) > 0.9 * share(best));
            let or = near.map_or(String::new(), |n| format!(" or {}", n.0));
            named = near.is_none().then_some(*name);
            let text = format!("manners of {name}{or}: {agree} of {of} markers agree{but} (spoofable)");
            out.push(Finding::new("software", Word::Says, text).with(wilson(*agree, of)));
        }
        _ => out.push(Finding::new("software", Word::Says, "manners of no server that is known here")),
    }
    if let Some(stated) = stated.filter(|s| !s.is_empty()) {
        out.push(Finding::new("system_fingerprint", Word::Says, format!("{} (spoofable)", quoted(stated))));
    }
    (out, named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(all: &[(&'static str, &str)]) -> Surface {
        judge(all.iter().map(|(n, v)| (*n, (*v).to_owned())).collect())
    }

    #[test]
    fn manners_name_an_engine_and_contradictions_are_told() {
        let vllm = seen(&[
            ("server", "uvicorn"),
            ("fingerprint", "vllm-"),
            ("id", "cmpl-"),
            ("logprobs", "classic"),
            ("echo", "scored"),
            ("temperature 5", "400"),
            ("max_tokens 0", "200"),
        ]);
        let (found, name) = findings(&vllm, Some("vllm-0.32.0-abc"));
        assert_eq!(name, Some("vLLM"));
        assert!(
            found[0].says.contains("6 of 7")
                && found[0].says.contains("max_tokens 0")
                && found[0].says.contains("spoofable")
        );
        assert_eq!(findings(&seen(&[("server", "nginx")]), None).1, None);
    }

    #[test]
    fn fingerprints_have_forms() {
        assert_eq!(fingerprint(Some("b4321-deadbeef")), "b-commit");
        assert_eq!(fingerprint(Some("vllm-0.32.0-1f")), "vllm-");
        assert_eq!(
            (fingerprint(None), fingerprint(Some("")), fingerprint(Some("bx-1"))),
            ("none".into(), "none".into(), "bx-1".into())
        );
    }
}
