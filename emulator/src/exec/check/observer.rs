//! The observer of a checked run.

use ptx::ast::{Reg, Space};

use super::copies::Copies;
use super::registers::WrittenRegisters;
use super::shadow::{Conflict, MANY, Mark, Shadow};
use super::written::WrittenBytes;
use crate::exec::error::{AccessKind, ExecError, Site, SpaceName};
use crate::exec::fault::{Fault, FaultKind, Outcome};
use crate::exec::global::Global;
use crate::exec::lanes::lanes_in;
use crate::exec::memory::Memory;
use crate::exec::program::Program;
use crate::exec::shared::Shared;
use crate::exec::warp::Geometry;
use crate::exec::watch::{Access, Copies as Issued, Watch};

/// Everything the checker knows about a launch so far.
pub(super) struct Observer<'a> {
    program: &'a Program,
    memory: &'a Memory,
    geometry: Geometry,
    block: u32,
    /// Barriers the block has passed, and synchronisations of each warp.
    epoch: u32,
    warp_epochs: Vec<u32>,
    registers: WrittenRegisters,
    shared: Shadow,
    shared_written: WrittenBytes,
    global: Shadow,
    /// By allocation, in their order.
    global_written: Vec<WrittenBytes>,
    copies: Copies,
}

impl<'a> Observer<'a> {
    pub fn new(program: &'a Program, memory: &'a Memory, geometry: Geometry) -> Self {
        let warps = geometry.warps();
        let global_written = memory.allocations().iter().map(|a| {
            let written = a.take_written();
            WrittenBytes::new(&written, a.bytes)
        });
        Observer {
            program,
            memory,
            geometry,
            block: 0,
            epoch: 0,
            warp_epochs: vec![0; warps as usize],
            registers: WrittenRegisters::new(program, warps),
            shared: Shadow::default(),
            shared_written: WrittenBytes::none(u64::from(program.shared_bytes)),
            global: Shadow::default(),
            global_written: global_written.collect(),
            copies: Copies::new(warps),
        }
    }

    /// A block starts.
    pub fn start_block(&mut self, block: u32) {
        self.block = block;
        self.epoch = 0;
        self.warp_epochs.fill(0);
        self.registers.clear();
        self.shared.clear();
        self.shared_written = WrittenBytes::none(u64::from(self.program.shared_bytes));
        self.copies.clear();
    }

    /// Every warp of the block has passed a barrier.
    pub fn barrier(&mut self) {
        self.epoch += 1;
        self.warp_epochs.iter_mut().for_each(|e| *e += 1);
    }

    /// The launch is over: the memory keeps account of what it wrote.
    pub fn finish(self) {
        for (allocation, written) in self.memory.allocations().iter().zip(self.global_written) {
            allocation.put_written(written.into_ranges());
        }
    }

    fn mark(&self, warp: u32, lane: u32, pc: u32) -> Mark {
        Mark {
            block: self.block,
            pc,
            epoch: self.epoch,
            warp_epoch: self.warp_epochs[warp as usize],
            warp: warp as u8,
            lane: lane as u8,
        }
    }

    fn site(&self, mark: Mark) -> Box<Site> {
        Box::new(Site {
            place: self.program.place(mark.pc),
            block: self.geometry.block_index(u64::from(mark.block)),
            warp: u32::from(mark.warp),
            lane: (mark.lane != MANY).then_some(u32::from(mark.lane)),
        })
    }

    fn conflict(&self, space: Space, now: Mark, kind: AccessKind, (address, found): (u64, Conflict)) -> Box<Fault> {
        let second = self.site(now);
        let error = match found {
            Conflict::Copy(number) => {
                let copy = self.site(self.copies.get(number).issued);
                ExecError::AsyncPending { site: second, now: kind, address, copy }
            }
            Conflict::Access { first, before } => {
                let advice = if first.block != now.block {
                    "nothing orders blocks within a launch"
                } else if first.warp != now.warp {
                    "a bar.sync between them is missing"
                } else {
                    "a bar.warp.sync or bar.sync between them is missing"
                };
                let (first, space) = (self.site(first), SpaceName(space));
                ExecError::Race { second, space, address, now: kind, before, first, advice }
            }
        };
        Box::new(Fault { lane: None, kind: FaultKind::Checked(error) })
    }

    /// Records one lane's access: order first, then whether what is read was written.
    fn lane(&mut self, space: Space, kind: AccessKind, address: u64, bytes: u32, now: Mark) -> Outcome<()> {
        let shadow = if space == Space::Shared { &mut self.shared } else { &mut self.global };
        if let Err(found) = shadow.access(address, bytes, kind, now) {
            return Err(self.conflict(space, now, kind, found));
        }
        let (written, from) = match space {
            Space::Shared => (&mut self.shared_written, address),
            _ => {
                // The access has succeeded, so an allocation holds it.
                let Some(index) = self.memory.find(address, u64::from(bytes)) else { return Ok(()) };
                (&mut self.global_written[index], address - self.memory.allocations()[index].base)
            }
        };
        let range = from..from + u64::from(bytes);
        let unwritten = if kind == AccessKind::Write { None } else { written.first_unwritten(range.clone()) };
        if kind != AccessKind::Read {
            written.add(range);
        }
        let Some(offset) = unwritten else { return Ok(()) };
        let (site, address) = (self.site(now), address - from + offset);
        let error = ExecError::UninitialisedMemory { site, space: SpaceName(space), address };
        Err(Box::new(Fault { lane: None, kind: FaultKind::Checked(error) }))
    }
}

impl Watch for Observer<'_> {
    const ON: bool = true;

    fn step(&mut self, warp: u32, pc: u32, active: u32, mask: u32) -> Outcome<()> {
        let Err((Reg(reg), lane)) = self.registers.step(warp, pc, active, mask) else { return Ok(()) };
        let site = self.site(self.mark(warp, lane, pc));
        let register = self.program.kernel().regs[reg as usize].name.clone();
        let kind = FaultKind::Checked(ExecError::UninitialisedRegister { site, register });
        Err(Box::new(Fault { lane: None, kind }))
    }

    fn access(&mut self, access: Access<'_>) -> Outcome<()> {
        let Access { warp, pc, mask, kind, space, address, bytes, collective, values } = access;
        for lane in lanes_in(mask) {
            let at = address.0[lane];
            // Lanes that store one value to one address in one instruction agree on what is there.
            if kind == AccessKind::Write {
                let earlier = lanes_in(mask & ((1 << lane) - 1)).find(|&other| address.0[other] == at);
                if earlier.is_some_and(|other| values.iter().all(|v| v.0[other] == v.0[lane])) {
                    continue;
                }
            }
            // ldmatrix hands each row to lanes other than the one that names its address.
            let now = self.mark(warp, if collective { u32::from(MANY) } else { lane as u32 }, pc);
            self.lane(space, kind, at, bytes, now)?;
        }
        Ok(())
    }

    fn copies(&mut self, issued: Issued<'_>) -> Outcome<()> {
        let Issued { warp, pc, mask, to, from, bytes, valid } = issued;
        for lane in lanes_in(mask) {
            let now = self.mark(warp, lane as u32, pc);
            let (to, from, valid) = (to.0[lane], from.0[lane], valid.0[lane]);
            self.read_source(from, valid, now)?;
            let number = self.copies.issue(now, to, from, bytes, valid);
            if let Err(found) = self.shared.start_copy(u64::from(to), bytes, now, number) {
                return Err(self.conflict(Space::Shared, now, AccessKind::Write, found));
            }
        }
        Ok(())
    }

    fn commit(&mut self, warp: u32, mask: u32) {
        self.copies.commit(warp, mask);
    }

    fn wait(
        &mut self,
        warp: u32,
        mask: u32,
        pending: Option<u32>,
        memory: &Memory,
        shared: &mut Shared,
    ) -> Outcome<()> {
        let global = Global::new(memory);
        for copy in self.copies.wait(warp, mask, pending) {
            let lane = u32::from(copy.issued.lane);
            let now = self.mark(warp, lane, copy.issued.pc);
            self.read_source(copy.from, copy.valid, now)?;
            let words = shared.slice_mut(lane as usize, copy.to, copy.bytes as usize / 4)?;
            global.copy(&mut 0, lane as usize, copy.from, copy.valid, words)?;
            if let Err(found) = self.shared.land_copy(u64::from(copy.to), copy.bytes, now) {
                return Err(self.conflict(Space::Shared, now, AccessKind::Write, found));
            }
            self.shared_written.add(u64::from(copy.to)..u64::from(copy.to) + u64::from(copy.bytes));
        }
        Ok(())
    }

    fn warp_sync(&mut self, warp: u32, mask: u32, live: u32) {
        // Lanes left out are not ordered; then nothing is assumed to be.
        if mask == live {
            self.warp_epochs[warp as usize] += 1;
        }
    }
}

impl Observer<'_> {
    /// An asynchronous copy reads its source, `bytes` of it.
    fn read_source(&mut self, from: u64, bytes: u32, now: Mark) -> Outcome<()> {
        let mut done = 0;
        while done < bytes {
            // A partial copy may end within a word.
            let step = if bytes - done >= 4 { 4 } else { 1 };
            self.lane(Space::Global, AccessKind::Read, from + u64::from(done), step, now)?;
            done += step;
        }
        Ok(())
    }
}
