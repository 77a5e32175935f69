//! From what an engine step leaves behind to rows that are compared.

use crate::ops::{Op, Point};
use crate::replay::{Row, Tensor};
use engine::config::Config;
use engine::step::{StepOutput, TapBits};
use std::collections::BTreeMap;

/// The rows of a step's output, in batch order; `requests` gives the request of each group.
///
/// A row holds what the step observed: the state, and every tap.
pub fn rows(output: &StepOutput, config: &Config, requests: &[u32]) -> Vec<Row> {
    let shape = |op: Op| op.row_shape(config);
    let (column, hidden) = (shape(Op::K), shape(Op::Embed));
    let width = |shape: &[u64]| shape.iter().product::<u64>().max(1) as usize;
    let mut out: Vec<Row> = Vec::new();
    for row in &output.rows {
        let mut outputs = BTreeMap::new();
        for (op, bits) in [(Op::K, &row.k), (Op::V, &row.v)] {
            for (layer, piece) in (0..).zip(bits.chunks_exact(width(&column))) {
                outputs.insert(Point::at(layer, op), Tensor::bf16(column.clone(), piece.to_vec()));
            }
        }
        for (i, piece) in (0_u32..).zip(row.boundaries.chunks_exact(width(&hidden))) {
            let point = i.checked_sub(1).map_or(Point::global(Op::Embed), |layer| Point::at(layer, Op::MlpResidual));
            outputs.insert(point, Tensor::bf16(hidden.clone(), piece.to_vec()));
        }
        if let Some(bits) = &row.logits {
            outputs.insert(Point::global(Op::LmHead), Tensor::f32(shape(Op::LmHead), bits.clone()));
        }
        let request = requests.get(row.group).copied().unwrap_or(u32::MAX);
        out.push(Row { request, position: row.position, outputs });
    }
    for tap in &output.taps {
        let (point, width) = (Point { layer: tap.at.layer, op: tap.at.op }, tap.width as usize);
        for (i, row) in tap.rows.iter().enumerate() {
            let range = i * width..(i + 1) * width;
            let tensor = match &tap.bits {
                TapBits::Bf16(bits) => bits.get(range).map(|b| Tensor::bf16(shape(tap.at.op), b.to_vec())),
                TapBits::F32(bits) => bits.get(range).map(|b| Tensor::f32(shape(tap.at.op), b.to_vec())),
            };
            if let (Some(row), Some(tensor)) = (out.get_mut(*row), tensor) {
                row.outputs.insert(point, tensor);
            }
        }
    }
    out
}
