//! From what an operator opened to what the comparison uses. Evidence is checked against the record's leaves first.

use crate::compare::{Opened, OpenedRow};
use crate::ops::{Op, Point};
use crate::replay::{Elements, Tensor};
use record::{DType, Digest, Evidence, Record, evidence};

/// Opens an `.evidence` file of a record.
///
/// # Errors
/// Why it is not evidence of this record, in words: the audit reports that, and uses nothing of it.
pub fn open(file: &[u8], record: &Record) -> Result<Opened, String> {
    let evidence = Evidence::from_file(file).map_err(|e| e.to_string())?;
    evidence.check(record).map_err(|e| e.to_string())?;
    Ok(opened(&evidence, record))
}

/// The rows of evidence that [`Evidence::check`] accepted.
pub fn opened(evidence: &Evidence, record: &Record) -> Opened {
    let first = record.steps.first().map_or(0, |s| s.index);
    let mut out = Opened::default();
    for row in &evidence.rows {
        let Some(step) = row.step.checked_sub(first).and_then(|s| usize::try_from(s).ok()) else { continue };
        let mut opened = OpenedRow::default();
        let mut add = |point: Point, digest: &Digest| {
            opened.digests.insert(point, *digest);
            if let Some(tensor) = evidence.tensor(digest).and_then(tensor) {
                opened.outputs.insert(point, tensor);
            }
        };
        for (layer, (k, v)) in (0..).zip(row.k.iter().zip(&row.v)) {
            add(Point::at(layer, Op::K), k);
            add(Point::at(layer, Op::V), v);
        }
        for (i, boundary) in (0_u32..).zip(&row.boundaries) {
            let point = i.checked_sub(1).map_or(Point::global(Op::Embed), |layer| Point::at(layer, Op::MlpResidual));
            add(point, boundary);
        }
        if let Some(logits) = &row.logits {
            add(Point::global(Op::LmHead), logits);
        }
        for (path, digest) in row.activations.iter().flatten() {
            if let Some(point) = Point::by_path(path) {
                add(point, digest);
            }
        }
        out.insert(step, row.leaf as usize, opened);
    }
    out
}

/// Bit patterns of the types that a forward pass has; others stay closed.
fn tensor(t: &evidence::Tensor) -> Option<Tensor> {
    let bits = match t.dtype {
        DType::Bf16 => Elements::Bf16(t.bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect()),
        DType::F32 => {
            Elements::F32(t.bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
        }
        _ => return None,
    };
    Some(Tensor { shape: t.shape.clone(), bits })
}
