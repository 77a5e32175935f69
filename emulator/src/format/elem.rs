//! The element types that matrix instructions name.

use super::{
    B1, BF8_FNUZ, BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32, F64, FP8_FNUZ, Format, S4, S8, S32, Specials, TF32, U4,
    U8, UE4M3, UE8M0, XF32,
};

/// An element type of a matrix, or of its block scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Elem {
    F64,
    F32,
    Tf32,
    /// AMD's name for TF32.
    Xf32,
    Bf16,
    F16,
    E5m2,
    E4m3,
    E3m2,
    E2m3,
    E2m1,
    /// AMD FP8 of CDNA3: E4M3 FNUZ, `fp8` in its mnemonics.
    Fp8Fnuz,
    /// AMD BF8 of CDNA3: E5M2 FNUZ, `bf8` in its mnemonics.
    Bf8Fnuz,
    /// Block scale, a power of two.
    Ue8m0,
    /// Block scale, E4M3 without sign.
    Ue4m3,
    S32,
    S8,
    U8,
    S4,
    U4,
    B1,
}

impl Elem {
    /// Every element type.
    pub const ALL: [Self; 21] = [
        Self::F64,
        Self::F32,
        Self::Tf32,
        Self::Xf32,
        Self::Bf16,
        Self::F16,
        Self::E5m2,
        Self::E4m3,
        Self::E3m2,
        Self::E2m3,
        Self::E2m1,
        Self::Fp8Fnuz,
        Self::Bf8Fnuz,
        Self::Ue8m0,
        Self::Ue4m3,
        Self::S32,
        Self::S8,
        Self::U8,
        Self::S4,
        Self::U4,
        Self::B1,
    ];

    /// The constants of the format.
    #[must_use]
    pub const fn format(self) -> &'static Format {
        match self {
            Self::F64 => &F64,
            Self::F32 => &F32,
            Self::Tf32 => &TF32,
            Self::Xf32 => &XF32,
            Self::Bf16 => &BF16,
            Self::F16 => &F16,
            Self::E5m2 => &E5M2,
            Self::E4m3 => &E4M3,
            Self::E3m2 => &E3M2,
            Self::E2m3 => &E2M3,
            Self::E2m1 => &E2M1,
            Self::Fp8Fnuz => &FP8_FNUZ,
            Self::Bf8Fnuz => &BF8_FNUZ,
            Self::Ue8m0 => &UE8M0,
            Self::Ue4m3 => &UE4M3,
            Self::S32 => &S32,
            Self::S8 => &S8,
            Self::U8 => &U8,
            Self::S4 => &S4,
            Self::U4 => &U4,
            Self::B1 => &B1,
        }
    }

    /// Whether it is an integer.
    #[must_use]
    pub fn is_integer(self) -> bool {
        self.format().specials == Specials::Integer
    }

    /// The name in PTX without the dot, or in the mnemonics of AMD.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.format().name
    }

    /// The element type of this name, or `None`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|e| e.name() == name)
    }
}

impl std::fmt::Display for Elem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
