//! The gate at work on a machine without a model: what the list of tests of the specification asks for and needs no model.

mod machine;

use machine::{FLIPS_BELOW, LAYERS, Machine, RANKS, Row, column, truth};
use margingate::{Decision, Gate, Margin, Settings, WriteBack};

const PROMPTS: [u32; 9] = [3, 14, 15, 92, 65, 35, 89, 79, 32];

fn alone(end: usize) -> Vec<Vec<u32>> {
    let one = |prompt: &u32| {
        let mut tokens = vec![*prompt, *prompt + 1];
        (0..end)
            .map(|_| {
                let token = truth(&tokens).0;
                tokens.push(token);
                token
            })
            .collect()
    };
    PROMPTS.iter().map(one).collect()
}

fn settings(tau: f32) -> Settings {
    Settings { verify_rows: 4, patience: 3, ..Settings::new(tau) }
}

#[test]
fn outputs_do_not_depend_on_the_batch() {
    let expected = alone(40);
    let mut flipped = 0;
    for (most, seed) in [1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 44, 45, 64].into_iter().zip(0..) {
        let mut plain = Machine::new(&PROMPTS, 40);
        plain.serve(settings(0.0), most, seed);
        flipped += u32::from(plain.outputs() != expected);
        for write_back in WriteBack::ALL {
            for patience in [0, 3, 100] {
                let mut machine = Machine::new(&PROMPTS, 40);
                let gate = machine.serve(Settings { write_back, patience, ..settings(FLIPS_BELOW) }, most, seed);
                assert_eq!(machine.outputs(), expected, "{most} {write_back:?} {patience}");
                assert_eq!(gate.meter().misses, 0);
                assert!(machine.shapes.iter().all(|(rows, shape)| *rows <= 4 && *shape == 4), "one constant shape");
            }
        }
    }
    assert!(flipped >= 11, "without a gate every batch larger than one shows: {flipped}");
}

#[test]
fn restarts_repeat_every_decision() {
    let run = || {
        let mut machine = Machine::new(&PROMPTS, 30);
        let gate = machine.serve(Settings { probe_every: 5, ..settings(0.2) }, 6, 7);
        (machine.outputs(), machine.shapes, machine.memory, gate.meter(), gate.tau())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_threshold_of_zero_never_verifies() {
    let mut machine = Machine::new(&PROMPTS, 40);
    let gate = machine.serve(settings(0.0), 8, 1);
    assert_eq!((gate.meter().triggered, machine.shapes.len()), (0, 0));
}

/// Every row verified: the same tokens and the same columns, whether by the threshold or by the policy.
#[test]
fn an_infinite_threshold_is_always_on() {
    let run = |s: Settings| {
        let mut machine = Machine::new(&PROMPTS, 25);
        let gate = machine.serve(s, 5, 3);
        assert_eq!(gate.meter().triggered, gate.meter().judged);
        (machine.outputs(), machine.memory)
    };
    let by_policy = run(Settings { write_back: WriteBack::All, ..settings(0.0) });
    let by_threshold = run(Settings { write_back: WriteBack::Trigger, ..settings(f32::INFINITY) });
    assert_eq!(by_policy, by_threshold);
    assert_eq!(by_policy.0, alone(25));
}

#[test]
fn write_back_reaches_every_rank_layer_and_scale_or_none() {
    for write_back in WriteBack::ALL {
        let mut machine = Machine::new(&PROMPTS, 30);
        let mut gate = Gate::new(Settings { write_back, patience: 0, ..settings(FLIPS_BELOW) }).unwrap();
        let (mut repaired, mut kept) = (0, 0);
        for _ in 0..29 {
            let before = machine.memory.len();
            machine.step(&mut gate, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
            let fast = machine.memory.clone();
            while gate.due(true) {
                for v in machine.verify(&mut gate) {
                    let Row { request, position } = v.held.row;
                    let s = &machine.requests[&request];
                    let place = s.places[position];
                    assert!(place >= before, "the current column");
                    let reference = column(&s.tokens[..=position], 0);
                    assert_eq!(reference.len() as u32, RANKS * LAYERS * 2);
                    let (now, other) = (&machine.memory[place], &fast[place]);
                    assert_eq!(now, if v.repaired { &reference } else { other });
                    assert_eq!(v.repaired, v.mismatch || write_back != WriteBack::Mismatch);
                    repaired += u32::from(v.repaired);
                    kept += u32::from(!v.repaired);
                }
            }
            // Nothing else was touched.
            let touched = machine.memory.iter().zip(&fast).filter(|(a, b)| a != b).count();
            assert!(touched <= 9);
        }
        assert!(repaired > 0 && (kept > 0) == (write_back == WriteBack::Mismatch), "{write_back:?}");
    }
}

/// A shared page is one place: whoever looks sees the repaired column. Repairing again changes nothing.
#[test]
fn aliases_see_the_repair_and_repairs_are_idempotent() {
    let mut machine = Machine::new(&PROMPTS[..3], 20);
    let mut gate = Gate::new(Settings { write_back: WriteBack::Trigger, ..settings(f32::INFINITY) }).unwrap();
    machine.step(&mut gate, &[0, 1, 2]);
    let place = machine.requests[&0].places[1];
    machine.requests.entry(2).or_default().places[1] = place;
    let verified = machine.verify(&mut gate);
    let after = machine.memory[machine.requests[&2].places[1]].clone();
    let again: Vec<&Row> = verified.iter().filter(|v| v.held.request == 0).map(|v| &v.held.row).collect();
    let Ok(tokens) = margingate::Reference::verify(&mut machine, &again, 4);
    let Ok(()) = margingate::Reference::write_back(&mut machine, again[0], true);
    // Request 2 verified last, over the shared place; request 0 again writes its own.
    assert_eq!(tokens[0], verified[0].token);
    assert_eq!(machine.memory[place], column(&machine.requests[&0].tokens[..2], 0));
    assert_ne!(after, machine.memory[place]);
}

#[test]
fn two_triggers_of_one_step_share_a_batch() {
    let mut machine = Machine::new(&PROMPTS, 10);
    let mut gate = Gate::new(settings(f32::INFINITY)).unwrap();
    machine.step(&mut gate, &[4, 1]);
    assert_eq!(gate.held().map(|h| h.request).collect::<Vec<_>>(), [4, 1]);
    assert!(!gate.due(true) && gate.due(false));
    assert!(machine.requests.values().all(|s| s.streamed.is_empty()), "released only after the decision");
    let verified = machine.verify(&mut gate);
    assert_eq!((verified.len(), &machine.shapes[..]), (2, &[(2, 4)][..]));
    assert_eq!((gate.meter().batches, gate.meter().padding), (1, 2));
    assert_eq!(machine.requests[&4].streamed.len(), 1);
}

#[test]
fn others_go_on_while_a_row_waits_but_not_for_ever() {
    let mut machine = Machine::new(&PROMPTS, 10);
    let mut gate = Gate::new(Settings { patience: 2, ..settings(f32::INFINITY) }).unwrap();
    machine.step(&mut gate, &[0]);
    gate.hold(99, 0, Margin::new(0.0), Decision::Hold, Row { request: 0, position: 0 });
    gate.forget(99);
    assert_eq!(gate.held().count(), 1);
    // Request 0 waits: it takes part in no step.
    let fed = machine.fed;
    machine.step(&mut gate, &[0, 1]);
    assert_eq!(machine.fed, fed + 1);
    assert!(gate.due(true), "the first has waited two steps");
}

#[test]
fn a_request_cancelled_while_it_waits_is_forgotten() {
    let mut machine = Machine::new(&PROMPTS, 10);
    let mut gate = Gate::new(settings(f32::INFINITY)).unwrap();
    machine.step(&mut gate, &[0, 1, 2]);
    machine.requests.remove(&1);
    gate.forget(1);
    let verified = machine.verify(&mut gate);
    assert_eq!(verified.iter().map(|v| v.held.request).collect::<Vec<_>>(), [0, 2]);
    assert!(!gate.due(false));
}

#[test]
fn a_step_of_the_reference_has_nothing_to_verify() {
    let mut gate: Gate<()> = Gate::new(Settings { write_back: WriteBack::All, ..settings(f32::INFINITY) }).unwrap();
    assert_eq!(gate.judge(Margin::new(0.0), true, 0, 0), Decision::Reference);
    assert_eq!(gate.meter().judged, 0);
}

/// Synthetic mismatches of 0 to 100 %: the work grows in proportion, the outputs stay.
#[test]
fn injected_mismatches_cost_in_proportion() {
    let expected = alone(60);
    let mut work = Vec::new();
    for injected in [0, 10, 25, 50, 75, 100] {
        let mut machine = Machine::new(&PROMPTS, 60);
        machine.injected = injected;
        let gate = machine.serve(Settings { patience: 1000, ..settings(1e-6) }, 1, 2);
        assert_eq!(machine.outputs(), expected, "{injected}");
        let m = gate.meter();
        assert_eq!(m.mismatches, m.triggered);
        work.push((m.triggered as f64 / m.judged as f64, m.triggered as f64));
    }
    assert!(work.is_sorted_by(|a, b| a.1 < b.1));
    assert!((work[5].0 - 1.0).abs() < 1e-12);
    let fit = margingate::cost::Fit::of(&work).unwrap();
    assert!((fit.full - 540.0).abs() < 1e-6 && fit.fixed.abs() < 1e-6, "{fit:?}");
}

#[test]
fn a_miss_found_by_a_probe_raises_the_threshold() {
    // The threshold is too low: flips up to 0.25 are missed, and probes find some of them.
    let mut machine = Machine::new(&PROMPTS, 400);
    let gate = machine.serve(Settings { probe_every: 4, safety: 0.0, ..settings(0.05) }, 8, 11);
    let m = gate.meter();
    assert!(m.misses > 0 && m.probes > 100, "{m:?}");
    assert!(gate.tau() > 0.05 && gate.tau() < FLIPS_BELOW);
    // One in four, about.
    let high = m.judged - m.triggered;
    assert!((0.15..0.35).contains(&(m.probes as f64 / high as f64)), "{m:?}");
}

#[test]
fn nonsense_is_refused() {
    for bad in [
        settings(-1.0),
        settings(f32::NAN),
        Settings { verify_rows: 0, ..settings(1.0) },
        Settings { safety: f32::NAN, ..settings(1.0) },
    ] {
        assert!(Gate::<()>::new(bad).is_err());
    }
    for p in WriteBack::ALL {
        assert_eq!(WriteBack::from_name(p.name()), Some(p));
    }
    assert_eq!(WriteBack::from_name("window"), None);
}
