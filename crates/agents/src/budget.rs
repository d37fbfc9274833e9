//! What a turn may cost: steps, tokens, time and money.

use std::time::Duration;

use serde::Serialize;

/// Steps of a turn where nothing else is said (VC-TURN-5).
pub const MAX_STEPS: u32 = 8;

/// The bounds of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Steps, each with one inference.
    pub steps: u32,
    /// Tokens that the model may take in and give out.
    pub tokens: Option<u64>,
    /// Time from the start of the turn to its end.
    pub time: Duration,
    /// Money, in millionths of the price's currency. Needs a model whose prices are known.
    pub micros: Option<u64>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            steps: MAX_STEPS,
            tokens: None,
            time: Duration::from_secs(60),
            micros: None,
        }
    }
}

/// What inference took. A cost that is not known is none, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Tokens taken in.
    pub prompt_tokens: u64,
    /// Tokens given out.
    pub completion_tokens: u64,
    /// The cost in millionths, where every price is known.
    pub micros: Option<u64>,
}

impl Usage {
    /// What takes nothing: rules in this process.
    pub const FREE: Self = Self {
        prompt_tokens: 0,
        completion_tokens: 0,
        micros: Some(0),
    };

    /// Both together; unknown where one is.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let sum = |a: u64, b: u64| a.saturating_add(b);
        Self {
            prompt_tokens: sum(self.prompt_tokens, other.prompt_tokens),
            completion_tokens: sum(self.completion_tokens, other.completion_tokens),
            micros: self.micros.zip(other.micros).map(|(a, b)| sum(a, b)),
        }
    }

    /// Whether it is more than a budget allows.
    pub fn exceeds(&self, budget: &Budget) -> bool {
        let tokens = self.prompt_tokens.saturating_add(self.completion_tokens);
        let over = |used: u64, bound: Option<u64>| bound.is_some_and(|bound| used > bound);
        over(tokens, budget.tokens)
            || self
                .micros
                .is_some_and(|micros| over(micros, budget.micros))
    }
}
