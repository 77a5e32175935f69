//! Arguments that can be judged before anything is read: each is checked while the command line is parsed.

use emulator::profile::Profile;
use engine::kernels::KvType;
use record::log::MAX_ORIGIN_BYTES;

/// Most threads of the emulated device.
pub const MAX_THREADS: u32 = 1024;
/// Most unreported rows that are looked for in a step: twice what the engine puts into one.
pub const MAX_EXTRA_ROWS: u32 = 4096;
/// Most splits of a kernel that are looked for: no engine choice has more.
pub const MAX_SPLITS: u32 = engine::policy::MAX_SPLITS;
/// Most other seeds that are looked for.
pub const MAX_SEEDS: u32 = 1 << 20;

/// A whole number in a range.
pub fn count(min: u32, max: u32) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| match text.parse() {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ => Err(format!("a whole number from {min} to {max} is wanted")),
    }
}

/// An element type of the KV cache.
pub fn kv(name: &str) -> Result<KvType, String> {
    let known = || KvType::ALL.map(KvType::name).join(", ");
    KvType::from_name(name).ok_or_else(|| format!("known are {}", known()))
}

/// A nonce as records carry it: lower-case hex of 1 to 16 bytes.
pub fn nonce(text: &str) -> Result<String, String> {
    let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if digits && (2..=32).contains(&text.len()) && text.len().is_multiple_of(2) {
        Ok(text.to_owned())
    } else {
        Err("a nonce is lower-case hex of 1 to 16 bytes (2 to 32 digits, an even number)".to_owned())
    }
}

/// A sampling temperature.
pub fn temperature(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(t) if t.is_finite() && t > 0.0 => Ok(t),
        _ => Err("a temperature is a finite number above 0; leave it out for greedy choice".to_owned()),
    }
}

/// A probability to keep.
pub fn top_p(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(p) if p > 0.0 && p <= 1.0 => Ok(p),
        _ => Err("a number above 0 and at most 1 is wanted".to_owned()),
    }
}

/// A part of the largest probability.
pub fn min_p(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(p) if p > 0.0 && p <= 1.0 => Ok(p),
        _ => Err("a number above 0 and at most 1 is wanted; leave it out to keep all".to_owned()),
    }
}

/// A penalty that is taken off logits.
pub fn penalty(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(p) if p.is_finite() => Ok(p),
        _ => Err("a finite number is wanted".to_owned()),
    }
}

/// A penalty that logits are divided by.
pub fn repetition_penalty(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(p) if p.is_finite() && p > 0.0 => Ok(p),
        _ => Err("a finite number above 0 is wanted; 1 changes nothing".to_owned()),
    }
}

/// A token id and what is added to its logit.
pub fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    let parts = text.split_once('=').and_then(|(id, bias)| Some((id.parse().ok()?, bias.parse::<f32>().ok()?)));
    match parts {
        Some((id, bias)) if bias.is_finite() => Ok((id, bias)),
        _ => Err("a token id and a finite number are wanted, such as 17=-2.5".to_owned()),
    }
}

/// The name of a log.
pub fn origin(text: &str) -> Result<String, String> {
    if record::note::is_name(text, MAX_ORIGIN_BYTES) {
        Ok(text.to_owned())
    } else {
        Err(format!("a log is named by 1 to {MAX_ORIGIN_BYTES} bytes without white space or plus"))
    }
}

/// The name of an emulated generation.
pub fn profile(name: &str) -> Result<String, String> {
    match Profile::by_name(name) {
        Some(profile) => Ok(profile.name.to_owned()),
        None => Err(format!("known are {}", Profile::all().iter().map(|p| p.name).collect::<Vec<_>>().join(", "))),
    }
}

/// How much an audit may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Replayed tokens, and the words that said so.
    Tokens(u64, String),
    /// Seconds, and the words that said so.
    Seconds(u64, String),
}

/// A budget: `20000tok`, `90s`, `10min`, `2h`.
pub fn budget(text: &str) -> Result<Budget, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let amount = digits.parse::<u64>().ok().filter(|amount| (1..1 << 40).contains(amount));
    let words = text.to_owned();
    match (amount, unit) {
        (Some(tokens), "tok") => Ok(Budget::Tokens(tokens, words)),
        (Some(seconds), "s") => Ok(Budget::Seconds(seconds, words)),
        (Some(minutes), "min") => Ok(Budget::Seconds(minutes * 60, words)),
        (Some(hours), "h") => Ok(Budget::Seconds(hours * 3600, words)),
        _ => Err("a budget is a whole number and `tok`, `s`, `min` or `h`, for example 20000tok or 10min".to_owned()),
    }
}

/// Where kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub enum Device {
    /// The emulated GPU.
    #[default]
    Emulated,
    /// The GPU of this number.
    Cuda(u32),
}

impl std::str::FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = match text {
            "emulated" => return Ok(Self::Emulated),
            "cuda" => Some(0),
            _ => text.strip_prefix("cuda:").filter(|n| !n.starts_with('+')).and_then(|n| n.parse().ok()),
        };
        number.map(Self::Cuda).ok_or_else(|| "a device is emulated, cuda, or cuda:N for GPU number N".to_owned())
    }
}

impl TryFrom<String> for Device {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A randomness beacon.
pub fn beacon(text: &str) -> Result<String, String> {
    let hex = text.len().is_multiple_of(2) && text.bytes().all(|b| b.is_ascii_hexdigit());
    if hex && text.len() >= 32 {
        Ok(text.to_owned())
    } else {
        Err("a beacon is hex of at least 16 bytes (32 digits); a shorter one can be guessed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_belong_to_the_range() {
        let parse = count(1, 8);
        assert_eq!((parse("1"), parse("8")), (Ok(1), Ok(8)));
        for bad in ["0", "9", "-1", "1.5", "", "99999999999999999999"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nonces_are_those_that_records_take() {
        for good in ["00", "00ff", &"ab".repeat(16)] {
            assert!(nonce(good).is_ok(), "{good}");
        }
        for bad in ["", "0", "0g", "AB", "abc", &"ab".repeat(17)] {
            assert!(nonce(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        assert!(["0", "-1", "nan", "inf", "x"].iter().all(|t| temperature(t).is_err()));
        assert!(["0", "-0.1", "1.1", "nan"].iter().all(|t| top_p(t).is_err()));
        assert!(["0", "-0.1", "1.1", "nan"].iter().all(|t| min_p(t).is_err()));
        assert!(["inf", "nan", "x"].iter().all(|t| penalty(t).is_err()));
        assert!(["0", "-1", "inf", "nan", "x"].iter().all(|t| repetition_penalty(t).is_err()));
        assert!(["", "1", "=1", "1=", "1=nan", "-1=0", "4294967296=0", "1=2=3"].iter().all(|t| logit_bias(t).is_err()));
        assert!(temperature("0.7").is_ok() && top_p("1").is_ok() && min_p("1").is_ok());
        assert_eq!((penalty("-0.5"), logit_bias("7=-1.5")), (Ok(-0.5), Ok((7, -1.5))));
    }

    #[test]
    fn budgets_have_a_unit() {
        assert_eq!(budget("10min"), Ok(Budget::Seconds(600, "10min".to_owned())));
        assert_eq!(budget("20000tok"), Ok(Budget::Tokens(20_000, "20000tok".to_owned())));
        assert_eq!(budget("2h"), Ok(Budget::Seconds(7200, "2h".to_owned())));
        for bad in ["", "10", "min", "0s", "-1s", "1.5h", "10 min", "99999999999999tok", "10minutes"] {
            assert!(budget(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn devices_are_emulated_or_numbered_gpus() {
        for (text, device) in [("emulated", Device::Emulated), ("cuda", Device::Cuda(0)), ("cuda:3", Device::Cuda(3))] {
            assert_eq!(text.parse(), Ok(device));
        }
        for bad in ["", "gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:99999999999", "CUDA"] {
            assert!(bad.parse::<Device>().is_err(), "{bad}");
        }
    }

    #[test]
    fn beacons_are_long_hex() {
        assert!(beacon(&"0a".repeat(16)).is_ok());
        assert!([&"0a".repeat(15), &"zz".repeat(16), &"0".repeat(33)].iter().all(|b| beacon(b).is_err()));
    }
}
