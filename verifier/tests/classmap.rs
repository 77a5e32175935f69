//! Class maps, and whether searches for unreported rows find exactly what the map of the stack says they can.

mod served;

use std::collections::BTreeMap;

use engine::device::EmulatedDevice;
use engine::{Engine, Limits, Mode};
use served::{Serving, model};
use verifier::Verdict;
use verifier::audit::Options;
use verifier::classmap::{ClassMap, Seen, Sight, Subject, look, measure};
use verifier::engine_replay::AtHand;
use verifier::ranges::Ranges;
use verifier::result::{Cause, Limits as Search};

/// As many rows as the policy's last class begins with, and one more class.
const ROWS: u32 = 33;

fn engine(mode: Mode, profile: &str, context: u32) -> Engine {
    let device = EmulatedDevice::new(profile).unwrap().threads(2);
    let limits = Limits { slots: ROWS, pages: ROWS + context / 16 + 2, max_rows: 256 };
    Engine::new(model(), Box::new(device), mode, limits).unwrap()
}

fn map(mode: Mode, profile: &str, rows: u32, subjects: u32) -> ClassMap {
    let mut engine = engine(mode, profile, 40);
    let subjects: Vec<Subject> = (0..subjects).map(|i| Subject::plain(i, 40, 2, 1024)).collect();
    measure(&mut engine, &subjects, rows, &|_| {}).unwrap()
}

fn classes(map: &ClassMap, sight: Sight) -> String {
    let classes = map.sight(sight).unwrap().classes.iter().map(|c| format!("{{{c}}}"));
    classes.collect::<Vec<_>>().join(" ")
}

#[test]
fn bits_tell_apart_what_the_policy_divides_or_less() {
    let map = map(Mode::Throughput, "sm_90", ROWS, 6);
    let by_policy: Vec<String> = map.choices.iter().map(|c| format!("{{{}}}", c.rows)).collect();
    assert_eq!(by_policy.join(" "), "{1} {2} {3} {4} {5-6} {7-8} {9-12} {13-16} {17-32} {33}");
    assert_eq!(map.beyond_policy, []);
    // Few rows are split most, so their bits differ first. Larger numbers are told apart by rows enough.
    assert!(
        classes(&map, Sight::Operations).starts_with("{1} {2} {3} {4} {5-6} {7"),
        "{}",
        classes(&map, Sight::Operations)
    );
    assert_eq!(classes(&map, Sight::Token), format!("{{1-{ROWS}}}"));
    // A duller sight never tells more.
    for pair in map.sights.windows(2) {
        assert!(pair[0].classes.iter().all(|fine| pair[1].classes.iter().any(|c| c.intersection(fine) == *fine)));
    }
}

#[test]
fn modes_whose_rows_stand_alone_have_one_class() {
    for mode in [Mode::Invariant, Mode::Portable] {
        let map = map(mode, "sm_80", 18, 1);
        assert_eq!((classes(&map, Sight::Operations).as_str(), map.choices.len()), ("{1-18}", 1));
    }
}

#[test]
fn a_map_of_nothing_is_refused_and_leaves_nothing_open() {
    let mut engine = engine(Mode::Throughput, "sm_90", 8);
    let good = Subject::plain(0, 8, 1, 1024);
    let bad = [
        (Subject { prompt: vec![], ..good.clone() }, 2),
        (Subject { following: vec![], ..good.clone() }, 2),
        (Subject { following: vec![1024], ..good.clone() }, 2),
        (Subject { prompt: vec![1; 257], ..good.clone() }, 2),
        (good.clone(), 0),
        (good.clone(), ROWS + 1),
    ];
    for (subject, rows) in bad {
        assert!(look(&mut engine, &subject, rows, &|_| {}).is_err(), "{subject:?} {rows}");
    }
    assert!(measure(&mut engine, &[], 1, &|_| {}).is_err());
    let all = look(&mut engine, &good, ROWS, &|_| {}).unwrap();
    assert_eq!(all, look(&mut engine, &good, ROWS, &|_| {}).unwrap());
}

/// What was seen of subjects, by their tokens.
struct Known {
    engine: Engine,
    seen: BTreeMap<Subject, Vec<Seen>>,
}

impl Known {
    fn new(context: u32) -> Self {
        Self { engine: engine(Mode::Throughput, "sm_90", context), seen: BTreeMap::new() }
    }

    /// Serves `declared` requests among `truth` rows and audits. The search finds exactly those numbers of rows that give these requests the logged bits
    /// when the rows really run.
    fn compare(&mut self, declared: u32, truth: u32, long_prompt: u32) {
        let extra_rows = truth - declared;
        let served = Serving { batch: declared, extra_rows, new_tokens: 3, long_prompt, ..Serving::default() }.serve();
        let limits = Search { extra_rows: ROWS, splits: 1, seeds: 1 };
        let at_hand = AtHand::emulated(model(), 2, None);
        let r = served.audit_on(&at_hand, &Options { limits, ..Options::default() }, true);
        let what = format!("{declared} of {truth} rows: {}", r.headline);

        let subjects: Vec<Subject> = served.record.requests.iter().map(subject).collect();
        for subject in &subjects {
            if !self.seen.contains_key(subject) {
                let seen = look(&mut self.engine, subject, ROWS, &|_| {}).unwrap();
                self.seen.insert(subject.clone(), seen);
            }
        }
        let seen: Vec<Vec<Seen>> = subjects.iter().map(|s| self.seen[s].clone()).collect();
        let map = ClassMap::new(&self.engine, &subjects, &seen).unwrap();
        let classes = map.sight(Sight::State).unwrap();
        let tells = classes.tells(declared, truth).unwrap();
        assert_eq!(r.verdict, if tells { Verdict::Mismatch } else { Verdict::Match }, "{what}");
        let found = match r.causes.first() {
            Some(Cause::UnreportedRows { decode, .. }) => decode.clone(),
            None => r.alternatives.extra_rows.clone(),
            other => panic!("{what}: {other:?} {:#?}", r.tried),
        };
        assert!(found.contains(extra_rows), "{what}: {found}");
        // The search looks further than the map.
        let within: Ranges = found.iter().filter(|n| declared + n <= ROWS).collect();
        assert_eq!(within, classes.unreported(declared, truth).unwrap(), "{what}");
    }
}

/// What a request was fed after its prompt: all but its last token.
fn subject(request: &record::inference::Request) -> Subject {
    let (_, following) = request.output.split_last().unwrap();
    Subject { prompt: request.prompt.clone(), following: following.to_vec() }
}

#[test]
fn unreported_rows_are_found_where_the_map_says_so() {
    let mut known = Known::new(6);
    let numbers = [1, 2, 5, 12, 17];
    for (i, declared) in numbers.into_iter().enumerate() {
        numbers[i..].iter().for_each(|truth| known.compare(declared, *truth, 0));
    }
    // A longer prefix, which attention may divide.
    let mut known = Known::new(70);
    [1, 3, 20].into_iter().for_each(|truth| known.compare(1, truth, 70));
}

#[test]
#[ignore = "deep: every pair of numbers of rows, 528 audits"]
fn unreported_rows_are_found_where_the_map_says_so_for_every_pair() {
    let mut known = Known::new(6);
    for declared in 1..=32 {
        (declared..=32).for_each(|truth| known.compare(declared, truth, 0));
    }
}
