//! One bit of one weight: when every row first differs in one and the same output element, the weights behind that element are few.
//!
//! Everything before the first difference agrees, so the replayed inputs of the operation are the logged ones. For a matrix product each
//! of the `K * 16` single-bit changes of the weight row is tried on the logged outputs of several rows; what survives is replayed in full.

use super::machine::{self, Explained};
use super::origin;
use crate::compare::Difference;
use crate::error::Error;
use crate::ops::{Op, Point};
use crate::replay::{Elements, Machine, Row, WeightBit, WeightChange, WeightRow};
use crate::result::{Cause, Outcome, Trial};
use crate::walk::Context;

/// Most rows that candidates are tried on before they are replayed.
const ROWS: usize = 16;
/// Most surviving candidates that are replayed in full.
const REPLAYED: usize = 32;

/// A row of the pass as the search uses it.
struct Sample<'a> {
    /// Replayed outputs of every operation.
    row: &'a Row,
    /// The logged pattern of the element.
    logged: u32,
}

/// Searches the single-bit changes of the weights behind the first difference.
///
/// # Errors
/// [`Error`] when a replay fails.
pub fn attempt(
    context: &Context<'_>,
    claimed: &Machine,
    pass: usize,
    differing: &[(usize, Difference)],
) -> Result<(Trial, Option<(Cause, Explained)>), Error> {
    let hypothesis = "one bit of one weight is flipped".to_owned();
    let give_up = |outcome, detail: String| Ok((Trial { hypothesis: hypothesis.clone(), outcome, detail }, None));
    let differences: Vec<_> = differing.iter().map(|(_, d)| d.clone()).collect();
    let Some((point, index)) = element(&differences) else {
        let detail = "the first differences of the rows do not lie in one element of one output";
        return give_up(Outcome::NotTried, detail.to_owned());
    };
    let Some(item) = context.plan.items.get(pass) else {
        return give_up(Outcome::NotTried, "no such step".to_owned());
    };
    let rows = origin::taps(context, claimed, pass, &item.declared)?;
    let mut samples = Vec::new();
    let mut token = None;
    for (i, ((step, at), row)) in item.rows.iter().zip(&rows).enumerate() {
        let differs =
            differences.iter().any(|d| d.leaf == at.leaf && differing.iter().any(|(s, e)| s == step && e == d));
        let opened = context.opened.row(*step, at.leaf).and_then(|o| o.outputs.get(&point));
        let logged = match (opened, differs) {
            (Some(tensor), _) => tensor.at(index as usize),
            // A row whose leaf agrees has the replayed outputs.
            (None, false) => row.outputs.get(&point).and_then(|t| t.at(index as usize)),
            (None, true) => None,
        };
        if differs && token.is_none() {
            token = nth_token(item, i);
        }
        samples.extend(logged.map(|logged| Sample { row, logged }));
    }
    // Rows that differ say most: they are tried first.
    samples.sort_by_key(|s| s.row.outputs.get(&point).and_then(|t| t.at(index as usize)) == Some(s.logged));
    samples.truncate(ROWS);
    let Some(weights) = context.replayer.weights(point, index, token.unwrap_or(0)) else {
        return give_up(Outcome::NotTried, format!("{point} is not computed from weights of one row"));
    };
    let splits = item.declared.of(match point.op {
        Op::V => Op::Qkv.name(),
        Op::MlpResidual => Op::Down.name(),
        op => op.name(),
    });
    let candidates = candidates(context, &claimed.profile, point, index, &weights, &samples, splits)?;
    let tried = weights.values.len() * 16;
    if candidates.is_empty() {
        return give_up(
            Outcome::Contradicted,
            format!("none of {tried} changes of {}[{}] gives the logged bits", weights.tensor, weights.row),
        );
    }
    let survivors = candidates.len();
    let mut found: Vec<(WeightBit, Explained)> = Vec::new();
    for bit in candidates.into_iter().take(REPLAYED) {
        let machine = Machine { profile: claimed.profile.clone(), weights: WeightChange::Bit(bit.clone()) };
        let (_, explained) = machine::attempt(context, machine, String::new(), pass)?;
        found.extend(explained.map(|e| (bit, e)));
    }
    let words = |b: &WeightBit| format!("{}[{}, {}] bit {}", b.tensor, b.row, b.column, b.bit);
    let equivalent = found.iter().skip(1).map(|(b, _)| words(b)).collect();
    let detail = format!(
        "{tried} changes of {}[{}] tried on {} rows, {survivors} replayed in full, {} explain every bit",
        weights.tensor,
        weights.row,
        samples.len(),
        found.len()
    );
    let Some((bit, explained)) = found.into_iter().next() else {
        return give_up(Outcome::Contradicted, detail);
    };
    let from = weights.values.get((bit.column - weights.first_column) as usize).copied().unwrap_or(0);
    let cause = Cause::WeightBit {
        tensor: bit.tensor,
        row: bit.row,
        column: bit.column,
        bit: bit.bit,
        from: format!("{from:04x}"),
        to: format!("{:04x}", from ^ 1 << bit.bit),
        origin: point.to_string(),
        equivalent,
        steps: context.plan.items.len() as u32,
    };
    Ok((Trial { hypothesis, outcome: Outcome::Explains, detail }, Some((cause, explained))))
}

/// The one element in which every row that differs at the earliest output differs there, if there is one.
fn element(differences: &[Difference]) -> Option<(Point, u32)> {
    let first = crate::compare::earliest(differences)?;
    let (point, index) = (first.point?, first.index?);
    let here = differences.iter().filter(|d| d.point == Some(point));
    here.into_iter().all(|d| d.index == Some(index) && d.differing == Some(1)).then_some((point, index))
}

fn nth_token(item: &crate::plan::Item, row: usize) -> Option<u32> {
    item.input.groups.iter().flat_map(|g| &g.tokens).nth(row).copied()
}

/// Changes that give every sample's logged pattern.
fn candidates(
    context: &Context<'_>,
    profile: &str,
    point: Point,
    index: u32,
    weights: &WeightRow,
    samples: &[Sample<'_>],
    splits: u32,
) -> Result<Vec<WeightBit>, Error> {
    let mut out = Vec::new();
    for (column, value) in weights.values.iter().enumerate() {
        for bit in 0..16 {
            let changed = value ^ 1 << bit;
            let fits = match point.op {
                Op::Embed => samples.iter().any(|s| s.logged == u32::from(changed)),
                // Sixteen candidates only: all of them are replayed.
                Op::AttnNorm | Op::MlpNorm | Op::FinalNorm => true,
                _ => {
                    let mut w = weights.values.clone();
                    w[column] = changed;
                    let w = WeightRow { values: w, ..weights.clone() };
                    gives(context, profile, point, index, &w, samples, splits)?
                }
            };
            if fits {
                out.push(WeightBit {
                    tensor: weights.tensor.clone(),
                    row: weights.row,
                    column: weights.first_column + column as u32,
                    bit,
                });
            }
        }
    }
    Ok(out)
}

/// True when the weight row gives every sample's logged pattern.
fn gives(
    context: &Context<'_>,
    profile: &str,
    point: Point,
    index: u32,
    weights: &WeightRow,
    samples: &[Sample<'_>],
    splits: u32,
) -> Result<bool, Error> {
    let layer = point.layer.unwrap_or(0);
    let input = match point.op {
        Op::Qkv | Op::V => Point::at(layer, Op::AttnNorm),
        Op::OProj => Point::at(layer, Op::Attention),
        Op::GateUp => Point::at(layer, Op::MlpNorm),
        Op::Down | Op::MlpResidual => Point::at(layer, Op::SiluMul),
        Op::LmHead => Point::global(Op::FinalNorm),
        _ => return Ok(false),
    };
    for s in samples {
        let Some(Elements::Bf16(x)) = s.row.outputs.get(&input).map(|t| &t.bits) else { continue };
        let sum = context.replayer.dot(profile, (point.op, index), x, &weights.values, splits)?;
        let got = match point.op {
            Op::LmHead => sum,
            Op::MlpResidual => {
                let before = s.row.outputs.get(&Point::at(layer, Op::AttnResidual)).and_then(|t| t.at(index as usize));
                added(before.unwrap_or(0), sum)
            }
            _ => weights.bias.map_or_else(|| u32::from(to_bf16(sum)), |bias| added(bias.into(), sum)),
        };
        if got != s.logged {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A product rounded to bf16 and added to a bf16, as bf16. A proposal only, confirmed by replay: the host's addition decides nothing.
fn added(bf16: u32, product: u32) -> u32 {
    let sum = f32::from_bits(bf16 << 16) + f32::from_bits(u32::from(to_bf16(product)) << 16);
    u32::from(to_bf16(sum.to_bits()))
}

/// f32 bits to bf16, to nearest even; NaN stays a NaN.
const fn to_bf16(bits: u32) -> u16 {
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_nearest_even() {
        assert_eq!(to_bf16(0x3f80_8000), 0x3f80);
        assert_eq!(to_bf16(0x3f81_8000), 0x3f82);
        assert_eq!(to_bf16(0x3f80_8001), 0x3f81);
        assert_eq!(to_bf16(0x7f7f_ffff), 0x7f80);
        assert_eq!(to_bf16(0xff80_0001), 0xffc0);
    }

    #[test]
    fn one_element_or_none() {
        let d = |leaf, point, index, differing| Difference {
            leaf,
            point: Some(point),
            index: Some(index),
            bits: None,
            digests: None,
            differing: Some(differing),
            elements: 8,
            agrees_until: None,
        };
        let down = Point::at(1, Op::Down);
        assert_eq!(element(&[d(0, down, 3, 1), d(1, down, 3, 1)]), Some((down, 3)));
        assert_eq!(element(&[d(0, down, 3, 1), d(1, down, 4, 1)]), None);
        assert_eq!(element(&[d(0, down, 3, 2)]), None);
        assert_eq!(
            element(&[d(0, down, 3, 1), d(1, Point::at(2, Op::K), 0, 8)]),
            Some((down, 3)),
            "later outputs may all differ"
        );
    }
}
