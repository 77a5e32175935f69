//! Deliberate mistakes: the data must notice every one of them on every level and in both kernels, or it proves nothing.

use super::*;

/// The kinds of data on which Hopper's bf16 product with `mutation` differs from the reference.
fn noticed_by(mutation: Mutation, level: Level, m: usize) -> Vec<Kind> {
    let tested = Subject::new(SUBJECTS[0], ZeroPolicy::Exclude);
    let shape = [m, 32, 96];
    let differs = |kind: &Kind| {
        (0..12).any(|seed| {
            let data = tested.data(*kind, shape, seed);
            tested.run(&data, shape, true, level, mutation).d != tested.expected(&data, shape, true)
        })
    };
    Kind::ALL.into_iter().filter(differs).collect()
}

#[test]
fn every_mistake_is_noticed() {
    for level in Level::available() {
        for m in [3, 14] {
            let noticed = |mutation, by: Kind| {
                let kinds = noticed_by(mutation, level, m);
                assert!(kinds.contains(&by), "{level:?}, {m} rows, {mutation:?}: {by:?} not in {kinds:?}");
            };
            assert_eq!(noticed_by(Mutation::Production, level, m), []);
            assert_eq!(noticed_by(Mutation::AlwaysTracking, level, m), []);
            noticed(Mutation::NoOverflowCheck, Kind::Maximal);
            noticed(Mutation::ClampFixed, Kind::ZeroTimesLarge);
            noticed(Mutation::NoTracking, Kind::Tiny);
            noticed(Mutation::NoTracking, Kind::Huge);
            noticed(Mutation::NoTracking, Kind::Special);
            noticed(Mutation::ConvertedToNearest, Kind::Normal);
        }
    }
}
