//! Hardware profiles: a GPU generation is a row of data.
//!
//! A [`Profile`] states, for one generation, which matrix instructions there are and what each computes ([`MmaRow`]: operand types,
//! products per step, fraction bits kept, final conversion), with the confidence of every row, and [`Switches`] for what the sources
//! disagree about. Nothing in this crate branches on a generation's name.
//!
//! Adding a generation is adding a row to `profile/table/` and a vector file to the tests: `docs/adding-an-architecture.md`.
//!
//! Source: `gpu-arithmetic` sections 3, 4 and 9 and their sources (MMA-Sim; Khattak and Mikaitis; Hawkeye; mmaemu). Deliberately
//! missing, so refused by name: what [`Profile::unmodelled`] lists.

mod describe;
mod resolve;
mod row;
mod switch;
mod table;

pub use crate::mma::{Conversion, ZeroPolicy};
pub use describe::{ProfileDescription, RowDescription, UnmodelledDescription};
pub use row::{Fp8Order, FusedOp, MmaRow, Operands, Shapes};
pub use switch::{NanPayload, Switch, SwitchDescription, SwitchName, Switches, Underflow};

/// How well a rule is established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Confidence {
    /// `HW`: it reproduces recorded outputs of real hardware.
    Hardware,
    /// `XM`: it rests on MMA-Sim, whose authors report a million random tests an instruction against hardware.
    Simulator,
    /// `ISA`: the instruction set manual states it, and leaves nothing to rounding.
    Documented,
    /// `?`: open; the sources disagree or are silent.
    Open,
}

impl Confidence {
    /// The mark of the specification: `HW`, `XM`, `ISA` or `?`.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Hardware => "HW",
            Self::Simulator => "XM",
            Self::Documented => "ISA",
            Self::Open => "?",
        }
    }
}

/// Who makes a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Vendor {
    Nvidia,
    Amd,
}

impl Vendor {
    /// The name as the vendor writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA",
            Self::Amd => "AMD",
        }
    }
}

/// What a generation has and nobody has modelled: refused, never approximated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmodelled {
    /// The instructions.
    pub what: &'static str,
    /// What is missing.
    pub why: &'static str,
}

/// One GPU generation.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The compiler's name of the target: `sm_90`, `gfx942`.
    pub name: &'static str,
    /// Who makes it.
    pub vendor: Vendor,
    /// Compute capability times ten: 90; 0 for a generation that does not run PTX.
    pub sm: u32,
    /// `Hopper`.
    pub architecture: &'static str,
    /// Matrix instructions.
    pub mma: &'static [MmaRow],
    /// What the sources leave open.
    pub switches: Switches,
    /// What is not modelled.
    pub unmodelled: &'static [Unmodelled],
}

impl Profile {
    /// Every profile: NVIDIA's, then AMD's, oldest first.
    #[must_use]
    pub fn all() -> &'static [Self] {
        table::PROFILES
    }

    /// The profile called `name`, for example `sm_90`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|p| p.name == name)
    }

    /// This profile with switches moved.
    ///
    /// # Examples
    /// ```
    /// use emulator::profile::{Profile, Underflow};
    /// let hopper = Profile::by_name("sm_90").unwrap().with_switches(|s| s.underflow.set(Underflow::Signed));
    /// assert_eq!(hopper.switches.underflow.value, Underflow::Signed);
    /// ```
    #[must_use]
    pub fn with_switches(&self, change: impl FnOnce(&mut Switches)) -> Self {
        let mut changed = self.clone();
        change(&mut changed.switches);
        changed
    }

    /// This profile with another zero policy.
    #[must_use]
    pub fn with_zero_policy(&self, zero_policy: ZeroPolicy) -> Self {
        self.with_switches(|s| s.zero_policy.set(zero_policy))
    }
}

#[cfg(test)]
mod tests;
