//! Warp-level instructions: shuffles, votes, matrix loads and matrix multiplies.
//!
//! All of them act on full warps; a kernel executes them where every lane of a warp arrives.

use super::{F32, KernelBuilder, P, R32, Register, SharedBase, Source, Word};
use crate::ast::{Addr, MmaShape, Op, Operand, ShflMode, Type, VoteMode};

const FULL: Operand = Operand::Int(0xffff_ffff);

impl KernelBuilder {
    fn shfl<W: Word>(&mut self, mode: ShflMode, a: W, b: Operand, c: i64) -> W {
        let d: W = self.fresh();
        self.emit(Op::Shfl { mode, d: d.reg(), p: None, a: Operand::Reg(a.reg()), b, c: Operand::Int(c), mask: FULL });
        d
    }

    /// `shfl.sync.bfly.b32`: the value of lane `lane ^ mask`.
    pub fn shfl_bfly<W: Word>(&mut self, a: W, mask: impl Source<R32>) -> W {
        self.shfl(ShflMode::Bfly, a, mask.operand(), 0x1f)
    }

    /// `shfl.sync.idx.b32`: the value of lane `lane`.
    pub fn shfl_idx<W: Word>(&mut self, a: W, lane: impl Source<R32>) -> W {
        self.shfl(ShflMode::Idx, a, lane.operand(), 0x1f)
    }

    /// `shfl.sync.down.b32`: the value `delta` lanes higher, or the own one past the end.
    pub fn shfl_down<W: Word>(&mut self, a: W, delta: impl Source<R32>) -> W {
        self.shfl(ShflMode::Down, a, delta.operand(), 0x1f)
    }

    /// `shfl.sync.up.b32`: the value `delta` lanes lower, or the own one before the start.
    pub fn shfl_up<W: Word>(&mut self, a: W, delta: impl Source<R32>) -> W {
        self.shfl(ShflMode::Up, a, delta.operand(), 0)
    }

    fn vote<R: Register>(&mut self, mode: VoteMode, p: P) -> R {
        let d: R = self.fresh();
        self.emit(Op::Vote { mode, d: d.reg(), p: p.reg(), negate: false, mask: FULL });
        d
    }

    /// `vote.sync.all.pred`.
    pub fn vote_all(&mut self, p: P) -> P {
        self.vote(VoteMode::All, p)
    }

    /// `vote.sync.any.pred`.
    pub fn vote_any(&mut self, p: P) -> P {
        self.vote(VoteMode::Any, p)
    }

    /// `vote.sync.ballot.b32`: bit `i` is lane `i`'s predicate.
    pub fn vote_ballot(&mut self, p: P) -> R32 {
        self.vote(VoteMode::Ballot, p)
    }

    /// `ldmatrix.sync.aligned.m8n8.xN[.trans].shared.b16`, N in 1, 2, 4: lane `8 i + r` gives the
    /// address of row `r` of matrix `i`; each row is 8 values of 16 bits, 16-byte aligned.
    ///
    /// # Panics
    /// For any other N.
    pub fn ldmatrix<const N: usize>(&mut self, trans: bool, base: impl SharedBase, offset: i64) -> [R32; N] {
        assert!(matches!(N, 1 | 2 | 4), "ldmatrix loads 1, 2 or 4 matrices");
        let d: [R32; N] = self.fresh_array();
        self.emit(Op::LdMatrix {
            trans,
            d: d.iter().map(|r| r.reg()).collect(),
            addr: Addr { base: base.base(), offset },
        });
        d
    }

    fn mma<const A: usize, const B: usize>(
        &mut self,
        (k, ty): (u32, Type),
        d: [F32; 4],
        a: [R32; A],
        b: [R32; B],
        c: [F32; 4],
    ) {
        let regs = |v: &[R32]| v.iter().map(|r| r.reg()).collect();
        self.emit(Op::Mma {
            shape: MmaShape { m: 16, n: 8, k },
            dty: Type::F32,
            aty: ty,
            bty: ty,
            cty: Type::F32,
            d: d.iter().map(|r| r.reg()).collect(),
            a: regs(&a),
            b: regs(&b),
            c: c.iter().map(|r| r.reg()).collect(),
        });
    }
}

macro_rules! mma {
    ($($name:ident, $into:ident: $k:literal $ty:ident [$a:literal, $b:literal], $text:literal;)+) => {
        impl KernelBuilder {
            $(
                #[doc = concat!("`", $text, "`: `a * b + c` in fresh registers.")]
                pub fn $name(&mut self, a: [R32; $a], b: [R32; $b], c: [F32; 4]) -> [F32; 4] {
                    let d = self.fresh_array();
                    self.mma(($k, Type::$ty), d, a, b, c);
                    d
                }

                #[doc = concat!("`", $text, "`: `acc += a * b` in place.")]
                pub fn $into(&mut self, acc: [F32; 4], a: [R32; $a], b: [R32; $b]) {
                    self.mma(($k, Type::$ty), acc, a, b, acc);
                }
            )+
        }
    };
}

mma! {
    mma_m16n8k16_bf16, mma_m16n8k16_bf16_into: 16 Bf16 [4, 2],
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
    mma_m16n8k8_bf16, mma_m16n8k8_bf16_into: 8 Bf16 [2, 1],
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32";
    mma_m16n8k16_f16, mma_m16n8k16_f16_into: 16 F16 [4, 2],
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
    mma_m16n8k8_f16, mma_m16n8k8_f16_into: 8 F16 [2, 1],
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32";
    mma_m16n8k8_tf32, mma_m16n8k8_tf32_into: 8 Tf32 [4, 2],
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32";
    mma_m16n8k4_tf32, mma_m16n8k4_tf32_into: 4 Tf32 [2, 1],
        "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32";
}
