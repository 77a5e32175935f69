//! Scalar operations: a probe is one instruction for one thread an operand tuple.
//!
//! Arithmetic of f32 and f64 in every rounding, with and without `.ftz` and `.sat`; comparisons; conversions among floating-point formats
//! and to and from integers.

mod list;
mod operands;

use ptx::ast::{Kernel, Op, Operand, Reg, Stmt, Type};
use ptx::builder::{KernelBuilder, P, R16, R32, R64, Register};

use super::Part;
use super::bench::{Given, Pair, Tally, hex_elements, text};
use crate::error::Result;
use crate::kernels::KernelText;

/// Threads of a block.
const THREADS: u32 = 128;
/// Operand tuples of each instruction.
const TUPLES: usize = 1024;

/// An instruction under test.
pub struct Probe {
    /// `add.rz.ftz.f32`.
    pub what: String,
    /// Its kernel: arguments are an array for each operand, the array of results, and the number of tuples.
    pub kernel: KernelText,
    /// Types of the operands.
    inputs: Vec<Type>,
    /// Bytes of a result.
    output: usize,
}

/// Every probe.
#[must_use]
pub fn probes() -> Vec<Probe> {
    list::all()
}

/// What is done with the operands.
enum Tested<'a> {
    /// One instruction from the operands to the destination.
    Op(&'a dyn Fn(Reg, &[Operand]) -> Op),
    /// One that gives a predicate, which is stored as 1 or 0.
    Predicate(&'a dyn Fn(Reg, &[Operand]) -> Op),
}

fn load(k: &mut KernelBuilder, ty: Type, at: R64) -> Reg {
    match ty.bytes() {
        2 => k.ld_global::<R16>(at, 0).reg(),
        4 => k.ld_global::<R32>(at, 0).reg(),
        _ => k.ld_global::<R64>(at, 0).reg(),
    }
}

/// The probe of an instruction with operands of these types and a result of that one.
fn probe(inputs: &[Type], output: Type, tested: &Tested<'_>) -> Probe {
    // Named once the instruction is known.
    let mut k = KernelBuilder::new("probe");
    k.max_ntid(THREADS, 1, 1);
    let arrays: Vec<R64> = (0..inputs.len()).map(|i| k.param_ptr(["a", "b", "c"][i])).collect();
    let (out, count) = (k.param_ptr("d"), k.param_u32("count"));
    let (cta, tid) = (k.ctaid_x(), k.tid_x());
    let i = k.mad_lo_u32(cta, THREADS, tid);
    let inside = k.setp_lt_u32(i, count);
    k.if_(inside, |k| {
        let operands: Vec<Operand> = arrays
            .iter()
            .zip(inputs)
            .map(|(&array, &ty)| {
                let at = k.mad_wide_u32(i, ty.bytes(), array);
                Operand::Reg(load(k, ty, at))
            })
            .collect();
        let to = k.mad_wide_u32(i, output.bytes(), out);
        match (tested, output.bytes()) {
            (Tested::Predicate(op), _) => {
                let p: P = k.fresh();
                k.emit(op(p.reg(), &operands));
                let d: R32 = k.fresh();
                let (one, zero) = (Operand::Int(1), Operand::Int(0));
                k.emit(Op::Selp { ty: Type::B32, d: d.reg(), a: one, b: zero, p: p.reg() });
                k.st_global(to, 0, d);
            }
            (Tested::Op(op), 2) => {
                let d: R16 = k.fresh();
                k.emit(op(d.reg(), &operands));
                k.st_global(to, 0, d);
            }
            (Tested::Op(op), 4) => {
                let d: R32 = k.fresh();
                k.emit(op(d.reg(), &operands));
                k.st_global(to, 0, d);
            }
            (Tested::Op(op), _) => {
                let d: R64 = k.fresh();
                k.emit(op(d.reg(), &operands));
                k.st_global(to, 0, d);
            }
        }
    });
    let mut kernel = k.finish();
    let what = opcode(&kernel, if matches!(tested, Tested::Predicate(_)) { 2 } else { 1 });
    kernel.name = format!("probe_{}", what.replace('.', "_"));
    Probe { what, kernel: text(kernel, THREADS), inputs: inputs.to_vec(), output: output.bytes() as usize }
}

/// The opcode of the instruction so many before the store.
fn opcode(kernel: &Kernel, before: usize) -> String {
    let store = kernel.body.iter().position(|s| matches!(s, Stmt::Inst(i) if matches!(i.op, Op::St { .. })));
    match store.and_then(|at| kernel.body.get(at - before)) {
        Some(Stmt::Inst(inst)) => ptx::print_inst(kernel, inst).split(' ').next().unwrap_or_default().to_owned(),
        _ => String::new(),
    }
}

pub(super) fn run(pair: &mut Pair<'_>) -> Result<()> {
    for probe in probes() {
        let both = match pair.probe(&probe.kernel)? {
            Ok(both) => both,
            Err(why) => {
                pair.not_covered(Part::Scalar, &probe.what, why);
                continue;
            }
        };
        let columns = operands::tuples(&probe.inputs, TUPLES);
        let mut args: Vec<Given> = columns.iter().map(|c| Given::In(c)).collect();
        args.extend([Given::Out(TUPLES * probe.output), Given::U32(TUPLES as u32)]);
        let outputs = pair.launch(both, [(TUPLES as u32).div_ceil(THREADS), 1, 1], &args)?;
        let (found, expected) = (&outputs.subject[0], &outputs.reference[0]);
        let mut tally = Tally::default();
        for (i, (f, e)) in found.chunks(probe.output).zip(expected.chunks(probe.output)).enumerate() {
            tally.add(f == e, || {
                let operand = |(column, ty): (&Vec<u8>, &Type)| {
                    let width = ty.bytes() as usize;
                    hex_elements(&column[i * width..][..width], width)
                };
                let operands: Vec<String> = columns.iter().zip(&probe.inputs).map(operand).collect();
                let (f, e) = (hex_elements(f, probe.output), hex_elements(e, probe.output));
                format!("of {}: {f}, expected {e}", operands.join(", "))
            });
        }
        let mut fields = vec![("op", probe.what.clone().into())];
        for ((name, column), ty) in ["a", "b", "c"].into_iter().zip(&columns).zip(&probe.inputs) {
            fields.push((name, hex_elements(column, ty.bytes() as usize).into()));
        }
        fields.push(("d", hex_elements(found, probe.output).into()));
        pair.answer(Part::Scalar, &fields)?;
        pair.row(Part::Scalar, &probe.what, tally);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn probes_are_named_by_their_instruction_and_keep_the_rules() {
        let probes = probes();
        let names: BTreeSet<&str> = probes.iter().map(|p| p.what.as_str()).collect();
        assert_eq!(names.len(), probes.len());
        for name in [
            "add.rz.ftz.sat.f32",
            "fma.rp.f64",
            "div.rn.f32",
            "sqrt.rm.ftz.f32",
            "max.NaN.f32",
            "setp.geu.ftz.f32",
            "cvt.rz.f16.f32",
            "cvt.rzi.s32.f32",
            "cvt.rn.bf16x2.f32",
            "cvt.rna.tf32.f32",
        ] {
            assert!(names.contains(name), "{name}; there are {names:?}");
        }
        for probe in &probes {
            assert!(crate::device::prepare_probe(&probe.kernel).is_ok(), "{}", probe.what);
        }
    }
}
