//! What a matrix instruction *is*: its family, shape, element types and modifier. What silicon *does* with it is [`crate::profile`]'s.

mod text;

use crate::format::Elem;

/// The mnemonic an instruction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `mma.sync` (and WMMA, which is issued as chained `mma` steps).
    Mma,
    /// `wgmma.mma_async` (Hopper).
    Wgmma,
    /// `tcgen05.mma` (Blackwell datacentre).
    Tcgen05,
    /// `v_mfma` (AMD CDNA).
    Mfma,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 4] = [Self::Mma, Self::Wgmma, Self::Tcgen05, Self::Mfma];

    /// The name used by vectors and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mma => "mma",
            Self::Wgmma => "wgmma",
            Self::Tcgen05 => "tcgen05.mma",
            Self::Mfma => "mfma",
        }
    }

    /// The family of this name, or `None`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }
}

/// `D[m,n] = A[m,k] B[k,n] + C[m,n]`. AMD instructions of several blocks do so for each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Shape {
    pub m: u32,
    pub n: u32,
    pub k: u32,
}

impl Shape {
    /// A shape.
    #[must_use]
    pub const fn new(m: u32, n: u32, k: u32) -> Self {
        Self { m, n, k }
    }
}

/// m16n8k64.
pub const M16N8K64: Shape = Shape::new(16, 8, 64);
/// m16n8k32.
pub const M16N8K32: Shape = Shape::new(16, 8, 32);
/// m16n8k16.
pub const M16N8K16: Shape = Shape::new(16, 8, 16);
/// m16n8k8.
pub const M16N8K8: Shape = Shape::new(16, 8, 8);
/// m16n8k4.
pub const M16N8K4: Shape = Shape::new(16, 8, 4);
/// m8n8k4.
pub const M8N8K4: Shape = Shape::new(8, 8, 4);

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

/// What else an instruction says, if it changes the arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Modifier {
    /// Nothing.
    None,
    /// `.block_scale`: A and B carry one scale for every `block` elements of K.
    BlockScale {
        /// Elements that share a scale.
        block: u32,
        /// Element type of the scales.
        scale: Elem,
    },
    /// `.satfinite` of an integer instruction: clamp instead of wrapping.
    Satfinite,
    /// `.xor.popc` of a one-bit instruction.
    XorPopc,
    /// `.and.popc` of a one-bit instruction.
    AndPopc,
    /// `_1k` of AMD's bf16 instructions: four elements a lane. CDNA3 has only these and leaves the suffix out.
    OneK,
}

/// A dense matrix instruction. Printed as its vendor writes it: `mma m16n8k16.f32.bf16.bf16.f32`, `mfma f32_32x32x8f16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Instruction {
    pub family: Family,
    pub shape: Shape,
    pub types: Types,
    pub modifier: Modifier,
}

impl Instruction {
    /// A warp-level `mma.sync` without modifier.
    #[must_use]
    pub const fn mma(shape: Shape, types: Types) -> Self {
        Self { family: Family::Mma, shape, types, modifier: Modifier::None }
    }

    /// Independent blocks an AMD instruction multiplies at once: what fills the registers of 64 lanes. `None` if nothing does.
    pub(crate) fn mfma_blocks(&self) -> Option<u32> {
        let elements_per_lane = match (self.types.a, self.modifier) {
            (Elem::F64 | Elem::F32, Modifier::None) => 1,
            (Elem::Xf32 | Elem::Bf16, Modifier::None) => 2,
            (Elem::F16, Modifier::None) | (Elem::Bf16, Modifier::OneK) => 4,
            (Elem::Fp8Fnuz | Elem::Bf8Fnuz, Modifier::None) => 8,
            _ => return None,
        };
        let one_block = self.shape.m.checked_mul(self.shape.k)?;
        let all: u32 = 64 * elements_per_lane;
        (one_block > 0 && all.is_multiple_of(one_block)).then(|| all / one_block)
    }
}
