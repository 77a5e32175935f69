//! The tables of a record result that the report draws: requests by steps, and margins.

use crate::plan::Plan;
use crate::result::{Cell, CellState, MarginBin, Margins, MatrixRow, StepColumn, StepMatrix};
use crate::tokens::{Sampled, TokenCheck};
use crate::walk::Walk;
use record::Record;
use std::collections::BTreeMap;

/// Requests by steps of the record, whatever the plan's passes were.
pub fn matrix(record: &Record, plan: &Plan, walk: Option<&Walk>, tokens: &TokenCheck) -> StepMatrix {
    // Worst state of each (request, step).
    let mut cells: BTreeMap<(u32, usize), Cell> = BTreeMap::new();
    for (pass, item) in plan.items.iter().enumerate() {
        let finding = walk.and_then(|w| w.findings.get(pass));
        for (row, (step, at)) in item.rows.iter().enumerate() {
            let state = match finding {
                None => CellState::Unchecked,
                Some(f) if f.differing.iter().any(|(s, d)| s == step && d.leaf == at.leaf) => CellState::Mismatch,
                Some(_) if tokens.wrong.iter().any(|(p, r, _)| (*p, *r) == (pass, row)) => CellState::Token,
                Some(_) => CellState::Match,
            };
            let cell = cells.entry((at.request, *step)).or_insert(Cell { rows: 0, state });
            cell.rows += 1;
            if severity(state) > severity(cell.state) {
                cell.state = state;
            }
        }
    }
    let steps = record.steps.iter().enumerate().map(|(index, step)| StepColumn {
        rows: step.leaves.len() as u32,
        choices: crate::plan::declared_splits(record, index).words(),
    });
    let requests = record.requests.iter().enumerate().map(|(r, request)| MatrixRow {
        request: request.id.clone(),
        cells: (0..record.steps.len())
            .map(|s| cells.get(&(r as u32, s)).copied().unwrap_or(Cell { rows: 0, state: CellState::Absent }))
            .collect(),
    });
    StepMatrix { steps: steps.collect(), requests: requests.collect() }
}

const fn severity(state: CellState) -> u8 {
    match state {
        CellState::Absent => 0,
        CellState::Match => 1,
        CellState::Unchecked => 2,
        CellState::Token => 3,
        CellState::Mismatch => 4,
    }
}

/// Margins between the two largest logits of each sampled row.
///
/// **Bits.** The margin is the f32 difference of the two, rounded to nearest even; its exponent is read from the pattern.
pub fn margins(sampled: &[Sampled]) -> Margins {
    let mut bins: BTreeMap<i32, u32> = BTreeMap::new();
    let mut out = Margins::default();
    for logits in sampled.iter().filter_map(|s| s.logits.as_deref()) {
        let mut top = [f32::NEG_INFINITY; 2];
        for value in logits.iter().map(|b| f32::from_bits(*b)) {
            if value > top[0] {
                top = [value, top[0]];
            } else if value > top[1] {
                top[1] = value;
            }
        }
        let margin = top[0] - top[1];
        if !margin.is_finite() {
            continue;
        }
        out.positions += 1;
        if margin == 0.0 {
            out.ties += 1;
            continue;
        }
        let exponent = (margin.to_bits() >> 23 & 0xff) as i32 - 127;
        *bins.entry(exponent).or_default() += 1;
    }
    if let (Some(first), Some(last)) = (bins.keys().next().copied(), bins.keys().last().copied()) {
        out.bins =
            (first..=last).map(|e| MarginBin { exponent: e, count: bins.get(&e).copied().unwrap_or(0) }).collect();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_fall_into_powers_of_two_without_gaps() {
        let s = |logits: &[f32]| Sampled {
            request: 0,
            position: 0,
            token: 0,
            pass: 0,
            row: 0,
            logits: Some(logits.iter().map(|f| f.to_bits()).collect()),
        };
        let m = margins(&[s(&[1.0, 2.5, 0.0]), s(&[4.0, -4.0]), s(&[3.0, 3.0]), s(&[f32::NAN, f32::NAN])]);
        assert_eq!((m.positions, m.ties), (3, 1));
        let bins: Vec<_> = m.bins.iter().map(|b| (b.exponent, b.count)).collect();
        assert_eq!(bins, [(0, 1), (1, 0), (2, 0), (3, 1)]);
    }
}
