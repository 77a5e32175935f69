//! The fast path against the reference, on every level this machine has.

mod mutants;
mod tiles;

use super::kernel::{Hooks, Production};
use super::{Call, Path};
use crate::format::Elem::{self, Bf16, F16, F32, Tf32};
use crate::mma::layout::{Layout, Register};
use crate::mma::{Instruction, M16N8K4, M16N8K8, M16N8K16, Operation, Shape, TFdpa, Types, WarpMma, ZeroPolicy};
use crate::profile::Profile;
use crate::simd::Level;
use std::cell::Cell;
use tiles::{Kind, Tile};

/// Every compiled kernel: operand type, number of pairs and blocks.
const COVERED: [(&str, Shape, Elem); 10] = [
    ("sm_90", M16N8K16, Bf16),
    ("sm_80", M16N8K16, Bf16),
    ("sm_80", M16N8K8, Bf16),
    ("sm_120", M16N8K8, Bf16),
    ("sm_90", M16N8K16, F16),
    ("sm_89", M16N8K16, F16),
    ("sm_75", M16N8K8, F16),
    ("sm_90", M16N8K8, Tf32),
    ("sm_80", M16N8K8, Tf32),
    ("sm_80", M16N8K4, Tf32),
];

struct Subject {
    layout: Layout,
    params: TFdpa,
    reference: WarpMma,
}

impl Subject {
    fn new((profile, shape, elem): (&str, Shape, Elem), policy: ZeroPolicy) -> Self {
        let profile = Profile::by_name(profile).unwrap().with_zero_policy(policy);
        let types = Types::new(elem, F32);
        let instruction = Instruction::mma(shape, types);
        let Operation::TFdpa(params) = profile.mma(&instruction).unwrap() else { panic!("{instruction}") };
        let reference = WarpMma::new(&profile, shape, types, Level::Portable).unwrap();
        Self { layout: Layout::of(&instruction).unwrap(), params, reference }
    }

    fn expected(&self, tile: &Tile) -> [Register; 4] {
        let mut d = [[0; 32]; 4];
        let [a, b, c] = tile.operands();
        self.reference.run_reference(&a, &b, &c, &mut d);
        d
    }

    fn run(&self, path: Path, tile: &Tile) -> [Register; 4] {
        let mut d = [[0; 32]; 4];
        let [a, b, c] = tile.operands();
        path.run(&mut Call { params: &self.params, a: &a, b: &b, c: &c, d: &mut d });
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
    compare(TILES..1_500);
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
                Kind::Normal | Kind::Outliers | Kind::Cancelling | Kind::Boundary | Kind::Sparse | Kind::Zero => {
                    assert!(careful * 50 <= all, "{covered:?} {kind:?}: {careful} of {all} columns left the fast path");
                }
                // f16 products cannot leave the window from below, nor from above by much.
                Kind::Bits | Kind::Special => assert!(careful * 4 >= all, "{covered:?} {kind:?}: {careful} of {all}"),
                Kind::Huge | Kind::Tiny if covered.2 != F16 => {
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
    assert!(!fast(hopper, M16N8K16, Types::new(F16, F16)));
    // A floor inside the window would be missed by it.
    let floor = |e| hopper.with_switches(|s| s.f32_floor.set(Some(e)));
    assert!(!fast(&floor(-99), M16N8K16, Types::new(Bf16, F32)));
    assert!(fast(&floor(-100), M16N8K16, Types::new(Bf16, F32)));
}
