//! The two largest logits against a sort.

use engine::kernels::{TOP2_WORDS, Top2Spec, pad};

use crate::arith::{Gpu, sub};
use crate::data::Rng;
use crate::rig::{In, Out, U32, launch, u32s};

/// NaN above all, zeros equal, then the lowest id.
fn model(logits: &[u32]) -> [u32; TOP2_WORDS as usize] {
    let key = |i: usize| {
        let v = f64::from(f32::from_bits(logits[i]));
        if v.is_nan() { f64::INFINITY } else { v.clamp(-1e300, 1e300) }
    };
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| key(b).partial_cmp(&key(a)).expect("keys are numbers").then(a.cmp(&b)));
    let first = order[0];
    let (second, logit2) = order.get(1).map_or((u32::MAX, f32::NEG_INFINITY.to_bits()), |&i| (i as u32, logits[i]));
    [first as u32, logits[first], second, logit2, sub(logits[first], logit2)]
}

#[test]
fn the_two_largest_logits_and_their_margin() {
    let mut rng = Rng::new(20);
    let gpu = Gpu::named("sm_90");
    for vocab in [1, 2, 31, 33, 512, 1024, 1025, 5000, 9001] {
        let vocab_pad = pad(vocab);
        let mut logits = Vec::new();
        let mut want = Vec::new();
        for kind in 0..8 {
            let mut row: Vec<u32> = (0..vocab)
                .map(|_| match kind {
                    0 => rng.normal().to_bits(),
                    // Many ties, zeros of both signs.
                    1 => ((rng.below(5) as f32 - 2.0) * if rng.below(2) == 0 { 1.0 } else { -1.0 }).to_bits(),
                    2 => 0x8000_0000 * rng.below(2),
                    3 => f32::NEG_INFINITY.to_bits(),
                    4 => (-rng.normal().abs() - 1.0).to_bits(),
                    5 => rng.next() as u32,
                    6 => rng.below(3),
                    _ => rng.normal().to_bits(),
                })
                .collect();
            if kind == 7 {
                // One NaN, either sign, late.
                let at = vocab - 1 - rng.below(vocab.min(9));
                row[at as usize] = 0x7fc0_0000 | (rng.next() as u32 & 0x8000_0001);
            }
            want.extend(model(&row));
            // The padding would win if it were looked at.
            row.resize(vocab_pad as usize, f32::MAX.to_bits());
            logits.extend(row);
        }
        let spec = Top2Spec { vocab, vocab_pad };
        let args = [In(&logits), Out(8 * TOP2_WORDS * 4), U32(8)];
        let out = u32s(&launch(&gpu, &spec.build(), spec.grid(8), &args)[0]);
        assert_eq!(out, want, "vocabulary of {vocab}");
    }
}
