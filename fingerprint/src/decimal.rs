//! Log-probabilities as they were written.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest number that is taken for one.
const MAX_TEXT: usize = 64;

/// A number with its decimals kept verbatim: a gateway that rounds leaves its mark in them.
#[derive(Clone, Debug, PartialEq)]
pub struct Decimal {
    text: String,
    value: f64,
}

impl Decimal {
    /// Reads a JSON number. None for what is not finite, or no number.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
        if text.len() > MAX_TEXT || !digits {
            return None;
        }
        let value: f64 = text.parse().ok()?;
        value.is_finite().then(|| Self { text: text.to_owned(), value })
    }

    /// The nearest f64.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// As written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Digits of the significand, leading zeros left out. Trailing zeros count: they were written.
    pub fn digits(&self) -> usize {
        let significand = self.text.split(['e', 'E']).next().unwrap_or_default();
        let digits: Vec<u8> = significand.bytes().filter(u8::is_ascii_digit).collect();
        digits.iter().skip_while(|d| **d == b'0').count()
    }

    /// Value of one unit in the last written place.
    fn unit(&self) -> f64 {
        let (significand, exponent) = match self.text.split_once(['e', 'E']) {
            Some((s, e)) => (s, e.parse::<i32>().unwrap_or(0)),
            None => (self.text.as_str(), 0),
        };
        let places = significand.split_once('.').map_or(0, |(_, f)| i32::try_from(f.len()).unwrap_or(0));
        libm::exp10(f64::from(exponent.saturating_sub(places)))
    }
}

/// The finest unit that numbers of one source were written in. One number alone says little: `-0.5` may be all there is of it, or rounded.
pub fn resolution<'a>(numbers: impl Iterator<Item = &'a Decimal>) -> f64 {
    numbers.map(Decimal::unit).fold(1.0, f64::min)
}

/// Distance from an f32 of this size to the next.
pub(crate) fn f32_spacing(value: f64) -> f64 {
    let size = value.abs().max(f64::from(f32::MIN_POSITIVE));
    libm::ldexp(1.0, libm::ilogb(size) - 23)
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no finite number")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_stays() {
        let d = Decimal::parse("-0.12500").unwrap();
        assert_eq!((d.text(), d.value(), d.digits()), ("-0.12500", -0.125, 5));
        assert_eq!(Decimal::parse("-1.4e-05").unwrap().digits(), 2);
        assert!((Decimal::parse("-1.4e-05").unwrap().unit() - 1e-6).abs() < 1e-18);
        assert!((d.unit() - 1e-5).abs() < 1e-15);
        let numbers = ["-0.5", "-1.25", "-0.1235"].map(|t| Decimal::parse(t).unwrap());
        assert!((resolution(numbers.iter()) - 1e-4).abs() < 1e-15);
        for bad in ["NaN", "Infinity", "-inf", "1e999", "", "0x10", &"1".repeat(65)] {
            assert!(Decimal::parse(bad).is_none(), "{bad}");
        }
    }
}
