//! Long runs: millions of weighted operands in five roundings against both oracles.

use crate::apfloat::{Oracle, arithmetic, narrows};
use crate::cases::{Random, operand};
use crate::softfloat;
use emulator::scalar::{Bf16, F16, F32, F64};

#[test]
#[ignore = "deep: millions of weighted operands"]
fn five_roundings_agree_with_apfloat() {
    arithmetic::<F32>(101, 1_200_000);
    arithmetic::<F64>(102, 600_000);
    arithmetic::<F16>(103, 600_000);
    arithmetic::<Bf16>(104, 600_000);
}

#[test]
#[ignore = "deep: millions of weighted operands"]
fn five_roundings_agree_with_softfloat() {
    softfloat::single(111, 2_500_000);
    softfloat::double(112, 1_200_000);
    softfloat::half(113, 1_200_000);
}

#[test]
#[ignore = "deep: millions of weighted operands"]
fn conversions_agree_with_apfloat() {
    fn run<F: Oracle>(seed: u64, mut check: impl FnMut(F::Bits)) {
        let mut random = Random::new(seed);
        (0..3_000_000).for_each(|_| check(operand::<F>(&mut random)));
    }
    run::<F32>(121, |a| {
        narrows::<F32, F16>(a);
        narrows::<F32, Bf16>(a);
    });
    run::<F64>(122, narrows::<F64, F32>);
}
