//! The product of a profile: which instruction, which kernel, which thread.

use super::decode::{self, Few, HALVES};
use super::element::min_field;
use super::rows::{Rows, TALL};
use super::spec::{Mutation, Spec};
use super::tile::{self, GROUPS, Scratch, Tiles};
use super::weights::{Line, PAD, PANEL, Weights};
use crate::Error;
use crate::format::Elem;
use crate::mma::{Conversion, Fp8Split, Instruction, Operation, TFdpa};
use crate::profile::Profile;
use crate::simd::Level;
use crate::simd::lanes::{self, Kernel, Lanes};
use crate::threads;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// `D = A B + C` for matrices of any size, with the arithmetic of one matrix instruction of a profile.
///
/// **Bits.** Every output is the chain of the instruction's blocks in ascending K: C of a block is D of the one before, K padded with
/// zeros to whole instructions. The bits are those of [`TFdpa::dot`] on the padded operands, for every input, specials included, on every
/// [`Level`] and number of threads. NaN results are `7fffffff`; a result of zero is `+0`.
///
/// # Examples
/// ```
/// use emulator::format::Elem;
/// use emulator::gemm::{Gemm, Rows, Weights};
/// use emulator::mma::{Instruction, M16N8K16, Types};
/// use emulator::profile::Profile;
///
/// let hopper = Profile::by_name("sm_90").unwrap();
/// let gemm = Gemm::new(hopper, &Instruction::mma(M16N8K16, Types::new(Elem::Bf16, Elem::F32)))?;
/// let one = 0x3f80_u16;
/// let (x, w) = (Rows::pack(Elem::Bf16, 2, 16, &[one; 32])?, Weights::pack(Elem::Bf16, 3, 16, &[one; 48])?);
/// assert_eq!(gemm.run(&x, &w, None)?.d, [0x4180_0000; 6]); // 16
/// # Ok::<(), emulator::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    params: TFdpa,
    /// Element types of A and B, as the instruction names them.
    types: [Elem; 2],
    /// K of the instruction.
    k: usize,
    terms: usize,
    promote: Option<usize>,
    /// Whether FP8 elements are widened to f16 and issued as two steps.
    through_f16: bool,
    level: Level,
    threads: usize,
}

/// What a product gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// Bits of D, f32 or f16 as the instruction has it, `(M, N)` row-major.
    pub d: Vec<u32>,
    /// Steps of sixteen outputs in one block, in all.
    pub steps: u64,
    /// Those that left the fast path.
    pub careful: u64,
}

/// Where results belong that a product hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Which of the ranges of K that were asked for.
    pub range: usize,
    /// Row of the product.
    pub row: usize,
    /// Column of the first result, a multiple of 16; the others follow.
    pub column: usize,
}

/// Some columns of a product, over one range of K.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What [`At::range`] is for its results.
    pub range: usize,
    /// A multiple of 64 first; a multiple of 64 or the last column of all ends them.
    pub columns: Range<usize>,
    /// Elements of K, as [`Gemm::ranges`] takes them.
    pub k: Range<usize>,
}

/// Some tiles of one panel, over one range of K.
struct Job {
    range: usize,
    panel: usize,
    tiles: Range<usize>,
}

/// What a thread keeps from product to product.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// For many rows.
    scratch: Option<Scratch>,
    /// C, then D.
    d: Vec<Line>,
}

impl Gemm {
    /// The product with the arithmetic of `instruction` on `profile`, on one thread and the fastest level of this machine.
    ///
    /// # Errors
    /// [`Error::UnsupportedMma`] if the profile has no such instruction; [`Error::UnsupportedGemm`] unless it is a truncated fused dot-add,
    /// or an FP8 instruction issued as two of f16.
    pub fn new(profile: &Profile, instruction: &Instruction) -> Result<Self, Error> {
        let unsupported = || Error::UnsupportedGemm { profile: profile.name, instruction: instruction.to_string() };
        let k = instruction.shape.k as usize;
        let (params, through_f16) = match profile.mma(instruction)? {
            Operation::TFdpa(params) => (params, false),
            Operation::Fp8ThroughF16(rule) if k == 32 && rule.split == Fp8Split::Pairs && rule.step.max_terms == 16 => {
                (rule.step, true)
            }
            _ => return Err(unsupported()),
        };
        let terms = k.min(params.max_terms);
        let narrow = |elem: Elem| elem.format().width <= 8;
        // Inside the window a floor of f32 results must not matter, nor a user's floor leave the range of the careful path.
        let (accumulator, highest) = match params.conversion {
            Conversion::Rz32 | Conversion::RzE8m13 => (Elem::F32, -101),
            Conversion::Rne16 | Conversion::Rne16Signed => (Elem::F16, 0),
        };
        let covered = params.c == accumulator
            && (1..=25).contains(&params.fraction)
            && matches!(terms, 4 | 8 | 16 | 32)
            && k.is_multiple_of(terms)
            && PAD.is_multiple_of(k)
            // i32 holds 16 products of any elements, and 32 where they are narrow or the unit is large.
            && (terms <= 16 || params.fraction < 24 || narrow(params.a) && narrow(params.b))
            && params.floor.is_none_or(|floor| (-1000..=highest).contains(&floor));
        if !covered {
            return Err(unsupported());
        }
        let types = [instruction.types.a, instruction.types.b];
        let promote = through_f16.then_some(k);
        Ok(Self { params, types, k, terms, promote, through_f16, level: Level::detect(), threads: 1 })
    }

    /// With partial sums, as FP8 kernels with slow accumulation have them: the instructions start from zero at every `every`th element of K,
    /// and an ordinary f32 addition, to nearest even, takes what they come to into the accumulator.
    ///
    /// # Errors
    /// [`Error::GemmOperand`] unless `every` is a multiple of the instruction's K that divides 256, and the accumulators are f32.
    pub fn promoted(self, every: usize) -> Result<Self, Error> {
        let fits = every.is_multiple_of(self.k) && every > 0 && 256_usize.is_multiple_of(every);
        if !fits || self.params.c != Elem::F32 || self.through_f16 {
            let problem = format!("partial sums of {every} products do not fit this instruction");
            return Err(Error::GemmOperand { operand: "accumulators", problem });
        }
        Ok(Self { promote: Some(every), ..self })
    }

    /// On so many threads. They share the outputs, never a sum.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: threads.max(1), ..self }
    }

    /// With these vector instructions.
    #[must_use]
    pub fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// The arithmetic of one step.
    #[must_use]
    pub fn params(&self) -> &TFdpa {
        &self.params
    }

    /// `x w^T + c`; `c` has the bits of D's type, `(M, N)` row-major, `None` for zeros.
    ///
    /// # Errors
    /// [`Error::GemmOperand`], naming the operand whose type or size does not fit.
    pub fn run(&self, x: &Rows, w: &Weights, c: Option<&[u32]>) -> Result<Product, Error> {
        self.with(Mutation::Production, x, w, c)
    }

    /// The products of ranges of K, each from accumulators of zero, as split-K kernels leave them: `out(at, values)` gets the bits of up to
    /// sixteen results of a row, all results once, in any order, on any of the threads. An empty range gives zeros.
    ///
    /// # Errors
    /// [`Error::GemmOperand`], naming the operand whose type or size does not fit; so do ranges that are cut within an instruction.
    pub fn ranges(
        &self,
        x: &Rows,
        w: &Weights,
        ranges: &[Range<usize>],
        out: impl Fn(At, &[u32]) + Sync,
    ) -> Result<(), Error> {
        self.compute(Mutation::Production, x, w, None, &whole(w.n, ranges), &out).map(drop)
    }

    /// As [`Gemm::ranges`], of columns that are not all cut alike, as stream-K kernels leave them. The pieces of some columns should follow each other.
    ///
    /// # Errors
    /// As [`Gemm::ranges`]; and for columns that are cut within 64.
    pub fn pieces(
        &self,
        x: &Rows,
        w: &Weights,
        pieces: &[Piece],
        out: impl Fn(At, &[u32]) + Sync,
    ) -> Result<(), Error> {
        self.compute(Mutation::Production, x, w, None, pieces, &out).map(drop)
    }

    /// `d = x w^T + d` on the calling thread, for many small products; `d` has the bits of D's type, `(M, N)` row-major.
    ///
    /// # Errors
    /// As [`Gemm::run`].
    pub fn accumulate(&self, space: &mut Workspace, x: &Rows, w: &Weights, d: &mut [u32]) -> Result<(), Error> {
        let range = 0..x.k;
        self.check(x, w, Some(&*d), std::slice::from_ref(&range))?;
        let spec = self.spec(Mutation::Production, &range);
        let x = self.arranged(x);
        let columns = if x.few() { PANEL } else { 2 * PANEL };
        for panel in 0..w.n.div_ceil(columns) {
            let job = Job { range: 0, panel, tiles: 0..x.tiles() };
            space.start(&spec, x, w.n, &job, Some(&*d));
            self.job(&spec, x, w, &job, space);
            for (line, at, count) in job.places(x, w.n) {
                d[at.row * w.n + at.column..][..count].copy_from_slice(&space.d[line].0[..count]);
            }
        }
        Ok(())
    }

    pub(super) fn with(&self, mutation: Mutation, x: &Rows, w: &Weights, c: Option<&[u32]>) -> Result<Product, Error> {
        let d: Vec<AtomicU32> = std::iter::repeat_with(AtomicU32::default).take(x.m * w.n).collect();
        let out = |at: At, values: &[u32]| {
            for (to, value) in d[at.row * w.n + at.column..].iter().zip(values) {
                to.store(*value, Relaxed);
            }
        };
        let careful = self.compute(mutation, x, w, c, &whole(w.n, std::slice::from_ref(&(0..x.k))), &out)?;
        let steps = x.m * w.n.div_ceil(16) * (x.k.next_multiple_of(self.k) / self.terms);
        Ok(Product { d: d.into_iter().map(AtomicU32::into_inner).collect(), steps: steps as u64, careful })
    }

    /// Hands out the products and returns how many steps left the fast path.
    fn compute(
        &self,
        mutation: Mutation,
        x: &Rows,
        w: &Weights,
        c: Option<&[u32]>,
        pieces: &[Piece],
        out: &(dyn Fn(At, &[u32]) + Sync),
    ) -> Result<u64, Error> {
        let ranges: Vec<Range<usize>> = pieces.iter().map(|piece| piece.k.clone()).collect();
        self.check(x, w, c, &ranges)?;
        let cut = |column: usize| !column.is_multiple_of(2 * PANEL) && column != w.n;
        if let Some(piece) = pieces.iter().find(|p| cut(p.columns.start) || cut(p.columns.end) || p.columns.end > w.n) {
            let problem = format!("{:?} are no columns of {} in whole steps of {}", piece.columns, w.n, 2 * PANEL);
            return Err(Error::GemmOperand { operand: "columns", problem });
        }
        let x = self.arranged(x);
        let specs: Vec<Spec> = ranges.iter().map(|range| self.spec(mutation, range)).collect();
        let columns = if x.few() { PANEL } else { 2 * PANEL };
        // The ranges of a panel follow each other as its weights do in memory.
        let mut works: Vec<(usize, usize)> = pieces
            .iter()
            .enumerate()
            .flat_map(|(i, p)| {
                (p.columns.start / columns..p.columns.end.div_ceil(columns)).map(move |panel| (panel, i))
            })
            .collect();
        works.sort_unstable();
        let parts = parts(x, works.len(), self.threads);
        let step = x.tiles().div_ceil(parts).max(1);
        let jobs = if x.tiles() == 0 { 0 } else { works.len() * parts };
        let job = |index: usize| {
            let first = index % parts * step;
            let tiles = first.min(x.tiles())..(first + step).min(x.tiles());
            let (panel, piece) = works[index / parts];
            (piece, Job { range: pieces[piece].range, panel, tiles })
        };
        // Several at once where there are very many: what a thread takes is its own without asking.
        let share = (jobs / (16 * self.threads)).max(1);
        let (next, careful) = (AtomicUsize::new(0), AtomicU64::new(0));
        threads::run(self.threads.min(jobs.div_ceil(share)).max(1), || {
            let mut space = Workspace::default();
            let mut mended = 0;
            loop {
                let first = next.fetch_add(share, Relaxed);
                if first >= jobs {
                    break;
                }
                for (piece, job) in (first..jobs.min(first + share)).map(job) {
                    space.start(&specs[piece], x, w.n, &job, c);
                    mended += self.job(&specs[piece], x, w, &job, &mut space);
                    job.places(x, w.n).for_each(|(line, at, count)| out(at, &space.d[line].0[..count]));
                }
            }
            careful.fetch_add(mended as u64, Relaxed);
        });
        Ok(careful.into_inner())
    }

    fn spec(&self, mutation: Mutation, range: &Range<usize>) -> Spec {
        Spec {
            params: self.params,
            terms: self.terms,
            // (An empty range may start anywhere.)
            range: range.start..if range.is_empty() { range.start } else { range.end.next_multiple_of(self.k) },
            min_fields: [min_field(self.params.a), min_field(self.params.b)],
            promote: self.promote,
            interleaved: self.through_f16,
            mutation,
        }
    }

    /// The rows as the kernels need them: partial sums are a matter of the kernel of many rows.
    fn arranged<'a>(&self, x: &'a Rows) -> &'a Rows {
        let other = self.promote.is_some() && (x.few() || self.through_f16);
        if other { x.arranged(self.through_f16) } else { x }
    }

    /// C to D in the lines of `space`; how many steps left the fast path.
    fn job(&self, spec: &Spec, rows: &Rows, weights: &Weights, job: &Job, space: &mut Workspace) -> usize {
        let mended = self.kernel(spec, rows, weights, job, space);
        if !spec.plain() {
            lanes::run::<Finish>(self.level, &mut Finished { spec, d: &mut space.d });
        }
        mended
    }

    fn kernel(&self, spec: &Spec, rows: &Rows, weights: &Weights, job: &Job, space: &mut Workspace) -> usize {
        let (panel, tiles) = (job.panel, job.tiles.clone());
        if rows.few() {
            let (d, _) = space.d.as_chunks_mut();
            let mut call = decode::Call { spec, rows, weights, panel, tiles, d, mended: 0 };
            lanes::run::<Few>(self.level, &mut call);
            return call.mended;
        }
        let (rows_of_lines, _) = space.d.as_chunks_mut::<GROUPS>();
        let (d, _) = rows_of_lines.as_chunks_mut::<TALL>();
        let scratch = space.scratch.get_or_insert_with(Scratch::new);
        let mut call = tile::Call { spec, rows, weights, panel, tiles, d, scratch, mended: 0 };
        lanes::run::<Tiles>(self.level, &mut call);
        call.mended
    }

    fn check(&self, x: &Rows, w: &Weights, c: Option<&[u32]>, ranges: &[Range<usize>]) -> Result<(), Error> {
        let refuse = |operand, problem| Err(Error::GemmOperand { operand, problem });
        let [a, b] = self.types;
        if x.elem != a {
            return refuse("rows", format!("the instruction takes {a}, these are {}", x.elem));
        }
        if w.elem != b {
            return refuse("weights", format!("the instruction takes {b}, these are {}", w.elem));
        }
        if x.k != w.k {
            return refuse("weights", format!("K is {} of the rows and {} of these", x.k, w.k));
        }
        // A range may end within an instruction only where K does, and the padding begins.
        let cut = |k: usize| !k.is_multiple_of(self.k) && k != x.k;
        if let Some(range) = ranges.iter().find(|r| r.start > r.end || r.end > x.k || cut(r.start) || cut(r.end)) {
            let problem = format!("{range:?} is no range of K = {} in whole steps of {}", x.k, self.k);
            return refuse("ranges", problem);
        }
        match c {
            Some(c) if c.len() != x.m * w.n => {
                refuse("accumulators", format!("{} are needed, {} were given", x.m * w.n, c.len()))
            }
            _ => Ok(()),
        }
    }
}

/// Accumulators, which become D in their place.
struct Finished<'a> {
    spec: &'a Spec,
    d: &'a mut [Line],
}

/// Finishes them.
struct Finish;

impl Kernel for Finish {
    type Call<'a> = Finished<'a>;

    #[inline(always)]
    fn run<S: Lanes>(s: S, call: &mut Finished<'_>) {
        for line in &mut *call.d {
            let d = call.spec.d(s, s.load(&line.0));
            s.store(d, &mut line.0);
        }
    }
}

impl Workspace {
    /// Makes room for a job, from accumulators `c`, `(M, N)` row-major, or zeros.
    fn start(&mut self, spec: &Spec, rows: &Rows, n: usize, job: &Job, c: Option<&[u32]>) {
        self.d.clear();
        self.d.resize(job.tiles.len() * rows.height * job.groups(rows), Line::ZERO);
        if let Some(c) = c {
            for (line, at, count) in job.places(rows, n) {
                let from = at.row * n + at.column;
                for (to, from) in self.d[line].0.iter_mut().zip(&c[from..from + count]) {
                    *to = spec.held(*from);
                }
            }
        }
    }
}

impl Job {
    /// Lines of a row.
    fn groups(&self, rows: &Rows) -> usize {
        if rows.few() { HALVES } else { GROUPS }
    }

    /// The lines that hold something of the product, `n` columns wide: number, where the line's results belong, how many they are.
    fn places(&self, rows: &Rows, n: usize) -> impl Iterator<Item = (usize, At, usize)> {
        let (range, panel, groups, height) = (self.range, self.panel, self.groups(rows), rows.height);
        let first = self.tiles.start;
        let rows = self.tiles.clone().flat_map(move |tile| (0..rows.valid(tile)).map(move |row| (tile, row)));
        rows.flat_map(move |(tile, row)| {
            let line = ((tile - first) * height + row) * groups;
            (0..groups).filter_map(move |group| {
                let column = (panel * groups + group) * 16;
                let at = At { range, row: tile * height + row, column };
                (column < n).then(|| (line + group, at, (n - column).min(16)))
            })
        })
    }
}

/// All columns over each of the ranges.
fn whole(n: usize, ranges: &[Range<usize>]) -> Vec<Piece> {
    let piece = |(range, k): (usize, &Range<usize>)| Piece { range, columns: 0..n, k: k.clone() };
    ranges.iter().enumerate().map(piece).collect()
}

/// In how many parts the row tiles of each of `panels` panels are computed, so that all threads have work to the end. Every part reads the
/// panel's weights again.
fn parts(x: &Rows, panels: usize, threads: usize) -> usize {
    let (wanted, most) = if x.few() { (2 * threads, x.tiles()) } else { (8 * threads, x.tiles() / 8) };
    if threads == 1 {
        return 1;
    }
    wanted.div_ceil(panels.max(1)).min(most).max(1)
}
