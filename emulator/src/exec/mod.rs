//! PTX execution: kernels of `ptx::ast` run on the host, 32 lanes at a time, with the arithmetic of a profile.
//!
//! [`Program::compile`] checks and decodes a kernel, [`Memory`] holds the device's allocations, [`launch`] runs a grid.
//!
//! # What is modelled
//! * Warps of 32 lanes with a reconvergence stack: lanes that diverge at a branch meet again at its immediate
//!   post-dominator.
//! * Blocks in parallel on any number of threads. Warps of a block run one after another between barriers.
//! * Every access bounds- and alignment-checked; a fault names instruction, block, warp, lane, address and the nearest
//!   allocation.
//! * What PTX leaves undefined is an error, not a guess: divergent barriers and matrix instructions, member masks that
//!   name absent lanes, values shuffled from lanes that do not take part, integer division by zero.
//! * An instruction limit: an endless kernel is an error, not a hang. A barrier that not all warps reach is one too.
//!
//! # The checker
//! With [`ExecOptions::check`] a launch runs on one thread, blocks in an order drawn from the seed and warps interleaved, and
//! every access leaves a mark. It finds, whatever the order: races in shared and global memory between lanes, warps and
//! blocks; accesses to the destination of a `cp.async` that has not been waited for (its data lands as late as PTX allows);
//! reads of memory and registers that nothing has written. Slow: for tests and diagnosis.
//!
//! # Host code in a kernel's place
//! [`Memory::words`] and [`Memory::words_mut`] let host code compute what a kernel would; [`Memory::version`] tells whether what it keeps of
//! an allocation still holds.
//!
//! # What is not
//! Caches, memory consistency between running blocks, clusters, generic addresses of shared memory, float atomics (they do
//! not exist in the tree, by design), dynamic shared memory.
//!
//! # Bits
//! What a kernel without races computes is a function of its inputs alone: not of threads, [`Level`](crate::simd::Level)
//! or checker.

mod block;
mod cfg;
mod check;
mod decode;
mod error;
mod fault;
mod global;
mod inst;
mod integer;
mod lanes;
mod launch;
mod machine;
mod memory;
mod program;
mod shared;
mod slots;
mod types;
mod view;
mod warp;
mod watch;

pub use error::{AccessKind, ExecError, Nearest, Place, Site, SpaceName};
pub use launch::{Arg, CheckOptions, ExecOptions, LaunchStats, Limits, launch};
pub use memory::Memory;
pub use program::Program;
pub use view::{Words, WordsMut};
