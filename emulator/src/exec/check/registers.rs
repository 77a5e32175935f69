//! Which registers of which lanes hold a value.

use ptx::Access;
use ptx::ast::Reg;

use crate::exec::program::Program;

/// The registers that one instruction touches, and the lanes of each warp that have written each register.
#[derive(Debug)]
pub(super) struct WrittenRegisters {
    /// Reads and writes of each instruction: `reads[ends[pc].0 .. ends[pc + 1].0]`, likewise the writes.
    reads: Vec<Reg>,
    writes: Vec<Reg>,
    ends: Vec<(u32, u32)>,
    guards: Vec<Option<Reg>>,
    /// By warp, then register.
    written: Vec<Vec<u32>>,
}

impl WrittenRegisters {
    pub fn new(program: &Program, warps: u32) -> Self {
        let mut this = WrittenRegisters {
            reads: Vec::new(),
            writes: Vec::new(),
            ends: vec![(0, 0)],
            guards: Vec::new(),
            written: vec![vec![0; program.kernel().regs.len()]; warps as usize],
        };
        for pc in 0..program.code.len() as u32 {
            if let Some(inst) = program.ast(pc) {
                inst.op.for_each_reg(&mut |access, reg| match access {
                    Access::Read => this.reads.push(reg),
                    Access::Write => this.writes.push(reg),
                });
                this.guards.push(inst.guard.map(|g| g.reg));
            } else {
                this.guards.push(None);
            }
            this.ends.push((this.reads.len() as u32, this.writes.len() as u32));
        }
        this
    }

    /// A block starts: no register holds a value.
    pub fn clear(&mut self) {
        self.written.iter_mut().for_each(|w| w.fill(0));
    }

    /// The lanes in `active` read the guard, those in `mask` the operands, and write the results. Gives the first
    /// register without a value, and a lane that reads it.
    pub fn step(&mut self, warp: u32, pc: u32, active: u32, mask: u32) -> Result<(), (Reg, u32)> {
        let written = &mut self.written[warp as usize];
        let (pc, at) = (pc as usize, |end: u32| end as usize);
        let ((reads, writes), (reads_end, writes_end)) = (self.ends[pc], self.ends[pc + 1]);
        let guard = self.guards[pc].iter().map(|r| (r, active));
        let operands = self.reads[at(reads)..at(reads_end)].iter().map(|r| (r, mask));
        for (reg, lanes) in guard.chain(operands) {
            let missing = lanes & !written[reg.0 as usize];
            if missing != 0 {
                return Err((*reg, missing.trailing_zeros()));
            }
        }
        for reg in &self.writes[at(writes)..at(writes_end)] {
            written[reg.0 as usize] |= mask;
        }
        Ok(())
    }
}
