//! What gating costs: a fixed part and a part in proportion to the rows that are verified.

/// Increment over the plain run `= fixed + p * full`, fitted by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// `f`: cost of gating that verifies nothing.
    pub fixed: f64,
    /// `c`: cost of verifying every row.
    pub full: f64,
}

impl Fit {
    /// From pairs of trigger rate and increment; none without two different rates.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let n = points.len() as f64;
        let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().fold(0.0, |sum, p| sum + pick(p)) / n;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let (mut xx, mut xy) = (0.0, 0.0);
        for (p, increment) in points {
            xx += (p - x) * (p - x);
            xy += (p - x) * (increment - y);
        }
        (xx > 0.0).then(|| Self { fixed: y - xy / xx * x, full: xy / xx })
    }

    /// `f / c`.
    pub fn fixed_share(&self) -> f64 {
        self.fixed / self.full
    }

    /// `(f + c) / (f + p c)`: how many times smaller the increment is than that of verifying everything.
    pub fn advantage(&self, p: f64) -> f64 {
        (self.fixed + self.full) / (self.fixed + p * self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<(f64, f64)> = [0.0, 0.2, 0.5, 1.0].map(|p| (p, 0.1 + 2.0 * p)).to_vec();
        let fit = Fit::of(&points).unwrap();
        assert!((fit.fixed - 0.1).abs() < 1e-12 && (fit.full - 2.0).abs() < 1e-12);
        assert!((fit.fixed_share() - 0.05).abs() < 1e-12);
        assert_eq!(Fit::of(&[(0.5, 1.0), (0.5, 2.0)]), None);
        assert_eq!(Fit::of(&[]), None);
    }

    /// The published advantages at the published rates come to fixed costs of about 0.48 c and 0.71 c.
    #[test]
    fn the_published_numbers_are_read_as_the_specification_reads_them() {
        for (p, advantage, share) in [(0.1856, 2.23, 0.48), (0.1505, 1.99, 0.71)] {
            let fit = Fit { fixed: share, full: 1.0 };
            assert!((fit.advantage(p) - advantage).abs() < 0.02, "{}", fit.advantage(p));
        }
        assert!(Fit { fixed: 0.1, full: 1.0 }.advantage(0.1856) > 3.8);
    }
}
