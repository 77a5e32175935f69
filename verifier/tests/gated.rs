//! Audits of margin-gated logs: by the schedule at level S with every decision of the gate, and by a prefill at level T without a schedule.

mod served;

use engine::Mode;
use engine::gated::{Judged, Prefill, Setup, Signal};
use margingate::{Margin, Settings, WriteBack};
use record::F32Bits;
use record::inference::{RowGate, RowKind};
use served::{Served, Serving};
use verifier::audit::Options;
use verifier::engine_replay::AtHand;
use verifier::plan::Mode as ReplayMode;
use verifier::result::{ClaimKind, Limits, RecordResult};
use verifier::{Level, Verdict};

fn gated(tau: f32, write_back: WriteBack) -> Setup {
    Setup::chosen(Settings { write_back, verify_rows: 4, patience: 2, ..Settings::new(tau) })
}

fn serving(setup: Setup) -> Serving {
    Serving { mode: Mode::Gated, gate: Some(setup), new_tokens: 12, ..Serving::default() }
}

fn audit(served: &Served, mode: ReplayMode) -> RecordResult {
    let options = Options { mode, limits: Limits { extra_rows: 4, splits: 2, seeds: 8 }, ..Options::default() };
    served.audit_on(&AtHand::emulated(served.model.clone(), 2, None), &options, false)
}

fn verdict(r: &RecordResult, kind: ClaimKind) -> Verdict {
    r.claims.iter().find(|c| c.claim == kind).map_or(Verdict::Inconclusive, |c| c.verdict)
}

fn rows(served: &Served) -> impl Iterator<Item = &RowGate> {
    served.record.steps.iter().flat_map(|s| &s.schedule.rows).filter_map(|r| r.gate.as_ref())
}

#[test]
fn honest_gated_records_match_both_ways() {
    let setups = [
        gated(0.6, WriteBack::Mismatch),
        Setup { signal: Signal::RowDistance, ..gated(0.6, WriteBack::Trigger) },
        gated(0.0, WriteBack::All),
        gated(0.6, WriteBack::CatchUp),
        Setup { prefill: Prefill::Throughput, ..gated(0.6, WriteBack::CatchUp) },
        Setup { prefill: Prefill::Throughput, ..gated(f32::INFINITY, WriteBack::Trigger) },
        Setup {
            settings: Settings { probe_every: 2, ..gated(0.1, WriteBack::Mismatch).settings },
            ..gated(0.1, WriteBack::Mismatch)
        },
    ];
    for setup in setups {
        let served = serving(setup.clone()).serve();
        assert!(rows(&served).any(|g| matches!(g, RowGate::Verified { .. })), "{setup:?}");
        let r = audit(&served, ReplayMode::Schedule);
        assert_eq!((r.verdict, r.level), (Verdict::Match, Some(Level::S)), "{setup:?}\n{:#?}", r.claims);
        assert_eq!(verdict(&r, ClaimKind::Gate), Verdict::Match);
        assert_eq!(verdict(&r, ClaimKind::Rows), Verdict::Indistinguishable, "steps of the reference show no rows");
        // Without batch, dispatch or repairs: the tokens alone.
        let t = audit(&served, ReplayMode::Prefill);
        assert_eq!((t.verdict, t.level), (Verdict::Match, Some(Level::T)), "{setup:?}\n{:#?}", t.claims);
        assert_eq!(verdict(&t, ClaimKind::Bits), Verdict::Inconclusive, "it never says more than it looked at");
    }
}

/// Columns are caught up in groups of rows, over two ranks as over one; more of them than a step takes come in parts.
#[test]
fn caught_up_records_match_on_ranks_and_in_parts() {
    let probed = |probe_every, probe_seed| Setup {
        settings: Settings { probe_every, probe_seed, ..gated(0.0, WriteBack::CatchUp).settings },
        ..gated(0.0, WriteBack::CatchUp)
    };
    let cases = [
        Serving { ranks: 2, claims_ranks: 2, ..serving(gated(0.6, WriteBack::CatchUp)) },
        Serving { new_tokens: 40, chunk: Some(3), ..serving(probed(9, 0)) },
        // The second request's steps are the reference's while the long prompt comes, over columns that are not all its own.
        Serving { long_prompt: 100, chunk: Some(7), new_tokens: 30, ..serving(probed(9, 0)) },
        // Chosen so that nothing is verified before the 157th step: more rows than one step takes.
        Serving { new_tokens: 165, ..serving(probed(150, 19)) },
    ];
    let last = cases.len() - 1;
    for (case, serving) in cases.into_iter().enumerate() {
        let served = serving.serve();
        let groups = || served.record.steps.iter().flat_map(|s| &s.schedule.rows).filter(|r| r.kind == RowKind::Verify);
        assert!(groups().any(|r| r.count > 1), "{case}");
        assert_eq!(groups().any(|r| r.logits == 0), case == last, "{case}");
        let r = audit(&served, ReplayMode::Schedule);
        assert_eq!((r.verdict, r.level), (Verdict::Match, Some(Level::S)), "{case}\n{:#?}", r.claims);
        for kind in [ClaimKind::Gate, ClaimKind::Scheduling, ClaimKind::Bits] {
            assert_eq!(verdict(&r, kind), Verdict::Match, "{case} {kind:?}\n{:#?}", r.claims);
        }
        // Where hardly anything is verified a flip may stand: then the tokens alone tell nothing.
        let t = audit(&served, ReplayMode::Prefill);
        assert!(
            t.verdict == Verdict::Match || (case > 0 && t.verdict == Verdict::Inconclusive),
            "{case}\n{:#?}",
            t.claims
        );
        assert_eq!(t.level, Some(Level::T));
    }
}

#[test]
fn seeded_records_match_too() {
    let served = Serving { seed: Some(5), ..serving(gated(0.6, WriteBack::CatchUp)) }.serve();
    for mode in [ReplayMode::Schedule, ReplayMode::Prefill] {
        let r = audit(&served, mode);
        // The seed is not derived from the nonce in this harness; everything that the gate is about holds.
        assert_eq!(verdict(&r, ClaimKind::Tokens), Verdict::Match, "{:#?}", r.claims);
    }
}

/// Each way of cheating the gate is named for what it is.
#[test]
fn cheating_operators_are_named() {
    let never: fn(Judged) -> Judged = |j| Judged { risk: Margin::INFINITE, ..j };
    let other: fn(Judged) -> Judged = |j| Judged { token: j.token ^ 1, ..j };
    let nudged: fn(RowGate) -> RowGate = |g| match g {
        RowGate::Commit { margin } => RowGate::Commit { margin: F32Bits(margin.0 + 1) },
        g => g,
    };
    let unrepaired: fn(RowGate) -> RowGate = |g| match g {
        RowGate::Verified { token, .. } => RowGate::Verified { token, repaired: false },
        g => g,
    };
    let base = || serving(gated(0.6, WriteBack::Trigger));
    let cases = [
        ("margin is", Serving { judge: never, ..base() }),
        ("held row chooses", Serving { judge: other, ..base() }),
        ("margin is", Serving { decided: nudged, ..base() }),
        ("columns are replaced", Serving { decided: unrepaired, ..base() }),
    ];
    for (words, serving) in cases {
        let r = audit(&serving.serve(), ReplayMode::Schedule);
        let claim = r.claims.iter().find(|c| c.claim == ClaimKind::Gate).unwrap();
        assert!(
            claim.detail.contains(words) || verdict(&r, ClaimKind::Bits) == Verdict::Mismatch,
            "{words}: {}",
            claim.detail
        );
        assert_eq!(r.verdict, Verdict::Mismatch, "{words}: {:#?}", r.claims);
    }
}

#[test]
fn a_swapped_token_is_found_with_and_without_the_schedule() {
    for (tau, write_back, by_prefill) in [
        (0.6, WriteBack::All, Verdict::Mismatch),
        // Every token is then said to be the reference's over its own columns.
        (f32::INFINITY, WriteBack::CatchUp, Verdict::Mismatch),
        (0.6, WriteBack::Mismatch, Verdict::Inconclusive),
        // A token above the threshold may be a miss of the gate.
        (0.0, WriteBack::CatchUp, Verdict::Inconclusive),
    ] {
        let served = Serving { swap: Some(7), ..serving(gated(tau, write_back)) }.serve();
        assert_eq!(audit(&served, ReplayMode::Schedule).verdict, Verdict::Mismatch);
        // Where columns may differ from the reference's, a token that differs accuses nobody: the schedule settles it.
        assert_eq!(audit(&served, ReplayMode::Prefill).verdict, by_prefill, "{write_back:?}");
    }
}

#[test]
fn what_is_not_known_of_a_gate_is_never_a_match() {
    type Edit = fn(&mut record::inference::Gate);
    let edits: [Edit; 4] = [
        |g| g.rule = "margin-gate/9".into(),
        |g| g.signal = "entropy/1".into(),
        |g| g.write_back = "window".into(),
        |g| g.tau = F32Bits(f32::NAN.to_bits()),
    ];
    let honest = serving(gated(0.6, WriteBack::Mismatch)).serve();
    for edit in edits {
        let mut record = honest.record.clone();
        edit(record.stack.gate.as_mut().unwrap());
        let served = Served { record, evidence: honest.evidence.clone(), model: honest.model.clone() };
        for mode in [ReplayMode::Schedule, ReplayMode::Prefill] {
            assert_ne!(audit(&served, mode).verdict, Verdict::Match);
        }
    }
    // Another policy than the one that replaced columns.
    for (logged, stated) in
        [(WriteBack::CatchUp, "trigger"), (WriteBack::Trigger, "catch-up"), (WriteBack::CatchUp, "all")]
    {
        let served = serving(gated(0.6, logged)).serve();
        let mut record = served.record.clone();
        record.stack.gate.as_mut().unwrap().write_back = stated.into();
        let served = Served { record, evidence: served.evidence, model: served.model };
        let r = audit(&served, ReplayMode::Schedule);
        assert_ne!(r.verdict, Verdict::Match, "{logged:?} as {stated}: {:#?}", r.claims);
    }
    // Another threshold than the one that decided.
    let mut record = honest.record.clone();
    record.stack.gate.as_mut().unwrap().tau = F32Bits::new(0.001);
    let served = Served { record, evidence: honest.evidence.clone(), model: honest.model.clone() };
    let r = audit(&served, ReplayMode::Schedule);
    assert_eq!(verdict(&r, ClaimKind::Gate), Verdict::Mismatch, "{:#?}", r.claims);
}

#[test]
fn records_whose_gate_does_not_fit_are_refused() {
    type Edit = fn(&mut record::Record);
    let edits: [(&str, Edit); 5] = [
        ("no gate", |r| r.stack.gate = None),
        ("another mode", |r| r.stack.mode = "throughput".into()),
        ("a decision missing", |r| r.steps[0].schedule.rows[0].gate = None),
        ("a verification at a decode row", |r| {
            for rows in r.steps.iter_mut().flat_map(|s| &mut s.schedule.rows).filter(|r| r.kind == RowKind::Verify) {
                rows.kind = RowKind::Decode;
            }
        }),
        ("another token verified", |r| {
            for rows in r.steps.iter_mut().flat_map(|s| &mut s.schedule.rows) {
                if let Some(RowGate::Verified { token, .. }) = &mut rows.gate {
                    *token ^= 1;
                }
            }
        }),
    ];
    let honest = serving(gated(0.6, WriteBack::Mismatch)).serve();
    honest.record.check().unwrap();
    for (what, edit) in edits {
        let mut record = honest.record.clone();
        edit(&mut record);
        assert!(record.check_whole().is_err(), "{what}");
        assert_ne!(
            audit(
                &Served { record, evidence: honest.evidence.clone(), model: honest.model.clone() },
                ReplayMode::Schedule
            )
            .verdict,
            Verdict::Match,
            "{what}"
        );
    }
}
