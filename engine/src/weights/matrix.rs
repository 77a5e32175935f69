//! Padded bf16 matrices.

use crate::kernels::pad;

/// A bf16 matrix, row-major, padded with zeros in both directions to a multiple of 16 (one row stays one row).
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Bits, `(rows_pad, cols_pad)`.
    pub bits: Vec<u16>,
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
        Self { bits: vec![0; rows_pad as usize * cols_pad as usize], rows_pad, cols_pad }
    }

    /// Row `r`, padding included.
    ///
    /// # Panics
    /// If `r` is not below `rows_pad`.
    pub fn row(&self, r: u32) -> &[u16] {
        let w = self.cols_pad as usize;
        &self.bits[r as usize * w..(r as usize + 1) * w]
    }

    /// Row `r`, padding included.
    ///
    /// # Panics
    /// If `r` is not below `rows_pad`.
    pub fn row_mut(&mut self, r: u32) -> &mut [u16] {
        let w = self.cols_pad as usize;
        &mut self.bits[r as usize * w..(r as usize + 1) * w]
    }

    /// The matrix of these rows.
    ///
    /// # Panics
    /// If one is not below `rows_pad`.
    pub fn rows(&self, rows: &[u32]) -> Matrix {
        let mut out = Matrix::zeros(rows.len() as u32, self.cols_pad);
        for (to, from) in (0..).zip(rows) {
            out.row_mut(to).copy_from_slice(self.row(*from));
        }
        out
    }

    /// The matrix of these columns.
    ///
    /// # Panics
    /// If one is not below `cols_pad`.
    pub fn columns(&self, columns: &[u32]) -> Matrix {
        let mut out = Matrix::zeros(self.rows_pad, columns.len() as u32);
        for r in 0..self.rows_pad {
            let from = self.row(r);
            for (to, column) in out.row_mut(r).iter_mut().zip(columns) {
                *to = from[*column as usize];
            }
        }
        out
    }

    /// Bytes as the device takes them, little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bits.iter().flat_map(|b| b.to_le_bytes()).collect()
    }
}
