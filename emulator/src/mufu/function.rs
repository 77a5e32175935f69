//! The functions of the unit by name, and which have a model.

use crate::Error;
use crate::profile::Confidence;

/// A function of the special function unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// Reciprocal (`rcp.approx.ftz.f32`).
    Rcp,
    /// Reciprocal square root (`rsqrt.approx.ftz.f32`).
    Rsq,
    /// Base-2 exponential (`ex2.approx.ftz.f32`).
    Ex2,
    /// Base-2 logarithm (`lg2.approx.ftz.f32`).
    Lg2,
    /// Sine (`sin.approx.ftz.f32`).
    Sin,
    /// Cosine (`cos.approx.ftz.f32`). Shares the coefficients of the sine.
    Cos,
    /// Square root (`sqrt.approx.f32`). No model.
    Sqrt,
    /// Hyperbolic tangent (`tanh.approx.f32`). No model.
    Tanh,
}

impl Function {
    /// The functions that have a model.
    pub const MODELLED: [Self; 6] = [Self::Rcp, Self::Rsq, Self::Ex2, Self::Lg2, Self::Sin, Self::Cos];

    /// The functions that have coefficients of their own: [`Function::MODELLED`] without the cosine.
    pub const TABULATED: [Self; 5] = [Self::Rcp, Self::Rsq, Self::Ex2, Self::Lg2, Self::Sin];

    /// All functions.
    pub const ALL: [Self; 8] =
        [Self::Rcp, Self::Rsq, Self::Ex2, Self::Lg2, Self::Sin, Self::Cos, Self::Sqrt, Self::Tanh];

    /// The lower-case name used in files and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rcp => "rcp",
            Self::Rsq => "rsq",
            Self::Ex2 => "ex2",
            Self::Lg2 => "lg2",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Sqrt => "sqrt",
            Self::Tanh => "tanh",
        }
    }

    /// The function of this name, or `None`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }

    /// How well the model of this function is established for a GPU generation, and on what
    /// (`specs/gpu-arithmetic.md` 6.1).
    #[must_use]
    pub const fn evidence(self, sm: u32) -> (Confidence, &'static str) {
        match (self, sm) {
            (Self::Rcp | Self::Rsq, 80 | 89 | 90) => (
                Confidence::Hardware,
                "error counts of exhaustive probes of A100, L40S and H100 are equal to the last digit",
            ),
            (Self::Rcp | Self::Rsq, _) => (Confidence::Open, "likely: probed only on sm_80, sm_89 and sm_90"),
            (Self::Ex2, 75..=90) => {
                (Confidence::Open, "very likely: the largest error and single published values agree")
            }
            (Self::Ex2 | Self::Lg2, _) => (Confidence::Open, "likely: the error bounds of the manuals agree"),
            (Self::Sin | Self::Cos, _) => (
                Confidence::Open,
                "table likely: the error bounds of the manuals agree; how the argument is reduced is open",
            ),
            (Self::Sqrt | Self::Tanh, _) => (Confidence::Open, "no model"),
        }
    }

    /// Succeeds for a function that has a model.
    ///
    /// # Errors
    /// [`Error::UnsupportedMufu`] names the probe of a real unit that would settle the others.
    pub fn model(self) -> Result<(), Error> {
        let probe = match self {
            Self::Rcp | Self::Rsq | Self::Ex2 | Self::Lg2 | Self::Sin | Self::Cos => return Ok(()),
            Self::Sqrt => "every sqrt.approx.f32 operand of [1, 4), to tell x * RSQ(x) from a unit of its own",
            Self::Tanh => "every tanh.approx.f32 operand of [2^-14, 16)",
        };
        Err(Error::UnsupportedMufu { function: self.name(), probe })
    }
}

impl std::fmt::Display for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
