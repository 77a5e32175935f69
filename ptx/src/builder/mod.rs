//! Writes kernels in Rust: typed registers, one method per instruction, loops unrolled by Rust or
//! kept as runtime loops, named shared memory.
//!
//! A method without suffix writes a fresh register and returns it; its `_into` form writes a
//! register that exists, which is how loop-carried values are kept. Every f32 operation has its
//! rounding in its name, and there is no method that leaves it out.
//!
//! Mistakes of the kernel's author (an immediate that does not fit, a label never placed, operands
//! that [`crate::validate()`] refuses) panic while the kernel is built; no input of a running program
//! reaches them.

mod compare;
mod control;
mod convert;
mod float;
mod int;
mod memory;
mod registers;
mod warp;

pub use memory::{SharedBase, SharedRef};
pub use registers::{F32, P, R16, R32, R64, Register, Source, Storable, Word};

use crate::ast::{
    Addr, Base, Guard, Inst, Kernel, Label, Op, Operand, Param, Pos, Reg, RegDecl, SharedVar, Space, Special, Stmt,
    Type,
};

/// Builds one kernel, instruction by instruction.
///
/// ```
/// use ptx::builder::KernelBuilder;
///
/// // y[i] = 2 * x[i] + 1, one element a thread.
/// let mut k = KernelBuilder::new("affine");
/// let (x, y, n) = (k.param_ptr("x"), k.param_ptr("y"), k.param_u32("n"));
/// let (cta, ntid, tid) = (k.ctaid_x(), k.ntid_x(), k.tid_x());
/// let i = k.mad_lo_u32(cta, ntid, tid);
/// let inside = k.setp_lt_u32(i, n);
/// k.if_(inside, |k| {
///     let from = k.mad_wide_u32(i, 4, x);
///     let to = k.mad_wide_u32(i, 4, y);
///     let v: ptx::builder::F32 = k.ld_global(from, 0);
///     let v = k.fma_rn(v, 2.0, 1.0);
///     k.st_global(to, 0, v);
/// });
/// let kernel = k.finish();
/// assert_eq!(kernel.params.len(), 3);
/// ```
#[derive(Debug)]
pub struct KernelBuilder {
    kernel: Kernel,
    guard: Option<Guard>,
}

impl KernelBuilder {
    /// Starts an empty kernel.
    #[must_use]
    pub fn new(name: &str) -> Self {
        KernelBuilder {
            kernel: Kernel {
                name: name.to_owned(),
                params: Vec::new(),
                max_ntid: None,
                regs: Vec::new(),
                shared: Vec::new(),
                labels: Vec::new(),
                body: Vec::new(),
            },
            guard: None,
        }
    }

    /// States the largest block the kernel is launched with (`.maxntid`).
    pub fn max_ntid(&mut self, x: u32, y: u32, z: u32) {
        self.kernel.max_ntid = Some([x, y, z]);
    }

    /// Declares a register without giving it a value.
    pub fn fresh<R: Register>(&mut self) -> R {
        let reg = Reg(self.kernel.regs.len() as u32);
        // Named by class when the kernel is finished.
        self.kernel.regs.push(RegDecl { name: String::new(), ty: R::TYPE });
        R::from_reg(reg)
    }

    /// Declares an array of registers without values.
    pub fn fresh_array<R: Register, const N: usize>(&mut self) -> [R; N] {
        std::array::from_fn(|_| self.fresh())
    }

    /// Appends an operation under the guard in force.
    pub fn emit(&mut self, op: Op) {
        self.kernel.body.push(Stmt::Inst(Inst { guard: self.guard, op, pos: Pos::NONE }));
    }

    /// `mov` of a register or immediate into an existing register.
    pub fn set<R: Register>(&mut self, d: R, value: impl Source<R>) {
        self.emit(Op::Mov { ty: R::TYPE, d: d.reg(), a: value.operand() });
    }

    /// `mov.b32` into a fresh register: a variable with a first value.
    pub fn mov_b32(&mut self, value: impl Source<R32>) -> R32 {
        let d = self.fresh();
        self.set(d, value);
        d
    }

    /// `mov.b64` into a fresh register.
    pub fn mov_b64(&mut self, value: impl Source<R64>) -> R64 {
        let d = self.fresh();
        self.set(d, value);
        d
    }

    /// `mov.b16` into a fresh register.
    pub fn mov_b16(&mut self, value: impl Source<R16>) -> R16 {
        let d = self.fresh();
        self.set(d, value);
        d
    }

    /// `mov.f32` into a fresh register.
    pub fn mov_f32(&mut self, value: impl Source<F32>) -> F32 {
        let d = self.fresh();
        self.set(d, value);
        d
    }

    /// The bits of an f32 (`mov.b32`).
    pub fn bits_of_f32(&mut self, a: F32) -> R32 {
        let d: R32 = self.fresh();
        self.emit(Op::Mov { ty: Type::B32, d: d.reg(), a: a.operand() });
        d
    }

    /// The f32 with these bits (`mov.b32`).
    pub fn f32_of_bits(&mut self, a: R32) -> F32 {
        let d: F32 = self.fresh();
        self.emit(Op::Mov { ty: Type::B32, d: d.reg(), a: a.operand() });
        d
    }

    fn param<R: Register>(&mut self, name: &str, ty: Type) -> R {
        let index = self.kernel.params.len() as u32;
        self.kernel.params.push(Param { name: name.to_owned(), ty });
        let d: R = self.fresh();
        self.emit(Op::Ld {
            space: Space::Param,
            nc: false,
            ty,
            d: vec![d.reg()],
            addr: Addr { base: Base::Param(index), offset: 0 },
        });
        d
    }

    /// Declares a pointer parameter and loads it as a global address.
    pub fn param_ptr(&mut self, name: &str) -> R64 {
        let generic: R64 = self.param(name, Type::U64);
        let d: R64 = self.fresh();
        self.emit(Op::Cvta { space: Space::Global, d: d.reg(), a: generic.operand() });
        d
    }

    /// Declares and loads a `.u64` parameter.
    pub fn param_u64(&mut self, name: &str) -> R64 {
        self.param(name, Type::U64)
    }

    /// Declares and loads a `.u32` parameter.
    pub fn param_u32(&mut self, name: &str) -> R32 {
        self.param(name, Type::U32)
    }

    /// Declares and loads a `.s32` parameter.
    pub fn param_s32(&mut self, name: &str) -> R32 {
        self.param(name, Type::S32)
    }

    /// Declares and loads an `.f32` parameter.
    pub fn param_f32(&mut self, name: &str) -> F32 {
        self.param(name, Type::F32)
    }

    /// Declares a shared array.
    pub fn shared(&mut self, name: &str, align: u32, bytes: u32) -> SharedRef {
        let index = self.kernel.shared.len() as u32;
        self.kernel.shared.push(SharedVar { name: name.to_owned(), align, bytes });
        SharedRef(index)
    }

    /// The address of a shared array (`mov.u32`).
    pub fn shared_addr(&mut self, array: SharedRef) -> R32 {
        let d: R32 = self.fresh();
        self.emit(Op::Mov { ty: Type::U32, d: d.reg(), a: Operand::Shared(array.0) });
        d
    }

    /// Reads a special register (`mov.u32`).
    pub fn special(&mut self, special: Special) -> R32 {
        let d: R32 = self.fresh();
        self.emit(Op::Mov { ty: Type::U32, d: d.reg(), a: Operand::Special(special) });
        d
    }

    /// Ends the kernel: adds a final `ret` where the body does not end in one, numbers registers by
    /// class and labels in order.
    ///
    /// # Panics
    /// When a label was never placed, or the kernel is not valid (see [`crate::validate()`]).
    #[must_use]
    pub fn finish(mut self) -> Kernel {
        let ended =
            matches!(self.kernel.body.last(), Some(Stmt::Inst(Inst { guard: None, op: Op::Ret | Op::Exit, .. })));
        if !ended {
            self.emit(Op::Ret);
        }
        self.number_labels();
        self.number_registers();
        if let Err(error) = crate::validate::kernel(&self.kernel) {
            panic!("{error}");
        }
        self.kernel
    }

    /// Renumbers labels in the order in which they are placed.
    fn number_labels(&mut self) {
        let mut new = vec![None; self.kernel.labels.len()];
        let mut names = Vec::new();
        for stmt in &self.kernel.body {
            if let Stmt::Label(Label(old)) = stmt {
                new[*old as usize] = Some(names.len() as u32);
                names.push(format!("L{}", names.len()));
            }
        }
        self.kernel.labels = names;
        for stmt in &mut self.kernel.body {
            match stmt {
                Stmt::Label(l) | Stmt::Inst(Inst { op: Op::Bra { target: l, .. }, .. }) => match new[l.0 as usize] {
                    Some(n) => *l = Label(n),
                    None => panic!("kernel {}: a branch goes to a label that was never placed", self.kernel.name),
                },
                Stmt::Inst(_) => {}
            }
        }
    }

    /// Groups registers by class and names them: `%p0`, `%rs0`, `%r0`, `%rd0`, `%f0`.
    fn number_registers(&mut self) {
        const CLASSES: [(Type, &str); 5] =
            [(Type::Pred, "%p"), (Type::B16, "%rs"), (Type::B32, "%r"), (Type::B64, "%rd"), (Type::F32, "%f")];
        let old = std::mem::take(&mut self.kernel.regs);
        let mut new = vec![Reg(0); old.len()];
        for (class, prefix) in CLASSES {
            let members = old.iter().enumerate().filter(|(_, d)| d.ty == class);
            for (count, (i, _)) in members.enumerate() {
                new[i] = Reg(self.kernel.regs.len() as u32);
                self.kernel.regs.push(RegDecl { name: format!("{prefix}{count}"), ty: class });
            }
        }
        for stmt in &mut self.kernel.body {
            if let Stmt::Inst(inst) = stmt {
                inst.for_each_reg_mut(&mut |r: &mut Reg| *r = new[r.0 as usize]);
            }
        }
    }
}

macro_rules! special_registers {
    ($($name:ident => $special:ident, $text:literal;)+) => {
        impl KernelBuilder {
            $(
                #[doc = concat!("Reads `", $text, "`.")]
                pub fn $name(&mut self) -> R32 {
                    self.special(Special::$special)
                }
            )+
        }
    };
}

special_registers! {
    tid_x => TidX, "%tid.x";
    tid_y => TidY, "%tid.y";
    tid_z => TidZ, "%tid.z";
    ntid_x => NtidX, "%ntid.x";
    ntid_y => NtidY, "%ntid.y";
    ntid_z => NtidZ, "%ntid.z";
    ctaid_x => CtaidX, "%ctaid.x";
    ctaid_y => CtaidY, "%ctaid.y";
    ctaid_z => CtaidZ, "%ctaid.z";
    nctaid_x => NctaidX, "%nctaid.x";
    nctaid_y => NctaidY, "%nctaid.y";
    nctaid_z => NctaidZ, "%nctaid.z";
    lane_id => LaneId, "%laneid";
}
