//! Host code in the place of kernels: the same bits as interpreting their text, sooner.
//!
//! A kernel's native code belongs to its text and to nothing else: [`of`] builds the text of the spec a kernel claims to come from, and takes
//! the claim only if both have one SHA-256 and one block size. Any other text is interpreted, however like one of ours it looks.
//!
//! # Adding one
//! Implement [`Native`] in a module of its own, name it in [`of`], and add the spec to `tests/native.rs`, which compares launches with
//! interpretation bit for bit. [`Call`] gives arguments, memory and the packed weights; host code spreads over
//! `call.options.threads` threads by independent outputs only (`emulator::threads`).
//!
//! # What a launch may not assume
//! That anything about it is right. A launch is a kernel's caller's: addresses may lie outside every allocation, be misaligned or overlap,
//! and grids may be of any size. Native code covers launches as this engine makes them, whose outputs it has proven to lie in memory and
//! apart from the inputs; it [declines](Declined) the rest before it has written anything, and interpretation does what the
//! text says, faults included. So errors are those of interpretation, word for word.

mod attention;
mod combine;
mod copy;
mod elementwise;
mod gemm;
mod norm;
mod packs;
mod rope;
mod rows;
mod top2;
mod warp;

use emulator::exec::{ExecOptions, Memory};
use emulator::profile::Profile;
use sha2::{Digest, Sha256};

pub(super) use packs::Packs;

use crate::device::Arg;
use crate::kernels::{KernelSpec, KernelText, for_volta};

/// Host code for one kernel text on one profile.
pub(super) trait Native: Send + Sync {
    /// Does what a launch of the kernel does to memory, or nothing.
    ///
    /// # Errors
    /// [`Declined`]: nothing has been written, and the launch is to be interpreted.
    fn launch(&self, call: &mut Call<'_>) -> Result<(), Declined>;
}

/// The launch is not one that the native code covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declined;

/// One launch.
pub(super) struct Call<'a> {
    pub memory: &'a Memory,
    pub packs: &'a mut Packs,
    /// Threads and vector instructions.
    pub options: &'a ExecOptions,
    pub grid: [u32; 3],
    pub args: &'a [Arg],
}

impl Call<'_> {
    /// Declines unless the grid is this one, and one that a GPU takes.
    pub fn runs_on(&self, grid: [u32; 3]) -> Result<(), Declined> {
        // The limits of every GPU since sm_30, as interpretation has them.
        let limits = [0x7fff_ffff, 0xffff, 0xffff];
        let takes = grid.iter().zip(limits).all(|(&blocks, limit)| (1..=limit).contains(&blocks));
        if takes && grid == self.grid { Ok(()) } else { Err(Declined) }
    }
}

/// Declines where so many units of work in so many rows are more than the 32 bits that the kernel numbers them with.
fn countable(rows: u32, units: u32) -> Result<(), Declined> {
    rows.checked_mul(units).map(|_| ()).ok_or(Declined)
}

/// A range of device memory: first address and length.
type Span = (u64, u64);

/// Declines unless the ranges begin at multiples of 16 bytes, the widest access of any kernel.
fn aligned(spans: &[Span]) -> Result<(), Declined> {
    if spans.iter().all(|(address, _)| address.is_multiple_of(16)) { Ok(()) } else { Err(Declined) }
}

/// Declines unless what is written lies apart from what is read.
fn apart(written: Span, read: &[Span]) -> Result<(), Declined> {
    let end = |(address, bytes): Span| address.checked_add(bytes).ok_or(Declined);
    for &span in read {
        if end(span)? > written.0 && end(written)? > span.0 {
            return Err(Declined);
        }
    }
    Ok(())
}

/// The native code of a kernel, if there is one for exactly this text.
pub(super) fn of(kernel: &KernelText, sha256: &[u8; 32], profile: &Profile) -> Option<Box<dyn Native>> {
    let spec = kernel.spec.as_ref()?;
    let native: Box<dyn Native> = match spec {
        KernelSpec::Add(spec) => Box::new(elementwise::Add(spec.clone())),
        KernelSpec::AddNorm(spec) => Box::new(norm::AddNorm(spec.clone())),
        KernelSpec::AllReduce(spec) => Box::new(elementwise::AllReduce(spec.clone())),
        KernelSpec::Attention(spec) => Box::new(attention::Attention::new(spec, profile)?),
        KernelSpec::AttentionCombine(spec) => Box::new(combine::AttentionCombine(spec.clone())),
        KernelSpec::Bias(spec) => Box::new(elementwise::Bias(spec.clone())),
        KernelSpec::ChainAttention(spec) => Box::new(attention::ChainAttention::new(spec)?),
        KernelSpec::Embed(spec) => Box::new(copy::Copy::embed(spec)),
        KernelSpec::Gather(spec) => Box::new(copy::Copy::gather(spec)),
        KernelSpec::Gemm(spec) => Box::new(gemm::Gemm::new(spec, profile)?),
        KernelSpec::HeadNorm(spec) => Box::new(norm::HeadNorm(spec.clone())),
        KernelSpec::RmsNorm(spec) => Box::new(norm::RmsNorm(spec.clone())),
        KernelSpec::RopeStore(spec) => Box::new(rope::RopeStore(spec.clone())),
        KernelSpec::SiluMul(spec) => Box::new(elementwise::SiluMul(spec.clone())),
        KernelSpec::SplitKReduce(spec) => Box::new(elementwise::SplitKReduce(spec.clone())),
        KernelSpec::Top2(spec) => Box::new(top2::Top2(spec.clone())),
    };
    let built = spec.build();
    let is = |text: &KernelText| Sha256::digest(&text.ptx)[..] == sha256[..] && text.block == kernel.block;
    // Or its text for older GPUs, which has the same bits.
    (is(&built) || for_volta(&built).is_some_and(|text| is(&text))).then_some(native)
}
