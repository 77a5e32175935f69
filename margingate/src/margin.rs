//! How far a step is from choosing another token, from the raw bits of its logits.
//!
//! A margin is a difference of two logits, so that it can be compared with how much a batch changes such differences. Logits are f32
//! as the LM head accumulated them: after rounding to bf16 a logit between 16 and 32 moves in steps of 0.125, and ties are common.

/// A margin: a non-negative f32, infinite where no other token can be chosen.
///
/// **Bits.** Never NaN and never `-0`; compared and stored as bits.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Margin(f32);

impl Margin {
    /// No other token can be chosen.
    pub const INFINITE: Margin = Margin(f32::INFINITY);

    /// From a difference; NaN and negative numbers become 0, the riskiest margin.
    pub fn new(difference: f32) -> Self {
        if difference > 0.0 { Self(difference) } else { Self(0.0) }
    }

    /// From f32 bits, as records carry it.
    ///
    /// # Errors
    /// The bits, if they are of no margin: NaN, or with a sign.
    pub fn from_bits(bits: u32) -> Result<Self, u32> {
        let value = f32::from_bits(bits);
        if value.is_nan() || bits >> 31 == 1 { Err(bits) } else { Ok(Self(value)) }
    }

    /// The value.
    pub fn value(self) -> f32 {
        self.0
    }

    /// Its bits.
    pub fn bits(self) -> u32 {
        self.0.to_bits()
    }

    /// The smaller of two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }
}

/// The token a row chooses, what came second, and how far apart they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Top {
    /// The token.
    pub first: u32,
    /// What would be chosen without it; none when there is one candidate.
    pub second: Option<u32>,
    /// The margin.
    pub margin: Margin,
}

/// A logit from which nothing can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("logit {id} has bits {bits:#010x}, which is not finite; no margin is defined")]
pub struct NotFinite {
    /// Its token id.
    pub id: usize,
    /// Its bits.
    pub bits: u32,
}

/// Parameters of seeded sampling that decide which token a row chooses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Divides the logits; finite and positive.
    pub temperature: f32,
    /// Keep this many largest.
    pub top_k: Option<u32>,
    /// Of those keep the shortest run of largest that has this share of their mass.
    pub top_p: Option<f32>,
    /// Of those keep what has this share of the largest one's probability.
    pub min_p: Option<f32>,
}

/// The margin of greedy choice; the lowest id wins ties.
///
/// **Bits.** The f32 difference of the two largest, rounded to nearest even (`sub.rn.f32`); `-0` equals `+0`.
///
/// # Errors
/// [`NotFinite`]; also for an empty row, as id 0.
pub fn greedy(logits: &[u32]) -> Result<Top, NotFinite> {
    let values = finite(logits)?;
    let [first, second] = top_two(values.iter().enumerate().map(|(id, v)| (id as u32, f64::from(*v))));
    let Some((first, _)) = first else { return Err(NotFinite { id: 0, bits: f32::NAN.to_bits() }) };
    let margin = second.map_or(Margin::INFINITE, |(id, _)| Margin::new(values[first as usize] - values[id as usize]));
    Ok(Top { first, second: second.map(|s| s.0), margin })
}

/// The margin of seeded sampling: of `logit / T + noise(id)` over the kept candidates, times `T` so that it is a difference of logits again,
/// and no larger than [`truncation`].
///
/// **Bits.** Scores in f64; the margin is rounded to f32.
///
/// # Errors
/// As [`greedy`].
pub fn sampled(logits: &[u32], sampler: &Sampler, noise: impl Fn(u32) -> f64) -> Result<Top, NotFinite> {
    let values = finite(logits)?;
    let t = f64::from(sampler.temperature);
    let (kept, boundary) = candidates(&values, sampler);
    let score = |id: u32| f64::from(values[id as usize]) / t + noise(id);
    let [first, second] = top_two(kept.iter().map(|id| (*id, score(*id))));
    let Some((first, best)) = first else { return Err(NotFinite { id: 0, bits: f32::NAN.to_bits() }) };
    let margin = second.map_or(Margin::INFINITE, |(_, other)| Margin::new(((best - other) * t) as f32));
    Ok(Top { first, second: second.map(|s| s.0), margin: margin.min(boundary) })
}

/// How far the nearest candidate is from crossing the border of top-k, top-p or min-p; infinite without truncation.
///
/// Top-k: the gap between the last kept and the first dropped logit. Min-p: the distance of the nearest logit from the border. Top-p: the
/// smallest change of a logit difference that can make the kept run shorter or longer (`T` times the logarithm by which its odds miss
/// `p / (1 - p)`), or swap its last member.
///
/// # Errors
/// As [`greedy`].
pub fn truncation(logits: &[u32], sampler: &Sampler) -> Result<Margin, NotFinite> {
    Ok(candidates(&finite(logits)?, sampler).1)
}

/// Kept ids, largest logit first (lowest id first among equals), and the distance of the nearest border.
fn candidates(values: &[f32], sampler: &Sampler) -> (Vec<u32>, Margin) {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    if sampler.top_k.is_none() && sampler.top_p.is_none() && sampler.min_p.is_none() {
        return (order, Margin::INFINITE);
    }
    let value = |id: u32| f64::from(values[id as usize]);
    order.sort_by(|a, b| value(*b).total_cmp(&value(*a)).then(a.cmp(b)));
    let mut distance = f64::INFINITY;
    let gap = |order: &[u32], keep: usize| match (keep.checked_sub(1).and_then(|last| order.get(last)), order.get(keep))
    {
        (Some(last), Some(next)) => value(*last) - value(*next),
        _ => f64::INFINITY,
    };
    if let Some(k) = sampler.top_k {
        distance = distance.min(gap(&order, k as usize));
        order.truncate(k as usize);
    }
    let t = f64::from(sampler.temperature);
    if let (Some(p), Some(first)) = (sampler.top_p, order.first().copied()) {
        let weights: Vec<f64> = order.iter().map(|id| libm::exp((value(*id) - value(first)) / t)).collect();
        let mut total = 0.0;
        for w in &weights {
            total += w;
        }
        let (wanted, mut sum) = (f64::from(p) * total, 0.0);
        let mut keep = order.len();
        let mut before = 0.0;
        for (i, w) in weights.iter().enumerate() {
            before = sum;
            sum += w;
            if sum >= wanted {
                keep = i + 1;
                break;
            }
        }
        let odds = f64::from(p) / (1.0 - f64::from(p));
        let miss = |mass: f64| {
            let ratio = mass / (total - mass) / odds;
            if ratio > 0.0 && ratio.is_finite() { libm::fabs(libm::log(ratio)) * t } else { f64::INFINITY }
        };
        distance = distance.min(miss(sum)).min(miss(before)).min(gap(&order, keep));
        order.truncate(keep);
    }
    if let (Some(p), Some(first)) = (sampler.min_p.filter(|p| *p > 0.0), order.first().copied()) {
        let border = value(first) + t * libm::log(f64::from(p));
        for id in &order {
            distance = distance.min(libm::fabs(value(*id) - border));
        }
        order.retain(|id| value(*id) >= border);
    }
    (order, Margin::new(distance as f32))
}

fn finite(logits: &[u32]) -> Result<Vec<f32>, NotFinite> {
    let read = |(id, bits): (usize, &u32)| {
        let value = f32::from_bits(*bits);
        if value.is_finite() { Ok(value) } else { Err(NotFinite { id, bits: *bits }) }
    };
    logits.iter().enumerate().map(read).collect()
}

/// Largest and second largest score; the lowest id wins ties.
fn top_two(scored: impl Iterator<Item = (u32, f64)>) -> [Option<(u32, f64)>; 2] {
    let mut top: [Option<(u32, f64)>; 2] = [None; 2];
    let before = |a: (u32, f64), b: Option<(u32, f64)>| b.is_none_or(|b| a.1 > b.1 || (a.1 == b.1 && a.0 < b.0));
    for entry in scored {
        if before(entry, top[0]) {
            top = [Some(entry), top[0]];
        } else if before(entry, top[1]) {
            top[1] = Some(entry);
        }
    }
    top
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(logits: &[f32]) -> Vec<u32> {
        logits.iter().map(|l| l.to_bits()).collect()
    }

    const PLAIN: Sampler = Sampler { temperature: 1.0, top_k: None, top_p: None, min_p: None };

    #[test]
    fn equal_logits_are_a_tie_for_the_lowest_id() {
        let top = greedy(&bits(&[1.0, 3.0, 3.0, -0.0])).unwrap();
        assert_eq!(top, Top { first: 1, second: Some(2), margin: Margin::new(0.0) });
        assert_eq!(greedy(&bits(&[-0.0, 0.0])).unwrap().first, 0);
        assert_eq!(greedy(&bits(&[-0.0, 0.0])).unwrap().margin.bits(), 0);
    }

    #[test]
    fn the_margin_is_of_the_f32_accumulator() {
        // As bf16 both are 16: the step between neighbours is 0.125 there.
        let logits = [16.0 + 1.0 / 1024.0, 16.0, 3.0];
        assert_eq!(greedy(&bits(&logits)).unwrap().margin, Margin::new(1.0 / 1024.0));
        // The difference is rounded to f32: 2^24 - 0.25 has no f32.
        assert_eq!(greedy(&bits(&[16_777_216.0, 0.25])).unwrap().margin.bits(), 16_777_216f32.to_bits());
    }

    #[test]
    fn one_candidate_cannot_flip_and_nonsense_is_refused() {
        assert_eq!(greedy(&bits(&[2.0])).unwrap().margin, Margin::INFINITE);
        assert_eq!(greedy(&bits(&[2.0, f32::NAN])), Err(NotFinite { id: 1, bits: f32::NAN.to_bits() }));
        assert!(greedy(&[]).is_err());
        assert!(greedy(&bits(&[f32::NEG_INFINITY, 0.0])).is_err());
        assert_eq!(Margin::new(f32::NAN).bits(), 0);
        for bad in [f32::NAN.to_bits(), (-1.0f32).to_bits(), (-0.0f32).to_bits()] {
            assert_eq!(Margin::from_bits(bad), Err(bad));
        }
        assert_eq!(Margin::from_bits(0x3f80_0000), Ok(Margin::new(1.0)));
    }

    #[test]
    fn a_sampled_margin_is_in_logits() {
        // Scores 4/2 + 0 = 2, 2/2 + 0.5 = 1.5: half a score apart, one logit apart.
        let sampler = Sampler { temperature: 2.0, ..PLAIN };
        let top = sampled(&bits(&[4.0, 2.0, -50.0]), &sampler, |id| if id == 1 { 0.5 } else { 0.0 }).unwrap();
        assert_eq!((top.first, top.second, top.margin), (0, Some(1), Margin::new(1.0)));
        // The noise decides, and the margin is of what it decides.
        let top = sampled(&bits(&[4.0, 2.0]), &sampler, |id| if id == 1 { 2.0 } else { 0.0 }).unwrap();
        assert_eq!((top.first, top.margin), (1, Margin::new(2.0)));
    }

    #[test]
    fn a_border_that_can_move_makes_a_step_risky() {
        let logits = bits(&[5.0, 4.0, 1.0, 0.75, -9.0]);
        let of = |s: Sampler| truncation(&logits, &s).unwrap();
        assert_eq!(of(PLAIN), Margin::INFINITE);
        assert_eq!(of(Sampler { top_k: Some(2), ..PLAIN }), Margin::new(3.0));
        assert_eq!(of(Sampler { top_k: Some(3), ..PLAIN }), Margin::new(0.25));
        assert_eq!(of(Sampler { top_k: Some(5), ..PLAIN }), Margin::INFINITE);
        // e^-1 of the largest: the border lies at 4.
        assert!(of(Sampler { min_p: Some(0.367_879_45), ..PLAIN }).value() < 1e-6);
        assert!((of(Sampler { min_p: Some(0.135_335_28), ..PLAIN }).value() - 1.0).abs() < 1e-5);
        // Greedy choice of the noise is 5 - 4 apart, the border only 0.25.
        let near = sampled(&logits, &Sampler { top_k: Some(3), ..PLAIN }, |_| 0.0).unwrap();
        assert_eq!((near.first, near.margin), (0, Margin::new(0.25)));
    }

    /// Two equal logits at T = 1: the first alone has half the mass.
    #[test]
    fn the_nucleus_moves_when_its_odds_do() {
        let logits = bits(&[1.0, 1.0]);
        let of = |p: f32| truncation(&logits, &Sampler { top_p: Some(p), ..PLAIN }).unwrap().value();
        // p = 0.5 is reached exactly: any change moves the border.
        assert!(of(0.5) < 1e-6);
        // Odds 1 against 3: a difference of ln 3 away, and the pair itself is tied at the border of p = 0.25.
        assert_eq!(of(0.25), 0.0);
        let apart = bits(&[1.0, 0.0]);
        let of = |p: f32| truncation(&apart, &Sampler { top_p: Some(p), ..PLAIN }).unwrap().value();
        // Odds of the first are e; p = 0.75 has odds 3. Both are kept, and the first alone misses by ln 3 - 1.
        assert!((of(0.75) - (1.098_612_3 - 1.0)).abs() < 1e-6, "{}", of(0.75));
        // p = 1 keeps all, and nothing moves that.
        assert_eq!(of(1.0), f32::INFINITY);
    }

    /// The border's distance is what it says: below it no change of the logits moves the kept set.
    #[test]
    fn changes_below_the_distance_keep_the_set() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32
        };
        for round in 0..2000 {
            let logits: Vec<f32> = (0..12).map(|_| next() * 8.0).collect();
            let sampler = match round % 3 {
                0 => Sampler { top_k: Some(1 + round % 9), ..PLAIN },
                1 => Sampler { top_p: Some(0.05 + 0.9 * next()), temperature: 0.5 + next(), ..PLAIN },
                _ => Sampler { min_p: Some(0.01 + 0.5 * next()), temperature: 0.5 + next(), ..PLAIN },
            };
            let (mut kept, distance) = candidates(&logits, &sampler);
            // A difference of two logits changes by up to twice what each does.
            let most = 0.499 * distance.value().min(4.0);
            let moved: Vec<f32> = logits.iter().map(|l| l + most * (2.0 * next() - 1.0)).collect();
            let (mut again, _) = candidates(&moved, &sampler);
            kept.sort_unstable();
            again.sort_unstable();
            assert_eq!(kept, again, "{sampler:?} {logits:?} {distance:?}");
        }
    }
}
