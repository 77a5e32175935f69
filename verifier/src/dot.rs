//! One output element of a matrix product, by the emulator's reference: what the GEMM kernels compute for it.
//!
//! Used to propose single-bit changes of weights; a proposal counts only after a full replay.

use crate::replay::ReplayError;
use emulator::format::Elem;
use emulator::mma::{Instruction, M16N8K16, Operation, Types};
use emulator::profile::Profile;
use emulator::scalar::{self, F32, Mods};
use std::ops::Range;

/// Elements of K in one instruction.
const K: usize = 16;

/// `sum x[k] w[k]` on `mma.m16n8k16` bf16, K ascending in these ranges of 16-blocks, their sums added in order.
///
/// `x`, `w`: bf16 patterns, one length, a multiple of 16. Returns f32 bits.
///
/// # Errors
/// [`ReplayError::Unknown`] for a profile that is not known or has no such instruction.
///
/// **Bits.** Those of the engine's GEMM kernels (`engine::kernels::GemmSpec`), checked against a replay for every operation.
pub fn dot(profile: &str, x: &[u16], w: &[u16], cuts: &[Range<usize>]) -> Result<u32, ReplayError> {
    let unknown = |what: String| ReplayError::Unknown { what };
    let profile = Profile::by_name(profile).ok_or_else(|| unknown(format!("profile {profile}")))?;
    let instruction = Instruction::mma(M16N8K16, Types::new(Elem::Bf16, Elem::F32));
    let Operation::TFdpa(params) = profile.mma(&instruction).map_err(|e| unknown(e.to_string()))? else {
        return Err(unknown(format!("`{instruction}` as a truncated fused sum on {}", profile.name)));
    };
    let blocks = x.len().min(w.len()) / K;
    let wide = |bits: &[u16]| -> Vec<u32> { bits.iter().map(|b| u32::from(*b)).collect() };
    let mut total = None;
    for cut in cuts {
        let range = cut.start.min(blocks) * K..cut.end.min(blocks) * K;
        let mut sum = 0;
        for (x, w) in x[range.clone()].chunks_exact(K).zip(w[range].chunks_exact(K)) {
            sum = params.dot(&wide(x), &wide(w), sum);
        }
        total = Some(match total {
            None => sum,
            Some(before) => scalar::add::<F32>(before, sum, Mods::RN),
        });
    }
    Ok(total.unwrap_or(0))
}

/// So many slices of so many 16-blocks, as split-K cuts them.
pub fn slices(blocks: usize, splits: u32) -> Vec<Range<usize>> {
    let splits = splits.max(1) as usize;
    let per = blocks.div_ceil(splits).max(1);
    (0..splits).map(|s| (s * per).min(blocks)..((s + 1) * per).min(blocks)).collect()
}

/// `sum x[k] w[k]` as one chain of fused multiply-adds from `+0`, K ascending: what the GEMM kernels without tensor cores compute.
///
/// `x`, `w`: bf16 patterns, one length. Returns f32 bits.
///
/// **Bits.** As those of [`dot`].
pub fn chain(x: &[u16], w: &[u16]) -> u32 {
    let wide = |bits: u16| scalar::widen_bf16(bits);
    x.iter().zip(w).fold(0, |sum, (x, w)| scalar::fma::<F32>(wide(*x), wide(*w), sum, Mods::RN))
}

/// Results of ranks as an all-reduce adds them: each rounded to bf16, then one sum in ascending order. f32 bits.
///
/// **Bits.** As those of [`dot`].
pub fn all_reduce(parts: &[u32]) -> u32 {
    let rounded = |bits: &u32| scalar::widen_bf16(scalar::convert::<F32, scalar::Bf16>(*bits, Mods::RN));
    let mut parts = parts.iter().map(rounded);
    let first = parts.next().unwrap_or(0);
    parts.fold(first, |sum, part| scalar::add::<F32>(sum, part, Mods::RN))
}
