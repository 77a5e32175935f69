//! Class maps: which numbers of rows in a step give a row the same bits.
//!
//! Kernels are chosen by the shape of a step, so a row's bits tell something of how many rows ran beside it, and no more than its class. A map says what:
//! it is the honest limit of every search for unreported rows on its stack. The dispatch policy divides numbers of rows by the choices it makes;
//! what bits can tell is *measured*, with real rows beside the one that is looked at, since other choices may leave every bit as it is.
//!
//! Specified by `docs/spec/class-map.md`.

use std::collections::BTreeMap;

use crate::capture;
use crate::ops::{Op, Point};
use crate::ranges::Ranges;
use crate::replay::Elements;
use engine::config::Config;
use engine::kv::Slot;
use engine::policy::Shape;
use engine::step::{Group, Logits, Observe, StepOutput};
use engine::{Engine, Error};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Name of the format.
pub const SCHEMA: &str = "lastbit/class-map/v1";

/// How much of a row is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    /// Every operation's result, as records of level A commit to.
    Operations,
    /// K, V, the residual stream between layers and the logits, as records of level S commit to.
    State,
    /// The logits alone: what an endpoint with raw log-probabilities shows.
    Logits,
    /// The largest logit's token alone.
    Token,
}

impl Sight {
    /// From the sharpest to the dullest.
    pub const ALL: [Sight; 4] = [Sight::Operations, Sight::State, Sight::Logits, Sight::Token];

    /// The sight in words.
    pub const fn words(self) -> &'static str {
        match self {
            Sight::Operations => "every operation (level A)",
            Sight::State => "state and logits (level S)",
            Sight::Logits => "logits",
            Sight::Token => "greedy token (level T)",
        }
    }

    fn sees(self, point: Point) -> bool {
        match self {
            Sight::Operations => true,
            Sight::State => matches!(point.op, Op::Embed | Op::K | Op::V | Op::MlpResidual | Op::LmHead),
            Sight::Logits => point.op == Op::LmHead,
            Sight::Token => false,
        }
    }
}

/// A request that is looked at: its prompt is computed in one step, then the tokens after it one by one, among other rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The prompt, at least one token.
    pub prompt: Vec<u32>,
    /// The tokens that follow: a decode step each, at least one.
    pub following: Vec<u32>,
}

impl Subject {
    /// Number `number` of the requests that a class map is measured with where nobody says which: tokens without a meaning.
    pub fn plain(number: u32, context: u32, steps: u32, vocabulary: u32) -> Self {
        let token = |i: u32| filler(number.wrapping_mul(7_919).wrapping_add(i.wrapping_mul(31)), vocabulary);
        Self { prompt: (0..context).map(token).collect(), following: (context..context + steps).map(token).collect() }
    }
}

/// Any token.
fn filler(i: u32, vocabulary: u32) -> u32 {
    1_u32.wrapping_add(i) % vocabulary
}

/// Bits of a subject's rows, digested by [`Sight::ALL`].
pub type Seen = [[u8; 32]; 4];

/// A class map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassMap {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The model's name.
    pub model: String,
    /// The GPU generation.
    pub profile: String,
    /// The dispatch policy.
    pub policy: &'static str,
    /// Tensor-parallel ranks.
    pub ranks: u32,
    /// Positions before the rows that were looked at: the longest prompt.
    pub context: u32,
    /// Decode steps of a subject.
    pub steps: u32,
    /// Numbers of rows 1 to this were measured.
    pub rows: u32,
    /// Requests that were looked at.
    pub subjects: u32,
    /// Numbers of rows with the same choices, as the policy says.
    pub choices: Vec<Choices>,
    /// What bits can tell, the sharpest sight first.
    pub sights: Vec<Classes>,
    /// Numbers of rows for which the policy makes the same choices and bits differ nevertheless: none, or the policy does not say everything.
    pub beyond_policy: Vec<Ranges>,
}

/// Numbers of rows that the policy treats alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choices {
    /// The numbers.
    pub rows: Ranges,
    /// Splits by operation.
    pub splits: BTreeMap<&'static str, u32>,
}

/// Numbers of rows that a sight cannot tell apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Classes {
    /// The sight.
    pub sight: Sight,
    /// The classes, by their smallest member.
    pub classes: Vec<Ranges>,
}

impl Classes {
    /// The class of a number of rows; none if it was not measured.
    pub fn of(&self, rows: u32) -> Option<&Ranges> {
        self.classes.iter().find(|class| class.contains(rows))
    }

    /// Numbers of unreported rows, 0 included, that leave a step of `declared` rows the bits that `truth` rows give it: an audit's interval.
    /// None if either was not measured.
    pub fn unreported(&self, declared: u32, truth: u32) -> Option<Ranges> {
        self.of(declared)?;
        let class = self.of(truth)?;
        Some(class.iter().filter_map(|n| n.checked_sub(declared)).collect())
    }

    /// Whether bits tell that `truth` rows ran where `declared` were logged. None if either was not measured.
    pub fn tells(&self, declared: u32, truth: u32) -> Option<bool> {
        Some(!self.of(truth)?.contains(self.of(declared).map(|_| declared)?))
    }

    /// The most rows that a log of `declared` rows can leave out unseen, of those measured. None if it was not measured.
    pub fn hidden_capacity(&self, declared: u32) -> Option<u32> {
        self.of(declared)?.max().map(|most| most - declared)
    }
}

impl ClassMap {
    /// The map of what was `seen` of subjects, each by number of rows: two numbers are in one class when they agree for all subjects.
    ///
    /// # Errors
    /// [`Error::Plan`] unless every subject was seen among the same numbers of rows, and there is one.
    pub fn new(engine: &Engine, subjects: &[Subject], seen: &[Vec<Seen>]) -> Result<Self, Error> {
        let rows = seen.first().map_or(0, Vec::len);
        if rows == 0 || seen.len() != subjects.len() || seen.iter().any(|s| s.len() != rows) {
            return Err(Error::Plan {
                detail: "a class map needs subjects, seen among the same numbers of rows".into(),
            });
        }
        let longest = |of: fn(&Subject) -> &Vec<u32>| subjects.iter().map(|s| of(s).len()).max().unwrap_or(0) as u32;
        let (context, steps) = (longest(|s| &s.prompt), longest(|s| &s.following));
        let numbers = 1..=rows as u32;
        let shape = |rows| Shape { rows, logits_rows: rows, max_kv: context + 1 };
        let policy = grouped(numbers.clone().map(|n| (n, engine.dispatch(shape(n)))));
        let sights = Sight::ALL.into_iter().enumerate().map(|(i, sight)| {
            let of = |n: u32| seen.iter().map(|s| s[n as usize - 1][i]).collect::<Vec<_>>();
            Classes { sight, classes: grouped(numbers.clone().map(|n| (n, of(n)))).into_iter().map(|c| c.0).collect() }
        });
        let sights: Vec<Classes> = sights.collect();
        let together = |rows: &Ranges| sights[0].classes.iter().any(|class| class.intersection(rows) == *rows);
        Ok(Self {
            schema: SCHEMA,
            model: engine.model().name.clone(),
            profile: engine.device_info().profile,
            policy: engine.mode().policy(),
            ranks: engine.division().ranks,
            context,
            steps,
            rows: rows as u32,
            subjects: subjects.len() as u32,
            beyond_policy: policy.iter().map(|(rows, _)| rows.clone()).filter(|rows| !together(rows)).collect(),
            choices: policy
                .into_iter()
                .map(|(rows, dispatch)| Choices { rows, splits: dispatch.entries().into_iter().collect() })
                .collect(),
            sights,
        })
    }

    /// The classes of a sight.
    pub fn sight(&self, sight: Sight) -> Option<&Classes> {
        self.sights.iter().find(|c| c.sight == sight)
    }
}

/// Measures the class map of an engine: its `subjects` among 1, 2, ... `rows` rows. `progress` is told of decode steps done.
///
/// # Errors
/// [`Error::Plan`] where there is no subject, otherwise those of [`look`].
pub fn measure(
    engine: &mut Engine,
    subjects: &[Subject],
    rows: u32,
    progress: &dyn Fn(u32),
) -> Result<ClassMap, Error> {
    let mut seen = Vec::new();
    let mut done = 0;
    for subject in subjects {
        seen.push(look(engine, subject, rows, &|n| progress(done + n))?);
        done += rows * subject.following.len() as u32;
    }
    ClassMap::new(engine, subjects, &seen)
}

/// A subject's bits among 1, 2, ... `rows` rows, in this order. The other rows are first tokens of other requests.
///
/// `engine` needs a slot for each row, pages for the subject and one for each other row, and rows for the prompt. Whatever happens, no slot stays open.
///
/// **Bits.** All that [`Observe::ACTIVATIONS`] brings back of the subject's decode rows, in the order of steps.
///
/// # Errors
/// [`Error::Plan`] for a subject without prompt or following token, or no rows; otherwise those of [`Engine::step`].
pub fn look(engine: &mut Engine, subject: &Subject, rows: u32, progress: &dyn Fn(u32)) -> Result<Vec<Seen>, Error> {
    if subject.prompt.is_empty() || subject.following.is_empty() || rows == 0 {
        return Err(Error::Plan { detail: "a class map needs a prompt, a token after it and a row".into() });
    }
    let mut slots = Vec::new();
    let mut opened = Ok(());
    while opened.is_ok() && slots.len() < rows as usize {
        opened = engine.open().map(|slot| slots.push(slot));
    }
    let seen = opened.and_then(|()| decode(engine, subject, &slots, progress));
    slots.into_iter().try_for_each(|slot| engine.close(slot))?;
    seen
}

fn decode(engine: &mut Engine, subject: &Subject, slots: &[Slot], progress: &dyn Fn(u32)) -> Result<Vec<Seen>, Error> {
    let config = engine.model().config.clone();
    let group = |slot, start, tokens| Group { slot, start, tokens, logits: Logits::Last };
    let context = subject.prompt.len() as u32;
    let prefill = engine.plan(vec![group(slots[0], 0, subject.prompt.clone())], Observe::TOKENS);
    engine.step(&prefill)?;
    let mut out = Vec::new();
    let mut steps = 0;
    for n in 1..=slots.len() {
        let mut hashes: [Sha256; 4] = Default::default();
        for (position, token) in (context..).zip(&subject.following) {
            let first = group(slots[0], position, vec![*token]);
            let others = slots[..n].iter().zip(0..).skip(1);
            let others = others.map(|(slot, i)| group(*slot, 0, vec![filler(i, config.vocab_size)]));
            let plan = engine.plan(std::iter::once(first).chain(others).collect(), Observe::ACTIVATIONS);
            let output = engine.step(&plan)?;
            hash(&output, &config, &mut hashes);
            for slot in &slots[1..n] {
                engine.truncate(*slot, 0)?;
            }
            steps += 1;
            progress(steps);
        }
        engine.truncate(slots[0], context)?;
        out.push(hashes.map(|hash| hash.finalize().into()));
    }
    Ok(out)
}

/// Adds a step's first row to what each sight has seen.
fn hash(output: &StepOutput, config: &Config, hashes: &mut [Sha256; 4]) {
    let rows = capture::rows(output, config, &vec![0; output.rows.len()]);
    for (sight, hash) in Sight::ALL.into_iter().zip(hashes) {
        if sight == Sight::Token {
            let chosen = output.rows.first().and_then(|row| row.top2).map(|top| top.first);
            hash.update(chosen.unwrap_or(u32::MAX).to_le_bytes());
        }
        for (_, tensor) in rows.iter().take(1).flat_map(|row| &row.outputs).filter(|(point, _)| sight.sees(**point)) {
            match &tensor.bits {
                Elements::Bf16(bits) => bits.iter().for_each(|b| hash.update(b.to_le_bytes())),
                Elements::F32(bits) => bits.iter().for_each(|b| hash.update(b.to_le_bytes())),
            }
        }
    }
}

/// Numbers with equal values, by the smallest number.
fn grouped<T: Ord + Clone>(values: impl Iterator<Item = (u32, T)>) -> Vec<(Ranges, T)> {
    let mut by_value: BTreeMap<T, Vec<u32>> = BTreeMap::new();
    for (n, value) in values {
        by_value.entry(value).or_default().push(n);
    }
    let mut out: Vec<(Ranges, T)> = by_value.into_iter().map(|(v, n)| (n.into_iter().collect(), v)).collect();
    out.sort_by_key(|(rows, _)| rows.min());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(all: &[&[u32]]) -> Classes {
        Classes { sight: Sight::State, classes: all.iter().map(|c| c.iter().copied().collect()).collect() }
    }

    #[test]
    fn what_a_class_leaves_open() {
        let map = classes(&[&[1, 5], &[2, 3], &[4]]);
        assert_eq!(map.tells(2, 3), Some(false));
        assert_eq!(map.tells(2, 4), Some(true));
        assert_eq!(map.tells(1, 9), None);
        assert_eq!(map.unreported(1, 5).unwrap().to_string(), "0, 4");
        assert_eq!(map.unreported(2, 4).unwrap().to_string(), "2");
        // The class of what ran holds a number below what was declared: it is no answer.
        assert_eq!(map.unreported(2, 5).unwrap().to_string(), "3");
        assert_eq!([1, 2, 3, 4].map(|n| map.hidden_capacity(n)), [Some(4), Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn groups_are_by_value_and_ordered_by_number() {
        let all = grouped([(1, 'b'), (2, 'a'), (3, 'b'), (4, 'c')].into_iter());
        let words: Vec<String> = all.iter().map(|(rows, v)| format!("{rows}: {v}")).collect();
        assert_eq!(words, ["1, 3: b", "2: a", "4: c"]);
    }
}
