//! Switches: what the sources leave open, as data (`gpu-arithmetic` section 9).
//!
//! Every open point that changes a bit is a field of [`Switches`], with the default of the generation, its source and its confidence.
//! What lists, prints or serialises switches reads them from here.

use super::Confidence;
use crate::mma::{ClampStep, Fp8Split, ZeroPolicy, ZeroSum};
use crate::mufu::SineArgument;
use crate::mufu::approx::{self, Subnormals};

/// The sign of an f16 result when a negative sum underflows to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Underflow {
    /// `+0`.
    Positive,
    /// `-0`, as IEEE rounding has it.
    Signed,
}

/// What is claimed of a NaN result where nobody has published payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NanPayload {
    /// Only that it is a NaN: any NaN matches.
    Class,
    /// The canonical NaN of the format, bit for bit.
    Canonical,
}

/// One switch: its position, and why it stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch<T> {
    /// The position.
    pub value: T,
    /// How well it is established.
    pub confidence: Confidence,
    /// Who says so.
    pub source: &'static str,
}

impl<T> Switch<T> {
    pub(super) const fn new(value: T, confidence: Confidence, source: &'static str) -> Self {
        Self { value, confidence, source }
    }

    /// Moves the switch.
    pub fn set(&mut self, value: T) {
        *self = Self::new(value, Confidence::Open, "set by the caller");
    }
}

/// Names of the switches, in the order they are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // Each is the field of `Switches` of that name.
pub enum SwitchName {
    ZeroPolicy,
    F32Floor,
    F16Floor,
    NarrowF32Floor,
    NarrowF16Floor,
    Underflow,
    ZeroSum,
    Fp8K16,
    Clamp,
    NanPayload,
    SineArgument,
    ApproxSubnormals,
}

impl SwitchName {
    /// Those of the special function unit, which every generation that runs PTX has.
    pub const APPROX: [Self; 2] = [Self::SineArgument, Self::ApproxSubnormals];

    /// Every switch.
    pub const ALL: [Self; 12] = [
        Self::ZeroPolicy,
        Self::F32Floor,
        Self::F16Floor,
        Self::NarrowF32Floor,
        Self::NarrowF16Floor,
        Self::Underflow,
        Self::ZeroSum,
        Self::Fp8K16,
        Self::Clamp,
        Self::NanPayload,
        Self::SineArgument,
        Self::ApproxSubnormals,
    ];

    /// The name in listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ZeroPolicy => "zero-policy",
            Self::F32Floor => "floor-f32",
            Self::F16Floor => "floor-f16",
            Self::NarrowF32Floor => "floor-narrow-f32",
            Self::NarrowF16Floor => "floor-narrow-f16",
            Self::Underflow => "underflow-sign",
            Self::ZeroSum => "zero-sum-sign",
            Self::Fp8K16 => "fp8-k16-split",
            Self::Clamp => "satfinite-step",
            Self::NanPayload => "nan-payload",
            Self::SineArgument => "sine-argument",
            Self::ApproxSubnormals => "approx-subnormals",
        }
    }

    /// What it decides.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::ZeroPolicy => "how zero terms take part in the alignment of a fused sum",
            Self::F32Floor => "least alignment exponent of f32 results (zeros excluded)",
            Self::F16Floor => "least alignment exponent of f16 results of f16 products (zeros excluded)",
            Self::NarrowF32Floor => {
                "least alignment exponent of f32 results of products of 8 bits and fewer (zeros excluded)"
            }
            Self::NarrowF16Floor => {
                "least alignment exponent of f16 results of products of 8 bits and fewer (zeros excluded)"
            }
            Self::Underflow => "sign of an f16 result when a negative sum underflows to zero",
            Self::ZeroSum => "sign of an exact sum that is zero",
            Self::Fp8K16 => "which products each f16 step of an FP8 mma.sync m16n8k16 takes",
            Self::Clamp => "when .satfinite clamps an integer sum",
            Self::NanPayload => "what is claimed of a NaN result",
            Self::SineArgument => "how sin.approx and cos.approx turn radians into revolutions",
            Self::ApproxSubnormals => {
                "what rcp, rsqrt, ex2 and lg2.approx without .ftz do with operands that the unit flushes"
            }
        }
    }

    /// The other positions, and who holds them.
    #[must_use]
    pub const fn alternatives(self) -> &'static str {
        match self {
            Self::ZeroPolicy => "sentinel-126: a zero operand aligns with exponent -126 (MMA-Sim)",
            Self::F32Floor | Self::F16Floor => "any exponent, or none",
            Self::NarrowF32Floor | Self::NarrowF16Floor => {
                "-132 (mmaemu), -133 (Khattak and Mikaitis), -139 for Hopper (Hawkeye), or none"
            }
            Self::Underflow => "signed: -0",
            Self::ZeroSum => "ieee: -0 if every term is -0",
            Self::Fp8K16 => "halves: the first eight products, then the rest; refused: no such instruction",
            Self::Clamp => "products-N: after every N products",
            Self::NanPayload => "canonical: the canonical NaN, bit for bit",
            Self::SineArgument => "fixed-point: in wide fixed point, as the G80 did",
            Self::ApproxSubnormals => "flushed: as with .ftz",
        }
    }
}

/// The switches of a generation. Those that none of its instructions reads have no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// How zero terms take part in the alignment.
    pub zero_policy: Switch<ZeroPolicy>,
    /// Exponent floor under [`ZeroPolicy::Exclude`] of f32 results; `None` is no floor.
    pub f32_floor: Switch<Option<i32>>,
    /// The same of f16 results of f16 operands.
    pub f16_floor: Switch<Option<i32>>,
    /// The same of f32 results of operands of 8 bits and fewer.
    pub narrow_f32_floor: Switch<Option<i32>>,
    /// The same of f16 results of operands of 8 bits and fewer.
    pub narrow_f16_floor: Switch<Option<i32>>,
    /// Sign of an f16 result when a negative sum underflows.
    pub underflow: Switch<Underflow>,
    /// Sign of an exact sum that is zero (CDNA1).
    pub zero_sum: Switch<ZeroSum>,
    /// FP8 `mma.sync` m16n8k16 issued as f16 steps; `None` refuses it.
    pub fp8_k16: Switch<Option<Fp8Split>>,
    /// When `.satfinite` clamps.
    pub clamp: Switch<ClampStep>,
    /// What is claimed of NaN results of f64 and of AMD instructions.
    pub nan_payload: Switch<NanPayload>,
    /// How sine and cosine reduce their argument.
    pub sine_argument: Switch<SineArgument>,
    /// The approximate instructions without `.ftz`.
    pub approx_subnormals: Switch<Subnormals>,
}

/// A switch in words.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SwitchDescription {
    /// Its name in listings.
    pub name: &'static str,
    /// Its position.
    pub value: String,
    /// `HW`, `XM`, `ISA` or `?`.
    pub confidence: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// What it decides.
    pub meaning: &'static str,
    /// The other positions.
    pub alternatives: &'static str,
}

impl Switches {
    /// Those of the approximate instructions.
    #[must_use]
    pub const fn approx(&self) -> approx::Switches {
        approx::Switches { sine_argument: self.sine_argument.value, subnormals: self.approx_subnormals.value }
    }

    /// The floor of this name.
    ///
    /// # Panics
    /// If the switch is not a floor.
    pub(super) fn floor(&self, name: SwitchName) -> Option<i32> {
        match name {
            SwitchName::F32Floor => self.f32_floor.value,
            SwitchName::F16Floor => self.f16_floor.value,
            SwitchName::NarrowF32Floor => self.narrow_f32_floor.value,
            SwitchName::NarrowF16Floor => self.narrow_f16_floor.value,
            other => unreachable!("{} is not an exponent floor", other.name()),
        }
    }

    /// One switch in words.
    #[must_use]
    pub fn describe(&self, name: SwitchName) -> SwitchDescription {
        let floor = |s: &Switch<Option<i32>>| {
            (s.value.map_or_else(|| "none".to_owned(), |e| e.to_string()), s.confidence, s.source)
        };
        let named = |value: &str, confidence, source| (value.to_owned(), confidence, source);
        let (value, confidence, source) = match name {
            SwitchName::ZeroPolicy => {
                let s = &self.zero_policy;
                named(s.value.name(), s.confidence, s.source)
            }
            SwitchName::F32Floor => floor(&self.f32_floor),
            SwitchName::F16Floor => floor(&self.f16_floor),
            SwitchName::NarrowF32Floor => floor(&self.narrow_f32_floor),
            SwitchName::NarrowF16Floor => floor(&self.narrow_f16_floor),
            SwitchName::Underflow => {
                let s = &self.underflow;
                let value = match s.value {
                    Underflow::Positive => "positive",
                    Underflow::Signed => "signed",
                };
                named(value, s.confidence, s.source)
            }
            SwitchName::ZeroSum => {
                let s = &self.zero_sum;
                let value = match s.value {
                    ZeroSum::Positive => "positive",
                    ZeroSum::Ieee => "ieee",
                };
                named(value, s.confidence, s.source)
            }
            SwitchName::Fp8K16 => {
                let s = &self.fp8_k16;
                let value = match s.value {
                    None => "refused",
                    Some(Fp8Split::Pairs) => "pairs",
                    Some(Fp8Split::Halves) => "halves",
                };
                named(value, s.confidence, s.source)
            }
            SwitchName::Clamp => {
                let s = &self.clamp;
                let value = match s.value {
                    ClampStep::Instruction => "instruction".to_owned(),
                    ClampStep::Products(n) => format!("products-{n}"),
                };
                (value, s.confidence, s.source)
            }
            SwitchName::NanPayload => {
                let s = &self.nan_payload;
                let value = match s.value {
                    NanPayload::Class => "class",
                    NanPayload::Canonical => "canonical",
                };
                named(value, s.confidence, s.source)
            }
            SwitchName::SineArgument => {
                let s = &self.sine_argument;
                named(s.value.name(), s.confidence, s.source)
            }
            SwitchName::ApproxSubnormals => {
                let s = &self.approx_subnormals;
                named(s.value.name(), s.confidence, s.source)
            }
        };
        SwitchDescription {
            name: name.name(),
            value,
            confidence: confidence.mark(),
            source,
            meaning: name.meaning(),
            alternatives: name.alternatives(),
        }
    }
}
