//! The device that answers were taken from, as files and reports name it; and the day.

use engine::conformance::device_name;
use engine::device::DeviceInfo;
use serde::Serialize;

/// The device under test.
#[derive(Clone, Serialize)]
pub struct Subject {
    pub kind: &'static str,
    pub name: String,
    /// Whether this is a GPU. An emulated device is none, and neither is a driver whose device says so.
    pub hardware: bool,
    pub profile: String,
    pub compute_capability: Option<String>,
    pub driver: Option<String>,
}

impl Subject {
    /// What is said of it.
    pub fn new(info: &DeviceInfo) -> Self {
        let name = device_name(info);
        Self {
            kind: info.kind,
            hardware: info.gpu.is_some() && !name.contains(emulator::conformance::NO_HARDWARE),
            name,
            profile: info.profile.clone(),
            compute_capability: info.gpu.as_ref().map(|gpu| format!("{}.{}", gpu.capability.0, gpu.capability.1)),
            driver: info.gpu.as_ref().map(|gpu| gpu.driver.clone()),
        }
    }
}

/// The day of a time since 1970, proleptic Gregorian, UTC (Hinnant, "chrono-compatible low-level date algorithms": `civil_from_days`).
pub fn date(unix_us: u64) -> String {
    // Days since the first of March of the year 0, in eras of 400 years.
    let days = unix_us / 86_400_000_000 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (day, text) in [(0, "1970-01-01"), (11_016, "2000-02-29"), (11_017, "2000-03-01"), (20_787, "2026-11-30")] {
            assert_eq!(date(day * 86_400_000_000 + 1), text);
        }
    }
}
