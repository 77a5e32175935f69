//! The table as the specification states it.

use super::*;
use crate::format::Elem;
use crate::mma::{Instruction, M8N8K4, M16N8K8, M16N8K16, M16N8K32, Operation, Shape, Types};

fn params(name: &str, shape: Shape, types: Types) -> (usize, i32, Conversion, Option<i32>) {
    let Operation::TFdpa(p) = Profile::by_name(name).unwrap().mma(&Instruction::mma(shape, types)).unwrap() else {
        panic!("{name} {shape}.{types}");
    };
    (p.max_terms, p.fraction, p.conversion, p.floor)
}

#[test]
fn block_sizes_and_fraction_bits() {
    use Conversion::{Rne16, Rz32};
    let bf16 = Types::new(Elem::Bf16, Elem::F32);
    let f16 = Types::new(Elem::F16, Elem::F16);
    let tf32 = Types::new(Elem::Tf32, Elem::F32);
    let wide_c = Types { c: Elem::F16, ..Types::new(Elem::F16, Elem::F32) };
    assert_eq!(params("sm_70", M8N8K4, wide_c), (4, 23, Rz32, None));
    assert_eq!(params("sm_70", M8N8K4, f16), (4, 23, Rne16, Some(-19)));
    assert_eq!(params("sm_75", M16N8K8, f16), (8, 24, Rne16, Some(-20)));
    for ampere in ["sm_80", "sm_86", "sm_89"] {
        assert_eq!(params(ampere, M16N8K16, bf16), (8, 24, Rz32, Some(-132)));
        assert_eq!(params(ampere, M16N8K8, tf32), (4, 24, Rz32, Some(-132)));
    }
    for hopper in ["sm_90", "sm_100", "sm_120"] {
        assert_eq!(params(hopper, M16N8K16, bf16), (16, 25, Rz32, Some(-133)));
        assert_eq!(params(hopper, M16N8K16, f16), (16, 25, Rne16, Some(-21)));
        assert_eq!(params(hopper, M16N8K8, tf32), (8, 25, Rz32, Some(-133)));
    }
}

#[test]
fn eight_bit_operands() {
    use Conversion::{Rne16, Rz32, RzE8m13};
    let mixed = |d| Types { a: Elem::E4m3, b: Elem::E5m2, c: d, d };
    assert_eq!(params("sm_89", M16N8K32, mixed(Elem::F32)), (16, 13, RzE8m13, Some(-132)));
    // The floor of f16 results of 8-bit operands is that of f32 results.
    assert_eq!(params("sm_89", M16N8K16, mixed(Elem::F16)), (16, 13, Rne16, Some(-132)));
    assert_eq!(params("sm_120", M16N8K32, Types::new(Elem::E2m1, Elem::F32)), (32, 25, Rz32, Some(-133)));
    for name in ["sm_90", "sm_100"] {
        let operation = Profile::by_name(name).unwrap().mma(&Instruction::mma(M16N8K32, mixed(Elem::F16))).unwrap();
        let Operation::Fp8ThroughF16(rewrite) = operation else { panic!("{operation:?}") };
        assert_eq!((rewrite.step.max_terms, rewrite.step.fraction, rewrite.step.floor), (16, 25, Some(-21)));
    }
    let wgmma = Instruction::parse("wgmma", "m64n8k32.f32.e4m3.e5m2").unwrap();
    let Operation::TFdpa(p) = Profile::by_name("sm_90").unwrap().mma(&wgmma).unwrap() else { panic!() };
    assert_eq!((p.max_terms, p.fraction, p.conversion), (32, 13, RzE8m13));
}

#[test]
fn what_a_generation_lacks_is_refused_by_name() {
    let refused = |name: &str, shape, types| {
        let instruction = Instruction::mma(shape, types);
        let error = Profile::by_name(name).unwrap().mma(&instruction).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(&instruction.to_string()), "{error}");
    };
    refused("sm_75", M16N8K16, Types::new(Elem::Bf16, Elem::F32));
    refused("sm_70", M16N8K8, Types::new(Elem::F16, Elem::F32));
    refused("sm_90", M8N8K4, Types::new(Elem::F16, Elem::F32));
    refused("sm_80", M16N8K32, Types::new(Elem::E4m3, Elem::F32));
    refused("sm_75", M8N8K4, Types::new(Elem::F64, Elem::F64));
    refused("sm_90", M16N8K16, Types { b: Elem::F16, ..Types::new(Elem::Bf16, Elem::F32) });
    assert!(Profile::by_name("sm_99").is_none());
}

#[test]
fn names_are_unique_and_describe_carries_marks() {
    for profile in Profile::all() {
        assert_eq!(Profile::all().iter().filter(|p| p.name == profile.name).count(), 1);
        let text = profile.describe();
        assert!(text.contains(profile.architecture) && text.contains("[?]"), "{text}");
    }
    assert!(Profile::by_name("sm_90").unwrap().describe().contains("[HW]"));
    let sentinel = Profile::by_name("sm_75").unwrap().with_zero_policy(ZeroPolicy::SentinelMinus126).describe();
    assert!(sentinel.contains("sentinel-126") && !sentinel.contains("floor"), "{sentinel}");
}

#[test]
fn scaled_groups_and_the_rules_of_amd() {
    let operation = |name: &str, family, text| {
        Profile::by_name(name).unwrap().mma(&Instruction::parse(family, text).unwrap()).unwrap()
    };
    let Operation::GroupScaledTFdpa(p) =
        operation("sm_100", "tcgen05.mma.block_scale", "m128n8k64.block32.f32.e2m1.e2m1.ue8m0")
    else {
        panic!()
    };
    assert_eq!((p.block, p.group, p.max_terms, p.fraction, p.floor), (32, 16, 64, 35, Some(-133)));
    let Operation::ScaledTFdpa(p) = operation("sm_120", "mma.block_scale", "m16n8k32.block32.f32.e2m3.e4m3.f32.ue8m0")
    else {
        panic!()
    };
    assert_eq!((p.max_terms, p.fraction, p.a), (32, 25, Elem::E2m3));
    let Operation::ExactFdpa(p) = operation("gfx908", "mfma", "f32_32x32x4bf16") else { panic!() };
    assert_eq!(p.max_terms, 2);
    let Operation::FtzAddMul(p) = operation("gfx90a", "mfma", "f32_16x16x16bf16_1k") else { panic!() };
    assert_eq!(p.group, 4);
    let Operation::TrFdpa(p) = operation("gfx942", "mfma", "f32_16x16x8_xf32") else { panic!() };
    assert_eq!((p.max_terms, p.fraction, p.sum_fraction, p.interleaved, p.floor), (4, 24, 31, false, None));
    let Operation::TrFdpa(p) = operation("gfx942", "mfma", "f32_16x16x32_fp8_bf8") else { panic!() };
    assert_eq!((p.max_terms, p.interleaved), (16, true));
}

#[test]
fn every_switch_changes_what_it_says_and_nothing_else() {
    let hopper = Profile::by_name("sm_90").unwrap();
    let fp8 = |k| Instruction::mma(Shape { m: 16, n: 8, k }, Types::new(Elem::E4m3, Elem::F16));
    // FP8 at K = 16 is open, at K = 32 recorded.
    let refusing = hopper.with_switches(|s| s.fp8_k16.set(None));
    assert!(refusing.mma(&fp8(16)).unwrap_err().to_string().contains("m16n8k16.f16.e4m3.e4m3.f16"));
    assert_eq!(refusing.mma(&fp8(32)).unwrap(), hopper.mma(&fp8(32)).unwrap());
    let halves = hopper.with_switches(|s| s.fp8_k16.set(Some(crate::mma::Fp8Split::Halves)));
    assert_ne!(halves.mma(&fp8(16)).unwrap(), hopper.mma(&fp8(16)).unwrap());
    // A negative f16 sum that underflows: -2^-27.
    let f16 = Instruction::mma(M16N8K16, Types::new(Elem::F16, Elem::F16));
    let dot = |p: &Profile| p.mma(&f16).unwrap().dot(&[0x8400; 1], &[0x0800; 1], 0);
    assert_eq!(dot(hopper), 0);
    assert_eq!(dot(&hopper.with_switches(|s| s.underflow.set(Underflow::Signed))), 0x8000);
    // An exact sum of negative zeros.
    let cdna1 = Profile::by_name("gfx908").unwrap();
    let f16 = Instruction::parse("mfma", "f32_32x32x8f16").unwrap();
    let dot = |p: &Profile, b| p.mma(&f16).unwrap().dot(&[0x8000; 8], &[b; 8], 0x8000_0000);
    let ieee = cdna1.with_switches(|s| s.zero_sum.set(crate::mma::ZeroSum::Ieee));
    assert_eq!((dot(cdna1, 0x3c00), dot(&ieee, 0x3c00), dot(&ieee, 0xbc00)), (0, 0x8000_0000, 0));
    // A floor of results of narrow operands does not touch those of wide ones.
    let ada = Profile::by_name("sm_89").unwrap();
    let moved = ada.with_switches(|s| s.narrow_f32_floor.set(Some(10)));
    let bf16 = Instruction::mma(M16N8K16, Types::new(Elem::Bf16, Elem::F32));
    assert_eq!(moved.mma(&bf16).unwrap(), ada.mma(&bf16).unwrap());
    let fp8 = Instruction::mma(M16N8K32, Types::new(Elem::E4m3, Elem::F32));
    assert_ne!(moved.mma(&fp8).unwrap(), ada.mma(&fp8).unwrap());
    let row = cdna1.row(&f16).unwrap();
    let exact_nan = cdna1.with_switches(|s| s.nan_payload.set(NanPayload::Canonical));
    assert!(cdna1.nan_is_a_class(row) && !exact_nan.nan_is_a_class(row));
}

/// Each instruction of a row is found again by its text, and has an operation: no row is dead, no name ambiguous.
#[test]
fn every_listed_instruction_reads_back_and_resolves() {
    let mut instructions = 0;
    for profile in Profile::all() {
        for row in profile.mma {
            for instruction in row.instructions() {
                let text = instruction.to_string();
                let (family, rest) = text.split_once(' ').unwrap();
                assert_eq!(Instruction::parse(family, rest), Some(instruction), "{text}");
                assert!(profile.mma(&instruction).is_ok(), "{} {text}", profile.name);
                instructions += 1;
            }
        }
    }
    assert!(instructions > 600, "{instructions}");
}

#[test]
fn descriptions_list_the_switches_that_rows_read() {
    let names = |name: &str| -> Vec<&str> {
        Profile::by_name(name).unwrap().description().switches.iter().map(|s| s.name).collect()
    };
    assert_eq!(names("gfx908"), ["zero-sum-sign", "nan-payload"]);
    assert_eq!(names("gfx90a"), ["nan-payload"]);
    assert_eq!(names("gfx942"), ["zero-policy", "floor-f32", "nan-payload"]);
    assert_eq!(
        names("sm_70"),
        ["zero-policy", "floor-f32", "floor-f16", "underflow-sign", "sine-argument", "approx-subnormals"]
    );
    assert!(names("sm_90").contains(&"fp8-k16-split") && names("sm_90").contains(&"satfinite-step"));
    let sentinel = Profile::by_name("sm_90").unwrap().with_zero_policy(ZeroPolicy::SentinelMinus126).description();
    let policy = &sentinel.switches[0];
    assert_eq!(
        (policy.name, policy.value.as_str(), policy.source),
        ("zero-policy", "sentinel-126", "set by the caller")
    );
    assert!(!sentinel.switches.iter().any(|s| s.name.starts_with("floor")));
}
