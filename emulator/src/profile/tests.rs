//! The table as the specification states it.

use super::*;
use crate::mma::{M8N8K4, M16N8K8, M16N8K16, M16N8K32};

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
    let wgmma = Instruction { family: Family::Wgmma, shape: Shape { m: 64, n: 8, k: 32 }, types: mixed(Elem::F32) };
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
    refused("sm_90", M16N8K16, Types::new(Elem::E4m3, Elem::F32));
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
    assert!(sentinel.contains("[XM]") && !sentinel.contains("floor"), "{sentinel}");
}
