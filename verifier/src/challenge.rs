//! Which records are audited: all, or a sample that nobody could foresee.
//!
//! Source: `docs/spec/audit-result.md`, *Sampling*. The sample follows from `HKDF-SHA256(beacon, checkpoint root, audit id)`, where the
//! beacon is randomness published after the checkpoint was signed: an operator who has committed cannot choose what is looked at.

use crate::bound::hypergeometric_miss;
use crate::error::Error;
use crate::result::{MissBound, Sampling};
use hkdf::Hkdf;
use record::Digest;
use sha2::Sha256;

/// How records are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// All of them.
    #[default]
    All,
    /// A uniform sample without replacement.
    Challenge {
        /// Randomness from after the checkpoint, lower-case hex.
        beacon: String,
        /// Name of this audit.
        audit: String,
        /// How many records.
        records: u64,
    },
}

/// The indices to audit of a log with `population` records and this checkpoint root, ascending.
///
/// # Errors
/// [`Error::Challenge`] for a beacon that is not at least 16 bytes of hex.
///
/// **Bits.** Selection sampling without bias: draws are 64-bit little-endian words of the HKDF stream, block `i` expanded under
/// the info `"lastbit/challenge/v1" 00 || audit id || 00 || i u64`; a word past the largest multiple of the range is dropped.
pub fn choose(plan: &Plan, root: &Digest, population: u64) -> Result<Vec<u64>, Error> {
    let Plan::Challenge { beacon, audit, records } = plan else { return Ok((0..population).collect()) };
    let refuse = |reason: &str| Error::Challenge { reason: reason.to_owned() };
    let bytes = hex::decode(beacon).map_err(|_| refuse("the beacon is not hex"))?;
    if bytes.len() < 16 {
        return Err(refuse("a beacon of fewer than 16 bytes can be guessed"));
    }
    let mut stream = Stream { hkdf: Hkdf::new(Some(root.as_bytes()), &bytes), audit, block: 0, words: Vec::new() };
    // Fisher-Yates on a sparse array: only displaced places are kept.
    let mut displaced = std::collections::BTreeMap::new();
    let mut chosen = Vec::new();
    for i in 0..(*records).min(population) {
        let j = i + stream.below(population - i)?;
        let at = |map: &std::collections::BTreeMap<u64, u64>, k: u64| map.get(&k).copied().unwrap_or(k);
        chosen.push(at(&displaced, j));
        let moved = at(&displaced, i);
        displaced.insert(j, moved);
    }
    chosen.sort_unstable();
    Ok(chosen)
}

struct Stream<'a> {
    hkdf: Hkdf<Sha256>,
    audit: &'a str,
    block: u64,
    words: Vec<u64>,
}

impl Stream<'_> {
    fn next(&mut self) -> Result<u64, Error> {
        if let Some(word) = self.words.pop() {
            return Ok(word);
        }
        let mut out = [0; 256];
        let block = self.block.to_le_bytes();
        let info: [&[u8]; 4] = [b"lastbit/challenge/v1\0", self.audit.as_bytes(), b"\0", &block];
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

/// The sampling section of a result.
pub fn describe(plan: &Plan, population: u64, audited: u64) -> Sampling {
    let (name, beacon) = match plan {
        Plan::All => ("all", None),
        Plan::Challenge { beacon, .. } => ("challenge", Some(beacon.clone())),
    };
    // One dishonest record, and one in a hundred, ten and two of them.
    let mut supposed: Vec<u64> = [100, 10, 2].iter().map(|d| population.div_ceil(*d)).chain([1]).collect();
    supposed.sort_unstable();
    supposed.dedup();
    let bounds = supposed.into_iter().filter(|d| *d > 0 && *d <= population).map(|dishonest| MissBound {
        dishonest,
        miss: hypergeometric_miss(population, dishonest, audited).to_string(),
    });
    Sampling { plan: name.to_owned(), beacon, population, audited, bounds: bounds.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(records: u64) -> Plan {
        Plan::Challenge { beacon: "00".repeat(32), audit: "a".into(), records }
    }

    #[test]
    fn a_sample_is_a_set_of_the_wanted_size_that_depends_on_everything() {
        let root = Digest::of_file(b"root");
        let pick = |p: &Plan, r: &Digest| choose(p, r, 1000).unwrap();
        let a = pick(&plan(50), &root);
        assert!(a.len() == 50 && a.is_sorted() && a.windows(2).all(|w| w[0] != w[1]) && a[49] < 1000);
        assert_eq!(a, pick(&plan(50), &root));
        assert_ne!(a, pick(&plan(50), &Digest::of_file(b"other")));
        let other = Plan::Challenge { beacon: "00".repeat(32), audit: "b".into(), records: 50 };
        assert_ne!(a, pick(&other, &root));
        assert_eq!(choose(&plan(5), &root, 3).unwrap(), [0, 1, 2]);
        assert_eq!(choose(&Plan::All, &root, 3).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn every_record_is_as_likely() {
        let mut counts = [0_u32; 10];
        for i in 0..2000_u32 {
            let root = Digest::of_file(&i.to_le_bytes());
            for index in choose(&plan(3), &root, 10).unwrap() {
                counts[index as usize] += 1;
            }
        }
        // 600 expected, standard deviation 20.5: five of them.
        assert!(counts.iter().all(|n| (498..=702).contains(n)), "{counts:?}");
    }

    #[test]
    fn bounds_are_those_of_the_sample() {
        let s = describe(&Plan::All, 9, 9);
        assert!(s.bounds.iter().all(|b| b.miss == "0"));
        let s = describe(&plan(5), 10, 5);
        assert_eq!(s.bounds[0], MissBound { dishonest: 1, miss: "5.000e-1".into() });
        assert!(describe(&Plan::All, 0, 0).bounds.is_empty());
    }

    #[test]
    fn weak_beacons_are_refused() {
        let root = Digest::of_file(b"root");
        for beacon in ["", "zz", "0011"] {
            let p = Plan::Challenge { beacon: beacon.into(), audit: "a".into(), records: 1 };
            assert!(choose(&p, &root, 10).is_err());
        }
    }
}
