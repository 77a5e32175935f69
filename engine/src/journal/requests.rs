//! Requests and decoding parameters in a record's words, and back.

use record::inference as rec;
use record::{Digest, F32Bits, Fact, U64Text};

use crate::batch::{self, Outcome};
use crate::error::{Error, Result};
use crate::sampler::{Adjust, COUNTER, GREEDY, GUMBEL, SEED_DERIVATION, Sampling, Seeded, TIE_RULE, derive_seed};

/// What a request is called and where its seed comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its id in the record.
    pub id: String,
    /// The client's nonce, lower-case hex.
    pub nonce: Option<String>,
    /// Rule that gave the seed: [`SEED_DERIVATION`], `client` or `operator`; not looked at for greedy choice.
    pub seed_derivation: &'static str,
}

impl Asked {
    /// A request whose seed, if any, follows [`SEED_DERIVATION`].
    pub fn derived(id: impl Into<String>, nonce: impl Into<String>) -> Self {
        Self { id: id.into(), nonce: Some(nonce.into()), seed_derivation: SEED_DERIVATION }
    }
}

/// The seed that [`SEED_DERIVATION`] gives a request: `nonce` is lower-case hex as records carry it, `key_id` the log's key.
///
/// # Errors
/// [`Error::UnknownDecode`] for a nonce that is missing or not hex: without the client's part there is nothing to derive from.
pub fn derived_seed(nonce: Option<&str>, key_id: &Digest, request_id: &str) -> Result<u64> {
    let unknown = || Error::UnknownDecode { parameter: "nonce", value: nonce.unwrap_or("none").to_owned() };
    let bytes = nonce.and_then(|n| hex::decode(n).ok()).ok_or_else(unknown)?;
    Ok(derive_seed(&bytes, key_id.as_bytes(), request_id.as_bytes()))
}

/// Decoding parameters of a request.
pub fn decode(request: &batch::Request, seed_derivation: &str) -> rec::Decode {
    let mut stop = request.stop.clone();
    stop.sort_unstable();
    stop.dedup();
    let mut decode = rec::Decode::greedy(request.max_new_tokens, stop);
    decode.stop_strings.clone_from(&request.stop_strings);
    decode.tie_rule = TIE_RULE.into();
    decode.sampler = request.sampling.algorithm().into();
    let adjust = &request.adjust;
    decode.logit_bias = adjust.bias.iter().map(|(id, bias)| (*id, F32Bits::new(*bias))).collect();
    decode.repetition_penalty = F32Bits::new(adjust.repetition);
    decode.frequency_penalty = F32Bits::new(adjust.frequency);
    decode.presence_penalty = F32Bits::new(adjust.presence);
    if let Sampling::Seeded(s) = request.sampling {
        decode.temperature = F32Bits::new(s.temperature);
        decode.top_k = s.top_k.unwrap_or(0);
        decode.top_p = F32Bits::new(s.top_p.unwrap_or(1.0));
        decode.min_p = F32Bits::new(s.min_p.unwrap_or(0.0));
        decode.seed = Some(U64Text(s.seed));
        decode.seed_derivation = Fact::Known(seed_derivation.into());
        decode.counter = COUNTER.into();
    }
    decode
}

/// A request that goes on in a later record, and what came of it so far.
pub fn unfinished(asked: &Asked, request: &batch::Request, output: &[u32]) -> rec::Request {
    stated(asked, request, output, rec::Finish::Continues)
}

/// A request and what came of it.
pub fn request(asked: &Asked, request: &batch::Request, outcome: &Outcome) -> rec::Request {
    let finish = match outcome.finish {
        batch::Finish::Stop => rec::Finish::Stop,
        batch::Finish::Length => rec::Finish::Length,
        batch::Finish::Cancelled => rec::Finish::Cancelled,
    };
    stated(asked, request, &outcome.output, finish)
}

fn stated(asked: &Asked, request: &batch::Request, output: &[u32], finish: rec::Finish) -> rec::Request {
    rec::Request {
        id: asked.id.clone(),
        nonce: asked.nonce.clone(),
        prompt: request.prompt.clone(),
        decode: decode(request, asked.seed_derivation),
        output: output.to_vec(),
        finish,
        logprobs: None,
        prompt_logprobs: None,
    }
}

/// How a record's tokens were chosen, and what was done to logits before. Parameters that this engine does not compute must have their
/// neutral value.
///
/// # Errors
/// [`Error::UnknownDecode`] naming the parameter, [`Error::Sampling`] for values out of range, [`Error::InconsistentDecode`] for parameters
/// that do not fit together.
pub fn sampling(decode: &rec::Decode) -> Result<(Sampling, Adjust)> {
    let unknown = |parameter, value: String| Err(Error::UnknownDecode { parameter, value });
    let neutral = rec::Decode::greedy(decode.max_new_tokens, Vec::new());
    if let Some(grammar) = decode.grammar {
        return unknown("grammar", grammar.to_string());
    }
    if decode.tie_rule != TIE_RULE {
        return unknown("tie_rule", decode.tie_rule.clone());
    }
    let sampling = match (decode.sampler.as_str(), decode.seed) {
        (GREEDY, None) => Sampling::Greedy,
        (GUMBEL, Some(seed)) if decode.counter == COUNTER => Sampling::Seeded(Seeded {
            temperature: decode.temperature.value(),
            top_k: (decode.top_k != 0).then_some(decode.top_k),
            top_p: (decode.top_p != neutral.top_p).then_some(decode.top_p.value()),
            min_p: (decode.min_p.value() != 0.0).then_some(decode.min_p.value()),
            seed: seed.0,
        }),
        (GUMBEL, Some(_)) => return unknown("counter", decode.counter.clone()),
        (GREEDY | GUMBEL, seed) => return unknown("seed", seed.map_or("none".to_owned(), |s| s.0.to_string())),
        (other, _) => return unknown("sampler", other.to_owned()),
    };
    let adjust = Adjust {
        bias: decode.logit_bias.iter().map(|(id, bias)| (*id, bias.value())).collect(),
        repetition: decode.repetition_penalty.value(),
        frequency: decode.frequency_penalty.value(),
        presence: decode.presence_penalty.value(),
    };
    sampling.check()?;
    adjust.check()?;
    decode.check().map_err(|what| Error::InconsistentDecode { what })?;
    Ok((sampling, adjust))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded(top_k: Option<u32>, top_p: Option<f32>) -> batch::Request {
        batch::Request {
            sampling: Sampling::Seeded(Seeded { top_k, top_p, ..Seeded::plain(0.7, u64::MAX) }),
            stop: vec![9, 2, 9],
            ..batch::Request::new(vec![1], 3)
        }
    }

    #[test]
    fn parameters_survive_the_way_there_and_back() {
        for (k, p) in [(None, None), (Some(5), None), (None, Some(0.9)), (Some(1), Some(0.5))] {
            let r = seeded(k, p);
            let d = decode(&r, SEED_DERIVATION);
            assert_eq!(d.stop_ids, [2, 9]);
            assert_eq!(sampling(&d).unwrap(), (r.sampling, Adjust::default()));
        }
        let mut all = seeded(Some(5), Some(0.5));
        all.adjust = Adjust { bias: vec![(2, -0.5), (9, 100.0)], repetition: 1.1, frequency: 0.25, presence: -2.0 };
        if let Sampling::Seeded(s) = &mut all.sampling {
            s.min_p = Some(0.05);
        }
        for chosen in [all.sampling, Sampling::Greedy] {
            let request = batch::Request { sampling: chosen, ..all.clone() };
            assert_eq!(sampling(&decode(&request, "client")).unwrap(), (chosen, all.adjust.clone()));
        }
    }

    #[test]
    fn what_is_not_computed_is_named() {
        type Edit = fn(&mut rec::Decode);
        let cases: [(&str, Edit); 5] = [
            ("tie_rule", |d| d.tie_rule = "highest-id".into()),
            ("counter", |d| d.counter = "row/1".into()),
            ("seed", |d| d.seed = None),
            ("sampler", |d| d.sampler = "inverse-cdf/1".into()),
            ("grammar", |d| d.grammar = Some(record::Digest::of_file(b"x"))),
        ];
        for (name, edit) in cases {
            let mut d = decode(&seeded(None, None), SEED_DERIVATION);
            edit(&mut d);
            assert!(matches!(sampling(&d), Err(Error::UnknownDecode { parameter, .. }) if parameter == name), "{name}");
        }
        let seedless =
            sampling(&rec::Decode { seed: None, ..decode(&seeded(None, None), SEED_DERIVATION) }).unwrap_err();
        assert!(seedless.to_string().contains("seed") && seedless.to_string().contains("none"), "{seedless}");
        assert!(!seedless.to_string().contains("None"), "{seedless}");
        let mut cold = decode(&seeded(None, None), SEED_DERIVATION);
        cold.temperature = F32Bits::new(0.0);
        assert!(matches!(sampling(&cold), Err(Error::Sampling { parameter: "temperature", .. })));
        let mut endless = decode(&seeded(None, None), SEED_DERIVATION);
        endless.frequency_penalty = F32Bits::new(f32::INFINITY);
        assert!(matches!(sampling(&endless), Err(Error::Sampling { parameter: "frequency_penalty", .. })));
    }

    #[test]
    fn greedy_choice_with_parameters_of_another_sampler_is_refused() {
        type Edit = fn(&mut rec::Decode);
        let cases: [(&str, Edit); 5] = [
            ("min_p", |d| d.min_p = F32Bits::new(0.5)),
            ("temperature", |d| d.temperature = F32Bits::new(1.0)),
            ("top_k", |d| d.top_k = 3),
            ("top_p", |d| d.top_p = F32Bits::new(0.5)),
            ("counter", |d| d.counter = "x".into()),
        ];
        for (name, edit) in cases {
            let mut d = rec::Decode::greedy(3, Vec::new());
            edit(&mut d);
            let error = sampling(&d).unwrap_err();
            assert!(matches!(error, Error::InconsistentDecode { what } if what.starts_with(name)), "{name}: {error}");
        }
    }
}
