//! P1: does the endpoint keep the rules of its interface? Each check passes, fails, or cannot be made.

use serde_json::json;

use crate::api::{Answer, Ask, Prompt, Route, Shape, same_token};
use crate::error::Result;
use crate::feature::Pair;
use crate::probe;
use crate::report::{Finding, Word, figure, quoted};
use crate::session::Session;
use crate::stats::{Random, binomial_above};
use crate::tier::{Capability, Tier};
use crate::trace::Record;

/// Level at which a test by chance fails.
const LEVEL: f64 = 0.001;
/// Choices drawn to see a temperature.
const DRAWS: u32 = 16;
/// A likelier token, by logarithm, comes at any temperature.
const SUREST: f64 = -0.03;
/// Words of the prompt that may be cut off.
const LONG: usize = 300;
/// Seeds of the seed checks; any two would do.
const SEEDS: [u64; 2] = [71, 72];
/// What parsers of tool calls leave behind when they are not the model's.
const TOOL_MARKERS: [&str; 6] = [
    "<tool_call>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "functools[",
    "<function=",
    "<\u{ff5c}tool\u{2581}calls\u{2581}begin\u{ff5c}>",
];

/// A check's outcome.
fn ok(about: &str, says: impl AsRef<str>) -> Finding {
    Finding::new(about, Word::Ok, says)
}

fn fails(about: &str, says: impl AsRef<str>) -> Finding {
    Finding::new(about, Word::Fails, says)
}

fn untested(about: &str, says: impl AsRef<str>) -> Finding {
    Finding::new(about, Word::NotTestable, says)
}

/// Runs the checks on greedy answers that were recorded already, and the prompts they continue; `steady`: the same request gave the same
/// answer before.
///
/// # Errors
/// What [`Session::ask`] fails with.
pub async fn check(
    session: &Session,
    cap: &Capability,
    greedy: &[(Prompt, Record)],
    steady: bool,
) -> Result<Vec<Finding>> {
    let first = greedy.first().and_then(|(prompt, base)| Some((prompt, base, base.good()?)));
    let Some((prompt, base, answer)) = first else {
        return Ok(vec![untested("contract", "no greedy answer to compare with")]);
    };
    let tokens = base.request.as_ref().and_then(|r| r["max_tokens"].as_u64()).unwrap_or(8) as u32;
    let same = Same { session, cap, prompt, greedy: answer, tokens, steady };
    let mut out = vec![length("max_tokens", base, tokens), numbers(cap, answer)];
    out.extend(choice(answer));
    out.push(same.check("top_k 1", "top_k", json!(1)).await?);
    out.push(same.check("top_p 0.000001", "top_p", json!(1e-6)).await?);
    out.push(same.stream().await?);
    out.push(seed(session, cap, prompt, tokens).await?);
    out.push(temperature(session, cap, greedy).await?);
    out.push(stop(session, cap, prompt, answer, tokens).await?);
    out.push(ids(session, cap));
    out.push(long(session, cap).await?);
    out.extend(other_model(session, cap, prompt, answer, tokens).await?);
    if cap.both || cap.route == Route::Chat {
        out.push(null_top(session, cap).await?);
    }
    Ok(out)
}

/// Checks of chat models that cost more: tools, reasoning.
///
/// # Errors
/// What [`Session::ask`] fails with.
pub async fn check_chat(session: &Session, cap: &Capability) -> Result<Vec<Finding>> {
    if !(cap.both || cap.route == Route::Chat) {
        return Ok(vec![untested("tool calls", "no chat"), untested("reasoning effort", "no chat")]);
    }
    let chat = |text: &str, tokens| Ask::new(Route::Chat, cap.model.as_deref(), Prompt::Text(text.into()), tokens);
    let tool = json!([{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]);
    let asked = chat("What is the weather in Paris? Use the tool.", 128).with("tools", tool);
    let mut out = vec![tools(&session.ask("p1/tools", &asked).await?)];
    let question = "How many primes lie between 10 and 30?";
    let effort = |level: &str| chat(question, 256).with("reasoning_effort", json!(level));
    let low = session.ask("p1/effort/low", &effort("low")).await?;
    let high = session.ask("p1/effort/high", &effort("high")).await?;
    out.extend(reasoning(&low, &high));
    Ok(out)
}

/// No more tokens than asked for.
fn length(about: &str, record: &Record, asked: u32) -> Finding {
    let Some(answer) = record.good() else { return untested(about, record.why()) };
    let told = answer.usage.map(|u| u.output);
    let entries = answer.steps().len() as u64;
    match told {
        Some(n) if n > u64::from(asked) => fails(about, format!("{n} tokens were generated, {asked} asked for")),
        _ if entries > u64::from(asked) => fails(about, format!("{entries} tokens were told, {asked} asked for")),
        None if entries == 0 => untested(about, "tokens are not counted"),
        _ => ok(about, format!("at most {asked} tokens")),
    }
}

/// Log-probabilities are logarithms of probabilities, and all there.
fn numbers(cap: &Capability, answer: &Answer) -> Finding {
    let about = "log-probabilities";
    let choice = &answer.choices[0];
    if cap.null || choice.shape == Shape::Null {
        return fails(about, "asked for, and null came back");
    }
    if answer.nan > 0 {
        return fails(about, format!("{} numbers are NaN or infinite, which is not JSON", answer.nan));
    }
    if cap.tier < Tier::B {
        return untested(about, "not offered");
    }
    let steps = &choice.steps;
    if steps.iter().any(|s| s.logprob.is_none()) {
        let n = steps.iter().filter(|s| s.logprob.is_none()).count();
        return fails(about, format!("{n} of {} tokens have none", steps.len()));
    }
    // Probabilities of disjoint events, with room for rounding.
    let over = |s: &&crate::api::Step| {
        s.best().is_some_and(|b| b > 1e-4) || s.top.iter().map(|t| libm::exp(t.2.value())).sum::<f64>() > 1.001
    };
    if let Some(step) = steps.iter().find(over) {
        return fails(
            about,
            format!("those of token {} are no probabilities: they add to more than 1", quoted(&step.token)),
        );
    }
    match answer.usage {
        Some(usage) if usage.output > steps.len() as u64 => {
            let missing = usage.output - steps.len() as u64;
            fails(about, format!("{missing} of {} tokens have no entry", usage.output))
        }
        _ => ok(about, format!("{} entries, each a probability", steps.len())),
    }
}

/// At temperature 0 the likeliest token is chosen, and listed.
fn choice(answer: &Answer) -> Vec<Finding> {
    let about = "greedy choice";
    let listed: Vec<_> = answer.steps().iter().filter(|s| s.top.len() > 1 && s.logprob.is_some()).collect();
    if listed.is_empty() {
        return vec![untested(about, "needs log-probabilities of the most likely tokens")];
    }
    let mut out = Vec::new();
    let chosen = |s: &crate::api::Step| s.logprob.as_ref().map_or(f64::NEG_INFINITY, |l| l.value());
    let top = |s: &crate::api::Step| s.top.iter().map(|t| t.2.value()).fold(f64::NEG_INFINITY, f64::max);
    let lesser = listed.iter().filter(|s| chosen(s) < top(s)).count();
    out.push(if lesser > 0 {
        fails(about, format!("at temperature 0, {lesser} of {} tokens are not the likeliest: temperature is not honoured, or log-probabilities are of something else", listed.len()))
    } else {
        ok(about, format!("at temperature 0 all {} tokens are the likeliest", listed.len()))
    });
    let absent = listed
        .iter()
        .filter(|s| !s.top.iter().any(|t| same_token((&t.0, t.1), (&s.token, s.id))) && chosen(s) > top(s))
        .count();
    if absent > 0 {
        let text = format!(
            "the likeliest token is missing from the list of the likeliest in {absent} of {} steps",
            listed.len()
        );
        out.push(fails("top list", text));
    }
    out
}

/// Requests that must give the greedy answer.
struct Same<'a> {
    session: &'a Session,
    cap: &'a Capability,
    prompt: &'a Prompt,
    greedy: &'a Answer,
    tokens: u32,
    steady: bool,
}

impl Same<'_> {
    /// With this parameter only the likeliest token is left, so temperature has no effect.
    async fn check(&self, about: &str, name: &str, value: serde_json::Value) -> Result<Finding> {
        let ask = self.cap.greedy(self.prompt.clone(), self.tokens).temperature(1.0).seed(SEEDS[0]).with(name, value);
        let record = self.session.ask(&format!("p1/{name}"), &ask).await?;
        let Some(answer) = record.good() else { return Ok(untested(about, record.why())) };
        let pair = Pair::of(self.greedy, answer);
        Ok(if answer.text() == self.greedy.text() {
            ok(about, "leaves the greedy answer")
        } else if !self.steady {
            untested(about, "the answer differs from the greedy one, but so do repeats of it")
        } else if near_tie(self.greedy, pair.common) {
            untested(about, "the answer parts from the greedy one where two tokens are equally likely")
        } else {
            fails(
                about,
                format!("the answer is not the greedy one, from token {} on: `{name}` is not honoured", pair.common),
            )
        })
    }

    /// Events say what the whole answer says.
    async fn stream(&self) -> Result<Finding> {
        let about = "stream";
        let ask = Ask { stream: true, ..self.cap.greedy(self.prompt.clone(), self.tokens) };
        let record = self.session.ask("p1/stream", &ask).await?;
        let Some(answer) = record.good() else { return Ok(untested(about, record.why())) };
        if answer.events == 0 {
            return Ok(fails(about, "asked for events, and a whole answer came"));
        }
        Ok(if answer.text() == self.greedy.text() {
            let end = if answer.done { "" } else { ", but they do not end with [DONE]" };
            ok(about, format!("{} events, the same text{end}", answer.events))
        } else if self.steady {
            fails(about, "events give another text than the whole answer")
        } else {
            untested(about, "another text, but so give repeats")
        })
    }
}

/// The two likeliest tokens of a step are as likely.
fn near_tie(answer: &Answer, step: usize) -> bool {
    let Some(step) = answer.steps().get(step) else { return false };
    let mut values: Vec<f64> = step.top.iter().map(|t| t.2.value()).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    values.len() > 1 && values[0] - values[1] < 1e-6
}

/// The same seed gives the same text, another seed another one.
async fn seed(session: &Session, cap: &Capability, prompt: &Prompt, tokens: u32) -> Result<Finding> {
    let about = "seed";
    let ask = |seed| cap.greedy(prompt.clone(), tokens.max(16)).logprobs(None).temperature(1.5).seed(seed);
    let first = session.ask("p1/seed/0", &ask(SEEDS[0])).await?;
    let again = session.ask("p1/seed/1", &ask(SEEDS[0])).await?;
    let other = session.ask("p1/seed/2", &ask(SEEDS[1])).await?;
    let (Some(a), Some(b), Some(c)) = (first.good(), again.good(), other.good()) else {
        return Ok(untested(
            about,
            [first, again, other].iter().find(|r| r.good().is_none()).map_or(String::new(), Record::why),
        ));
    };
    let fingerprints = match (&a.fingerprint, &b.fingerprint) {
        (Some(x), Some(y)) if x == y && !x.is_empty() => " under the same system_fingerprint",
        _ => "",
    };
    Ok(match (a.text() == b.text(), a.text() == c.text()) {
        (true, false) => ok(about, "the same seed repeats the text, another one changes it"),
        (true, true) => fails(about, "at temperature 1.5 two seeds give one text: nothing is drawn"),
        (false, _) => fails(about, format!("the same seed gives another text{fingerprints}")),
    })
}

/// Temperature 2 flattens: the likeliest first token comes as often as it should, and not as often as at temperature 1.
async fn temperature(session: &Session, cap: &Capability, greedy: &[(Prompt, Record)]) -> Result<Finding> {
    let about = "temperature";
    // The prompt whose first token is the surest, and not quite sure.
    let sure = |(prompt, record): &'_ (Prompt, Record)| {
        let step = record.good()?.steps().first().filter(|s| s.top.len() > 1)?.clone();
        let best = step.best().filter(|b| *b < SUREST)?;
        Some((prompt.clone(), step, best))
    };
    let Some((prompt, first, _)) = greedy.iter().filter_map(sure).max_by(|a, b| a.2.total_cmp(&b.2)) else {
        return Ok(untested(
            about,
            "needs log-probabilities of the most likely tokens, and a prompt that leaves a choice",
        ));
    };
    let ask = cap.greedy(prompt.clone(), 1).logprobs(Some(0)).temperature(2.0);
    let ask = if cap.tier >= Tier::B { ask.logprobs(Some(1)) } else { ask };
    let asks: Vec<(String, Ask)> = if cap.many {
        vec![("p1/draws".to_owned(), Ask { n: Some(DRAWS), ..ask })]
    } else {
        (0..DRAWS / 2)
            .map(|i| (format!("p1/draws/{i:02}"), Ask { seed: Some(u64::from(i) + 100), ..ask.clone() }))
            .collect()
    };
    let records = session.ask_all(asks, 1).await?;
    let choices: Vec<_> = records.iter().filter_map(Record::good).flat_map(|a| &a.choices).collect();
    if choices.len() < 6 {
        return Ok(untested(about, records.first().map_or(String::new(), Record::why)));
    }
    let likeliest = first.top.iter().max_by(|a, b| a.2.value().total_cmp(&b.2.value()));
    let Some((token, id, logprob)) = likeliest else { return Ok(untested(about, "no tokens are listed")) };
    let is = |c: &&&crate::api::Choice| match c.steps.first() {
        Some(step) => same_token((&step.token, step.id), (token, *id)),
        None => c.text == *token,
    };
    let (hits, of) = (choices.iter().filter(is).count(), choices.len());
    // At temperature 2 probabilities go as their square roots. What is not listed adds at least its mass over the root of the least listed.
    let values: Vec<f64> = first.top.iter().map(|t| t.2.value()).collect();
    let root = |l: f64| libm::exp(l / 2.0);
    let least = values.iter().copied().fold(0.0, f64::min);
    let rest = (1.0 - values.iter().map(|l| libm::exp(*l)).sum::<f64>()).max(0.0);
    let most = root(logprob.value()) / (values.iter().map(|l| root(*l)).sum::<f64>() + rest / root(least));
    let p = binomial_above(hits, of, most);
    let seen = format!(
        "at temperature 2 the likeliest first token came {hits} of {of} times, at most {} expected",
        figure(most * of as f64)
    );
    let unheated = libm::exp(logprob.value());
    let power = binomial_above((0..=of).find(|h| binomial_above(*h, of, most) < LEVEL).unwrap_or(of + 1), of, unheated);
    Ok(if p < LEVEL {
        fails(about, format!("{seen} (p {}): it acts as less, or not at all", figure(p)))
    } else if power < 0.5 {
        untested(about, format!("{seen}; this prompt could not show an ignored temperature"))
    } else {
        ok(about, seen)
    })
}

/// A stop string ends the text before it.
async fn stop(session: &Session, cap: &Capability, prompt: &Prompt, greedy: &Answer, tokens: u32) -> Result<Finding> {
    let about = "stop strings";
    let text = greedy.text();
    let chars: Vec<char> = text.chars().collect();
    let middle: String = chars.iter().skip(chars.len() / 2).take(4).collect();
    if chars.len() < 12 || middle.trim().is_empty() || !middle.is_ascii() {
        return Ok(untested(about, "the greedy answer has no text to stop at"));
    }
    let ask = cap.greedy(prompt.clone(), tokens).with("stop", json!([middle]));
    let record = session.ask("p1/stop", &ask).await?;
    let Some(answer) = record.good() else { return Ok(untested(about, record.why())) };
    Ok(if answer.text().contains(&middle) {
        fails(about, format!("the text goes on past {}", quoted(&middle)))
    } else {
        ok(about, format!("the text ends before {}", quoted(&middle)))
    })
}

/// Ids are taken as they are: nothing is put before them.
fn ids(session: &Session, cap: &Capability) -> Finding {
    let about = "prompt ids";
    let trace = session.trace();
    let answer = trace.get("t/ids").and_then(Record::good).filter(|_| cap.ids);
    match answer.and_then(|a| a.usage) {
        None => untested(about, "prompts of token ids are not offered, or not counted"),
        Some(usage) if usage.prompt == 5 => ok(about, "5 ids count as 5 tokens"),
        Some(usage) if usage.prompt == 6 => {
            fails(about, "5 ids count as 6 tokens: one is put before them (a doubled BOS where the caller sends one)")
        }
        Some(usage) => fails(about, format!("5 ids count as {} tokens", usage.prompt)),
    }
}

/// A long prompt is read whole, or refused.
async fn long(session: &Session, cap: &Capability) -> Result<Finding> {
    let about = "long prompts";
    let mut random = Random::new(5);
    let text = probe::words(&mut random, LONG);
    let part: Vec<&str> = text.split(' ').take(LONG / 4).collect();
    let ask = |text: String| Ask::new(cap.route, cap.model.as_deref(), Prompt::Text(text), 1);
    let short = session.ask("p1/long/0", &ask(part.join(" "))).await?;
    let long = session.ask("p1/long/1", &ask(text)).await?;
    let (Some(a), Some(b)) = (short.good(), long.good()) else {
        let cut = short.good().is_some() && long.refused();
        return Ok(if cut {
            ok(about, format!("{LONG} words are refused, not cut: {}", long.why()))
        } else {
            untested(about, short.why())
        });
    };
    let (Some(a), Some(b)) = (a.usage, b.usage) else { return Ok(untested(about, "prompt tokens are not counted")) };
    // Four times the words of one kind are about four times the tokens.
    let expected = 4 * a.prompt;
    Ok(if b.prompt * 10 < expected * 8 {
        fails(
            about,
            format!(
                "{LONG} words count as {} tokens, about {expected} expected: the prompt was cut without a word",
                b.prompt
            ),
        )
    } else {
        ok(about, format!("{LONG} words count as {} tokens", b.prompt))
    })
}

/// Other names give other models.
async fn other_model(
    session: &Session,
    cap: &Capability,
    prompt: &Prompt,
    greedy: &Answer,
    tokens: u32,
) -> Result<Vec<Finding>> {
    let about = "model names";
    let Some(other) = cap.models.iter().find(|m| Some(*m) != cap.model.as_ref()) else { return Ok(Vec::new()) };
    let ask = Ask { model: Some(other.clone()), ..cap.greedy(prompt.clone(), tokens) };
    let record = session.ask("p1/other_model", &ask).await?;
    let Some(answer) = record.good() else { return Ok(vec![untested(about, record.why())]) };
    let pair = Pair::of(greedy, answer);
    Ok(vec![if pair.same() && !pair.deltas.is_empty() {
        fails(about, format!("{} gives the very same numbers", quoted(other)))
    } else if pair.same() {
        untested(about, format!("{} gives the same text; without numbers that says little", quoted(other)))
    } else {
        ok(about, format!("{} gives other answers", quoted(other)))
    }])
}

/// `top_logprobs: null` is the same as leaving it out.
async fn null_top(session: &Session, cap: &Capability) -> Result<Finding> {
    let about = "top_logprobs null";
    let ask = |name: &str| {
        let ask = Ask::new(Route::Chat, cap.model.as_deref(), Prompt::Text("Say yes.".into()), 2)
            .with("logprobs", json!(true));
        (format!("p1/null/{name}"), if name == "null" { ask.with("top_logprobs", json!(null)) } else { ask })
    };
    let [omitted, null] = ["omitted", "null"].map(ask);
    let (omitted, null) = (session.ask(&omitted.0, &omitted.1).await?, session.ask(&null.0, &null.1).await?);
    Ok(match (omitted.good(), null.good()) {
        (Some(a), Some(b)) if a.steps().len() == b.steps().len() => ok(about, "the same as left out"),
        (Some(_), Some(_)) => fails(about, "null and left out give different log-probabilities"),
        (Some(_), None) if null.refused() => fails(about, format!("null is refused, left out is not: {}", null.why())),
        _ => untested(about, omitted.why()),
    })
}

fn tools(record: &Record) -> Finding {
    let about = "tool calls";
    let Some(answer) = record.good() else { return untested(about, record.why()) };
    let choice = &answer.choices[0];
    match TOOL_MARKERS.iter().find(|m| choice.text.contains(**m)) {
        Some(marker) => fails(
            about,
            format!("a call was left in the text with the marker {}: the parser is not the model's", quoted(marker)),
        ),
        None if choice.tool_calls > 0 => ok(about, "told apart from the text"),
        None => untested(about, "the model called no tool"),
    }
}

fn reasoning(low: &Record, high: &Record) -> Vec<Finding> {
    let about = "reasoning effort";
    let (Some(a), Some(b)) = (low.good(), high.good()) else { return vec![untested(about, low.why())] };
    let (x, y) = (&a.choices[0], &b.choices[0]);
    let mut out = Vec::new();
    for (level, choice) in [("low", x), ("high", y)] {
        if !choice.reasoning.is_empty() && choice.text.trim().is_empty() {
            let why = choice.finish.as_deref().unwrap_or("no reason");
            out.push(fails(
                "answer",
                format!("at effort {level} there is reasoning and no answer (it ended by {})", quoted(why)),
            ));
        }
    }
    out.push(if x.reasoning.is_empty() && y.reasoning.is_empty() {
        untested(about, "no reasoning is told")
    } else if (&x.reasoning, &x.text) == (&y.reasoning, &y.text) {
        fails(about, "low and high give the very same answer")
    } else {
        ok(about, "changes the answer")
    });
    out
}
