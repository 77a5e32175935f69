//! The rotary embedding as a `config.json` states it.

use serde_json::{Map, Value};

use super::json::{number, present, shown, unsupported};
use crate::error::{Error, Result};

/// How the frequencies of the rotary embedding are stretched beyond the length a model was first trained on.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// By wavelength, as Llama 3.1 introduced it (`rope_type: llama3`).
    Llama3(Llama3Scaling),
    /// Each frequency divided by its own number, as GGUF files of such models state it: f32, one a pair.
    Divisors(Vec<f32>),
}

impl RopeScaling {
    /// The name in listings.
    pub fn name(&self) -> &'static str {
        match self {
            RopeScaling::None => "default",
            RopeScaling::Llama3(_) => "llama3",
            RopeScaling::Divisors(_) => "divisors",
        }
    }
}

/// Parameters of [`RopeScaling::Llama3`]; what they do is in [`crate::rope`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Llama3Scaling {
    /// Long waves become longer by this factor.
    pub factor: f64,
    /// Waves longer than `original_positions / low_freq_factor` are long.
    pub low_freq_factor: f64,
    /// Waves shorter than `original_positions / high_freq_factor` stay.
    pub high_freq_factor: f64,
    /// Positions of the first training.
    pub original_positions: f64,
}

/// Base, where one is stated, and scaling, wherever this generation of the file keeps them.
pub(super) fn parse(map: &Map<String, Value>) -> Result<(Option<f64>, RopeScaling)> {
    let mut theta = None;
    let mut scaling = None;
    for at in ["rope_scaling", "rope_parameters"] {
        let Some(value) = present(map, at) else { continue };
        let rope = value.as_object().ok_or_else(|| unsupported(at, value, "null or an object"))?;
        let stated = scaling_of(at, rope)?;
        if scaling.is_some_and(|s| s != stated) {
            return Err(unsupported(at, value, "rope_scaling states another rotary embedding"));
        }
        scaling = Some(stated);
        merge_theta(&mut theta, rope)?;
    }
    merge_theta(&mut theta, map)?;
    Ok((theta, scaling.unwrap_or(RopeScaling::None)))
}

fn merge_theta(theta: &mut Option<f64>, map: &Map<String, Value>) -> Result<()> {
    if let Some(value) = present(map, "rope_theta") {
        let stated = number(map, "rope_theta")?;
        if theta.is_some_and(|t| t != stated) {
            return Err(unsupported("rope_theta", value, "two places state different values"));
        }
        *theta = Some(stated);
    }
    Ok(())
}

const LLAMA3_KEYS: [&str; 4] = ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"];

/// `{rope_type: default}`, or `{rope_type: llama3}` with its four parameters; the base may stand beside them.
fn scaling_of(at: &str, rope: &Map<String, Value>) -> Result<RopeScaling> {
    let kind = present(rope, "rope_type").or_else(|| present(rope, "type"));
    let llama3 = match kind.map(|v| (v, v.as_str())) {
        None | Some((_, Some("default"))) => false,
        Some((_, Some("llama3"))) => true,
        Some((v, _)) => {
            return Err(unsupported(&format!("{at}.rope_type"), v, "computed are `default` and `llama3`"));
        }
    };
    for (key, value) in rope {
        let known = match key.as_str() {
            "rope_theta" => true,
            "rope_type" | "type" => Some(value) == kind,
            key => llama3 && LLAMA3_KEYS.contains(&key),
        };
        if !known && !value.is_null() {
            return Err(Error::UnknownConfigKey { key: format!("{at}.{key}"), value: shown(value) });
        }
    }
    if !llama3 {
        return Ok(RopeScaling::None);
    }
    let [factor, low, high, original] = LLAMA3_KEYS;
    let positive = |key: &str| {
        let value = number(rope, key)?;
        let fine = value.is_finite() && value > 0.0 && value <= 1e9;
        fine.then_some(value)
            .ok_or_else(|| unsupported(&format!("{at}.{key}"), &rope[key], "positive and of sane size"))
    };
    let scaling = Llama3Scaling {
        factor: positive(factor)?,
        low_freq_factor: positive(low)?,
        high_freq_factor: positive(high)?,
        original_positions: positive(original)?,
    };
    if scaling.high_freq_factor <= scaling.low_freq_factor {
        return Err(unsupported(&format!("{at}.{high}"), &rope[high], "must exceed low_freq_factor"));
    }
    Ok(RopeScaling::Llama3(scaling))
}
