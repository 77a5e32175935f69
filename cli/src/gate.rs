//! Options of mode `gated`: which threshold, and what follows from it.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use engine::gated::{Calibrated, Setup, Signal};
use engine::{Engine, Mode};
use margingate::{Binding, Settings, WriteBack};
use record::calibration::Calibration;
use record::{Digest, PublicKey};

use crate::argument;
use crate::source;

/// Most bytes of a calibration.
const MAX_CALIBRATION: u64 = 1 << 20;

/// How mode `gated` decides.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct GateArgs {
    /// Signed calibration of the threshold of mode `gated` (made by `lastbit margingate calibrate`)
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,

    /// Public key that signed the calibration [default: that of the log's key]
    #[arg(long, value_name = "FILE", requires = "calibration")]
    calibration_key: Option<PathBuf>,

    /// Threshold of mode `gated` without a calibration: from 0 (verify nothing) to inf (verify everything); nothing is promised of it
    #[arg(long, value_name = "MARGIN", conflicts_with = "calibration", value_parser = threshold)]
    tau: Option<f32>,

    /// Which columns a verification replaces: catch-up (all that are not the reference's yet), mismatch (the published policy), trigger, or all (verify
    /// every row) [default: catch-up]
    #[arg(long, value_name = "POLICY", value_parser = write_back)]
    write_back: Option<WriteBack>,

    /// Requests of a verification, at most, 1 to 16; its rows are padded to a multiple [default: 8]
    #[arg(long, value_name = "N", value_parser = argument::count(1, 16))]
    verify_rows: Option<u32>,

    /// Steps that a held row waits for others, at most [default: 8]
    #[arg(long, value_name = "N", value_parser = argument::count(0, 1 << 16))]
    patience: Option<u32>,

    /// Verify one of this many high-margin rows, to measure misses [default: 0, none]
    #[arg(long, value_name = "N", value_parser = argument::count(0, u32::MAX))]
    probe_every: Option<u32>,
}

fn threshold(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(tau) if tau >= 0.0 => Ok(tau),
        _ => Err("a number from 0 to inf is wanted".to_owned()),
    }
}

fn write_back(name: &str) -> Result<WriteBack, String> {
    WriteBack::from_name(name).ok_or_else(|| "it is catch-up, mismatch, trigger or all".to_owned())
}

impl GateArgs {
    fn is_empty(&self) -> bool {
        self.calibration.is_none()
            && self.tau.is_none()
            && self.write_back.is_none()
            && self.verify_rows.is_none()
            && self.patience.is_none()
            && self.probe_every.is_none()
    }

    /// Tells a gated engine how to decide; `own` is the log's key. Refuses these options with any other mode.
    pub fn attach(&self, engine: Engine, own: Option<&PublicKey>) -> anyhow::Result<Engine> {
        if engine.mode() != Mode::Gated {
            if self.is_empty() {
                return Ok(engine);
            }
            bail!("a threshold and its options belong to --mode gated");
        }
        let (tau, signal, calibrated) = match (&self.calibration, self.tau) {
            (Some(path), _) => self.calibrated(path, own)?,
            (None, Some(tau)) => (tau, Signal::Margin, None),
            (None, None) => bail!(
                "--mode gated needs a threshold: --calibration FILE (see `lastbit margingate calibrate`), or --tau"
            ),
        };
        let usual = Settings::new(tau);
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|e| anyhow::anyhow!("the system has no randomness to give: {e}"))?;
        let settings = Settings {
            write_back: self.write_back.unwrap_or(usual.write_back),
            verify_rows: self.verify_rows.unwrap_or(usual.verify_rows),
            patience: self.patience.unwrap_or(usual.patience),
            probe_every: self.probe_every.unwrap_or(usual.probe_every),
            probe_seed: if self.probe_every.unwrap_or(0) > 0 { u64::from_le_bytes(seed) } else { 0 },
            ..usual
        };
        Ok(engine.with_gate(Setup { signal, calibrated, ..Setup::chosen(settings) })?)
    }

    fn calibrated(
        &self,
        path: &std::path::Path,
        own: Option<&PublicKey>,
    ) -> anyhow::Result<(f32, Signal, Option<Calibrated>)> {
        let bytes = source::file(path, MAX_CALIBRATION)?;
        let named = self.calibration_key.as_deref().map(source::public_key).transpose()?;
        let key =
            named.as_ref().or(own).context("--calibration without a log needs --calibration-key: who signed it?")?;
        let found = Calibration::open(&bytes, &[key]).with_context(|| format!("the calibration {}", path.display()))?;
        let signal = Signal::from_id(&found.signal)
            .with_context(|| format!("the calibration's signal {} is not known here", found.signal))?;
        let binding = Binding { model: found.model.to_string(), stack: found.stack.to_string() };
        Ok((found.tau.value(), signal, Some(Calibrated { document: Digest::of_file(&bytes), binding })))
    }
}
