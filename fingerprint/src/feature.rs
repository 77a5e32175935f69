//! What two answers to one probe have in common.

use crate::api::{Answer, Step, same_token};
use crate::decimal::resolution;
use crate::stats::mean;

/// Two answers, compared until they part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    /// Differences of log-probabilities, first less second, of tokens that both list at a step with the same prefix.
    pub deltas: Vec<f64>,
    /// How many of them are nothing, within what was written.
    pub equal: usize,
    /// Tokens that are the same from the start.
    pub common: usize,
    /// Tokens differ at `common`.
    pub parts: bool,
    /// Steps of one side and the other.
    pub steps: (usize, usize),
}

impl Pair {
    /// Compares by token, not by index: it ends at the first token that differs, whose step still has the same prefix and is used. A side
    /// without log-probabilities is compared by text.
    pub fn of(a: &Answer, b: &Answer) -> Self {
        let (x, y) = (a.steps(), b.steps());
        let mut pair = Pair { steps: (x.len(), y.len()), ..Pair::default() };
        if x.is_empty() || y.is_empty() {
            let common = a.text().chars().zip(b.text().chars()).take_while(|(a, b)| a == b).count();
            pair.common = common;
            pair.parts = a.text() != b.text();
            return pair;
        }
        let written =
            |steps: &[Step]| resolution(steps.iter().flat_map(|s| s.top.iter().map(|t| &t.2).chain(&s.logprob)));
        // Two numbers that were one before they were written differ by half a unit of the coarser source at most.
        let nothing = 0.5 * written(x).max(written(y)) * (1.0 + 1e-9);
        for (s, t) in x.iter().zip(y) {
            pair.step(s, t, nothing);
            if !same_token((&s.token, s.id), (&t.token, t.id)) {
                pair.parts = true;
                return pair;
            }
            pair.common += 1;
        }
        pair
    }

    fn step(&mut self, s: &Step, t: &Step, nothing: f64) {
        for (token, id, own) in &s.top {
            if let Some(other) = t.of(token, *id) {
                self.delta(own.value() - other.value(), nothing);
            }
        }
        if s.top.is_empty()
            && let (Some(own), Some(other)) = (&s.logprob, &t.logprob)
            && same_token((&s.token, s.id), (&t.token, t.id))
        {
            self.delta(own.value() - other.value(), nothing);
        }
    }

    fn delta(&mut self, delta: f64, nothing: f64) {
        let equal = delta.abs() <= nothing;
        self.equal += usize::from(equal);
        self.deltas.push(if equal { 0.0 } else { delta });
    }

    /// Mean absolute difference; none without numbers.
    pub fn distance(&self) -> Option<f64> {
        let sizes: Vec<f64> = self.deltas.iter().map(|d| d.abs()).collect();
        (!sizes.is_empty()).then(|| mean(&sizes))
    }

    /// Largest absolute difference.
    pub fn largest(&self) -> f64 {
        self.deltas.iter().fold(0.0, |m, d| d.abs().max(m))
    }

    /// Every number and every token is the same, as far as both go.
    pub fn same(&self) -> bool {
        !self.parts && self.equal == self.deltas.len()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::api::Choice;
    use crate::decimal::Decimal;

    pub(crate) fn answer(tokens: &[(&str, &[(&str, &str)])]) -> Answer {
        let step = |(token, top): &(&str, &[(&str, &str)])| Step {
            token: (*token).to_owned(),
            id: None,
            logprob: top.iter().find(|t| t.0 == *token).and_then(|t| Decimal::parse(t.1)),
            top: top.iter().map(|(t, v)| ((*t).to_owned(), None, Decimal::parse(v).unwrap())).collect(),
        };
        let text = tokens.iter().map(|t| t.0).collect();
        let choice = Choice { text, steps: tokens.iter().map(step).collect(), ..Choice::default() };
        Answer { choices: vec![choice], ..Answer::default() }
    }

    #[test]
    fn the_step_at_which_tokens_part_still_counts_and_none_after_it() {
        let a = answer(&[
            ("a", &[("a", "-0.50"), ("b", "-1")]),
            ("a", &[("a", "-0.7"), ("b", "-0.8")]),
            ("a", &[("a", "-9")]),
        ]);
        let b = answer(&[
            ("a", &[("a", "-0.5"), ("b", "-1.25")]),
            ("b", &[("b", "-0.7"), ("a", "-0.8")]),
            ("a", &[("a", "-1")]),
        ]);
        let pair = Pair::of(&a, &b);
        assert_eq!((pair.common, pair.parts, pair.deltas.len(), pair.equal), (1, true, 4, 1));
        assert!((pair.distance().unwrap() - (0.25 + 0.1 + 0.1) / 4.0).abs() < 1e-12 && !pair.same());
        assert!(Pair::of(&a, &a).same());
    }

    #[test]
    fn rounding_by_a_gateway_is_no_difference() {
        let exact = answer(&[("a", &[("a", "-0.123456"), ("b", "-2.000049")])]);
        let rounded = answer(&[("a", &[("a", "-0.1235"), ("b", "-2.0000")])]);
        assert!(Pair::of(&exact, &rounded).same());
        let other = answer(&[("a", &[("a", "-0.1236"), ("b", "-2.0000")])]);
        assert!(!Pair::of(&exact, &other).same());
    }

    #[test]
    fn texts_are_compared_where_there_are_no_numbers() {
        let mut a = answer(&[("ab", &[])]);
        a.choices[0].steps.clear();
        let mut b = a.clone();
        assert!(Pair::of(&a, &b).same() && Pair::of(&a, &b).distance().is_none());
        b.choices[0].text = "ac".into();
        assert_eq!((Pair::of(&a, &b).common, Pair::of(&a, &b).same()), (1, false));
    }
}
