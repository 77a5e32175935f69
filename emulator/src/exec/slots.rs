//! Which slot of the register file each virtual register lives in.
//!
//! Kernels unrolled by the builder name thousands of registers of which few are alive at once. Sharing slots keeps a
//! warp's register file in the first-level cache. Linear scan over the hull of each register's live range. Lanes are
//! independent here: a lane's writes touch its own column only, so liveness of the program as one lane sees it is
//! enough, however the lanes of a warp diverge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ptx::Access;
use ptx::ast::{Inst, Reg};

use super::cfg::Cfg;

/// Position of a register's file, and of its slot in that file.
#[derive(Debug)]
pub(super) struct Slots {
    /// Slot of each virtual register, within its file. Registers never used have slot 0.
    pub of: Vec<u32>,
    /// Slots used in each file.
    pub count: [u32; FILES],
    /// Registers that some path reads before writing, and which therefore start as zero.
    pub live_in: Vec<Reg>,
}

/// Register files: predicates, up to 32 bits, 64 bits.
pub(super) const FILES: usize = 3;

#[derive(Clone, Copy)]
struct Hull {
    from: u32,
    to: u32,
}

/// Assigns slots. `file` tells the register file of each virtual register.
pub(super) fn assign(insts: &[&Inst], cfg: &Cfg, file: &[usize]) -> Slots {
    let hulls = live_hulls(insts, cfg, file.len());
    let mut by_start: Vec<u32> = (0..file.len() as u32).filter(|&r| hulls[r as usize].is_some()).collect();
    by_start.sort_by_key(|&r| hulls[r as usize].map(|h| h.from));
    let mut of = vec![0; file.len()];
    let mut count = [0u32; FILES];
    let mut free: [BinaryHeap<Reverse<u32>>; FILES] = Default::default();
    let mut active: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
    for r in by_start {
        let Some(hull) = hulls[r as usize] else { continue };
        while let Some(&Reverse((end, other))) = active.peek()
            && end < hull.from
        {
            active.pop();
            free[file[other as usize]].push(Reverse(of[other as usize]));
        }
        let f = file[r as usize];
        of[r as usize] = free[f].pop().map_or_else(
            || {
                count[f] += 1;
                count[f] - 1
            },
            |Reverse(slot)| slot,
        );
        active.push(Reverse((hull.to, r)));
    }
    let live_in = (0..file.len() as u32).filter(|&r| hulls[r as usize].is_some_and(|h| h.from == 0)).map(Reg).collect();
    Slots { of, count, live_in }
}

/// The first and last point where each register is alive. Instruction `i` reads at point `2i + 1` and writes at
/// `2i + 2`; point 0 is the entry, so a hull from 0 means that the register may be read unwritten.
fn live_hulls(insts: &[&Inst], cfg: &Cfg, registers: usize) -> Vec<Option<Hull>> {
    let mut hulls: Vec<Option<Hull>> = vec![None; registers];
    let mut extend = |r: u32, point: u32| {
        let hull = hulls[r as usize].get_or_insert(Hull { from: point, to: point });
        hull.from = hull.from.min(point);
        hull.to = hull.to.max(point);
    };
    // Blocks whose first instructions see the register's value from before.
    let mut exposed: Vec<Vec<u32>> = vec![Vec::new(); registers];
    let mut kills: Vec<Vec<u32>> = vec![Vec::new(); registers];
    for (b, range) in cfg.blocks().iter().enumerate() {
        for i in range.clone() {
            let inst = insts[i as usize];
            inst.for_each_reg(&mut |access, Reg(r)| {
                if access == Access::Read {
                    extend(r, 2 * i + 1);
                    if kills[r as usize].last() != Some(&(b as u32)) && exposed[r as usize].last() != Some(&(b as u32))
                    {
                        exposed[r as usize].push(b as u32);
                    }
                }
            });
            inst.for_each_reg(&mut |access, Reg(r)| {
                if access == Access::Write {
                    extend(r, 2 * i + 2);
                    // A guarded write leaves the old value in some lanes.
                    if inst.guard.is_none() && kills[r as usize].last() != Some(&(b as u32)) {
                        kills[r as usize].push(b as u32);
                    }
                }
            });
        }
    }
    let mut stamp = vec![u32::MAX; cfg.blocks().len()];
    let mut killed = vec![u32::MAX; cfg.blocks().len()];
    for r in 0..registers as u32 {
        for &b in &kills[r as usize] {
            killed[b as usize] = r;
        }
        let mut work = std::mem::take(&mut exposed[r as usize]);
        work.iter().for_each(|&b| stamp[b as usize] = r);
        while let Some(b) = work.pop() {
            extend(r, 2 * cfg.blocks()[b as usize].start + if b == 0 { 0 } else { 1 });
            for &p in cfg.predecessors(b) {
                // Alive at the end of the predecessor, past the write of its last instruction.
                extend(r, 2 * cfg.blocks()[p as usize].end);
                if killed[p as usize] != r && stamp[p as usize] != r {
                    stamp[p as usize] = r;
                    work.push(p);
                }
            }
        }
    }
    hulls
}
