//! Copies of whole rows: the token embedding, and the rows that the LM head runs on.

use ptx::builder::{KernelBuilder, R32};

use super::emit::{CHUNK, for_each_unit, text, unit_grid};
use super::{KernelSpec, KernelText};

/// Token embedding.
///
/// Arguments: `ids: u32[rows]`, `table: bf16[vocab, hidden_pad]`, `x: bf16[rows, hidden_pad]` (out), `rows: u32`.
/// Every id is below `vocab`; the caller checks that.
///
/// # Bits
/// A copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EmbedSpec {
    /// Padded width of the residual stream.
    pub hidden_pad: u32,
}

impl EmbedSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        copy_rows("embed", ["ids", "table", "x", "rows"], self.hidden_pad, self.clone())
    }

    /// Blocks of a launch over `rows` tokens.
    #[must_use]
    pub fn grid(&self, rows: u32) -> [u32; 3] {
        unit_grid(rows, self.hidden_pad / CHUNK)
    }
}

/// Copies rows (to the LM head, which runs on some of them only).
///
/// Arguments: `index: u32[count]`, `x: bf16[rows, width]`, `y: bf16[count, width]` (out), `count: u32`.
/// Every index is below `rows`; the caller checks that.
///
/// # Bits
/// A copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GatherSpec {
    /// Padded width of a row.
    pub width: u32,
}

impl GatherSpec {
    /// The kernel.
    #[must_use]
    pub fn build(&self) -> KernelText {
        copy_rows("gather_rows", ["index", "x", "y", "count"], self.width, self.clone())
    }

    /// Blocks of a launch over `count` rows.
    #[must_use]
    pub fn grid(&self, count: u32) -> [u32; 3] {
        unit_grid(count, self.width / CHUNK)
    }
}

/// `to[r] = from[index[r]]`, 16 bytes a thread.
fn copy_rows(name: &str, [index, from, to, count]: [&str; 4], width: u32, spec: impl Into<KernelSpec>) -> KernelText {
    let mut k = KernelBuilder::new(name);
    let (index, from, to, count) = (k.param_ptr(index), k.param_ptr(from), k.param_ptr(to), k.param_u32(count));
    for_each_unit(&mut k, count, width / CHUNK, |k, row, unit| {
        let at = k.mad_wide_u32(row, 4, index);
        let source: R32 = k.ld_global_nc(at, 0);
        let from = k.mad_wide_u32(source, width * 2, from);
        let from = k.mad_wide_u32(unit, 16, from);
        let to = k.mad_wide_u32(row, width * 2, to);
        let to = k.mad_wide_u32(unit, 16, to);
        let chunk: [R32; 4] = k.ld_global_nc_v(from, 0);
        k.st_global_v(to, 0, chunk);
    });
    text(k.finish(), super::emit::THREADS, spec)
}
