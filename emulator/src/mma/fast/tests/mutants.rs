//! Deliberate mistakes: the tiles must notice every one of them on every level, or they prove nothing.

use super::*;
use crate::mma::fast::{Compiled, at};
use crate::mma::fast::{accumulator, operand};

macro_rules! mutant {
    ($name:ident, $($change:tt)*) => {
        struct $name;
        impl Hooks for $name {
            $($change)*
        }
    };
}

mutant!(NoOverflowCheck, const NOTICE_OVERFLOW: bool = false;);
mutant!(NoLimit, const NOTICE_LIMIT: bool = false;);
mutant!(NoLowerEdge, const NOTICE_SMALL: bool = false;);
mutant!(NoUpperEdge, const NOTICE_LARGE: bool = false;);
mutant!(SmallIsNothing, const NOTICE_TERMS: bool = false;);
mutant!(AccumulatorNotAligned, const ALIGN_ACCUMULATOR: bool = false;);
mutant!(ConvertedToNearest, const CONVERT_TOWARD_ZERO: bool = false;);

/// The kinds of tile on which the kernel `path` differs from the reference.
fn noticed(case: Case, path: Option<Compiled>) -> Vec<Kind> {
    let subject = Subject::new(case, ZeroPolicy::Exclude);
    let path = Path(path.unwrap());
    let differs = |kind: &Kind| {
        (0..TILES).any(|seed| {
            let tile = Tile::new(&subject.layout, *kind, seed as u64);
            subject.run(path, &tile) != subject.expected(&tile)
        })
    };
    Kind::ALL.into_iter().filter(differs).collect()
}

/// Hopper's bf16 kernel.
fn noticed_by<H: Hooks>(level: Level) -> Vec<Kind> {
    noticed(("sm_90", M16N8K16, [Bf16; 2], F32), at::<operand::Bf16, accumulator::F32, H, 8, 1>(level))
}

/// FP8 with 32 products and 25 bits.
fn noticed_of_fp8<H: Hooks>(level: Level) -> Vec<Kind> {
    noticed(("sm_120", M16N8K32, [E5m2; 2], F32), at::<operand::Fp8, accumulator::F32, H, 16, 1>(level))
}

#[test]
fn every_mistake_is_noticed() {
    for level in Level::available() {
        let noticed = |kinds: Vec<Kind>, by: Kind| assert!(kinds.contains(&by), "{level:?}: {by:?} not in {kinds:?}");
        assert_eq!(noticed_by::<Production>(level), []);
        noticed(noticed_by::<NoOverflowCheck>(level), Kind::Maximal);
        noticed(noticed_by::<NoLimit>(level), Kind::Special);
        noticed(noticed_by::<NoLimit>(level), Kind::ZeroTimesLarge);
        noticed(noticed_by::<NoLowerEdge>(level), Kind::Tiny);
        noticed(noticed_by::<NoUpperEdge>(level), Kind::Edge);
        noticed(noticed_by::<SmallIsNothing>(level), Kind::Tiny);
        noticed(noticed_by::<AccumulatorNotAligned>(level), Kind::Boundary);
        noticed(noticed_by::<ConvertedToNearest>(level), Kind::Normal);

        assert_eq!(noticed_of_fp8::<Production>(level), []);
        noticed(noticed_of_fp8::<NoOverflowCheck>(level), Kind::Maximal);
        // (The upper edge cannot be noticed: products do not reach it, and where an accumulator does, they vanish and it is scaled exactly.)
        noticed(noticed_of_fp8::<AccumulatorNotAligned>(level), Kind::Boundary);
        noticed(noticed_of_fp8::<ConvertedToNearest>(level), Kind::Normal);
    }
}
