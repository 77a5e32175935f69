//! What requests ask of the sampler, and what they are told of it: recomputed by an audit, and every lie about it found.

mod served;

use engine::batch::Request;
use engine::sampler::{Adjust, Sampling, Seeded};
use record::{F32Bits, Fact};
use served::Serving;
use verifier::Verdict;
use verifier::ops::Op;
use verifier::result::{Cause, ClaimKind, ClaimResult, RecordResult};

fn claim(r: &RecordResult, kind: ClaimKind) -> &ClaimResult {
    r.claims.iter().find(|c| c.claim == kind).unwrap_or_else(|| panic!("{kind} was not judged"))
}

/// Everything at once.
fn everything(request: &mut Request) {
    request.adjust = Adjust { bias: vec![(7, 1.5), (45, -3.0)], repetition: 1.3, frequency: 0.6, presence: 0.4 };
    request.prompt_logprobs = true;
    if let Sampling::Seeded(s) = &mut request.sampling {
        *s = Seeded { top_k: Some(60), top_p: Some(0.98), min_p: Some(0.01), ..*s };
    }
}

#[test]
fn honest_parameters_match() {
    for (seed, chunk) in [(Some(5), Some(4)), (None, None)] {
        // The seed is the client's own.
        let state = |r: &mut record::inference::Request| {
            if r.decode.seed.is_some() {
                r.decode.seed_derivation = Fact::Known("client".into());
            }
        };
        let asked = Serving { ask: everything, log: everything, state, ..Serving::default() };
        let serving = Serving { seed, chunk, logprobs: true, new_tokens: 8, ..asked };
        let r = serving.serve().audit();
        assert_eq!(r.verdict, Verdict::Match, "{}\n{:#?}", r.headline, r.claims);
        // Six and three prompt tokens, two times eight chosen ones.
        let logprobs = claim(&r, ClaimKind::Logprobs);
        assert!(logprobs.detail.starts_with("23 recomputed"), "{}", logprobs.detail);
        assert_eq!(claim(&r, ClaimKind::Scheduling).verdict, Verdict::Match);
    }
}

/// The other sampler that gives the tokens of `serving`, as the audit names it.
fn other_sampler(serving: &Serving) -> String {
    let r = serving.serve().audit();
    assert_eq!(r.verdict, Verdict::Mismatch, "{}", r.headline);
    assert_eq!(claim(&r, ClaimKind::Bits).verdict, Verdict::Match);
    let found = r.causes.iter().find_map(|c| match c {
        Cause::OtherSampler { found, .. } => Some(found.clone()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{:#?}", r.causes))
}

#[test]
fn parameters_that_were_not_applied_are_named() {
    // What is forced by bias is not what was chosen.
    let biased: fn(&mut Request) = |r| r.adjust.bias = vec![(3, 80.0)];
    let without = "greedy-lowest-id/1 without bias and penalties";
    assert_eq!(other_sampler(&Serving { log: biased, ..Serving::default() }), without);
    let penalised: fn(&mut Request) = |r| r.adjust = Adjust { repetition: 9.0, frequency: 9.0, ..Adjust::default() };
    let longer = Serving { log: penalised, new_tokens: 16, ..Serving::default() };
    assert_eq!(other_sampler(&longer), without);
    let narrow: fn(&mut Request) = |r| {
        if let Sampling::Seeded(s) = &mut r.sampling {
            s.min_p = Some(1.0);
        }
    };
    let seeded = Serving { seed: Some(5), log: narrow, new_tokens: 12, ..Serving::default() };
    assert_eq!(other_sampler(&seeded), "gumbel-philox4x32-10/1 without its filters");
}

#[test]
fn parameters_that_were_not_declared_are_a_mismatch() {
    let biased: fn(&mut Request) = |r| r.adjust.bias = vec![(3, 80.0)];
    let r = Serving { ask: biased, log: |r| r.adjust = Adjust::default(), ..Serving::default() }.serve().audit();
    assert_eq!((r.verdict, claim(&r, ClaimKind::Tokens).verdict), (Verdict::Mismatch, Verdict::Mismatch));
    assert!(
        matches!(r.causes.first(), Some(Cause::TokenSwapped { tokens, .. }) if tokens.len() == 8),
        "{:#?}",
        r.causes
    );
}

#[test]
fn false_log_probabilities_of_prompts_are_found() {
    let ask: fn(&mut Request) = |r| r.prompt_logprobs = true;
    let asked = Serving { ask, log: ask, new_tokens: 2, ..Serving::default() };
    let r = Serving { state: |r| r.prompt_logprobs.as_mut().unwrap()[1].0 ^= 1, ..asked }.serve().audit();
    let logprobs = claim(&r, ClaimKind::Logprobs);
    assert_eq!((r.verdict, logprobs.verdict), (Verdict::Mismatch, Verdict::Mismatch));
    assert!(logprobs.detail.starts_with("2 of 7") && logprobs.detail.contains("prompt token 2"), "{}", logprobs.detail);
    // Values for rows that had no logits: nothing gives them, and the rule would have made other rows.
    let invented = |r: &mut record::inference::Request| r.prompt_logprobs = Some(vec![F32Bits(0); r.prompt.len() - 1]);
    let r = Serving { state: invented, new_tokens: 2, ..Serving::default() }.serve().audit();
    assert_eq!(claim(&r, ClaimKind::Logprobs).verdict, Verdict::Inconclusive);
    let scheduling = claim(&r, ClaimKind::Scheduling);
    assert!(
        scheduling.verdict == Verdict::Mismatch && scheduling.detail.contains("rows of logits"),
        "{}",
        scheduling.detail
    );
    assert_eq!(r.verdict, Verdict::Mismatch);
}

#[test]
fn a_sampler_that_is_not_known_is_unverifiable() {
    let r = Serving { state: |r| r.decode.sampler = "inverse-cdf/1".into(), new_tokens: 2, ..Serving::default() };
    let r = r.serve().audit();
    let tokens = claim(&r, ClaimKind::Tokens);
    assert_eq!((r.verdict, tokens.verdict), (Verdict::Unverifiable, Verdict::Unverifiable));
    assert_eq!(tokens.detail, "decoding parameter `sampler` = inverse-cdf/1 is not known here");
}

#[test]
fn faults_that_nobody_declares_are_found() {
    let with = |faults| Serving { faults, new_tokens: 6, ..Serving::default() }.serve().audit();
    let logit = with(&["logit@3"]);
    assert_eq!(claim(&logit, ClaimKind::Bits).verdict, Verdict::Mismatch);
    assert_eq!(logit.divergence.as_ref().and_then(|d| d.op), Some(Op::LmHead), "{:#?}", logit.divergence);
    let column = with(&["column@2"]);
    assert_eq!((column.verdict, claim(&column, ClaimKind::Bits).verdict), (Verdict::Mismatch, Verdict::Mismatch));
    let swap = with(&["swap@4"]);
    assert_eq!(claim(&swap, ClaimKind::Bits).verdict, Verdict::Match);
    assert!(
        matches!(swap.causes.first(), Some(Cause::TokenSwapped { tokens, .. }) if tokens.len() == 1),
        "{:#?}",
        swap.causes
    );
    let rows = with(&["rows=2"]);
    assert!(matches!(rows.causes.first(), Some(Cause::UnreportedRows { .. })), "{:#?}", rows.causes);
    // Time is in no bit.
    assert_eq!(with(&["delay=1"]).verdict, Verdict::Match);
}

#[test]
fn declared_faults_are_not_taken_for_an_engine_without() {
    let mut served = Serving { faults: &["logit@3"], new_tokens: 2, ..Serving::default() }.serve();
    served.record.stack.mode = "throughput+logit@3".into();
    let r = served.audit_on(
        &verifier::engine_replay::AtHand::emulated(served.model.clone(), 1, None),
        &Default::default(),
        false,
    );
    assert_eq!(r.verdict, Verdict::Unverifiable, "{}", r.headline);
    assert!(r.headline.contains("throughput+logit@3"), "{}", r.headline);
}
