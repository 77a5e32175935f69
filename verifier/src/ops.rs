//! The operation graph as the verifier walks it: places in it, their order, and what a difference at each means.
//!
//! The operations are the engine's: records, evidence and taps use the same names. Source: `docs/spec/audit-result.md`, *Operations*.

pub use engine::ops::Op;

/// One output of the operation graph: an operation, in a layer if it belongs to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// The layer, for operations that belong to one.
    pub layer: Option<u32>,
    /// The operation.
    pub op: Op,
}

impl Point {
    /// A point outside the layers.
    pub const fn global(op: Op) -> Self {
        Self { layer: None, op }
    }

    /// A point inside a layer.
    pub const fn at(layer: u32, op: Op) -> Self {
        Self { layer: Some(layer), op }
    }

    /// The name under which records and evidence list this output: `layers.3.silu_mul`, or `embed`.
    pub fn path(self) -> String {
        match self.layer {
            Some(layer) => format!("layers.{layer}.{}", self.op.name()),
            None => self.op.name().to_owned(),
        }
    }

    /// The point of that path.
    pub fn by_path(path: &str) -> Option<Self> {
        let point = match path.strip_prefix("layers.").and_then(|rest| rest.split_once('.')) {
            Some((layer, op)) => Self { layer: Some(layer.parse().ok()?), op: Op::from_name(op)? },
            None => Self::global(Op::from_name(path)?),
        };
        (point.layer.is_some() == point.op.in_layer() && point.path() == path).then_some(point)
    }

    /// Sort key in order of execution.
    fn key(self) -> (u64, Op) {
        let place = match (self.op, self.layer) {
            (Op::Embed, _) => 0,
            (_, Some(layer)) => 1 + u64::from(layer),
            (_, None) => u64::MAX,
        };
        (place, self.op)
    }

    /// The points strictly after `self` and up to and including `end`, in order of execution: where an unobserved first
    /// difference may lie when `self` is known to agree and `end` to differ.
    pub fn until(self, end: Self) -> Vec<Self> {
        let first_layer = match self.op {
            Op::Embed => 0,
            _ => self.layer.unwrap_or(u32::MAX),
        };
        let mut points = Vec::new();
        let mut push = |p: Self| {
            if p > self && p <= end {
                points.push(p);
            }
        };
        push(Self::global(Op::Embed));
        if first_layer != u32::MAX {
            // `end` outside the layers: how deep the model is is not known here, and only the last layer known to agree matters.
            let last_layer = end.layer.unwrap_or(first_layer);
            for layer in first_layer..=last_layer {
                for op in Op::LAYER {
                    push(Self::at(layer, op));
                }
            }
        }
        push(Self::global(Op::FinalNorm));
        push(Self::global(Op::LmHead));
        points
    }
}

impl PartialOrd for Point {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Point {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.layer {
            Some(layer) => write!(f, "{} of layer {layer}", self.op.name()),
            None => f.write_str(self.op.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_sort_in_order_of_execution() {
        let order = [
            Point::global(Op::Embed),
            Point::at(0, Op::AttnNorm),
            Point::at(0, Op::MlpResidual),
            Point::at(1, Op::AttnNorm),
            Point::global(Op::FinalNorm),
            Point::global(Op::LmHead),
        ];
        assert!(order.is_sorted());
    }

    #[test]
    fn what_lies_between_two_observations() {
        let names: Vec<String> =
            Point::global(Op::Embed).until(Point::at(0, Op::K)).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["attn_norm of layer 0", "qkv of layer 0", "rope_q of layer 0", "k of layer 0"]);
        let last = Point::at(3, Op::MlpResidual).until(Point::global(Op::LmHead));
        assert_eq!(last, [Point::global(Op::FinalNorm), Point::global(Op::LmHead)]);
        assert_eq!(Point::at(0, Op::V).until(Point::at(0, Op::V)), []);
    }

    #[test]
    fn paths_go_both_ways() {
        for point in [Point::global(Op::LmHead), Point::at(12, Op::SiluMul)] {
            assert_eq!(Point::by_path(&point.path()), Some(point));
        }
        for bad in ["layers.01.k", "layers.1.embed", "k", "layers.1", "layers.x.k", ""] {
            assert_eq!(Point::by_path(bad), None, "{bad}");
        }
    }
}
