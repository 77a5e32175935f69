//! Defaults of the switches, a generation a constant.

use super::Switches;
use crate::mma::{ClampStep, Fp8Split, ZeroPolicy, ZeroSum};
use crate::mufu::SineArgument;
use crate::mufu::approx::Subnormals;
use crate::profile::Confidence::{self, Open};
use crate::profile::{NanPayload, Switch, Underflow};

const FLOORS: &str = "Khattak and Mikaitis, models of August 2026; Hawkeye has the same for A100 and H100";
const FLOORS_F16: &str = "Khattak and Mikaitis, models of August 2026";

type Floor = Switch<Option<i32>>;

const fn floor(value: Option<i32>, source: &'static str) -> Floor {
    Switch::new(value, Open, source)
}

/// Floors of f32 and f16 results, and of both for operands of 8 bits and fewer.
const fn nvidia(f32: Option<i32>, f16: i32, narrow: Option<i32>) -> Switches {
    Switches {
        zero_policy: Switch::new(
            ZeroPolicy::Exclude,
            Open,
            "Khattak and Mikaitis, Hawkeye and mmaemu exclude zeros; FP8 outputs of hardware need it",
        ),
        f32_floor: floor(f32, FLOORS),
        f16_floor: floor(Some(f16), FLOORS_F16),
        narrow_f32_floor: floor(narrow, FLOORS_F16),
        narrow_f16_floor: floor(narrow, FLOORS_F16),
        underflow: Switch::new(Underflow::Positive, Open, "MMA-Sim; mmaemu measured it for FP8 on an RTX 4060"),
        zero_sum: Switch::new(ZeroSum::Positive, Open, "no instruction has an exact sum"),
        fp8_k16: Switch::new(
            Some(Fp8Split::Pairs),
            Open,
            "Khattak and Mikaitis report pairs; no recorded data at hand",
        ),
        clamp: Switch::new(ClampStep::Instruction, Open, "the PTX manual does not say; assumed"),
        nan_payload: Switch::new(NanPayload::Class, Open, "no published model of f64 payloads"),
        sine_argument: Switch::new(SineArgument::DEFAULT, Open, SineArgument::DEFAULT.source()),
        approx_subnormals: Switch::new(
            Subnormals::Scaled,
            Open,
            "scaling seen in compiled code (gpu-arithmetic 5.5); docs/arithmetic.md states it by instruction",
        ),
    }
}

/// Volta has no floor of f32 results, and no narrow operands.
pub(super) const VOLTA: Switches = nvidia(None, -19, None);
/// Turing, Ampere, Ada: 24 fraction bits.
pub(super) const F24: Switches = nvidia(Some(-132), -20, Some(-132));
/// Hopper and both Blackwells: 25 fraction bits.
pub(super) const F25: Switches = nvidia(Some(-133), -21, Some(-133));

const UNUSED: &str = "no instruction reads it";

/// CDNA: what of it a generation reads depends on its rules.
pub(super) const CDNA: Switches = Switches {
    zero_policy: Switch::new(
        ZeroPolicy::Exclude,
        Open,
        "as for NVIDIA, where three projects exclude zeros; MMA-Sim has the sentinel here too",
    ),
    f32_floor: floor(None, "no floor is reported"),
    f16_floor: floor(None, UNUSED),
    narrow_f32_floor: floor(None, UNUSED),
    narrow_f16_floor: floor(None, UNUSED),
    underflow: Switch::new(Underflow::Positive, Open, UNUSED),
    zero_sum: Switch::new(ZeroSum::Positive, Open, "assumed; no source states the sign"),
    fp8_k16: Switch::new(None, Confidence::Documented, UNUSED),
    clamp: Switch::new(ClampStep::Instruction, Open, UNUSED),
    nan_payload: Switch::new(NanPayload::Class, Open, "no published model of payloads"),
    sine_argument: Switch::new(SineArgument::DEFAULT, Open, UNUSED),
    approx_subnormals: Switch::new(Subnormals::Scaled, Open, UNUSED),
};
