//! The tables of the rotary embedding.
//!
//! As transformers computes them in f32: `inv_freq[i] = f32(1 / theta^(2i/d))`, `angle = position * inv_freq` rounded to f32, then
//! cosine and sine of that f32 angle.
//!
//! **Bits.** Powers, cosines and sines are the pinned pure-Rust `libm` in f64, rounded once to f32: the same on every host, and equal
//! to the correctly rounded value except where f64 error straddles a rounding border. Records carry the table's digest.

use crate::config::Config;
use crate::error::Result;

/// Cosines and sines, f32 bits, `(max_positions, head_dim / 2)` each.
pub struct Tables {
    /// Cosines.
    pub cos: Vec<u32>,
    /// Sines.
    pub sin: Vec<u32>,
}

/// Identifier of this way to compute the tables, for records.
pub const ROPE_TABLES: &str = "rope-f32-angle-libm/1";

/// The tables of a model.
pub fn tables(config: &Config) -> Tables {
    let half = config.head_dim / 2;
    let inv_freq = |i: u32| (1.0 / libm::pow(config.rope_theta, f64::from(2 * i) / f64::from(config.head_dim))) as f32;
    let inv_freq: Vec<f32> = (0..half).map(inv_freq).collect();
    let mut tables = Tables { cos: Vec::new(), sin: Vec::new() };
    for position in 0..config.max_positions {
        for f in &inv_freq {
            let angle = f64::from(position as f32 * f);
            tables.cos.push((libm::cos(angle) as f32).to_bits());
            tables.sin.push((libm::sin(angle) as f32).to_bits());
        }
    }
    tables
}

impl Tables {
    /// Tensor digest of both, shape `(2, max_positions, head_dim / 2)`: cosines, then sines.
    ///
    /// # Errors
    /// None: the tables have that shape by construction.
    pub fn digest(&self, config: &Config) -> Result<record::Digest> {
        let both: Vec<u32> = self.cos.iter().chain(&self.sin).copied().collect();
        let shape = [2, u64::from(config.max_positions), u64::from(config.head_dim / 2)];
        Ok(record::TensorView::f32(&shape, &both).digest()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_positions_and_columns_frequencies() {
        let config = crate::model::embedded().unwrap().config;
        let t = tables(&config);
        let half = config.head_dim as usize / 2;
        assert_eq!(t.cos.len(), config.max_positions as usize * half);
        assert!(t.cos[..half].iter().all(|b| *b == 1.0f32.to_bits()));
        assert!(t.sin[..half].iter().all(|b| *b == 0));
        // cos 1, sin 1 and, at position 3, the second frequency 10000^(-1/16) = 0.562341325: constants from tables.
        assert_eq!((t.cos[half], t.sin[half]), (0x3f0a_5140, 0x3f57_6aa4));
        let angle = 3.0 * 0.562_341_33_f32;
        assert!((f64::from(angle) - 1.687_024).abs() < 1e-6);
        assert!((f32::from_bits(t.cos[3 * half + 1]) + 0.115_966_3).abs() < 1e-5);
    }
}
