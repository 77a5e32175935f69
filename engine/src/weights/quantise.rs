//! Weights rounded to a narrower format and back to bf16: what a server that stores 8-bit weights computes with, when it widens them
//! before an ordinary bf16 product. An auditor tries these when the declared weights do not give the bits.
//!
//! **Bits.** f32 division and multiplication (IEEE, one rounding each), rounding of the quotient to an integer with ties to even, then RNE
//! to bf16. Embedding, norms and head stay as they are, as usual practice is.

use half::bf16;

use super::{Weights, places};
use crate::config::Config;

/// A way to round weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Symmetric int8, one f32 scale (`max |w| / 127`) for each output row.
    Int8PerRow,
    /// Symmetric int8, one f32 scale for each tensor.
    Int8PerTensor,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Scheme; 2] = [Scheme::Int8PerRow, Scheme::Int8PerTensor];

    /// Identifier, versioned.
    pub fn id(self) -> &'static str {
        match self {
            Scheme::Int8PerRow => "int8-symmetric-per-row/1",
            Scheme::Int8PerTensor => "int8-symmetric-per-tensor/1",
        }
    }

    /// The scheme of this identifier.
    pub fn from_id(id: &str) -> Option<Scheme> {
        Scheme::ALL.into_iter().find(|s| s.id() == id)
    }
}

impl Weights {
    /// Rounds every projection of every layer.
    pub fn quantise(&mut self, config: &Config, scheme: Scheme) {
        let projections = places(config).into_iter().filter(|p| p.name.ends_with("_proj.weight"));
        for place in projections {
            let mut bits = self.tensor(&place);
            let run = match scheme {
                Scheme::Int8PerRow => place.cols as usize,
                Scheme::Int8PerTensor => bits.len(),
            };
            bits.chunks_mut(run).for_each(int8);
            self.put(&place, &bits);
        }
    }
}

/// Rounds values that share a scale.
fn int8(bits: &mut [u16]) {
    let value = |b: &u16| bf16::from_bits(*b).to_f32();
    let largest = bits.iter().map(|b| value(b).abs()).fold(0.0, f32::max);
    if largest == 0.0 {
        return;
    }
    let scale = largest / 127.0;
    for b in bits {
        *b = bf16::from_f32((value(b) / scale).round_ties_even() * scale).to_bits();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(values: &[f32]) -> Vec<f32> {
        let mut bits: Vec<u16> = values.iter().map(|v| bf16::from_f32(*v).to_bits()).collect();
        int8(&mut bits);
        bits.iter().map(|b| bf16::from_bits(*b).to_f32()).collect()
    }

    #[test]
    fn values_move_to_the_grid() {
        assert_eq!(rounded(&[127.0, -64.0, 0.5, 1.5, -2.5, 0.75]), [127.0, -64.0, 0.0, 2.0, -2.0, 1.0]);
        assert_eq!(rounded(&[0.0, -0.0]), [0.0, -0.0]);
    }

    #[test]
    fn only_projections_change_and_they_stay_close() {
        let model = crate::model::embedded().unwrap();
        for scheme in Scheme::ALL {
            let mut w = model.weights.clone();
            w.quantise(&model.config, scheme);
            assert_eq!((&w.embed, &w.final_norm), (&model.weights.embed, &model.weights.final_norm));
            assert_eq!(w.layers[0].attn_norm, model.weights.layers[0].attn_norm);
            for (new, old) in w.layers.iter().zip(&model.weights.layers) {
                for (n, o) in [(&new.qkv, &old.qkv), (&new.o_proj, &old.o_proj), (&new.down, &old.down)] {
                    assert_ne!(n, o);
                    let wide = |b: &u16| bf16::from_bits(*b).to_f32();
                    let largest = o.bits.iter().map(|b| wide(b).abs()).fold(0.0, f32::max);
                    let far = n.bits.iter().zip(&o.bits).map(|(a, b)| (wide(a) - wide(b)).abs()).fold(0.0, f32::max);
                    assert!(far <= 0.5 * largest / 127.0 + largest / 256.0, "{far} of {largest}");
                }
            }
            assert_eq!(Scheme::from_id(scheme.id()), Some(scheme));
        }
    }
}
