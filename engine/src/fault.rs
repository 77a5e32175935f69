//! Faults on purpose: what a broken or dishonest engine would do, so that whatever watches engines can be tested.
//!
//! An [`Operator`](crate::batch::Operator) that has faults passes its calls through [`Faults`], and says so: [`Faults::mode`] is what records then call the mode,
//! [`Faults::words`] is for people. Only tests of audits say nothing, and the audit has to find it. Only `throughput` has faults: the other modes promise bits that do not depend on the operator.

use std::str::FromStr;
use std::time::Duration;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::kernels::PAGE;
use crate::policy::{self, Dispatch, Mode, Shape};
use crate::runtime::Engine;
use crate::sampler::Choice;
use crate::step::{StepOutput, StepPlan};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The last bit of a row's largest logit is flipped, before a token is chosen: of the step's first row with logits.
    Logit,
    /// A column of K and V is not written: that of the step's first group of one row. Its page stays as it was.
    Column,
    /// The runner-up is emitted instead of the chosen token: once in a step.
    Swap,
    /// Kernels are chosen as if this many more rows ran: the trace that unreported requests leave.
    Rows(u32),
    /// The step takes this many milliseconds more. No bit shows it.
    Delay(u32),
}

/// A fault and how often it happens. Its text is `KIND` or `KIND=N`, with `@EVERY` for some steps only: `logit`, `rows=2`, `swap@8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: Kind,
    /// In steps `every - 1`, `2 * every - 1` and so on; at least 1.
    pub every: u32,
}

/// Most extra rows, and milliseconds of a delay.
const MOST: u32 = 60_000;

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let refuse = || {
            format!(
                "a fault is logit, column, swap, rows=N or delay=MILLISECONDS (N up to {MOST}), each with @EVERY or without"
            )
        };
        let count = |text: &str| text.parse::<u32>().ok().filter(|n| (1..=MOST).contains(n));
        let (what, every) = match text.split_once('@') {
            Some((what, every)) => (what, count(every).ok_or_else(refuse)?),
            None => (text, 1),
        };
        let kind = match what.split_once('=') {
            None if what == "logit" => Kind::Logit,
            None if what == "column" => Kind::Column,
            None if what == "swap" => Kind::Swap,
            Some(("rows", n)) => Kind::Rows(count(n).ok_or_else(refuse)?),
            Some(("delay", n)) => Kind::Delay(count(n).ok_or_else(refuse)?),
            _ => return Err(refuse()),
        };
        Ok(Self { kind, every })
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            Kind::Logit => write!(f, "logit")?,
            Kind::Column => write!(f, "column")?,
            Kind::Swap => write!(f, "swap")?,
            Kind::Rows(n) => write!(f, "rows={n}")?,
            Kind::Delay(n) => write!(f, "delay={n}")?,
        }
        if self.every == 1 { Ok(()) } else { write!(f, "@{}", self.every) }
    }
}

/// The faults of an engine: none, unless somebody asks.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    all: Vec<Fault>,
    config: Option<Config>,
    /// Steps begun.
    begun: u32,
    swapped: bool,
}

impl Faults {
    /// Faults of an engine.
    ///
    /// # Errors
    /// [`Error::Fault`] in another mode than `throughput`.
    pub fn new(all: Vec<Fault>, engine: &Engine) -> Result<Self> {
        if !all.is_empty() && engine.mode() != Mode::Throughput {
            let detail = format!("they are for policy throughput/1; this engine runs {}", engine.mode().policy());
            return Err(Error::Fault { detail });
        }
        Ok(Self { all, config: Some(engine.model().config.clone()), ..Self::default() })
    }

    /// What records call the mode of such an engine: no auditor takes it for one without faults.
    pub fn mode(&self, mode: Mode) -> String {
        self.all.iter().fold(mode.name().to_owned(), |name, fault| format!("{name}+{fault}"))
    }

    /// The faults in one line; none when there is none.
    pub fn words(&self) -> Option<String> {
        let words: Vec<String> = self.all.iter().map(Fault::to_string).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    /// Faults of the step that is running.
    fn now(&self) -> impl Iterator<Item = Kind> + '_ {
        self.all.iter().filter(|f| self.begun.is_multiple_of(f.every)).map(|f| f.kind)
    }

    /// Begins a step: the choices that it runs with.
    pub fn dispatch(&mut self, shape: Shape, policy: Dispatch) -> Dispatch {
        self.begun += 1;
        self.swapped = false;
        let extra = self.now().find_map(|kind| match kind {
            Kind::Rows(n) => Some(n),
            _ => None,
        });
        match (extra, &self.config) {
            (Some(n), Some(config)) => {
                let more = Shape { rows: shape.rows + n, logits_rows: shape.logits_rows + n, ..shape };
                policy::dispatch(Mode::Throughput, config, more)
            }
            _ => policy,
        }
    }

    /// Runs the step.
    ///
    /// # Errors
    /// Those of [`Engine::step`].
    pub fn run(&mut self, engine: &mut Engine, plan: &StepPlan) -> Result<StepOutput> {
        if let Some(Kind::Delay(ms)) = self.now().find(|kind| matches!(kind, Kind::Delay(_))) {
            std::thread::sleep(Duration::from_millis(u64::from(ms)));
        }
        let dropped = match plan.groups.iter().find(|g| g.tokens.len() == 1) {
            Some(group) if self.now().any(|kind| kind == Kind::Column) => {
                let page = group.start / PAGE;
                Some((group.slot, page, engine.save(group.slot, page..page + 1)?))
            }
            _ => None,
        };
        let mut output = engine.step(plan)?;
        if let Some((slot, page, bytes)) = dropped {
            engine.restore(slot, page, &bytes)?;
        }
        if self.now().any(|kind| kind == Kind::Logit)
            && let Some(logits) = output.rows.iter_mut().find_map(|row| row.logits.as_mut())
        {
            let value = |bits: &u32| f32::from_bits(*bits);
            if let Some(largest) = logits.iter_mut().max_by(|a, b| value(a).total_cmp(&value(b))) {
                *largest ^= 1;
            }
        }
        Ok(output)
    }

    /// The token that is emitted.
    pub fn emit(&mut self, choice: Choice) -> u32 {
        let swaps = self.now().any(|kind| kind == Kind::Swap);
        match choice.runner_up {
            Some(other) if swaps && !self.swapped => {
                self.swapped = true;
                other
            }
            _ => choice.token,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        for text in ["logit", "column@3", "swap@60000", "rows=2", "delay=50@7"] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        assert_eq!("swap@1".parse::<Fault>().unwrap().to_string(), "swap");
        for bad in
            ["", "logits", "logit=1", "rows", "rows=0", "rows=-1", "rows=60001", "delay=x", "swap@0", "swap@", "@2"]
        {
            assert!(bad.parse::<Fault>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_says_which_steps() {
        let fault = Fault { kind: Kind::Swap, every: 3 };
        let mut faults = Faults { all: vec![fault], ..Faults::default() };
        let shape = Shape { rows: 1, logits_rows: 1, max_kv: 1 };
        let choice = Choice { token: 4, runner_up: Some(9), margin: 1.0 };
        let mut emitted = Vec::new();
        for _ in 0..6 {
            faults.dispatch(shape, Dispatch::UNSPLIT);
            // Once a step, whatever the batch.
            emitted.extend([faults.emit(choice), faults.emit(choice)]);
        }
        assert_eq!(emitted, [4, 4, 4, 4, 9, 4, 4, 4, 4, 4, 9, 4]);
        assert_eq!(faults.mode(Mode::Throughput), "throughput+swap@3");
        assert_eq!(Faults::default().mode(Mode::Throughput), "throughput");
        assert_eq!((faults.words().as_deref(), Faults::default().words()), (Some("swap@3"), None));
    }
}
