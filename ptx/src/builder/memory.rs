//! Loads, stores, asynchronous copies and integer atomics.

use super::{KernelBuilder, R16, R32, R64, Register, Source, Storable};
use crate::ast::{Addr, AtomOp, Base, Op, Operand, Space, Type};

/// A shared array of the kernel being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRef(pub(super) u32);

/// What a shared-memory address starts from: an array or an address in a register.
pub trait SharedBase: Copy {
    /// The base as it stands in the instruction.
    fn base(self) -> Base;
}

impl SharedBase for SharedRef {
    fn base(self) -> Base {
        Base::Shared(self.0)
    }
}

impl SharedBase for R32 {
    fn base(self) -> Base {
        Base::Reg(self.reg())
    }
}

fn global(base: R64, offset: i64) -> Addr {
    Addr { base: Base::Reg(base.reg()), offset }
}

fn shared(base: impl SharedBase, offset: i64) -> Addr {
    Addr { base: base.base(), offset }
}

impl KernelBuilder {
    fn load<R: Storable, const N: usize>(&mut self, space: Space, nc: bool, addr: Addr) -> [R; N] {
        let d: [R; N] = self.fresh_array();
        self.load_into(space, nc, addr, d);
        d
    }

    fn load_into<R: Storable, const N: usize>(&mut self, space: Space, nc: bool, addr: Addr, d: [R; N]) {
        assert!(matches!(N, 1 | 2 | 4), "vectors have 2 or 4 elements");
        self.emit(Op::Ld { space, nc, ty: R::TYPE, d: d.iter().map(|r| r.reg()).collect(), addr });
    }

    fn store<R: Storable>(&mut self, space: Space, addr: Addr, a: Vec<Operand>) {
        assert!(matches!(a.len(), 1 | 2 | 4), "vectors have 2 or 4 elements");
        self.emit(Op::St { space, ty: R::TYPE, addr, a });
    }

    /// `ld.global` of one register from `addr + offset` bytes.
    pub fn ld_global<R: Storable>(&mut self, addr: R64, offset: i64) -> R {
        self.load::<R, 1>(Space::Global, false, global(addr, offset))[0]
    }

    /// `ld.global` into a register that exists.
    pub fn ld_global_into<R: Storable>(&mut self, d: R, addr: R64, offset: i64) {
        self.load_into(Space::Global, false, global(addr, offset), [d]);
    }

    /// `ld.global.v2` or `.v4`; the address is aligned to the whole vector.
    pub fn ld_global_v<R: Storable, const N: usize>(&mut self, addr: R64, offset: i64) -> [R; N] {
        self.load(Space::Global, false, global(addr, offset))
    }

    /// `ld.global.v2` or `.v4` into registers that exist.
    pub fn ld_global_v_into<R: Storable, const N: usize>(&mut self, d: [R; N], addr: R64, offset: i64) {
        self.load_into(Space::Global, false, global(addr, offset), d);
    }

    /// `ld.global.nc`: data that no thread of the launch writes.
    pub fn ld_global_nc<R: Storable>(&mut self, addr: R64, offset: i64) -> R {
        self.load::<R, 1>(Space::Global, true, global(addr, offset))[0]
    }

    /// `ld.global.nc.v2` or `.v4`.
    pub fn ld_global_nc_v<R: Storable, const N: usize>(&mut self, addr: R64, offset: i64) -> [R; N] {
        self.load(Space::Global, true, global(addr, offset))
    }

    /// `ld.global.u8` into a 32-bit register, zero-extended.
    pub fn ld_global_u8(&mut self, addr: R64, offset: i64) -> R32 {
        let d: R32 = self.fresh();
        self.emit(Op::Ld {
            space: Space::Global,
            nc: false,
            ty: Type::U8,
            d: vec![d.reg()],
            addr: global(addr, offset),
        });
        d
    }

    /// One bf16 from global memory as f32: exact.
    pub fn ld_global_bf16(&mut self, addr: R64, offset: i64) -> super::F32 {
        let half: R16 = self.ld_global(addr, offset);
        self.bf16_to_f32(half)
    }

    /// `st.global` of one register or immediate.
    pub fn st_global<R: Storable>(&mut self, addr: R64, offset: i64, value: impl Source<R>) {
        self.store::<R>(Space::Global, global(addr, offset), vec![value.operand()]);
    }

    /// `st.global.v2` or `.v4`.
    pub fn st_global_v<R: Storable + Source<R>, const N: usize>(&mut self, addr: R64, offset: i64, values: [R; N]) {
        let a = values.iter().map(|v| v.operand()).collect();
        self.store::<R>(Space::Global, global(addr, offset), a);
    }

    /// An f32 rounded to bf16 (nearest even) and stored to global memory.
    pub fn st_global_bf16(&mut self, addr: R64, offset: i64, value: impl Source<super::F32>) {
        let half = self.cvt_rn_bf16_f32(value);
        self.st_global(addr, offset, half);
    }

    /// `ld.shared` of one register.
    pub fn ld_shared<R: Storable>(&mut self, base: impl SharedBase, offset: i64) -> R {
        self.load::<R, 1>(Space::Shared, false, shared(base, offset))[0]
    }

    /// `ld.shared` into a register that exists.
    pub fn ld_shared_into<R: Storable>(&mut self, d: R, base: impl SharedBase, offset: i64) {
        self.load_into(Space::Shared, false, shared(base, offset), [d]);
    }

    /// `ld.shared.v2` or `.v4`.
    pub fn ld_shared_v<R: Storable, const N: usize>(&mut self, base: impl SharedBase, offset: i64) -> [R; N] {
        self.load(Space::Shared, false, shared(base, offset))
    }

    /// `st.shared` of one register or immediate.
    pub fn st_shared<R: Storable>(&mut self, base: impl SharedBase, offset: i64, value: impl Source<R>) {
        self.store::<R>(Space::Shared, shared(base, offset), vec![value.operand()]);
    }

    /// `st.shared.v2` or `.v4`.
    pub fn st_shared_v<R: Storable + Source<R>, const N: usize>(
        &mut self,
        base: impl SharedBase,
        offset: i64,
        values: [R; N],
    ) {
        let a = values.iter().map(|v| v.operand()).collect();
        self.store::<R>(Space::Shared, shared(base, offset), a);
    }

    fn cp_async(&mut self, cg: bool, bytes: u32, dst: Addr, src: Addr, size: Option<Operand>) {
        self.emit(Op::CpAsync { cg, bytes, dst, src, src_size: size });
    }

    /// `cp.async.ca`: 4, 8 or 16 bytes from global to shared memory.
    pub fn cp_async_ca(&mut self, bytes: u32, dst: impl SharedBase, dst_offset: i64, src: R64, src_offset: i64) {
        let (to, from) = (shared(dst, dst_offset), global(src, src_offset));
        self.cp_async(false, bytes, to, from, None);
    }

    /// `cp.async.ca` that reads only `src_size` bytes and writes zeros for the rest.
    pub fn cp_async_ca_zfill(
        &mut self,
        bytes: u32,
        dst: impl SharedBase,
        dst_offset: i64,
        src: R64,
        src_offset: i64,
        src_size: impl Source<R32>,
    ) {
        let (to, from) = (shared(dst, dst_offset), global(src, src_offset));
        self.cp_async(false, bytes, to, from, Some(src_size.operand()));
    }

    /// `cp.async.cg`: 16 bytes from global to shared memory, past the first-level cache.
    pub fn cp_async_cg(&mut self, dst: impl SharedBase, dst_offset: i64, src: R64, src_offset: i64) {
        let (to, from) = (shared(dst, dst_offset), global(src, src_offset));
        self.cp_async(true, 16, to, from, None);
    }

    /// `cp.async.cg` that reads only `src_size` bytes and writes zeros for the rest.
    pub fn cp_async_cg_zfill(
        &mut self,
        dst: impl SharedBase,
        dst_offset: i64,
        src: R64,
        src_offset: i64,
        src_size: impl Source<R32>,
    ) {
        let (to, from) = (shared(dst, dst_offset), global(src, src_offset));
        self.cp_async(true, 16, to, from, Some(src_size.operand()));
    }

    /// `cp.async.commit_group`.
    pub fn cp_async_commit(&mut self) {
        self.emit(Op::CpAsyncCommit);
    }

    /// `cp.async.wait_group n`: all but the `n` latest groups of this thread have landed.
    pub fn cp_async_wait_group(&mut self, n: u32) {
        self.emit(Op::CpAsyncWait { n: Some(n) });
    }

    /// `cp.async.wait_all`.
    pub fn cp_async_wait_all(&mut self) {
        self.emit(Op::CpAsyncWait { n: None });
    }

    /// `atom.global.op`: integer read-modify-write, returning the old value. `Add`, `Min` and `Max`
    /// are `.u32`, the others `.b32`.
    ///
    /// # Panics
    /// For [`AtomOp::Cas`], which has its own method.
    pub fn atom_global_u32(&mut self, op: AtomOp, addr: R64, offset: i64, a: impl Source<R32>) -> R32 {
        self.atom(Space::Global, op, global(addr, offset), a.operand(), None)
    }

    /// `atom.shared.op`, as [`atom_global_u32`](Self::atom_global_u32).
    ///
    /// # Panics
    /// For [`AtomOp::Cas`].
    pub fn atom_shared_u32(&mut self, op: AtomOp, base: impl SharedBase, offset: i64, a: impl Source<R32>) -> R32 {
        self.atom(Space::Shared, op, shared(base, offset), a.operand(), None)
    }

    /// `atom.global.cas.b32`: writes `new` where the old value equals `compare`; returns the old.
    pub fn atom_global_cas_b32(
        &mut self,
        addr: R64,
        offset: i64,
        compare: impl Source<R32>,
        new: impl Source<R32>,
    ) -> R32 {
        self.atom(Space::Global, AtomOp::Cas, global(addr, offset), compare.operand(), Some(new.operand()))
    }

    fn atom(&mut self, space: Space, op: AtomOp, addr: Addr, a: Operand, b: Option<Operand>) -> R32 {
        assert_eq!(op == AtomOp::Cas, b.is_some(), "cas takes two values, the others one");
        let ty = match op {
            AtomOp::Add | AtomOp::Min | AtomOp::Max => Type::U32,
            AtomOp::And | AtomOp::Or | AtomOp::Xor | AtomOp::Exch | AtomOp::Cas => Type::B32,
        };
        let d: R32 = self.fresh();
        self.emit(Op::Atom { space, op, ty, d: d.reg(), addr, a, b });
        d
    }
}
