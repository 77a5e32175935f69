//! Matrix instructions: a probe is one warp that executes one `mma.sync` on fragments from memory.
//!
//! Eight cases share an instruction: case `i` is row `i` of A (and row `i + 8`), column `i` of B, and the diagonal of C. The other places
//! of the product are dot products of a row of one case and a column of another; they are compared as well.

use std::collections::BTreeSet;

use emulator::format::{Elem, Format, Specials};
use emulator::mma::layout::{LANES, Layout, Place, element};
use emulator::mma::{Family, Instruction, Shape, Types};
use ptx::MmaForm;
use ptx::ast::{Module, Op, Reg, Type};
use ptx::builder::{F32, KernelBuilder, R32, R64, Source, Storable};

use super::bench::{Given, Pair, Tally, text_of};
use super::data::{Rng, bytes32};
use super::vector::written;
use super::{Part, Vector};
use crate::error::Result;
use crate::kernels::KernelText;

/// Cases an instruction computes at once.
const CASES: usize = 8;
/// Cases of our own for each instruction and kind of data.
const OWN: usize = 256;

/// One dot product; the answer if a vector file has one.
struct Case {
    a: Vec<u64>,
    b: Vec<u64>,
    c: u64,
    d: Option<u64>,
}

/// The probes: an instruction and its kernel.
#[must_use]
pub fn probes() -> Vec<(Instruction, KernelText)> {
    let mut out = Vec::new();
    for form in MmaForm::ALL {
        let types = alike(form.input);
        for inputs in types.iter().flat_map(|&a| types.iter().map(move |&b| [a, b])) {
            // Two floating-point types are mixed only where the form stands for a class of them.
            out.extend(instruction(form, inputs).map(|instruction| (instruction, probe(form, inputs))));
        }
    }
    out
}

/// The types that a form's input stands for.
fn alike(ty: Type) -> &'static [Type] {
    match ty {
        Type::E4m3 => &[Type::E4m3, Type::E5m2],
        Type::S8 => &[Type::S8, Type::U8],
        Type::S4 => &[Type::S4, Type::U4],
        Type::Bf16 => &[Type::Bf16],
        Type::Tf32 => &[Type::Tf32],
        _ => &[Type::F16],
    }
}

fn elem(ty: Type) -> Option<Elem> {
    match ty {
        Type::F16 => Some(Elem::F16),
        Type::Bf16 => Some(Elem::Bf16),
        Type::Tf32 => Some(Elem::Tf32),
        Type::F32 => Some(Elem::F32),
        Type::E4m3 => Some(Elem::E4m3),
        Type::E5m2 => Some(Elem::E5m2),
        Type::S8 => Some(Elem::S8),
        Type::U8 => Some(Elem::U8),
        Type::S4 => Some(Elem::S4),
        Type::U4 => Some(Elem::U4),
        Type::S32 => Some(Elem::S32),
        _ => None,
    }
}

fn instruction(form: &MmaForm, [a, b]: [Type; 2]) -> Option<Instruction> {
    let shape = Shape::new(form.shape.m, form.shape.n, form.shape.k);
    let types = Types { b: elem(b)?, ..Types::new(elem(a)?, elem(form.accumulator)?) };
    Some(Instruction::mma(shape, types))
}

/// PTX version and target of the header. FP8: PTX ISA, release notes of `mma` (8.4: m16n8k32 into f32; 8.7: m16n8k16, and f16 sums).
fn header(form: &MmaForm) -> ((u32, u32), u32) {
    match (form.input, form.shape.k, form.accumulator) {
        (Type::E4m3, 32, Type::F32) => ((8, 4), 89),
        (Type::E4m3, ..) => ((8, 7), 89),
        _ => ((7, 0), 80),
    }
}

/// Arguments: `a`, `b`, `c`, `d` (out), each `[warps][registers][32]` words.
fn probe(form: &MmaForm, [aty, bty]: [Type; 2]) -> KernelText {
    let shape = form.shape;
    let name = format!("probe_mma_m{}n{}k{}_{}_{aty}_{bty}", shape.m, shape.n, shape.k, form.accumulator);
    let mut k = KernelBuilder::new(&name);
    k.max_ntid(LANES as u32, 1, 1);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| k.param_ptr(name));
    let (warp, lane) = (k.ctaid_x(), k.tid_x());
    let at = |k: &mut KernelBuilder, base: R64, registers: usize| {
        let index = k.mad_lo_u32(warp, (registers * LANES) as u32, lane);
        k.mad_wide_u32(index, 4, base)
    };
    let [from_a, from_b, from_c, to_d] =
        [(a, form.a), (b, form.b), (c, form.cd), (d, form.cd)].map(|(base, registers)| at(&mut k, base, registers));
    let (a, b) = (load::<R32>(&mut k, from_a, form.a), load::<R32>(&mut k, from_b, form.b));
    match form.accumulator_register() {
        Type::F32 => multiply::<F32>(&mut k, form, [aty, bty], [a, b], from_c, to_d),
        _ => multiply::<R32>(&mut k, form, [aty, bty], [a, b], from_c, to_d),
    }
    let (version, target) = header(form);
    text_of(Module { version, target, kernels: vec![k.finish()] }, LANES as u32)
}

fn load<R: Storable>(k: &mut KernelBuilder, at: R64, registers: usize) -> Vec<Reg> {
    (0..registers).map(|r| k.ld_global::<R>(at, (4 * LANES * r) as i64).reg()).collect()
}

fn multiply<R: Storable + Source<R>>(
    k: &mut KernelBuilder,
    form: &MmaForm,
    [aty, bty]: [Type; 2],
    [a, b]: [Vec<Reg>; 2],
    c: R64,
    to: R64,
) {
    let c = load::<R>(k, c, form.cd);
    let d: Vec<R> = (0..form.cd).map(|_| k.fresh()).collect();
    k.emit(Op::Mma {
        shape: form.shape,
        dty: form.accumulator,
        aty,
        bty,
        cty: form.accumulator,
        d: d.iter().map(|r| r.reg()).collect(),
        a,
        b,
        c,
    });
    for (r, register) in d.into_iter().enumerate() {
        k.st_global(to, (4 * LANES * r) as i64, register);
    }
}

pub(super) fn run(pair: &mut Pair<'_>, vectors: &[Vector]) -> Result<()> {
    let mut covered = BTreeSet::new();
    for (instruction, kernel) in probes() {
        let what = instruction.to_string();
        let Ok(layout) = Layout::of(&instruction) else { continue };
        if pair.profile.mma(&instruction).is_err() {
            continue;
        }
        covered.insert(what.clone());
        let both = match pair.probe(&kernel)? {
            Ok(both) => both,
            Err(why) => {
                pair.not_covered(Part::Matrix, &what, why);
                continue;
            }
        };
        let mut cases: Vec<Case> = vectors
            .iter()
            .filter(|v| v.architecture == pair.profile.architecture && v.instruction == instruction)
            .map(|v| Case { a: v.a.clone(), b: v.b.clone(), c: v.c, d: Some(v.d) })
            .collect();
        cases.extend(own(&instruction));
        let warps = cases.len().div_ceil(CASES);
        let [a, b, c] = fragments(&layout, &cases);
        let out = 4 * LANES * layout.cd_registers(instruction.types.d) * warps;
        let args = [Given::In(&a), Given::In(&b), Given::In(&c), Given::Out(out)];
        let outputs = pair.launch(both, [warps as u32, 1, 1], &args)?;
        let mut tally = Tally::default();
        let words = outputs.subject[0].chunks_exact(4).zip(outputs.reference[0].chunks_exact(4));
        for (index, (found, expected)) in words.enumerate() {
            compare(&layout, &cases, index, word(found), word(expected), &mut tally);
        }
        for (number, case) in cases.iter().enumerate() {
            let d = answer(&layout, &outputs.subject[0], number);
            let types = instruction.types;
            pair.answer(
                Part::Matrix,
                &[
                    ("path", "mma.sync".into()),
                    (
                        "ab",
                        if types.a == types.b {
                            types.a.name().into()
                        } else {
                            format!("{}.{}", types.a, types.b).into()
                        },
                    ),
                    ("cd", types.d.name().into()),
                    ("k", instruction.shape.k.into()),
                    ("a", written(&case.a, types.a).into()),
                    ("b", written(&case.b, types.b).into()),
                    ("c", written(&[case.c], types.c).into()),
                    ("d", written(&[d], types.d).into()),
                ],
            )?;
        }
        pair.row(Part::Matrix, &what, tally);
    }
    for (what, why) in others(pair, &covered) {
        pair.not_covered(Part::Matrix, &what, why.to_owned());
    }
    Ok(())
}

/// What the generation has and no probe asks.
fn others(pair: &Pair<'_>, covered: &BTreeSet<String>) -> Vec<(String, &'static str)> {
    let mut out = Vec::new();
    for row in pair.profile.mma {
        let why = match row.family {
            Family::Mma => "no probe: its form is not in the PTX subset of the kernels",
            Family::Wgmma => "no probe: wgmma needs a warpgroup and descriptors (PTX 8.0, sm_90a)",
            Family::Tcgen05 => "no probe: tcgen05 needs tensor memory and descriptors (PTX 8.6, sm_100a)",
            Family::Mfma => "no probe: it is no NVIDIA instruction",
        };
        for shape in row.shapes.examples() {
            for (a, b) in row.operands.pairs() {
                for &modifier in row.modifiers {
                    for &c in row.c {
                        let types = Types { d: row.d, a, b, c };
                        let what = Instruction { family: row.family, shape, types, modifier }.to_string();
                        if !covered.contains(&what) {
                            out.push((what, why));
                        }
                    }
                }
            }
        }
    }
    out
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The cases whose row of A and column of B meet at a place of a warp's product.
fn met(cases: &[Case], warp: usize, place: Place) -> (&Case, &Case) {
    let case = |i: usize| &cases[(warp * CASES + i % CASES) % cases.len()];
    (case(place.row), case(place.column))
}

/// Compares the elements of one word of D: with the vector's answer where there is one, else with the emulated device.
fn compare(layout: &Layout, cases: &[Case], index: usize, found: u32, expected: u32, tally: &mut Tally) {
    let types = layout.types;
    let (registers, parts) = (layout.cd_registers(types.d), layout.parts(types.d));
    let (warp, register, lane) = (index / (registers * LANES), index / LANES % registers, index % LANES);
    for part in 0..parts {
        let place = layout.cd(types.d, register, lane, part);
        let (row, column) = met(cases, warp, place);
        let (found, expected) = (element(found, parts, part), element(expected, parts, part));
        let diagonal = place.row % CASES == place.column;
        let expected = row.d.filter(|_| diagonal).map_or(expected, |d| d as u32);
        tally.add(found == expected, || {
            let c = if diagonal { row.c } else { addend(cases, warp, place) };
            format!(
                "a {} b {} c {}: {}, expected {}",
                written(&row.a, types.a),
                written(&column.b, types.b),
                written(&[c], types.c),
                written(&[found.into()], types.d),
                written(&[expected.into()], types.d)
            )
        });
    }
}

/// C of a place: the case's own on the diagonal, another's elsewhere.
fn addend(cases: &[Case], warp: usize, place: Place) -> u64 {
    let i = if place.row % CASES == place.column { place.column } else { place.row + 3 * place.column };
    cases[(warp * CASES + i % CASES) % cases.len()].c
}

/// The diagonal element of a case in D.
fn answer(layout: &Layout, d: &[u8], number: usize) -> u64 {
    let types = layout.types;
    let (registers, parts) = (layout.cd_registers(types.d), layout.parts(types.d));
    let (warp, i) = (number / CASES, number % CASES);
    for register in 0..registers {
        for lane in 0..LANES {
            for part in 0..parts {
                let place = layout.cd(types.d, register, lane, part);
                if (place.row, place.column) == (i, i) {
                    let at = 4 * ((warp * registers + register) * LANES + lane);
                    return element(word(&d[at..at + 4]), parts, part).into();
                }
            }
        }
    }
    unreachable!("each element of D has a place (tested in the emulator)")
}

/// A, B and C of all cases as fragments, `[warps][registers][32]` words each.
fn fragments(layout: &Layout, cases: &[Case]) -> [Vec<u8>; 3] {
    let types = layout.types;
    let warps = cases.len().div_ceil(CASES);
    let build = |registers: usize, elem: Elem, value: &dyn Fn(usize, usize, usize, usize) -> u64| {
        let parts = layout.parts(elem);
        let bits = 32 / parts;
        let mut words = Vec::with_capacity(warps * registers * LANES);
        for warp in 0..warps {
            for register in 0..registers {
                for lane in 0..LANES {
                    let part = |part| (value(warp, register, lane, part) as u32) << (bits * part);
                    words.push((0..parts).fold(0, |word, p| word | part(p)));
                }
            }
        }
        bytes32(&words)
    };
    let case = |warp: usize, i: usize| &cases[(warp * CASES + i % CASES) % cases.len()];
    [
        build(layout.a_registers(), types.a, &|warp, register, lane, part| {
            let place = layout.a(register, lane, part);
            case(warp, place.row).a[place.column]
        }),
        build(layout.b_registers(), types.b, &|warp, register, lane, part| {
            let place = layout.b(register, lane, part);
            case(warp, place.column).b[place.row]
        }),
        build(layout.cd_registers(types.c), types.c, &|warp, register, lane, part| {
            addend(cases, warp, layout.cd(types.c, register, lane, part))
        }),
    ]
}

/// Our own cases: ordinary exponents, any bits, edges, and small numbers beside a zero that meets a large one.
fn own(instruction: &Instruction) -> Vec<Case> {
    let (types, k) = (instruction.types, instruction.shape.k as usize);
    let mut rng = Rng::new(0x6d6d_6100 + k as u64);
    let mut out = Vec::new();
    for kind in [near, any, edge] {
        for _ in 0..OWN {
            let mut some =
                |elem: Elem, count: usize| -> Vec<u64> { (0..count).map(|_| kind(&mut rng, elem.format())).collect() };
            let (a, b) = (some(types.a, k), some(types.b, k));
            out.push(Case { a, b, c: some(types.c, 1)[0], d: None });
        }
    }
    for _ in 0..OWN {
        let mut some =
            |elem: Elem, count: usize| -> Vec<u64> { (0..count).map(|_| small(&mut rng, elem.format())).collect() };
        let (mut a, mut b, c) = (some(types.a, k), some(types.b, k), some(types.c, 1)[0]);
        (a[0], b[0]) = (0, large(types.b.format()));
        out.push(Case { a, b, c, d: None });
    }
    out
}

/// A number between 1/16 and 16 in size; any integer.
fn near(rng: &mut Rng, format: &Format) -> u64 {
    sized(rng, format, -4)
}

/// A number between 2^-24 and 2^-15 in size, or the smallest there are; any integer.
fn small(rng: &mut Rng, format: &Format) -> u64 {
    sized(rng, format, -24)
}

/// A number of one of nine exponents from `least` on; any integer.
fn sized(rng: &mut Rng, format: &Format, least: i32) -> u64 {
    if format.specials == Specials::Integer {
        return any(rng, format);
    }
    let exponent = (format.bias + least + rng.below(9) as i32).clamp(0, (1 << format.exponent_bits) - 1) as u64;
    let low = format.fraction_bits + format.ignored_bits;
    let rest = any(rng, format);
    let sign = rest & (1 << (format.width - 1));
    sign | exponent << low | rest & ((1 << low) - 1)
}

/// What a zero is multiplied with to show whether its product counts: a power of two near the largest; an integer.
fn large(format: &Format) -> u64 {
    if format.specials == Specials::Integer {
        return 1;
    }
    ((1 << format.exponent_bits) - 2) << (format.fraction_bits + format.ignored_bits)
}

/// Any bits.
fn any(rng: &mut Rng, format: &Format) -> u64 {
    rng.next() >> (64 - format.width)
}

/// A number with all fields at an end, or next to it.
fn edge(rng: &mut Rng, format: &Format) -> u64 {
    let end = |rng: &mut Rng, bits: u32| -> u64 {
        let all = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        match rng.below(5) {
            0 => 0,
            1 => 1 & all,
            2 => all,
            3 => all.saturating_sub(1),
            _ => all / 2 + u64::from(bits > 0),
        }
    };
    if format.specials == Specials::Integer {
        return u64::from(rng.below(2)) << (format.width - 1) | end(rng, format.width - 1);
    }
    let low = format.fraction_bits + format.ignored_bits;
    let (fraction, exponent) = (end(rng, low), end(rng, format.exponent_bits));
    let sign = u64::from(rng.below(2)) << (format.width - 1);
    let exponent = exponent.min((1 << format.exponent_bits) - 1);
    sign | exponent << low | fraction.min((1 << low) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_for_each_form_of_the_subset() {
        assert!(probes().len() > MmaForm::ALL.len());
        for (instruction, kernel) in probes() {
            let module = ptx::parse(&kernel.ptx).unwrap();
            assert!(ptx::lint(&module).is_empty(), "{instruction}");
            assert!(Layout::of(&instruction).is_ok(), "{instruction}");
        }
    }

    #[test]
    fn own_cases_stay_within_their_format() {
        let mut rng = Rng::new(1);
        for elem in [Elem::F16, Elem::Bf16, Elem::Tf32, Elem::F32, Elem::F64, Elem::E4m3, Elem::S8] {
            for kind in [near, any, edge] {
                let seen: BTreeSet<u64> = (0..500).map(|_| kind(&mut rng, elem.format())).collect();
                assert!(seen.iter().all(|&v| elem.format().width == 64 || v >> elem.format().width == 0), "{elem}");
                assert!(seen.len() > 8, "{elem}");
            }
        }
    }
}
