//! A threshold, and the model and stack it was measured on.

use crate::margin::Margin;

/// What a threshold is valid for: digests, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Of the model.
    pub model: String,
    /// Of the stack: engine, device arithmetic, kernels.
    pub stack: String,
}

/// Margins from here on are committed without verification.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    tau: f32,
    binding: Binding,
}

/// Why a threshold cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is no number from 0 to infinity.
    #[error("a threshold of {tau} is not one: it is a number from 0 (never verify) to infinity (always verify)")]
    NotAThreshold {
        /// As text.
        tau: String,
    },
    /// It was measured on something else.
    #[error(
        "the threshold was calibrated on {what} {calibrated}, this is {found}: calibrate again; a threshold of another {what} says nothing here"
    )]
    Elsewhere {
        /// `model` or `stack`.
        what: &'static str,
        /// What it belongs to.
        calibrated: String,
        /// What it was to be used on.
        found: String,
    },
}

impl Threshold {
    /// A threshold for one model on one stack.
    ///
    /// # Errors
    /// [`Refusal::NotAThreshold`] for NaN and negative numbers.
    pub fn new(tau: f32, binding: Binding) -> Result<Self, Refusal> {
        check(tau)?;
        Ok(Self { tau, binding })
    }

    /// What it belongs to.
    pub fn binding(&self) -> &Binding {
        &self.binding
    }

    /// The value, for a model on a stack.
    ///
    /// # Errors
    /// [`Refusal::Elsewhere`] on any other model or stack.
    pub fn on(&self, found: &Binding) -> Result<f32, Refusal> {
        let sides = [("model", &self.binding.model, &found.model), ("stack", &self.binding.stack, &found.stack)];
        match sides.into_iter().find(|(_, own, other)| own != other) {
            None => Ok(self.tau),
            Some((what, own, other)) => Err(Refusal::Elsewhere { what, calibrated: own.clone(), found: other.clone() }),
        }
    }
}

/// Refuses what is no threshold.
///
/// # Errors
/// [`Refusal::NotAThreshold`].
pub fn check(tau: f32) -> Result<(), Refusal> {
    if tau >= 0.0 { Ok(()) } else { Err(Refusal::NotAThreshold { tau: tau.to_string() }) }
}

/// Is a risk below the threshold? At infinity every one is, at 0 none.
pub fn is_low(risk: Margin, tau: f32) -> bool {
    risk.value() < tau || tau == f32::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(model: &str, stack: &str) -> Binding {
        Binding { model: model.into(), stack: stack.into() }
    }

    #[test]
    fn another_model_or_stack_is_refused_by_name() {
        let t = Threshold::new(0.5, binding("m", "s")).unwrap();
        assert_eq!(t.on(&binding("m", "s")), Ok(0.5));
        let wrong = t.on(&binding("m", "z")).unwrap_err();
        assert!(matches!(wrong, Refusal::Elsewhere { what: "stack", .. }));
        assert!(wrong.to_string().contains("calibrate again"), "{wrong}");
        assert!(matches!(t.on(&binding("n", "s")), Err(Refusal::Elsewhere { what: "model", .. })));
    }

    #[test]
    fn only_numbers_from_zero_to_infinity_are_thresholds() {
        for bad in [f32::NAN, -1.0, f32::NEG_INFINITY] {
            assert!(Threshold::new(bad, binding("m", "s")).is_err());
        }
        let m = Margin::new;
        assert!(!is_low(m(0.0), 0.0), "tau = 0 never verifies, not even a tie");
        assert!(is_low(Margin::INFINITE, f32::INFINITY), "tau = infinity always does");
        assert!(is_low(m(0.4), 0.5) && !is_low(m(0.5), 0.5));
    }
}
