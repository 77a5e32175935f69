//! What every result states besides its findings: channels left open, limits of the method, how to repeat the audit.
//!
//! Sources: the threat model and detector sections of the verification specification; `docs/spec/audit-result.md`.

use crate::plan::Mode;
use crate::result::{Channel, ChannelState, ClaimKind, RecordResult};
use crate::verdict::Verdict;
use record::{Fact, Record};

/// Ways to carry information or work past the audit of these records.
pub fn channels(records: &[(Option<Record>, &RecordResult)]) -> Vec<Channel> {
    let holds = |claim| {
        let of = |r: &RecordResult| r.claims.iter().any(|c| c.claim == claim && c.verdict == Verdict::Match);
        !records.is_empty() && records.iter().all(|(_, r)| of(r))
    };
    let holds_where_made = |claim| {
        let of = |r: &RecordResult| r.claims.iter().filter(|c| c.claim == claim).all(|c| c.verdict == Verdict::Match);
        !records.is_empty() && records.iter().all(|(record, r)| record.is_some() && of(r))
    };
    let channel = |name: &str, verified: bool, note: &str| Channel {
        channel: name.to_owned(),
        state: if verified { ChannelState::Verified } else { ChannelState::Uncontrolled },
        note: note.to_owned(),
    };
    let known: Vec<&Record> = records.iter().filter_map(|(record, _)| record.as_ref()).collect();
    let requests = || known.iter().flat_map(|r| &r.requests);
    let derivations = || requests().filter_map(|r| r.decode.seed.map(|_| &r.decode.seed_derivation));
    let seeds_bound =
        derivations().all(|d| !matches!(d, Fact::Unspecified) && d.known().is_none_or(|rule| rule != "operator"));
    let drawn = derivations().next().is_some();
    let timed = known.iter().all(|r| r.time.known().is_some() && r.steps.iter().all(|s| s.time.known().is_some()));
    vec![
        channel(
            "token choice",
            holds(ClaimKind::Tokens),
            "one admissible token per step, given logits, sampler and seed",
        ),
        channel("activations and cache", holds(ClaimKind::Bits), "every committed bit is compared"),
        channel(
            "seeds",
            holds(ClaimKind::Seeds) && (!drawn || seeds_bound),
            match (drawn, seeds_bound) {
                (false, _) => "no request draws random numbers",
                (true, true) => {
                    "each follows from the client's nonce by the stated rule, or is stated to be the client's own, which its receipt binds"
                }
                (true, false) => "the operator chose seeds: up to 64 bits per request",
            },
        ),
        channel(
            "schedule",
            false,
            "which requests share a step is the operator's choice; where bits depend on the shape of a step, near-ties can be steered",
        ),
        channel("unreported rows", holds(ClaimKind::Rows), "see what else would fit, for each record"),
        channel(
            "finish reasons and lengths",
            holds(ClaimKind::Outputs),
            "they follow from the tokens and the logged limits",
        ),
        channel(
            "log-probabilities",
            requests().all(|r| r.logprobs.is_none()) || holds_where_made(ClaimKind::Logprobs),
            if requests().all(|r| r.logprobs.is_none()) {
                "none are logged"
            } else {
                "those that are logged are recomputed from the logits, bit by bit"
            },
        ),
        channel(
            "declared GPU, driver and build",
            false,
            "bits show the arithmetic of a generation, not which device, driver or program computed them; what is stated is listed as not verified",
        ),
        channel(
            "text of prompts and outputs",
            false,
            "token ids are verified; that they are the client's text is a separate check",
        ),
        channel(
            "timing",
            false,
            if timed { "times are logged, and are the operator's word" } else { "times are not logged for every step" },
        ),
        channel(
            "client receipts",
            holds(ClaimKind::Receipts),
            "receipts that clients present are compared with the record; without them an operator may log what it did not serve",
        ),
    ]
}

/// What the method cannot see, in records of these modes.
pub fn limitations(modes: &[engine::Mode]) -> Vec<String> {
    let mut out = vec![
        "What is compared is what was logged. Work on another GPU, or on a separate stream of the same GPU, does not change the bits of the \
         logged stream; it shows in time and power, which this audit does not measure. Pipeline parallelism does not change bits either."
            .to_owned(),
        "In a dense model the content of rows that share a step does not change each other's bits; only their number and shape do. An \
         unreported row is seen when it changes the kernels of a step, and within the class of row counts that share kernels it is not."
            .to_owned(),
        "A match says that the logged bits are those of the declared computation on the emulated arithmetic of the declared hardware. The \
         emulation is checked against recorded outputs of real devices; an instruction that no record covers could still differ."
            .to_owned(),
        "A cause is the simplest single change that was tried and explains every compared bit; another explanation, or a combination of \
         changes, may do so too. What was tried is listed."
            .to_owned(),
        "Trust rests on: the point at which inputs and outputs are witnessed, SHA-256, Ed25519, the auditor's key list and model files, and \
         commitments that precede challenges."
            .to_owned(),
    ];
    for mode in modes.iter().filter(|m| m.own_tokens_only()) {
        out.push(format!(
            "In {} mode a row's bits depend on its own tokens only. Unreported rows leave no numeric trace at all in such a log.",
            mode.name()
        ));
    }
    if modes.contains(&engine::Mode::Portable) {
        out.push(
            "In portable mode the bits are the same on every GPU generation and on a processor. They do not show what computed them."
                .to_owned(),
        );
    }
    if modes.contains(&engine::Mode::Gated) {
        out.extend(margingate::LIMITS.map(str::to_owned));
    }
    out
}

/// Commands that repeat an audit, given the names that the caller knows.
pub fn recheck(log: &str, model: &str, key: &str, mode: Mode) -> Vec<String> {
    let replay = match mode {
        Mode::Schedule => "",
        Mode::Prefill => " --mode prefill",
    };
    vec![
        "sha256sum *.audit.json    # compare with the digests in this page".to_owned(),
        format!(
            "lastbit audit {log} --model {model} --key {key}{replay}    # the same log, the same verdict, byte for byte"
        ),
        format!("lastbit explain {log} --model {model} --key {key}    # the first difference in words"),
    ]
}
