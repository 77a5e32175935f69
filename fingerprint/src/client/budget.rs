//! What a run may cost, in requests, tokens and money.

use std::fmt;
use std::sync::Mutex;

use crate::error::{Error, Result};

/// Limits, stated before anything is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Requests, retries included.
    pub requests: u64,
    /// Tokens, prompts and answers together.
    pub tokens: u64,
    /// Most money, in the currency of the prices; none for no limit.
    pub money: Option<f64>,
    /// Price of a million prompt tokens.
    pub prompt_price: f64,
    /// Price of a million generated tokens.
    pub output_price: f64,
}

impl Budget {
    /// What this many tokens cost.
    pub fn price(&self, prompt: u64, output: u64) -> f64 {
        (prompt as f64 * self.prompt_price + output as f64 * self.output_price) / 1e6
    }
}

/// What was, or would be, used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Requests.
    pub requests: u64,
    /// Prompt tokens.
    pub prompt: u64,
    /// Generated tokens.
    pub output: u64,
}

impl Usage {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            requests: self.requests.saturating_add(other.requests),
            prompt: self.prompt.saturating_add(other.prompt),
            output: self.output.saturating_add(other.output),
        }
    }

    /// Tokens of both kinds.
    pub fn tokens(&self) -> u64 {
        self.prompt.saturating_add(self.output)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests, {} tokens", self.requests, self.tokens())
    }
}

/// Counts against a budget. A request is charged with the most it may use before it is sent, and settled afterwards.
#[derive(Debug)]
pub struct Meter {
    budget: Budget,
    used: Mutex<Usage>,
}

impl Meter {
    /// Nothing used yet.
    pub fn new(budget: Budget) -> Self {
        Self { budget, used: Mutex::new(Usage::default()) }
    }

    /// The limits.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What was used.
    pub fn used(&self) -> Usage {
        *self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes `most` out of the budget.
    ///
    /// # Errors
    /// [`Error::Budget`] if it is not there; nothing is taken then.
    pub fn charge(&self, most: Usage) -> Result<()> {
        let mut used = self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let after = used.plus(most);
        let b = &self.budget;
        let short = |what, need: String, left: String| Err(Error::Budget { what, need, left });
        if after.requests > b.requests {
            return short("requests", most.requests.to_string(), b.requests.saturating_sub(used.requests).to_string());
        }
        if after.tokens() > b.tokens {
            return short("tokens", most.tokens().to_string(), b.tokens.saturating_sub(used.tokens()).to_string());
        }
        if let Some(money) = b.money
            && b.price(after.prompt, after.output) > money
        {
            let left = money - b.price(used.prompt, used.output);
            return short("money", format!("{:.4}", b.price(most.prompt, most.output)), format!("{left:.4}"));
        }
        *used = after;
        Ok(())
    }

    /// Replaces a charge by what was really used.
    pub fn settle(&self, charged: Usage, real: Usage) {
        let mut used = self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        used.requests = used.requests.saturating_sub(charged.requests).saturating_add(real.requests);
        used.prompt = used.prompt.saturating_sub(charged.prompt).saturating_add(real.prompt);
        used.output = used.output.saturating_sub(charged.output).saturating_add(real.output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_spent_that_is_not_there() {
        let budget = Budget { requests: 3, tokens: 100, money: Some(0.001), prompt_price: 1.0, output_price: 20.0 };
        let meter = Meter::new(budget);
        let one = Usage { requests: 1, prompt: 20, output: 10 };
        meter.charge(one).unwrap();
        meter.settle(one, Usage { requests: 1, prompt: 15, output: 5 });
        assert_eq!(meter.used(), Usage { requests: 1, prompt: 15, output: 5 });
        assert!(matches!(
            meter.charge(Usage { requests: 1, prompt: 90, output: 0 }),
            Err(Error::Budget { what: "tokens", .. })
        ));
        assert!(matches!(
            meter.charge(Usage { requests: 1, prompt: 0, output: 60 }),
            Err(Error::Budget { what: "money", .. })
        ));
        meter.charge(one).unwrap();
        meter.charge(one).unwrap();
        assert!(matches!(meter.charge(one), Err(Error::Budget { what: "requests", .. })));
    }
}
