//! Rotary embedding and the cache store against the stated products and sums.

use engine::kernels::{KvType, PAGE, RopeStoreSpec, pad};

use crate::arith::{Gpu, add, mul, narrow, sub, widen};
use crate::data::{Rng, e4m3};
use crate::rig::{In, InOut, Out, U32, Words, launch, u16s};

/// What a page holds where nothing was stored.
const STALE: u16 = 0x7fc1;

#[test]
fn queries_and_keys_turn_and_values_are_stored() {
    let mut rng = Rng::new(30);
    let gpu = Gpu::named("sm_90");
    for (q_heads, kv_heads, head_dim) in [(8, 4, 8), (6, 2, 32), (3, 3, 40), (9, 3, 64), (2, 1, 128)] {
        for anything in [false, true] {
            let head_pad = pad(head_dim);
            let (d, p) = (head_dim as usize, head_pad as usize);
            let (rows, pages, max_pos) = (37u32, 5u32, 300u32);
            let heads = (q_heads + 2 * kv_heads) as usize;
            let count = rows as usize * heads * p;
            let qkv = if anything { rng.anything(count) } else { rng.activations(count) };
            let mut table = || -> Vec<u32> { (0..max_pos * head_dim / 2).map(|_| rng.normal().to_bits()).collect() };
            let (cos, sin) = (table(), table());
            let positions: Vec<u32> = (0..rows).map(|_| rng.below(max_pos)).collect();
            // Distinct slots in no order.
            let mut slots: Vec<u32> = (0..pages * PAGE).collect();
            for i in (1..slots.len()).rev() {
                slots.swap(i, rng.below(i as u32 + 1) as usize);
            }
            slots.truncate(rows as usize);

            let cache = vec![STALE; (pages * kv_heads * PAGE) as usize * p];
            let (mut want_q, mut want_k, mut want_v) = (Vec::new(), cache.clone(), cache.clone());
            for (row, line) in qkv.chunks_exact(heads * p).enumerate() {
                let at = positions[row] as usize * d / 2;
                let (cos, sin) = (&cos[at..at + d / 2], &sin[at..at + d / 2]);
                for (head, x) in line.chunks_exact(p).enumerate() {
                    let (lo, hi): (Vec<u32>, Vec<u32>) = (0..d / 2).map(|i| (widen(x[i]), widen(x[i + d / 2]))).unzip();
                    let mut turned = vec![0; p];
                    for i in 0..d / 2 {
                        turned[i] = narrow(sub(mul(lo[i], cos[i]), mul(hi[i], sin[i])));
                        turned[i + d / 2] = narrow(add(mul(hi[i], cos[i]), mul(lo[i], sin[i])));
                    }
                    let mut copied = x[..d].to_vec();
                    copied.resize(p, 0);
                    let (q_heads, kv_heads) = (q_heads as usize, kv_heads as usize);
                    if head < q_heads {
                        want_q.extend(turned);
                        continue;
                    }
                    let kv_head = (head - q_heads) % kv_heads;
                    let (page, offset) = ((slots[row] / PAGE) as usize, (slots[row] % PAGE) as usize);
                    let place = ((page * kv_heads + kv_head) * PAGE as usize + offset) * p;
                    if head < q_heads + kv_heads {
                        want_k[place..place + p].copy_from_slice(&turned);
                    } else {
                        want_v[place..place + p].copy_from_slice(&copied);
                    }
                }
            }
            for kv in KvType::ALL {
                let stored = |values: &[u16]| match kv {
                    KvType::Bf16 => values.to_vec().bytes(),
                    KvType::Fp8 => values.iter().map(|v| e4m3(*v)).collect(),
                };
                let before = stored(&cache);
                let spec = RopeStoreSpec { q_heads, kv_heads, head_dim, head_pad, kv };
                let args = [
                    In(&qkv),
                    In(&cos),
                    In(&sin),
                    In(&positions),
                    In(&slots),
                    InOut(&before),
                    InOut(&before),
                    Out(rows * q_heads * head_pad * 2),
                    U32(rows),
                ];
                let out = launch(&gpu, &spec.build(), spec.grid(rows), &args);
                let what = format!("{q_heads}/{kv_heads} heads of {head_dim}, {kv:?}");
                assert_eq!(u16s(&out[2]), want_q, "q, {what}");
                assert_eq!(out[0], stored(&want_k), "keys, {what}");
                assert_eq!(out[1], stored(&want_v), "values, {what}");
            }
        }
    }
}

/// Every bf16 into an fp8 cache, as a value head: no operand is left out.
#[test]
fn every_number_is_stored_as_the_nearest_e4m3() {
    let gpu = Gpu::named("sm_90");
    let (head_dim, rows) = (64, 1024u32);
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let qkv: Vec<u16> = all.chunks_exact(64).flat_map(|v| [vec![0; 128], v.to_vec()].concat()).collect();
    let tables = vec![0u32; 32];
    let (positions, slots): (Vec<u32>, Vec<u32>) = (vec![0; rows as usize], (0..rows).collect());
    let cache = vec![0u8; (rows * head_dim) as usize];
    let spec = RopeStoreSpec { q_heads: 1, kv_heads: 1, head_dim, head_pad: head_dim, kv: KvType::Fp8 };
    let args = [
        In(&qkv),
        In(&tables),
        In(&tables),
        In(&positions),
        In(&slots),
        InOut(&cache),
        InOut(&cache),
        Out(rows * head_dim * 2),
        U32(rows),
    ];
    let out = launch(&gpu, &spec.build(), spec.grid(rows), &args);
    assert_eq!(out[1], all.into_iter().map(e4m3).collect::<Vec<u8>>());
}
