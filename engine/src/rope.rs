//! The tables of the rotary embedding.
//!
//! As transformers computes them, all in f32: `inv_freq[i] = 1 / theta^(2i/d)`, stretched as the configuration says, `angle = position *
//! inv_freq`, then cosine and sine of that angle.
//!
//! **Bits.** Exponent, power, reciprocal, angle, cosine and sine are each rounded to f32, to nearest even. Powers, cosines and sines are the
//! pinned pure-Rust `libm` in f64, rounded once: the same on every host, and equal to the correctly rounded value except where f64 error
//! straddles a rounding border. Stretching is f32 `+ - * /` in the order in which transformers writes it and PyTorch evaluates it on a
//! CPU (a number divided by a tensor is the number times the tensor's reciprocal). Records carry the table's digest.

use crate::config::{Config, Llama3Scaling, RopeScaling};
use crate::error::Result;

/// Cosines and sines, f32 bits, `(max_positions, head_dim / 2)` each.
pub struct Tables {
    /// Cosines.
    pub cos: Vec<u32>,
    /// Sines.
    pub sin: Vec<u32>,
}

/// Identifier of this way to compute the tables, for records.
pub const ROPE_TABLES: &str = "rope-f32-libm/2";

/// The frequencies, in radians a position, of the `head_dim / 2` pairs.
pub fn frequencies(config: &Config) -> Vec<f32> {
    let theta = f64::from(config.rope_theta as f32);
    let plain = (0..config.head_dim / 2).map(|i| {
        let exponent = (2 * i) as f32 / config.head_dim as f32;
        1.0 / libm::pow(theta, exponent.into()) as f32
    });
    match &config.rope_scaling {
        RopeScaling::None => plain.collect(),
        RopeScaling::Llama3(scaling) => plain.map(|f| llama3(f, scaling)).collect(),
        RopeScaling::Divisors(divisors) => plain.zip(divisors).map(|(f, d)| f / d).collect(),
    }
}

/// Long waves become longer by the factor, short ones stay, and in between the frequency is interpolated.
///
/// Source: `_compute_llama3_parameters` of transformers, which holds numbers that are not tensors in f64.
fn llama3(f: f32, s: &Llama3Scaling) -> f32 {
    let (low, high) = (s.low_freq_factor, s.high_freq_factor);
    let longest = (s.original_positions / low) as f32;
    let shortest = (s.original_positions / high) as f32;
    let factor = s.factor as f32;
    let wave = (1.0 / f) * std::f64::consts::TAU as f32;
    if wave < shortest {
        return f;
    }
    if wave > longest {
        return f / factor;
    }
    let smooth = ((1.0 / wave) * s.original_positions as f32 - low as f32) / (high - low) as f32;
    (1.0 - smooth) * f / factor + smooth * f
}

/// The tables of a model.
pub fn tables(config: &Config) -> Tables {
    let frequencies = frequencies(config);
    let mut tables = Tables { cos: Vec::new(), sin: Vec::new() };
    for position in 0..config.max_positions {
        for f in &frequencies {
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

    /// Bits that transformers 5.24.0 on PyTorch 2.15.0 (CPU) computes: Llama-3.1-8B and Llama-3.2-1B.
    #[test]
    fn llama3_frequencies_are_those_of_transformers() {
        let cases = [
            (128, 8.0, include_str!("../tests/data/llama3-inv-freq-8b.txt")),
            (64, 32.0, include_str!("../tests/data/llama3-inv-freq-1b.txt")),
        ];
        for (head_dim, factor, golden) in cases {
            let mut config = crate::model::embedded().unwrap().config;
            (config.head_dim, config.rope_theta) = (head_dim, 500_000.0);
            let (low_freq_factor, high_freq_factor, original_positions) = (1.0, 4.0, 8192.0);
            config.rope_scaling =
                RopeScaling::Llama3(Llama3Scaling { factor, low_freq_factor, high_freq_factor, original_positions });
            let ours = frequencies(&config);
            let golden: Vec<u32> = golden.split_whitespace().map(|w| u32::from_str_radix(w, 16).unwrap()).collect();
            assert_eq!(ours.iter().map(|f| f.to_bits()).collect::<Vec<_>>(), golden);
        }
    }

    #[test]
    fn divisors_divide() {
        let mut config = crate::model::embedded().unwrap().config;
        let plain = frequencies(&config);
        let divisors: Vec<f32> = (0..plain.len()).map(|i| 1.0 + i as f32).collect();
        config.rope_scaling = RopeScaling::Divisors(divisors);
        assert!(frequencies(&config).iter().zip(&plain).enumerate().all(|(i, (a, b))| *a == b / (1.0 + i as f32)));
    }
}
