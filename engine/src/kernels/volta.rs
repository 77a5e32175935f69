//! Texts that run on every GPU since Volta: those of kernels that need no more of a GPU than IEEE operations, with the two things that Ampere
//! brought spelled out in older instructions.
//!
//! # Bits
//! Those of the text that is rewritten. A conversion to bf16 becomes integers (nearest even at bit 16; a NaN becomes `7fff`), an asynchronous
//! copy a load and a store by the same thread, before the same barrier. Nothing else changes but the header. Compared launch by launch in
//! the kernels' tests, and whole models over generations.

use ptx::ast::{Addr, Guard, Inst, IntOp, Kernel, Module, Op, Operand, Pos, Reg, RegDecl, Space, Stmt, Type};

use super::KernelText;

/// The text for `sm_70` and up; none if it holds something else that Volta does not have, such as a matrix instruction.
#[must_use]
pub fn for_volta(text: &KernelText) -> Option<KernelText> {
    let mut module = ptx::parse(&text.ptx).ok()?;
    module.kernels = module.kernels.into_iter().map(rewrite).collect();
    let module = Module { target: 70, ..module };
    ptx::validate(&module).ok()?;
    Some(KernelText { ptx: ptx::print(&module), ..text.clone() })
}

fn rewrite(mut kernel: Kernel) -> Kernel {
    let body = std::mem::take(&mut kernel.body);
    let mut writer = Writer { kernel };
    for stmt in body {
        match stmt {
            Stmt::Inst(Inst { guard, op, .. }) => writer.write(guard, op),
            label @ Stmt::Label(_) => writer.kernel.body.push(label),
        }
    }
    writer.kernel
}

/// Appends to the body of a kernel.
struct Writer {
    kernel: Kernel,
}

impl Writer {
    fn fresh(&mut self, ty: Type) -> Reg {
        let reg = Reg(self.kernel.regs.len() as u32);
        self.kernel.regs.push(RegDecl { name: format!("%v{}", reg.0), ty });
        reg
    }

    fn push(&mut self, guard: Option<Guard>, op: Op) {
        self.kernel.body.push(Stmt::Inst(Inst { guard, op, pos: Pos::NONE }));
    }

    fn int(&mut self, op: IntOp, a: Reg, b: i64) -> Reg {
        let d = self.fresh(Type::B32);
        let ty = if matches!(op, IntOp::And | IntOp::Or | IntOp::Shl) { Type::B32 } else { Type::U32 };
        self.push(None, Op::Int { op, ty, d, a: Operand::Reg(a), b: Operand::Int(b) });
        d
    }

    fn write(&mut self, guard: Option<Guard>, op: Op) {
        match op {
            Op::CvtPack { to: Type::Bf16x2, d, hi, lo, .. } => {
                let (hi, lo) = (self.rounded(hi), self.rounded(lo));
                let (hi, lo) = (self.int(IntOp::And, hi, 0xffff_0000), self.int(IntOp::Shr, lo, 16));
                let (a, b) = (Operand::Reg(hi), Operand::Reg(lo));
                self.push(guard, Op::Int { op: IntOp::Or, ty: Type::B32, d, a, b });
            }
            Op::Cvt { to: Type::Bf16, from: Type::F32, d, a, .. } => {
                let rounded = self.rounded(a);
                let low = self.fresh(Type::B16);
                self.push(guard, Op::Unpack { ty: Type::B32, d: vec![low, d], a: Operand::Reg(rounded) });
            }
            Op::CpAsync { dst, src, src_size, .. } => self.copy(guard, dst, src, src_size),
            Op::CpAsyncCommit | Op::CpAsyncWait { .. } => {}
            op => self.push(guard, op),
        }
    }

    /// An f32 rounded to bf16, in the high half; what the low half holds does not matter.
    fn rounded(&mut self, a: Operand) -> Reg {
        let bits = self.fresh(Type::B32);
        self.push(None, Op::Mov { ty: Type::B32, d: bits, a });
        let odd = self.fresh(Type::B32);
        let (pos, len) = (Operand::Int(16), Operand::Int(1));
        self.push(None, Op::Bfe { ty: Type::U32, d: odd, a: Operand::Reg(bits), pos, len });
        let up = self.int(IntOp::Add, bits, 0x7fff);
        let sum = self.fresh(Type::B32);
        let (a, b) = (Operand::Reg(up), Operand::Reg(odd));
        self.push(None, Op::Int { op: IntOp::Add, ty: Type::U32, d: sum, a, b });
        let size = self.int(IntOp::And, bits, 0x7fff_ffff);
        let nan = self.fresh(Type::Pred);
        let (a, b) = (Operand::Reg(size), Operand::Int(0x7f80_0000));
        self.push(None, Op::Setp { cmp: ptx::ast::Cmp::Gt, ty: Type::U32, ftz: false, d: nan, a, b });
        let d = self.fresh(Type::B32);
        self.push(None, Op::Selp { ty: Type::B32, d, a: Operand::Int(0x7fff_0000), b: Operand::Reg(sum), p: nan });
        d
    }

    /// A copy of 16 bytes; where `size` is given and zero, of zeros. (No copy of ours is of a part.)
    fn copy(&mut self, guard: Option<Guard>, dst: Addr, src: Addr, size: Option<Operand>) {
        let words: Vec<Reg> = (0..4).map(|_| self.fresh(Type::B32)).collect();
        let load = Op::Ld { space: Space::Global, nc: false, ty: Type::B32, d: words.clone(), addr: src };
        let store = |words: &[Reg]| {
            let a = words.iter().map(|word| Operand::Reg(*word)).collect();
            Op::St { space: Space::Shared, ty: Type::B32, addr: dst, a }
        };
        let Some(size) = size else {
            self.push(guard, load);
            return self.push(guard, store(&words));
        };
        for word in &words {
            self.push(None, Op::Mov { ty: Type::B32, d: *word, a: Operand::Int(0) });
        }
        // The guard's sense as a number, so that a negated one is no case of its own.
        let wanted = self.fresh(Type::B32);
        self.push(None, Op::Mov { ty: Type::B32, d: wanted, a: Operand::Int(0) });
        self.push(guard, Op::Mov { ty: Type::B32, d: wanted, a: size });
        let some = self.fresh(Type::Pred);
        let (a, b) = (Operand::Reg(wanted), Operand::Int(0));
        self.push(None, Op::Setp { cmp: ptx::ast::Cmp::Ne, ty: Type::U32, ftz: false, d: some, a, b });
        self.push(Some(Guard { reg: some, negate: false }), load);
        self.push(guard, store(&words));
    }
}
