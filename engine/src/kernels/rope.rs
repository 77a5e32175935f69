//! Rotary embedding, and the store of keys and values into the paged cache.

use ptx::builder::{F32, KernelBuilder, R32, R64};

use super::cache::encode4;
use super::emit::{THREADS, for_each_unit, text, unit_grid};
use super::{KernelText, KvType, PAGE};

/// Head dimensions of a unit of work in each half of a head: 8 bytes of bf16.
const UNIT: u32 = 4;

/// Rotary embedding of q and k (half-split pairs `i`, `i + head_dim/2`), and the store of k and v into the paged cache.
///
/// Arguments: `qkv: bf16[rows, (q_heads + 2*kv_heads) * head_pad]` (q heads, then k heads, then v heads),
/// `cos: f32[max_pos, head_dim/2]`, `sin` (same), `positions: u32[rows]`, `slots: u32[rows]` (`page * PAGE + offset`),
/// `k_cache`, `v_cache` (one layer's), `q: bf16[rows, q_heads * head_pad]` (out), `rows: u32`.
/// Positions are below `max_pos`, slots within the cache; the caller checks that. `head_dim` is a multiple of 8.
///
/// # Bits
/// With `c` and `s` the table entries of the row's position and pair, every operation f32 nearest even, none contracted:
///
/// ```text
/// lo' = bf16(lo * c - hi * s)
/// hi' = bf16(hi * c + lo * s)
/// ```
///
/// v is copied. Columns `head_dim..head_pad` of q and of both caches are written as `+0`. An fp8 cache takes these bf16 as [`KvType`] says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RopeStoreSpec {
    /// Query heads.
    pub q_heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// True head width.
    pub head_dim: u32,
    /// Padded head width.
    pub head_pad: u32,
    /// Element type of both caches.
    pub kv: KvType,
}

impl RopeStoreSpec {
    /// The kernel.
    ///
    /// # Panics
    /// When `head_dim` is not a multiple of 8: no model configuration that the engine accepts has such heads.
    #[must_use]
    pub fn build(&self) -> KernelText {
        assert!(self.head_dim.is_multiple_of(2 * UNIT), "head_dim {} is not a multiple of 8", self.head_dim);
        let mut k = KernelBuilder::new(match self.kv {
            KvType::Bf16 => "rope_store",
            KvType::Fp8 => "rope_store_fp8",
        });
        let io = Io {
            qkv: k.param_ptr("qkv"),
            cos: k.param_ptr("cos"),
            sin: k.param_ptr("sin"),
            positions: k.param_ptr("positions"),
            slots: k.param_ptr("slots"),
            k_cache: k.param_ptr("k_cache"),
            v_cache: k.param_ptr("v_cache"),
            q: k.param_ptr("q"),
        };
        let rows = k.param_u32("rows");
        for_each_unit(&mut k, rows, self.units_per_row(), |k, row, unit| self.unit(k, &io, row, unit));
        text(k.finish(), THREADS, self.clone())
    }

    /// Blocks of a launch over `rows` rows.
    #[must_use]
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        unit_grid(rows, self.units_per_row())
    }

    fn heads(&self) -> u32 {
        self.q_heads + 2 * self.kv_heads
    }

    fn units_per_head(&self) -> u32 {
        self.head_dim / 2 / UNIT
    }

    fn units_per_row(&self) -> u32 {
        self.heads() * self.units_per_head()
    }

    /// `UNIT` dimensions of the low half of a head and their partners in the high half.
    fn unit(&self, k: &mut KernelBuilder, io: &Io, row: R32, unit: R32) {
        let half_bytes = i64::from(self.head_dim);
        let head = k.div_u32(unit, self.units_per_head());
        let before = k.mul_lo_u32(head, self.units_per_head());
        let part = k.sub_u32(unit, before);
        let from = k.mad_lo_u32(row, self.heads(), head);
        let from = k.mad_wide_u32(from, self.head_pad * 2, io.qkv);
        let from = k.mad_wide_u32(part, UNIT * 2, from);
        let (lo, hi): ([R32; 2], [R32; 2]) = (k.ld_global_nc_v(from, 0), k.ld_global_nc_v(from, half_bytes));
        let to = self.destination(k, io, row, head);
        let turns = |k: &mut KernelBuilder| k.setp_lt_u32(head, self.q_heads + self.kv_heads);
        match self.kv {
            KvType::Bf16 => {
                let at = k.mad_wide_u32(part, UNIT * 2, to);
                let turns = turns(k);
                let store = |k: &mut KernelBuilder, lo: [R32; 2], hi: [R32; 2]| {
                    k.st_global_v(at, 0, lo);
                    k.st_global_v(at, half_bytes, hi);
                };
                k.if_else(
                    turns,
                    |k| {
                        let (lo, hi) = self.rotate(k, io, row, part, lo, hi);
                        store(k, lo, hi);
                    },
                    |k| store(k, lo, hi),
                );
                self.zero_padding(k, part, to, 2);
            }
            KvType::Fp8 => {
                let (kept_lo, kept_hi) = (lo.map(|x| k.mov_b32(x)), hi.map(|x| k.mov_b32(x)));
                let turns = turns(k);
                k.if_(turns, |k| {
                    let (lo, hi) = self.rotate(k, io, row, part, lo, hi);
                    for (kept, turned) in kept_lo.into_iter().chain(kept_hi).zip(lo.into_iter().chain(hi)) {
                        k.set(kept, turned);
                    }
                });
                let query = k.setp_lt_u32(head, self.q_heads);
                k.if_else(
                    query,
                    |k| {
                        let at = k.mad_wide_u32(part, UNIT * 2, to);
                        k.st_global_v(at, 0, kept_lo);
                        k.st_global_v(at, half_bytes, kept_hi);
                        self.zero_padding(k, part, to, 2);
                    },
                    |k| {
                        let at = k.mad_wide_u32(part, UNIT, to);
                        for (offset, half) in [(0, kept_lo), (half_bytes / 2, kept_hi)] {
                            let wide = widen4(k, half);
                            let codes = encode4(k, wide);
                            k.st_global(at, offset, codes);
                        }
                        self.zero_padding(k, part, to, 1);
                    },
                );
            }
        }
    }

    /// Columns `head_dim..head_pad` of a row of elements of so many bytes.
    fn zero_padding(&self, k: &mut KernelBuilder, part: R32, to: R64, bytes: u32) {
        if self.head_pad == self.head_dim {
            return;
        }
        let first = k.setp_eq_u32(part, 0);
        k.if_(first, |k| {
            let zero = k.mov_b32(0);
            for column in (self.head_dim..self.head_pad).step_by(8) {
                let at = i64::from(column * bytes);
                if bytes == 2 {
                    k.st_global_v(to, at, [zero; 4]);
                } else {
                    k.st_global_v(to, at, [zero; 2]);
                }
            }
        });
    }

    /// Where the head's row is stored: q for a query head, its place in a page for a key or value head.
    fn destination(&self, k: &mut KernelBuilder, io: &Io, row: R32, head: R32) -> R64 {
        let to: R64 = k.fresh();
        let query = k.setp_lt_u32(head, self.q_heads);
        k.if_else(
            query,
            |k| {
                let index = k.mad_lo_u32(row, self.q_heads, head);
                let at = k.mad_wide_u32(index, self.head_pad * 2, io.q);
                k.set(to, at);
            },
            |k| {
                let at = k.mad_wide_u32(row, 4, io.slots);
                let slot: R32 = k.ld_global_nc(at, 0);
                let (page, offset) = (k.div_u32(slot, PAGE), k.rem_u32(slot, PAGE));
                let other = k.sub_u32(head, self.q_heads);
                let value = k.setp_ge_u32(other, self.kv_heads);
                let kv_head = k.rem_u32(other, self.kv_heads);
                let cache = k.selp_b64(io.v_cache, io.k_cache, value);
                let line = k.mad_lo_u32(page, self.kv_heads, kv_head);
                let width = self.head_pad * self.kv.bytes();
                let at = k.mad_wide_u32(line, PAGE * width, cache);
                let at = k.mad_wide_u32(offset, width, at);
                k.set(to, at);
            },
        );
        to
    }

    fn rotate(
        &self,
        k: &mut KernelBuilder,
        io: &Io,
        row: R32,
        part: R32,
        lo: [R32; 2],
        hi: [R32; 2],
    ) -> ([R32; 2], [R32; 2]) {
        let at = k.mad_wide_u32(row, 4, io.positions);
        let position: R32 = k.ld_global_nc(at, 0);
        let table = |k: &mut KernelBuilder, base| -> [F32; 4] {
            let at = k.mad_wide_u32(position, self.head_dim / 2 * 4, base);
            let at = k.mad_wide_u32(part, UNIT * 4, at);
            k.ld_global_nc_v(at, 0)
        };
        let (c, s) = (table(k, io.cos), table(k, io.sin));
        let (lo, hi) = (widen4(k, lo), widen4(k, hi));
        let low = std::array::from_fn(|i| {
            let (turned, other) = (k.mul_rn(lo[i], c[i]), k.mul_rn(hi[i], s[i]));
            k.sub_rn(turned, other)
        });
        let high = std::array::from_fn(|i| {
            let (turned, other) = (k.mul_rn(hi[i], c[i]), k.mul_rn(lo[i], s[i]));
            k.add_rn(turned, other)
        });
        (narrow4(k, low), narrow4(k, high))
    }
}

struct Io {
    qkv: R64,
    cos: R64,
    sin: R64,
    positions: R64,
    slots: R64,
    k_cache: R64,
    v_cache: R64,
    q: R64,
}

fn widen4(k: &mut KernelBuilder, pairs: [R32; 2]) -> [F32; 4] {
    let ((a, b), (c, d)) = (k.bf16x2_to_f32(pairs[0]), k.bf16x2_to_f32(pairs[1]));
    [a, b, c, d]
}

fn narrow4(k: &mut KernelBuilder, v: [F32; 4]) -> [R32; 2] {
    [k.cvt_rn_bf16x2_f32(v[1], v[0]), k.cvt_rn_bf16x2_f32(v[3], v[2])]
}
