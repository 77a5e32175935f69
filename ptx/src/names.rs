//! The spelling of types, modifiers and opcodes: the printer and the parser read the same tables.

use std::fmt;

use crate::ast::{
    Approx, AtomOp, Cmp, FloatOp, FloatUnary, IntOp, IntUnary, MixedOp, MmaShape, Op, Round, ShflMode, Space, Special,
    Type, VoteMode,
};

macro_rules! names {
    ($ty:ident { $($variant:ident = $text:literal,)+ }) => {
        impl $ty {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The spelling in PTX, without a leading dot.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The value of this spelling.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

names!(Type {
    Pred = "pred",
    B8 = "b8",
    B16 = "b16",
    B32 = "b32",
    B64 = "b64",
    U8 = "u8",
    U16 = "u16",
    U32 = "u32",
    U64 = "u64",
    S8 = "s8",
    S16 = "s16",
    S32 = "s32",
    S64 = "s64",
    F16 = "f16",
    F16x2 = "f16x2",
    Bf16 = "bf16",
    Bf16x2 = "bf16x2",
    Tf32 = "tf32",
    F32 = "f32",
    F32x2 = "f32x2",
    F64 = "f64",
    E4m3 = "e4m3",
    E5m2 = "e5m2",
    E4m3x2 = "e4m3x2",
    E5m2x2 = "e5m2x2",
    E3m2x2 = "e3m2x2",
    E2m3x2 = "e2m3x2",
    E2m1x2 = "e2m1x2",
    Ue8m0x2 = "ue8m0x2",
    S4 = "s4",
    U4 = "u4",
});

names!(Space {
    Param = "param",
    Global = "global",
    Shared = "shared",
});

names!(Round {
    Rn = "rn",
    Rz = "rz",
    Rm = "rm",
    Rp = "rp",
    Rna = "rna",
    Rni = "rni",
    Rzi = "rzi",
    Rmi = "rmi",
    Rpi = "rpi",
    Rs = "rs",
});

names!(Special {
    TidX = "%tid.x",
    TidY = "%tid.y",
    TidZ = "%tid.z",
    NtidX = "%ntid.x",
    NtidY = "%ntid.y",
    NtidZ = "%ntid.z",
    CtaidX = "%ctaid.x",
    CtaidY = "%ctaid.y",
    CtaidZ = "%ctaid.z",
    NctaidX = "%nctaid.x",
    NctaidY = "%nctaid.y",
    NctaidZ = "%nctaid.z",
    LaneId = "%laneid",
    WarpId = "%warpid",
});

names!(IntOp {
    Add = "add",
    Sub = "sub",
    MulLo = "mul.lo",
    MulHi = "mul.hi",
    MulWide = "mul.wide",
    Div = "div",
    Rem = "rem",
    Min = "min",
    Max = "max",
    And = "and",
    Or = "or",
    Xor = "xor",
    Shl = "shl",
    Shr = "shr",
});

names!(IntUnary {
    Not = "not",
    Neg = "neg",
    Abs = "abs",
    Popc = "popc",
    Clz = "clz",
    Brev = "brev",
});

names!(FloatOp {
    Add = "add",
    Sub = "sub",
    Mul = "mul",
    Div = "div",
    Min = "min",
    Max = "max",
});

names!(FloatUnary {
    Neg = "neg",
    Abs = "abs",
    Rcp = "rcp",
    Sqrt = "sqrt",
});

names!(MixedOp {
    Add = "add",
    Sub = "sub",
    Fma = "fma",
});

names!(Approx {
    Rcp = "rcp",
    Rsqrt = "rsqrt",
    Ex2 = "ex2",
    Lg2 = "lg2",
    Sin = "sin",
    Cos = "cos",
    Tanh = "tanh",
    Sqrt = "sqrt",
});

names!(Cmp {
    Eq = "eq",
    Ne = "ne",
    Lt = "lt",
    Le = "le",
    Gt = "gt",
    Ge = "ge",
    Equ = "equ",
    Neu = "neu",
    Ltu = "ltu",
    Leu = "leu",
    Gtu = "gtu",
    Geu = "geu",
    Num = "num",
    Nan = "nan",
});

names!(ShflMode {
    Up = "up",
    Down = "down",
    Bfly = "bfly",
    Idx = "idx",
});

names!(VoteMode {
    All = "all",
    Any = "any",
    Uni = "uni",
    Ballot = "ballot",
});

names!(AtomOp {
    Add = "add",
    Min = "min",
    Max = "max",
    And = "and",
    Or = "or",
    Xor = "xor",
    Exch = "exch",
    Cas = "cas",
});

impl fmt::Display for MmaShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}n{}k{}", self.m, self.n, self.k)
    }
}

impl MmaShape {
    /// The shape spelled `mMnNkK`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let (m, rest) = name.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        let number = |s: &str| {
            // Only the spelling the printer uses: no sign, no leading zero.
            (s.len() <= 3 && !s.starts_with(['0', '+'])).then(|| s.parse().ok()).flatten()
        };
        Some(MmaShape { m: number(m)?, n: number(n)?, k: number(k)? })
    }
}

impl Op {
    /// The opcode with the modifiers that belong to its name, for messages: `mul.wide`, `shfl.sync`.
    #[must_use]
    pub const fn mnemonic(&self) -> &'static str {
        match self {
            Op::Mov { .. } | Op::Pack { .. } | Op::Unpack { .. } => "mov",
            Op::Ld { .. } => "ld",
            Op::St { .. } => "st",
            Op::Int { op, .. } => op.name(),
            Op::Mad { wide: true, .. } => "mad.wide",
            Op::Mad { wide: false, .. } => "mad.lo",
            Op::IntUnary { op, .. } => op.name(),
            Op::Float { op, .. } => op.name(),
            Op::Fma { .. } => "fma",
            Op::Mixed { op, .. } => op.name(),
            Op::FloatUnary { op, .. } => op.name(),
            Op::Approx { f, .. } => f.name(),
            Op::Setp { .. } => "setp",
            Op::Selp { .. } => "selp",
            Op::Cvt { .. } | Op::CvtPack { .. } => "cvt",
            Op::Cvta { .. } => "cvta.to",
            Op::Prmt { .. } => "prmt",
            Op::Bfe { .. } => "bfe",
            Op::Shfl { .. } => "shfl.sync",
            Op::Vote { .. } => "vote.sync",
            Op::Bra { .. } => "bra",
            Op::Ret => "ret",
            Op::Exit => "exit",
            Op::BarSync { .. } => "bar.sync",
            Op::WarpSync { .. } => "bar.warp.sync",
            Op::LdMatrix { .. } => "ldmatrix",
            Op::Mma { .. } => "mma.sync",
            Op::CpAsync { .. } => "cp.async",
            Op::CpAsyncCommit => "cp.async.commit_group",
            Op::CpAsyncWait { n: Some(_) } => "cp.async.wait_group",
            Op::CpAsyncWait { n: None } => "cp.async.wait_all",
            Op::Atom { .. } => "atom",
        }
    }
}

/// Whether the text is an identifier of PTX: a letter, or one of `_ $ %` followed by more; then
/// letters, digits, `_` and `$`.
#[must_use]
pub fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    let follow = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    match chars.next() {
        Some(c) if c.is_ascii_alphabetic() => {}
        Some('_' | '$' | '%') if name.len() > 1 => {}
        _ => return false,
    }
    chars.all(follow)
}
