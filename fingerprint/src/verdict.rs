//! Reports that compare: `identify`, `verify`, `compare`.

use crate::classify::{ALPHA, Class, Classes, Fit};
use crate::error::{Error, Result};
use crate::feature::Pair;
use crate::library::{GREEDY, Library};
use crate::report::{Cost, Finding, Outcome, Report, SCHEMA, Section, Table, Word, figure};
use crate::sampled::{Sampled, Seen};
use crate::stats::{E_REJECT, bootstrap, holm, mean, mmd_hamming, wilson};
use crate::trace::{Stack, Trace};

/// Levels of the tree of labels.
const LEVELS: [&str; 4] = ["format", "engine", "backend", "hardware"];
/// Fewest probes for a verdict.
const FEWEST: usize = 4;
/// Rounds of the bootstrap.
const ROUNDS: usize = 1000;

/// What a report says of its run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Address or file.
    pub subject: String,
    /// Tier in words.
    pub tier: String,
    /// What it used.
    pub cost: Cost,
    /// Digests of traces.
    pub traces: Vec<String>,
    /// How to repeat.
    pub repeat: Vec<String>,
    /// Seed of resampling.
    pub seed: u64,
    /// Tokens drawn at temperature 1.
    pub seen: Vec<Seen>,
}

fn report(kind: &str, run: Run, model: Option<String>) -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        tool: format!("lastbit {}", env!("CARGO_PKG_VERSION")),
        kind: kind.to_owned(),
        subject: crate::report::safe(&run.subject),
        model: model.as_deref().map(crate::report::safe),
        tier: run.tier,
        outcome: Outcome::Inconclusive,
        verdict: String::new(),
        sections: Vec::new(),
        tables: Vec::new(),
        limits: Vec::new(),
        cost: run.cost,
        traces: run.traces,
        repeat: run.repeat,
    }
}

/// Names the stack of a target, as deep as the evidence reaches, or says that it is none of those on record.
///
/// # Errors
/// [`Error::Unlike`].
pub fn identify(library: &Library, target: &Trace, run: Run) -> Result<Report> {
    library.admits(target)?;
    let seed = run.seed;
    let drawn = draws(library, &run.seen);
    let classes = Classes::of(library, seed);
    let fits: Vec<Fit> = classes.classes.iter().map(|c| classes.fit(target, c)).collect();
    let used = classes.probes.iter().filter(|p| target.get(p).is_some_and(|r| r.good().is_some())).count();
    let mut out = report("identify", run, target.header.model.name.clone());
    let mut findings = Vec::new();
    let kept: Vec<usize> = (0..fits.len()).filter(|i| fits[*i].p >= ALPHA).collect();
    let nearest = (0..fits.len()).min_by(|a, b| fits[*a].distance.total_cmp(&fits[*b].distance));
    if used < FEWEST || nearest.is_none() {
        out.verdict = format!("cannot tell: {used} probes were answered that all references have, {FEWEST} are needed");
        findings.push(Finding::new("stack", Word::NotTestable, &out.verdict));
    } else if kept.is_empty() {
        let nearest = nearest.unwrap_or(0);
        let far = fits[nearest].distance > classes.spread();
        let why = if far {
            "it is further from all of them than they are from each other: other weights, or a format that is not on record"
        } else {
            "something like the nearest, but not it"
        };
        let name = names(&classes.stacks(&classes.classes[nearest]));
        let distance = figure(fits[nearest].distance);
        out.verdict = format!("none of the recorded stacks; {why}. Nearest: {name}, at {distance} nats");
        findings.push(Finding::new(
            "stack",
            Word::Probable,
            format!("none on record (every p below {ALPHA}); nearest {name}, at {distance} nats"),
        ));
    } else {
        let stacks: Vec<&Stack> = kept.iter().flat_map(|i| classes.stacks(&classes.classes[*i])).collect();
        let (parts, deep) = tree(&stacks);
        out.outcome = Outcome::Consistent;
        out.verdict = format!(
            "{} (0.95, if it is on record at all; {} stacks in {} classes are)",
            parts.join(" · "),
            library.references.len(),
            fits.len()
        );
        for (level, values) in LEVELS.iter().zip(&deep) {
            let finding = match values.as_slice() {
                [one] => Finding::new(
                    level,
                    Word::Probable,
                    format!("{one}: every stack that is not struck at {ALPHA} has it"),
                ),
                several => Finding::new(level, Word::NotSeparable, several.join(", ")),
            };
            findings.push(finding);
        }
    }
    findings.extend(fits_in_words(&classes, &fits));
    findings.push(parts_of_traffic(&classes, target));
    out.sections.push(Section { title: "references".into(), findings });
    out.sections.push(Section { title: "classes".into(), findings: inseparable(&classes) });
    out.sections.extend(drawn);
    out.tables.push(distance_map(&classes, &fits));
    out.limits.push(format!(
        "{} stacks are on record; one that is not can be named only as unlike them",
        library.references.len()
    ));
    out.limits.extend(single_draws(library));
    Ok(out)
}

/// What drawn tokens say: the probability of each reference, if one of them answers and none is likelier beforehand.
fn draws(library: &Library, seen: &[Seen]) -> Option<Section> {
    if seen.is_empty() {
        return None;
    }
    let sampled = Sampled::of(library);
    let logs = sampled.weigh(seen);
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = logs.iter().map(|l| libm::exp(l - most)).sum();
    let one = |(reference, log): (&crate::library::Reference, &f64)| {
        let share = figure(libm::exp(log - most) / total);
        Finding::new(
            "drawn tokens",
            Word::Probable,
            format!(
                "{}: {share} of {} draws' evidence, if one of those on record answers",
                reference.stack,
                seen.len()
            ),
        )
    };
    let mut findings: Vec<Finding> = library.references.iter().zip(&logs).map(one).collect();
    // A hundred to one needs about ln(99) / information draws.
    let needed = libm::log(99.0) / sampled.information();
    if !needed.is_finite() || needed > seen.len() as f64 {
        let text = format!(
            "the two references that are most alike would need about {} draws; {} were made",
            figure(needed),
            seen.len()
        );
        findings.push(Finding::new("budget", Word::NotSeparable, text));
    }
    Some(Section { title: "draws".into(), findings })
}

/// The common path of stacks in the tree of labels, and the values at each level below it.
fn tree(stacks: &[&Stack]) -> (Vec<String>, Vec<Vec<String>>) {
    let mut parts = Vec::new();
    let mut deep = Vec::new();
    for (level, name) in LEVELS.iter().enumerate() {
        let mut values: Vec<String> = stacks.iter().map(|s| s.path()[level].to_owned()).collect();
        values.sort();
        values.dedup();
        parts.push(match values.as_slice() {
            [one] => format!("{name} {one}"),
            several => format!("{name} not separable {{{}}}", several.join(", ")),
        });
        deep.push(values);
    }
    (parts, deep)
}

fn names(stacks: &[&Stack]) -> String {
    stacks.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(" = ")
}

fn fits_in_words(classes: &Classes<'_>, fits: &[Fit]) -> Vec<Finding> {
    // Many classes are asked one question each.
    let adjusted = holm(&fits.iter().map(|f| f.p).collect::<Vec<_>>());
    let mut order: Vec<usize> = (0..fits.len()).collect();
    order.sort_by(|a, b| fits[*a].distance.total_cmp(&fits[*b].distance));
    let one = |i: &usize| {
        let (fit, name) = (&fits[*i], names(&classes.stacks(&classes.classes[*i])));
        let word = if fit.p >= ALPHA { Word::NotRejected } else { Word::Rejected };
        let text =
            format!("{name}: {} nats, p {} (Holm {})", figure(fit.distance), figure(fit.p), figure(adjusted[*i]));
        Finding::new("fit", word, text)
    };
    order.iter().map(one).collect()
}

fn parts_of_traffic(classes: &Classes<'_>, target: &Trace) -> Finding {
    let mixed = classes.mixture(target);
    let total: usize = mixed.counts.iter().sum();
    let mut said: Vec<String> = Vec::new();
    for (class, count) in classes.classes.iter().zip(&mixed.counts).filter(|(_, n)| **n > 0) {
        said.push(format!("{count} of {total} answers fit best {}", names(&classes.stacks(class))));
    }
    let text = format!(
        "{}; a share below {} would likely show nowhere at this budget",
        said.join(", "),
        figure(mixed.detectable)
    );
    Finding::new("traffic", Word::Measured, text)
}

fn inseparable(classes: &Classes<'_>) -> Vec<Finding> {
    let several = classes.classes.iter().filter(|c| c.members.len() > 1);
    let mut out: Vec<Finding> =
        several.map(|c| Finding::new("one class", Word::NotSeparable, names(&classes.stacks(c)))).collect();
    if out.is_empty() {
        out.push(Finding::new("classes", Word::Measured, "every recorded stack is told from every other one"));
    }
    out
}

fn distance_map(classes: &Classes<'_>, fits: &[Fit]) -> Table {
    let label = |i: usize| format!("{}", i + 1);
    let refs = &classes.library.references;
    let class_of = |i: usize| classes.classes.iter().position(|c| c.members.contains(&i)).unwrap_or(0);
    let rows = refs
        .iter()
        .enumerate()
        .map(|(i, r)| {
            let mut cells: Vec<String> = classes.distances[i].iter().map(|d| figure(*d)).collect();
            cells.push(figure(fits[class_of(i)].distance));
            (format!("{}: {}", label(i), r.stack), cells)
        })
        .collect();
    let mut columns: Vec<String> = (0..refs.len()).map(label).collect();
    columns.push("target".into());
    Table {
        caption: "Mean differences of log-probabilities between stacks, in nats (0: equal as written).".into(),
        columns,
        rows,
    }
}

fn single_draws(library: &Library) -> Option<String> {
    let single = library.references.iter().filter(|r| r.draws.len() < 2).count();
    (single > 0)
        .then(|| format!("{single} stacks were recorded once: their noise is not known, so they are never struck"))
}

/// A claim: values of stack members, as `engine=vLLM` or `hardware=sm_90`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed(Vec<(String, String)>);

impl Claimed {
    /// Reads `name=value[,name=value...]`.
    ///
    /// # Errors
    /// [`Error::Unlike`] with the names there are.
    pub fn parse(text: &str) -> Result<Self> {
        let known = |name: &str| LEVELS.contains(&name) || name == "version";
        let one = |part: &str| match part.split_once('=') {
            Some((name, value)) if known(name.trim()) && !value.trim().is_empty() => {
                Ok((name.trim().to_owned(), value.trim().to_owned()))
            }
            _ => Err(Error::Unlike(format!(
                "{part:?} is no claim; write NAME=VALUE with a name of {}, version",
                LEVELS.join(", ")
            ))),
        };
        Ok(Self(text.split(',').map(one).collect::<Result<_>>()?))
    }

    fn holds(&self, stack: &Stack) -> bool {
        self.0.iter().all(|(name, value)| {
            let own = match name.as_str() {
                "format" => &stack.format,
                "engine" => &stack.engine,
                "backend" => &stack.backend,
                "hardware" => &stack.hardware,
                _ => &stack.version,
            };
            own == value
        })
    }
}

impl std::fmt::Display for Claimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(n, v)| format!("{n}={v}")).collect();
        f.write_str(&parts.join(","))
    }
}

/// Tests a claim: rejected only if every recorded stack that the claim allows is, each by an e-process at level 0.01.
///
/// # Errors
/// [`Error::Unlike`], also when no recorded stack is what is claimed.
pub fn verify(library: &Library, target: &Trace, claim: &Claimed, run: Run) -> Result<Report> {
    library.admits(target)?;
    let classes = Classes::of(library, run.seed);
    let allowed: Vec<&Class> =
        classes.classes.iter().filter(|c| classes.stacks(c).iter().any(|s| claim.holds(s))).collect();
    if allowed.is_empty() {
        let have: Vec<String> = library.references.iter().map(|r| r.stack.to_string()).collect();
        return Err(Error::Unlike(format!("no recorded stack is {claim}; recorded are: {}", have.join("; "))));
    }
    let members: Vec<usize> = allowed.iter().flat_map(|c| c.members.iter().copied()).collect();
    let drawn =
        (!run.seen.is_empty()).then(|| (run.seen.len(), Sampled::of(library).evidence(&members, &run.seen).value()));
    let mut out = report("verify", run, target.header.model.name.clone());
    let used = classes.probes.iter().filter(|p| target.get(p).is_some_and(|r| r.good().is_some())).count();
    let greedy = allowed.iter().map(|c| classes.evidence(target, c).value()).fold(f64::INFINITY, f64::min);
    // The mean of two e-values is one, whatever they have in common.
    let least = drawn.map_or(greedy, |(_, e)| (greedy + e) / 2.0);
    let about = format!("claim \"{}\"", crate::report::safe(&claim.to_string()));
    let mut findings = Vec::new();
    if used < FEWEST {
        out.verdict = format!("cannot tell: {used} probes were answered that all references have, {FEWEST} are needed");
        findings.push(Finding::new(&about, Word::NotTestable, &out.verdict));
    } else if least >= E_REJECT {
        out.outcome = Outcome::Rejected;
        out.verdict = format!("{about} REJECTED (e = {}, alpha .01)", figure(least));
        let text = format!(
            "after {used} probes the evidence against every allowed stack is at least {}; {E_REJECT} rejects at level 0.01",
            figure(least)
        );
        findings.push(Finding::new(&about, Word::Rejected, text));
    } else {
        out.outcome = Outcome::Consistent;
        out.verdict = format!("{about} not rejected (e = {}, alpha .01)", figure(least));
        findings.push(Finding::new(
            &about,
            Word::NotRejected,
            format!("evidence {} after {used} probes", figure(least)),
        ));
        for class in &allowed {
            let fits = classes.fit(target, class).p >= ALPHA;
            let others: Vec<&Stack> = classes.stacks(class).into_iter().filter(|s| !claim.holds(s)).collect();
            if fits && !others.is_empty() {
                findings.push(Finding::new("others that fit as well", Word::NotSeparable, names(&others)));
            }
        }
    }
    for class in &allowed {
        let e = classes.evidence(target, class);
        let text = format!(
            "{}: e = {}, {} nats",
            names(&classes.stacks(class)),
            figure(e.value()),
            figure(classes.fit(target, class).distance)
        );
        findings.push(Finding::new("evidence against", Word::Measured, text));
    }
    out.sections.push(Section { title: "references".into(), findings });
    out.limits.push(
        "a claim that is not rejected is not proved: stacks that are not on record may give the same answers".into(),
    );
    out.limits.extend(single_draws(library));
    Ok(out)
}

/// Two traces side by side; nothing is concluded from a difference that noise could make, and noise is known only from repeats.
///
/// # Errors
/// None at present; the signature leaves room for traces that cannot be compared.
pub fn compare(a: &Trace, b: &Trace, run: Run) -> Result<Report> {
    let seed = run.seed;
    let mut out = report("compare", run, a.header.model.name.clone());
    if a.header.seed != b.header.seed {
        return Err(Error::Unlike(format!(
            "the probes are of different seeds ({} and {})",
            a.header.seed, b.header.seed
        )));
    }
    let pairs: Vec<Pair> =
        a.under(GREEDY).filter_map(|r| Some(Pair::of(r.good()?, b.get(&r.probe)?.good()?))).collect();
    let mut findings = Vec::new();
    if pairs.is_empty() {
        out.verdict = "cannot tell: no probe was answered in both".into();
        findings.push(Finding::new("probes", Word::NotTestable, &out.verdict));
    } else {
        let distances: Vec<f64> = pairs.iter().filter_map(Pair::distance).collect();
        let same = pairs.iter().filter(|p| p.same()).count();
        let parted = pairs.iter().filter(|p| p.parts).count();
        let numbers: usize = pairs.iter().map(|p| p.deltas.len()).sum();
        let equal: usize = pairs.iter().map(|p| p.equal).sum();
        findings.push(
            Finding::new(
                "answers",
                Word::Measured,
                format!("{same} of {} are the same, every number as written", pairs.len()),
            )
            .with(wilson(same, pairs.len())),
        );
        findings.push(
            Finding::new("texts", Word::Measured, format!("{parted} of {} part", pairs.len()))
                .with(wilson(parted, pairs.len())),
        );
        if distances.is_empty() {
            findings.push(Finding::new("log-probabilities", Word::NotTestable, "one of the traces has none"));
        } else {
            let text = format!("mean difference {} nats; {equal} of {numbers} equal", figure(mean(&distances)));
            findings.push(
                Finding::new("log-probabilities", Word::Measured, text).with(bootstrap(&distances, ROUNDS, seed)),
            );
            let signed: Vec<f64> = pairs.iter().filter(|p| !p.deltas.is_empty()).map(|p| mean(&p.deltas)).collect();
            findings.push(
                Finding::new("bias", Word::Measured, "mean signed difference, nats")
                    .with(bootstrap(&signed, ROUNDS, seed)),
            );
        }
        let first: Vec<f64> = pairs.iter().filter(|p| p.parts).map(|p| p.common as f64).collect();
        if !first.is_empty() {
            findings.push(
                Finding::new("first difference", Word::Measured, "mean tokens before texts part")
                    .with(bootstrap(&first, ROUNDS, seed)),
            );
        }
        let lists = |t: &Trace, probe: &str| -> Vec<Vec<String>> {
            let answer = t.get(probe).and_then(|r| r.good());
            answer
                .map(|a| a.choices.iter().map(|c| c.text.split_whitespace().map(str::to_owned).collect()).collect())
                .unwrap_or_default()
        };
        let texts: Vec<_> = a
            .under(GREEDY)
            .map(|r| (lists(a, &r.probe), lists(b, &r.probe)))
            .filter(|(x, y)| x.len() + y.len() > 2)
            .collect();
        if !texts.is_empty() {
            let test = mmd_hamming(&texts, 32, seed);
            findings.push(Finding::new(
                "distributions of texts",
                Word::Measured,
                format!("discrepancy {}, permutation p {}", figure(test.statistic), figure(test.p)),
            ));
        }
        let (outcome, verdict) = if same == pairs.len() {
            (Outcome::Consistent, format!("not separable: {same} of {same} answers are equal as written"))
        } else {
            (
                Outcome::Inconclusive,
                format!(
                    "{} of {} answers differ; whether noise or another stack, two traces cannot tell",
                    pairs.len() - same,
                    pairs.len()
                ),
            )
        };
        out.outcome = outcome;
        out.verdict = verdict;
    }
    out.sections.push(Section { title: "references".into(), findings });
    out.limits.push("one trace each: the noise of neither side is known".into());
    Ok(out)
}
