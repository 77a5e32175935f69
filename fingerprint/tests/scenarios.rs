//! What practitioners report of endpoints, each as a mock endpoint and the line that the report must have for it.

mod toy;

use fingerprint::report::{Outcome, Report, Word, write};
use fingerprint::stage::inspect::{Claim, Plan, inspect};
use toy::{Endpoint, Toy};

async fn report(toy: Toy) -> Report {
    with(toy, Plan::QUICK, Claim::default()).await
}

async fn with(toy: Toy, plan: Plan, claim: Claim) -> Report {
    let endpoint = Endpoint::serve(toy).await;
    inspect(&endpoint.session(), None, plan, 7, &claim).await.unwrap()
}

#[track_caller]
fn line(report: &Report, section: &str, about: &str, word: Word, says: &str) {
    let mut text = String::new();
    write(report, &mut text).unwrap();
    let found = report.finding(section, about).unwrap_or_else(|| panic!("no {about} in {section}:\n{text}"));
    assert!(found.word == word && found.says.contains(says), "{about}: wanted {word:?} {says:?}:\n{text}");
}

#[tokio::test]
async fn an_honest_endpoint_passes_within_sixty_requests() {
    let report = report(Toy { bits: 8, error: 0.02, ..Toy::default() }).await;
    assert!(report.cost.requests <= 60, "{}", report.cost.requests);
    line(&report, "numerics", "logit format", Word::Certain, "bf16");
    line(&report, "noise", "what varies", Word::Measured, "nothing varied");
    line(&report, "noise", "sequential repeats", Word::Measured, "6 of 6 answers are the same");
    line(&report, "numerics", "decode versus prefill", Word::Measured, "8 of 8 tokens get the same");
    line(&report, "surface", "software", Word::Says, "vLLM");
    let contract: Vec<_> = report.section("contract").iter().filter(|f| f.word == Word::Fails).collect();
    assert!(contract.is_empty(), "{contract:?}");
    for about in ["max_tokens", "log-probabilities", "greedy choice", "top_k 1", "top_p 0.000001", "stream", "seed"] {
        assert_eq!(report.finding("contract", about).unwrap().word, Word::Ok, "{about}");
    }
    assert_eq!(report.outcome, Outcome::Consistent);
    assert!(report.verdict.contains("logits bf16 (certain)"), "{}", report.verdict);
}

#[tokio::test]
async fn logits_of_32_bits_lie_on_no_grid_and_a_claim_is_judged_by_it() {
    line(&report(Toy::default()).await, "numerics", "logit format", Word::Certain, "no 16-bit grid");
    let claim = |format: &str| Claim { format: Some(format.into()), logit_exponent: None };
    let bf16 = || Toy { bits: 8, error: 0.02, ..Toy::default() };
    let rejected = with(bf16(), Plan::QUICK, claim("fp16")).await;
    line(&rejected, "numerics", "claim", Word::Rejected, "fp16");
    assert!(rejected.outcome == Outcome::Rejected && rejected.verdict.contains("claim \"fp16\" REJECTED"));
    line(&with(bf16(), Plan::QUICK, claim("bf16")).await, "numerics", "claim", Word::NotRejected, "bf16");
    line(&with(Toy::default(), Plan::QUICK, claim("bf16")).await, "numerics", "claim", Word::NotTestable, "bf16");
}

#[tokio::test]
async fn concurrency_changes_greedy_text() {
    let report = report(Toy { bits: 8, error: 0.02, batch: 0.5, ..Toy::default() }).await;
    line(&report, "noise", "what varies", Word::Measured, "not batch-invariant");
    line(&report, "noise", "sequential repeats", Word::Measured, "6 of 6 answers are the same");
    assert_eq!(report.outcome, Outcome::Consistent, "noise is no accusation");
}

#[tokio::test]
async fn the_prefix_cache_changes_the_numbers() {
    let report = report(Toy { cold: 0.5, ..Toy::default() }).await;
    line(&report, "noise", "what varies", Word::Measured, "warm prefix cache");
}

#[tokio::test]
async fn some_requests_go_elsewhere() {
    // Every third request: the rounds have nine.
    let report = with(
        Toy { bits: 8, error: 0.3, detour: Some((4, 2)), ..Toy::default() },
        Plan { effort: fingerprint::stage::noise::Effort { repeats: 8, neighbours: &[] }, probes: 3, ..Plan::QUICK },
        Claim::default(),
    )
    .await;
    line(&report, "noise", "what varies", Word::Measured, "2 groups that recur");
}

#[tokio::test]
async fn noise_is_added_to_logits() {
    line(&report(Toy { noise: 0.05, ..Toy::default() }).await, "noise", "what varies", Word::Measured, "even alone");
}

#[tokio::test]
async fn logprobs_are_null_or_missing_or_incomplete() {
    let null = report(Toy { null_logprobs: true, ..Toy::default() }).await;
    line(&null, "contract", "log-probabilities", Word::Fails, "null came back");
    line(&null, "numerics", "logit format", Word::NotTestable, "");
    assert!(null.tier.starts_with('A'));
    let none = report(Toy { logprobs: false, ..Toy::default() }).await;
    assert!(none.tier.starts_with('A'), "{}", none.tier);
    let dropped = report(Toy { drop_entries: true, ..Toy::default() }).await;
    line(&dropped, "contract", "log-probabilities", Word::Fails, "have no entry");
    let null_top = report(Toy { chat: true, null_top_drops: true, ..Toy::default() }).await;
    line(&null_top, "contract", "top_logprobs null", Word::Fails, "null and left out");
}

#[tokio::test]
async fn temperature_is_ignored() {
    let report = report(Toy { ignore: &["temperature"], ..Toy::default() }).await;
    line(&report, "contract", "greedy choice", Word::Fails, "not the likeliest");
    assert!(report.outcome == Outcome::Rejected);
}

#[tokio::test]
async fn filters_are_dropped() {
    let top_k = report(Toy { ignore: &["top_k"], ..Toy::default() }).await;
    line(&top_k, "contract", "top_k 1", Word::Fails, "not honoured");
    line(&top_k, "contract", "top_p 0.000001", Word::Ok, "");
    let top_p = report(Toy { ignore: &["top_p"], ..Toy::default() }).await;
    line(&top_p, "contract", "top_p 0.000001", Word::Fails, "not honoured");
}

#[tokio::test]
async fn one_more_token_stands_before_the_prompt() {
    line(&report(Toy { bos: 1, ..Toy::default() }).await, "contract", "prompt ids", Word::Fails, "BOS");
}

#[tokio::test]
async fn limits_stops_and_seeds_are_ignored() {
    let report = report(Toy { ignore: &["max_tokens", "stop", "seed"], ..Toy::default() }).await;
    line(&report, "contract", "max_tokens", Word::Fails, "40 tokens were generated");
    line(&report, "contract", "stop strings", Word::Fails, "goes on past");
    line(&report, "contract", "seed", Word::Fails, "under the same system_fingerprint");
}

#[tokio::test]
async fn three_names_are_one_model() {
    let report = report(Toy { models: vec!["small", "medium", "large"], ..Toy::default() }).await;
    line(&report, "contract", "model names", Word::Fails, "the very same numbers");
}

#[tokio::test]
async fn the_window_is_cut_silently_or_refused() {
    let cut = report(Toy { window: Some((128, true)), ..Toy::default() }).await;
    line(&cut, "contract", "long prompts", Word::Fails, "cut without a word");
    let refused = report(Toy { window: Some((128, false)), ..Toy::default() }).await;
    line(&refused, "contract", "long prompts", Word::Ok, "refused, not cut");
}

#[tokio::test]
async fn the_likeliest_token_is_missing_from_the_list() {
    line(&report(Toy { hide_best: true, ..Toy::default() }).await, "contract", "top list", Word::Fails, "missing");
}

#[tokio::test]
async fn the_cache_changes_its_format_at_a_position() {
    let plan = Plan { generate: 128, reads: 0, ..Plan::QUICK };
    let report = with(Toy { echo: true, onset: Some((96, 0.05)), ..Toy::default() }, plan, Claim::default()).await;
    line(&report, "numerics", "onset", Word::Measured, "agreement changes at position 9");
    assert!(report.tier.starts_with('D'));
    let steady = with(Toy { echo: true, ..Toy::default() }, plan, Claim::default()).await;
    line(&steady, "numerics", "onset", Word::Measured, "no position");
}

#[tokio::test]
async fn chat_leaves_tool_calls_in_the_text_and_reasons_without_an_answer() {
    let plan = Plan { chat: true, ..Plan::QUICK };
    let left = with(Toy { said: Some(("<tool_call>{}", "", 0)), ..Toy::default() }, plan, Claim::default()).await;
    line(&left, "contract", "tool calls", Word::Fails, "<tool_call>");
    let parsed = with(Toy { said: Some(("", "", 1)), ..Toy::default() }, plan, Claim::default()).await;
    line(&parsed, "contract", "tool calls", Word::Ok, "");
    let thinks = with(Toy { said: Some(("", "hm", 0)), ..Toy::default() }, plan, Claim::default()).await;
    line(&thinks, "contract", "answer", Word::Fails, "reasoning and no answer");
    line(&thinks, "contract", "reasoning effort", Word::Fails, "the very same answer");
}

#[tokio::test]
async fn a_gateway_rounds_the_numbers() {
    let bf16 = Toy { bits: 8, error: 0.02, decimals: Some(4), ..Toy::default() };
    line(&report(bf16).await, "numerics", "logit format", Word::Certain, "bf16");
    let f32s = Toy { decimals: Some(2), ..Toy::default() };
    line(&report(f32s).await, "numerics", "logit format", Word::NotTestable, "too few decimals");
}

#[tokio::test]
async fn an_interrupted_run_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("run.part");
    let endpoint = Endpoint::serve(Toy::default()).await;
    let first = endpoint.session().journal(&journal).unwrap();
    let whole = inspect(&first, None, Plan::QUICK, 7, &Claim::default()).await.unwrap();
    let sent = endpoint.requests();
    // Half of it, the last line cut.
    let text = std::fs::read_to_string(&journal).unwrap();
    let half: usize = text.lines().take(20).map(|l| l.len() + 1).sum();
    std::fs::write(&journal, &text[..half + 40]).unwrap();
    let again = endpoint.session().journal(&journal).unwrap();
    let report = inspect(&again, None, Plan::QUICK, 7, &Claim::default()).await.unwrap();
    // What is drawn without a seed may differ.
    let settled = |r: &Report| {
        let all = r.sections.iter().flat_map(|s| &s.findings).filter(|f| f.about != "temperature");
        all.cloned().collect::<Vec<_>>()
    };
    assert_eq!(settled(&report), settled(&whole));
    assert!(endpoint.requests() - sent < sent && report.cost.requests < whole.cost.requests);
    let other = toy::session("http://127.0.0.1:9/v1", None).journal(&journal).unwrap_err();
    assert!(other.to_string().contains("other settings"), "{other}");
}

#[tokio::test]
async fn a_budget_that_ends_leaves_a_report_that_says_so() {
    let endpoint = Endpoint::serve(Toy::default()).await;
    let client = fingerprint::client::Client::new(&endpoint.url(), None, Default::default()).unwrap();
    let budget = fingerprint::client::Budget { requests: 24, ..toy::budget() };
    let header = toy::header_of(&endpoint.url(), None);
    let session = fingerprint::session::Session::new(client, budget, header, std::time::Duration::from_secs(60));
    let report = inspect(&session, None, Plan::QUICK, 7, &Claim::default()).await.unwrap();
    assert!(report.cost.requests <= 24 && report.limits.iter().any(|l| l.contains("budget")), "{:?}", report.limits);
    assert_eq!(report.finding("surface", "software").unwrap().word, Word::NotTestable);
}
