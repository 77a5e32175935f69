//! Where verbs get their model, keys, devices and time from.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use emulator::simd::Level;
use engine::Model;
use engine::device::{CudaDevice, Device, EmulatedDevice};
use record::{PrivateKey, PublicKey};

use crate::argument;
use crate::models;

/// Most bytes of a file of prompts.
pub const MAX_PROMPTS: u64 = 1 << 24;
/// Most bytes of a checkpoint.
pub const MAX_CHECKPOINT: u64 = record::log::MAX_CHECKPOINT_BYTES;
/// Most bytes of a receipt.
pub const MAX_RECEIPT: u64 = record::receipt::MAX_RECEIPT_BYTES as u64;
/// Most bytes of a signed report.
pub const MAX_REPORT: u64 = record::envelope::MAX_ENVELOPE_BYTES as u64;
/// Most bytes of other text: coefficients, samples, a file of vectors.
pub const MAX_TEXT: u64 = 1 << 26;

/// How the emulated device runs; no bit depends on it.
#[derive(clap::Args, Clone, Debug)]
pub struct Emulation {
    /// Threads of the emulated device [default: all cores]
    #[arg(long, value_name = "N", value_parser = argument::count(1, argument::MAX_THREADS))]
    threads: Option<u32>,

    /// Vector instructions: auto, off, avx2 or avx512
    #[arg(long, value_name = "LEVEL", default_value = "auto", value_parser = simd_level)]
    pub simd: Level,

    /// Interpret every launch, instead of running native code where a kernel's text has some
    #[arg(long)]
    pub interpret: bool,
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
        let device = EmulatedDevice::new(profile)?.simd(self.simd).threads(self.thread_count());
        Ok(if self.interpret { device.interpreted() } else { device })
    }

    /// Threads of the device.
    pub fn thread_count(&self) -> usize {
        match self.threads {
            Some(threads) => threads as usize,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl Default for Emulation {
    fn default() -> Self {
        Self { threads: None, simd: Level::detect(), interpret: false }
    }
}

/// The generation that is emulated if nothing else is said.
pub const USUAL_PROFILE: &str = "sm_90";

/// The device asked for. A GPU has the profile it has: one that is asked for beside it must be that one.
pub fn device(
    place: argument::Device,
    profile: Option<&str>,
    emulation: &Emulation,
) -> anyhow::Result<Box<dyn Device>> {
    match place {
        argument::Device::Emulated => Ok(Box::new(emulation.device(profile.unwrap_or(USUAL_PROFILE))?)),
        argument::Device::Cuda(ordinal) => {
            let device = Box::new(CudaDevice::open(ordinal)?);
            let info = device.info();
            if let Some(asked) = profile.filter(|asked| *asked != info.profile) {
                let card = info.gpu.map(|gpu| gpu.model).unwrap_or_default();
                bail!("--profile {asked}: GPU {ordinal} ({card}) is {}; leave the profile out", info.profile);
            }
            Ok(device)
        }
    }
}

/// The model of a folder, of a GGUF file, or of this name in the models folder; without any the one inside this binary.
pub fn model(place: Option<&Path>) -> anyhow::Result<Model> {
    let Some(place) = place else { return Ok(engine::model::embedded()?) };
    let pulled = if place.exists() { None } else { models::named(place) };
    let place = pulled.as_deref().unwrap_or(place);
    Model::load(place).with_context(|| format!("loading the model in {}", place.display()))
}

/// A private key file.
pub fn private_key(path: &Path) -> anyhow::Result<PrivateKey> {
    PrivateKey::read(path).with_context(|| format!("reading the private key {}", path.display()))
}

/// A public key file.
pub fn public_key(path: &Path) -> anyhow::Result<PublicKey> {
    PublicKey::read(path).with_context(|| format!("reading the public key {}", path.display()))
}

/// Refuses what cannot be a log, in words that say so.
pub fn log_folder(path: &Path) -> anyhow::Result<()> {
    if !path.is_dir() {
        bail!("{} is not a folder; give the folder of a log", path.display());
    }
    Ok(())
}

/// The bytes of a regular file of at most `max` bytes, or where reading failed.
pub fn file(path: &Path, max: u64) -> anyhow::Result<Vec<u8>> {
    record::file::read(path, max).with_context(|| format!("reading {}", path.display()))
}

/// The text of a regular file of at most `max` bytes; a byte order mark before it is no part of it.
pub fn text(path: &Path, max: u64) -> anyhow::Result<String> {
    let text = record::file::read_text(path, max).with_context(|| format!("reading {}", path.display()))?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

/// Refuses, before any work is done, a path that [`write_new`] would refuse after it.
pub fn free(path: &Path) -> anyhow::Result<()> {
    // Not `exists`: a link to nowhere is in the way too.
    if path.symlink_metadata().is_ok() {
        bail!("{} exists already; nothing is ever overwritten", path.display());
    }
    let folder = folder_of(path);
    if folder.exists() && !folder.is_dir() {
        bail!("{} is not a folder", folder.display());
    }
    Ok(())
}

/// Writes a file that must not exist yet: results are never overwritten. Whenever this is interrupted, there is no file or the whole one.
pub fn write_new(path: &Path, bytes: &[u8]) -> anyhow::Result<PathBuf> {
    free(path)?;
    let write = || -> std::io::Result<()> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".lastbit-").suffix(".part");
        // As any new file: the temporary one would be readable by its owner only.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.tempfile_in(folder_of(path))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path)?;
        Ok(())
    };
    write().with_context(|| format!("writing {}", path.display()))?;
    Ok(path.to_owned())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The wall clock, in microseconds since 1970: for records only, never for verdicts.
pub fn now_unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
