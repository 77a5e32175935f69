//! Structural rules: what is a module of the subset at all, apart from whether it is a good one
//! (which [`crate::lint`] judges). The parser ends with these checks, and an interpreter may rely
//! on them: indices are in range, operand counts and types fit, vectors and fragments have the
//! right widths, addresses have the right registers.

mod convert;
mod defect;
mod instruction;
mod memory;
mod mma;
mod needs;
mod operand;

use std::collections::HashSet;

pub use defect::{Defect, ValidateError};
pub use mma::MmaForm;

use crate::ast::{Inst, Kernel, Module, Op, Pos, Special, Stmt, Type};
use crate::names::is_identifier;

/// Statically sized shared memory a kernel may have, on every GPU.
pub const MAX_SHARED_BYTES: u32 = 48 * 1024;
/// Bytes of parameters a kernel may have.
pub const MAX_PARAM_BYTES: u32 = 4096;
/// Threads a block may have.
pub const MAX_BLOCK_THREADS: u32 = 1024;

/// Checks a module.
///
/// # Errors
/// The first defect, with the kernel and statement it is in.
pub fn validate(module: &Module) -> Result<(), ValidateError> {
    module_defects(module).into_iter().next().map_or(Ok(()), Err)?;
    module.kernels.iter().try_for_each(kernel)
}

/// Defects of the module apart from those of single kernels.
pub(crate) fn module_defects(module: &Module) -> Vec<ValidateError> {
    let mut defects = Vec::new();
    if let Err(defect) = header(module) {
        defects.push(ValidateError { kernel: String::new(), stmt: None, pos: Pos::NONE, defect });
    }
    let mut names = HashSet::new();
    for k in &module.kernels {
        if !names.insert(&k.name) {
            let name = k.name.clone();
            defects.push(kernel_error(k, Defect::DuplicateName { name }));
        }
        defects.extend(newer(module, k));
    }
    defects
}

/// The first instruction that the module's header is too old for.
fn newer(module: &Module, kernel: &Kernel) -> Option<ValidateError> {
    kernel.body.iter().enumerate().find_map(|(index, stmt)| {
        let Stmt::Inst(inst) = stmt else { return None };
        let needs = needs::needs(&inst.op);
        let ((major, minor), target) = needs;
        let oldest = needs::oldest(&inst.op);
        if module.target < oldest {
            let defect = Defect::Header { opcode: inst.op.mnemonic(), major: 7, minor: 0, target: oldest };
            return Some(ValidateError { kernel: kernel.name.clone(), stmt: Some(index), pos: inst.pos, defect });
        }
        if needs == needs::BASE || module.version >= (major, minor) && module.target >= target {
            return None;
        }
        let defect = Defect::Header { opcode: inst.op.mnemonic(), major, minor, target };
        Some(ValidateError { kernel: kernel.name.clone(), stmt: Some(index), pos: inst.pos, defect })
    })
}

/// The least header that every instruction of these kernels exists under: a PTX version and a target.
#[must_use]
pub fn least_header(kernels: &[Kernel]) -> ((u32, u32), u32) {
    let ops = kernels.iter().flat_map(|k| &k.body).filter_map(|stmt| match stmt {
        Stmt::Inst(inst) => Some(&inst.op),
        Stmt::Label(_) => None,
    });
    ops.map(needs::needs).fold(((7, 0), 80), |(v, t), (version, target)| (v.max(version), t.max(target)))
}

/// Checks one kernel by itself.
///
/// # Errors
/// The first defect, with the statement it is in.
pub fn validate_kernel(kernel: &Kernel) -> Result<(), ValidateError> {
    self::kernel(kernel)
}

pub(crate) fn header(module: &Module) -> Result<(), Defect> {
    let (major, minor) = module.version;
    if !(7..=9).contains(&major) || minor > 99 {
        return Err(Defect::Version { major, minor });
    }
    if !(70..=199).contains(&module.target) {
        return Err(Defect::Target { target: module.target });
    }
    Ok(())
}

pub(crate) fn kernel(kernel: &Kernel) -> Result<(), ValidateError> {
    match declarations(kernel) {
        Err(defect) => Err(kernel_error(kernel, defect)),
        Ok(()) => body(kernel).next().map_or(Ok(()), Err),
    }
}

/// Every defect of a kernel: of its declarations the first, of each statement the first.
pub(crate) fn defects(kernel: &Kernel) -> Vec<ValidateError> {
    match declarations(kernel) {
        Err(defect) => vec![kernel_error(kernel, defect)],
        Ok(()) => body(kernel).collect(),
    }
}

fn kernel_error(kernel: &Kernel, defect: Defect) -> ValidateError {
    ValidateError { kernel: kernel.name.clone(), stmt: None, pos: Pos::NONE, defect }
}

fn body(kernel: &Kernel) -> impl Iterator<Item = ValidateError> {
    kernel.body.iter().enumerate().filter_map(|(index, stmt)| {
        let Stmt::Inst(inst) = stmt else { return None };
        let defect = instruction::check(kernel, inst).err()?;
        Some(ValidateError { kernel: kernel.name.clone(), stmt: Some(index), pos: inst.pos, defect })
    })
}

fn declarations(kernel: &Kernel) -> Result<(), Defect> {
    let regs = kernel.regs.iter().map(|r| &r.name);
    let params = kernel.params.iter().map(|p| &p.name);
    let shared = kernel.shared.iter().map(|s| &s.name);
    let mut names = HashSet::new();
    for name in regs.chain(params).chain(shared).chain(&kernel.labels) {
        valid_name(name)?;
        if !names.insert(name) {
            return Err(Defect::DuplicateName { name: name.clone() });
        }
    }
    valid_name(&kernel.name)?;
    for reg in &kernel.regs {
        if !reg.ty.is_register() {
            let name = reg.name.clone();
            return Err(Defect::RegisterDeclaration { name, ty: reg.ty });
        }
    }
    param_offsets(kernel)?;
    shared_offsets(kernel)?;
    if let Some([x, y, z]) = kernel.max_ntid {
        let threads = u64::from(x).saturating_mul(u64::from(y)).saturating_mul(u64::from(z));
        if !(1..=u64::from(MAX_BLOCK_THREADS)).contains(&threads) {
            return Err(Defect::BlockSize { x, y, z });
        }
    }
    labels(kernel)
}

fn valid_name(name: &str) -> Result<(), Defect> {
    let reserved = Special::ALL.iter().any(|s| s.name().split('.').next() == Some(name));
    if reserved || !is_identifier(name) || name.len() > crate::parse::MAX_NAME {
        return Err(Defect::Name { name: name.to_owned() });
    }
    Ok(())
}

/// Byte offset of each parameter (C layout: each at a multiple of its size), and the total size.
///
/// # Errors
/// A parameter of a type that has no size, or more bytes than a launch can pass.
pub fn param_offsets(kernel: &Kernel) -> Result<(Vec<u32>, u32), Defect> {
    let mut at = 0_u32;
    let mut offsets = Vec::with_capacity(kernel.params.len());
    for p in &kernel.params {
        let simple = p.ty.is_bits() || p.ty.is_integer() || matches!(p.ty, Type::F32 | Type::F64);
        if !simple {
            let name = p.name.clone();
            return Err(Defect::ParamType { name, ty: p.ty });
        }
        at = at.next_multiple_of(p.ty.bytes());
        offsets.push(at);
        at += p.ty.bytes();
        if at > MAX_PARAM_BYTES {
            return Err(Defect::ParamSize { limit: MAX_PARAM_BYTES });
        }
    }
    Ok((offsets, at))
}

/// Byte offset of each shared array in the block's shared memory (in order, each aligned), and
/// the total size.
///
/// # Errors
/// An alignment that is no power of two up to 128, an empty array, or more than
/// [`MAX_SHARED_BYTES`].
pub fn shared_offsets(kernel: &Kernel) -> Result<(Vec<u32>, u32), Defect> {
    let mut at = 0_u32;
    let mut offsets = Vec::with_capacity(kernel.shared.len());
    for s in &kernel.shared {
        if !s.align.is_power_of_two() || s.align > 128 || s.bytes == 0 {
            return Err(Defect::SharedArray { name: s.name.clone(), align: s.align, bytes: s.bytes });
        }
        at = at.next_multiple_of(s.align);
        offsets.push(at);
        at = at.saturating_add(s.bytes);
        if at > MAX_SHARED_BYTES {
            return Err(Defect::SharedSize { limit: MAX_SHARED_BYTES });
        }
    }
    Ok((offsets, at))
}

/// Each label of the table is placed once, in table order, and every branch names one.
fn labels(kernel: &Kernel) -> Result<(), Defect> {
    let mut placed = 0_usize;
    for stmt in &kernel.body {
        match stmt {
            Stmt::Label(label) => {
                if label.0 as usize != placed {
                    return Err(Defect::LabelOrder { index: label.0 });
                }
                placed += 1;
            }
            Stmt::Inst(Inst { op: Op::Bra { target, .. }, .. }) if target.0 as usize >= kernel.labels.len() => {
                return Err(Defect::NoSuch { what: "label", index: target.0 });
            }
            Stmt::Inst(_) => {}
        }
    }
    if placed != kernel.labels.len() {
        return Err(Defect::LabelOrder { index: placed as u32 });
    }
    Ok(())
}
