//! Which recorded stacks fit a target: noise-aware distances, classes of stacks that no probe separates, and sets that hold the truth with a
//! stated probability.

use crate::feature::Pair;
use crate::library::{GREEDY, Library, Reference};
use crate::stats::{Evidence, Mixture, Random, conformal, e_of_p, mean, mixture, quantile};
use crate::trace::{Stack, Trace};

/// Level at which a class is struck from the set.
pub const ALPHA: f64 = 0.05;
/// Resampled means of the null.
const ROUNDS: usize = 1999;

/// Distance of two answers to one probe: mean difference of log-probabilities, in nats; without numbers 1 for another text, else 0. None if
/// one of them is missing.
pub fn distance(a: &Trace, b: &Trace, probe: &str) -> Option<f64> {
    let pair = Pair::of(a.get(probe)?.good()?, b.get(probe)?.good()?);
    Some(pair.distance().unwrap_or(f64::from(u8::from(pair.parts))))
}

/// Smallest distance of a target to any of several draws.
fn nearest<'a>(target: &Trace, draws: impl Iterator<Item = &'a Trace>, probe: &str) -> Option<f64> {
    draws.filter_map(|d| distance(target, d, probe)).reduce(f64::min)
}

/// Stacks that no probe separates.
#[derive(Clone, Debug)]
pub struct Class {
    /// Places in the library.
    pub members: Vec<usize>,
    /// For each probe the distances of each draw to the class's other draws: what noise does.
    null: Vec<Vec<f64>>,
}

/// A target and a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Mean distance over probes.
    pub distance: f64,
    /// Chance of such a distance, or a larger one, by the class's own noise.
    pub p: f64,
}

/// A library sorted into classes.
#[derive(Clone, Debug)]
pub struct Classes<'a> {
    /// The references.
    pub library: &'a Library,
    /// Probes used, by name.
    pub probes: Vec<String>,
    /// The classes.
    pub classes: Vec<Class>,
    /// Mean distances between references.
    pub distances: Vec<Vec<f64>>,
    seed: u64,
}

impl<'a> Classes<'a> {
    /// Sorts.
    pub fn of(library: &'a Library, seed: u64) -> Self {
        let refs = &library.references;
        let all =
            |probe: &str| refs.iter().flat_map(|r| &r.draws).all(|d| d.get(probe).is_some_and(|r| r.good().is_some()));
        let first = refs.first().and_then(|r| r.draws.first());
        let probes: Vec<String> =
            first.map(|t| t.under(GREEDY).map(|r| r.probe.clone()).filter(|p| all(p)).collect()).unwrap_or_default();
        let own: Vec<f64> = refs.iter().map(|r| quantile(&own_means(r, &probes), 0.95)).collect();
        let distances: Vec<Vec<f64>> = refs
            .iter()
            .map(|a| refs.iter().map(|b| if std::ptr::eq(a, b) { 0.0 } else { between(a, b, &probes) }).collect())
            .collect();
        // Single linkage: what is inseparable from a member is of the class.
        let mut class: Vec<usize> = (0..refs.len()).collect();
        for a in 0..refs.len() {
            for b in 0..a {
                if distances[a][b].max(distances[b][a]) <= own[a].max(own[b]) {
                    let (from, to) = (class[a], class[b]);
                    class.iter_mut().filter(|c| **c == from).for_each(|c| *c = to);
                }
            }
        }
        let mut names: Vec<usize> = class.clone();
        names.sort_unstable();
        names.dedup();
        let classes = names
            .iter()
            .map(|name| {
                let members: Vec<usize> = (0..refs.len()).filter(|i| class[*i] == *name).collect();
                let null = null_of(&members.iter().map(|m| &refs[*m]).collect::<Vec<_>>(), &probes);
                Class { members, null }
            })
            .collect();
        Self { library, probes, classes, distances, seed }
    }

    /// Distances of a target to a class, by probe; probes that the target did not answer are none.
    pub fn to(&self, target: &Trace, class: &Class) -> Vec<Option<f64>> {
        let draws = || class.members.iter().flat_map(|m| &self.library.references[*m].draws);
        self.probes.iter().map(|p| nearest(target, draws(), p)).collect()
    }

    /// How well a class fits: the mean distance against means of as many held-out draws of the class.
    pub fn fit(&self, target: &Trace, class: &Class) -> Fit {
        let found = self.to(target, class);
        let seen: Vec<(f64, &Vec<f64>)> = found.iter().zip(&class.null).filter_map(|(d, n)| Some(((*d)?, n))).collect();
        let distance = mean(&seen.iter().map(|s| s.0).collect::<Vec<_>>());
        if seen.is_empty() || seen.iter().any(|(_, null)| null.is_empty()) {
            // Nothing answered, or the noise of this class was never measured: it cannot be struck.
            return Fit { distance, p: 1.0 };
        }
        let mut random = Random::named(self.seed, "fit");
        let mut above = 1;
        for _ in 0..ROUNDS {
            let total: f64 = seen.iter().map(|(_, null)| null[random.below(null.len())]).sum();
            above += usize::from(total / seen.len() as f64 >= distance * (1.0 - 1e-12));
        }
        Fit { distance, p: f64::from(above as u32) / (ROUNDS + 1) as f64 }
    }

    /// Evidence against a class, probe by probe: e-values of conformal p-values among everything that the class's noise did. It may be
    /// looked at after any probe.
    pub fn evidence(&self, target: &Trace, class: &Class) -> Evidence {
        let null: Vec<f64> = class.null.iter().flatten().copied().collect();
        let mut evidence = Evidence::default();
        if null.is_empty() {
            return evidence;
        }
        for distance in self.to(target, class).into_iter().flatten() {
            evidence.add(e_of_p(conformal(&null, distance)));
        }
        evidence
    }

    /// Shares of classes among single answers: part of the traffic may go elsewhere.
    pub fn mixture(&self, target: &Trace) -> Mixture {
        let by_class: Vec<(Vec<f64>, Vec<Option<f64>>)> =
            self.classes.iter().map(|c| (c.null.iter().flatten().copied().collect(), self.to(target, c))).collect();
        let answered = (0..self.probes.len()).filter(|p| by_class.iter().all(|(_, d)| d[*p].is_some()));
        let likelihood: Vec<Vec<f64>> = answered
            .map(|p| by_class.iter().map(|(null, d)| fits(null, d[p].unwrap_or(f64::INFINITY))).collect())
            .collect();
        mixture(&likelihood)
    }

    /// Largest distance between two references: a target that is further from all is something else.
    pub fn spread(&self) -> f64 {
        self.distances.iter().flatten().fold(0.0, |m, d| d.max(m))
    }

    /// Names of a class's stacks.
    pub fn stacks(&self, class: &Class) -> Vec<&'a Stack> {
        class.members.iter().map(|m| &self.library.references[*m].stack).collect()
    }
}

/// An answer within what the class's noise did fits; one beyond it hardly does.
fn fits(null: &[f64], distance: f64) -> f64 {
    const HARDLY: f64 = 1e-3;
    let p = conformal(null, distance);
    if null.is_empty() || p > 1.0 / (null.len() + 1) as f64 { p.max(HARDLY) } else { HARDLY }
}

/// For each draw the mean distance to the nearest of the reference's other draws.
fn own_means(reference: &Reference, probes: &[String]) -> Vec<f64> {
    let one = |own: usize| {
        let others = || reference.draws.iter().enumerate().filter(move |(i, _)| *i != own).map(|(_, d)| d);
        mean(&probes.iter().filter_map(|p| nearest(&reference.draws[own], others(), p)).collect::<Vec<_>>())
    };
    if reference.draws.len() < 2 { Vec::new() } else { (0..reference.draws.len()).map(one).collect() }
}

/// Mean distance of `a`'s draws to the nearest of `b`'s.
fn between(a: &Reference, b: &Reference, probes: &[String]) -> f64 {
    let all: Vec<f64> =
        a.draws.iter().flat_map(|d| probes.iter().filter_map(|p| nearest(d, b.draws.iter(), p))).collect();
    mean(&all)
}

/// For each probe the distances of every draw to the nearest other draw.
fn null_of(members: &[&Reference], probes: &[String]) -> Vec<Vec<f64>> {
    let draws: Vec<&Trace> = members.iter().flat_map(|r| &r.draws).collect();
    let held_out = |probe: &String| {
        let one = |own: usize| {
            nearest(draws[own], draws.iter().enumerate().filter(|(i, _)| *i != own).map(|(_, d)| *d), probe)
        };
        (0..draws.len()).filter_map(one).collect()
    };
    if draws.len() < 2 { vec![Vec::new(); probes.len()] } else { probes.iter().map(held_out).collect() }
}
