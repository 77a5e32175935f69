//! Deliberate mistakes: the tiles must notice every one of them on every level, or they prove nothing.

use super::*;
use crate::mma::fast::at;
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

/// The kinds of tile on which Hopper's bf16 kernel with `H` differs from the reference.
fn noticed_by<H: Hooks>(level: Level) -> Vec<Kind> {
    let subject = Subject::new(("sm_90", M16N8K16, Bf16, F32), ZeroPolicy::Exclude);
    let path = Path(at::<operand::Bf16, accumulator::F32, H, 8, 1>(level).unwrap());
    let differs = |kind: &Kind| {
        (0..TILES).any(|seed| {
            let tile = Tile::new(&subject.layout, *kind, seed as u64);
            subject.run(path, &tile) != subject.expected(&tile)
        })
    };
    Kind::ALL.into_iter().filter(differs).collect()
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
    }
}
