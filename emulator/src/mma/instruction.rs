//! What a matrix instruction *is*: its family, shape and element types. What silicon *does* with it is [`crate::profile`]'s.

use crate::format::Elem;
use std::fmt;

/// The mnemonic an instruction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `mma.sync` (and WMMA, which is issued as chained `mma` steps).
    Mma,
    /// `wgmma.mma_async` (Hopper).
    Wgmma,
    /// `tcgen05.mma` (Blackwell datacentre).
    Tcgen05,
}

impl Family {
    /// The name used by vectors and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mma => "mma",
            Self::Wgmma => "wgmma",
            Self::Tcgen05 => "tcgen05.mma",
        }
    }

    /// The family of this name, or `None`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Mma, Self::Wgmma, Self::Tcgen05].into_iter().find(|f| f.name() == name)
    }
}

/// `D[m,n] = A[m,k] B[k,n] + C[m,n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Shape {
    pub m: u32,
    pub n: u32,
    pub k: u32,
}

/// m16n8k32.
pub const M16N8K32: Shape = Shape { m: 16, n: 8, k: 32 };
/// m16n8k16.
pub const M16N8K16: Shape = Shape { m: 16, n: 8, k: 16 };
/// m16n8k8.
pub const M16N8K8: Shape = Shape { m: 16, n: 8, k: 8 };
/// m16n8k4.
pub const M16N8K4: Shape = Shape { m: 16, n: 8, k: 4 };
/// m8n8k4.
pub const M8N8K4: Shape = Shape { m: 8, n: 8, k: 4 };

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}n{}k{}", self.m, self.n, self.k)
    }
}

/// Element types of the four matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Types {
    pub d: Elem,
    pub a: Elem,
    pub b: Elem,
    pub c: Elem,
}

impl Types {
    /// A and B of one type, C and D of another.
    #[must_use]
    pub const fn new(ab: Elem, cd: Elem) -> Self {
        Self { d: cd, a: ab, b: ab, c: cd }
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.d, self.a, self.b, self.c)
    }
}

/// A dense matrix instruction. Printed in PTX order: `mma m16n8k16.f32.bf16.bf16.f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Instruction {
    pub family: Family,
    pub shape: Shape,
    pub types: Types,
}

impl Instruction {
    /// A warp-level `mma.sync`.
    #[must_use]
    pub const fn mma(shape: Shape, types: Types) -> Self {
        Self { family: Family::Mma, shape, types }
    }

    /// Reads `m16n8k16.f32.bf16.bf16.f32` (for `wgmma` and `tcgen05.mma` without the last type, which equals the first).
    /// `None` for anything else: block-scaled and unknown forms are not instructions of this kind.
    #[must_use]
    pub fn parse(family: &str, text: &str) -> Option<Self> {
        let family = Family::by_name(family)?;
        let mut parts = text.split('.');
        let shape = parse_shape(parts.next()?)?;
        let types: Vec<Elem> = parts.map(Elem::by_name).collect::<Option<_>>()?;
        let types = match (family, types[..].as_ref()) {
            (Family::Mma, &[d, a, b, c]) => Types { d, a, b, c },
            (Family::Wgmma | Family::Tcgen05, &[d, a, b]) => Types { d, a, b, c: d },
            _ => return None,
        };
        Some(Self { family, shape, types })
    }
}

fn parse_shape(text: &str) -> Option<Shape> {
    let rest = text.strip_prefix('m')?;
    let (m, rest) = rest.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some(Shape { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}", self.family.name(), self.shape, self.types)
    }
}
