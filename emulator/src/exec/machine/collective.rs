//! Instructions that lanes execute together: shuffles, votes, matrix loads.
//!
//! Source: PTX ISA 7.0, 9.7.8.6 (`shfl.sync`), 9.7.12.6 (`vote.sync`), 9.7.13.4 (`ldmatrix`); shfl as in
//! `gpu-arithmetic` 5.4. What PTX leaves undefined (lanes named but absent, a value taken from a lane that does not take
//! part) is a fault.

use ptx::ast::{ShflMode, Space, VoteMode};

use super::super::error::AccessKind;
use super::super::fault::{Outcome, undefined};
use super::super::inst::{Any, Mma, SharedAddr, Slot};
use super::super::integer as int;
use super::super::lanes::{FULL, LANES, V32, lanes_in, map};
use super::super::shared::Shared;
use super::super::warp::{Control, Registers};
use super::super::watch::{Access, Watch};
use super::memory::shared_address;
use crate::mma::WarpMma;

/// Checks the member mask of a `.sync` instruction executed by `mask`: each executing lane names itself, all name the
/// same lanes, and every lane named that has not exited executes it now.
#[inline(always)]
pub(super) fn participants(control: &Control, mask: u32, named: &V32) -> Outcome<()> {
    let first = named.0[mask.trailing_zeros() as usize & 31];
    let mut differ = 0;
    for i in 0..LANES {
        differ |= if mask & (1 << i) != 0 { named.0[i] ^ first } else { 0 };
    }
    if differ != 0 {
        return undefined(None, "lanes of one warp name different member masks");
    }
    if mask & !first != 0 {
        return undefined(Some((mask & !first).trailing_zeros()), "a lane that is not in its own member mask");
    }
    // Lanes that the block does not have, or that have exited, cannot be waited for and are ignored, as hardware does.
    if first & control.live & !mask != 0 {
        return undefined(
            Some((first & control.live & !mask).trailing_zeros()),
            "the member mask names a lane that is elsewhere (divergent .sync instruction)",
        );
    }
    Ok(())
}

/// Matrix instructions need all 32 lanes.
#[inline(always)]
pub(super) fn whole_warp(mask: u32) -> Outcome<()> {
    if mask == FULL { Ok(()) } else { undefined(None, "a matrix instruction that not all 32 lanes execute together") }
}

/// `mma.sync`.
#[inline(always)]
pub(super) fn mma(mma: &Mma, warp: &WarpMma, regs: &mut Registers) {
    let fragment = |slots: &[Slot; 4]| slots.map(|s| &regs.b32[s as usize].0);
    let (a, b, c) = (fragment(&mma.a), fragment(&mma.b), fragment(&mma.c));
    let [nd, na, nb, nc] = mma.counts.map(usize::from);
    let mut d = [[0; LANES]; 4];
    warp.run(&a[..na], &b[..nb], &c[..nc], &mut d[..nd]);
    for (value, &slot) in d[..nd].iter().zip(&mma.d) {
        regs.b32[slot as usize].0 = *value;
    }
}

/// `shfl.sync`: values, and the lanes whose source was within range.
#[inline(always)]
pub(super) fn shfl(mode: ShflMode, a: &V32, b: &V32, c: &V32, mask: u32) -> Outcome<(V32, u32)> {
    let mut from = V32::ZERO;
    let mut inside = 0;
    for i in 0..LANES {
        let lane = i as u32;
        let (clamp, segment) = (c.0[i] & 0x1f, (c.0[i] >> 8) & 0x1f);
        let b = b.0[i] & 0x1f;
        let max_lane = (lane & segment) | (clamp & !segment);
        // As i32: `up` may come to a negative lane.
        let (j, valid) = match mode {
            ShflMode::Up => (lane.wrapping_sub(b), lane as i32 - b as i32 >= max_lane as i32),
            ShflMode::Down => (lane + b, lane + b <= max_lane),
            ShflMode::Bfly => (lane ^ b, lane ^ b <= max_lane),
            ShflMode::Idx => {
                let j = (lane & segment) | (b & !segment);
                (j, j <= max_lane)
            }
        };
        from.0[i] = if valid { j & 31 } else { lane };
        inside |= u32::from(valid) << i;
    }
    if mask != FULL
        && let Some(absent) = lanes_in(mask).map(|i| from.0[i]).find(|&j| mask >> j & 1 == 0)
    {
        return undefined(Some(absent), "shfl takes the value of this lane, which does not take part");
    }
    Ok((map(&from, |j| a.0[j as usize & 31]), inside))
}

/// `vote.sync` among the lanes in `mask`.
#[inline(always)]
pub(super) fn vote(mode: VoteMode, p: u32, d: Slot, regs: &mut Registers, mask: u32) {
    let votes = p & mask;
    let answer = match mode {
        VoteMode::Ballot => return regs.set32(d, &V32::splat(votes), mask),
        VoteMode::All => votes == mask,
        VoteMode::Any => votes != 0,
        VoteMode::Uni => votes == 0 || votes == mask,
    };
    regs.set_pred(d, if answer { FULL } else { 0 }, mask);
}

/// `ldmatrix`: lane `8m + r` gives the address of row `r` of matrix `m`; lane `l` receives elements `2(l % 4)` and
/// `2(l % 4) + 1` of row `l / 4` (of the transpose, with `.trans`).
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn ldmatrix<W: Watch>(
    trans: bool,
    to: &[Any],
    addr: SharedAddr,
    regs: &mut Registers,
    shared: &Shared,
    watch: &mut W,
    warp: u32,
    pc: u32,
) -> Outcome<()> {
    let rows = if to.len() == 4 { FULL } else { (1 << (8 * to.len())) - 1 };
    let address = shared_address(addr, regs, rows)?;
    shared.check_quads(&address, 8 * to.len())?;
    if W::ON {
        let access = Access {
            warp,
            pc,
            mask: rows,
            kind: AccessKind::Read,
            space: Space::Shared,
            address: &int::widen(&address, false),
            bytes: 16,
            collective: true,
            values: &[],
        };
        watch.access(access)?;
    }
    for (d, address) in to.iter().zip(address.0.as_chunks::<8>().0) {
        let (Any::B16(d) | Any::B32(d) | Any::B64(d)) = *d;
        let d = &mut regs.b32[d as usize].0;
        for (row, &at) in d.as_chunks_mut::<4>().0.iter_mut().zip(address) {
            *row = shared.quad(at);
        }
        if trans {
            *d = transpose(d).0;
        }
    }
    Ok(())
}

/// The transpose of an 8x8 matrix of 16-bit elements, two to a word, four words to a row.
#[inline(always)]
fn transpose(rows: &[u32; LANES]) -> V32 {
    let mut out = V32::ZERO;
    for row in 0..8 {
        for pair in 0..4 {
            // Elements (2 pair, row) and (2 pair + 1, row) of the matrix as stored.
            let pick = |r: usize| (rows[4 * r + row / 2] >> (16 * (row & 1))) & 0xffff;
            out.0[4 * row + pair] = pick(2 * pair) | pick(2 * pair + 1) << 16;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of PTX ISA 9.7.8.6, one lane at a time.
    fn shfl_lane(mode: ShflMode, lane: i32, b: u32, c: u32) -> (i32, bool) {
        let (bval, cval, mask) = ((b & 0x1f) as i32, (c & 0x1f) as i32, ((c >> 8) & 0x1f) as i32);
        let max_lane = (lane & mask) | (cval & !mask);
        let min_lane = lane & mask;
        let (j, p) = match mode {
            ShflMode::Up => (lane - bval, lane - bval >= max_lane),
            ShflMode::Down => (lane + bval, lane + bval <= max_lane),
            ShflMode::Bfly => (lane ^ bval, lane ^ bval <= max_lane),
            ShflMode::Idx => {
                let j = min_lane | (bval & !mask);
                (j, j <= max_lane)
            }
        };
        (if p { j } else { lane }, p)
    }

    #[test]
    fn shfl_follows_the_isa_for_every_lane_count_clamp_and_segment() {
        let a = V32(std::array::from_fn(|i| 1000 + i as u32));
        for mode in [ShflMode::Up, ShflMode::Down, ShflMode::Bfly, ShflMode::Idx] {
            for segment in [0, 0x10, 0x18, 0x1c, 0x1e, 0x1f, 5] {
                for clamp in 0..32 {
                    for b in [0, 1, 2, 3, 7, 8, 15, 16, 17, 30, 31, 33] {
                        let c = segment << 8 | clamp;
                        let (v, inside) = shfl(mode, &a, &V32::splat(b), &V32::splat(c), FULL).unwrap();
                        for lane in 0..32 {
                            let (j, p) = shfl_lane(mode, lane, b, c);
                            assert_eq!(v.0[lane as usize], 1000 + j as u32, "{mode:?} lane {lane} b {b} c {c:#x}");
                            assert_eq!(inside >> lane & 1 == 1, p);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_value_from_an_absent_lane_is_refused() {
        let a = V32::splat(1);
        let down = |mask| shfl(ShflMode::Down, &a, &V32::splat(1), &V32::splat(0x1f), mask);
        assert!(down(0xffff).is_err());
        assert!(down(FULL).is_ok());
        assert!(shfl(ShflMode::Bfly, &a, &V32::splat(1), &V32::splat(0x1f), 0xffff).is_ok());
    }

    #[test]
    fn transpose_moves_element_r_c_to_c_r() {
        let element = |r: usize, c: usize| (16 * r + c) as u32;
        let rows: [u32; 32] =
            std::array::from_fn(|i| element(i / 4, 2 * (i % 4)) | element(i / 4, 2 * (i % 4) + 1) << 16);
        let got = transpose(&rows);
        for lane in 0..32 {
            let (r, c) = (lane / 4, 2 * (lane % 4));
            assert_eq!(got.0[lane], element(c, r) | element(c + 1, r) << 16);
        }
    }
}
