//! Rotary embedding and the cache store against the stated products and sums.

use engine::kernels::{PAGE, RopeStoreSpec, pad};

use crate::arith::{Gpu, add, mul, narrow, sub, widen};
use crate::data::Rng;
use crate::rig::{In, InOut, Out, U32, launch, u16s};

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
            let spec = RopeStoreSpec { q_heads, kv_heads, head_dim, head_pad };
            let args = [
                In(&qkv),
                In(&cos),
                In(&sin),
                In(&positions),
                In(&slots),
                InOut(&cache),
                InOut(&cache),
                Out(rows * q_heads * head_pad * 2),
                U32(rows),
            ];
            let out = launch(&gpu, &spec.build(), spec.grid(rows), &args);
            assert_eq!(u16s(&out[2]), want_q, "q, {q_heads}/{kv_heads} heads of {head_dim}");
            assert_eq!(u16s(&out[0]), want_k, "keys, {q_heads}/{kv_heads} heads of {head_dim}");
            assert_eq!(u16s(&out[1]), want_v, "values, {q_heads}/{kv_heads} heads of {head_dim}");
        }
    }
}
