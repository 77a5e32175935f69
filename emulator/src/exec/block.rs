//! One block at a time: its warps, its shared memory, its barriers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::error::{ExecError, Nearest, Site, SpaceName};
use super::fault::{Fault, FaultKind};
use super::global::Global;
use super::machine::Machine;
use super::memory::Memory;
use super::program::Program;
use super::shared::Shared;
use super::warp::{Geometry, State, Warp};
use super::watch::Unwatched;
use crate::mma::WarpMma;
use crate::simd::Level;
use ptx::ast::Space;

/// Instructions a warp runs before others get a turn: long enough to be free, short enough that warps which wait for one
/// another in a loop make progress, and that an endless kernel is noticed soon.
const TURN: u64 = 1 << 18;

/// Counts the warp instructions of a launch against its limit.
#[derive(Debug)]
pub(super) struct Meter {
    limit: u64,
    used: AtomicU64,
}

impl Meter {
    pub fn new(limit: u64) -> Self {
        Meter { limit, used: AtomicU64::new(0) }
    }

    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Adds instructions; fails once the limit is passed. Whether a launch passes it does not depend on the order in
    /// which its blocks run.
    pub fn add(&self, instructions: u64, program: &Program) -> Result<(), ExecError> {
        if self.used.fetch_add(instructions, Relaxed).saturating_add(instructions) > self.limit {
            return Err(ExecError::Budget { kernel: program.name().to_owned(), limit: self.limit });
        }
        Ok(())
    }
}

/// What one thread of a launch runs blocks in, one after another.
pub(super) struct Block<'a> {
    machine: Machine<'a>,
    geometry: Geometry,
    warps: Vec<Warp>,
    shared: Shared,
}

impl<'a> Block<'a> {
    pub fn new(
        program: &'a Program,
        geometry: Geometry,
        memory: &'a Memory,
        params: &'a [u32],
        level: Level,
        mmas: Vec<WarpMma>,
    ) -> Self {
        Block {
            machine: Machine {
                program,
                memory,
                global: Global::new(memory),
                params,
                level,
                hints: vec![0; program.code.len()],
                mmas,
                mma_count: 0,
            },
            geometry,
            warps: (0..geometry.warps()).map(|index| Warp::new(program, index)).collect(),
            shared: Shared::new(program.shared_bytes),
        }
    }

    pub fn mmas(&self) -> u64 {
        self.machine.mma_count
    }

    /// Runs the `index`-th block to its end.
    pub fn run(&mut self, index: u64, meter: &Meter) -> Result<(), ExecError> {
        let Block { machine, geometry, warps, shared } = self;
        let block = geometry.block_index(index);
        shared.clear();
        for warp in warps.iter_mut() {
            warp.start(machine.program, geometry, block);
        }
        loop {
            let mut ready = false;
            for warp in warps.iter_mut() {
                if warp.control.state != State::Ready {
                    continue;
                }
                let left = machine
                    .run(warp, shared, &mut Unwatched, TURN)
                    .map_err(|fault| explain(*fault, machine.program, machine.memory, shared, block, warp))?;
                meter.add(TURN - left, machine.program)?;
                ready |= warp.control.state == State::Ready;
            }
            if !ready && !release(warps, machine.program, block)? {
                return Ok(());
            }
        }
    }
}

/// Once no warp can run: lets the warps pass the barrier they all wait at. False when all have ended.
pub(super) fn release(warps: &mut [Warp], program: &Program, block: [u32; 3]) -> Result<bool, ExecError> {
    let Some(first) = warps.iter().find(|w| w.control.state != State::Done) else { return Ok(false) };
    let state = first.control.state;
    if warps.iter().any(|w| w.control.state != state) {
        let waiting = warps.iter().filter(|w| w.control.state != State::Done).count() as u32;
        let at = first.control.pc.saturating_sub(1);
        let site = Box::new(Site { place: program.place(at), block, warp: first.index, lane: None });
        return Err(ExecError::Deadlock { kernel: program.name().to_owned(), block, waiting, site });
    }
    for warp in warps {
        warp.control.state = State::Ready;
    }
    Ok(true)
}

/// Names the place of a fault.
pub(super) fn explain(
    fault: Fault,
    program: &Program,
    memory: &Memory,
    shared: &Shared,
    block: [u32; 3],
    warp: &Warp,
) -> ExecError {
    let Fault { lane, kind } = fault;
    let site = Box::new(Site { place: program.place(warp.control.pc), block, warp: warp.index, lane });
    match kind {
        FaultKind::OutOfBounds { space, address, bytes } => {
            let nearest = match space {
                Space::Shared => shared_nearest(address, u64::from(shared.bytes())),
                _ => memory.nearest(address),
            };
            ExecError::OutOfBounds { site, space: SpaceName(space), address, bytes, nearest }
        }
        FaultKind::Misaligned { space, address, bytes } => {
            ExecError::Misaligned { site, space: SpaceName(space), address, bytes }
        }
        FaultKind::Undefined(reason) => ExecError::Undefined { site, reason },
        FaultKind::Checked(error) => error,
    }
}

/// Shared memory is one allocation at address zero.
fn shared_nearest(address: u64, bytes: u64) -> Nearest {
    match address.checked_sub(bytes) {
        _ if bytes == 0 => Nearest::Nothing,
        None => Nearest::Inside { base: 0, bytes, offset: address },
        Some(distance) => Nearest::After { base: 0, bytes, distance },
    }
}
