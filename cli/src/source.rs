//! Where verbs get their model, keys, devices and time from.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use emulator::simd::Level;
use engine::Model;
use engine::device::EmulatedDevice;
use record::{PrivateKey, PublicKey};

/// How the emulated device runs; no bit depends on it.
#[derive(clap::Args, Clone, Debug)]
pub struct Emulation {
    /// Threads of the emulated device [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Vector instructions: auto, off, avx2 or avx512
    #[arg(long, value_name = "LEVEL", default_value = "auto", value_parser = simd_level)]
    pub simd: Level,
}

fn simd_level(name: &str) -> Result<Level, String> {
    Level::parse(name).ok_or_else(|| {
        let here = Level::available().map(Level::name).collect::<Vec<_>>().join(", ");
        format!("this machine has auto, off, {here}")
    })
}

impl Emulation {
    /// An emulated device of a profile.
    pub fn device(&self, profile: &str) -> engine::Result<EmulatedDevice> {
        Ok(EmulatedDevice::new(profile)?.simd(self.simd).threads(self.thread_count()))
    }

    /// Threads of the device.
    pub fn thread_count(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Default for Emulation {
    fn default() -> Self {
        Self { threads: None, simd: Level::detect() }
    }
}

/// The model of a folder, or the one inside this binary.
pub fn model(folder: Option<&Path>) -> anyhow::Result<Model> {
    match folder {
        Some(folder) => Model::load(folder).with_context(|| format!("loading the model in {}", folder.display())),
        None => Ok(engine::model::embedded()?),
    }
}

/// A private key file.
pub fn private_key(path: &Path) -> anyhow::Result<PrivateKey> {
    PrivateKey::read(path).with_context(|| format!("reading the private key {}", path.display()))
}

/// A public key file.
pub fn public_key(path: &Path) -> anyhow::Result<PublicKey> {
    PublicKey::read(path).with_context(|| format!("reading the public key {}", path.display()))
}

/// A file's bytes, or where reading failed.
pub fn file(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// Writes a file that must not exist yet: results are never overwritten.
pub fn write_new(path: &Path, bytes: &[u8]) -> anyhow::Result<PathBuf> {
    use std::io::Write as _;
    let mut file = std::fs::File::create_new(path).with_context(|| format!("creating {}", path.display()))?;
    file.write_all(bytes).with_context(|| format!("writing {}", path.display()))?;
    Ok(path.to_owned())
}

/// The wall clock, in microseconds since 1970: for records only, never for verdicts.
pub fn now_unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
