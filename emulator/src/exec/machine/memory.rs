//! Loads, stores, asynchronous copies and atomics of a warp.

use std::sync::atomic::Ordering::Relaxed;

use ptx::ast::Space;

use super::super::error::AccessKind;
use super::super::fault::{Outcome, bad_access, undefined};
use super::super::global::{combine32, combine64};
use super::super::inst::{Any, GlobalAddr, Inst, Moved, Place, SharedAddr, Slot};
use super::super::integer as int;
use super::super::lanes::{FULL, LANES, V32, V64, lanes_in};
use super::super::program::Program;
use super::super::shared::Shared;
use super::super::warp::Registers;
use super::super::watch::{Access, Copies, Watch};
use super::Machine;

/// The instruction being executed, and by whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub warp: u32,
    pub pc: u32,
    pub mask: u32,
}

/// The shared addresses of all lanes. 32-bit addresses wrap; a 64-bit one with high bits lies outside.
#[inline(always)]
pub(super) fn shared_address(addr: SharedAddr, regs: &Registers, mask: u32) -> Outcome<V32> {
    let base = match addr.base {
        Any::B16(base) | Any::B32(base) => regs.b32[base as usize],
        Any::B64(base) => {
            let base = &regs.b64[base as usize];
            if let Some(lane) = lanes_in(mask).find(|&lane| base.0[lane] >> 32 != 0) {
                return bad_access(Space::Shared, lane, base.0[lane].wrapping_add(addr.offset as i32 as u64), 1);
            }
            int::low(base)
        }
    };
    Ok(super::map(&base, |base| base.wrapping_add(addr.offset)))
}

/// The global addresses of all lanes.
#[inline(always)]
fn global_address(addr: GlobalAddr, regs: &Registers) -> V64 {
    let base = &regs.b64[addr.base as usize];
    let mut out = V64::ZERO;
    for i in 0..LANES {
        out.0[i] = base.0[i].wrapping_add(addr.offset as u64);
    }
    out
}

/// `ld.param`: one value for all lanes.
#[inline(always)]
pub(super) fn load_param(
    params: &[u32],
    offset: u32,
    moved: Moved,
    program: &Program,
    regs: &mut Registers,
    mask: u32,
) {
    let (element, list) = (u32::from(moved.element), &program.lists[moved.list as usize..]);
    for (at, d) in (offset..).step_by(element as usize).zip(&list[..moved.count as usize]) {
        let word = params[at as usize / 4] >> (8 * (at % 4));
        if element == 8 {
            let value = u64::from(word) | u64::from(params[at as usize / 4 + 1]) << 32;
            if let Any::B64(d) = *d {
                regs.set64(d, &V64::splat(value), mask);
            }
        } else {
            let word = if element == 4 { word } else { word & ((1 << (8 * element)) - 1) };
            put(&V32::splat(word), element, moved.signed, *d, regs, mask);
        }
    }
}

/// Writes a loaded element of at most 4 bytes, zero-extended in its slot, to a register that may be wider.
#[inline(always)]
fn put(value: &V32, element: u32, signed: bool, d: Any, regs: &mut Registers, mask: u32) {
    let mut value = *value;
    if signed && element < 4 {
        let shift = 32 - 8 * element;
        for v in &mut value.0 {
            *v = ((*v << shift) as i32 >> shift) as u32;
        }
    }
    match d {
        Any::B32(d) => regs.set32(d, &value, mask),
        Any::B16(d) => {
            for v in &mut value.0 {
                *v &= 0xffff;
            }
            regs.set32(d, &value, mask);
        }
        Any::B64(d) => regs.set64(d, &int::widen(&value, signed), mask),
    }
}

/// `ld.global`, `ld.shared`.
#[inline(always)]
pub(super) fn load<W: Watch>(
    machine: &mut Machine<'_>,
    place: Place,
    moved: Moved,
    regs: &mut Registers,
    shared: &Shared,
    watch: &mut W,
    at: At,
) -> Outcome<()> {
    let program = machine.program;
    let to = &program.lists[moved.list as usize..][..moved.count as usize];
    let bytes = u32::from(moved.element) * u32::from(moved.count);
    match place {
        Place::Global(addr) => {
            let address = global_address(addr, regs);
            let hint = &mut machine.hints[at.pc as usize];
            let global = &machine.global;
            match (bytes, to) {
                (4, &[Any::B32(p)]) if moved.plain => global.load_to(hint, &address, at.mask, [p], &mut regs.b32)?,
                (8, &[Any::B32(p), Any::B32(q)]) if moved.plain => {
                    global.load_to(hint, &address, at.mask, [p, q], &mut regs.b32)?;
                }
                (16, &[Any::B32(p), Any::B32(q), Any::B32(r), Any::B32(s)]) if moved.plain => {
                    global.load_to(hint, &address, at.mask, [p, q, r, s], &mut regs.b32)?;
                }
                (4, _) => spread(&global.load::<1>(hint, &address, at.mask)?, moved, to, regs, at.mask),
                (8, _) => spread(&global.load::<2>(hint, &address, at.mask)?, moved, to, regs, at.mask),
                (16, _) => spread(&global.load::<4>(hint, &address, at.mask)?, moved, to, regs, at.mask),
                _ => spread(&[global.load_narrow(hint, &address, bytes, at.mask)?], moved, to, regs, at.mask),
            }
            if W::ON {
                watch.access(access(at, AccessKind::Read, Space::Global, &address, bytes, &[]))?;
            }
        }
        Place::Shared(addr) => {
            let address = shared_address(addr, regs, at.mask)?;
            match (bytes, to) {
                (4, &[Any::B32(p)]) if moved.plain => shared.load_to(&address, at.mask, [p], &mut regs.b32)?,
                (8, &[Any::B32(p), Any::B32(q)]) if moved.plain => {
                    shared.load_to(&address, at.mask, [p, q], &mut regs.b32)?;
                }
                (16, &[Any::B32(p), Any::B32(q), Any::B32(r), Any::B32(s)]) if moved.plain => {
                    shared.load_to(&address, at.mask, [p, q, r, s], &mut regs.b32)?;
                }
                (4, _) => spread(&shared.load::<1>(&address, at.mask)?, moved, to, regs, at.mask),
                (8, _) => spread(&shared.load::<2>(&address, at.mask)?, moved, to, regs, at.mask),
                (16, _) => spread(&shared.load::<4>(&address, at.mask)?, moved, to, regs, at.mask),
                _ => spread(&[shared.load_narrow(&address, bytes, at.mask)?], moved, to, regs, at.mask),
            }
            if W::ON {
                let address = int::widen(&address, false);
                watch.access(access(at, AccessKind::Read, Space::Shared, &address, bytes, &[]))?;
            }
        }
    }
    Ok(())
}

/// Distributes loaded words over the registers of a vector load.
#[inline(always)]
fn spread<const N: usize>(words: &[V32; N], moved: Moved, to: &[Any], regs: &mut Registers, mask: u32) {
    match moved.element {
        4 => {
            for (word, d) in words.iter().zip(to) {
                match *d {
                    Any::B32(d) => regs.set32(d, word, mask),
                    d => put(word, 4, moved.signed, d, regs, mask),
                }
            }
        }
        8 => {
            for (pair, d) in words.chunks_exact(2).zip(to) {
                if let Any::B64(d) = *d {
                    regs.set64(d, &super::pack32(&pair[0], &pair[1]), mask);
                }
            }
        }
        element => {
            let element = u32::from(element);
            for (j, d) in (0..).zip(to) {
                let (word, shift) = (&words[(j * element / 4) as usize], 8 * (j * element % 4));
                let part = super::map(word, |w| (w >> shift) & ((1 << (8 * element)) - 1));
                put(&part, element, moved.signed, *d, regs, mask);
            }
        }
    }
}

/// `st.global`, `st.shared`.
#[inline(always)]
pub(super) fn store<W: Watch>(
    machine: &mut Machine<'_>,
    place: Place,
    moved: Moved,
    regs: &Registers,
    shared: &mut Shared,
    watch: &mut W,
    at: At,
) -> Outcome<()> {
    let program = machine.program;
    let from = &program.lists[moved.list as usize..][..moved.count as usize];
    let bytes = u32::from(moved.element) * u32::from(moved.count);
    let mut words = [V32::ZERO; 4];
    // Plain registers are stored from where they are.
    let mut refs = [&V32::ZERO; 4];
    if moved.plain && !W::ON {
        for (slot, a) in refs.iter_mut().zip(from) {
            if let Any::B32(a) = *a {
                *slot = &regs.b32[a as usize];
            }
        }
    } else {
        gather(&mut words, moved, from, regs);
        refs = words.each_ref();
    }
    let [w0, w1, w2, w3] = refs;
    match place {
        Place::Global(addr) => {
            let address = global_address(addr, regs);
            let hint = &mut machine.hints[at.pc as usize];
            let global = &machine.global;
            match bytes {
                4 => global.store(hint, &address, [w0], at.mask)?,
                8 => global.store(hint, &address, [w0, w1], at.mask)?,
                16 => global.store(hint, &address, [w0, w1, w2, w3], at.mask)?,
                _ => global.store_narrow(hint, &address, bytes, w0, at.mask)?,
            }
            if W::ON {
                watch.access(access(at, AccessKind::Write, Space::Global, &address, bytes, &words))?;
            }
        }
        Place::Shared(addr) => {
            let address = shared_address(addr, regs, at.mask)?;
            match bytes {
                4 => shared.store(&address, [w0], at.mask)?,
                8 => shared.store(&address, [w0, w1], at.mask)?,
                16 => shared.store(&address, [w0, w1, w2, w3], at.mask)?,
                _ => shared.store_narrow(&address, bytes, w0, at.mask)?,
            }
            if W::ON {
                let address = int::widen(&address, false);
                watch.access(access(at, AccessKind::Write, Space::Shared, &address, bytes, &words))?;
            }
        }
    }
    Ok(())
}

/// Collects the registers of a vector store as words.
#[inline(always)]
fn gather(words: &mut [V32; 4], moved: Moved, from: &[Any], regs: &Registers) {
    let element = u32::from(moved.element);
    for (j, a) in (0..).zip(from) {
        let at = (j * element / 4) as usize;
        match (*a, element) {
            (Any::B64(a), 8) => {
                let a = &regs.b64[a as usize];
                words[at] = int::low(a);
                words[at + 1] = super::high(a);
            }
            (a, _) => {
                let value = match a {
                    Any::B64(a) => int::low(&regs.b64[a as usize]),
                    Any::B16(a) | Any::B32(a) => regs.b32[a as usize],
                };
                let (shift, keep) =
                    (8 * (j * element % 4), if element == 4 { u32::MAX } else { (1 << (8 * element)) - 1 });
                for i in 0..LANES {
                    words[at].0[i] |= (value.0[i] & keep) << shift;
                }
            }
        }
    }
}

fn access<'a>(at: At, kind: AccessKind, space: Space, address: &'a V64, bytes: u32, values: &'a [V32]) -> Access<'a> {
    let values = &values[..values.len().min(bytes.div_ceil(4) as usize)];
    Access { warp: at.warp, pc: at.pc, mask: at.mask, kind, space, address, bytes, collective: false, values }
}

/// `cp.async`. Unwatched, the copy is done here and now: a correct kernel cannot tell, since it neither reads the
/// destination nor changes the source before it has waited.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn cp_async<W: Watch>(
    machine: &mut Machine<'_>,
    bytes: u32,
    dst: SharedAddr,
    src: GlobalAddr,
    src_size: Option<Slot>,
    regs: &Registers,
    shared: &mut Shared,
    watch: &mut W,
    at: At,
) -> Outcome<()> {
    let to = shared_address(dst, regs, at.mask)?;
    let from = global_address(src, regs);
    let whole = V32::splat(bytes);
    let valid = match src_size {
        Some(slot) => &regs.b32[slot as usize],
        None => &whole,
    };
    let hint = &mut machine.hints[at.pc as usize];
    if !W::ON
        && bytes == 16
        && at.mask == FULL
        && *valid == whole
        && let Some((from, index)) = machine.global.quads(hint, &from)
        && let Some(quads) = shared.quads_mut(&to)
    {
        for (index, to) in index.into_iter().zip(&to.0) {
            let [p, q, r, s] = &from[index];
            quads[*to as usize / 16] = [p.load(Relaxed), q.load(Relaxed), r.load(Relaxed), s.load(Relaxed)];
        }
        return Ok(());
    }
    for lane in lanes_in(at.mask) {
        if valid.0[lane] > bytes {
            return undefined(Some(lane as u32), "cp.async with a source size beyond the copy size");
        }
        if W::ON {
            // Bounds are checked now, the copy is the observer's.
            let mut scratch = [0; 4];
            shared.slice_mut(lane, to.0[lane], bytes as usize / 4)?;
            let scratch = &mut scratch[..bytes as usize / 4];
            machine.global.copy(hint, lane, from.0[lane], valid.0[lane], scratch)?;
        } else {
            let to = shared.slice_mut(lane, to.0[lane], bytes as usize / 4)?;
            machine.global.copy(hint, lane, from.0[lane], valid.0[lane], to)?;
        }
    }
    if W::ON {
        watch.copies(Copies { warp: at.warp, pc: at.pc, mask: at.mask, to: &to, from: &from, bytes, valid })?;
    }
    Ok(())
}

/// `atom.global`, `atom.shared` on integers. Lanes act in ascending order.
pub(super) fn atom<W: Watch>(
    machine: &mut Machine<'_>,
    inst: Inst,
    regs: &mut Registers,
    shared: &mut Shared,
    watch: &mut W,
    at: At,
) -> Outcome<()> {
    let hint = &mut machine.hints[at.pc as usize];
    let (place, bytes) = match inst {
        Inst::Atom32 { place, .. } => (place, 4),
        Inst::Atom64 { place, .. } => (place, 8),
        _ => return Ok(()),
    };
    let (space, address) = match place {
        Place::Global(addr) => (Space::Global, global_address(addr, regs)),
        Place::Shared(addr) => (Space::Shared, int::widen(&shared_address(addr, regs, at.mask)?, false)),
    };
    match inst {
        Inst::Atom32 { op, signed, d, a, b, .. } => {
            let (a, b) = (&regs.b32[a as usize], &regs.b32[b as usize]);
            let old = if space == Space::Global {
                machine.global.atom32(hint, op, signed, &address, (a, b), at.mask)?
            } else {
                let mut old = V32::ZERO;
                for lane in lanes_in(at.mask) {
                    let word = &mut shared.slice_mut(lane, address.0[lane] as u32, 1)?[0];
                    old.0[lane] = *word;
                    *word = combine32(op, signed, *word, a.0[lane], b.0[lane]);
                }
                old
            };
            regs.set32(d, &old, at.mask);
        }
        Inst::Atom64 { op, signed, d, a, b, .. } => {
            let (a, b) = (&regs.b64[a as usize], &regs.b64[b as usize]);
            let old = if space == Space::Global {
                machine.global.atom64(hint, op, signed, &address, (a, b), at.mask)?
            } else {
                let mut old = V64::ZERO;
                for lane in lanes_in(at.mask) {
                    let pair = shared.slice_mut(lane, address.0[lane] as u32, 2)?;
                    let x = u64::from(pair[0]) | u64::from(pair[1]) << 32;
                    let new = combine64(op, signed, x, a.0[lane], b.0[lane]);
                    (pair[0], pair[1]) = (new as u32, (new >> 32) as u32);
                    old.0[lane] = x;
                }
                old
            };
            regs.set64(d, &old, at.mask);
        }
        _ => {}
    }
    if W::ON {
        watch.access(access(at, AccessKind::Atomic, space, &address, bytes, &[]))?;
    }
    Ok(())
}
