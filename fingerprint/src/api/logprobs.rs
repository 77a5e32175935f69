//! Log-probabilities in every shape that servers write them in.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::decimal::Decimal;
use crate::json::{self, Object};

/// A token that was chosen, and those that could have been.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// As written by the server.
    pub token: String,
    /// Its id, where told.
    pub id: Option<u32>,
    /// Its log-probability; none where the server wrote none, or no number.
    pub logprob: Option<Decimal>,
    /// The most likely tokens, in the order written: token, id, log-probability.
    pub top: Vec<(String, Option<u32>, Decimal)>,
}

impl Step {
    /// The largest log-probability that is told.
    pub fn best(&self) -> Option<f64> {
        self.top.iter().map(|t| t.2.value()).chain(self.logprob.as_ref().map(Decimal::value)).reduce(f64::max)
    }

    /// The log-probability of a token, if it is told.
    pub fn of(&self, token: &str, id: Option<u32>) -> Option<&Decimal> {
        let listed = self.top.iter().find(|t| same_token((&t.0, t.1), (token, id))).map(|t| &t.2);
        listed.or_else(|| self.logprob.as_ref().filter(|_| same_token((&self.token, self.id), (token, id))))
    }
}

/// Are these the same token? By id where both have one, else by text: servers write blanks as `Ġ` or `▁`.
pub fn same_token(a: (&str, Option<u32>), b: (&str, Option<u32>)) -> bool {
    match (a.1, b.1) {
        (Some(a), Some(b)) => a == b,
        _ => a.0 == b.0 || (!(a.0.is_ascii() && b.0.is_ascii()) && plain(a.0) == plain(b.0)),
    }
}

fn plain(token: &str) -> String {
    token.replace(['Ġ', '▁'], " ").replace('Ċ', "\n")
}

/// Reads `logprobs` of a choice: the classic shape of completions, or the list of entries of chat, wherever it stands. None if it is
/// neither.
pub(super) fn read(value: &RawValue) -> Option<Vec<Step>> {
    let object = Object::parse(value.get())?;
    match (object.list("content"), object.list("tokens")) {
        (Some(entries), _) => Some(entries.into_iter().filter_map(entry).collect()),
        (None, Some(tokens)) => Some(classic(&object, &tokens)),
        (None, None) => None,
    }
}

/// `{token, logprob, bytes, id, top_logprobs}`.
fn entry(value: &RawValue) -> Option<Step> {
    let one = Object::parse(value.get())?;
    let top = one.list("top_logprobs").unwrap_or_default().into_iter().filter_map(|t| {
        let t = Object::parse(t.get())?;
        let token = t.text("token")?;
        let id = id(&t, &token);
        Some((token, id, json::decimal(t.get("logprob")?)?))
    });
    let token = one.text("token")?;
    Some(Step { id: id(&one, &token), token, logprob: one.get("logprob").and_then(json::decimal), top: top.collect() })
}

fn id(entry: &Object<'_>, token: &str) -> Option<u32> {
    entry.count("id").and_then(|n| u32::try_from(n).ok()).or_else(|| id_as_token(token))
}

/// `token_id:17`, which vLLM writes on request.
fn id_as_token(token: &str) -> Option<u32> {
    token.strip_prefix("token_id:")?.parse().ok()
}

/// Lists side by side; lastbit's own service adds ids.
fn classic(object: &Object<'_>, tokens: &[&RawValue]) -> Vec<Step> {
    let logprobs = object.list("token_logprobs").unwrap_or_default();
    let tops = object.list("top_logprobs").unwrap_or_default();
    let ids = object.list("lastbit_ids").unwrap_or_default();
    let told = object.list("lastbit_top").unwrap_or_default();
    let number = |v: &&RawValue| v.get().parse().ok();
    let step = |(i, token): (usize, &&RawValue)| {
        let token = json::text(token).unwrap_or_default();
        let top = tops.get(i).and_then(|t| Object::parse(t.get())).unwrap_or_default();
        // Pairs of id and bits, in the order of the map unless two ids have one text.
        let pairs: Vec<&RawValue> = told.get(i).and_then(|t| json::list(t)).unwrap_or_default();
        let ids_of_top: Vec<Option<u32>> =
            pairs.iter().map(|p| json::list(p).and_then(|p| p.first().and_then(number))).collect();
        let distinct = ids_of_top.len() == top.0.len();
        let mut listed = Vec::new();
        for (name, value) in &top.0 {
            if let Some(value) = json::decimal(value) {
                listed.push((name.clone(), id_as_token(name), value));
            }
        }
        if distinct {
            by_value(&mut listed, &ids_of_top, &pairs);
        }
        Step {
            id: ids.get(i).and_then(number).or_else(|| id_as_token(&token)),
            logprob: logprobs.get(i).and_then(|v| json::decimal(v)),
            top: listed,
            token,
        }
    };
    tokens.iter().enumerate().map(step).collect()
}

/// Gives each listed token the id whose bits are its decimal. JSON objects have no order, so values decide; where two values are equal no
/// id is given.
fn by_value(listed: &mut [(String, Option<u32>, Decimal)], ids: &[Option<u32>], pairs: &[&RawValue]) {
    let values: Vec<Option<f64>> = pairs
        .iter()
        .map(|p| {
            let bits = json::text(json::list(p)?.get(1)?)?;
            Some(f64::from(f32::from_bits(u32::from_str_radix(&bits, 16).ok()?)))
        })
        .collect();
    for (_, id, decimal) in listed {
        let mut fits = (0..ids.len()).filter(|i| values[*i].is_some_and(|v| v == decimal.value()));
        if let (Some(only), None) = (fits.next(), fits.next()) {
            *id = ids[only];
        }
    }
}

/// `prompt_logprobs` of vLLM: for each prompt position null, or a map from id to `{logprob, rank, decoded_token}`, the prompt's own token
/// first.
pub(super) fn prompt(value: &RawValue) -> Option<Vec<Option<Step>>> {
    let position = |value: &RawValue| {
        let map = Object::parse(value.get())?;
        let mut all = map.0.iter().filter_map(|(id, v)| {
            let v = Object::parse(v.get())?;
            let token = v.text("decoded_token").unwrap_or_default();
            Some((token, id.parse().ok(), json::decimal(v.get("logprob")?)?))
        });
        let own = all.next()?;
        let mut top = vec![own.clone()];
        top.extend(all);
        Some(Step { token: own.0, id: own.1, logprob: Some(own.2), top })
    };
    Some(json::list(value)?.into_iter().map(position).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn both_shapes_say_the_same() {
        let classic = read(&raw(
            r#"{"tokens":[" a"],"token_logprobs":[-0.50],"top_logprobs":[{" a":-0.50,"Ġb":-1.25}],"text_offset":[0]}"#,
        ))
        .unwrap();
        let chat = read(&raw(
            r#"{"content":[{"token":" a","logprob":-0.50,"bytes":null,"top_logprobs":[{"token":" a","logprob":-0.50},{"token":"Ġb","logprob":-1.25}]}]}"#,
        ))
        .unwrap();
        assert_eq!(classic, chat);
        assert_eq!(classic[0].top[0].2.text(), "-0.50");
        assert_eq!(classic[0].of(" b", None).unwrap().text(), "-1.25");
        assert_eq!(classic[0].best(), Some(-0.5));
    }

    #[test]
    fn what_is_missing_is_missing() {
        let step = &read(&raw(r#"{"tokens":["a","b"],"token_logprobs":[null],"top_logprobs":null}"#)).unwrap();
        assert!(step.len() == 2 && step.iter().all(|s| s.logprob.is_none() && s.top.is_empty()));
        assert!(read(&raw("{}")).is_none() && read(&raw("[1]")).is_none());
    }

    #[test]
    fn ids_are_found_where_they_are_told() {
        let own = raw(
            r#"{"tokens":["a"],"token_logprobs":[-0.5],"top_logprobs":[{"b":-1.5,"a":-0.5}],"lastbit_ids":[7],"lastbit_top":[[[7,"bf000000"],[9,"bfc00000"]]]}"#,
        );
        let step = &read(&own).unwrap()[0];
        assert_eq!((step.id, step.top[0].1, step.top[1].1), (Some(7), Some(9), Some(7)));
        let vllm = raw(
            r#"[null,{"5":{"logprob":-1.0,"rank":3,"decoded_token":"x"},"6":{"logprob":-0.1,"rank":1,"decoded_token":"y"}}]"#,
        );
        let prompt = prompt(&vllm).unwrap();
        let own = prompt[1].as_ref().unwrap();
        assert!(prompt[0].is_none() && own.id == Some(5) && own.top.len() == 2);
        assert!(same_token(("▁x", Some(1)), ("y", Some(1))) && !same_token(("x", Some(1)), ("x", Some(2))));
    }
}
