//! NVIDIA, Volta to Blackwell (`gpu-arithmetic` 3).

use super::{
    Confidence, FusedOp, Mark, MmaRow, Operands, Profile, Shapes, Switches, Unmodelled, Vendor, XM, chain, row,
    switches,
};
use crate::format::Elem::{
    self, B1, Bf16, E2m1, E2m3, E3m2, E4m3, E5m2, F16, F32, F64, S4, S8, S32, Tf32, U4, U8, Ue4m3, Ue8m0,
};
use crate::mma::{
    Conversion, Family, M8N8K4, M16N8K4, M16N8K8, M16N8K16, M16N8K32, M16N8K64, Modifier, Multiply, Shape,
};
use crate::profile::Fp8Order;

const HW: Mark = (
    Confidence::Hardware,
    "recorded outputs of V100, A100, A2, RTX 1000 Ada, L40S, H100, H200, B200 (Khattak and Mikaitis, b12b5a7)",
);
const HW_K4: Mark = (Confidence::Hardware, "recorded outputs with K = 4");
const HW_C0: Mark = (Confidence::Hardware, "recorded outputs with C = 0; mmaemu confirms that C takes part in the sum");
const HW_REWRITE: Mark = (Confidence::Hardware, "40,000 recorded outputs of H100, H200 and B200, m16n8k32");
const KM_REWRITE: Mark =
    (Confidence::Open, "Khattak and Mikaitis report the order of m16n8k32; no recorded data at hand");
const FP6: Mark = (Confidence::Open, "MMA-Sim paper; a format table only, no vectors");
const F64_MARK: Mark = (Confidence::Simulator, "MMA-Sim c785138; Fasi, Higham, Mikaitis, Pranesh 2021");
const ISA: Mark = (Confidence::Documented, "PTX ISA, mma: exact; only the step of .satfinite is open");

const HALF: Operands = Operands::Same(&[F16]);
const HALVES: Operands = Operands::Same(&[F16, Bf16]);
const TF32: Operands = Operands::Same(&[Tf32]);
const FP8: Operands = Operands::Mixed(&[E4m3, E5m2]);
/// What MMA-Sim has, before the rows of the same rule that add FP6: the first row that covers an instruction is its row.
const FP8_FP4: Operands = Operands::Mixed(&[E4m3, E5m2, E2m1]);
const NARROW: Operands = Operands::Mixed(&[E4m3, E5m2, E3m2, E2m3, E2m1]);

const K16_K8: Shapes = Shapes::Listed(&[M16N8K16, M16N8K8]);
const K8_K4: Shapes = Shapes::Listed(&[M16N8K8, M16N8K4]);
const K32: Shapes = Shapes::Listed(&[M16N8K32]);
const K16: Shapes = Shapes::Listed(&[M16N8K16]);
const K64: Shapes = Shapes::Listed(&[M16N8K64]);
const K32_K16: Shapes = Shapes::Listed(&[M16N8K32, M16N8K16]);
const K8_QUAD: Shapes = Shapes::Listed(&[M16N8K8, M8N8K4]);
const F64_HOPPER: Shapes = Shapes::Listed(&[M8N8K4, M16N8K4, M16N8K8, M16N8K16]);
const QUAD: Shapes = Shapes::Listed(&[M8N8K4]);

const TILE_K32: Shapes = Shapes::AnyWithK(&[32]);

/// f16 and bf16 in blocks of `terms`, TF32 in blocks of half as many: `mma.sync` since Ampere.
const fn warp_level(terms: usize, fraction: i32, halves: Mark, tf32: Mark) -> [MmaRow; 3] {
    [
        row(Family::Mma, K16_K8, HALVES, F32, (terms, fraction), halves),
        row(Family::Mma, K16_K8, HALF, F16, (terms, fraction), halves),
        row(Family::Mma, K8_K4, TF32, F32, (terms / 2, fraction), tf32),
    ]
}

/// The same arithmetic in instructions of larger tiles.
const fn tile_level(family: Family, operands: Operands) -> [MmaRow; 3] {
    [
        row(family, Shapes::AnyWithK(&[16]), operands, F32, (16, 25), XM),
        row(family, Shapes::AnyWithK(&[16]), HALF, F16, (16, 25), XM),
        row(family, Shapes::AnyWithK(&[8]), TF32, F32, (8, 25), XM),
    ]
}

/// 8-bit and smaller operands, to f32 and to f16, in one unit of `terms` products. With 13 fraction bits f32 results have no more.
const fn narrow(
    family: Family,
    shapes: Shapes,
    operands: Operands,
    steps: (usize, i32),
    f32_result: Mark,
    f16_result: Mark,
) -> [MmaRow; 2] {
    let conversion = if steps.1 == 13 { Conversion::RzE8m13 } else { Conversion::Rz32 };
    let op = FusedOp::TFdpa { max_terms: steps.0, fraction: steps.1, conversion };
    [
        MmaRow { op, ..row(family, shapes, operands, F32, steps, f32_result) },
        row(family, shapes, operands, F16, steps, f16_result),
    ]
}

/// FP8 `mma.sync` without a unit behind it.
const fn fp8_through_f16(d: Elem) -> [MmaRow; 2] {
    let recorded = FusedOp::Fp8ThroughF16 { max_terms: 16, fraction: 25, order: Fp8Order::Pairs };
    let open = FusedOp::Fp8ThroughF16 { max_terms: 16, fraction: 25, order: Fp8Order::Switch };
    [
        MmaRow { op: recorded, ..row(Family::Mma, K32, FP8, d, (16, 25), HW_REWRITE) },
        MmaRow { op: open, ..row(Family::Mma, K16, FP8, d, (16, 25), KM_REWRITE) },
    ]
}

/// Block-scaled operands: FP8, FP6 and FP4 with a scale for 32 elements.
const fn scaled(family: Family, shapes: Shapes) -> [MmaRow; 2] {
    const BLOCK: &[Modifier] = &[Modifier::BlockScale { block: 32, scale: Ue8m0 }];
    let op = FusedOp::ScaledTFdpa { max_terms: 32, fraction: 25 };
    [
        MmaRow { op, modifiers: BLOCK, ..row(family, shapes, FP8_FP4, F32, (32, 25), XM) },
        MmaRow { op, modifiers: BLOCK, ..row(family, shapes, NARROW, F32, (32, 25), FP6) },
    ]
}

/// FP4 at K = 64: groups of sixteen, scales for 32 or 16 elements.
const fn scaled_fp4(family: Family, shapes: Shapes, modifiers: &'static [Modifier]) -> MmaRow {
    let op = FusedOp::GroupScaledTFdpa { group: 16, max_terms: 64, fraction: 35 };
    MmaRow { op, modifiers, ..row(family, shapes, Operands::Same(&[E2m1]), F32, (64, 35), XM) }
}

const fn block_scale(block: u32, scale: Elem) -> Modifier {
    Modifier::BlockScale { block, scale }
}

/// Integers of one width, any signs.
const fn integers(family: Family, shapes: Shapes, operands: Operands) -> MmaRow {
    const MODIFIERS: &[Modifier] = &[Modifier::None, Modifier::Satfinite];
    let op = FusedOp::Integer(Multiply::Product);
    MmaRow { op, modifiers: MODIFIERS, ..row(family, shapes, operands, S32, (1, 0), ISA) }
}

/// One-bit operands: the population count of the bits that differ, or that are both set.
const fn bits(family: Family, shapes: Shapes, multiply: Multiply) -> MmaRow {
    let modifiers: &[Modifier] = match multiply {
        Multiply::Xor => &[Modifier::XorPopc],
        _ => &[Modifier::AndPopc],
    };
    let op = FusedOp::Integer(multiply);
    MmaRow { op, modifiers, ..row(family, shapes, Operands::Same(&[B1]), S32, (1, 0), ISA) }
}

const INT8: Operands = Operands::Mixed(&[S8, U8]);
const INT4: Operands = Operands::Mixed(&[S4, U4]);
const M8N8K16: Shape = Shape::new(8, 8, 16);
const M8N8K32: Shape = Shape::new(8, 8, 32);
const M8N8K128: Shape = Shape::new(8, 8, 128);
const INT8_SHAPES: Shapes = Shapes::Listed(&[M8N8K16, M16N8K16, M16N8K32]);
const INT4_SHAPES: Shapes = Shapes::Listed(&[M8N8K32, M16N8K32, M16N8K64]);
const BIT_SHAPES: Shapes = Shapes::Listed(&[M8N8K128, Shape::new(16, 8, 128), Shape::new(16, 8, 256)]);

const TURING_INTEGERS: [MmaRow; 3] = [
    integers(Family::Mma, Shapes::Listed(&[M8N8K16]), INT8),
    integers(Family::Mma, Shapes::Listed(&[M8N8K32]), INT4),
    bits(Family::Mma, Shapes::Listed(&[M8N8K128]), Multiply::Xor),
];
/// Ampere and later.
const INTEGERS: [MmaRow; 4] = [
    integers(Family::Mma, INT8_SHAPES, INT8),
    integers(Family::Mma, INT4_SHAPES, INT4),
    bits(Family::Mma, BIT_SHAPES, Multiply::Xor),
    bits(Family::Mma, BIT_SHAPES, Multiply::And),
];

const VOLTA: [MmaRow; 2] = [
    MmaRow { c: &[F32, F16], ..row(Family::Mma, QUAD, HALF, F32, (4, 23), HW) },
    row(Family::Mma, QUAD, HALF, F16, (4, 23), HW),
];
const TURING: [MmaRow; 6] = {
    let [i, j, k] = TURING_INTEGERS;
    [
        row(Family::Mma, K8_QUAD, HALF, F32, (8, 24), XM),
        row(Family::Mma, K8_QUAD, HALF, F16, (8, 24), XM),
        // Only the Volta form of the instruction takes an f16 C under an f32 D.
        MmaRow { c: &[F16], ..row(Family::Mma, QUAD, HALF, F32, (8, 24), XM) },
        i,
        j,
        k,
    ]
};
const AMPERE: [MmaRow; 8] = {
    let [a, b, c] = warp_level(8, 24, HW, HW);
    let [i, j, k, l] = INTEGERS;
    [a, b, c, chain(Family::Mma, QUAD, &[F64], F64_MARK), i, j, k, l]
};
const ADA: [MmaRow; 10] = {
    let [a, b, c, d, e, f, g, h] = AMPERE;
    let [i, j] = narrow(Family::Mma, K32_K16, FP8, (16, 13), HW, HW);
    [a, b, c, d, e, f, g, h, i, j]
};
const HOPPER: [MmaRow; 19] = {
    let [a, b, c] = warp_level(16, 25, HW, HW_K4);
    let [d, e, f] = tile_level(Family::Wgmma, HALVES);
    let [g, h] = narrow(Family::Wgmma, TILE_K32, FP8, (32, 13), HW_C0, XM);
    let [i, j] = fp8_through_f16(F32);
    let [k, l] = fp8_through_f16(F16);
    let m = chain(Family::Mma, F64_HOPPER, &[F64], F64_MARK);
    let [n, o, p, q] = INTEGERS;
    let r = integers(Family::Wgmma, TILE_K32, INT8);
    let s = bits(Family::Wgmma, Shapes::AnyWithK(&[256]), Multiply::And);
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s]
};
const BLACKWELL: [MmaRow; 23] = {
    let [a, b, c] = warp_level(16, 25, HW, HW_K4);
    let [d, e, f] = tile_level(Family::Tcgen05, Operands::Mixed(&[F16, Bf16]));
    let [g, h] = narrow(Family::Tcgen05, TILE_K32, FP8_FP4, (32, 25), XM, XM);
    let [i, j] = narrow(Family::Tcgen05, TILE_K32, NARROW, (32, 25), FP6, FP6);
    let [k, l] = scaled(Family::Tcgen05, TILE_K32);
    const SCALES: &[Modifier] = &[block_scale(32, Ue8m0), block_scale(16, Ue8m0), block_scale(16, Ue4m3)];
    let m = scaled_fp4(Family::Tcgen05, Shapes::AnyWithK(&[64]), SCALES);
    let [n, o] = fp8_through_f16(F32);
    let [p, q] = fp8_through_f16(F16);
    let r = chain(Family::Mma, QUAD, &[F64], F64_MARK);
    let [s, t, u, v] = INTEGERS;
    let w = integers(Family::Tcgen05, TILE_K32, INT8);
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w]
};
const RTX_BLACKWELL: [MmaRow; 17] = {
    let [a, b, c] = warp_level(16, 25, XM, XM);
    let [d, e] = narrow(Family::Mma, K32, FP8_FP4, (32, 25), XM, XM);
    let [f, g] = narrow(Family::Mma, K32, NARROW, (32, 25), FP6, FP6);
    let [h, i] = narrow(Family::Mma, K16, FP8, (32, 25), XM, XM);
    let [j, k] = scaled(Family::Mma, K32);
    const SCALES: &[Modifier] =
        &[block_scale(32, Ue8m0), block_scale(16, Ue8m0), block_scale(16, Ue4m3), block_scale(32, Ue4m3)];
    let l = scaled_fp4(Family::Mma, K64, SCALES);
    let m = chain(Family::Mma, QUAD, &[F64], F64_MARK);
    let [n, o, p, q] = INTEGERS;
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q]
};

const SPARSE: Unmodelled =
    Unmodelled { what: "mma.sp", why: "no public model; expected: the selected products form the block" };
const SPARSE_WGMMA: Unmodelled =
    Unmodelled { what: "wgmma.sp", why: "no public model; expected: the selected products form the block" };
const TCGEN05_FORMS: Unmodelled =
    Unmodelled { what: "tcgen05.mma.sp, .ws, cta_group::2, scaled input D", why: "no public model" };

const fn profile(
    (name, sm, architecture): (&'static str, u32, &'static str),
    mma: &'static [MmaRow],
    switches: Switches,
    unmodelled: &'static [Unmodelled],
) -> Profile {
    Profile { name, vendor: Vendor::Nvidia, sm, architecture, mma, switches, unmodelled }
}

pub(super) const PROFILES: [Profile; 8] = [
    profile(("sm_70", 70, "Volta"), &VOLTA, switches::VOLTA, &[]),
    profile(("sm_75", 75, "Turing"), &TURING, switches::F24, &[]),
    profile(("sm_80", 80, "Ampere"), &AMPERE, switches::F24, &[SPARSE]),
    profile(("sm_86", 86, "Ampere"), &AMPERE, switches::F24, &[SPARSE]),
    profile(("sm_89", 89, "Ada Lovelace"), &ADA, switches::F24, &[SPARSE]),
    profile(("sm_90", 90, "Hopper"), &HOPPER, switches::F25, &[SPARSE, SPARSE_WGMMA]),
    profile(("sm_100", 100, "Blackwell"), &BLACKWELL, switches::F25, &[SPARSE, TCGEN05_FORMS]),
    profile(("sm_120", 120, "RTX Blackwell"), &RTX_BLACKWELL, switches::F25, &[SPARSE]),
];
