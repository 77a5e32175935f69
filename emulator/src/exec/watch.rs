//! What the run loop tells an observer: nothing in a plain run, everything in a checked one.

use ptx::ast::Space;

use super::error::AccessKind;
use super::fault::Outcome;
use super::lanes::{V32, V64};
use super::memory::Memory;
use super::shared::Shared;

/// An access of one instruction by the lanes in `mask`, `bytes` at each address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access<'a> {
    pub warp: u32,
    pub pc: u32,
    pub mask: u32,
    pub kind: AccessKind,
    pub space: Space,
    pub address: &'a V64,
    pub bytes: u32,
    /// The bytes go to lanes other than the one that names the address.
    pub collective: bool,
    /// Words stored, to tell whether lanes that store to one address agree. Empty unless a store.
    pub values: &'a [V32],
}

/// One instruction's asynchronous copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies<'a> {
    pub warp: u32,
    pub pc: u32,
    pub mask: u32,
    pub to: &'a V32,
    pub from: &'a V64,
    /// Bytes written.
    pub bytes: u32,
    /// Bytes read, per lane; the rest are zero.
    pub valid: &'a V32,
}

/// An observer of a run. With `ON == false` every call disappears.
pub(super) trait Watch {
    /// Whether anything is observed.
    const ON: bool;

    /// The lanes in `active` come to the instruction; those in `mask` execute it.
    fn step(&mut self, warp: u32, pc: u32, active: u32, mask: u32) -> Outcome<()>;

    /// Memory was accessed.
    fn access(&mut self, access: Access<'_>) -> Outcome<()>;

    /// Asynchronous copies were issued. They are performed by the observer, later.
    fn copies(&mut self, copies: Copies<'_>) -> Outcome<()>;

    /// The lanes in `mask` closed a group of copies.
    fn commit(&mut self, warp: u32, mask: u32);

    /// The lanes in `mask` wait for all groups but the latest `pending`; `None`: for every copy.
    fn wait(&mut self, warp: u32, mask: u32, pending: Option<u32>, memory: &Memory, shared: &mut Shared)
    -> Outcome<()>;

    /// The lanes in `mask`, of those in `live`, synchronised within the warp.
    fn warp_sync(&mut self, warp: u32, mask: u32, live: u32);
}

/// Observes nothing.
#[derive(Debug)]
pub(super) struct Unwatched;

impl Watch for Unwatched {
    const ON: bool = false;

    #[inline(always)]
    fn step(&mut self, _: u32, _: u32, _: u32, _: u32) -> Outcome<()> {
        Ok(())
    }

    #[inline(always)]
    fn access(&mut self, _: Access<'_>) -> Outcome<()> {
        Ok(())
    }

    #[inline(always)]
    fn copies(&mut self, _: Copies<'_>) -> Outcome<()> {
        Ok(())
    }

    #[inline(always)]
    fn commit(&mut self, _: u32, _: u32) {}

    #[inline(always)]
    fn wait(&mut self, _: u32, _: u32, _: Option<u32>, _: &Memory, _: &mut Shared) -> Outcome<()> {
        Ok(())
    }

    #[inline(always)]
    fn warp_sync(&mut self, _: u32, _: u32, _: u32) {}
}
