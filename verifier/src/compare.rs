//! Compares replayed rows with what the record commits to, and finds the first difference.
//!
//! A row is equal when its leaf is equal: the leaf hashes every output that its level covers. Where it is not, opened evidence says
//! which element of which output differs first; without evidence only the row can be named.

use crate::ops::{Op, Point};
use crate::replay::{Elements, Row, Tensor};
use crate::result::{Bits, Divergence, GrowthPoint};
use record::{Digest, Record, commit, inference::RowRef};
use std::collections::BTreeMap;

/// What an operator opened of one row, already checked against its leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenedRow {
    /// Tensor digests of the outputs.
    pub digests: BTreeMap<Point, Digest>,
    /// Outputs whose elements were opened.
    pub outputs: BTreeMap<Point, Tensor>,
}

/// Opened rows by step (index within the record) and leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened(BTreeMap<(usize, usize), OpenedRow>);

impl Opened {
    /// Adds a row.
    pub fn insert(&mut self, step: usize, leaf: usize, row: OpenedRow) {
        self.0.insert((step, leaf), row);
    }

    /// The opened row, if there is one.
    pub fn row(&self, step: usize, leaf: usize) -> Option<&OpenedRow> {
        self.0.get(&(step, leaf))
    }

    /// Adds the rows of a record whose first step is step `offset` here.
    pub fn absorb(&mut self, other: Self, offset: usize) {
        self.0.extend(other.0.into_iter().map(|((step, leaf), row)| ((step + offset, leaf), row)));
    }

    /// Number of opened rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when nothing was opened.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The first difference of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Index of the row within its step.
    pub leaf: usize,
    /// The first compared output that differs, when one could be named.
    pub point: Option<Point>,
    /// First differing element.
    pub index: Option<u32>,
    /// Its patterns.
    pub bits: Option<Bits>,
    /// Digests, logged then replayed, when the elements were not opened.
    pub digests: Option<[String; 2]>,
    /// Elements of the output that differ.
    pub differing: Option<u32>,
    /// Elements of the output.
    pub elements: u32,
    /// The last compared output before it up to which everything agrees.
    pub agrees_until: Option<Point>,
}

/// Compares a replayed row with its leaf; `None` when they agree.
///
/// # Errors
/// [`record::Error`] when the replayed outputs do not fill their shapes: a bug of the replayer.
pub fn row(
    record: &Record,
    step: usize,
    at: &RowRef,
    replayed: &Row,
    opened: Option<&OpenedRow>,
) -> Result<Option<Difference>, record::Error> {
    let components = replayed.components(record.evidence)?;
    let logged = record.steps.get(step).and_then(|s| s.leaves.get(at.leaf));
    let replayed_leaf = record.row_id(at).map(|id| commit::leaf(&id, &components));
    if logged.is_some() && replayed_leaf.as_ref() == logged {
        return Ok(None);
    }
    let mut difference = Difference {
        leaf: at.leaf,
        point: None,
        index: None,
        bits: None,
        digests: logged.zip(replayed_leaf).map(|(l, r)| [l.to_string(), r.to_string()]),
        differing: None,
        elements: 0,
        agrees_until: None,
    };
    let Some(opened) = opened else { return Ok(Some(difference)) };
    for (point, ours) in &replayed.outputs {
        let Some(theirs) = opened.outputs.get(point) else {
            let Some(logged) = opened.digests.get(point) else { continue };
            let replayed = ours.view().digest()?;
            if replayed != *logged {
                difference.point = Some(*point);
                difference.elements = ours.len() as u32;
                difference.digests = Some([logged.to_string(), replayed.to_string()]);
                return Ok(Some(difference));
            }
            if settles(*point, opened) {
                difference.agrees_until = Some(*point);
            }
            continue;
        };
        if let Some((index, differing)) = tensors(theirs, ours) {
            difference.point = Some(*point);
            difference.index = Some(index as u32);
            difference.differing = Some(differing);
            difference.elements = ours.len() as u32;
            difference.digests = None;
            difference.bits = theirs.hex_at(index).zip(ours.hex_at(index)).map(|(logged, replayed)| Bits {
                dtype: ours.dtype().name().to_owned(),
                logged,
                replayed,
            });
            return Ok(Some(difference));
        }
        if settles(*point, opened) {
            difference.agrees_until = Some(*point);
        }
    }
    Ok(Some(difference))
}

/// Whether agreement at `point` means that everything before it agrees. Columns of K and V, and q, are parts of one product: where that was not opened, one part says
/// nothing of the others.
fn settles(point: Point, opened: &OpenedRow) -> bool {
    let qkv = Point { op: Op::Qkv, ..point };
    !matches!(point.op, Op::RopeQ | Op::K | Op::V)
        || opened.outputs.contains_key(&qkv)
        || opened.digests.contains_key(&qkv)
}

/// First differing element and how many differ; `None` when equal. Tensors of unlike type or length differ from element 0 on.
fn tensors(theirs: &Tensor, ours: &Tensor) -> Option<(usize, u32)> {
    fn first<T: PartialEq>(a: &[T], b: &[T]) -> Option<(usize, u32)> {
        let mut differing = a.iter().zip(b).enumerate().filter(|(_, (x, y))| x != y).map(|(i, _)| i);
        let index = differing.next()?;
        Some((index, 1 + differing.count() as u32))
    }
    if theirs.shape != ours.shape || theirs.len() != ours.len() {
        return Some((0, ours.len() as u32));
    }
    match (&theirs.bits, &ours.bits) {
        (Elements::Bf16(a), Elements::Bf16(b)) => first(a, b),
        (Elements::F32(a), Elements::F32(b)) => first(a, b),
        _ => Some((0, ours.len() as u32)),
    }
}

/// The earliest difference of a step: the earliest operation over all rows, the first row among equals.
pub fn earliest(differences: &[Difference]) -> Option<&Difference> {
    differences.iter().min_by_key(|d| (d.point.is_none(), d.point, d.leaf))
}

/// The difference as the document states it.
pub fn divergence(record: &Record, step: usize, at: &RowRef, d: &Difference, differing_rows: usize) -> Divergence {
    let between = match (d.agrees_until, d.point) {
        (Some(until), Some(point)) => until.until(point),
        (None, Some(point)) => vec![point],
        _ => Vec::new(),
    };
    Divergence {
        step: step as u32,
        request: record.requests.get(at.request as usize).map_or_else(String::new, |r| r.id.clone()),
        position: at.position,
        op: d.point.map(|p| p.op),
        layer: d.point.and_then(|p| p.layer),
        index: d.index,
        bits: d.bits.clone(),
        digests: d.digests.clone(),
        differing: d.differing,
        elements: d.elements,
        rows_differing: differing_rows as u32,
        rows: record.steps.get(step).map_or(0, |s| s.leaves.len() as u32),
        agrees_until: d.agrees_until.map(|p| p.to_string()),
        between: between.iter().map(ToString::to_string).collect(),
        origin: None,
    }
}

/// How far a row's opened outputs lie from the replayed ones, in order of execution.
pub fn growth(replayed: &Row, opened: &OpenedRow) -> Vec<GrowthPoint> {
    let points = replayed.outputs.iter().filter_map(|(point, ours)| Some((point, ours, opened.outputs.get(point)?)));
    points
        .map(|(point, ours, theirs)| GrowthPoint {
            op: point.op,
            layer: point.layer,
            differing: tensors(theirs, ours).map_or(0, |(_, n)| n),
            elements: ours.len() as u32,
            max_ulp: (0..ours.len())
                .filter_map(|i| Some(ulps(theirs.at(i)?, ours.at(i)?, ours.dtype().size() as u32 * 8)))
                .max()
                .unwrap_or(0),
        })
        .collect()
}

/// Distance of two patterns of a sign-and-magnitude format of `width` bits, in units in the last place.
///
/// **Bits.** Patterns are mapped to integers that ascend with the value, both zeros to 0; NaNs lie beyond infinity.
fn ulps(a: u32, b: u32, width: u32) -> u32 {
    let ordered = |bits: u32| {
        let magnitude = i64::from(bits & ((1_u32 << (width - 1)) - 1));
        if bits >> (width - 1) & 1 == 1 { -magnitude } else { magnitude }
    };
    u32::try_from((ordered(a) - ordered(b)).unsigned_abs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_cross_zero() {
        assert_eq!(ulps(0x3f80, 0x3f81, 16), 1);
        assert_eq!(ulps(0x8000, 0x0000, 16), 0);
        assert_eq!(ulps(0x8001, 0x0001, 16), 2);
        assert_eq!(ulps(0xff80_0000, 0x7f80_0000, 32), 0xff00_0000);
    }

    #[test]
    fn tensors_of_unlike_kind_differ_everywhere() {
        let a = Tensor::bf16(vec![2], vec![1, 2]);
        assert_eq!(tensors(&a, &a), None);
        assert_eq!(tensors(&Tensor::bf16(vec![2], vec![1, 3]), &a), Some((1, 1)));
        assert_eq!(tensors(&Tensor::f32(vec![2], vec![1, 2]), &a), Some((0, 2)));
        assert_eq!(tensors(&Tensor::bf16(vec![3], vec![1, 2, 3]), &a), Some((0, 2)));
    }

    #[test]
    fn the_earliest_operation_wins_over_the_first_row() {
        let d = |leaf, point| Difference {
            leaf,
            point,
            index: None,
            bits: None,
            digests: None,
            differing: None,
            elements: 0,
            agrees_until: None,
        };
        let all = [
            d(0, None),
            d(1, Some(Point::at(1, Op::K))),
            d(2, Some(Point::at(0, Op::V))),
            d(3, Some(Point::at(0, Op::V))),
        ];
        assert_eq!(earliest(&all).unwrap().leaf, 2);
        assert_eq!(earliest(&[]), None);
    }
}
