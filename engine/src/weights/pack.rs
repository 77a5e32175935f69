//! Padded bf16 matrices and the moves that build the fused ones.

use crate::kernels::pad;

/// A bf16 matrix, row-major, padded with zeros in both directions to a multiple of 16 (one row stays one row).
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Bits, `(rows_pad, cols_pad)`.
    pub bits: Vec<u16>,
    /// Rows that mean something.
    pub rows: u32,
    /// Columns that mean something.
    pub cols: u32,
    /// Rows stored.
    pub rows_pad: u32,
    /// Columns stored.
    pub cols_pad: u32,
}

impl Matrix {
    /// All zeros.
    pub fn zeros(rows: u32, cols: u32) -> Self {
        let rows_pad = if rows == 1 { 1 } else { pad(rows) };
        let cols_pad = pad(cols);
        Self { bits: vec![0; rows_pad as usize * cols_pad as usize], rows, cols, rows_pad, cols_pad }
    }

    /// From an unpadded row-major `(rows, cols)` array.
    pub(super) fn from_plain(rows: u32, cols: u32, plain: &[u16]) -> Self {
        let mut m = Self::zeros(rows, cols);
        m.put_rows(plain, 0);
        m
    }

    /// Row `r`, padding included.
    ///
    /// # Panics
    /// If `r` is not below `rows_pad`.
    pub fn row(&self, r: u32) -> &[u16] {
        let w = self.cols_pad as usize;
        &self.bits[r as usize * w..(r as usize + 1) * w]
    }

    /// Bytes as the device takes them, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bits.iter().flat_map(|b| b.to_le_bytes()).collect()
    }

    /// Copies unpadded rows to `first..`.
    pub(super) fn put_rows(&mut self, plain: &[u16], first: u32) {
        let (cols, width) = (self.cols as usize, self.cols_pad as usize);
        for (r, source) in plain.chunks_exact(cols).enumerate() {
            let at = (first as usize + r) * width;
            self.bits[at..at + cols].copy_from_slice(source);
        }
    }

    /// Copies heads of `dim` unpadded rows each to heads of `head_pad` rows, from row `first`.
    pub(super) fn put_head_rows(&mut self, plain: &[u16], dim: u32, head_pad: u32, first: u32) {
        let head = dim as usize * self.cols as usize;
        for (h, source) in plain.chunks_exact(head).enumerate() {
            self.put_rows(source, first + h as u32 * head_pad);
        }
    }

    /// Copies rows whose columns are heads of `dim` into columns that are heads of `head_pad`.
    pub(super) fn put_head_cols(&mut self, plain: &[u16], dim: u32, head_pad: u32) {
        let (dim, head_pad, width) = (dim as usize, head_pad as usize, self.cols_pad as usize);
        let heads = self.cols as usize / head_pad;
        for (r, row) in plain.chunks_exact(heads * dim).enumerate() {
            for (h, source) in row.chunks_exact(dim).enumerate() {
                let at = r * width + h * head_pad;
                self.bits[at..at + dim].copy_from_slice(source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_are_padded_with_zeros() {
        let m = Matrix::from_plain(2, 3, &[1, 2, 3, 4, 5, 6]);
        assert_eq!((m.rows_pad, m.cols_pad), (16, 16));
        assert_eq!(&m.row(1)[..4], [4, 5, 6, 0]);
        assert_eq!(m.bits.iter().map(|b| u32::from(*b)).sum::<u32>(), 21);
        assert_eq!(Matrix::from_plain(1, 3, &[1, 2, 3]).rows_pad, 1);
        assert_eq!(m.to_bytes()[..4], [1, 0, 2, 0]);
    }

    #[test]
    fn heads_are_padded_one_by_one() {
        let mut rows = Matrix::zeros(32, 2);
        rows.put_head_rows(&[1, 2, 3, 4, 5, 6, 7, 8], 2, 16, 0);
        assert_eq!(
            (rows.row(1)[..2].to_vec(), rows.row(16)[..2].to_vec(), rows.row(17)[1]),
            (vec![3, 4], vec![5, 6], 8)
        );
        let mut cols = Matrix::zeros(1, 32);
        cols.put_head_cols(&[1, 2, 3, 4], 2, 16);
        assert_eq!((&cols.bits[..3], &cols.bits[16..19]), (&[1u16, 2, 0][..], &[3u16, 4, 0][..]));
    }
}
