//! The checker: the same program, run so that its mistakes show.
//!
//! Blocks run one after another in an order drawn from the seed, the warps of a block interleaved a few instructions at a
//! time. That alone would only make some mistakes likely to show; they are found whether or not the order of this run
//! brings them out, because every access leaves a mark ([`shadow`]) and every later access must be ordered after those
//! it conflicts with:
//! * **races** in shared and global memory, between blocks, warps or lanes of a warp;
//! * **missing waits**: the data of `cp.async` lands as late as PTX allows, when the issuing thread waits for its group.
//!   Until then any access to the destination is an error, and afterwards it still needs a barrier for other threads;
//! * reads of **memory or registers that nothing has written**.
//!
//! Source of the rules: PTX ISA 7.0, chapter 8 (memory consistency) and 9.7.8.22 (`cp.async`). Stricter than hardware in two
//! places: `shfl`, `vote` and `mma` do not order memory between lanes (nor does PTX say they do), and a `bar.warp.sync` of some
//! of the live lanes orders nothing. Not found: a thread that overwrites the source of its own copy before waiting.
//!
//! # Bits
//! A kernel without findings leaves the bits of an unchecked launch.

mod copies;
mod observer;
mod registers;
mod shadow;
mod written;

use super::block::{Meter, explain, release};
use super::error::ExecError;
use super::global::Global;
use super::launch::{CheckOptions, ExecOptions, LaunchStats};
use super::machine::Machine;
use super::memory::Memory;
use super::program::Program;
use super::shared::Shared;
use super::warp::{Geometry, State, Warp};
use observer::Observer;

/// Runs a launch under observation, on the caller's thread.
pub(super) fn launch(
    program: &Program,
    geometry: Geometry,
    params: &[u32],
    memory: &Memory,
    options: &ExecOptions,
    check: CheckOptions,
) -> Result<LaunchStats, ExecError> {
    let blocks = geometry.blocks();
    if u32::try_from(blocks).is_err() {
        let kernel = program.name().to_owned();
        return Err(ExecError::Limit { kernel, what: "blocks of a checked launch", value: blocks, limit: 1 << 32 });
    }
    let mut run = Run {
        machine: Machine {
            program,
            memory,
            global: Global::new(memory),
            params,
            level: options.simd,
            hints: vec![0; program.code.len()],
            mmas: program.warp_mmas(options.simd)?,
            mma_count: 0,
        },
        observer: Observer::new(program, memory, geometry),
        meter: Meter::new(options.limits.instructions),
        random: SplitMix(check.seed),
        warps: (0..geometry.warps()).map(|index| Warp::new(program, index)).collect(),
        shared: Shared::new(program.shared_bytes),
    };
    let order = Permutation::new(blocks, &mut run.random);
    let outcome = (0..blocks).try_for_each(|i| run.block(order.at(i), &geometry));
    let stats = LaunchStats { blocks, instructions: run.meter.used(), mmas: run.machine.mma_count };
    run.observer.finish();
    outcome.map(|()| stats)
}

struct Run<'a> {
    machine: Machine<'a>,
    observer: Observer<'a>,
    meter: Meter,
    random: SplitMix,
    warps: Vec<Warp>,
    shared: Shared,
}

impl Run<'_> {
    fn block(&mut self, index: u64, geometry: &Geometry) -> Result<(), ExecError> {
        let Run { machine, observer, meter, random, warps, shared } = self;
        let (program, block) = (machine.program, geometry.block_index(index));
        observer.start_block(index as u32);
        shared.clear();
        warps.iter_mut().for_each(|warp| warp.start(program, geometry, block));
        let mut ready: Vec<usize> = (0..warps.len()).collect();
        loop {
            while !ready.is_empty() {
                let chosen = random.below(ready.len() as u64) as usize;
                let warp = &mut warps[ready[chosen]];
                // Mostly single instructions, now and then a warp runs ahead.
                let turn = if random.below(8) == 0 { 1 + random.below(64) } else { 1 + random.below(3) };
                let left = machine
                    .run(warp, shared, observer, turn)
                    .map_err(|fault| explain(*fault, program, machine.memory, shared, block, warp))?;
                meter.add(turn - left, program)?;
                if warp.control.state != State::Ready {
                    ready.swap_remove(chosen);
                }
            }
            if !release(warps, program, block)? {
                return Ok(());
            }
            observer.barrier();
            ready.extend(0..warps.len());
        }
    }
}

/// The generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// `i -> (a i + b) mod n` with `a` coprime to `n`: an order of `n` blocks that takes no memory.
struct Permutation {
    n: u64,
    a: u64,
    b: u64,
}

impl Permutation {
    fn new(n: u64, random: &mut SplitMix) -> Self {
        let gcd = |mut a: u64, mut b: u64| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let b = random.below(n);
        let mut a = 1 + random.below(n);
        while gcd(a, n) != 1 {
            a = a % n + 1;
        }
        Permutation { n, a, b }
    }

    fn at(&self, i: u64) -> u64 {
        // n is below 2^32.
        (self.a * i + self.b) % self.n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_orders_are_permutations() {
        for n in 1..200 {
            let order = Permutation::new(n, &mut SplitMix(n));
            let mut seen: Vec<u64> = (0..n).map(|i| order.at(i)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..n));
        }
    }
}
