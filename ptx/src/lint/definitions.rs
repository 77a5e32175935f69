//! Registers that may be read before they are written.
//!
//! A register counts as written where every path from the entry writes it. A write under a guard
//! counts for reads under the same guard in the same basic block, as long as the predicate keeps
//! its value, and otherwise not.

use std::collections::HashMap;

use super::flow::Flow;
use super::{Report, Rule};
use crate::ast::{Guard, Inst, Reg, Stmt};
use crate::visit::Access;

/// Bits of the largest table of written registers by block: 128 MiB.
const MAX_BITS: usize = 1 << 30;

type Set = Vec<u64>;

fn has(set: &Set, reg: Reg) -> bool {
    set[reg.0 as usize / 64] >> (reg.0 % 64) & 1 == 1
}

fn insert(set: &mut Set, reg: Reg) {
    set[reg.0 as usize / 64] |= 1 << (reg.0 % 64);
}

pub(super) fn check(flow: &Flow<'_>, report: &mut Report<'_>) {
    let words = flow.kernel.regs.len().div_ceil(64);
    if flow.blocks.len().saturating_mul(words * 64) > MAX_BITS {
        let message = "too many blocks and registers to follow every definition".to_owned();
        return report.add(Rule::TooLarge, None, message);
    }
    let predecessors = flow.predecessors();
    // Written at the end of each block; everything, until a path says otherwise.
    let mut at_end = vec![vec![u64::MAX; words]; flow.blocks.len()];
    let entry = |block: usize, at_end: &[Set]| {
        let mut set = vec![if block == 0 { 0 } else { u64::MAX }; words];
        for &p in &predecessors[block] {
            for (word, other) in set.iter_mut().zip(&at_end[p]) {
                *word &= other;
            }
        }
        set
    };
    let mut changed = true;
    while changed {
        changed = false;
        for &block in &flow.order {
            let mut set = entry(block, &at_end);
            for_block(flow, block, &mut set, |_, _| {});
            if at_end[block] != set {
                at_end[block] = set;
                changed = true;
            }
        }
    }
    let mut reported = vec![0; words];
    for block in (0..flow.blocks.len()).filter(|b| flow.blocks[*b].reachable) {
        let mut set = entry(block, &at_end);
        for_block(flow, block, &mut set, |stmt, reg| {
            // Once a register is enough.
            if !has(&reported, reg) {
                insert(&mut reported, reg);
                let name = &flow.kernel.regs[reg.0 as usize].name;
                let message = format!("{name} may be read before it is written: give it a value on every path");
                report.add(Rule::UndefinedRegister, Some(stmt), message);
            }
        });
    }
}

/// Runs a block over the set of written registers; `unwritten` is told each read of another one.
fn for_block(flow: &Flow<'_>, block: usize, set: &mut Set, mut unwritten: impl FnMut(usize, Reg)) {
    let mut under_guard: HashMap<Reg, Guard> = HashMap::new();
    let block = &flow.blocks[block];
    for index in block.start..block.end {
        let Stmt::Inst(inst) = &flow.kernel.body[index] else {
            continue;
        };
        let Inst { guard, .. } = inst;
        inst.for_each_reg(&mut |access, reg| {
            let known = has(set, reg) || guard.is_some_and(|g| under_guard.get(&reg).is_some_and(|u| same(*u, g)));
            if access == Access::Read && !known {
                unwritten(index, reg);
            }
        });
        inst.op.for_each_reg(&mut |access, reg| {
            if access == Access::Read {
                return;
            }
            // A new value of a predicate says nothing about what was written under the old one.
            under_guard.retain(|_, g| g.reg != reg);
            match guard {
                None => insert(set, reg),
                Some(g) if g.reg != reg => {
                    let complement = under_guard.get(&reg).is_some_and(|u| u.reg == g.reg && u.negate != g.negate);
                    if complement {
                        // Written under a predicate and under its negation: on both paths.
                        insert(set, reg);
                    } else {
                        under_guard.insert(reg, *g);
                    }
                }
                Some(_) => {}
            }
        });
    }
}

fn same(a: Guard, b: Guard) -> bool {
    a.reg == b.reg && a.negate == b.negate
}
