//! The batch-invariant product: the bits of the scalar operation, whatever the batch, the threads and the level.

use super::data::Random;
use super::*;
use crate::gemm::{Chain, ChainRows};
use crate::scalar::{self, Mods};

const N: usize = 150;

/// f32 that mixes ordinary numbers, cancellation, subnormals and a few specials.
fn values(count: usize, seed: u64) -> Vec<u32> {
    let mut random = Random(seed);
    let mut of = || {
        let r = random.next();
        match r >> 40 & 0xff {
            0 => (r as u32 & 1) << 31,
            1 => r as u32 & 0x8000_ffff,
            2 => r as u32 & 0x81ff_ffff | 0x6000_0000,
            _ => r as u32 & 0x83ff_ffff | 0x3c00_0000,
        }
    };
    (0..count).map(|_| of()).collect()
}

/// One chain an output, by integer code.
fn expected(x: &[u32], w: &[u32], k: usize) -> Vec<u32> {
    let chain = |row: &[u32], column: &[u32]| {
        row.iter().zip(column).fold(0, |d, (&a, &b)| scalar::fma::<scalar::F32>(a, b, d, Mods::RN))
    };
    x.chunks(k).flat_map(|row| w.chunks(k).map(move |column| chain(row, column))).collect()
}

fn weights(elem: Elem, n: usize, k: usize, seed: u64) -> (Weights, Vec<u32>) {
    let bits = values(n * k, seed);
    match elem {
        F32 => (Weights::pack(F32, n, k, &bits).unwrap(), bits),
        _ => {
            // bf16, or bf16 read as f16: either way every kind of number.
            let halves: Vec<u16> = bits.iter().map(|&bits| (bits >> 16) as u16).collect();
            let widen = |&half: &u16| crate::format::widen_to_f32(u64::from(half), elem.format());
            (Weights::pack(elem, n, k, &halves).unwrap(), halves.iter().map(widen).collect())
        }
    }
}

#[test]
fn a_row_depends_on_nothing_but_itself_and_the_weights() {
    for (elem, k) in [(Bf16, 70), (F32, 33), (F16, 40)] {
        let (w, wide) = weights(elem, N, k, 1);
        let all = values(40 * k, 2);
        let expected = expected(&all, &wide, k);
        for level in Level::available() {
            for m in (1..=31).chain([40]) {
                let x = ChainRows::pack(F32, m, k, &all[..m * k]).unwrap();
                for threads in if m % 5 == 1 { 1..4 } else { 1..2 } {
                    let found = Chain::new().level(level).threads(threads).run(&x, &w).unwrap();
                    let differing = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
                    assert_eq!(differing, 0, "{elem} {level:?}, {m} rows, {threads} threads");
                }
            }
        }
    }
}

#[test]
fn chunks_of_k_change_nothing() {
    let k = 1_200;
    let (w, wide) = weights(Bf16, 40, k, 5);
    let all = values(13 * k, 6);
    let expected = expected(&all, &wide, k);
    for level in Level::available() {
        for m in [1, 2, 3, 13] {
            let x = ChainRows::pack(F32, m, k, &all[..m * k]).unwrap();
            assert_eq!(Chain::new().level(level).run(&x, &w).unwrap(), expected[..m * 40], "{level:?}, {m} rows");
        }
    }
}

#[test]
fn specials_give_infinities_and_one_nan() {
    let x = ChainRows::pack(F32, 1, 2, &[0x7f80_0000_u32, 0x3f80_0000]).unwrap();
    // inf * 1, inf * 0, inf * -1 + 1, inf * 1 - inf.
    let w: [u32; 8] = [0x3f80_0000, 0, 0, 0, 0xbf80_0000, 0x3f80_0000, 0x3f80_0000, 0xff80_0000];
    let w = Weights::pack(F32, 4, 2, &w).unwrap();
    for level in Level::available() {
        let found = Chain::new().level(level).run(&x, &w).unwrap();
        assert_eq!(found, [0x7f80_0000, 0x7fff_ffff, 0xff80_0000, 0x7fff_ffff], "{level:?}");
    }
    assert!(Chain::new().run(&x, &Weights::pack(F32, 1, 3, &[0_u32; 3]).unwrap()).is_err());
}
