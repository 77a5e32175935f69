//! The operation graph as the verifier walks it: names, order, and what a difference at each point means.
//!
//! The names are those that records, evidence and the engine's taps use. Source: `docs/spec/audit-result.md`, *Operations*.

use serde::{Deserialize, Serialize};

/// One operation of the forward pass. The order of the variants is the order of execution within a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names are the documentation: they are the stored words
pub enum Op {
    Embed,
    AttnNorm,
    Qkv,
    RopeQ,
    K,
    V,
    Attention,
    OProj,
    AttnResidual,
    MlpNorm,
    GateUp,
    SiluMul,
    Down,
    MlpResidual,
    FinalNorm,
    LmHead,
}

impl Op {
    /// Every operation, in order.
    pub const ALL: [Self; 16] = [
        Self::Embed,
        Self::AttnNorm,
        Self::Qkv,
        Self::RopeQ,
        Self::K,
        Self::V,
        Self::Attention,
        Self::OProj,
        Self::AttnResidual,
        Self::MlpNorm,
        Self::GateUp,
        Self::SiluMul,
        Self::Down,
        Self::MlpResidual,
        Self::FinalNorm,
        Self::LmHead,
    ];

    /// The stored word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embed => "embed",
            Self::AttnNorm => "attn_norm",
            Self::Qkv => "qkv",
            Self::RopeQ => "rope_q",
            Self::K => "k",
            Self::V => "v",
            Self::Attention => "attention",
            Self::OProj => "o_proj",
            Self::AttnResidual => "attn_residual",
            Self::MlpNorm => "mlp_norm",
            Self::GateUp => "gate_up",
            Self::SiluMul => "silu_mul",
            Self::Down => "down",
            Self::MlpResidual => "mlp_residual",
            Self::FinalNorm => "final_norm",
            Self::LmHead => "lm_head",
        }
    }

    /// The operation of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    /// True when the operation runs on the tensor cores, whose arithmetic differs between GPU generations.
    pub const fn on_tensor_cores(self) -> bool {
        matches!(self, Self::Qkv | Self::Attention | Self::OProj | Self::GateUp | Self::Down | Self::LmHead)
    }

    /// True for the operations that belong to a layer.
    pub const fn in_layer(self) -> bool {
        !matches!(self, Self::Embed | Self::FinalNorm | Self::LmHead)
    }
}

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
            Some((layer, op)) => Self { layer: Some(layer.parse().ok()?), op: Op::by_name(op)? },
            None => Self::global(Op::by_name(path)?),
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
                for op in Op::ALL.into_iter().filter(|op| op.in_layer()) {
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
    fn names_go_both_ways() {
        for op in Op::ALL {
            assert_eq!(Op::by_name(op.name()), Some(op));
            assert_eq!(serde_json::to_string(&op).unwrap(), format!("\"{}\"", op.name()));
        }
        assert_eq!(Op::by_name("wgmma"), None);
        for point in [Point::global(Op::LmHead), Point::at(12, Op::SiluMul)] {
            assert_eq!(Point::by_path(&point.path()), Some(point));
        }
        for bad in ["layers.01.k", "layers.1.embed", "k", "layers.1", "layers.x.k", ""] {
            assert_eq!(Point::by_path(bad), None, "{bad}");
        }
    }
}
