//! The packed form against the stated steps, one key and one column at a time, in integer code.

use super::*;
use crate::ieee::exp2;
use crate::scalar::{self, Mods};

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 16
}

/// `count` bf16: ordinary ones, or any pattern at all.
fn bf16s(state: &mut u64, count: usize, anything: bool) -> Vec<u16> {
    let mut one = || match random(state) {
        r if anything => r as u16,
        // Magnitudes from 2^-6 to 2.
        r => (r as u16 & 0x807f) | (0x3c80 + ((r >> 20) as u16 % 7) * 0x80),
    };
    (0..count).map(|_| one()).collect()
}

fn pairs(row: &[u16]) -> Vec<u32> {
    row.chunks_exact(2).map(|p| u32::from(p[0]) | u32::from(p[1]) << 16).collect()
}

fn plain(c: f32, q: &[u16], keys: &[&[u16]], values: &[&[u16]]) -> Vec<u32> {
    type F = scalar::F32;
    let fma = |a, b, c| scalar::fma::<F>(a, b, c, Mods::RN);
    let sub = |a, b| scalar::sub::<F>(a, b, Mods::RN);
    let wide = |bits: u16| u32::from(bits) << 16;
    let (mut m, mut l, mut o) = (0xff80_0000, [0; 32], vec![0; q.len()]);
    for (keys, values) in keys.chunks(TILE).zip(values.chunks(TILE)) {
        let score = |key: &[u16]| q.iter().zip(key).fold(0, |sum, (&q, &k)| fma(wide(q), wide(k), sum));
        let scores: Vec<u32> = keys.iter().map(|k| score(k)).collect();
        let top = scores.iter().fold(m, |m, &s| scalar::max::<F>(m, s, false, false));
        let a = exp2(sub(m, top), c);
        let p: Vec<u32> = scores.iter().map(|&s| exp2(sub(s, top), c)).collect();
        for (j, l) in l.iter_mut().enumerate() {
            *l = fma(*l, a, p.get(j).copied().unwrap_or(0));
        }
        for (d, o) in o.iter_mut().enumerate() {
            let scaled = scalar::mul::<F>(*o, a, Mods::RN);
            *o = p.iter().zip(values).fold(scaled, |o, (&p, v)| fma(p, wide(v[d]), o));
        }
        m = top;
    }
    for distance in [16, 8, 4, 2, 1] {
        l = std::array::from_fn(|j| scalar::add::<F>(l[j], l[j ^ distance], Mods::RN));
    }
    o.into_iter().map(|o| scalar::div::<F>(o, l[0], Mods::RN)).collect()
}

#[test]
fn every_query_has_the_stated_bits_at_every_level() {
    let mut state = 1;
    for (width, positions) in [(16, 1), (32, 32), (48, 33), (64, 100), (80, 71), (128, 65)] {
        for anything in [false, true] {
            let (keys, values) =
                (bf16s(&mut state, positions * width, anything), bf16s(&mut state, positions * width, anything));
            let row = |all: &[u16], at: usize| pairs(&all[at * width..][..width]);
            let context = Context::pack(width, positions, |at, key, value| {
                key.copy_from_slice(&row(&keys, at));
                value.copy_from_slice(&row(&values, at));
            });
            assert_eq!((context.width(), context.positions()), (width, positions));
            let c = (std::f64::consts::LOG2_E / (width as f64).sqrt()) as f32;
            let q = bf16s(&mut state, 7 * width, anything);
            // Some see all keys, some one, some end inside a tile; neighbours end in different tiles.
            let sees =
                [positions, 1, positions.div_ceil(2), positions, positions, positions.min(33), positions.min(31)];
            let packed: Vec<Vec<u32>> = q.chunks_exact(width).map(pairs).collect();
            let queries: Vec<Query<'_>> = packed.iter().zip(sees).map(|(q, sees)| Query { q, sees }).collect();
            let key_rows: Vec<&[u16]> = keys.chunks_exact(width).collect();
            let value_rows: Vec<&[u16]> = values.chunks_exact(width).collect();
            let want: Vec<u32> = q
                .chunks_exact(width)
                .zip(sees)
                .flat_map(|(q, sees)| plain(c, q, &key_rows[..sees], &value_rows[..sees]))
                .collect();
            for level in Level::available() {
                let found = attend(level, c, &context, &queries);
                assert!(found == want, "{width} columns, {positions} keys, anything {anything}, {level:?}");
                let alone: Vec<u32> = queries.iter().flat_map(|q| attend(level, c, &context, &[*q])).collect();
                assert!(alone == want, "alone, {level:?}");
            }
        }
    }
}

/// Scores so far apart that old sums vanish, and so large that they overflow.
#[test]
fn extremes_are_the_stated_steps() {
    let (width, positions) = (16, 70);
    for exponent in [0x4300_u16, 0x5f00, 0x7f00] {
        let mut state = u64::from(exponent);
        let large = |state: &mut u64, count: usize| -> Vec<u16> {
            (0..count).map(|_| random(state) as u16 & 0x807f | exponent).collect()
        };
        let (keys, values, q) = (
            large(&mut state, positions * width),
            bf16s(&mut state, positions * width, false),
            large(&mut state, width),
        );
        let context = Context::pack(width, positions, |at, key, value| {
            key.copy_from_slice(&pairs(&keys[at * width..][..width]));
            value.copy_from_slice(&pairs(&values[at * width..][..width]));
        });
        let rows = |all: &[u16]| all.chunks_exact(width).map(<[u16]>::to_vec).collect::<Vec<_>>();
        let (k, v) = (rows(&keys), rows(&values));
        let (k, v): (Vec<&[u16]>, Vec<&[u16]>) =
            (k.iter().map(|r| &r[..]).collect(), v.iter().map(|r| &r[..]).collect());
        let want = plain(0.3, &q, &k, &v);
        let q = pairs(&q);
        for level in Level::available() {
            assert_eq!(
                attend(level, 0.3, &context, &[Query { q: &q, sees: positions }]),
                want,
                "{exponent:04x} {level:?}"
            );
        }
    }
}
