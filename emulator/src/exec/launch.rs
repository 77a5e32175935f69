//! Launching a program over a grid.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::block::{Block, Meter};
use super::error::ExecError;
use super::memory::Memory;
use super::program::Program;
use super::warp::Geometry;
use crate::simd::Level;
use crate::threads;

/// A value for a kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Arg {
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
}

impl Arg {
    /// The bits of an f32 for an `.f32` parameter.
    #[must_use]
    pub fn f32(value: f32) -> Self {
        Arg::U32(value.to_bits())
    }

    fn bytes(self) -> u32 {
        match self {
            Arg::U8(_) => 1,
            Arg::U16(_) => 2,
            Arg::U32(_) => 4,
            Arg::U64(_) => 8,
        }
    }

    fn bits(self) -> u64 {
        match self {
            Arg::U8(v) => v.into(),
            Arg::U16(v) => v.into(),
            Arg::U32(v) => v.into(),
            Arg::U64(v) => v,
        }
    }
}

macro_rules! arg_from {
    ($($ty:ty => $variant:ident),+) => {
        $(impl From<$ty> for Arg {
            fn from(value: $ty) -> Self {
                Arg::$variant(value)
            }
        })+
    };
}
arg_from!(u8 => U8, u16 => U16, u32 => U32, u64 => U64);

/// How a launch runs. The bits it leaves depend on none of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecOptions {
    /// Threads that blocks are spread over.
    pub threads: usize,
    /// Vector instructions used.
    pub simd: Level,
    /// Look for races and other mistakes of the kernel instead of running fast.
    pub check: Option<CheckOptions>,
    /// When to give up.
    pub limits: Limits,
}

impl Default for ExecOptions {
    /// One thread, the fastest vector instructions of this machine, no checker, default limits.
    fn default() -> Self {
        ExecOptions { threads: 1, simd: Level::detect(), check: None, limits: Limits::default() }
    }
}

/// How the checker runs. The documentation of [`crate::exec`] says what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Seeds the order of blocks and the interleaving of warps.
    pub seed: u64,
}

/// When a launch gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most warp instructions of one launch, all blocks together.
    pub instructions: u64,
}

impl Default for Limits {
    /// 2^36 warp instructions: some minutes, and more than any sensible kernel.
    fn default() -> Self {
        Limits { instructions: 1 << 36 }
    }
}

/// What a launch did. Independent of threads and vector instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchStats {
    /// Blocks run.
    pub blocks: u64,
    /// Warp instructions executed, those whose guard was false in every lane included.
    pub instructions: u64,
    /// Matrix instructions among them.
    pub mmas: u64,
}

/// Runs `program` once for every thread of `grid` blocks of `block` threads.
///
/// Blocks run in parallel on `options.threads` threads, in no particular order; a kernel whose blocks depend on one
/// another is not supported (it exceeds its instruction limit). What a kernel without races leaves in memory depends on
/// nothing but its inputs.
///
/// # Errors
/// [`ExecError::Geometry`] and [`ExecError::Argument`] before anything runs; afterwards any fault of the kernel. When
/// several blocks fault the one with the lowest index is reported.
pub fn launch(
    program: &Program,
    grid: [u32; 3],
    block: [u32; 3],
    args: &[Arg],
    memory: &Memory,
    options: &ExecOptions,
) -> Result<LaunchStats, ExecError> {
    let geometry = checked_geometry(program, grid, block)?;
    let params = checked_args(program, args)?;
    memory.advance();
    if let Some(check) = options.check {
        return super::check::launch(program, geometry, &params, memory, options, check);
    }
    let blocks = geometry.blocks();
    let matrix = program.warp_mmas(options.simd)?;
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let meter = Meter::new(options.limits.instructions);
    let mmas = AtomicU64::new(0);
    let first_error: Mutex<Option<(u64, ExecError)>> = Mutex::new(None);
    let threads = options.threads.max(1).min(usize::try_from(blocks).unwrap_or(usize::MAX));
    threads::run(threads, || {
        // A thread that finds no block left costs nothing.
        let mut worker = None;
        // Blocks are taken in ascending order, and one that was taken is finished: so the lowest block that faults
        // always reports.
        while !stop.load(Relaxed) {
            let index = next.fetch_add(1, Relaxed);
            if index >= blocks {
                break;
            }
            let new = || Block::new(program, geometry, memory, &params, options.simd, matrix.clone());
            if let Err(error) = worker.get_or_insert_with(new).run(index, &meter) {
                stop.store(true, Relaxed);
                let mut first = first_error.lock().unwrap_or_else(|e| e.into_inner());
                if first.as_ref().is_none_or(|(at, _)| index < *at) {
                    *first = Some((index, error));
                }
            }
        }
        mmas.fetch_add(worker.map_or(0, |w| w.mmas()), Relaxed);
    });
    match first_error.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some((_, error)) => Err(error),
        None => Ok(LaunchStats { blocks, instructions: meter.used(), mmas: mmas.into_inner() }),
    }
}

fn checked_geometry(program: &Program, grid: [u32; 3], block: [u32; 3]) -> Result<Geometry, ExecError> {
    // PTX ISA / CUDA programming guide, technical specifications per compute capability: the same since sm_30.
    const GRID: [u32; 3] = [0x7fff_ffff, 0xffff, 0xffff];
    const BLOCK: [u32; 3] = [1024, 1024, 64];
    let refuse = |what, value, range| ExecError::Geometry { kernel: program.name().to_owned(), what, value, range };
    let outside = |value: [u32; 3], range: [u32; 3]| value.iter().zip(range).any(|(&v, r)| v == 0 || v > r);
    if outside(grid, GRID) {
        return Err(refuse("grid", grid, GRID));
    }
    if outside(block, BLOCK) {
        return Err(refuse("block", block, BLOCK));
    }
    let threads: u32 = block.iter().product();
    if threads > 1024 {
        return Err(refuse("threads in a block", [threads, 1, 1], [1024, 1, 1]));
    }
    if let Some(max) = program.kernel().max_ntid {
        let most: u64 = max.iter().map(|&n| u64::from(n)).product();
        if u64::from(threads) > most {
            return Err(refuse("block (.maxntid)", block, max));
        }
    }
    Ok(Geometry { grid, block })
}

/// The arguments in the layout of the parameters, as words.
fn checked_args(program: &Program, args: &[Arg]) -> Result<Vec<u32>, ExecError> {
    let refuse = |index, reason| ExecError::Argument { kernel: program.name().to_owned(), index, reason };
    let count = program.params().len();
    if args.len() != count {
        let reason = if args.len() < count { "is missing" } else { "is one too many" };
        return Err(refuse(args.len().min(count), reason));
    }
    let mut words = vec![0u32; program.param_bytes.div_ceil(4) as usize];
    for (index, ((arg, ty), &offset)) in args.iter().zip(program.params()).zip(&program.param_offsets).enumerate() {
        if arg.bytes() != ty.bytes() {
            return Err(refuse(index, "does not have the size of its parameter"));
        }
        let at = offset as usize / 4;
        words[at] |= (arg.bits() as u32) << (8 * (offset % 4));
        if ty.bytes() == 8 {
            words[at + 1] = (arg.bits() >> 32) as u32;
        }
    }
    Ok(words)
}
