//! Every verdict and every cause, on a machine whose answers are known.

mod toy;

use record::EvidenceLevel;
use toy::machine::Toy;
use toy::{Operator, Served, state_only};
use verifier::audit::Options;
use verifier::compare::Opened;
use verifier::ops::Op;
use verifier::plan::Mode;
use verifier::replay::{Machine, WeightBit, WeightChange};
use verifier::result::{Cause, CellState, ClaimKind, Outcome, RecordResult};
use verifier::{Level, Verdict};

fn claim(r: &RecordResult, kind: ClaimKind) -> Verdict {
    r.claims.iter().find(|c| c.claim == kind).unwrap_or_else(|| panic!("{kind} was not judged")).verdict
}

fn ranges(set: &verifier::ranges::Ranges) -> Vec<u32> {
    set.iter().collect()
}

#[test]
fn an_honest_record_matches_and_says_what_else_fits() {
    for level in [EvidenceLevel::S, EvidenceLevel::A] {
        let served = Operator { level, ..Operator::default() }.serve();
        let r = served.audit();
        assert_eq!(r.verdict, Verdict::Match, "{:?}", r.claims);
        assert_eq!(r.level, Some(if level == EvidenceLevel::A { Level::A } else { Level::S }));
        assert_eq!((r.divergence.is_none(), r.causes.len()), (true, 0));
        // Two decode rows: classes are {2, 3}, so one extra row in every decode step cannot be excluded.
        assert_eq!(ranges(&r.alternatives.extra_rows), [0, 1]);
        assert_eq!(claim(&r, ClaimKind::Rows), Verdict::Indistinguishable);
        assert_eq!(claim(&r, ClaimKind::Hardware), Verdict::Match);
        assert!(r.matrix.requests.iter().flat_map(|r| &r.cells).all(|c| c.state == CellState::Match));
        assert_eq!(r.margins.positions, r.size.tokens);
    }
}

#[test]
fn an_auditor_who_requires_the_row_count_gets_indistinguishable() {
    let served = Operator::default().serve();
    let mut options = Options::default();
    options.required.push(ClaimKind::Rows);
    let r = served.audit_with(&Toy::default(), served.opened.clone(), &options);
    assert_eq!(r.verdict, Verdict::Indistinguishable);
}

#[test]
fn without_evidence_the_leaves_suffice_for_a_match() {
    assert_eq!(Operator::default().serve().audit_blind().verdict, Verdict::Match);
}

#[test]
fn another_gpu_is_named_with_the_operation_it_first_shows_in() {
    let operator = Operator { machine: Machine::declared("sm_80"), ..Operator::default() };
    for level in [EvidenceLevel::S, EvidenceLevel::A] {
        for blind in [false, true] {
            let served = Operator { level, machine: operator.machine.clone(), ..Operator::default() }.serve();
            let r = if blind { served.audit_blind() } else { served.audit() };
            assert_eq!(r.verdict, Verdict::Mismatch);
            let Some(Cause::OtherProfile { claimed, found, origin, steps, .. }) = r.causes.first() else {
                panic!("{:?}", r.causes)
            };
            assert_eq!((claimed.as_str(), *steps), ("sm_90", 7));
            assert_eq!(found, &["sm_80", "sm_86"], "both of the class are listed");
            assert_eq!(origin.as_deref(), Some("qkv of layer 0"), "the first tensor-core operation");
            let d = r.divergence.as_ref().unwrap();
            assert_eq!((d.step, d.position), (0, 0));
            match (blind, level) {
                (true, _) => assert!(d.op.is_none() && d.bits.is_none() && d.digests.is_some()),
                (false, EvidenceLevel::A) => assert_eq!((d.op, d.layer), (Some(Op::Qkv), Some(0))),
                (false, EvidenceLevel::S) => assert_eq!((d.op, d.layer), (Some(Op::K), Some(0))),
            }
            if !blind {
                let bits = d.bits.as_ref().unwrap();
                assert!(bits.dtype == "bf16" && bits.logged != bits.replayed && bits.logged.len() == 4);
            }
            assert_eq!(d.origin.as_deref(), Some("qkv of layer 0"));
            assert_eq!(claim(&r, ClaimKind::Tokens), Verdict::Match, "the tokens follow from the sm_80 logits");
        }
    }
}

#[test]
fn unreported_rows_are_counted_within_their_class() {
    // Declared 2; with 2 more the class is {4, 5}, so 2 or 3 extra rows.
    let served = Operator { extra_rows: |s| if s == 0 { 0 } else { 2 }, ..Operator::default() }.serve();
    for r in [served.audit(), served.audit_blind()] {
        assert_eq!(r.verdict, Verdict::Mismatch);
        let Some(Cause::UnreportedRows { decode, steps, needed, .. }) = r.causes.first() else {
            panic!("{:?}", r.causes)
        };
        assert_eq!((ranges(decode), *steps), (vec![2, 3], 7));
        assert_eq!(needed.min(), Some(1), "the prefill step shows nothing");
        assert_eq!(r.causes[0].headline(), "2 or 3 extra rows explain the bits of all 7 steps");
        assert_eq!(claim(&r, ClaimKind::Rows), Verdict::Mismatch);
        assert!(r.tried.iter().any(|t| t.outcome == Outcome::Contradicted && t.hypothesis == "computed on sm_80"));
    }
}

#[test]
fn a_varying_number_of_unreported_rows_is_still_found() {
    let served = Operator { extra_rows: |s| [0, 2, 2, 0, 4, 4, 1][s], ..Operator::default() }.serve();
    let r = served.audit();
    let Some(Cause::UnreportedRows { decode, by_step, .. }) = r.causes.first() else { panic!("{:?}", r.causes) };
    assert!(decode.is_empty());
    assert!(by_step[1].contains(2) && by_step[3].contains(0) && by_step[4].contains(4) && !by_step[4].contains(2));
}

#[test]
fn another_attention_split_is_told_from_extra_rows() {
    let served = Operator { splits: |s| s.with("attention", 5), ..Operator::default() }.serve();
    for r in [served.audit(), served.audit_blind()] {
        assert_eq!(r.verdict, Verdict::Mismatch);
        let Some(Cause::AttentionSplit { found, claimed, .. }) = r.causes.first() else { panic!("{:?}", r.causes) };
        assert_eq!(ranges(found), [5]);
        assert!(!claimed.contains(5));
        assert_eq!(r.divergence.as_ref().unwrap().origin.as_deref(), Some("attention of layer 0"));
    }
}

#[test]
fn another_split_k_is_named() {
    let served = Operator { splits: |s| s.with("gate_up", 2), ..Operator::default() }.serve();
    let r = served.audit();
    let Some(Cause::SplitK { choice, found, .. }) = r.causes.first() else { panic!("{:?}", r.causes) };
    assert_eq!((choice.as_str(), ranges(found)), ("gate_up.split_k", vec![2]));
}

#[test]
fn quantised_weights_are_named() {
    let machine = Machine { profile: "sm_90".into(), weights: WeightChange::Quantised("coarse".into()) };
    let r = Operator { machine, ..Operator::default() }.serve().audit();
    assert_eq!(r.verdict, Verdict::Mismatch);
    let Some(Cause::QuantisedWeights { scheme, .. }) = r.causes.first() else { panic!("{:?}", r.causes) };
    assert_eq!(scheme, "coarse");
}

fn flipped(tensor: &str, row: u32, column: u32, bit: u32) -> Served {
    let flip = WeightBit { tensor: tensor.into(), row, column, bit };
    let machine = Machine { profile: "sm_90".into(), weights: WeightChange::Bit(flip) };
    Operator { machine, ..Operator::default() }.serve()
}

#[test]
fn a_flipped_weight_bit_is_found_wherever_it_is() {
    for (tensor, row, column, bit) in [
        ("layers.0.qkv", 1, 2, 7),
        ("layers.1.qkv", 9, 0, 0),
        ("layers.0.o_proj", 3, 3, 14),
        ("layers.1.gate_up", 6, 1, 5),
        ("layers.0.down", 2, 2, 9),
        ("lm_head", 11, 3, 3),
        ("layers.1.mlp_norm", 0, 2, 6),
        ("embed", 4, 1, 8),
    ] {
        let r = flipped(tensor, row, column, bit).audit();
        assert_eq!(r.verdict, Verdict::Mismatch);
        let Some(Cause::WeightBit { tensor: t, row: r2, column: c, bit: b, from, to, .. }) = r.causes.first() else {
            panic!("{tensor}: {:?} {:?}", r.causes, r.tried)
        };
        assert_eq!((t.as_str(), *r2, *c, *b), (tensor, row, column, bit));
        let pattern = |hex: &str| u16::from_str_radix(hex, 16).unwrap();
        assert_eq!(pattern(from) ^ pattern(to), 1 << bit);
    }
}

#[test]
fn with_state_only_a_value_projection_flip_is_still_found_and_others_say_what_is_needed() {
    let value = flipped("layers.1.qkv", 9, 0, 0);
    let r = value.audit_with(&Toy::default(), state_only(&value.opened, &value.record), &Options::default());
    assert!(matches!(r.causes.first(), Some(Cause::WeightBit { row: 9, .. })), "{:?}", r.causes);

    let norm = flipped("layers.1.mlp_norm", 0, 2, 6);
    let r = norm.audit_with(&Toy::default(), state_only(&norm.opened, &norm.record), &Options::default());
    assert_eq!(r.verdict, Verdict::Mismatch);
    let Some(Cause::Unexplained { narrowed, needed }) = r.causes.first() else { panic!("{:?}", r.causes) };
    assert!(narrowed.contains("mlp_norm of layer 1"), "{narrowed}");
    assert!(needed.contains("level A") && needed.contains("layer 1"), "{needed}");
}

#[test]
fn a_swapped_token_is_ranked() {
    let served = Operator { emit: |r, i, ranked| ranked[usize::from(r == 1 && i == 3)], ..Operator::default() }.serve();
    let r = served.audit();
    assert_eq!(r.verdict, Verdict::Mismatch);
    assert_eq!(claim(&r, ClaimKind::Bits), Verdict::Match, "the logits match bit for bit");
    let Some(Cause::TokenSwapped { tokens, admissible }) = r.causes.first() else { panic!("{:?}", r.causes) };
    assert_eq!((tokens.len(), *admissible), (1, 13));
    assert_eq!((tokens[0].request.as_str(), tokens[0].output_index, tokens[0].rank), ("b", 3, Some(2)));
    assert_eq!(r.matrix.requests[1].cells[3].state, CellState::Token);
}

#[test]
fn another_seed_is_found_and_one_out_of_reach_is_counted() {
    let served = Operator { seeded: true, seed: |_| 1234, ..Operator::default() }.serve();
    let r = served.audit();
    assert_eq!((r.verdict, claim(&r, ClaimKind::Bits)), (Verdict::Mismatch, Verdict::Match));
    let Some(Cause::OtherSeed { logged, found, .. }) = r.causes.first() else { panic!("{:?}", r.causes) };
    assert_eq!((logged.as_str(), found.as_slice()), ("41", ["1234".to_owned()].as_slice()));

    let served = Operator { seeded: true, seed: |_| 0xdead_beef_0000, ..Operator::default() }.serve();
    let r = served.audit();
    let Some(Cause::OtherSeed { found, tried, .. }) = r.causes.first() else { panic!("{:?}", r.causes) };
    assert!(found.is_empty() && *tried > 4096);
    assert!(r.headline.contains("neither from the logged seed 41"), "{}", r.headline);
}

#[test]
fn a_token_changed_after_the_fact_is_betrayed_by_its_embedding() {
    // The operator fed another token at a prompt position than the one it logged.
    let served =
        Operator { feed: |r, p, token| if (r, p) == (0, 1) { 9 } else { token }, ..Operator::default() }.serve();
    let r = served.audit();
    let Some(Cause::OtherInput { position, logged, found, .. }) = r.causes.first() else {
        panic!("{:?} {:?}", r.causes, r.tried)
    };
    assert_eq!((*position, *logged, found.as_slice()), (1, 1, [9].as_slice()));
    assert_eq!(r.divergence.as_ref().unwrap().op, Some(Op::Embed));
}

#[test]
fn what_nothing_explains_is_a_mismatch_without_a_cause() {
    // Two changes at once: a machine and a split that are each tried alone.
    let operator =
        Operator { machine: Machine::declared("sm_80"), splits: |s| s.with("qkv", 7), ..Operator::default() };
    let r = operator.serve().audit();
    assert_eq!(r.verdict, Verdict::Mismatch);
    assert!(matches!(r.causes.first(), Some(Cause::Unexplained { .. })), "{:?}", r.causes);
    assert!(r.tried.iter().all(|t| t.outcome != Outcome::Explains));
}

#[test]
fn unknown_things_fail_closed() {
    let served = Operator::default().serve();
    let toy = Toy { profiles: vec!["sm_80"], policy_known: true };
    let r = served.audit_with(&toy, Opened::default(), &Options::default());
    assert_eq!(r.verdict, Verdict::Unverifiable);
    assert!(r.headline.contains("sm_90"), "{}", r.headline);

    let toy = Toy { policy_known: false, ..Toy::default() };
    let r = served.audit_with(&toy, Opened::default(), &Options::default());
    assert_eq!(r.verdict, Verdict::Unverifiable);

    let mut unspecified = Operator::default().serve();
    unspecified.record.stack.device.driver = record::Fact::Unspecified;
    let r = unspecified.audit();
    assert_eq!(r.verdict, Verdict::Inconclusive);
    assert!(r.headline.contains("/stack/device/driver"), "{}", r.headline);

    // Kernels are named by digest: when the steps ran, and how the host program was built, decides no bit.
    let mut untimed = Operator::default().serve();
    untimed.record.time = record::Fact::Unspecified;
    untimed.record.steps[3].time = record::Fact::Unspecified;
    untimed.record.stack.engine.build = record::Fact::Unspecified;
    assert_eq!(untimed.audit().verdict, Verdict::Match);

    let mut sampler = Operator::default().serve();
    sampler.record.requests[0].decode.sampler = "beam/3".into();
    let r = sampler.audit();
    assert_eq!(r.verdict, Verdict::Unverifiable);
    assert!(r.headline.contains("beam/3"), "{}", r.headline);
}

#[test]
fn a_mismatch_with_an_unspecified_field_accuses_nobody() {
    let mut served = Operator { machine: Machine::declared("sm_80"), ..Operator::default() }.serve();
    served.record.parallelism = record::Fact::Unspecified;
    let r = served.audit();
    assert_eq!((r.verdict, claim(&r, ClaimKind::Bits)), (Verdict::Inconclusive, Verdict::Mismatch));
}

#[test]
fn a_record_that_contradicts_itself_is_refused() {
    let mut served = Operator::default().serve();
    served.record.steps[2].leaves.swap(0, 1);
    let r = served.audit();
    assert_eq!(r.verdict, Verdict::Error);
    assert!(r.headline.contains("step 2"), "{}", r.headline);
    assert_eq!(claim(&r, ClaimKind::Bits), Verdict::Inconclusive);
}

#[test]
fn splits_that_the_policy_does_not_choose_betray_themselves() {
    // The operator logs honestly what it ran for two unlogged rows; the policy says otherwise for the logged rows.
    let mut served = Operator { extra_rows: |_| 2, ..Operator::default() }.serve();
    let mut chain = served.record.chain.before;
    for step in &mut served.record.steps {
        let rows: u32 = step.schedule.rows.iter().map(|r| r.count).sum();
        let splits = if rows > 2 { [1, 1] } else { [2, 2] };
        for op in &mut step.schedule.dispatch.ops {
            match op.op.as_str() {
                "qkv" | "down" => op.splits = splits[0],
                "attention" => op.splits = splits[1].min(op.splits.max(splits[1])),
                _ => {}
            }
        }
        let time = step.time.clone();
        *step = record::commit::seal(step.index, step.schedule.clone(), step.leaves.clone(), &chain).unwrap();
        step.time = time;
        chain = step.chain;
    }
    served.record.chain.after = chain;
    let r = served.audit();
    assert_eq!(claim(&r, ClaimKind::Dispatch), Verdict::Mismatch);
    assert_eq!(r.verdict, Verdict::Mismatch);
    let detail = &r.claims.iter().find(|c| c.claim == ClaimKind::Dispatch).unwrap().detail;
    assert!(detail.contains("more rows"), "{detail}");
}

#[test]
fn prefill_replay_needs_an_invariant_mode() {
    let options = Options { mode: Mode::Prefill, ..Options::default() };
    let served = Operator::default().serve();
    let r = served.audit_with(&Toy::default(), Opened::default(), &options);
    assert_eq!(r.verdict, Verdict::Unverifiable);
    assert!(r.headline.contains("throughput"), "{}", r.headline);
}

#[test]
fn two_audits_of_one_record_are_equal() {
    let served = Operator { extra_rows: |_| 3, ..Operator::default() }.serve();
    assert_eq!(served.audit(), served.audit());
}
