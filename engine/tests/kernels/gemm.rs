//! GEMM and split-K against one reference dot-add a 16-block, in ascending order.

use engine::kernels::{GemmOut, GemmSpec, GemmTile, PAD, SplitKReduceSpec, Stream, Units};

use crate::arith::{Gpu, add, narrow};
use crate::data::{Rng, value};
use crate::rig::{In, InOut, Out, U32, launch, u16s, u32s};

const TILES: [GemmTile; 3] = GemmTile::ALL;

/// `x[rows, k] w[n, k]^T` over 16-blocks `from..to` of `k`: f32 bits, `[rows, n]`.
pub fn model(gpu: &Gpu, x: &[u16], w: &[u16], k: usize, (from, to): (usize, usize)) -> Vec<u32> {
    let block = PAD as usize;
    let mut y = Vec::new();
    for x in x.chunks_exact(k) {
        for w in w.chunks_exact(k) {
            let step = |acc, b: usize| gpu.mma(&x[b * block..][..block], &w[b * block..][..block], acc);
            y.push((from..to).fold(0, step));
        }
    }
    y
}

pub fn inputs(rng: &mut Rng, kind: usize, rows: u32, n: u32, k: u32) -> (Vec<u16>, Vec<u16>) {
    let (x, w) = ((rows * k) as usize, (n * k) as usize);
    match kind {
        0 => (rng.activations(x), rng.bf16s(w, 0.05)),
        1 => (rng.spread(x, 12, 12), rng.spread(w, 12, 12)),
        _ => (rng.anything(x), rng.bf16s(w, 1.0)),
    }
}

/// Rows, output width, depth: single blocks, ragged edges in every direction, more than one block of each kind.
pub const SHAPES: [(u32, u32, u32); 7] =
    [(1, 16, 16), (16, 64, 64), (17, 80, 48), (5, 144, 208), (33, 112, 80), (64, 64, 128), (70, 48, 272)];

#[test]
fn every_output_is_the_reference_walk() {
    let mut rng = Rng::new(1);
    for gpu in Gpu::all() {
        for (i, (rows, n_pad, k_pad)) in SHAPES.into_iter().enumerate() {
            let (x, w) = inputs(&mut rng, i % 3, rows, n_pad, k_pad);
            let want = model(&gpu, &x, &w, k_pad as usize, (0, (k_pad / PAD) as usize));
            for tile in TILES {
                let what = format!("{} {tile:?} {rows}x{n_pad}x{k_pad}", gpu.profile.name);
                let spec = GemmSpec { n_pad, k_pad, tile, out: GemmOut::F32, units: Units::Special };
                let args = [In(&x), In(&w), Out(rows * n_pad * 4), U32(rows)];
                let y = launch(&gpu, &spec.build(), spec.grid(rows, 1), &args);
                assert_eq!(u32s(&y[0]), want, "{what} f32");
                let spec = GemmSpec { out: GemmOut::Bf16, ..spec };
                let args = [In(&x), In(&w), Out(rows * n_pad * 2), U32(rows)];
                let y = launch(&gpu, &spec.build(), spec.grid(rows, 1), &args);
                assert_eq!(u16s(&y[0]), want.iter().map(|&v| narrow(v)).collect::<Vec<_>>(), "{what} bf16");
            }
        }
    }
}

#[test]
fn slices_and_their_sum_are_the_reference() {
    let mut rng = Rng::new(2);
    for gpu in Gpu::all() {
        for (rows, n_pad, k_pad) in [(3, 80, 112), (18, 64, 256)] {
            let (x, w) = inputs(&mut rng, 0, rows, n_pad, k_pad);
            let blocks = (k_pad / PAD) as usize;
            // More slices than blocks too: the last ones are empty.
            for splits in [1, 2, 3, 5, 9] {
                let per = blocks.div_ceil(splits);
                let cuts = (0..splits).map(|s| ((s * per).min(blocks), ((s + 1) * per).min(blocks)));
                let parts: Vec<Vec<u32>> = cuts.map(|cut| model(&gpu, &x, &w, k_pad as usize, cut)).collect();
                let splits = splits as u32;
                for tile in TILES {
                    let spec = GemmSpec { n_pad, k_pad, tile, out: GemmOut::Partial, units: Units::Special };
                    let args = [In(&x), In(&w), Out(splits * rows * n_pad * 4), U32(rows), U32(splits)];
                    let ws = launch(&gpu, &spec.build(), spec.grid(rows, splits), &args);
                    assert_eq!(u32s(&ws[0]), parts.concat(), "{} {tile:?} {splits} slices", gpu.profile.name);
                }
                let sum = |i: usize| parts[1..].iter().fold(parts[0][i], |sum, part| add(sum, part[i]));
                let want: Vec<u32> = (0..parts[0].len()).map(sum).collect();
                let ws: Vec<u32> = parts.concat();
                for f32_out in [false, true] {
                    let spec = SplitKReduceSpec { n_pad, f32_out, stream: None };
                    let bytes = rows * n_pad * if f32_out { 4 } else { 2 };
                    let args = [In(&ws), Out(bytes), U32(rows), U32(splits)];
                    let y = launch(&gpu, &spec.build(), spec.grid(rows), &args);
                    if f32_out {
                        assert_eq!(u32s(&y[0]), want, "{splits} slices");
                    } else {
                        assert_eq!(u16s(&y[0]), want.iter().map(|&v| narrow(v)).collect::<Vec<_>>(), "{splits} slices");
                    }
                }
            }
        }
    }
}

/// Segments and their sum, by the cuts that the division states; a column knows its own tile's alone.
#[test]
fn streams_and_their_sum_are_the_reference() {
    let mut rng = Rng::new(4);
    for gpu in Gpu::all() {
        for (rows, n_pad, k_pad) in [(3, 80, 112), (18, 192, 272), (1, 64, 16)] {
            let (x, w) = inputs(&mut rng, 0, rows, n_pad, k_pad);
            for workers in [1, 2, 3, 5, 9, 60] {
                let stream = Stream::new(n_pad, k_pad, workers);
                let (columns, lines) = (n_pad as usize, (rows * n_pad) as usize);
                // By segment; what a column does not have keeps what was there.
                let mut parts = vec![vec![0xa5a5_a5a5_u32; lines]; stream.segments() as usize];
                let mut want = vec![0; lines];
                for column in 0..columns {
                    let line = &w[column * k_pad as usize..][..k_pad as usize];
                    let cuts = stream.cuts(column as u32);
                    let cuts = cuts.into_iter().map(|cut| (cut.start as usize, cut.end as usize));
                    let of: Vec<Vec<u32>> = cuts.map(|cut| model(&gpu, &x, line, k_pad as usize, cut)).collect();
                    for row in 0..rows as usize {
                        let at = row * columns + column;
                        of.iter().zip(&mut parts).for_each(|(of, part)| part[at] = of[row]);
                        want[at] = of[1..].iter().fold(of[0][row], |sum, part| add(sum, part[row]));
                    }
                }
                for tile in TILES {
                    let spec = GemmSpec { n_pad, k_pad, tile, out: GemmOut::Stream, units: Units::Special };
                    let ws = vec![0xa5a5_a5a5_u32; lines * stream.segments() as usize];
                    let args = [In(&x), In(&w), InOut(&ws), U32(rows), U32(workers)];
                    let ws = launch(&gpu, &spec.build(), spec.grid(rows, workers), &args);
                    assert_eq!(u32s(&ws[0]), parts.concat(), "{} {tile:?} {workers} workers", gpu.profile.name);
                }
                let ws: Vec<u32> = parts.concat();
                for f32_out in [false, true] {
                    let spec = SplitKReduceSpec { n_pad, f32_out, stream: Some(k_pad) };
                    let bytes = rows * n_pad * if f32_out { 4 } else { 2 };
                    let args = [In(&ws), Out(bytes), U32(rows), U32(workers)];
                    let y = launch(&gpu, &spec.build(), spec.grid(rows), &args);
                    if f32_out {
                        assert_eq!(u32s(&y[0]), want, "{workers} workers");
                    } else {
                        assert_eq!(u16s(&y[0]), want.iter().map(|&v| narrow(v)).collect::<Vec<_>>());
                    }
                }
            }
        }
    }
}

/// The mathematics: within the truncation error of the walk of the product in f64.
#[test]
fn the_product_is_a_matrix_product() {
    let mut rng = Rng::new(3);
    let gpu = Gpu::named("sm_90");
    let (rows, n_pad, k_pad) = (21, 80, 304);
    let (x, w) = inputs(&mut rng, 0, rows, n_pad, k_pad);
    let spec = GemmSpec { n_pad, k_pad, tile: GemmTile::for_rows(rows), out: GemmOut::F32, units: Units::Special };
    let args = [In(&x), In(&w), Out(rows * n_pad * 4), U32(rows)];
    let y = launch(&gpu, &spec.build(), spec.grid(rows, 1), &args);
    for (i, y) in u32s(&y[0]).into_iter().enumerate() {
        let (row, col) = (i / n_pad as usize, i % n_pad as usize);
        let (x, w) = (&x[row * k_pad as usize..][..k_pad as usize], &w[col * k_pad as usize..][..k_pad as usize]);
        let terms = || x.iter().zip(w).map(|(&x, &w)| value(x) * value(w));
        let (exact, size): (f64, f64) = (terms().sum(), terms().map(f64::abs).sum());
        let error = (f64::from(f32::from_bits(y)) - exact).abs();
        // 19 steps, each losing less than 17 units of 2^-24 of the largest magnitude.
        assert!(
            error <= size * 19.0 * 17.0 / f64::from(1 << 24),
            "row {row}, column {col}: off by {error:e} of {size:e}"
        );
    }
}
