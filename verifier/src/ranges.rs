//! Sets of small numbers, stored as inclusive ranges: row counts, steps, splits.

use serde::{Deserialize, Serialize};

/// A set of `u32`, as ascending, disjoint, non-adjacent inclusive ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<[u32; 2]>", into = "Vec<[u32; 2]>")]
pub struct Ranges(Vec<[u32; 2]>);

impl Ranges {
    /// The ranges, ascending.
    pub fn as_slice(&self) -> &[[u32; 2]] {
        &self.0
    }

    /// True when the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers it holds.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|[a, b]| u64::from(b - a) + 1).sum()
    }

    /// True when it holds `n`.
    pub fn contains(&self, n: u32) -> bool {
        self.0.iter().any(|[a, b]| (*a..=*b).contains(&n))
    }

    /// The smallest member.
    pub fn min(&self) -> Option<u32> {
        self.0.first().map(|r| r[0])
    }

    /// The largest member.
    pub fn max(&self) -> Option<u32> {
        self.0.last().map(|r| r[1])
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|[a, b]| *a..=*b)
    }

    /// The members common to both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Vec::new();
        for [a, b] in &self.0 {
            for [c, d] in &other.0 {
                let (lo, hi) = (*a.max(c), *b.min(d));
                if lo <= hi {
                    out.push([lo, hi]);
                }
            }
        }
        out.sort_unstable();
        Self(out)
    }
}

impl FromIterator<u32> for Ranges {
    fn from_iter<I: IntoIterator<Item = u32>>(iter: I) -> Self {
        let members: std::collections::BTreeSet<u32> = iter.into_iter().collect();
        let mut out: Vec<[u32; 2]> = Vec::new();
        for n in members {
            match out.last_mut() {
                Some(last) if last[1].checked_add(1) == Some(n) => last[1] = n,
                _ => out.push([n, n]),
            }
        }
        Self(out)
    }
}

impl TryFrom<Vec<[u32; 2]>> for Ranges {
    type Error = &'static str;

    fn try_from(ranges: Vec<[u32; 2]>) -> Result<Self, Self::Error> {
        let ordered = ranges.iter().all(|[a, b]| a <= b)
            && ranges.windows(2).all(|w| w[0][1].checked_add(1).is_some_and(|next| next < w[1][0]));
        if ordered { Ok(Self(ranges)) } else { Err("ranges must be ascending, disjoint and not adjacent") }
    }
}

impl From<Ranges> for Vec<[u32; 2]> {
    fn from(ranges: Ranges) -> Self {
        ranges.0
    }
}

impl std::fmt::Display for Ranges {
    /// `2`, `2-3`, `0-1, 5`; `none` for the empty set.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (i, [a, b]) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            if a == b {
                write!(f, "{comma}{a}")?;
            } else {
                write!(f, "{comma}{a}-{b}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(members: &[u32]) -> Ranges {
        members.iter().copied().collect()
    }

    #[test]
    fn members_survive() {
        let s = set(&[3, 1, 2, 7]);
        assert_eq!(s.to_string(), "1-3, 7");
        assert_eq!(s.iter().collect::<Vec<_>>(), [1, 2, 3, 7]);
        assert_eq!((s.len(), s.min(), s.max()), (4, Some(1), Some(7)));
        assert!(s.contains(2) && !s.contains(4));
        assert_eq!(serde_json::to_string(&s).unwrap(), "[[1,3],[7,7]]");
        assert_eq!(set(&[]).to_string(), "none");
    }

    #[test]
    fn intersection_is_that_of_sets() {
        assert_eq!(set(&[1, 2, 3, 7, 9]).intersection(&set(&[2, 3, 4, 9])), set(&[2, 3, 9]));
        assert!(set(&[1]).intersection(&set(&[2])).is_empty());
    }

    #[test]
    fn unordered_input_is_refused() {
        for bad in ["[[3,1]]", "[[1,2],[3,4]]", "[[5,6],[1,2]]", "[[0,4294967295],[1,1]]"] {
            assert!(serde_json::from_str::<Ranges>(bad).is_err(), "{bad}");
        }
    }
}
