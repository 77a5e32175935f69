//! Which values all threads of a warp, or of a block, hold alike, and where they part ways.
//!
//! A forward analysis that ignores the order of statements: a register is as uniform as the least
//! uniform of its definitions, a definition as uniform as its operands, its guard and the branches
//! that decide whether it runs. `%tid` and `%laneid` vary; parameters, immediates, block indices
//! and block sizes do not; a load is as uniform as its address (in a kernel without races); an
//! atomic, a matrix product and most shuffles vary. A vote, and a shuffle that reads one lane,
//! agree within a warp. In a block declared one-dimensional by `.maxntid`, shifting `%tid.x` right
//! by five or more, dividing it by or comparing it with a multiple of 32, and masking its low five
//! bits give values that agree within a warp.

use super::flow::Flow;
use super::{Report, Rule};
use crate::ast::{Base, Cmp, Guard, IntOp, Op, Operand, Reg, ShflMode, Space, Special, Stmt, Type};
use crate::visit::Access;

/// Rounds after which the analysis gives up; kernels meant settle in a few.
const MAX_ROUNDS: usize = 200;
const LANES: i64 = 32;
const FULL_MASK: i64 = 0xffff_ffff;

/// How far a value agrees between threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Nothing known yet.
    Unset,
    /// In all threads of a block.
    Block,
    /// In all threads of a warp.
    Warp,
    /// The thread's own `%tid.x` in a one-dimensional block.
    TidX,
    /// Nowhere.
    Varying,
}

impl Level {
    /// Of a value that is either.
    fn join(self, other: Level) -> Level {
        use Level::{Block, Unset, Varying, Warp};
        match (self, other) {
            (a, b) if a == b => a,
            (Unset, x) | (x, Unset) => x,
            (Block, Warp) | (Warp, Block) => Warp,
            _ => Varying,
        }
    }

    /// Of a value computed from this one: that it was `%tid.x` is forgotten.
    fn mixed(self) -> Level {
        match self {
            Level::TidX => Level::Varying,
            other => other,
        }
    }

    /// Of this value where only some threads receive it.
    fn under(self, control: Level) -> Level {
        match control {
            Level::Unset | Level::Block => self,
            Level::Warp if self == Level::TidX => self,
            _ => self.join(control.mixed()),
        }
    }

    fn within_warp(self) -> bool {
        matches!(self, Level::Unset | Level::Block | Level::Warp)
    }
}

struct Analysis<'f, 'k> {
    flow: &'f Flow<'k>,
    /// By register.
    level: Vec<Level>,
    /// By block: how far threads agree that they run it.
    control: Vec<Level>,
    /// By block: the statement of the branch that set `control` last.
    cause: Vec<Option<usize>>,
    one_dimensional: bool,
}

pub(super) fn check(flow: &Flow<'_>, report: &mut Report<'_>) {
    let kernel = flow.kernel;
    let mut analysis = Analysis {
        flow,
        level: vec![Level::Unset; kernel.regs.len()],
        control: vec![Level::Block; flow.blocks.len()],
        cause: vec![None; flow.blocks.len()],
        one_dimensional: matches!(kernel.max_ntid, Some([_, 1, 1])),
    };
    let mut rounds = 0;
    while analysis.round() {
        rounds += 1;
        if rounds == MAX_ROUNDS {
            let message = "the analysis of divergence does not settle".to_owned();
            return report.add(Rule::TooLarge, None, message);
        }
    }
    for block in (0..flow.blocks.len()).filter(|b| flow.blocks[*b].reachable) {
        analysis.findings(block, report);
    }
}

impl Analysis<'_, '_> {
    /// Updates everything once; whether anything changed.
    fn round(&mut self) -> bool {
        let mut changed = false;
        for &block in &self.flow.order {
            for &branch_block in &self.flow.blocks[block].depends_on {
                let (stmt, decides) = match self.flow.branch(branch_block) {
                    Some((stmt, Some(guard))) => (Some(stmt), self.reg(guard.reg).mixed()),
                    // Only an edge added to an endless loop: already a finding.
                    _ => (None, Level::Varying),
                };
                let inherited = self.control[branch_block];
                for (level, cause) in [(decides, stmt), (inherited, self.cause[branch_block])] {
                    let joined = self.control[block].join(level);
                    if joined != self.control[block] {
                        self.control[block] = joined;
                        self.cause[block] = cause;
                        changed = true;
                    }
                }
            }
            let range = self.flow.blocks[block].start..self.flow.blocks[block].end;
            for stmt in &self.flow.kernel.body[range] {
                let Stmt::Inst(inst) = stmt else { continue };
                let control = self.guarded(self.control[block], inst.guard);
                let value = self.value(&inst.op).under(control);
                let level = &mut self.level;
                inst.op.for_each_reg(&mut |access, reg| {
                    let old = level[reg.0 as usize];
                    let new = old.join(value);
                    if access == Access::Write && new != old {
                        level[reg.0 as usize] = new;
                        changed = true;
                    }
                });
            }
        }
        changed
    }

    fn reg(&self, reg: Reg) -> Level {
        self.level[reg.0 as usize]
    }

    fn guarded(&self, control: Level, guard: Option<Guard>) -> Level {
        guard.map_or(control, |g| control.join(self.reg(g.reg).mixed()))
    }

    fn operand(&self, operand: Operand) -> Level {
        match operand {
            Operand::Reg(reg) => self.reg(reg),
            _ => Level::Block,
        }
    }

    /// How uniform an operation's results are, where all threads run it.
    fn value(&self, op: &Op) -> Level {
        match op {
            Op::Mov { a, .. } => match *a {
                Operand::Reg(reg) => self.reg(reg),
                Operand::Special(special) => self.special(special),
                _ => Level::Block,
            },
            Op::Ld { space, addr, .. } => match (space, addr.base) {
                (Space::Param, _) | (_, Base::Shared(_) | Base::Param(_)) => Level::Block,
                (_, Base::Reg(reg)) => self.reg(reg).mixed(),
            },
            Op::Int { op: int, ty, a, b, .. }
                if ty.bits() == 32 && self.operand(*a) == Level::TidX && warp_of_tid(*int, *b) =>
            {
                Level::Warp
            }
            Op::Setp { cmp, ty: Type::U32 | Type::S32, a, b: Operand::Int(n), .. }
                if self.operand(*a) == Level::TidX && splits_by_warp(*cmp, *n) =>
            {
                Level::Warp
            }
            Op::Shfl { mode: ShflMode::Idx, b, c: Operand::Int(0x1f), mask, .. }
                if full(*mask) && self.operand(*b).within_warp() =>
            {
                Level::Warp
            }
            Op::Vote { mask, .. } if full(*mask) => Level::Warp,
            Op::Shfl { .. } | Op::Vote { .. } | Op::LdMatrix { .. } | Op::Mma { .. } | Op::Atom { .. } => {
                Level::Varying
            }
            _ => {
                let mut level = Level::Block;
                op.for_each_reg(&mut |access, reg| {
                    if access == Access::Read {
                        level = level.join(self.reg(reg).mixed());
                    }
                });
                level
            }
        }
    }

    fn special(&self, special: Special) -> Level {
        match special {
            Special::TidX if self.one_dimensional => Level::TidX,
            Special::TidX | Special::TidY | Special::TidZ | Special::LaneId => Level::Varying,
            Special::WarpId => Level::Warp,
            Special::NtidX
            | Special::NtidY
            | Special::NtidZ
            | Special::CtaidX
            | Special::CtaidY
            | Special::CtaidZ
            | Special::NctaidX
            | Special::NctaidY
            | Special::NctaidZ => Level::Block,
        }
    }

    fn findings(&self, block: usize, report: &mut Report<'_>) {
        let range = self.flow.blocks[block].start..self.flow.blocks[block].end;
        for index in range {
            let Stmt::Inst(inst) = &self.flow.kernel.body[index] else {
                continue;
            };
            let level = self.guarded(self.control[block], inst.guard);
            let rule = match &inst.op {
                Op::BarSync { .. } if !self.agrees_in_block(level) => Rule::DivergentBarrier,
                Op::Shfl { .. }
                | Op::Vote { .. }
                | Op::Mma { .. }
                | Op::LdMatrix { .. }
                | Op::WarpSync { .. }
                | Op::Bra { uni: true, .. }
                    if !level.within_warp() =>
                {
                    Rule::DivergentWarpOp
                }
                _ => continue,
            };
            let who = match rule {
                Rule::DivergentBarrier => "block",
                _ => "warp",
            };
            let why = match (inst.guard, self.cause[block]) {
                (Some(guard), _) if !self.reg(guard.reg).mixed().within_warp() => {
                    format!("its guard {} differs between them", self.name(guard.reg))
                }
                (_, Some(branch)) => self.blame(branch),
                (Some(guard), None) => {
                    format!("its guard {} differs between them", self.name(guard.reg))
                }
                (None, None) => "an endless loop decides about it".to_owned(),
            };
            let opcode = inst.op.mnemonic();
            let message = format!("not all threads of a {who} may arrive at this {opcode} together: {why}");
            report.add(rule, Some(index), message);
        }
    }

    fn agrees_in_block(&self, level: Level) -> bool {
        match level {
            Level::Unset | Level::Block => true,
            // A block of one warp.
            Level::Warp => self.flow.kernel.max_ntid.is_some_and(one_warp),
            Level::TidX | Level::Varying => false,
        }
    }

    fn name(&self, reg: Reg) -> &str {
        &self.flow.kernel.regs[reg.0 as usize].name
    }

    fn blame(&self, branch: usize) -> String {
        let Stmt::Inst(inst) = &self.flow.kernel.body[branch] else {
            return format!("statement {branch} decides about it");
        };
        let on = inst.guard.map_or("", |g| self.name(g.reg));
        let opcode = inst.op.mnemonic();
        let place = match inst.pos.line {
            0 => format!("statement {branch}"),
            line => format!("line {line}"),
        };
        format!("the `{opcode}` of {place} parts them by {on}")
    }
}

fn one_warp([x, y, z]: [u32; 3]) -> bool {
    i64::from(x) * i64::from(y) * i64::from(z) <= LANES
}

fn full(mask: Operand) -> bool {
    matches!(mask, Operand::Int(FULL_MASK | -1))
}

/// Whether `op %tid.x, b` agrees within every warp of a one-dimensional block.
fn warp_of_tid(op: IntOp, b: Operand) -> bool {
    let Operand::Int(b) = b else { return false };
    match op {
        IntOp::Shr => b >= 5,
        IntOp::Div => b > 0 && b % LANES == 0,
        IntOp::And => b & (LANES - 1) == 0,
        _ => false,
    }
}

/// Whether `cmp %tid.x, n` has one answer in every warp of a one-dimensional block.
fn splits_by_warp(cmp: Cmp, n: i64) -> bool {
    match cmp {
        Cmp::Lt | Cmp::Ge => n % LANES == 0,
        Cmp::Le | Cmp::Gt => n.rem_euclid(LANES) == LANES - 1,
        _ => false,
    }
}
