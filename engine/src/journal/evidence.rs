//! A row's tensors as step commitments want them (`docs/spec/step-commitments.md`).

use record::{Digest, EvidenceLevel, RowComponents, RowEvidence, RowId, TensorView};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::ops::Op;
use crate::step::{Row, StepOutput, TapBits};

/// Shapes of a row's tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowShapes {
    logits: Vec<u64>,
    column: Vec<u64>,
    hidden: Vec<u64>,
    /// By operation.
    ops: Vec<(Op, Vec<u64>)>,
}

impl RowShapes {
    /// Shapes for a configuration.
    pub fn of(config: &Config) -> Self {
        Self {
            logits: Op::LmHead.row_shape(config),
            column: Op::K.row_shape(config),
            hidden: Op::Embed.row_shape(config),
            ops: Op::all().map(|op| (op, op.row_shape(config))).collect(),
        }
    }

    fn op(&self, op: Op) -> &[u64] {
        self.ops.iter().find(|o| o.0 == op).map_or(&[], |o| &o.1)
    }
}

/// What a row left behind, as commitments and evidence files take it.
///
/// # Errors
/// [`Error::Plan`] if the step did not bring back what the level commits to: see [`Observe`](crate::step::Observe).
pub fn evidence<'a>(
    shapes: &'a RowShapes,
    output: &'a StepOutput,
    row: usize,
    level: EvidenceLevel,
) -> Result<RowEvidence<'a>> {
    let missing = |what: &str| Error::Plan { detail: format!("row {row} has no {what}; evidence needs it observed") };
    let index = row;
    let row = output.rows.get(index).ok_or_else(|| missing("place in the step"))?;
    if row.k.is_empty() || row.boundaries.is_empty() {
        return Err(missing("state"));
    }
    if row.top2.is_some() != row.logits.is_some() {
        return Err(missing("logits"));
    }
    Ok(RowEvidence {
        logits: row.logits.as_ref().map(|bits| TensorView::f32(&shapes.logits, bits)),
        k: pieces(&row.k, &shapes.column),
        v: pieces(&row.v, &shapes.column),
        boundaries: pieces(&row.boundaries, &shapes.hidden),
        activations: match level {
            EvidenceLevel::S => None,
            EvidenceLevel::A => Some(activations(shapes, output, index)),
        },
    })
}

/// The tensors of one shape that lie one after another.
fn pieces<'a>(bits: &'a [u16], shape: &'a [u64]) -> Vec<TensorView<'a>> {
    bits.chunks_exact(shape.iter().product::<u64>() as usize).map(|p| TensorView::bf16(shape, p)).collect()
}

/// Every tapped result of one row, in order of execution, by path.
fn activations<'a>(shapes: &'a RowShapes, output: &'a StepOutput, row: usize) -> Vec<(String, TensorView<'a>)> {
    let mut all = Vec::new();
    for tap in &output.taps {
        let Some(at) = tap.rows.iter().position(|r| *r == row) else { continue };
        let (width, shape) = (tap.width as usize, shapes.op(tap.at.op));
        let view = match &tap.bits {
            TapBits::Bf16(bits) => TensorView::bf16(shape, &bits[at * width..][..width]),
            TapBits::F32(bits) => TensorView::f32(shape, &bits[at * width..][..width]),
        };
        all.push((tap.at.path(), view));
    }
    all
}

/// The leaf of a row of a request.
pub fn leaf(request: &str, row: &Row, chosen: Option<u32>, components: &RowComponents) -> Digest {
    let id = RowId { request, position: row.position, token: row.token, chosen };
    record::commit::leaf(&id, components)
}
