//! Rotary embedding, attention and the merge of its parts, over a paged cache.

use super::{Argument, Case};
use crate::conformance::data::{Rng, bytes16, bytes32, padded};
use crate::kernels::{
    AttentionCombineSpec, AttentionSpec, ChainAttentionSpec, KernelText, KvType, PAGE, Q_TILE, RopeStoreSpec,
    TILE_WORDS, pad,
};
use Argument::{In, InOut, Out, U32};

/// Query heads, key/value heads, head width.
const HEADS: [(u32, u32, u32); 4] = [(3, 1, 32), (2, 2, 40), (4, 2, 64), (2, 1, 128)];
/// For each request the position of its first row and its number of rows: decode, prefill from zero and from within, borders of tiles.
const SHAPES: [&[(u32, u32)]; 3] =
    [&[(0, 1), (31, 1), (32, 1), (70, 1)], &[(0, 21), (40, 16)], &[(25, 18), (63, 2), (15, 17), (0, 3)]];

fn case(what: String, kernel: KernelText, grid: [u32; 3], args: Vec<Argument>) -> Case {
    Case { what: format!("{} {what}", kernel.name), kernel, grid, args }
}

pub(super) fn cases() -> Vec<Case> {
    let mut rng = Rng::new(0x6174_746e);
    let mut out = Vec::new();
    for heads in HEADS {
        rope(&mut out, &mut rng, heads);
        // Ordinary scores, nearly equal ones, and ones of which the largest leaves nothing to the others.
        for (shape, scale) in SHAPES.into_iter().zip([1.5, 0.01, 40.0]) {
            attention(&mut out, &mut rng, heads, shape, scale);
        }
    }
    out
}

fn rope(out: &mut Vec<Case>, rng: &mut Rng, (q_heads, kv_heads, head_dim): (u32, u32, u32)) {
    let (rows, pages, max_pos) = (19, 3, 100);
    let head_pad = pad(head_dim);
    let heads = q_heads + 2 * kv_heads;
    for (any, kv) in [false, true].into_iter().flat_map(|any| KvType::ALL.map(|kv| (any, kv))) {
        let count = (rows * heads * head_dim) as usize;
        let qkv = if any { rng.any16(count) } else { rng.bf16s(count, 1.0) };
        let qkv = padded(&qkv, head_dim as usize, head_pad as usize);
        let mut table = || bytes32(&rng.f32s((max_pos * head_dim / 2) as usize, 0.7));
        let (cos, sin) = (table(), table());
        let positions: Vec<u32> = (0..rows).map(|_| rng.below(max_pos)).collect();
        let mut slots = rng.shuffled(pages * PAGE);
        slots.truncate(rows as usize);
        let cache = vec![0x7f; (pages * kv_heads * PAGE * head_pad * kv.bytes()) as usize];
        let spec = RopeStoreSpec { q_heads, kv_heads, head_dim, head_pad, kv };
        let args = vec![
            In(bytes16(&qkv)),
            In(cos),
            In(sin),
            In(bytes32(&positions)),
            In(bytes32(&slots)),
            InOut(cache.clone()),
            InOut(cache),
            Out((rows * q_heads * head_pad) as usize, 2),
            U32(rows),
        ];
        let kind = if any { ", any bits" } else { "" };
        let what = format!("{rows} rows of {q_heads}/{kv_heads} heads of {head_dim}, {}{kind}", kv.name());
        out.push(case(what, spec.build(), spec.grid(rows), args));
    }
}

/// bf16 rows of heads, padded.
fn heads(rng: &mut Rng, (count, head_dim): (u32, u32), scale: f32) -> Vec<u16> {
    let values = rng.bf16s((count * head_dim) as usize, scale);
    padded(&values, head_dim as usize, pad(head_dim) as usize)
}

fn attention(
    out: &mut Vec<Case>,
    rng: &mut Rng,
    (q_heads, kv_heads, head_dim): (u32, u32, u32),
    shape: &[(u32, u32)],
    scale: f32,
) {
    let head_pad = pad(head_dim);
    let max_pages = shape.iter().map(|(start, count)| (start + count).div_ceil(PAGE)).max().unwrap_or(0) + 1;
    let pages = shape.len() as u32 * max_pages;
    let numbers = rng.shuffled(pages);
    let (mut tiles, mut rows) = (Vec::new(), 0);
    for (slot, &(start, count)) in (0u32..).zip(shape) {
        let mut at = start;
        while at < start + count {
            let covered = (start + count - at).min(Q_TILE);
            let entry: [u32; TILE_WORDS as usize] = [slot, rows, covered, at];
            tiles.extend(entry);
            (rows, at) = (rows + covered, at + covered);
        }
    }
    let tile_count = tiles.len() as u32 / TILE_WORDS;
    let width = (rows * q_heads * head_pad) as usize;
    let lines = (rows * q_heads) as usize;
    let splits = 3;
    for kv in KvType::ALL {
        let mut common = || {
            let cache = pages * PAGE * kv_heads;
            let q = In(bytes16(&heads(rng, (rows * q_heads, head_dim), scale)));
            let [k, v] = [scale, 1.0].map(|scale| match kv {
                KvType::Bf16 => In(bytes16(&heads(rng, (cache, head_dim), scale))),
                // Any number but the NaNs.
                KvType::Fp8 => In((0..cache * head_pad).map(|_| (rng.below(2) << 7 | rng.below(0x7f)) as u8).collect()),
            });
            vec![q, k, v, In(bytes32(&tiles)), In(bytes32(&numbers))]
        };
        let what = |more: &str| {
            let kv = kv.name();
            format!("{} requests, {rows} rows, {q_heads}/{kv_heads} heads of {head_dim}, {kv}{more}", shape.len())
        };
        let spec = AttentionSpec { q_heads, kv_heads, head_dim, head_pad, partial: false, kv };
        let mut args = common();
        args.extend([Out(width, 2), U32(rows), U32(tile_count), U32(max_pages)]);
        out.push(case(what(""), spec.build(), spec.grid(tile_count, 1), args));
        let chain = ChainAttentionSpec { q_heads, kv_heads, head_dim, head_pad, kv };
        let largest = tiles.chunks(TILE_WORDS as usize).map(|tile| tile[2]).max().unwrap_or(1);
        let mut args = common();
        args.extend([Out(width, 2), U32(rows), U32(tile_count), U32(max_pages)]);
        out.push(case(what(""), chain.build(), chain.grid(tile_count, largest), args));
        let spec = AttentionSpec { partial: true, ..spec };
        let mut args = common();
        let parts = |n: usize| Out(splits as usize * n, 4);
        args.extend([parts(width), parts(lines), parts(lines)]);
        args.extend([U32(rows), U32(tile_count), U32(max_pages), U32(splits)]);
        out.push(case(what(", in 3 parts"), spec.build(), spec.grid(tile_count, splits), args));
    }
    // Parts as attention leaves them: sums of a few keys beside maxima of both signs, and a part without keys.
    let o = rng.f32s(splits as usize * width, 2.0);
    let mut m = rng.f32s(splits as usize * lines, 5.0);
    let mut l: Vec<u32> = (0..splits as usize * lines).map(|_| (1.0 + rng.normal().abs()).to_bits()).collect();
    let empty = 2 * lines..3 * lines;
    m[empty.clone()].fill(f32::NEG_INFINITY.to_bits());
    l[empty].fill(0);
    let combine = AttentionCombineSpec { q_heads, head_dim, head_pad };
    let args = vec![In(bytes32(&o)), In(bytes32(&m)), In(bytes32(&l)), Out(width, 2), U32(rows), U32(splits)];
    out.push(case(format!("{rows} rows, {q_heads} heads of {head_dim}"), combine.build(), combine.grid(rows), args));
}
