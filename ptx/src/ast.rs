//! The typed syntax tree. One tree serves the parser, the printer, the builder, the lint and the
//! emulator, so a kernel cannot mean one thing when printed and another when interpreted.
//!
//! Source: PTX ISA 7.0 (the header every module carries), restricted to what lastbit's kernels use.

/// A compilation unit: header and kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// `.version major.minor`.
    pub version: (u32, u32),
    /// `.target sm_NN`.
    pub target: u32,
    /// Entry points, in file order.
    pub kernels: Vec<Kernel>,
}

impl Module {
    /// A module with the header every lastbit kernel carries: it runs on any GPU since Ampere.
    #[must_use]
    pub fn new(kernels: Vec<Kernel>) -> Self {
        Module { version: (7, 0), target: 80, kernels }
    }

    /// The kernel of this name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
}

/// One `.visible .entry`.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Entry name.
    pub name: String,
    /// Parameters in order; offsets follow C layout.
    pub params: Vec<Param>,
    /// `.maxntid x, y, z`, when stated.
    pub max_ntid: Option<[u32; 3]>,
    /// Virtual registers; a [`Reg`] indexes this table.
    pub regs: Vec<RegDecl>,
    /// Statically sized shared arrays; [`Operand::Shared`] and [`Base::Shared`] index this table.
    pub shared: Vec<SharedVar>,
    /// Label names; a [`Label`] indexes this table.
    pub labels: Vec<String>,
    /// Instructions and label definitions in order.
    pub body: Vec<Stmt>,
}

/// A kernel parameter (scalar).
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Name as printed.
    pub name: String,
    /// Scalar type; pointers are `U64`.
    pub ty: Type,
}

/// Declaration of one virtual register.
#[derive(Clone, Debug, PartialEq)]
pub struct RegDecl {
    /// Name with its `%`.
    pub name: String,
    /// Declared type: `Pred`, `B16`, `B32`, `B64`, `F32` or `F64` (and the typed integer forms when parsed).
    pub ty: Type,
}

/// `.shared .align A .b8 name[bytes];`
#[derive(Clone, Debug, PartialEq)]
pub struct SharedVar {
    /// Name as printed.
    pub name: String,
    /// Alignment in bytes.
    pub align: u32,
    /// Size in bytes.
    pub bytes: u32,
}

/// Index into [`Kernel::regs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u32);

/// Index into [`Kernel::labels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(pub u32);

/// Fundamental types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F32x2,
    F64,
    /// 8-bit floats: elements of matrix instructions.
    E4m3,
    E5m2,
    /// Pairs of narrow floats and of scales: results and operands of `cvt`.
    E4m3x2,
    E5m2x2,
    E3m2x2,
    E2m3x2,
    E2m1x2,
    Ue8m0x2,
    /// 4-bit integers: elements of matrix instructions.
    S4,
    U4,
}

/// State spaces that loads and stores name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Space {
    Param,
    Global,
    Shared,
}

/// Rounding modifiers of floating-point results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Nearest, ties to even.
    Rn,
    /// Toward zero.
    Rz,
    /// Toward negative infinity.
    Rm,
    /// Toward positive infinity.
    Rp,
    /// Nearest, ties away (tf32 only).
    Rna,
    /// To an integer, nearest even.
    Rni,
    /// To an integer, toward zero.
    Rzi,
    /// To an integer, toward negative infinity.
    Rmi,
    /// To an integer, toward positive infinity.
    Rpi,
    /// Stochastic: by random bits that the instruction is given.
    Rs,
}

/// Special registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Special {
    TidX,
    TidY,
    TidZ,
    NtidX,
    NtidY,
    NtidZ,
    CtaidX,
    CtaidY,
    CtaidZ,
    NctaidX,
    NctaidY,
    NctaidZ,
    LaneId,
    WarpId,
}

/// A source operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// An integer immediate, sign-extended to 64 bits.
    Int(i64),
    /// `0fXXXXXXXX`: the bits of an f32.
    F32(u32),
    /// `0dXXXXXXXXXXXXXXXX`: the bits of an f64.
    F64(u64),
    /// A special register (only in `mov`).
    Special(Special),
    /// The address of a shared array within the shared window (only in `mov`).
    Shared(u32),
}

/// What an address starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// A register: 64 bits for global, 32 or 64 for shared.
    Reg(Reg),
    /// Index into [`Kernel::params`].
    Param(u32),
    /// Index into [`Kernel::shared`].
    Shared(u32),
}

/// `[base + offset]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addr {
    /// Start.
    pub base: Base,
    /// Byte offset.
    pub offset: i64,
}

/// Two-operand integer, bit and predicate-logic instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IntOp {
    Add,
    Sub,
    MulLo,
    MulHi,
    /// Destination is twice as wide as `ty`.
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// One-operand integer, bit and predicate-logic instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IntUnary {
    Not,
    Neg,
    Abs,
    Popc,
    Clz,
    Brev,
}

/// Two-operand floating-point instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FloatOp {
    Add,
    Sub,
    Mul,
    /// IEEE division; always with a rounding.
    Div,
    Min,
    Max,
}

impl FloatOp {
    /// Whether the result is one of the operands, which needs no rounding.
    #[must_use]
    pub const fn selects(self) -> bool {
        matches!(self, FloatOp::Min | FloatOp::Max)
    }
}

/// One-operand floating-point instructions that are exact or correctly rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FloatUnary {
    Neg,
    Abs,
    Rcp,
    Sqrt,
}

/// Instructions on 16-bit operands with an f32 sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MixedOp {
    Add,
    Sub,
    Fma,
}

/// Special-function-unit instructions (`.approx`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Approx {
    Rcp,
    Rsqrt,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
    Sqrt,
}

/// Comparisons. The `U` forms of floats (true when unordered) are listed after the ordered ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// `shfl.sync` modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// `vote.sync` modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum VoteMode {
    All,
    Any,
    Uni,
    /// Destination is a `.b32` mask.
    Ballot,
}

/// m, n, k of a warp-level matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct MmaShape {
    pub m: u32,
    pub n: u32,
    pub k: u32,
}

/// Integer atomics (float atomics do not exist in this tree, by design).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AtomOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
}

/// One operation, without its guard.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Op {
    /// `mov.ty d, a;`
    Mov { ty: Type, d: Reg, a: Operand },
    /// `mov.ty d, {a0, a1};` — `a[0]` is the least significant part.
    Pack { ty: Type, d: Reg, a: Vec<Operand> },
    /// `mov.ty {d0, d1}, a;`
    Unpack { ty: Type, d: Vec<Reg>, a: Operand },
    /// `ld.space[.nc][.vN].ty d, [addr];` with N = `d.len()` in 1, 2, 4.
    Ld { space: Space, nc: bool, ty: Type, d: Vec<Reg>, addr: Addr },
    /// `st.space[.vN].ty [addr], a;`
    St { space: Space, ty: Type, addr: Addr, a: Vec<Operand> },
    /// `op.ty d, a, b;` For `Shl`/`Shr`, `b` is a `.u32`.
    Int { op: IntOp, ty: Type, d: Reg, a: Operand, b: Operand },
    /// `mad.lo.ty` or `mad.wide.ty d, a, b, c;`
    Mad { wide: bool, ty: Type, d: Reg, a: Operand, b: Operand, c: Operand },
    /// `op.ty d, a;`
    IntUnary { op: IntUnary, ty: Type, d: Reg, a: Operand },
    /// `op[.rnd][.ftz][.sat].ty d, a, b;` (`nan`: the `.NaN` form of min/max; `xorsign`: their `.xorsign.abs` form.)
    Float {
        op: FloatOp,
        ty: Type,
        round: Option<Round>,
        ftz: bool,
        sat: bool,
        nan: bool,
        xorsign: bool,
        d: Reg,
        a: Operand,
        b: Operand,
    },
    /// `fma.rnd[.ftz][.sat][.relu].ty d, a, b, c;`
    Fma { ty: Type, round: Option<Round>, ftz: bool, sat: bool, relu: bool, d: Reg, a: Operand, b: Operand, c: Operand },
    /// `{add,sub}[.rnd][.sat].f32.from d, a, c;` or, with `b`, `fma.rnd[.sat].f32.from d, a, b, c;` — `a` and `b` of 16 bits, an f32
    /// result.
    Mixed {
        op: MixedOp,
        from: Type,
        round: Option<Round>,
        sat: bool,
        d: Reg,
        a: Operand,
        b: Option<Operand>,
        c: Operand,
    },
    /// `op[.rnd][.ftz].ty d, a;`
    FloatUnary { op: FloatUnary, ty: Type, round: Option<Round>, ftz: bool, d: Reg, a: Operand },
    /// `f.approx[.ftz].ty d, a;`
    Approx { f: Approx, ty: Type, ftz: bool, d: Reg, a: Operand },
    /// `setp.cmp[.ftz].ty d, a, b;`
    Setp { cmp: Cmp, ty: Type, ftz: bool, d: Reg, a: Operand, b: Operand },
    /// `selp.ty d, a, b, p;` — `a` where `p`, else `b`.
    Selp { ty: Type, d: Reg, a: Operand, b: Operand, p: Reg },
    /// `cvt[.rnd][.ftz][.sat][.satfinite][.relu].to.from d, a;`
    Cvt {
        round: Option<Round>,
        ftz: bool,
        sat: bool,
        satfinite: bool,
        relu: bool,
        to: Type,
        from: Type,
        d: Reg,
        a: Operand,
    },
    /// `cvt.rnd[.satfinite][.relu].to.f32 d, hi, lo[, random];` — `to` is a pair; `random` with `.rs` alone.
    CvtPack {
        round: Round,
        satfinite: bool,
        relu: bool,
        to: Type,
        d: Reg,
        hi: Operand,
        lo: Operand,
        random: Option<Operand>,
    },
    /// `cvta.to.space.u64 d, a;`
    Cvta { space: Space, d: Reg, a: Operand },
    /// `prmt.b32 d, a, b, sel;`
    Prmt { d: Reg, a: Operand, b: Operand, sel: Operand },
    /// `bfe.ty d, a, pos, len;`
    Bfe { ty: Type, d: Reg, a: Operand, pos: Operand, len: Operand },
    /// `shfl.sync.mode.b32 d[|p], a, b, c, mask;`
    Shfl { mode: ShflMode, d: Reg, p: Option<Reg>, a: Operand, b: Operand, c: Operand, mask: Operand },
    /// `vote.sync.mode d, p, mask;`
    Vote { mode: VoteMode, d: Reg, p: Reg, negate: bool, mask: Operand },
    /// `bra[.uni] target;`
    Bra { uni: bool, target: Label },
    /// `ret;`
    Ret,
    /// `exit;`
    Exit,
    /// `bar.sync id;`
    BarSync { id: u32 },
    /// `bar.warp.sync mask;`
    WarpSync { mask: Operand },
    /// `ldmatrix.sync.aligned.m8n8.xN[.trans].shared.b16 {d..}, [addr];`
    LdMatrix { trans: bool, d: Vec<Reg>, addr: Addr },
    /// `mma.sync.aligned.mMnNkK.row.col.d.a.b.c d, a, b, c;`
    Mma {
        shape: MmaShape,
        dty: Type,
        aty: Type,
        bty: Type,
        cty: Type,
        d: Vec<Reg>,
        a: Vec<Reg>,
        b: Vec<Reg>,
        c: Vec<Reg>,
    },
    /// `cp.async.{ca,cg}.shared.global [dst], [src], bytes[, src_size];` — `cg` needs 16 bytes.
    CpAsync { cg: bool, bytes: u32, dst: Addr, src: Addr, src_size: Option<Operand> },
    /// `cp.async.commit_group;`
    CpAsyncCommit,
    /// `cp.async.wait_group n;`, or `cp.async.wait_all;` when absent.
    CpAsyncWait { n: Option<u32> },
    /// `atom.space.op.ty d, [addr], a[, b];` — integer types only.
    Atom { space: Space, op: AtomOp, ty: Type, d: Reg, addr: Addr, a: Operand, b: Option<Operand> },
}

/// `@p` or `@!p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// A predicate register.
    pub reg: Reg,
    /// True for `@!p`.
    pub negate: bool,
}

/// An instruction with its guard and place in the text.
#[derive(Clone, Debug)]
pub struct Inst {
    /// Predicate guard, when present.
    pub guard: Option<Guard>,
    /// The operation.
    pub op: Op,
    /// Where it was parsed; `Pos::NONE` when built. Not part of equality.
    pub pos: Pos,
}

impl PartialEq for Inst {
    fn eq(&self, other: &Self) -> bool {
        self.guard == other.guard && self.op == other.op
    }
}

/// Line and column, from 1; zero when the instruction was built rather than parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pos {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Pos {
    /// The place of something that was not parsed from text.
    pub const NONE: Pos = Pos { line: 0, column: 0 };
}

/// One line of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// `name:`
    Label(Label),
    /// An instruction.
    Inst(Inst),
}
