//! The two largest logits of a row, and how far apart they are.

use ptx::builder::{F32, KernelBuilder, P, R32, R64};

use super::KernelText;
use super::emit::text;

/// `u32` words that [`Top2Spec`]'s kernel writes per row: first id, bits of its logit, second id, bits of its logit,
/// bits of the margin `first - second` (`sub.rn.f32`).
pub const TOP2_WORDS: u32 = 5;

/// Most warps that share a row, and how many logits make a further warp worth its merge.
const MAX_WARPS: u32 = 8;
const LOGITS_PER_WARP: u32 = 1024;
/// The id that stands for "no second logit" (a vocabulary of one).
const NONE: u32 = u32::MAX;

/// The two largest logits of each row; the lowest id wins ties. A NaN logit makes the first logit of the row NaN.
///
/// Arguments: `logits: f32[rows, vocab_pad]`, `out: u32[rows, TOP2_WORDS]` (out), `rows: u32`.
///
/// # Bits
/// Comparisons only, so their order does not matter: NaN is above everything, `-0` equals `+0`. The logits reported are the bits
/// found in the row; the margin is `sub.rn.f32(first, second)`. With a vocabulary of one the second id is `ffff_ffff` and its
/// logit `-inf`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Top2Spec {
    /// Vocabulary size; padded columns are not looked at.
    pub vocab: u32,
    /// Padded width of a logits row.
    pub vocab_pad: u32,
}

/// A candidate: `key` orders as the logits do (unsigned), 0 being below every logit.
#[derive(Clone, Copy)]
struct Candidate {
    key: R32,
    id: R32,
}

impl Top2Spec {
    fn warps(&self) -> u32 {
        self.vocab.div_ceil(LOGITS_PER_WARP).clamp(1, MAX_WARPS).next_power_of_two()
    }

    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        let threads = 32 * self.warps();
        let mut k = KernelBuilder::new("top2");
        k.max_ntid(threads, 1, 1);
        let (logits, out, rows) = (k.param_ptr("logits"), k.param_ptr("out"), k.param_u32("rows"));
        let row = k.ctaid_x();
        let outside = k.setp_ge_u32(row, rows);
        k.ret_if(outside);
        let logits = k.mad_wide_u32(row, self.vocab_pad * 4, logits);
        let tid = k.tid_x();

        let first = Candidate { key: k.mov_b32(0), id: k.mov_b32(NONE) };
        let second = Candidate { key: k.mov_b32(0), id: k.mov_b32(NONE) };
        self.scan(&mut k, logits, tid, first, second);
        for distance in [16u32, 8, 4, 2, 1] {
            merge(&mut k, first, second, distance);
        }
        if self.warps() > 1 {
            self.across_warps(&mut k, tid, first, second);
        }
        let writer = k.setp_eq_u32(tid, 0);
        k.if_(writer, |k| self.write(k, logits, out, row, first, second));
        text(k.finish(), threads, self.clone())
    }

    /// Blocks of a launch over `rows` rows.
    #[must_use]
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        [rows, 1, 1]
    }

    /// Each thread's two best of the logits `tid, tid + threads, ...`: ids ascend, so only a larger key displaces.
    fn scan(&self, k: &mut KernelBuilder, logits: R64, tid: R32, first: Candidate, second: Candidate) {
        let threads = 32 * self.warps();
        let id = k.mov_b32(tid);
        let at = k.mad_wide_u32(tid, 4, logits);
        k.while_(
            |k| k.setp_lt_u32(id, self.vocab),
            |k| {
                let logit: F32 = k.ld_global_nc(at, 0);
                // Adding +0 makes -0 +0 and every NaN the canonical 7fffffff; all else stays.
                let logit = k.add_rn(logit, 0.0);
                let bits = k.bits_of_f32(logit);
                let sign = k.shr_s32(bits, 31);
                let flip = k.or_b32(sign, 0x8000_0000_u32);
                let key = k.xor_b32(bits, flip);
                let beats_second = k.setp_gt_u32(key, second.key);
                k.if_(beats_second, |k| {
                    let beats_first = k.setp_gt_u32(key, first.key);
                    k.selp_b32_into(second.key, first.key, key, beats_first);
                    k.selp_b32_into(second.id, first.id, id, beats_first);
                    k.selp_b32_into(first.key, key, first.key, beats_first);
                    k.selp_b32_into(first.id, id, first.id, beats_first);
                });
                k.add_u32_into(id, id, threads);
                k.add_u64_into(at, at, threads * 4);
            },
        );
    }

    /// Every group of lanes merges the candidates of all warps, through shared memory.
    fn across_warps(&self, k: &mut KernelBuilder, tid: R32, first: Candidate, second: Candidate) {
        let warps = self.warps();
        let shared = k.shared("candidates", 16, warps * 16);
        let base = k.shared_addr(shared);
        let (warp, lane) = (k.shr_u32(tid, 5), k.and_b32(tid, 31));
        let leads = k.setp_eq_u32(lane, 0);
        k.if_(leads, |k| {
            let at = k.mad_lo_u32(warp, 16, base);
            k.st_shared_v(at, 0, [first.key, first.id, second.key, second.id]);
        });
        k.bar_sync(0);
        let from = k.and_b32(lane, warps - 1);
        let at = k.mad_lo_u32(from, 16, base);
        let [key1, id1, key2, id2]: [R32; 4] = k.ld_shared_v(at, 0);
        k.set(first.key, key1);
        k.set(first.id, id1);
        k.set(second.key, key2);
        k.set(second.id, id2);
        let mut distance = warps / 2;
        while distance > 0 {
            merge(k, first, second, distance);
            distance /= 2;
        }
    }

    fn write(&self, k: &mut KernelBuilder, logits: R64, out: R64, row: R32, first: Candidate, second: Candidate) {
        let out = k.mad_wide_u32(row, TOP2_WORDS * 4, out);
        let at = k.mad_wide_u32(first.id, 4, logits);
        let logit1: F32 = k.ld_global_nc(at, 0);
        let logit2 = k.mov_f32(f32::NEG_INFINITY);
        let exists = k.setp_ne_u32(second.id, NONE);
        k.if_(exists, |k| {
            let at = k.mad_wide_u32(second.id, 4, logits);
            let logit: F32 = k.ld_global_nc(at, 0);
            k.set(logit2, logit);
        });
        let margin = k.sub_rn(logit1, logit2);
        k.st_global(out, 0, first.id);
        k.st_global(out, 4, logit1);
        k.st_global(out, 8, second.id);
        k.st_global(out, 12, logit2);
        k.st_global(out, 16, margin);
    }
}

/// True where `a` is above `b`.
fn above(k: &mut KernelBuilder, a: Candidate, b: Candidate) -> P {
    let larger = k.setp_gt_u32(a.key, b.key);
    let same = k.setp_eq_u32(a.key, b.key);
    let earlier = k.setp_lt_u32(a.id, b.id);
    let tie = k.and_pred(same, earlier);
    k.or_pred(larger, tie)
}

fn select(k: &mut KernelBuilder, a: Candidate, b: Candidate, p: P) -> Candidate {
    Candidate { key: k.selp_b32(a.key, b.key, p), id: k.selp_b32(a.id, b.id, p) }
}

fn assign(k: &mut KernelBuilder, to: Candidate, from: Candidate) {
    k.set(to.key, from.key);
    k.set(to.id, from.id);
}

/// Takes in the pair of the lane `distance` away; the two pairs come from different logits.
fn merge(k: &mut KernelBuilder, first: Candidate, second: Candidate, distance: u32) {
    let mut other = |c: Candidate| Candidate { key: k.shfl_bfly(c.key, distance), id: k.shfl_bfly(c.id, distance) };
    let (first2, second2) = (other(first), other(second));
    let mine = above(k, first, first2);
    // The runner-up is the better of the winner's own second and the loser's first.
    let loser = select(k, first2, first, mine);
    let seconds = select(k, second, second2, mine);
    let loses = above(k, loser, seconds);
    let winner = select(k, first, first2, mine);
    let runner_up = select(k, loser, seconds, loses);
    assign(k, first, winner);
    assign(k, second, runner_up);
}
