//! Which records are audited: all, some that the auditor names, or a sample that nobody could foresee.
//!
//! Source: `docs/spec/audit-result.md`, *Sampling*. A sample follows from `HKDF-SHA256(beacon, checkpoint root, audit id)`, where the
//! beacon is randomness published after the checkpoint was signed: an operator who has committed cannot choose what is looked at.

use crate::bound::hypergeometric_miss;
use crate::error::Error;
use crate::result::{MissBound, Sampling, StratumFacts};
use crate::strata::{Facts, Stratum};
use hkdf::Hkdf;
use record::Digest;
use sha2::Sha256;
use std::collections::{BTreeMap, BTreeSet};

/// How records are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// All of them.
    #[default]
    All,
    /// These; nothing is said of the others.
    These(BTreeSet<u64>),
    /// By randomness.
    Challenge(Challenge),
}

/// A sample of the records that a checkpoint commits to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Randomness from after the checkpoint, lower-case hex.
    pub beacon: String,
    /// Name of this audit.
    pub audit: String,
    /// How many records are drawn from all.
    pub amount: Amount,
    /// How many more are drawn from each stratum.
    pub per_stratum: u64,
    /// What shows that the beacon is younger than the checkpoint.
    pub order: Order,
}

/// How large a sample is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// This many records.
    Records(u64),
    /// As many as are expected to take this many replayed rows. Their number follows from sizes alone, not from who is drawn: then the sample is
    /// uniform, and its bound exact.
    Rows {
        /// Rows.
        rows: u64,
        /// The budget in the auditor's words.
        words: String,
    },
}

/// What shows that the beacon is younger than the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A witness cosigned the checkpoint before the beacon was published.
    Witnessed,
    /// The auditor says so.
    Stated,
}

/// What a sample is drawn from.
pub struct Population<'a> {
    /// Root of the checkpoint that commits to it.
    pub root: Digest,
    /// Its records, in log order.
    pub facts: &'a [Facts],
}

/// A sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// Places in the log.
    pub records: BTreeSet<u64>,
    /// How many of them were drawn from all records.
    pub uniform: u64,
    /// Members of each stratum, and how many were drawn from it.
    pub strata: Vec<(Stratum, u64, u64)>,
}

impl Drawn {
    /// All of `population` records.
    pub fn all(population: u64) -> Self {
        Self { records: (0..population).collect(), uniform: population, strata: Vec::new() }
    }
}

/// Draws the sample.
///
/// # Errors
/// [`Error::Challenge`] for a beacon that is not at least 16 bytes of hex, or a record that the log does not have.
///
/// **Bits.** Selection sampling without bias: draws are 64-bit little-endian words of the HKDF stream, block `i` expanded under
/// the info `"lastbit/challenge/v1" 00 || audit id || 00 || i u64`, and for a stratum `"lastbit/challenge-stratum/v1" 00 || stratum || 00 ||
/// audit id || 00 || i u64`; a word past the largest multiple of the range is dropped.
pub fn draw(plan: &Plan, population: &Population<'_>) -> Result<Drawn, Error> {
    let size = population.facts.len() as u64;
    let refuse = |reason: &str| Error::Challenge { reason: reason.to_owned() };
    let challenge = match plan {
        Plan::All => return Ok(Drawn::all(size)),
        Plan::These(records) => {
            if records.last().is_some_and(|last| *last >= size) {
                return Err(refuse("the log does not have every record that was asked for"));
            }
            return Ok(Drawn { records: records.clone(), ..Drawn::default() });
        }
        Plan::Challenge(challenge) => challenge,
    };
    let bytes = hex::decode(&challenge.beacon).map_err(|_| refuse("the beacon is not hex"))?;
    if bytes.len() < 16 {
        return Err(refuse("a beacon of fewer than 16 bytes can be guessed"));
    }
    let hkdf = Hkdf::new(Some(population.root.as_bytes()), &bytes);
    let audit = challenge.audit.as_bytes();
    let uniform = count(&challenge.amount, population.facts).min(size);
    let all: Vec<u64> = (0..size).collect();
    let mut stream = Stream::new(&hkdf, [b"lastbit/challenge/v1\0".as_slice(), audit, b"\0"].concat());
    let mut drawn = Drawn { records: pick(&all, uniform, &mut stream)?, uniform, strata: Vec::new() };
    for stratum in Stratum::ALL {
        let members: Vec<u64> =
            (0..).zip(population.facts).filter(|(_, f)| f.strata.contains(&stratum)).map(|(i, _)| i).collect();
        let own = challenge.per_stratum.min(members.len() as u64);
        let tag =
            [b"lastbit/challenge-stratum/v1\0".as_slice(), stratum.name().as_bytes(), b"\0", audit, b"\0"].concat();
        drawn.records.extend(pick(&members, own, &mut Stream::new(&hkdf, tag))?);
        if challenge.per_stratum > 0 {
            drawn.strata.push((stratum, members.len() as u64, own));
        }
    }
    Ok(drawn)
}

/// How many records an amount is; at least one.
fn count(amount: &Amount, facts: &[Facts]) -> u64 {
    match amount {
        Amount::Records(records) => *records,
        Amount::Rows { rows, .. } => {
            let total: u128 = facts.iter().map(|f| u128::from(f.cost)).sum();
            let fits = u128::from(*rows) * facts.len() as u128 / total.max(1);
            u64::try_from(fits).unwrap_or(u64::MAX).max(1)
        }
    }
}

/// `n` of `from`: Fisher-Yates on a sparse array, of which only displaced places are kept.
fn pick(from: &[u64], n: u64, stream: &mut Stream<'_>) -> Result<BTreeSet<u64>, Error> {
    let size = from.len() as u64;
    let mut displaced = BTreeMap::new();
    let mut chosen = BTreeSet::new();
    for i in 0..n.min(size) {
        let j = i + stream.below(size - i)?;
        let at = |map: &BTreeMap<u64, u64>, k: u64| map.get(&k).copied().unwrap_or(k);
        chosen.insert(from[at(&displaced, j) as usize]);
        let moved = at(&displaced, i);
        displaced.insert(j, moved);
    }
    Ok(chosen)
}

struct Stream<'a> {
    hkdf: &'a Hkdf<Sha256>,
    tag: Vec<u8>,
    block: u64,
    words: Vec<u64>,
}

impl<'a> Stream<'a> {
    fn new(hkdf: &'a Hkdf<Sha256>, tag: Vec<u8>) -> Self {
        Self { hkdf, tag, block: 0, words: Vec::new() }
    }

    fn next(&mut self) -> Result<u64, Error> {
        if let Some(word) = self.words.pop() {
            return Ok(word);
        }
        let mut out = [0; 256];
        let block = self.block.to_le_bytes();
        let info: [&[u8]; 2] = [&self.tag, &block];
        let too_long = |_| Error::Challenge { reason: "HKDF refused its output length".to_owned() };
        self.hkdf.expand_multi_info(&info, &mut out).map_err(too_long)?;
        self.block += 1;
        let words = out.chunks_exact(8).map(|c| c.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b)));
        self.words = words.collect();
        self.words.reverse();
        self.next()
    }

    /// Uniform below `n`, `n > 0`.
    fn below(&mut self, n: u64) -> Result<u64, Error> {
        let limit = u64::MAX - u64::MAX % n;
        loop {
            let word = self.next()?;
            if word < limit {
                return Ok(word % n);
            }
        }
    }
}

/// The sampling section of a result. `beyond` entries were appended after the checkpoint that the sample was drawn from.
pub fn describe(plan: &Plan, population: u64, beyond: u64, drawn: &Drawn) -> Sampling {
    let (name, challenge) = match plan {
        Plan::All => ("all", None),
        Plan::These(_) => ("chosen", None),
        Plan::Challenge(challenge) => ("challenge", Some(challenge)),
    };
    // Records that an auditor chose bound nothing.
    let bounded = !matches!(plan, Plan::These(_));
    let strata = drawn.strata.iter().map(|(stratum, members, own)| StratumFacts {
        name: stratum.name().to_owned(),
        population: *members,
        drawn: *own,
        bounds: bounds(*members, *own),
    });
    Sampling {
        plan: name.to_owned(),
        beacon: challenge.map(|c| c.beacon.clone()),
        order: challenge.map(|c| c.order.words().to_owned()),
        budget: challenge.and_then(|c| match &c.amount {
            Amount::Records(_) => None,
            Amount::Rows { words, .. } => Some(words.clone()),
        }),
        population,
        beyond,
        uniform: drawn.uniform,
        audited: drawn.records.len() as u64,
        bounds: if bounded { bounds(population, drawn.uniform) } else { Vec::new() },
        strata: strata.collect(),
    }
}

impl Order {
    /// The stored word.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Witnessed => "witnessed",
            Self::Stated => "stated",
        }
    }
}

/// For one dishonest record, and one in a hundred, ten and two of them.
fn bounds(population: u64, drawn: u64) -> Vec<MissBound> {
    let mut supposed: Vec<u64> = [100, 10, 2].iter().map(|d| population.div_ceil(*d)).chain([1]).collect();
    supposed.sort_unstable();
    supposed.dedup();
    let bounds = supposed
        .into_iter()
        .filter(|d| *d > 0 && *d <= population)
        .map(|dishonest| MissBound { dishonest, miss: hypergeometric_miss(population, dishonest, drawn).to_string() });
    bounds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(records: u64) -> Challenge {
        let (beacon, audit) = ("00".repeat(32), "a".to_owned());
        Challenge { beacon, audit, amount: Amount::Records(records), per_stratum: 0, order: Order::Stated }
    }

    fn plan(records: u64) -> Plan {
        Plan::Challenge(challenge(records))
    }

    fn facts(n: usize) -> Vec<Facts> {
        vec![Facts { cost: 10, ..Facts::default() }; n]
    }

    fn choose(plan: &Plan, root: &Digest, n: usize) -> Vec<u64> {
        draw(plan, &Population { root: *root, facts: &facts(n) }).unwrap().records.into_iter().collect()
    }

    #[test]
    fn a_sample_is_a_set_of_the_wanted_size_that_depends_on_everything() {
        let root = Digest::of_file(b"root");
        let a = choose(&plan(50), &root, 1000);
        assert!(a.len() == 50 && a[49] < 1000);
        assert_eq!(a, choose(&plan(50), &root, 1000));
        assert_ne!(a, choose(&plan(50), &Digest::of_file(b"other"), 1000));
        let other = Plan::Challenge(Challenge { audit: "b".into(), ..challenge(50) });
        assert_ne!(a, choose(&other, &root, 1000));
        assert_eq!(choose(&plan(5), &root, 3), [0, 1, 2]);
        assert_eq!(choose(&Plan::All, &root, 3), [0, 1, 2]);
        assert_eq!(choose(&Plan::These([2].into()), &root, 3), [2]);
        assert!(draw(&Plan::These([3].into()), &Population { root, facts: &facts(3) }).is_err());
    }

    #[test]
    fn every_record_is_as_likely() {
        let mut counts = [0_u32; 10];
        for i in 0..2000_u32 {
            let root = Digest::of_file(&i.to_le_bytes());
            for index in choose(&plan(3), &root, 10) {
                counts[index as usize] += 1;
            }
        }
        // 600 expected, standard deviation 20.5: five of them.
        assert!(counts.iter().all(|n| (498..=702).contains(n)), "{counts:?}");
    }

    #[test]
    fn a_budget_buys_as_many_as_are_expected_to_fit() {
        let rows = |rows| Amount::Rows { rows, words: String::new() };
        let mut costs = facts(100);
        costs[7].cost = 1000; // the mean is 19.9
        for (budget, records) in [(0, 1), (19, 1), (39, 1), (40, 2), (1990, 100), (u64::MAX, 926972064005505106)] {
            assert_eq!(count(&rows(budget), &costs), records, "{budget}");
        }
        assert_eq!(count(&rows(5), &[]), 1);
    }

    /// Whom a budget draws does not depend on how large they are: only how many.
    #[test]
    fn strata_are_drawn_beside_the_uniform_sample() {
        let root = Digest::of_file(b"root");
        let mut all = facts(1000);
        for at in [3, 5, 8, 13] {
            all[at].strata.insert(Stratum::CacheHit);
        }
        all[21].strata.insert(Stratum::Stopped);
        let with = Challenge { per_stratum: 2, ..challenge(50) };
        let drawn = draw(&Plan::Challenge(with.clone()), &Population { root, facts: &all }).unwrap();
        let uniform = choose(&plan(50), &root, 1000);
        assert!(uniform.iter().all(|record| drawn.records.contains(record)));
        let of = |wanted: Stratum| drawn.strata.iter().find(|(s, ..)| *s == wanted).map(|(_, n, k)| (*n, *k)).unwrap();
        assert_eq!((of(Stratum::CacheHit), of(Stratum::Stopped), of(Stratum::Chunked)), ((4, 2), (1, 1), (0, 0)));
        assert!(
            [3, 5, 8, 13].iter().filter(|at| drawn.records.contains(at)).count() >= 2 && drawn.records.contains(&21)
        );
        let told = describe(&Plan::Challenge(with), 1000, 7, &drawn);
        assert_eq!((told.uniform, told.beyond, told.order.as_deref()), (50, 7, Some("stated")));
        // Of all records only the uniform part counts, of a stratum only its own: two of four miss one of one with probability 1/2.
        assert_eq!(told.bounds, bounds(1000, 50));
        let hits = told.strata.iter().find(|s| s.name == "cache hit").unwrap();
        assert_eq!(hits.bounds[0], MissBound { dishonest: 1, miss: "5.000e-1".into() });
    }

    #[test]
    fn bounds_are_those_of_the_sample() {
        let s = describe(&Plan::All, 9, 0, &Drawn::all(9));
        assert!(s.bounds.iter().all(|b| b.miss == "0"));
        assert_eq!(bounds(10, 5)[0], MissBound { dishonest: 1, miss: "5.000e-1".into() });
        assert!(describe(&Plan::All, 0, 0, &Drawn::all(0)).bounds.is_empty());
        let some = Drawn { records: [1].into(), ..Drawn::default() };
        assert!(describe(&Plan::These([1].into()), 9, 0, &some).bounds.is_empty());
    }

    #[test]
    fn weak_beacons_are_refused() {
        let root = Digest::of_file(b"root");
        for beacon in ["", "zz", "0011"] {
            let p = Plan::Challenge(Challenge { beacon: beacon.into(), ..challenge(1) });
            assert!(draw(&p, &Population { root, facts: &facts(10) }).is_err());
        }
    }
}
