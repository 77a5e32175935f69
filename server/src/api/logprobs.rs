//! Log-probabilities in OpenAI's two shapes, with the bits beside the decimals.
//!
//! A decimal is the shortest text of the f32's exact value. The members `bits`, `id` and those in `lastbit_` are additions.

use engine::scores::Score;
use engine::tokenizer::Tokenizer;
use record::F32Bits;
use serde_json::{Map, Value, json};

use super::error::ApiError;
use crate::worker::Token;

/// A token with what is known of it; of a prompt's first token nothing is.
pub(super) type Scored<'a> = (u32, Option<&'a Score>);

/// The chosen tokens whose log-probabilities are known.
pub(super) fn chosen(tokens: &[Token]) -> Vec<Scored<'_>> {
    tokens.iter().filter(|t| t.logprobs.is_some()).map(|t| (t.id, t.logprobs.as_ref())).collect()
}

/// A prompt's tokens; `scores` begin with the second.
pub(super) fn prompt<'a>(ids: &[u32], scores: &'a [Score]) -> Vec<Scored<'a>> {
    let known = std::iter::once(None).chain(scores.iter().map(Some));
    ids.iter().copied().zip(known).collect()
}

/// A token's text: what it decodes to alone, or its piece where that is no text.
fn text(tokenizer: &Tokenizer, id: u32) -> Result<(String, Option<Vec<u8>>), ApiError> {
    let decoded = tokenizer.decode(&[id])?;
    if decoded.is_empty() || decoded.contains('\u{fffd}') {
        let piece = tokenizer.piece(id).unwrap_or_else(|| format!("<{id}>"));
        return Ok((piece, None));
    }
    let bytes = decoded.clone().into_bytes();
    Ok((decoded, Some(bytes)))
}

fn decimal(bits: F32Bits) -> f64 {
    f64::from(bits.value())
}

/// `logprobs.content` of a chat choice.
pub(super) fn chat(tokenizer: &Tokenizer, tokens: &[Token]) -> Result<Value, ApiError> {
    let one = |id: u32, bits: F32Bits| -> Result<Map<String, Value>, ApiError> {
        let (token, bytes) = text(tokenizer, id)?;
        let object = json!({"token": token, "logprob": decimal(bits), "bytes": bytes, "id": id, "bits": bits});
        Ok(match object {
            Value::Object(map) => map,
            _ => Map::new(),
        })
    };
    let mut content = Vec::with_capacity(tokens.len());
    for (id, score) in chosen(tokens) {
        let Some(found) = score else { continue };
        let mut entry = one(id, found.token)?;
        let top = found.top.iter().map(|(id, bits)| one(*id, *bits)).collect::<Result<Vec<_>, _>>()?;
        entry.insert("top_logprobs".into(), json!(top));
        content.push(Value::Object(entry));
    }
    Ok(json!({"content": content, "refusal": null}))
}

/// `logprobs` of a completion choice, with at most `top` tokens a place; `offset` counts the characters of text before these tokens and is
/// moved on.
pub(super) fn completion(
    tokenizer: &Tokenizer,
    tokens: &[Scored<'_>],
    top: u32,
    offset: &mut usize,
) -> Result<Value, ApiError> {
    let (mut texts, mut decimals, mut tops, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut ids, mut bits, mut top_bits) = (Vec::new(), Vec::new(), Vec::new());
    for (id, score) in tokens {
        let (own, decoded) = text(tokenizer, *id)?;
        offsets.push(*offset);
        *offset += decoded.map_or(0, |_| own.chars().count());
        texts.push(own);
        ids.push(*id);
        decimals.push(score.map(|s| decimal(s.token)));
        bits.push(score.map(|s| s.token));
        let likely = score.map(|s| s.top.get(..top as usize).unwrap_or(&s.top));
        let named = |likely: &[(u32, F32Bits)]| -> Result<Map<String, Value>, ApiError> {
            let mut all = Map::new();
            for (id, value) in likely {
                // Two ids may have one text; the likelier one keeps it.
                all.entry(text(tokenizer, *id)?.0).or_insert_with(|| json!(decimal(*value)));
            }
            Ok(all)
        };
        tops.push(likely.map(named).transpose()?);
        top_bits.push(likely.map(|l| l.iter().map(|(id, value)| json!([id, value])).collect::<Vec<_>>()));
    }
    Ok(json!({
        "tokens": texts, "token_logprobs": decimals, "top_logprobs": tops, "text_offset": offsets,
        "lastbit_ids": ids, "lastbit_bits": bits, "lastbit_top": top_bits,
    }))
}

/// `prompt_logprobs`: for each token of the prompt an object of ids, the token's own and the `top` most likely ones; null for the first.
pub(super) fn of_prompt(tokenizer: &Tokenizer, tokens: &[Scored<'_>], top: u32) -> Result<Value, ApiError> {
    let mut all = Vec::with_capacity(tokens.len());
    for (id, score) in tokens {
        let Some(score) = score else {
            all.push(Value::Null);
            continue;
        };
        let mut place = Map::new();
        for (id, bits) in score.top.iter().take(top as usize).chain([&(*id, score.token)]) {
            let (token, _) = text(tokenizer, *id)?;
            let entry = json!({"logprob": decimal(*bits), "decoded_token": token, "bits": bits});
            place.insert(id.to_string(), entry);
        }
        all.push(Value::Object(place));
    }
    Ok(Value::Array(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_stand_beside_decimals() {
        let tokenizer = engine::model::embedded().unwrap().tokenizer;
        let id = tokenizer.encode(" LORD").unwrap().last().copied().unwrap();
        let half = F32Bits::new(-0.5);
        let score = Score { token: half, top: vec![(id, half), (1, half)] };
        let tokens = [Token { id, logprobs: Some(score.clone()) }];
        let chat = chat(&tokenizer, &tokens).unwrap();
        assert_eq!((&chat["content"][0]["bits"], &chat["content"][0]["logprob"]), (&json!("bf000000"), &json!(-0.5)));
        assert_eq!(chat["content"][0]["top_logprobs"][0]["id"], json!(id));
        let mut offset = 3;
        let completion = completion(&tokenizer, &chosen(&tokens), 1, &mut offset).unwrap();
        assert_eq!((&completion["lastbit_bits"][0], &completion["text_offset"][0]), (&json!("bf000000"), &json!(3)));
        assert_eq!(completion["lastbit_top"][0], json!([[id, "bf000000"]]));
        assert!(offset > 3);
        let scores = [score];
        let of_prompt = of_prompt(&tokenizer, &prompt(&[5, id], &scores), 2).unwrap();
        assert_eq!(of_prompt[0], Value::Null);
        assert_eq!(of_prompt[1][&id.to_string()]["bits"], json!("bf000000"));
        assert_eq!(of_prompt[1].as_object().unwrap().len(), 2);
    }
}
