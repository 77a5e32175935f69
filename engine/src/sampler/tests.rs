//! Distribution, filters, ties and refusals of the sampler.

use super::*;

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|l| l.to_bits()).collect()
}

fn seeded(temperature: f32, top_k: Option<u32>, top_p: Option<f32>, seed: u64) -> Sampling {
    Sampling::Seeded(Seeded { top_k, top_p, ..Seeded::plain(temperature, seed) })
}

#[test]
fn greedy_takes_the_lowest_id_of_equals() {
    let choice = Sampling::Greedy.choose(&bits(&[1.0, 3.0, 3.0, -0.0, 0.0]), 5).unwrap();
    assert_eq!((choice.token, choice.runner_up, choice.margin), (1, Some(2), 0.0));
    let zeros = Sampling::Greedy.choose(&bits(&[-0.0, 0.0]), 5).unwrap();
    assert_eq!(zeros.token, 0);
    let one = Sampling::Greedy.choose(&bits(&[2.0]), 5).unwrap();
    assert_eq!((one.token, one.runner_up, one.margin), (0, None, f64::INFINITY));
}

/// Gumbel-max draws from softmax(logits / T): frequencies over positions against probabilities worked out by hand.
#[test]
fn frequencies_are_those_of_the_softmax() {
    // logits / T = ln 1, ln 2, ln 5 -> 1/8, 2/8, 5/8.
    let t = 2.0f32;
    let logits = bits(&[0.0, 2.0 * std::f32::consts::LN_2, 2.0 * 1.609_438]);
    let n = 20_000;
    let mut seen = [0u32; 3];
    for position in 0..n {
        seen[seeded(t, None, None, 7).choose(&logits, position).unwrap().token as usize] += 1;
    }
    for (count, p) in seen.iter().zip([0.125, 0.25, 0.625]) {
        let (mean, sd) = (f64::from(n) * p, (f64::from(n) * p * (1.0 - p)).sqrt());
        assert!((f64::from(*count) - mean).abs() < 5.0 * sd, "{seen:?}");
    }
}

#[test]
fn seed_position_and_id_all_count() {
    let g = gumbel(1, 2, 3);
    for other in [gumbel(1 << 32, 2, 3), gumbel(2, 2, 3), gumbel(1, 3, 3), gumbel(1, 2, 4), gumbel(1, 3, 2)] {
        assert_ne!(g.to_bits(), other.to_bits());
    }
    assert_eq!(g.to_bits(), gumbel(1, 2, 3).to_bits());
}

/// The extreme words of the generator give finite noise.
#[test]
fn noise_is_finite_at_both_ends() {
    let scale = f64::from_bits((1023 - 52) << 52);
    for mantissa in [0u64, (1 << 52) - 1] {
        let u = (mantissa as f64 + 0.5) * scale;
        assert!(u > 0.0 && u < 1.0);
        assert!((-libm::log(-libm::log(u))).is_finite());
    }
}

/// The example of `docs/spec/sampling.md`, computed with a Philox and a logarithm of Python's.
#[test]
fn noise_of_the_specification() {
    assert_eq!(philox4x32_10([1023, 17, 0, 0x4755_4d42], [0x89ab_cdef, 0x0123_4567])[..2], [0x604d_40c0, 0xb43b_fb33]);
    assert!((gumbel(0x0123_4567_89ab_cdef, 17, 1023) - 1.047_197_675_536_409_6).abs() < 1e-15);
    assert!((gumbel(0, 1, 0) + 0.666_941_917_521_712_8).abs() < 1e-15);
}

#[test]
fn filters_keep_what_they_say() {
    let logits = bits(&[0.0, 5.0, 5.0, 4.0, -3.0]);
    for position in 0..200 {
        let k1 = seeded(1.0, Some(1), None, 3).choose(&logits, position).unwrap();
        assert_eq!((k1.token, k1.runner_up), (1, None));
        let k3 = seeded(10.0, Some(3), None, 3).choose(&logits, position).unwrap();
        assert!([1, 2, 3].contains(&k3.token));
        // exp(0), exp(0), exp(-1), ...: the two largest hold 0.84 of the mass at T = 1.
        let p = seeded(1.0, None, Some(0.8), 3).choose(&logits, position).unwrap();
        assert!([1, 2].contains(&p.token));
        let tiny = seeded(1.0, None, Some(1e-9), 3).choose(&logits, position).unwrap();
        assert_eq!(tiny.token, 1);
        let all = seeded(1.0, Some(5), Some(1.0), 3).choose(&logits, position).unwrap();
        assert_eq!(all, seeded(1.0, None, None, 3).choose(&logits, position).unwrap());
    }
}

#[test]
fn nonsense_is_refused() {
    for t in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert!(matches!(seeded(t, None, None, 0).check(), Err(Error::Sampling { parameter: "temperature", .. })));
    }
    assert!(matches!(seeded(1.0, Some(0), None, 0).check(), Err(Error::Sampling { parameter: "top_k", .. })));
    for p in [0.0, 1.5, f32::NAN] {
        assert!(matches!(seeded(1.0, None, Some(p), 0).check(), Err(Error::Sampling { parameter: "top_p", .. })));
    }
    for min_p in [0.0, -0.5, 1.5, f32::NAN] {
        let s = Sampling::Seeded(Seeded { min_p: Some(min_p), ..Seeded::plain(1.0, 0) });
        assert!(matches!(s.check(), Err(Error::Sampling { parameter: "min_p", .. })), "{min_p}");
    }
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = Sampling::Greedy.choose(&bits(&[0.0, bad]), 4);
        assert!(matches!(error, Err(Error::BadLogits { position: 4, .. })));
    }
}

#[test]
fn ranks_agree_with_the_choice() {
    let logits: Vec<u32> = [0.5f32, 2.0, 2.0, -1.0, 1.0].iter().map(|f| f.to_bits()).collect();
    let rank = |s: &Sampling, t| s.rank(&Adjust::default(), &logits, Past::default(), 7, t).unwrap();
    let ranks = |s: &Sampling| (0..5).map(|t| rank(s, t)).collect::<Vec<_>>();
    assert_eq!(ranks(&Sampling::Greedy), [Some(4), Some(1), Some(2), Some(5), Some(3)]);
    for top_k in [None, Some(3)] {
        let s = Sampling::Seeded(Seeded { top_k, ..Seeded::plain(0.7, 9) });
        let (ranks, choice) = (ranks(&s), s.choose(&logits, 7).unwrap());
        assert_eq!(ranks[choice.token as usize], Some(1));
        assert_eq!(ranks[choice.runner_up.unwrap() as usize], Some(2));
        assert_eq!(ranks.iter().flatten().count(), top_k.unwrap_or(5) as usize);
    }
}

/// Candidates kept by `min_p`, against probabilities worked out by hand: `exp((logit - largest) / T)` is 1, 1, exp(-1/T), exp(-5/T), exp(-8/T).
#[test]
fn min_p_keeps_what_is_near_the_largest() {
    let logits = bits(&[0.0, 5.0, 5.0, 4.0, -3.0]);
    let kept = |temperature, min_p, top_k| {
        let s = Sampling::Seeded(Seeded { min_p: Some(min_p), top_k, ..Seeded::plain(temperature, 3) });
        let rank = |t| s.rank(&Adjust::default(), &logits, Past::default(), 9, t).unwrap();
        (0..5).filter(|t| rank(*t).is_some()).collect::<Vec<u32>>()
    };
    assert_eq!(kept(1.0, 0.36, None), [1, 2, 3]);
    assert_eq!(kept(1.0, 0.37, None), [1, 2]);
    assert_eq!(kept(1.0, 1.0, None), [1, 2]);
    assert_eq!(kept(1.0, 1e-3, None), [0, 1, 2, 3]);
    assert_eq!(kept(5.0, 0.36, None), [0, 1, 2, 3]);
    assert_eq!(kept(1.0, 0.36, Some(1)), [1]);
    assert_eq!(kept(1.0, f32::MIN_POSITIVE, None), [0, 1, 2, 3, 4]);
}

/// Greedy choice and seeded choice look at adjusted logits, and what is not adjusted is chosen as before.
#[test]
fn adjusted_logits_are_what_is_chosen_from() {
    let logits = bits(&[1.0, 3.0, 2.5, -1.0]);
    let past = Past { prompt: &[2], output: &[1, 1] };
    let choose = |s: &Sampling, adjust: &Adjust| s.choose_adjusted(adjust, &logits, past, 5).unwrap().token;
    let greedy = |adjust: Adjust| choose(&Sampling::Greedy, &adjust);
    let off = Adjust::default();
    assert_eq!(greedy(off.clone()), 1);
    // 3 - 0.6 < 2.5; the prompt does not count for presence and frequency.
    assert_eq!(greedy(Adjust { presence: 0.6, ..off.clone() }), 2);
    assert_eq!(greedy(Adjust { presence: 0.4, ..off.clone() }), 1);
    assert_eq!(greedy(Adjust { frequency: 0.3, ..off.clone() }), 2);
    assert_eq!(greedy(Adjust { frequency: 0.2, ..off.clone() }), 1);
    // It does for repetition: both are halved, and 1.5 stays above 1.25; below 1 falls 1.0 / 4.
    assert_eq!(greedy(Adjust { repetition: 2.0, ..off.clone() }), 1);
    assert_eq!(greedy(Adjust { repetition: 4.0, ..off.clone() }), 0);
    assert_eq!(greedy(Adjust { bias: vec![(3, 5.0)], ..off.clone() }), 3);
    // Ties go to the lowest id: 3 - 0.5 = 2.5.
    assert_eq!(greedy(Adjust { presence: 0.5, ..off.clone() }), 1);
    let seeded = Sampling::Seeded(Seeded::plain(1.0, 8));
    for position in 0..50 {
        let plain = seeded.choose(&logits, position).unwrap();
        assert_eq!(seeded.choose_adjusted(&off, &logits, past, position).unwrap(), plain);
        // A bias beyond all noise leaves one candidate that can win.
        let one = Adjust { bias: vec![(3, 1e6)], ..off.clone() };
        assert_eq!(seeded.choose_adjusted(&one, &logits, past, position).unwrap().token, 3);
    }
    let bad = Sampling::Greedy.choose_adjusted(&off, &bits(&[0.0, f32::NAN]), past, 4);
    assert!(matches!(bad, Err(Error::BadLogits { position: 4, .. })));
}
