//! The warp paths against the references, at every level of this machine.

use emulator::mufu::{self, MufuTables, lanes};
use emulator::simd::{Level, Warp};

type Model = fn(&MufuTables, u32) -> u32;
type Lanes = fn(Level, &MufuTables, &Warp, &mut Warp);

const FUNCTIONS: [(&str, Model, Lanes); 4] = [
    ("rcp", mufu::rcp, lanes::rcp),
    ("rsq", mufu::rsq, lanes::rsq),
    ("ex2", mufu::ex2, lanes::ex2),
    ("lg2", mufu::lg2, lanes::lg2),
];

fn check(name: &str, model: Model, warp: Lanes, x: Warp) {
    let tables = MufuTables::g80();
    let expected = x.map(|x| model(tables, x));
    for level in Level::available() {
        let mut out = [0; 32];
        warp(level, tables, &x, &mut out);
        for lane in 0..32 {
            assert_eq!(out[lane], expected[lane], "{name}({:08x}) {level:?}", x[lane]);
        }
    }
}

/// Both parities of the exponent, so every fraction of every function; for EX2 and LG2 also around the sign change.
#[test]
fn whole_binades_agree() {
    for (name, model, warp) in FUNCTIONS {
        for start in [0x3f80_0000_u32, 0x4000_0000].into_iter().chain((name == "ex2").then_some(0xbf80_0000)) {
            for x in (start..start + (1 << 23)).step_by(32) {
                check(name, model, warp, std::array::from_fn(|lane| x + lane as u32));
            }
        }
    }
}

/// Every exponent and sign with the fractions at the ends of segments.
#[test]
fn every_exponent_agrees() {
    let fractions: Warp = std::array::from_fn(|i| match i {
        0..8 => i as u32,
        8..16 => 0x7f_ffff - (i as u32 - 8),
        16..24 => (i as u32) << 16,
        _ => ((i as u32) << 17).wrapping_sub(1) & 0x7f_ffff,
    });
    for (name, model, warp) in FUNCTIONS {
        for upper in 0..512 {
            check(name, model, warp, fractions.map(|fraction| upper << 23 | fraction));
        }
    }
}

/// Random bit patterns over the whole range, a linear congruential walk.
#[test]
fn random_operands_agree() {
    let mut state = 1_u32;
    for _ in 0..40_000 {
        let x: Warp = std::array::from_fn(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state ^ state >> 15
        });
        for (name, model, warp) in FUNCTIONS {
            check(name, model, warp, x);
        }
    }
}
