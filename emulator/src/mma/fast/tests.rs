//! The fast path against the reference, on every level this machine has.

mod mutants;
mod tiles;

use super::kernel::{Hooks, Production};
use super::{Call, Form, Path};
use crate::format::Elem::{self, Bf16, E4m3, E5m2, F16, F32, Tf32};
use crate::mma::convert;
use crate::mma::layout::{Layout, Register};
use crate::mma::{
    Instruction, M16N8K4, M16N8K8, M16N8K16, M16N8K32, Operation, Shape, TFdpa, Types, WarpMma, ZeroPolicy,
};
use crate::profile::{Profile, Underflow};
use crate::scalar::{self, Mods};
use crate::simd::Level;
use crate::simd::lanes::{self, Kernel, Lanes};
use std::cell::Cell;
use tiles::{Kind, Tile};

/// An instruction: profile, shape, operands, accumulators.
type Case = (&'static str, Shape, [Elem; 2], Elem);

/// Every compiled kernel: operand and accumulator type, number of pairs and blocks.
const COVERED: [Case; 22] = [
    ("sm_90", M16N8K16, [Bf16; 2], F32),
    ("sm_80", M16N8K16, [Bf16; 2], F32),
    ("sm_80", M16N8K8, [Bf16; 2], F32),
    ("sm_120", M16N8K8, [Bf16; 2], F32),
    ("sm_90", M16N8K16, [F16; 2], F32),
    ("sm_89", M16N8K16, [F16; 2], F32),
    ("sm_75", M16N8K8, [F16; 2], F32),
    ("sm_90", M16N8K8, [Tf32; 2], F32),
    ("sm_80", M16N8K8, [Tf32; 2], F32),
    ("sm_80", M16N8K4, [Tf32; 2], F32),
    ("sm_90", M16N8K16, [F16; 2], F16),
    ("sm_80", M16N8K16, [F16; 2], F16),
    ("sm_75", M16N8K8, [F16; 2], F16),
    ("sm_89", M16N8K32, [E4m3; 2], F32),
    ("sm_89", M16N8K32, [E4m3, E5m2], F32),
    ("sm_89", M16N8K16, [E5m2, E4m3], F32),
    ("sm_89", M16N8K32, [E4m3; 2], F16),
    ("sm_89", M16N8K16, [E5m2; 2], F16),
    ("sm_120", M16N8K32, [E4m3; 2], F32),
    ("sm_120", M16N8K32, [E5m2; 2], F32),
    ("sm_120", M16N8K16, [E4m3, E5m2], F32),
    ("sm_120", M16N8K32, [E5m2, E4m3], F16),
];

struct Subject {
    layout: Layout,
    params: TFdpa,
    reference: WarpMma,
}

impl Subject {
    fn new(case: Case, policy: ZeroPolicy) -> Self {
        Self::of(case, &Profile::by_name(case.0).unwrap().with_zero_policy(policy))
    }

    fn of((_, shape, elem, accumulator): Case, profile: &Profile) -> Self {
        let types = Types { a: elem[0], b: elem[1], c: accumulator, d: accumulator };
        let instruction = Instruction::mma(shape, types);
        let Operation::TFdpa(params) = profile.mma(&instruction).unwrap() else { panic!("{instruction}") };
        let reference = WarpMma::new(profile, shape, types, Level::Portable).unwrap();
        Self { layout: Layout::of(&instruction).unwrap(), params, reference }
    }

    fn expected(&self, tile: &Tile) -> Vec<Register> {
        let [a, b, c] = tile.operands();
        let mut d = vec![[0; 32]; c.len()];
        self.reference.run_reference(&a, &b, &c, &mut d);
        d
    }

    fn run(&self, path: Path, tile: &Tile) -> Vec<Register> {
        let [a, b, c] = tile.operands();
        let mut d = vec![[0; 32]; c.len()];
        let forms = [self.layout.types.a, self.layout.types.b].map(Form::of);
        path.run(&mut Call { params: &self.params, forms, a: &a, b: &b, c: &c, d: &mut d });
        d
    }
}

thread_local! {
    /// (Block columns in all, those that left the fast path.)
    static COUNT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// What the production kernel reports in tests.
pub(super) fn count(careful: usize) {
    COUNT.set((COUNT.get().0 + 8, COUNT.get().1 + careful));
}

const TILES: usize = 24;

#[test]
fn every_level_gives_the_bits_of_the_reference() {
    compare(0..TILES);
}

#[test]
#[ignore = "deep: half a minute optimised, minutes otherwise"]
fn every_level_gives_the_bits_of_the_reference_on_many_tiles() {
    compare(TILES..700);
}

fn compare(seeds: std::ops::Range<usize>) {
    for covered in COVERED {
        for policy in [ZeroPolicy::Exclude, ZeroPolicy::SentinelMinus126] {
            let subject = Subject::new(covered, policy);
            for kind in Kind::ALL {
                for seed in seeds.clone() {
                    let tile = Tile::new(&subject.layout, kind, seed as u64);
                    let expected = subject.expected(&tile);
                    for level in Level::available() {
                        let path = Path::with::<Production>(&subject.params, &subject.layout, level).unwrap();
                        let found = subject.run(path, &tile);
                        assert_eq!(found, expected, "{covered:?} {policy:?} {kind:?} seed {seed} on {level:?}");
                    }
                }
            }
        }
    }
}

/// A suite in which everything falls back proves nothing: this is who computed what.
#[test]
fn ordinary_tiles_stay_on_the_fast_path_and_the_others_test_leaving_it() {
    for covered in COVERED {
        let subject = Subject::new(covered, ZeroPolicy::Exclude);
        let path = Path::with::<Production>(&subject.params, &subject.layout, Level::detect()).unwrap();
        for kind in Kind::ALL {
            COUNT.set((0, 0));
            for seed in 0..TILES {
                subject.run(path, &Tile::new(&subject.layout, kind, seed as u64));
            }
            let (all, careful) = COUNT.get();
            match kind {
                // Its sums exceed what f16 accumulators hold.
                Kind::Boundary if covered.3 == F16 => {}
                Kind::Normal | Kind::Outliers | Kind::Cancelling | Kind::Boundary | Kind::Sparse | Kind::Zero => {
                    assert!(careful * 50 <= all, "{covered:?} {kind:?}: {careful} of {all} columns left the fast path");
                }
                // Products of the smaller types cannot leave the window from below, nor from above by much.
                Kind::Bits | Kind::Special => assert!(careful * 4 >= all, "{covered:?} {kind:?}: {careful} of {all}"),
                Kind::Huge | Kind::Tiny if matches!(covered.2[0], Bf16 | Tf32) => {
                    assert!(careful * 4 >= all, "{covered:?} {kind:?}: {careful} of {all}");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn what_is_not_covered_has_no_fast_path() {
    let level = Level::detect();
    let fast = |profile: &Profile, shape, types| WarpMma::new(profile, shape, types, level).unwrap().fast.is_some();
    let hopper = Profile::by_name("sm_90").unwrap();
    assert!(fast(hopper, M16N8K16, Types::new(Bf16, F32)));
    assert!(fast(hopper, M16N8K16, Types::new(F16, F16)));
    assert!(fast(hopper, M16N8K32, Types::new(E4m3, F32)));
    assert!(!fast(hopper, M16N8K16, Types::new(E4m3, F32)));
    assert!(fast(Profile::by_name("sm_89").unwrap(), M16N8K32, Types { b: E5m2, ..Types::new(E4m3, F32) }));
    assert!(!fast(Profile::by_name("sm_80").unwrap(), M16N8K32, Types::new(Elem::S8, Elem::S32)));
    // A floor inside the window would be missed by it.
    let floor = |e| hopper.with_switches(|s| s.f32_floor.set(Some(e)));
    assert!(!fast(&floor(-99), M16N8K16, Types::new(Bf16, F32)));
    assert!(fast(&floor(-100), M16N8K16, Types::new(Bf16, F32)));
}

#[test]
fn switches_of_f16_results_reach_the_kernels() {
    let case = ("sm_90", M16N8K16, [F16; 2], F16);
    let hopper = Profile::by_name("sm_90").unwrap();
    let profiles = [
        hopper.with_switches(|s| s.underflow.set(Underflow::Signed)),
        hopper.with_switches(|s| s.f16_floor.set(None)),
        hopper.with_switches(|s| s.f16_floor.set(Some(-3))),
    ];
    for profile in profiles {
        let subject = Subject::of(case, &profile);
        for kind in Kind::ALL {
            for seed in 0..TILES {
                let tile = Tile::new(&subject.layout, kind, seed as u64);
                for level in Level::available() {
                    let path = Path::with::<Production>(&subject.params, &subject.layout, level).unwrap();
                    assert_eq!(subject.run(path, &tile), subject.expected(&tile), "{kind:?} seed {seed} {level:?}");
                }
            }
        }
    }
}

/// Every pair of neighbouring bytes occurs, in operands of ordinary and of any size, under both policies.
#[test]
fn fp8_through_f16_gives_the_bits_of_the_reference() {
    let mut state = 7_u32;
    let mut random = move || {
        state = state.wrapping_mul(0x2c1b_3c6d).wrapping_add(0x297a_2d39);
        state ^ state >> 15
    };
    for policy in [ZeroPolicy::Exclude, ZeroPolicy::SentinelMinus126] {
        let profile = Profile::by_name("sm_90").unwrap().with_zero_policy(policy);
        for (a, b, accumulator) in
            [(E4m3, E4m3, F32), (E4m3, E5m2, F32), (E5m2, E5m2, F32), (E4m3, E4m3, F16), (E5m2, E4m3, F16)]
        {
            let types = Types { a, b, c: accumulator, d: accumulator };
            for tile in 0..300 {
                // Specials are rare, or nearly every output would be one.
                let mask = [0xbfbf_bfbf, 0xb7b7_b7b7, 0x9f9f_9f9f, 0xffff_ffff][tile % 4];
                let mut word = |specials: bool| {
                    let bytes = random() & mask;
                    if specials && random() % 200 == 0 { random() | 0x7f } else { bytes }
                };
                let a: Vec<Register> = (0..4).map(|_| std::array::from_fn(|_| word(tile % 8 > 3))).collect();
                let b: Vec<Register> = (0..2).map(|_| std::array::from_fn(|_| word(tile % 8 > 3))).collect();
                let c = match accumulator {
                    F16 => random() & 0xbbff_bbff,
                    _ => random() & 0x80ff_ffff | 0x4000_0000,
                };
                let registers = if accumulator == F16 { 2 } else { 4 };
                let c = vec![[c; 32]; registers];
                let [a, b, c]: [Vec<&Register>; 3] = [&a, &b, &c].map(|registers| registers.iter().collect());
                let mut expected = vec![[0; 32]; registers];
                WarpMma::new(&profile, M16N8K32, types, Level::Portable).unwrap().run_reference(
                    &a,
                    &b,
                    &c,
                    &mut expected,
                );
                for level in Level::available() {
                    let mut d = vec![[0; 32]; registers];
                    let mma = WarpMma::new(&profile, M16N8K32, types, level).unwrap();
                    assert!(mma.fast.is_some());
                    mma.run(&a, &b, &c, &mut d);
                    assert_eq!(d, expected, "{types:?} {policy:?} {level:?} tile {tile}");
                }
            }
        }
    }
}

/// f32 to f16, against the scalar conversion: around every f16 and every halfway point.
struct Rounded;

impl Kernel for Rounded {
    type Call<'a> = ();

    fn run<S: Lanes>(s: S, (): &mut ()) {
        for half in 0..=0xffff_u32 {
            let wide = crate::format::f16_to_f32(half as u16);
            let step = |by: i32| wide.wrapping_add(by as u32);
            let values =
                [0, 1, -1, 0xfff, 0x1000, 0x1001, -0xfff, -0x1000, -0x1001, 0x1fff, 0x2000, 7, 8, 9, 0x800, 0x17ff];
            let values = values.map(step);
            let mut out = [0; 16];
            s.store(convert::packed(s, s.load(&values)), &mut out);
            let mut back = [0; 16];
            s.store(s.round_f16(s.load(&values)), &mut back);
            for i in 0..16 {
                let expected = scalar::convert::<scalar::F32, scalar::F16>(values[i], Mods::RN);
                assert_eq!(out[i], u32::from(expected), "{:08x}", values[i]);
                let wide = crate::format::f16_to_f32(expected);
                let nan = |bits: u32| bits & 0x7fff_ffff > 0x7f80_0000;
                assert!(back[i] == wide || nan(back[i]) && nan(wide), "{:08x}: {:08x}", values[i], back[i]);
            }
        }
    }
}

#[test]
fn f16_rounds_to_nearest_even() {
    for level in Level::available() {
        lanes::run::<Rounded>(level, &mut ());
    }
}

#[test]
fn f16_sums_round_once() {
    let mut state = 3_u32;
    let mut random = move || {
        state = state.wrapping_mul(0x2c1b_3c6d).wrapping_add(0x297a_2d39);
        state ^ state >> 13
    };
    for _ in 0..20_000 {
        let (a, mut b): (Register, Register) = (std::array::from_fn(|_| random()), std::array::from_fn(|_| random()));
        // Some cancel, and some are zeros of either sign.
        b[0] = a[0] ^ 0x8000_8000;
        b[1] = a[1] ^ 0x8001_8000;
        b[2] &= 0x8000_8000;
        for level in Level::available() {
            let mut d = [0; 32];
            lanes::run::<convert::Add>(level, &mut convert::Sum { a: &a, b: &b, d: &mut d });
            for i in 0..32 {
                let expected = scalar::add_x2::<scalar::F16x2>(a[i], b[i], Mods::RN);
                assert_eq!(d[i], expected, "{:08x} + {:08x}", a[i], b[i]);
            }
        }
    }
}
