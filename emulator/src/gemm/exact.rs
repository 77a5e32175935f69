//! The product of a profile: which instruction, which kernel, which thread.

use super::decode::{self, Few};
use super::element::min_field;
use super::rows::{Rows, TALL};
use super::spec::{Mutation, Spec};
use super::tile::{self, GROUPS, Scratch, Tiles};
use super::weights::{Line, PAD, PANEL, Weights};
use crate::Error;
use crate::format::Elem;
use crate::mma::{Conversion, Instruction, Operation, TFdpa};
use crate::profile::Profile;
use crate::simd::Level;
use crate::simd::lanes;
use crate::threads;
use std::sync::{Mutex, PoisonError};

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
    /// K of the instruction.
    k: usize,
    terms: usize,
    level: Level,
    threads: usize,
}

/// What a product gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// f32 bits of D, `(M, N)` row-major.
    pub d: Vec<u32>,
    /// Steps of sixteen outputs in one block, in all.
    pub steps: u64,
    /// Those that left the fast path.
    pub careful: u64,
}

/// Some tiles of one panel.
struct Job<'a> {
    panel: usize,
    first: usize,
    d: &'a mut [Line],
}

impl Gemm {
    /// The product with the arithmetic of `instruction` on `profile`, on one thread and the fastest level of this machine.
    ///
    /// # Errors
    /// [`Error::UnsupportedMma`] if the profile has no such instruction; [`Error::UnsupportedGemm`] unless it is a truncated fused dot-add
    /// to f32.
    pub fn new(profile: &Profile, instruction: &Instruction) -> Result<Self, Error> {
        let unsupported = || Error::UnsupportedGemm { profile: profile.name, instruction: instruction.to_string() };
        let Operation::TFdpa(params) = profile.mma(instruction)? else { return Err(unsupported()) };
        let k = instruction.shape.k as usize;
        let terms = k.min(params.max_terms);
        let narrow = |elem: Elem| elem.format().width <= 8;
        let covered = matches!(params.conversion, Conversion::Rz32 | Conversion::RzE8m13)
            && params.c == Elem::F32
            && (1..=25).contains(&params.fraction)
            && matches!(terms, 4 | 8 | 16 | 32)
            && k.is_multiple_of(terms)
            && PAD.is_multiple_of(k)
            // i32 holds 16 products of any elements, and 32 where they are narrow or the unit is large.
            && (terms <= 16 || params.fraction < 24 || narrow(params.a) && narrow(params.b))
            // Inside the window the floor must not matter, nor a user's floor leave the range of the careful path.
            && params.floor.is_none_or(|floor| (-1000..=-101).contains(&floor));
        if !covered {
            return Err(unsupported());
        }
        Ok(Self { params, k, terms, level: Level::detect(), threads: 1 })
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

    /// The arithmetic of one instruction.
    #[must_use]
    pub fn params(&self) -> &TFdpa {
        &self.params
    }

    /// `x w^T + c`; `c` is f32 bits, `(M, N)` row-major, `None` for zeros.
    ///
    /// # Errors
    /// [`Error::GemmOperand`], naming the operand whose type or size does not fit.
    pub fn run(&self, x: &Rows, w: &Weights, c: Option<&[u32]>) -> Result<Product, Error> {
        self.with(Mutation::Production, x, w, c)
    }

    pub(super) fn with(&self, mutation: Mutation, x: &Rows, w: &Weights, c: Option<&[u32]>) -> Result<Product, Error> {
        self.check(x, w, c)?;
        let spec = Spec {
            params: self.params,
            terms: self.terms,
            k: x.k.next_multiple_of(self.k),
            min_fields: [min_field(self.params.a), min_field(self.params.b)],
            mutation,
        };
        // Lines of one row tile of one panel, and columns of a panel.
        let (lines, columns) = if x.few() { (2 * x.height, PANEL) } else { (GROUPS * TALL, 2 * PANEL) };
        let panels = w.n.div_ceil(columns);
        let order = Order { m: x.m, n: w.n, height: x.height, columns };
        let mut d = vec![Line::ZERO; panels * x.tiles() * lines];
        if let Some(c) = c {
            order.visit(|at, line, lane| d[line].0[lane] = c[at]);
        }

        // Few panels are cut by rows, so that all threads have work.
        let pieces = if panels < 2 * self.threads { (2 * self.threads).div_ceil(panels.max(1)) } else { 1 };
        let step = x.tiles().div_ceil(pieces).max(1);
        let careful = Mutex::new(0);
        {
            let jobs = d.chunks_mut((x.tiles() * lines).max(1)).enumerate().flat_map(|(panel, d)| {
                d.chunks_mut(step * lines).enumerate().map(move |(i, d)| Job { panel, first: i * step, d })
            });
            let queue = Mutex::new(jobs);
            threads::run(self.threads, || {
                let mut scratch = (!x.few()).then(Scratch::new);
                loop {
                    // The guard must not live through the work.
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(job) = job else { break };
                    let mended = self.job(&spec, x, w, job, lines, scratch.as_mut());
                    *careful.lock().unwrap_or_else(PoisonError::into_inner) += mended as u64;
                }
            });
        }

        let mut out = vec![0; x.m * w.n];
        order.visit(|at, line, lane| out[at] = d[line].0[lane]);
        let steps = x.m * w.n.div_ceil(16) * (spec.k / self.terms);
        let careful = careful.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Product { d: out, steps: steps as u64, careful })
    }

    fn job(
        &self,
        spec: &Spec,
        rows: &Rows,
        weights: &Weights,
        job: Job<'_>,
        lines: usize,
        scratch: Option<&mut Scratch>,
    ) -> usize {
        let tiles = job.first..job.first + job.d.len() / lines;
        let panel = job.panel;
        match scratch {
            Some(scratch) => {
                let (rows_of_lines, _) = job.d.as_chunks_mut::<GROUPS>();
                let (d, _) = rows_of_lines.as_chunks_mut::<TALL>();
                let mut call = tile::Call { spec, rows, weights, panel, tiles, d, scratch, mended: 0 };
                lanes::run::<Tiles>(self.level, &mut call);
                call.mended
            }
            None => {
                let (d, _) = job.d.as_chunks_mut();
                let mut call = decode::Call { spec, rows, weights, panel, tiles, d, mended: 0 };
                lanes::run::<Few>(self.level, &mut call);
                call.mended
            }
        }
    }

    fn check(&self, x: &Rows, w: &Weights, c: Option<&[u32]>) -> Result<(), Error> {
        let refuse = |operand, problem| Err(Error::GemmOperand { operand, problem });
        if x.elem != self.params.a {
            return refuse("rows", format!("the instruction takes {}, these are {}", self.params.a, x.elem));
        }
        if w.elem != self.params.b {
            return refuse("weights", format!("the instruction takes {}, these are {}", self.params.b, w.elem));
        }
        if x.k != w.k {
            return refuse("weights", format!("K is {} of the rows and {} of these", x.k, w.k));
        }
        match c {
            Some(c) if c.len() != x.m * w.n => {
                refuse("accumulators", format!("{} are needed, {} were given", x.m * w.n, c.len()))
            }
            _ => Ok(()),
        }
    }
}

/// Where the element of a row-major matrix sits among the lines of panels and row tiles.
pub(super) struct Order {
    pub m: usize,
    pub n: usize,
    /// Rows of a tile.
    pub height: usize,
    /// Columns of a panel, a multiple of 16.
    pub columns: usize,
}

impl Order {
    /// Calls `f(index, line, lane)` for every element.
    pub(super) fn visit(&self, mut f: impl FnMut(usize, usize, usize)) {
        let Self { m, n, height, columns } = *self;
        let (tiles, groups) = (m.div_ceil(height), columns / 16);
        for row in 0..m {
            for panel in 0..n.div_ceil(columns) {
                let first = ((panel * tiles + row / height) * height + row % height) * groups;
                for column in panel * columns..n.min((panel + 1) * columns) {
                    let inside = column - panel * columns;
                    f(row * n + column, first + inside / 16, inside % 16);
                }
            }
        }
    }
}
