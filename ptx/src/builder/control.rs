//! Control flow: structured forms over labels and branches, guards, barriers.

use super::{KernelBuilder, P, R32, Register, Source};
use crate::ast::{Guard, Label, Op, Operand, Stmt};

impl KernelBuilder {
    /// Makes a label to be placed later.
    pub fn label(&mut self) -> Label {
        let label = Label(self.kernel.labels.len() as u32);
        self.kernel.labels.push(String::new());
        label
    }

    /// Places a label here.
    ///
    /// # Panics
    /// Under a guard: a label cannot be guarded.
    pub fn place(&mut self, label: Label) {
        assert!(self.guard.is_none(), "a label cannot stand under a guard");
        self.kernel.body.push(Stmt::Label(label));
    }

    /// `bra target`.
    pub fn bra(&mut self, target: Label) {
        self.emit(Op::Bra { uni: false, target });
    }

    /// `@p bra target`.
    pub fn bra_if(&mut self, p: P, target: Label) {
        self.with_guard(p, |k| k.bra(target));
    }

    /// `@!p bra target`.
    pub fn bra_unless(&mut self, p: P, target: Label) {
        self.with_guard_not(p, |k| k.bra(target));
    }

    /// Emits what `body` emits under `@p`. Meant for one or a few simple instructions: a register
    /// first written here has no value in the lanes where `p` is false.
    ///
    /// # Panics
    /// When nested in another guard.
    pub fn with_guard<T>(&mut self, p: P, body: impl FnOnce(&mut Self) -> T) -> T {
        self.guarded(p, false, body)
    }

    /// As [`with_guard`](Self::with_guard), under `@!p`.
    ///
    /// # Panics
    /// When nested in another guard.
    pub fn with_guard_not<T>(&mut self, p: P, body: impl FnOnce(&mut Self) -> T) -> T {
        self.guarded(p, true, body)
    }

    fn guarded<T>(&mut self, p: P, negate: bool, body: impl FnOnce(&mut Self) -> T) -> T {
        assert!(self.guard.is_none(), "guards do not nest");
        self.guard = Some(Guard { reg: p.reg(), negate });
        let result = body(self);
        self.guard = None;
        result
    }

    /// Runs `body` in the lanes where `p` holds.
    pub fn if_(&mut self, p: P, body: impl FnOnce(&mut Self)) {
        let end = self.label();
        self.bra_unless(p, end);
        body(self);
        self.place(end);
    }

    /// Runs `body` in the lanes where `p` does not hold.
    pub fn unless(&mut self, p: P, body: impl FnOnce(&mut Self)) {
        let end = self.label();
        self.bra_if(p, end);
        body(self);
        self.place(end);
    }

    /// Runs `yes` where `p` holds and `no` elsewhere.
    pub fn if_else(&mut self, p: P, yes: impl FnOnce(&mut Self), no: impl FnOnce(&mut Self)) {
        let (otherwise, end) = (self.label(), self.label());
        self.bra_unless(p, otherwise);
        yes(self);
        self.bra(end);
        self.place(otherwise);
        no(self);
        self.place(end);
    }

    /// Runs `body` as long as the predicate computed by `condition`, before each turn, holds.
    pub fn while_(&mut self, condition: impl FnOnce(&mut Self) -> P, body: impl FnOnce(&mut Self)) {
        let (top, end) = (self.label(), self.label());
        self.place(top);
        let p = condition(self);
        self.bra_unless(p, end);
        body(self);
        self.bra(top);
        self.place(end);
    }

    /// Runs `body`, and again as long as the predicate it returns holds.
    pub fn do_while(&mut self, body: impl FnOnce(&mut Self) -> P) {
        let top = self.label();
        self.place(top);
        let p = body(self);
        self.bra_if(p, top);
    }

    /// Runs `body` until it branches to the label it is given.
    pub fn loop_(&mut self, body: impl FnOnce(&mut Self, Label)) {
        let (top, end) = (self.label(), self.label());
        self.place(top);
        body(self, end);
        self.bra(top);
        self.place(end);
    }

    /// A counted runtime loop: `for (i = start; i < end; i += step)`, unsigned.
    pub fn for_u32(
        &mut self,
        start: impl Source<R32>,
        end: impl Source<R32> + Copy,
        step: impl Source<R32>,
        body: impl FnOnce(&mut Self, R32),
    ) {
        let i = self.mov_b32(start);
        let step = step.operand();
        self.while_(
            |k| k.setp_lt_u32(i, end),
            |k| {
                body(k, i);
                k.emit(Op::Int {
                    op: crate::ast::IntOp::Add,
                    ty: crate::ast::Type::U32,
                    d: i.reg(),
                    a: i.operand(),
                    b: step,
                });
            },
        );
    }

    /// `bar.sync id`: every thread of the block.
    pub fn bar_sync(&mut self, id: u32) {
        self.emit(Op::BarSync { id });
    }

    /// `bar.warp.sync` of all 32 lanes.
    pub fn warp_sync(&mut self) {
        self.emit(Op::WarpSync { mask: Operand::Int(0xffff_ffff) });
    }

    /// `ret`.
    pub fn ret(&mut self) {
        self.emit(Op::Ret);
    }

    /// `@p ret`.
    pub fn ret_if(&mut self, p: P) {
        self.with_guard(p, Self::ret);
    }
}
