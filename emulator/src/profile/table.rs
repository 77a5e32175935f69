//! The table of generations (`gpu-arithmetic` 3.1 and 3.4). Everything that differs between GPUs is here.

use super::{Confidence, ExponentFloors, FusedOp, MmaRow, Operands, Profile, Shapes};
use crate::format::Elem::{self, Bf16, E2m1, E2m3, E3m2, E4m3, E5m2, F16, F32, F64, Tf32};
use crate::mma::{Conversion, Family, M8N8K4, M16N8K4, M16N8K8, M16N8K16, M16N8K32, ZeroPolicy};

/// Recorded outputs: Khattak and Mikaitis, MATLAB-tensor-core, b12b5a7.
const RECORDED: &str = "recorded outputs of V100, A100, A2, RTX 1000 Ada, L40S, H100, H200, B200";
const RECORDED_K4: &str = "recorded outputs with K = 4";
const RECORDED_C0: &str = "recorded outputs with C = 0; mmaemu confirms that C takes part in the sum";
const SIMULATED: &str = "MMA-Sim c785138";

const fn row(
    family: Family,
    shapes: Shapes,
    operands: Operands,
    d: Elem,
    (max_terms, fraction): (usize, i32),
    (confidence, source): (Confidence, &'static str),
) -> MmaRow {
    let conversion = match d {
        F16 => Conversion::Rne16,
        _ => Conversion::Rz32,
    };
    let c = match d {
        F16 => &[F16],
        _ => &[F32],
    };
    MmaRow {
        family,
        shapes,
        operands,
        c,
        d,
        op: FusedOp::TFdpa { max_terms, fraction, conversion },
        confidence,
        source,
    }
}

const HW: (Confidence, &str) = (Confidence::Hardware, RECORDED);
const HW_K4: (Confidence, &str) = (Confidence::Hardware, RECORDED_K4);
const HW_C0: (Confidence, &str) = (Confidence::Hardware, RECORDED_C0);
const XM: (Confidence, &str) = (Confidence::Simulator, SIMULATED);

const HALF: Operands = Operands::Same(&[F16]);
const HALVES: Operands = Operands::Same(&[F16, Bf16]);
const TF32: Operands = Operands::Same(&[Tf32]);
const K16_K8: Shapes = Shapes::Listed(&[M16N8K16, M16N8K8]);
const K8_K4: Shapes = Shapes::Listed(&[M16N8K8, M16N8K4]);
const K32: Shapes = Shapes::Listed(&[M16N8K32]);
const K16: Shapes = Shapes::Listed(&[M16N8K16]);
const K32_K16: Shapes = Shapes::Listed(&[M16N8K32, M16N8K16]);
const K8_QUAD: Shapes = Shapes::Listed(&[M16N8K8, M8N8K4]);
const F64_HOPPER: Shapes = Shapes::Listed(&[M8N8K4, M16N8K4, M16N8K8, M16N8K16]);
const QUAD: Shapes = Shapes::Listed(&[M8N8K4]);

/// f16 and bf16 in blocks of `terms`, TF32 in blocks of half as many: `mma.sync` since Ampere.
const fn warp_level(
    terms: usize,
    fraction: i32,
    halves: (Confidence, &'static str),
    tf32: (Confidence, &'static str),
) -> [MmaRow; 3] {
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

const FP8: Operands = Operands::Mixed(&[E4m3, E5m2]);
const NARROW: Operands = Operands::Mixed(&[E4m3, E5m2, E3m2, E2m3, E2m1]);

/// 8-bit and smaller operands, to f32 and to f16, in one unit of `terms` products. With 13 fraction bits f32 results have no more.
const fn narrow(
    family: Family,
    shapes: Shapes,
    operands: Operands,
    steps: (usize, i32),
    f32_result: (Confidence, &'static str),
    f16_result: (Confidence, &'static str),
) -> [MmaRow; 2] {
    let conversion = if steps.1 == 13 { Conversion::RzE8m13 } else { Conversion::Rz32 };
    let op = FusedOp::TFdpa { max_terms: steps.0, fraction: steps.1, conversion };
    [
        MmaRow { op, ..row(family, shapes, operands, F32, steps, f32_result) },
        row(family, shapes, operands, F16, steps, f16_result),
    ]
}

/// FP8 `mma.sync` without a unit behind it.
const fn fp8_through_f16(d: Elem) -> MmaRow {
    let op = FusedOp::Fp8ThroughF16 { max_terms: 16, fraction: 25 };
    MmaRow { op, ..row(Family::Mma, K32, FP8, d, (16, 25), HW) }
}

const fn f64_chain(shapes: Shapes) -> MmaRow {
    let source = (Confidence::Simulator, "MMA-Sim c785138; Fasi, Higham, Mikaitis, Pranesh 2021");
    let row = row(Family::Mma, shapes, Operands::Same(&[F64]), F64, (1, 52), source);
    MmaRow { c: &[F64], op: FusedOp::FmaChain, ..row }
}

const VOLTA: [MmaRow; 2] = [
    MmaRow { c: &[F32, F16], ..row(Family::Mma, QUAD, HALF, F32, (4, 23), HW) },
    row(Family::Mma, QUAD, HALF, F16, (4, 23), HW),
];
const TURING: [MmaRow; 3] = [
    row(Family::Mma, K8_QUAD, HALF, F32, (8, 24), XM),
    row(Family::Mma, K8_QUAD, HALF, F16, (8, 24), XM),
    // Only the Volta form of the instruction takes an f16 C under an f32 D.
    MmaRow { c: &[F16], ..row(Family::Mma, QUAD, HALF, F32, (8, 24), XM) },
];
const AMPERE: [MmaRow; 4] = {
    let [a, b, c] = warp_level(8, 24, HW, HW);
    [a, b, c, f64_chain(QUAD)]
};
const ADA: [MmaRow; 6] = {
    let [a, b, c, d] = AMPERE;
    let [e, f] = narrow(Family::Mma, K32_K16, FP8, (16, 13), HW, HW);
    [a, b, c, d, e, f]
};
const HOPPER: [MmaRow; 11] = {
    let [a, b, c] = warp_level(16, 25, HW, HW_K4);
    let [d, e, f] = tile_level(Family::Wgmma, HALVES);
    let [g, h] = narrow(Family::Wgmma, Shapes::AnyWithK(&[32]), FP8, (32, 13), HW_C0, XM);
    [a, b, c, d, e, f, g, h, fp8_through_f16(F32), fp8_through_f16(F16), f64_chain(F64_HOPPER)]
};
const BLACKWELL: [MmaRow; 11] = {
    let [a, b, c] = warp_level(16, 25, HW, HW_K4);
    let [d, e, f] = tile_level(Family::Tcgen05, Operands::Mixed(&[F16, Bf16]));
    let [g, h] = narrow(Family::Tcgen05, Shapes::AnyWithK(&[32]), NARROW, (32, 25), XM, XM);
    [a, b, c, d, e, f, g, h, fp8_through_f16(F32), fp8_through_f16(F16), f64_chain(QUAD)]
};
const RTX_BLACKWELL: [MmaRow; 8] = {
    let [a, b, c] = warp_level(16, 25, XM, XM);
    let [d, e] = narrow(Family::Mma, K32, NARROW, (32, 25), XM, XM);
    let [f, g] = narrow(Family::Mma, K16, FP8, (32, 25), XM, XM);
    [a, b, c, d, e, f, g, f64_chain(QUAD)]
};

const fn profile(
    (name, sm, architecture): (&'static str, u32, &'static str),
    mma: &'static [MmaRow],
    (f32_result, f16_result): (Option<i32>, Option<i32>),
) -> Profile {
    Profile {
        name,
        sm,
        architecture,
        mma,
        zero_policy: ZeroPolicy::Exclude,
        floors: ExponentFloors { f32_result, f16_result },
    }
}

const NO_FLOOR_VOLTA: (Option<i32>, Option<i32>) = (None, Some(-19));
const FLOORS_F24: (Option<i32>, Option<i32>) = (Some(-132), Some(-20));
const FLOORS_F25: (Option<i32>, Option<i32>) = (Some(-133), Some(-21));

pub(super) static PROFILES: &[Profile] = &[
    profile(("sm_70", 70, "Volta"), &VOLTA, NO_FLOOR_VOLTA),
    profile(("sm_75", 75, "Turing"), &TURING, FLOORS_F24),
    profile(("sm_80", 80, "Ampere"), &AMPERE, FLOORS_F24),
    profile(("sm_86", 86, "Ampere"), &AMPERE, FLOORS_F24),
    profile(("sm_89", 89, "Ada Lovelace"), &ADA, FLOORS_F24),
    profile(("sm_90", 90, "Hopper"), &HOPPER, FLOORS_F25),
    profile(("sm_100", 100, "Blackwell"), &BLACKWELL, FLOORS_F25),
    profile(("sm_120", 120, "RTX Blackwell"), &RTX_BLACKWELL, FLOORS_F25),
];
