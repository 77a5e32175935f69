//! Every vector that has a warp-level form, through the registers of a warp, on every level of this machine.

mod common;

use common::simulated;
use emulator::mma::layout::{Layout, Register, element};
use emulator::mma::{Instruction, WarpMma};
use emulator::profile::{Profile, ZeroPolicy};
use emulator::simd::Level;
use serde_json::Value;
use std::collections::BTreeMap;

struct Vector {
    a: Vec<u32>,
    b: Vec<u32>,
    c: u32,
    /// The answer with zeros excluded, and with the sentinel.
    d: [u32; 2],
}

fn elements(text: &str, digits: usize) -> Vec<u32> {
    (0..text.len()).step_by(digits).map(|i| u32::from_str_radix(&text[i..i + digits], 16).unwrap()).collect()
}

/// Vectors by (profile, instruction), where there is a register layout.
fn warp_level() -> BTreeMap<(&'static str, String), (Instruction, Vec<Vector>)> {
    let mut groups = BTreeMap::new();
    for (_, text) in simulated() {
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            let field = |name: &str| value[name].as_str().unwrap();
            let Some(instruction) = Instruction::parse(field("op"), field("inst")) else { continue };
            let profile = Profile::all().iter().find(|p| p.architecture == field("arch")).unwrap();
            if profile.mma(&instruction).is_err() || Layout::of(&instruction).is_err() {
                continue;
            }
            let digits = field("a").len() / instruction.shape.k as usize;
            let word = |name: &str| u32::from_str_radix(field(name), 16).unwrap();
            let alt = if value["alt"].is_string() { word("alt") } else { word("d") };
            let vector = Vector {
                a: elements(field("a"), digits),
                b: elements(field("b"), digits),
                c: word("c"),
                d: [alt, word("d")],
            };
            let group =
                groups.entry((profile.name, field("inst").to_owned())).or_insert_with(|| (instruction, Vec::new()));
            group.1.push(vector);
        }
    }
    groups
}

/// Eight vectors at once: vector i is row i of A, column i of B and C[i, i], in every product of the warp. Other places of C hold the
/// vectors' accumulators in turn, so that all of D can be compared with the reference.
struct Fragments {
    a: Vec<Register>,
    b: Vec<Register>,
    c: Vec<Register>,
}

fn fragments(layout: &Layout, vectors: &[&Vector; 8]) -> Fragments {
    let build = |registers: usize, parts: usize, value: &dyn Fn(usize, usize, usize) -> u32| -> Vec<Register> {
        let word = |r, lane| (0..parts).fold(0, |word, part| word | value(r, lane, part) << (32 / parts * part));
        (0..registers).map(|r| std::array::from_fn(|lane| word(r, lane))).collect()
    };
    let (ab, cd) = (layout.types.a, layout.types.c);
    Fragments {
        a: build(layout.a_registers(), layout.parts(ab), &|r, lane, part| {
            let p = layout.a(r, lane, part);
            vectors[p.row % 8].a[p.column]
        }),
        b: build(layout.b_registers(), layout.parts(ab), &|r, lane, part| {
            let p = layout.b(r, lane, part);
            vectors[p.column].b[p.row]
        }),
        c: build(layout.cd_registers(cd), layout.parts(cd), &|r, lane, part| {
            let p = layout.cd(cd, r, lane, part);
            vectors[if p.row % 8 == p.column { p.column } else { (p.row + 3 * p.column) % 8 }].c
        }),
    }
}

#[test]
fn every_vector_passes_through_warp_registers() {
    let mut instructions = 0;
    let mut checked = 0;
    for ((name, inst), (instruction, vectors)) in warp_level() {
        instructions += 1;
        for (policy, answer) in [(ZeroPolicy::Exclude, 0), (ZeroPolicy::SentinelMinus126, 1)] {
            let profile = Profile::by_name(name).unwrap().with_zero_policy(policy);
            for start in (0..vectors.len()).step_by(8) {
                let eight: [&Vector; 8] = std::array::from_fn(|i| &vectors[(start + i) % vectors.len()]);
                let fragments = fragments(&Layout::of(&instruction).unwrap(), &eight);
                let [a, b, c]: [Vec<&Register>; 3] =
                    [&fragments.a, &fragments.b, &fragments.c].map(|registers| registers.iter().collect());
                let mut expected = None;
                for level in Level::available() {
                    let mma = WarpMma::new(&profile, instruction.shape, instruction.types, level).unwrap();
                    let (layout, td) = (*mma.layout(), instruction.types.d);
                    let mut d = vec![[0; 32]; layout.cd_registers(td)];
                    let expected = expected.get_or_insert_with(|| {
                        let mut d = d.clone();
                        mma.run_reference(&a, &b, &c, &mut d);
                        d
                    });
                    mma.run(&a, &b, &c, &mut d);
                    assert_eq!(&d, expected, "{name} {inst} {policy:?} {level:?} from vector {start}");
                    for (r, register) in d.iter().enumerate() {
                        for (lane, &word) in register.iter().enumerate() {
                            for part in 0..layout.parts(td) {
                                let p = layout.cd(td, r, lane, part);
                                if p.row == p.column {
                                    let found = element(word, layout.parts(td), part);
                                    assert_eq!(
                                        found,
                                        eight[p.row].d[answer],
                                        "{name} {inst} {policy:?} {level:?} vector {}",
                                        start + p.row
                                    );
                                    checked += 1;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    println!("{instructions} instructions, {checked} answers");
    assert!(instructions >= 40, "{instructions}");
}
