//! How a gated engine decides, in its own words and in a record's.

use margingate::{Binding, Settings, Threshold, WriteBack};
use record::inference as rec;
use record::{Digest, F32Bits, Fact, U64Text};

use crate::error::{Error, Result};
use crate::journal;
use crate::kernels::PAGE;
use crate::runtime::Engine;
use crate::scheduler;

/// Identifier of the gate's rule, for records.
pub const RULE: &str = "margin-gate/1";

/// What is compared with the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Signal {
    /// The margin.
    #[default]
    Margin,
    /// The margin over the distance of the two tokens' rows in the LM head.
    RowDistance,
}

impl Signal {
    /// Both.
    pub const ALL: [Signal; 2] = [Signal::Margin, Signal::RowDistance];

    /// Identifier, for records and command lines.
    pub const fn id(self) -> &'static str {
        match self {
            Signal::Margin => "margin/1",
            Signal::RowDistance => "row-distance/1",
        }
    }

    /// The signal of this identifier.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.id() == id)
    }
}

/// How steps with prompt rows run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Prefill {
    /// By the reference: prompts, their columns and the first token do not depend on the batch.
    #[default]
    Reference,
    /// As in `throughput`: the first token is gated like any other, and no column is shared.
    Throughput,
}

impl Prefill {
    /// The stored word.
    pub const fn name(self) -> &'static str {
        match self {
            Prefill::Reference => "reference",
            Prefill::Throughput => "throughput",
        }
    }
}

/// Where a threshold comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibrated {
    /// Plain SHA-256 of the signed document.
    pub document: Digest,
    /// The model and stack that it was measured on.
    pub binding: Binding,
}

/// How a gated engine decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Threshold, write-back, batches, probes.
    pub settings: Settings,
    /// What is compared with the threshold.
    pub signal: Signal,
    /// How prompts run.
    pub prefill: Prefill,
    /// Where the threshold comes from; none for one that somebody chose.
    pub calibrated: Option<Calibrated>,
}

impl Setup {
    /// A threshold that somebody chose, for the margin, with prompts by the reference.
    pub fn chosen(settings: Settings) -> Self {
        Self { settings, signal: Signal::Margin, prefill: Prefill::Reference, calibrated: None }
    }

    /// Does a step have to run the reference's kernels? `prefill` says that it has prompt rows.
    pub fn runs_reference(&self, prefill: bool) -> bool {
        prefill && self.prefill == Prefill::Reference
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::Gate`], [`Error::UnknownGate`] for batches larger than a page.
    pub fn check(&self) -> Result<()> {
        self.settings.check()?;
        if self.settings.verify_rows > PAGE {
            return Err(unknown("verify_rows", self.settings.verify_rows));
        }
        Ok(())
    }

    /// In a record's words.
    pub fn to_record(&self) -> rec::Gate {
        let s = &self.settings;
        rec::Gate {
            rule: RULE.into(),
            signal: self.signal.id().into(),
            tau: F32Bits::new(s.tau),
            write_back: s.write_back.name().into(),
            prefill: self.prefill.name().into(),
            verify_rows: s.verify_rows,
            patience: s.patience,
            probe_every: s.probe_every,
            probe_seed: U64Text(s.probe_seed),
            safety: F32Bits::new(s.safety),
            calibration: self.calibrated.as_ref().map(|c| c.document),
        }
    }

    /// From a record's words. Which model and stack a calibration was for, a record does not say.
    ///
    /// # Errors
    /// [`Error::UnknownGate`] naming the word that is not known here; [`Error::Gate`].
    pub fn from_record(gate: &rec::Gate) -> Result<Self> {
        if gate.rule != RULE {
            return Err(unknown("rule", &gate.rule));
        }
        let signal = Signal::from_id(&gate.signal).ok_or_else(|| unknown("signal", &gate.signal))?;
        let write_back =
            WriteBack::from_name(&gate.write_back).ok_or_else(|| unknown("write_back", &gate.write_back))?;
        let prefill = [Prefill::Reference, Prefill::Throughput].into_iter().find(|p| p.name() == gate.prefill);
        let setup = Self {
            settings: Settings {
                tau: gate.tau.value(),
                write_back,
                verify_rows: gate.verify_rows,
                patience: gate.patience,
                probe_every: gate.probe_every,
                probe_seed: gate.probe_seed.0,
                safety: gate.safety.value(),
            },
            signal,
            prefill: prefill.ok_or_else(|| unknown("prefill", &gate.prefill))?,
            calibrated: None,
        };
        setup.check()?;
        Ok(setup)
    }
}

fn unknown(parameter: &'static str, value: impl ToString) -> Error {
    Error::UnknownGate { parameter, value: value.to_string() }
}

impl Engine {
    /// Tells a gated engine how to decide. A calibration is used only on the model and stack that it was measured on.
    ///
    /// # Errors
    /// [`Error::Gate`] for another model or stack and for settings that make no sense, [`Error::Plan`] for an engine of another mode.
    pub fn with_gate(mut self, setup: Setup) -> Result<Self> {
        if self.mode() != crate::Mode::Gated {
            return Err(Error::Plan { detail: format!("an engine of mode {} has no gate", self.mode().name()) });
        }
        setup.check()?;
        if let Some(calibrated) = &setup.calibrated {
            Threshold::new(setup.settings.tau, calibrated.binding.clone())?.on(&self.binding()?)?;
        }
        self.set_gate(setup);
        Ok(self)
    }

    /// Model and stack as a calibration names them: digests as a record's, of a stack without gate and with its scheduler left unspecified.
    ///
    /// # Errors
    /// [`Error::Record`].
    pub fn binding(&self) -> Result<Binding> {
        let settings = scheduler::Settings::plain(self.limits().max_rows);
        let mut stack = journal::stack(self, settings)?;
        (stack.scheduler, stack.gate) = (Fact::Unspecified, None);
        Ok(Binding { model: journal::model(self.model()).digest()?.to_string(), stack: stack.digest()?.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setups_survive_the_way_there_and_back_and_unknown_words_are_named() {
        for (signal, write_back) in Signal::ALL.into_iter().cycle().zip(WriteBack::ALL) {
            let settings = Settings { write_back, probe_every: 7, probe_seed: u64::MAX, ..Settings::new(0.5) };
            let setup = Setup { signal, prefill: Prefill::Throughput, ..Setup::chosen(settings) };
            assert_eq!(Setup::from_record(&setup.to_record()).unwrap(), setup);
        }
        type Edit = fn(&mut rec::Gate);
        let cases: [(&str, Edit); 5] = [
            ("rule", |g| g.rule = "margin-gate/2".into()),
            ("signal", |g| g.signal = "entropy/1".into()),
            ("write_back", |g| g.write_back = "window".into()),
            ("prefill", |g| g.prefill = "none".into()),
            ("verify_rows", |g| g.verify_rows = 17),
        ];
        for (name, edit) in cases {
            let mut gate = Setup::chosen(Settings::new(0.5)).to_record();
            edit(&mut gate);
            let error = Setup::from_record(&gate).unwrap_err();
            assert!(matches!(error, Error::UnknownGate { parameter, .. } if parameter == name), "{name}: {error}");
        }
        let mut gate = Setup::chosen(Settings::new(0.5)).to_record();
        gate.tau = F32Bits(0x7fc0_0000);
        assert!(matches!(Setup::from_record(&gate), Err(Error::Gate(_))));
    }
}
