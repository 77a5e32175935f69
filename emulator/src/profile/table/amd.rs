//! AMD CDNA (`gpu-arithmetic` 4).

use super::{
    Confidence, FusedOp, Mark, MmaRow, Operands, Profile, Shapes, Unmodelled, Vendor, XM, chain, row, switches,
};
use crate::format::Elem::{self, Bf8Fnuz, Bf16, F16, F32, F64, Fp8Fnuz, Xf32};
use crate::mma::{Family, Modifier, Shape};

const fn square(mn: u32, k: u32) -> Shape {
    Shape::new(mn, mn, k)
}

const F32_SHAPES: Shapes = Shapes::Listed(&[square(32, 1), square(16, 1), square(4, 1), square(32, 2), square(16, 4)]);
/// Four elements a lane: f16, and bf16 of the `_1k` form.
const FOUR_A_LANE: Shapes =
    Shapes::Listed(&[square(32, 4), square(16, 4), square(4, 4), square(32, 8), square(16, 16)]);
/// Two elements a lane: bf16 of the first form.
const TWO_A_LANE: Shapes = Shapes::Listed(&[square(32, 2), square(16, 2), square(4, 2), square(32, 4), square(16, 8)]);
const XF32_SHAPES: Shapes = Shapes::Listed(&[square(32, 4), square(16, 8)]);
const FP8_SHAPES: Shapes = Shapes::Listed(&[square(32, 16), square(16, 32)]);
const F64_SHAPES: Shapes = Shapes::Listed(&[square(16, 4), square(4, 4)]);

/// Rules the released simulator cannot run.
const PAPER_KM: Mark = (
    Confidence::Simulator,
    "MMA-Sim paper, version 2; Khattak and Mikaitis's MI100 model agrees; not in the released code",
);
const PAPER: Mark = (Confidence::Simulator, "MMA-Sim paper, version 2; the released code cannot run it");

const fn mfma(shapes: Shapes, ab: &'static [Elem], modifiers: &'static [Modifier], op: FusedOp, mark: Mark) -> MmaRow {
    MmaRow { op, modifiers, ..row(Family::Mfma, shapes, Operands::Same(ab), F32, (1, 0), mark) }
}

const fn truncated(max_terms: usize, interleaved: bool) -> FusedOp {
    FusedOp::TrFdpa { max_terms, fraction: 24, sum_fraction: 31, interleaved }
}

const PLAIN: &[Modifier] = &[Modifier::None];
const ONE_K: &[Modifier] = &[Modifier::OneK];

const F32_CHAIN: MmaRow = chain(Family::Mfma, F32_SHAPES, &[F32], XM);
const F64_CHAIN: MmaRow = chain(Family::Mfma, F64_SHAPES, &[F64], XM);

const CDNA1: [MmaRow; 3] = [
    F32_CHAIN,
    mfma(FOUR_A_LANE, &[F16], PLAIN, FusedOp::ExactFdpa { max_terms: 4 }, PAPER_KM),
    mfma(TWO_A_LANE, &[Bf16], PLAIN, FusedOp::ExactFdpa { max_terms: 2 }, PAPER_KM),
];
const CDNA2: [MmaRow; 5] = [
    F32_CHAIN,
    F64_CHAIN,
    mfma(FOUR_A_LANE, &[F16], PLAIN, FusedOp::FtzAddMul { group: 4 }, PAPER),
    mfma(FOUR_A_LANE, &[Bf16], ONE_K, FusedOp::FtzAddMul { group: 4 }, PAPER),
    mfma(TWO_A_LANE, &[Bf16], PLAIN, FusedOp::FtzAddMul { group: 2 }, PAPER),
];
const CDNA3: [MmaRow; 6] = [
    F32_CHAIN,
    F64_CHAIN,
    mfma(XF32_SHAPES, &[Xf32], PLAIN, truncated(4, false), XM),
    mfma(FOUR_A_LANE, &[F16], PLAIN, truncated(8, false), XM),
    mfma(FOUR_A_LANE, &[Bf16], ONE_K, truncated(8, false), XM),
    MmaRow {
        operands: Operands::Mixed(&[Fp8Fnuz, Bf8Fnuz]),
        ..mfma(FP8_SHAPES, &[Fp8Fnuz], PLAIN, truncated(16, true), XM)
    },
];

const INTEGER: Unmodelled = Unmodelled { what: "integer mfma (i8)", why: "no vectors and no specification here" };
const SPARSE: Unmodelled = Unmodelled { what: "smfmac (sparse)", why: "no public model" };

const fn profile(
    (name, architecture): (&'static str, &'static str),
    mma: &'static [MmaRow],
    unmodelled: &'static [Unmodelled],
) -> Profile {
    Profile { name, vendor: Vendor::Amd, sm: 0, architecture, mma, switches: switches::CDNA, unmodelled }
}

pub(super) const PROFILES: [Profile; 3] = [
    profile(("gfx908", "CDNA1"), &CDNA1, &[INTEGER]),
    profile(("gfx90a", "CDNA2"), &CDNA2, &[INTEGER]),
    profile(("gfx942", "CDNA3"), &CDNA3, &[INTEGER, SPARSE]),
];
