//! `invariant` and `portable`: a row's bits depend on its own tokens only. `throughput`: they depend on the shape of the step, and on nothing else.

mod common;

use common::{engine, group, kjv, prefill};
use engine::kv::Slot;
use engine::step::{Group, Logits, Observe, Row};
use engine::{Dispatch, Engine, Mode};
use proptest::prelude::*;

/// A batch: the tokens of each request, and its steps as (request, rows) in batch order.
#[derive(Clone, Debug)]
struct Schedule {
    requests: Vec<Vec<u32>>,
    steps: Vec<Vec<(usize, usize)>>,
}

/// Random requests, cut into random chunks (single rows are decoding, whole requests are prefill), in random company and order.
fn schedules() -> impl Strategy<Value = Schedule> {
    let request = prop::collection::vec(0u32..1024, 1..40);
    let pick = (any::<u8>(), any::<prop::sample::Index>(), 1usize..24);
    let picks = prop::collection::vec(prop::collection::vec(pick, 1..5), 40);
    (prop::collection::vec(request, 1..5), picks).prop_map(|(requests, picks)| {
        let mut left: Vec<usize> = requests.iter().map(Vec::len).collect();
        let mut steps = Vec::new();
        for wanted in picks {
            let mut step: Vec<(usize, usize)> = Vec::new();
            for (single, who, rows) in wanted {
                let request = who.index(requests.len());
                let rows = if single % 3 == 0 { 1 } else { rows }.min(left[request]);
                if rows > 0 && step.iter().all(|(r, _)| *r != request) {
                    left[request] -= rows;
                    step.push((request, rows));
                }
            }
            steps.extend((!step.is_empty()).then_some(step));
        }
        // Whatever the picks left over goes in one last step, in reverse order.
        let rest: Vec<(usize, usize)> = left.iter().copied().enumerate().filter(|(_, rows)| *rows > 0).rev().collect();
        steps.extend((!rest.is_empty()).then_some(rest));
        Schedule { requests, steps }
    })
}

/// All rows of a request, in order of position, by a schedule.
fn run(engine: &mut Engine, schedule: &Schedule, dispatch: Option<Dispatch>) -> Vec<Vec<Row>> {
    let slots: Vec<Slot> = schedule.requests.iter().map(|_| engine.open().unwrap()).collect();
    let mut rows: Vec<Vec<Row>> = schedule.requests.iter().map(|_| Vec::new()).collect();
    for step in &schedule.steps {
        let groups: Vec<Group> = step
            .iter()
            .map(|(request, count)| {
                let start = rows[*request].len();
                let tokens = &schedule.requests[*request][start..start + count];
                group(slots[*request], start as u32, tokens, Logits::All)
            })
            .collect();
        let mut plan = engine.plan(groups, Observe::STATE);
        plan.dispatch = dispatch.unwrap_or(plan.dispatch);
        for row in engine.step(&plan).unwrap().rows {
            rows[step[row.group].0].push(row);
        }
    }
    for slot in slots {
        engine.close(slot).unwrap();
    }
    rows
}

type Bits<'a> = (u32, Option<&'a [u32]>, [&'a [u16]; 3]);

/// Bits of a row, and nothing about where it stood.
fn bits(row: &Row) -> Bits<'_> {
    (row.position, row.logits.as_deref(), [&row.k, &row.v, &row.boundaries])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn invariant_rows_have_the_bits_they_have_alone(schedule in schedules()) {
        as_alone(Mode::Invariant, &schedule)?;
    }

    #[test]
    fn portable_rows_have_the_bits_they_have_alone(schedule in schedules()) {
        as_alone(Mode::Portable, &schedule)?;
    }
}

fn as_alone(mode: Mode, schedule: &Schedule) -> Result<(), TestCaseError> {
    let mut engine = engine(&kjv(), mode);
    let together = run(&mut engine, schedule, None);
    for (tokens, rows) in schedule.requests.iter().zip(&together) {
        let alone = prefill(&mut engine, tokens, Observe::STATE).rows;
        prop_assert_eq!(rows.len(), alone.len());
        for (row, lone) in rows.iter().zip(&alone) {
            prop_assert!(bits(row) == bits(lone), "position {}", row.position);
        }
    }
    Ok(())
}

fn decode_row(engine: &mut Engine, others: usize, dispatch: Option<Dispatch>) -> Row {
    let tokens: Vec<u32> = (0..40).map(|i| 100 + 7 * i).collect();
    let slots: Vec<Slot> = (0..=others).map(|_| engine.open().unwrap()).collect();
    // The same prompt bits for every batch size: prefilled alone, without splits.
    for slot in &slots {
        let mut plan = engine.plan(vec![group(*slot, 0, &tokens, Logits::None)], Observe::TOKENS);
        plan.dispatch = Dispatch::UNSPLIT;
        engine.step(&plan).unwrap();
    }
    let groups = slots.iter().enumerate().map(|(i, s)| group(*s, 40, &[5 + i as u32], Logits::Last)).collect();
    let mut plan = engine.plan(groups, Observe::STATE);
    plan.dispatch = dispatch.unwrap_or(plan.dispatch);
    let row = engine.step(&plan).unwrap().rows.swap_remove(0);
    for slot in slots {
        engine.close(slot).unwrap();
    }
    row
}

/// Two unreported rows leave a trace in `throughput`, and replaying with the dispatch of the true batch finds the same bits.
#[test]
fn throughput_bits_are_a_signature_of_the_batch() {
    let mut engine = engine(&kjv(), Mode::Throughput);
    let one = decode_row(&mut engine, 0, None);
    let three = decode_row(&mut engine, 2, None);
    assert_ne!(bits(&one), bits(&three));
    let shape = |rows| engine::policy::Shape { rows, logits_rows: rows, max_kv: 41 };
    let of_three = engine.dispatch(shape(3));
    assert_eq!(bits(&decode_row(&mut engine, 0, Some(of_three))), bits(&three));
    let of_one = engine.dispatch(shape(1));
    assert_eq!(bits(&decode_row(&mut engine, 2, Some(of_one))), bits(&one));
}

/// Up to 8 rows, every class of `throughput/1` leaves other bits in a single row, rows of one class do not; and no batch size
/// changes `invariant`. (Above 8 rows only bf16 results are split, and one row alone seldom tells two classes apart.)
#[test]
fn row_classes_show_in_the_bits() {
    let mut engine = engine(&kjv(), Mode::Throughput);
    let rows: Vec<Row> = [1, 2, 3, 4, 5, 7].iter().map(|n| decode_row(&mut engine, n - 1, None)).collect();
    for (i, a) in rows.iter().enumerate() {
        assert!(rows[i + 1..].iter().all(|b| bits(a) != bits(b)), "class {i}");
    }
    assert_eq!(bits(&decode_row(&mut engine, 5, None)), bits(&rows[4]));
    let mut invariant = common::engine(&kjv(), Mode::Invariant);
    assert_eq!(bits(&decode_row(&mut invariant, 0, None)), bits(&decode_row(&mut invariant, 6, None)));
}

/// The content of the other rows does not matter, only their number.
#[test]
fn neighbours_contents_do_not_matter() {
    let mut engine = engine(&kjv(), Mode::Throughput);
    let run = |engine: &mut Engine, other: &[u32]| {
        let (a, b) = (engine.open().unwrap(), engine.open().unwrap());
        let plan =
            engine.plan(vec![group(a, 0, &[1, 2, 3], Logits::All), group(b, 0, other, Logits::All)], Observe::STATE);
        let rows = engine.step(&plan).unwrap().rows;
        engine.close(a).unwrap();
        engine.close(b).unwrap();
        rows[..3].to_vec()
    };
    let first = run(&mut engine, &[9, 9, 9, 9]);
    let second = run(&mut engine, &[1000, 3, 512, 77]);
    assert!(first.iter().zip(&second).all(|(a, b)| bits(a) == bits(b)));
}
