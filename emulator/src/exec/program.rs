//! A kernel compiled for the interpreter.

use ptx::ast::{Inst as AstInst, Kernel, Module, Op, Pos, Special, Stmt, Type};
use ptx::{param_offsets, shared_offsets};

use super::cfg::{Cfg, Flow};
use super::decode::{Constant, Decoder, Refusal};
use super::error::{ExecError, Place};
use super::inst::{Any, Decoded, Inst, Mma, Slot, TRUE};
use super::slots;
use super::types::Width;
use crate::mma::WarpMma;
use crate::mufu::approx::Switches;
use crate::profile::Profile;
use crate::simd::Level;

/// Instructions of one kernel.
const MAX_INSTRUCTIONS: u64 = 1 << 20;
/// Basic blocks, and basic blocks times registers: these bound the time of compilation.
const MAX_BLOCKS: u64 = 1 << 14;
const MAX_LIVENESS: u64 = 1 << 28;
/// Slots of one register file (indices are 16 bits, two of them reserved).
const MAX_SLOTS: u64 = (1 << 16) - 2;

/// A kernel, checked and decoded once, to be launched many times.
///
/// It belongs to the profile it was compiled for: that decides the arithmetic of its matrix instructions and special
/// functions, and which instructions there are.
#[derive(Debug)]
pub struct Program {
    kernel: Kernel,
    profile: Profile,
    /// One for each instruction of the kernel, then an `Exit` for control that falls off the end.
    pub(super) code: Vec<Decoded>,
    /// Statement of the kernel's body that each instruction came from.
    statements: Vec<u32>,
    pub(super) lists: Vec<Any>,
    pub(super) constants: Vec<(Constant, Slot)>,
    pub(super) specials: Vec<(Special, Slot)>,
    /// Registers that start as zero because some path reads them first.
    pub(super) zeroed: Vec<Any>,
    pub(super) zeroed_predicates: Vec<Slot>,
    /// Slots of the predicate, 32-bit and 64-bit files.
    pub(super) slots: [usize; 3],
    pub(super) mmas: Vec<Mma>,
    /// Offset of each parameter, and the bytes of all.
    pub(super) param_offsets: Vec<u32>,
    pub(super) param_bytes: u32,
    pub(super) shared_bytes: u32,
}

impl Program {
    /// Checks and decodes the kernel called `name` for `profile`.
    ///
    /// # Errors
    /// [`ExecError::NoKernel`], [`ExecError::Invalid`], [`ExecError::Target`], [`ExecError::Unsupported`],
    /// [`ExecError::Model`] or [`ExecError::Limit`], naming what and where.
    pub fn compile(module: &Module, name: &str, profile: &Profile) -> Result<Self, ExecError> {
        let kernel = module.kernel(name).ok_or_else(|| ExecError::NoKernel { kernel: name.to_owned() })?;
        ptx::validate(module)?;
        if module.target > profile.sm {
            return Err(ExecError::Target { target: module.target, profile: profile.name });
        }
        let limit = |what, value, limit| {
            if value > limit { Err(ExecError::Limit { kernel: name.to_owned(), what, value, limit }) } else { Ok(()) }
        };
        let (insts, statements): (Vec<&AstInst>, Vec<u32>) = kernel
            .body
            .iter()
            .zip(0..)
            .filter_map(|(stmt, at)| if let Stmt::Inst(inst) = stmt { Some((inst, at)) } else { None })
            .unzip();
        limit("the number of instructions", insts.len() as u64, MAX_INSTRUCTIONS)?;
        let targets = label_targets(kernel);
        let flow: Vec<Flow> = insts
            .iter()
            .map(|inst| match inst.op {
                Op::Bra { target, .. } => {
                    Flow::Branch { target: targets[target.0 as usize], guarded: inst.guard.is_some() }
                }
                Op::Ret | Op::Exit => Flow::Exit { guarded: inst.guard.is_some() },
                _ => Flow::Next,
            })
            .collect();
        let cfg = Cfg::new(&flow);
        limit("the number of basic blocks", cfg.blocks().len() as u64, MAX_BLOCKS)?;
        let work = cfg.blocks().len() as u64 * kernel.regs.len() as u64;
        limit("blocks times registers", work, MAX_LIVENESS)?;
        let file: Vec<usize> = kernel
            .regs
            .iter()
            .map(|r| match Width::of(r.ty) {
                Width::Pred => 0,
                Width::B64 => 2,
                _ => 1,
            })
            .collect();
        let slots = slots::assign(&insts, &cfg, &file);

        let defect = |defect| {
            ExecError::from(ptx::ValidateError { kernel: name.to_owned(), stmt: None, pos: Pos::NONE, defect })
        };
        let (params, param_bytes) = param_offsets(kernel).map_err(defect)?;
        let (shared, shared_bytes) = shared_offsets(kernel).map_err(defect)?;

        let reconverge = cfg.reconvergence();
        let mut decoder = Decoder::new(kernel, profile, &slots, &params, &shared);
        let mut code = Vec::with_capacity(insts.len() + 1);
        for (i, inst) in insts.iter().enumerate() {
            let (target, meet) = match flow[i] {
                Flow::Branch { target, .. } => (target, reconverge[cfg.block_of(i as u32) as usize]),
                _ => (0, 0),
            };
            code.push(decoder.decode(inst, target, meet).map_err(|r| refused(kernel, inst, r))?);
        }
        code.push(Decoded { guard: TRUE, negate: false, inst: Inst::Exit });
        let used = [slots.count[0] + 2, decoder.used[0], decoder.used[1]];
        for used in used {
            limit("registers and constants alive at once", u64::from(used), MAX_SLOTS)?;
        }

        let (mut zeroed, mut zeroed_predicates) = (Vec::new(), Vec::new());
        for reg in &slots.live_in {
            let slot = slots.of[reg.0 as usize] as Slot;
            match file[reg.0 as usize] {
                0 => zeroed_predicates.push(slot + 2),
                1 => zeroed.push(Any::B32(slot)),
                _ => zeroed.push(Any::B64(slot)),
            }
        }
        Ok(Program {
            kernel: kernel.clone(),
            profile: profile.clone(),
            code,
            statements,
            constants: decoder.constants().collect(),
            specials: decoder.specials().to_vec(),
            lists: decoder.lists,
            mmas: decoder.mmas,
            zeroed,
            zeroed_predicates,
            slots: used.map(|n| n as usize),
            param_offsets: params,
            param_bytes,
            shared_bytes,
        })
    }

    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.kernel.name
    }

    /// The switches of its approximate instructions.
    pub(super) fn approx(&self) -> Switches {
        self.profile.switches.approx()
    }

    /// The profile whose arithmetic it uses.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The types of its parameters, in order.
    pub fn params(&self) -> impl ExactSizeIterator<Item = Type> {
        self.kernel.params.iter().map(|p| p.ty)
    }

    /// Bytes of shared memory of one block.
    #[must_use]
    pub fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }

    /// The matrix instructions, for the vector instructions of `level`.
    pub(super) fn warp_mmas(&self, level: Level) -> Result<Vec<WarpMma>, ExecError> {
        let make = |mma: &Mma| WarpMma::new(&self.profile, mma.shape, mma.types, level);
        self.mmas
            .iter()
            .map(make)
            .collect::<Result<_, _>>()
            .map_err(|error| ExecError::Model { place: self.place(0), error: Box::new(error) })
    }

    pub(super) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The instruction of the tree at `pc`; `None` for the end of the kernel.
    pub(super) fn ast(&self, pc: u32) -> Option<&AstInst> {
        match &self.kernel.body[*self.statements.get(pc as usize)? as usize] {
            Stmt::Inst(inst) => Some(inst),
            Stmt::Label(_) => None,
        }
    }

    /// The text and position of the instruction at `pc`.
    pub(super) fn place(&self, pc: u32) -> Place {
        match self.ast(pc) {
            Some(inst) => place(&self.kernel, inst),
            None => {
                Place { kernel: self.kernel.name.clone(), text: "the end of the kernel".to_owned(), pos: Pos::NONE }
            }
        }
    }
}

/// The instruction that follows each label. Labels are placed in the order of their table (validated).
fn label_targets(kernel: &Kernel) -> Vec<u32> {
    let mut targets = Vec::with_capacity(kernel.labels.len());
    let mut next = 0;
    for stmt in &kernel.body {
        match stmt {
            Stmt::Inst(_) => next += 1,
            Stmt::Label(_) => targets.push(next),
        }
    }
    targets
}

fn place(kernel: &Kernel, inst: &AstInst) -> Place {
    Place { kernel: kernel.name.clone(), text: ptx::print_inst(kernel, inst), pos: inst.pos }
}

fn refused(kernel: &Kernel, inst: &AstInst, refusal: Refusal) -> ExecError {
    let place = place(kernel, inst);
    match refusal {
        Refusal::Unsupported(reason) => ExecError::Unsupported { place, reason },
        Refusal::Model(error) => ExecError::Model { place, error: Box::new(error) },
        Refusal::Operand => ExecError::Unsupported { place, reason: "this combination of operands" },
    }
}
