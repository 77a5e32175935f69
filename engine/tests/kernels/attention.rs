//! Attention against a model that knows one row at a time: what other rows share the query tile cannot enter it.

use engine::kernels::{
    AttentionCombineSpec, AttentionSpec, KV_TILE, KvType, PAGE, Q_TILE, TILE_WORDS, pad, scale_log2e,
};

use crate::arith::{Gpu, add, fma, max, mul, narrow, sub};
use crate::data::{Rng, e4m3, from_e4m3, pad_rows, value};
use crate::rig::{In, Out, U32, Words, launch, u16s, u32s};

const NEG_INF: u32 = 0xff80_0000;
const NEGATIVE: u32 = 0x8000_0000;
/// What memory holds that no row may see: a NaN, which would show.
const POISON: u16 = 0x7fc1;

/// Heads of a model.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    pub q: u32,
    pub kv: u32,
    pub dim: u32,
}

pub const HEADS: [Heads; 5] = [
    Heads { q: 2, kv: 1, dim: 8 },
    Heads { q: 3, kv: 1, dim: 32 },
    Heads { q: 2, kv: 2, dim: 40 },
    Heads { q: 2, kv: 1, dim: 64 },
    Heads { q: 1, kv: 1, dim: 128 },
];

/// A request: its keys and values by position, `[position][kv head][head_pad]`, and where its pages lie.
struct Request {
    keys: Vec<u16>,
    values: Vec<u16>,
    pages: Vec<u32>,
}

/// A batch: requests with some of their last positions as rows.
pub struct Batch {
    pub heads: Heads,
    pub pad: usize,
    requests: Vec<Request>,
    /// Request and position of each row.
    pub rows: Vec<(usize, usize)>,
    pub q: Vec<u16>,
    pub tiles: Vec<u32>,
    pub tables: Vec<u32>,
    pub max_pages: usize,
    pub caches: [Vec<u16>; 2],
    pub kv_type: KvType,
}

impl Batch {
    /// `shape`: for each request the position of its first row and its number of rows. `scale`: standard deviation of keys and queries.
    pub fn new(rng: &mut Rng, heads: Heads, shape: &[(usize, usize)], scale: f32) -> Self {
        let (p, page) = (pad(heads.dim) as usize, PAGE as usize);
        let longest = shape.iter().map(|&(start, count)| start + count).max().expect("a request");
        let max_pages = longest.div_ceil(page) + 1;
        let pages = shape.len() * max_pages;
        let mut free: Vec<u32> = (0..pages as u32).collect();
        for i in (1..free.len()).rev() {
            free.swap(i, rng.below(i as u32 + 1) as usize);
        }
        let line = heads.kv as usize * p;
        let empty = vec![POISON; pages * page * line];
        let mut caches = [empty.clone(), empty];
        let (mut requests, mut rows, mut tiles, mut tables) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (slot, &(start, count)) in shape.iter().enumerate() {
            let len = start + count;
            let width = heads.kv as usize * heads.dim as usize;
            let mut some = |scale| {
                let per_head = rng.bf16s(len * width, scale);
                pad_rows(&per_head, heads.dim as usize, p)
            };
            let (keys, values) = (some(scale), some(1.0));
            let own: Vec<u32> = (0..len.div_ceil(page)).map(|_| free.pop().expect("a free page")).collect();
            for (cache, source) in caches.iter_mut().zip([&keys, &values]) {
                for position in 0..len {
                    for head in 0..heads.kv as usize {
                        let place = (own[position / page] as usize * heads.kv as usize + head) * page + position % page;
                        let from = &source[position * line + head * p..][..p];
                        cache[place * p..][..p].copy_from_slice(from);
                    }
                }
            }
            // A page number that is not the request's would be out of bounds.
            let mut table = own.clone();
            table.resize(max_pages, u32::MAX);
            tables.extend(table);
            requests.push(Request { keys, values, pages: own });
            let mut at = start;
            while at < len {
                let covered = (len - at).min(Q_TILE as usize);
                let entry: [u32; TILE_WORDS as usize] = [slot as u32, rows.len() as u32, covered as u32, at as u32];
                tiles.extend(entry);
                rows.extend((at..at + covered).map(|position| (slot, position)));
                at += covered;
            }
        }
        assert!(requests.iter().all(|r| !r.pages.is_empty()));
        let q = rng.bf16s(rows.len() * (heads.q * heads.dim) as usize, scale);
        let q = pad_rows(&q, heads.dim as usize, p);
        let kv_type = KvType::Bf16;
        Self { heads, pad: p, requests, rows, q, tiles, tables, max_pages, caches, kv_type }
    }

    /// The same with keys and values rounded to e4m3.
    pub fn fp8(mut self) -> Self {
        let requests = self.requests.iter_mut().flat_map(|r| [&mut r.keys, &mut r.values]);
        for values in requests.chain(&mut self.caches) {
            values.iter_mut().for_each(|v| *v = from_e4m3(e4m3(*v)));
        }
        Self { kv_type: KvType::Fp8, ..self }
    }

    /// The K (0) or V (1) cache as it lies in memory.
    pub fn cache(&self, which: usize) -> Box<dyn Words> {
        let values = self.caches[which].clone();
        match self.kv_type {
            KvType::Bf16 => Box::new(values),
            KvType::Fp8 => Box::new(values.into_iter().map(e4m3).collect::<Vec<u8>>()),
        }
    }

    pub fn q(&self, row: usize, head: usize) -> &[u16] {
        &self.q[(row * self.heads.q as usize + head) * self.pad..][..self.pad]
    }

    /// Key (0) or value (1) of a position.
    pub fn kv(&self, which: usize, request: usize, position: usize, q_head: usize) -> &[u16] {
        let head = q_head / (self.heads.q / self.heads.kv) as usize;
        let source = [&self.requests[request].keys, &self.requests[request].values][which];
        &source[(position * self.heads.kv as usize + head) * self.pad..][..self.pad]
    }

    pub fn tile_count(&self) -> u32 {
        self.tiles.len() as u32 / TILE_WORDS
    }

    /// Number of KV tiles of the query tile that holds a row.
    fn kv_tiles(&self, row: usize) -> usize {
        let tile =
            self.tiles.chunks_exact(TILE_WORDS as usize).rfind(|t| t[1] as usize <= row).expect("rows start at 0");
        (tile[3] + tile[2]).div_ceil(KV_TILE) as usize
    }
}

/// The state of one row and head after some KV tiles.
struct RowState {
    m: u32,
    l: [u32; 4],
    o: Vec<u32>,
}

impl RowState {
    fn sum(&self) -> u32 {
        add(add(self.l[0], self.l[2]), add(self.l[1], self.l[3]))
    }
}

/// One row and head over KV tiles `from..to`, the row being the only one there is.
fn walk(gpu: &Gpu, batch: &Batch, row: usize, head: usize, from: usize, to: usize) -> RowState {
    let (request, position) = batch.rows[row];
    let (tile, p) = (KV_TILE as usize, batch.pad);
    let c = scale_log2e(batch.heads.dim).to_bits();
    let mut state = RowState { m: NEG_INF, l: [0; 4], o: vec![0; p] };
    for first in (from..to).map(|t| t * tile).filter(|&first| first <= position) {
        let seen = |j: usize| first + j <= position;
        let q = batch.q(row, head);
        let score = |j: usize| {
            if !seen(j) {
                return NEG_INF;
            }
            let k = batch.kv(0, request, first + j, head);
            (0..p / 16).fold(0, |acc, b| gpu.mma(&q[16 * b..][..16], &k[16 * b..][..16], acc))
        };
        let s: Vec<u32> = (0..tile).map(score).collect();
        let m = s.iter().fold(state.m, |m, &s| max(m, s));
        let a = gpu.ex2(mul(sub(state.m, m), c));
        let shift = mul(m, c) ^ NEGATIVE;
        let prob: Vec<u32> = s.iter().map(|&s| gpu.ex2(fma(s, c, shift))).collect();
        for (t, l) in state.l.iter_mut().enumerate() {
            let mut own = (0..tile).filter(|j| j % 8 / 2 == t);
            *l = fma(*l, a, prob[own.next().expect("columns")]);
            *l = own.fold(*l, |l, j| add(l, prob[j]));
        }
        let prob: Vec<u16> = prob.into_iter().map(narrow).collect();
        for (d, o) in state.o.iter_mut().enumerate() {
            let v: Vec<u16> =
                (0..tile).map(|j| if seen(j) { batch.kv(1, request, first + j, head)[d] } else { 0 }).collect();
            *o = (0..tile / 16).fold(mul(*o, a), |o, b| gpu.mma(&prob[16 * b..][..16], &v[16 * b..][..16], o));
        }
        state.m = m;
    }
    state
}

fn outputs(gpu: &Gpu, state: &RowState) -> Vec<u16> {
    let inverse = gpu.rcp(state.sum());
    state.o.iter().map(|&o| narrow(mul(o, inverse))).collect()
}

fn spec(batch: &Batch, partial: bool) -> AttentionSpec {
    let Heads { q, kv, dim } = batch.heads;
    AttentionSpec { q_heads: q, kv_heads: kv, head_dim: dim, head_pad: pad(dim), partial, kv: batch.kv_type }
}

/// Runs the unsplit kernel.
fn run(gpu: &Gpu, batch: &Batch) -> Vec<u16> {
    let (spec, caches) = (spec(batch, false), [batch.cache(0), batch.cache(1)]);
    let rows = batch.rows.len() as u32;
    let args = [
        In(&batch.q),
        In(&*caches[0]),
        In(&*caches[1]),
        In(&batch.tiles),
        In(&batch.tables),
        Out(rows * batch.heads.q * batch.pad as u32 * 2),
        U32(rows),
        U32(batch.tile_count()),
        U32(batch.max_pages as u32),
    ];
    u16s(&launch(gpu, &spec.build(), spec.grid(batch.tile_count(), 1), &args)[0])
}

/// Runs the split kernel: output, maximum, sum.
fn run_split(gpu: &Gpu, batch: &Batch, splits: u32) -> [Vec<u32>; 3] {
    let (spec, caches) = (spec(batch, true), [batch.cache(0), batch.cache(1)]);
    let rows = batch.rows.len() as u32;
    let lines = splits * rows * batch.heads.q;
    let args = [
        In(&batch.q),
        In(&*caches[0]),
        In(&*caches[1]),
        In(&batch.tiles),
        In(&batch.tables),
        Out(lines * batch.pad as u32 * 4),
        Out(lines * 4),
        Out(lines * 4),
        U32(rows),
        U32(batch.tile_count()),
        U32(batch.max_pages as u32),
        U32(splits),
    ];
    let out = launch(gpu, &spec.build(), spec.grid(batch.tile_count(), splits), &args);
    [u32s(&out[0]), u32s(&out[1]), u32s(&out[2])]
}

fn run_combine(gpu: &Gpu, batch: &Batch, [o, m, l]: &[Vec<u32>; 3], splits: u32) -> Vec<u16> {
    let spec = AttentionCombineSpec { q_heads: batch.heads.q, head_dim: batch.heads.dim, head_pad: batch.pad as u32 };
    let rows = batch.rows.len() as u32;
    let bytes = rows * batch.heads.q * batch.pad as u32 * 2;
    let args = [In(o), In(m), In(l), Out(bytes), U32(rows), U32(splits)];
    u16s(&launch(gpu, &spec.build(), spec.grid(rows), &args)[0])
}

/// Decode steps, prefills that start at zero and later, tiles that end inside, at and beyond the edges of KV tiles and pages.
pub const SHAPES: [&[(usize, usize)]; 3] =
    [&[(0, 1), (31, 1), (32, 1), (70, 1)], &[(0, 21), (40, 16)], &[(25, 18), (63, 2), (15, 17), (0, 3)]];

#[test]
fn every_row_has_the_bits_it_would_have_alone() {
    let mut rng = Rng::new(40);
    for gpu in Gpu::all() {
        for heads in HEADS {
            // Ordinary scores; nearly equal ones; one that leaves nothing to the others, so that old sums fade to nothing.
            for (shape, scale) in SHAPES.into_iter().zip([1.5, 0.01, 40.0]) {
                let batch = Batch::new(&mut rng, heads, shape, scale);
                let fp8 = Batch::new(&mut rng, heads, shape, scale).fp8();
                for batch in [batch, fp8] {
                    let mut want = Vec::new();
                    for row in 0..batch.rows.len() {
                        for head in 0..heads.q as usize {
                            want.extend(outputs(&gpu, &walk(&gpu, &batch, row, head, 0, batch.kv_tiles(row))));
                        }
                    }
                    let kv = batch.kv_type;
                    assert_eq!(run(&gpu, &batch), want, "{} {heads:?} {shape:?} {kv:?}", gpu.profile.name);
                }
            }
        }
    }
}

#[test]
fn splits_and_their_merge_are_the_stated_steps() {
    let mut rng = Rng::new(41);
    for gpu in Gpu::all() {
        for (i, (heads, shape)) in
            HEADS.into_iter().zip([SHAPES[0], SHAPES[2], SHAPES[1], SHAPES[2], SHAPES[0]]).enumerate()
        {
            let batch = Batch::new(&mut rng, heads, shape, 1.5);
            let batch = if i % 2 == 1 { batch.fp8() } else { batch };
            let c = scale_log2e(heads.dim).to_bits();
            // More splits than tiles too: some are empty for every row, others for early rows only.
            for splits in [1, 2, 3, 4] {
                let (mut o, mut m, mut l) = (Vec::new(), Vec::new(), Vec::new());
                for split in 0..splits {
                    for row in 0..batch.rows.len() {
                        let tiles = batch.kv_tiles(row);
                        let per = tiles.div_ceil(splits);
                        let (from, to) = ((split * per).min(tiles), ((split + 1) * per).min(tiles));
                        for head in 0..heads.q as usize {
                            let state = walk(&gpu, &batch, row, head, from, to);
                            m.push(state.m);
                            l.push(state.sum());
                            o.extend(state.o);
                        }
                    }
                }
                let what = format!("{} {heads:?} {shape:?} {splits} splits", gpu.profile.name);
                let got = run_split(&gpu, &batch, splits as u32);
                assert_eq!(got[1], m, "maxima, {what}");
                assert_eq!(got[2], l, "sums, {what}");
                assert_eq!(got[0], o, "outputs, {what}");

                let lines = batch.rows.len() * heads.q as usize;
                let mut want = Vec::new();
                for line in 0..lines {
                    let at = |split: usize| split * lines + line;
                    let top = (0..splits).fold(NEG_INF, |top, s| max(top, m[at(s)]));
                    let w: Vec<u32> = (0..splits).map(|s| gpu.ex2(mul(sub(m[at(s)], top), c))).collect();
                    let sum = (1..splits).fold(mul(l[at(0)], w[0]), |sum, s| fma(l[at(s)], w[s], sum));
                    let inverse = gpu.rcp(sum);
                    for d in 0..batch.pad {
                        let part = |s: usize| o[at(s) * batch.pad + d];
                        let o = (1..splits).fold(mul(part(0), w[0]), |o, s| fma(part(s), w[s], o));
                        want.push(narrow(mul(o, inverse)));
                    }
                }
                let merged = run_combine(&gpu, &batch, &got, splits as u32);
                assert_eq!(merged, want, "merged, {what}");
                if splits == 1 {
                    assert_eq!(merged, run(&gpu, &batch), "one split is no split, {what}");
                }
            }
        }
    }
}

/// The mathematics: softmax(q k / sqrt(d)) v in f64, and that no later key has a say.
#[test]
fn attention_is_a_causal_softmax() {
    let gpu = Gpu::named("sm_90");
    causal_softmax(|batch| run(&gpu, batch), 0.01);
}

/// Whether a kernel gives the softmax to within a part of the sum of sizes.
pub fn causal_softmax(run: impl Fn(&Batch) -> Vec<u16>, slack: f64) {
    let mut rng = Rng::new(42);
    for heads in HEADS {
        let batch = Batch::new(&mut rng, heads, &[(30, 20), (0, 5), (90, 1)], 1.5);
        let got = run(&batch);
        for (row, &(request, position)) in batch.rows.iter().enumerate() {
            for head in 0..heads.q as usize {
                let dot = |a: &[u16], b: &[u16]| a.iter().zip(b).map(|(&a, &b)| value(a) * value(b)).sum::<f64>();
                let scale = 1.0 / f64::from(heads.dim).sqrt();
                let s: Vec<f64> =
                    (0..=position).map(|j| scale * dot(batch.q(row, head), batch.kv(0, request, j, head))).collect();
                let top = s.iter().copied().fold(f64::MIN, f64::max);
                let p: Vec<f64> = s.iter().map(|s| libm::exp(s - top)).collect();
                let total: f64 = p.iter().sum();
                for d in 0..batch.pad {
                    let v = |j: usize| value(batch.kv(1, request, j, head)[d]);
                    let exact: f64 = p.iter().enumerate().map(|(j, p)| p * v(j)).sum::<f64>() / total;
                    let size: f64 = p.iter().enumerate().map(|(j, p)| p * v(j).abs()).sum::<f64>() / total;
                    let y = value(got[(row * heads.q as usize + head) * batch.pad + d]);
                    // Probabilities and the result are rounded to bf16.
                    assert!((y - exact).abs() <= slack * size, "row {row}, head {head}, column {d}: {y}, not {exact}");
                }
            }
        }
    }
}
