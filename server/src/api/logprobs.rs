//! Log-probabilities in OpenAI's two shapes, with the bits beside the decimals.
//!
//! A decimal is the shortest text of the f32's exact value. The members `bits`, `id` and those in `lastbit_` are additions.

use engine::tokenizer::Tokenizer;
use record::F32Bits;
use serde_json::{Map, Value, json};

use super::error::ApiError;
use crate::worker::{Token, TokenLogprobs};

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
    for (token, found) in known(tokens) {
        let mut entry = one(token.id, found.chosen)?;
        let top = found.top.iter().map(|(id, bits)| one(*id, *bits)).collect::<Result<Vec<_>, _>>()?;
        entry.insert("top_logprobs".into(), json!(top));
        content.push(Value::Object(entry));
    }
    Ok(json!({"content": content, "refusal": null}))
}

/// `logprobs` of a completion choice; `offset` counts the characters of text before these tokens and is moved on.
pub(super) fn completion(tokenizer: &Tokenizer, tokens: &[Token], offset: &mut usize) -> Result<Value, ApiError> {
    let (mut texts, mut decimals, mut tops, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut ids, mut bits, mut top_bits) = (Vec::new(), Vec::new(), Vec::new());
    for (token, found) in known(tokens) {
        let (own, decoded) = text(tokenizer, token.id)?;
        offsets.push(*offset);
        *offset += decoded.map_or(0, |_| own.chars().count());
        texts.push(own);
        decimals.push(decimal(found.chosen));
        ids.push(token.id);
        bits.push(found.chosen);
        let mut top = Map::new();
        for (id, value) in &found.top {
            // Two ids may have one text; the likelier one keeps it.
            top.entry(text(tokenizer, *id)?.0).or_insert_with(|| json!(decimal(*value)));
        }
        tops.push(top);
        top_bits.push(found.top.iter().map(|(id, value)| json!([id, value])).collect::<Vec<_>>());
    }
    Ok(json!({
        "tokens": texts, "token_logprobs": decimals, "top_logprobs": tops, "text_offset": offsets,
        "lastbit_ids": ids, "lastbit_bits": bits, "lastbit_top": top_bits,
    }))
}

fn known(tokens: &[Token]) -> impl Iterator<Item = (&Token, &TokenLogprobs)> {
    tokens.iter().filter_map(|t| Some((t, t.logprobs.as_ref()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_stand_beside_decimals() {
        let tokenizer = engine::model::embedded().unwrap().tokenizer;
        let id = tokenizer.encode(" LORD").unwrap().last().copied().unwrap();
        let half = F32Bits::new(-0.5);
        let logprobs = TokenLogprobs { chosen: half, top: vec![(id, half)] };
        let tokens = [Token { id, logprobs: Some(logprobs) }];
        let chat = chat(&tokenizer, &tokens).unwrap();
        assert_eq!((&chat["content"][0]["bits"], &chat["content"][0]["logprob"]), (&json!("bf000000"), &json!(-0.5)));
        assert_eq!(chat["content"][0]["top_logprobs"][0]["id"], json!(id));
        let mut offset = 3;
        let completion = completion(&tokenizer, &tokens, &mut offset).unwrap();
        assert_eq!((&completion["lastbit_bits"][0], &completion["text_offset"][0]), (&json!("bf000000"), &json!(3)));
        assert!(offset > 3);
    }
}
