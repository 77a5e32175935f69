//! The state of one warp: registers, program counter, and the reconvergence stack.

use super::decode::Constant;
use super::inst::{Any, FALSE, Slot, TRUE};
use super::lanes::{FULL, LANES, V32, V64};
use super::program::Program;
use ptx::ast::Special;

/// The register files of one warp.
#[derive(Debug)]
pub(super) struct Registers {
    pub b32: Vec<V32>,
    pub b64: Vec<V64>,
    /// One bit a lane.
    pub pred: Vec<u32>,
}

impl Registers {
    fn new(program: &Program) -> Self {
        let [preds, b32, b64] = program.slots;
        let mut registers = Registers { b32: vec![V32::ZERO; b32], b64: vec![V64::ZERO; b64], pred: vec![0; preds] };
        registers.pred[TRUE as usize] = FULL;
        registers.pred[FALSE as usize] = 0;
        for &(constant, slot) in &program.constants {
            match constant {
                Constant::B32(v) => registers.b32[slot as usize] = V32::splat(v),
                Constant::B64(v) => registers.b64[slot as usize] = V64::splat(v),
            }
        }
        registers
    }

    #[inline(always)]
    pub fn set32(&mut self, d: Slot, value: &V32, mask: u32) {
        self.b32[d as usize].merge(value, mask);
    }

    #[inline(always)]
    pub fn set64(&mut self, d: Slot, value: &V64, mask: u32) {
        self.b64[d as usize].merge(value, mask);
    }

    #[inline(always)]
    pub fn set_pred(&mut self, d: Slot, value: u32, mask: u32) {
        let d = &mut self.pred[d as usize];
        *d = (*d & !mask) | (value & mask);
    }
}

/// Whether a warp can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// Waits at a barrier, having passed the instruction.
    Barrier {
        id: u32,
    },
    Done,
}

/// Lanes that wait while others run.
#[derive(Clone, Copy, Debug)]
struct Suspended {
    pc: u32,
    meet: u32,
    mask: u32,
}

/// No reconvergence point: the lanes run until they exit.
const NOWHERE: u32 = u32::MAX;

/// Where a warp is.
///
/// The lanes in `active` run from `pc` until they reach `meet`, exit, or diverge. The others wait on the stack. When
/// lanes diverge at a branch, both sides run to the branch's reconvergence point, the taken side first, and then go on
/// together. Each divergence splits a mask, so the stack holds at most 64 entries.
#[derive(Debug)]
pub(super) struct Control {
    pub pc: u32,
    pub active: u32,
    /// Where `active` joins the lanes on top of the stack.
    pub meet: u32,
    /// Lanes that have not exited.
    pub live: u32,
    /// Lanes that the block has in this warp.
    pub present: u32,
    pub state: State,
    stack: Vec<Suspended>,
}

impl Control {
    /// All of `active` go to `target`.
    #[inline(always)]
    pub fn jump(&mut self, target: u32) {
        self.pc = target;
    }

    /// `taken` go to `target`, the other active lanes go on; neither is empty.
    pub fn diverge(&mut self, taken: u32, target: u32, meet: u32) {
        let next = self.pc + 1;
        let rest = self.active & !taken;
        if target == next {
            self.pc = next;
            return;
        }
        if meet != self.meet {
            self.stack.push(Suspended { pc: meet, meet: self.meet, mask: self.active });
        }
        match (target == meet, next == meet) {
            (true, _) => (self.pc, self.active) = (next, rest),
            (false, true) => (self.pc, self.active) = (target, taken),
            (false, false) => {
                self.stack.push(Suspended { pc: next, meet, mask: rest });
                (self.pc, self.active) = (target, taken);
            }
        }
        self.meet = meet;
    }

    /// `lanes` have exited.
    pub fn exit(&mut self, lanes: u32) {
        self.live &= !lanes;
        self.active &= !lanes;
        if self.active == 0 {
            self.resume();
        } else {
            self.pc += 1;
        }
    }

    /// Goes on with the lanes on top of the stack that still live; the warp is done when there are none.
    pub fn resume(&mut self) {
        while let Some(Suspended { pc, meet, mask }) = self.stack.pop() {
            self.active = mask & self.live;
            if self.active != 0 {
                (self.pc, self.meet) = (pc, meet);
                return;
            }
        }
        self.active = 0;
        self.state = State::Done;
    }
}

/// One warp of a block.
#[derive(Debug)]
pub(super) struct Warp {
    /// Index within the block.
    pub index: u32,
    pub registers: Registers,
    pub control: Control,
}

/// What a launch tells every thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub grid: [u32; 3],
    pub block: [u32; 3],
}

impl Geometry {
    pub fn blocks(&self) -> u64 {
        // At most 2^31 * 2^16 * 2^16, checked at the launch.
        self.grid.iter().map(|&n| u64::from(n)).product()
    }

    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    pub fn warps(&self) -> u32 {
        self.threads().div_ceil(LANES as u32)
    }

    /// The index of the `n`-th block, x fastest.
    pub fn block_index(&self, n: u64) -> [u32; 3] {
        let [x, y, _] = self.grid.map(u64::from);
        [(n % x) as u32, (n / x % y) as u32, (n / x / y) as u32]
    }
}

impl Warp {
    pub fn new(program: &Program, index: u32) -> Self {
        Warp {
            index,
            registers: Registers::new(program),
            control: Control {
                pc: 0,
                active: 0,
                meet: NOWHERE,
                live: 0,
                present: 0,
                state: State::Done,
                stack: Vec::new(),
            },
        }
    }

    /// Puts the warp at the start of a block.
    pub fn start(&mut self, program: &Program, geometry: &Geometry, block: [u32; 3]) {
        let first = self.index * LANES as u32;
        let present = match geometry.threads() - first {
            n if n >= LANES as u32 => FULL,
            n => (1 << n) - 1,
        };
        let control = &mut self.control;
        control.pc = 0;
        control.meet = NOWHERE;
        (control.active, control.live, control.present) = (present, present, present);
        control.state = State::Ready;
        control.stack.clear();
        for &(special, slot) in &program.specials {
            self.registers.b32[slot as usize] = special_value(special, geometry, block, self.index);
        }
        for &any in &program.zeroed {
            match any {
                Any::B16(slot) | Any::B32(slot) => self.registers.b32[slot as usize] = V32::ZERO,
                Any::B64(slot) => self.registers.b64[slot as usize] = V64::ZERO,
            }
        }
        for &slot in &program.zeroed_predicates {
            self.registers.pred[slot as usize] = 0;
        }
    }
}

fn special_value(special: Special, geometry: &Geometry, block: [u32; 3], warp: u32) -> V32 {
    let [bx, by, _] = geometry.block;
    let mut lanes = V32::ZERO;
    for (lane, out) in lanes.0.iter_mut().enumerate() {
        let thread = warp * LANES as u32 + lane as u32;
        *out = match special {
            Special::TidX => thread % bx,
            Special::TidY => thread / bx % by,
            Special::TidZ => thread / bx / by,
            Special::NtidX => bx,
            Special::NtidY => by,
            Special::NtidZ => geometry.block[2],
            Special::CtaidX => block[0],
            Special::CtaidY => block[1],
            Special::CtaidZ => block[2],
            Special::NctaidX => geometry.grid[0],
            Special::NctaidY => geometry.grid[1],
            Special::NctaidZ => geometry.grid[2],
            Special::LaneId => lane as u32,
            Special::WarpId => warp,
        };
    }
    lanes
}
