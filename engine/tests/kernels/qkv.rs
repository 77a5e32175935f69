//! Biases and norms of heads against their stated order of operations.

use engine::kernels::{BiasSpec, HeadNormSpec, Units, pad};

use crate::arith::{Gpu, add, narrow, widen};
use crate::data::{Rng, pad_rows};
use crate::rig::{In, InOut, U32, launch, u16s};
use crate::rows::rmsnorm_model;

#[test]
fn a_bias_is_added_to_every_row_in_place() {
    let mut rng = Rng::new(40);
    let gpu = Gpu::named("sm_90");
    for (rows, width) in [(1, 16), (9, 48), (40, 208)] {
        for anything in [false, true] {
            let mut some = |count| if anything { rng.anything(count) } else { rng.activations(count) };
            let (x, b) = (some((rows * width) as usize), some(width as usize));
            let want: Vec<u16> =
                x.iter().zip(b.iter().cycle()).map(|(&x, &b)| narrow(add(widen(x), widen(b)))).collect();
            let spec = BiasSpec { width };
            let args = [InOut(&x), In(&b), U32(rows)];
            assert_eq!(u16s(&launch(&gpu, &spec.build(), spec.grid(rows), &args)[0]), want);
        }
    }
}

#[test]
fn heads_are_normalised_one_by_one_and_v_stays() {
    let mut rng = Rng::new(41);
    let eps = 1e-6_f32.to_bits();
    for gpu in Gpu::all() {
        for (rows, q_heads, kv_heads, head_dim) in [(1, 1, 1, 8), (3, 4, 2, 40), (2, 3, 1, 128), (1, 2, 2, 256)] {
            let (dim, head_pad) = (head_dim as usize, pad(head_dim));
            let heads = (q_heads + 2 * kv_heads) as usize;
            let mut x = rng.activations(rows as usize * heads * dim);
            // A head of zeros: r is 1/sqrt(eps).
            x[..dim].fill(0);
            let x = pad_rows(&x, dim, head_pad as usize);
            let weights = [0, 1].map(|_| pad_rows(&rng.bf16s(dim, 1.0), dim, head_pad as usize));
            let normed = |units| {
                let (gpu, weights) = (&gpu, &weights);
                move |(i, head): (usize, &[u16])| match (i % heads) as u32 {
                    h if h < q_heads => rmsnorm_model(gpu, units, head, &weights[0], dim, eps),
                    h if h < q_heads + kv_heads => rmsnorm_model(gpu, units, head, &weights[1], dim, eps),
                    _ => head.to_vec(),
                }
            };
            for units in [Units::Special, Units::Ieee] {
                let want: Vec<u16> = x.chunks_exact(head_pad as usize).enumerate().flat_map(normed(units)).collect();
                let spec = HeadNormSpec { q_heads, kv_heads, head_dim, head_pad, eps, units };
                let args = [InOut(&x), In(&weights[0]), In(&weights[1]), U32(rows)];
                let y = u16s(&launch(&gpu, &spec.build(), spec.grid(rows), &args)[0]);
                assert_eq!(y, want, "{} {units:?} {rows} rows of {heads} heads of {head_dim}", gpu.profile.name);
            }
        }
    }
}
