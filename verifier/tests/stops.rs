//! Ends of requests with stop strings, on a machine whose text is known: id `n` reads as the `n`th small letter.

mod toy;

use record::inference::Finish;
use toy::{Operator, Served};
use verifier::Verdict;
use verifier::result::ClaimKind;

/// The text of a request's output.
fn text(served: &Served) -> String {
    served.record.requests[0].output.iter().map(|id| toy::machine::letter(*id)).collect()
}

/// The verdict on ends, when request 0 states these stop strings and this end.
fn judged(stops: &[&str], finish: Finish) -> (Verdict, Verdict, String) {
    let mut served = Operator::default().serve();
    let request = &mut served.record.requests[0];
    request.decode.stop_strings = stops.iter().map(|s| (*s).to_owned()).collect();
    request.finish = finish;
    let result = served.audit();
    let claim = result.claims.iter().find(|c| c.claim == ClaimKind::Outputs).unwrap();
    (claim.verdict, result.verdict, claim.detail.clone())
}

#[test]
fn a_stop_string_ends_a_request_with_the_token_that_completes_it() {
    let whole = text(&Operator::default().serve());
    let last = &whole[whole.len() - 3..];
    assert_eq!(whole.find(last), Some(whole.len() - 3), "{whole} has it at its end only");
    assert_eq!(judged(&["#", last], Finish::Stop).0, Verdict::Match);
    let (claim, verdict, detail) = judged(&[last], Finish::Length);
    assert_eq!((claim, verdict), (Verdict::Mismatch, Verdict::Mismatch), "{detail}");
    let (claim, verdict, detail) = judged(&["#"], Finish::Stop);
    assert_eq!((claim, verdict), (Verdict::Mismatch, Verdict::Mismatch), "{detail}");
    let (claim, _, detail) = judged(&[&whole[1..3]], Finish::Length);
    assert!(claim == Verdict::Mismatch && detail.contains("goes on"), "{detail}");
    assert_eq!(judged(&["#"], Finish::Length).0, Verdict::Match);
}

#[test]
fn without_a_tokenizer_it_cannot_be_told() {
    let mut served = Operator::default().serve();
    served.record.requests[0].decode.stop_strings = vec!["#".into()];
    let claim = verifier::stops::check(&served.record, None).unwrap();
    assert_eq!(claim.verdict, Verdict::Inconclusive);
    served.record.requests[0].decode.stop_strings.clear();
    assert!(verifier::stops::check(&served.record, None).is_none());
}
