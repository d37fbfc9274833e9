//! What is known about how good a vacant is, and the score that dispatch chooses by (section 15).
//!
//! Each of five dimensions has a Beta posterior that forgets with a half-life of its own. A parent's reputation never
//! enters a child's: nothing here knows of parents (VA-UCB-7).

use serde::{Deserialize, Serialize};

use crate::id::VacantId;

/// What is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dimension {
    /// Is it true?
    Factual,
    /// Does it follow?
    Logical,
    /// Does it answer the question?
    Relevance,
    /// Does it say what it does not know?
    Honesty,
    /// Is it used?
    Adoption,
}

const SECONDS_PER_DAY: f64 = 86_400.0;
/// How much weight a dimension needs to count for how often a vacant was tried (VA-UCB-4).
const COUNTED_WEIGHT: f64 = 0.05;

impl Dimension {
    /// All five, in the order of the specification.
    pub const ALL: [Self; 5] = [
        Self::Factual,
        Self::Logical,
        Self::Relevance,
        Self::Honesty,
        Self::Adoption,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Factual => "factual",
            Self::Logical => "logical",
            Self::Relevance => "relevance",
            Self::Honesty => "honesty",
            Self::Adoption => "adoption",
        }
    }

    /// The dimension of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dim| dim.as_str() == name)
    }

    /// α and β before anything is known (VA-UCB-2).
    #[must_use]
    pub const fn prior(self) -> (f64, f64) {
        match self {
            Self::Factual | Self::Logical | Self::Relevance => (1.0, 1.0),
            Self::Honesty => (2.0, 1.0),
            Self::Adoption => (1.0, 3.0),
        }
    }

    /// After how many days half of what was learned is forgotten (VA-UCB-2).
    #[must_use]
    pub const fn half_life_days(self) -> f64 {
        match self {
            Self::Factual | Self::Adoption => 90.0,
            Self::Logical => 180.0,
            Self::Relevance => 60.0,
            Self::Honesty => 30.0,
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// What is known about one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Posterior {
    /// Signals for, with the prior.
    pub alpha: f64,
    /// Signals against, with the prior.
    pub beta: f64,
    /// The weight of the signals that are not forgotten.
    pub n: f64,
    /// When it was last updated, in seconds.
    pub at: f64,
}

impl Posterior {
    const fn unknown(dim: Dimension) -> Self {
        let (alpha, beta) = dim.prior();
        Self {
            alpha,
            beta,
            n: 0.0,
            at: 0.0,
        }
    }

    /// Forgets what time took, then adds a signal (VA-UCB-2).
    fn update(&mut self, dim: Dimension, signal: f64, weight: f64, at: f64) {
        let (alpha, beta) = dim.prior();
        let days = (at - self.at) / SECONDS_PER_DAY;
        let kept = if days <= 0.0 {
            1.0
        } else {
            (-std::f64::consts::LN_2 * days / dim.half_life_days()).exp()
        };
        self.alpha = alpha + kept * (self.alpha - alpha) + weight * signal;
        self.beta = beta + kept * (self.beta - beta) + weight * (1.0 - signal);
        self.n = kept * self.n + weight;
        self.at = self.at.max(at);
    }

    /// VA-UCB-3.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.alpha / (self.alpha + self.beta)
    }

    /// VA-UCB-3.
    #[must_use]
    pub fn variance(&self) -> f64 {
        let sum = self.alpha + self.beta;
        self.alpha * self.beta / (sum * sum * (sum + 1.0))
    }
}

/// A signal that is no judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a signal is between 0 and 1, a weight is not negative, and both are numbers")]
pub struct BadSignal;

/// All that is known about one vacant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reputation([Posterior; 5]);

impl Default for Reputation {
    fn default() -> Self {
        Self(Dimension::ALL.map(Posterior::unknown))
    }
}

impl Reputation {
    /// Adds a signal of some weight at a time in seconds.
    pub fn update(
        &mut self,
        dim: Dimension,
        signal: f64,
        weight: f64,
        at: f64,
    ) -> Result<(), BadSignal> {
        let fits = (0.0..=1.0).contains(&signal) && weight.is_finite() && weight >= 0.0;
        if !fits || !at.is_finite() {
            return Err(BadSignal);
        }
        self.0[dim.index()].update(dim, signal, weight, at);
        Ok(())
    }

    /// What is known about one dimension.
    #[must_use]
    pub const fn of(&self, dim: Dimension) -> &Posterior {
        &self.0[dim.index()]
    }

    /// The mean of the asked dimensions, each counting alike.
    #[must_use]
    pub fn mean(&self, dims: &[Dimension]) -> f64 {
        if dims.is_empty() {
            return 0.0;
        }
        let sum: f64 = dims.iter().map(|dim| self.of(*dim).mean()).sum();
        sum / count(dims.len())
    }

    /// The upper confidence bound: what is known, how unsure that is, and how seldom it was tried among
    /// `known` vacants (VA-UCB-4).
    #[must_use]
    pub fn ucb(&self, weights: &Weights, known: u64) -> f64 {
        let weighted = |value: fn(&Posterior) -> f64, power: i32| -> f64 {
            let dims = Dimension::ALL.into_iter();
            dims.map(|dim| weights.of(dim).powi(power) * value(self.of(dim)))
                .sum()
        };
        let mean = weighted(Posterior::mean, 1);
        let deviation = weighted(Posterior::variance, 2).sqrt();
        #[expect(clippy::cast_precision_loss, reason = "a logarithm of a count")]
        let known = (known as f64).max(2.0);
        let explore = 0.5 * (known.ln() / self.tried(weights).max(1e-3)).sqrt();
        mean + deviation + explore
    }

    /// The harmonic mean of how often the dimensions that count were judged.
    fn tried(&self, weights: &Weights) -> f64 {
        let dims = Dimension::ALL.into_iter();
        let counted: Vec<f64> = dims
            .filter(|dim| weights.of(*dim) > COUNTED_WEIGHT)
            .map(|dim| self.of(dim).n.max(1e-6).recip())
            .collect();
        if counted.is_empty() {
            return 1.0;
        }
        count(counted.len()) / counted.iter().sum::<f64>()
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most five")]
const fn count(items: usize) -> f64 {
    items as f64
}

/// How much each dimension counts; they sum to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights([f64; 5]);

/// A weight that is negative or no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a weight is not negative")]
pub struct BadWeight;

impl Default for Weights {
    fn default() -> Self {
        Self([0.2; 5])
    }
}

impl Weights {
    /// Normalises; nothing but zeros counts all alike (VA-UCB-4).
    pub fn new(weights: impl IntoIterator<Item = (Dimension, f64)>) -> Result<Self, BadWeight> {
        let mut of = [0.0; 5];
        for (dim, weight) in weights {
            if !weight.is_finite() || weight < 0.0 {
                return Err(BadWeight);
            }
            of[dim.index()] = weight;
        }
        let sum: f64 = of.iter().sum();
        if sum > 0.0 && sum.is_finite() {
            Ok(Self(of.map(|weight| weight / sum)))
        } else {
            Ok(Self::default())
        }
    }

    /// The asked dimensions, each alike.
    #[must_use]
    pub fn equal(dims: &[Dimension]) -> Self {
        Self::new(dims.iter().map(|dim| (*dim, 1.0))).unwrap_or_default()
    }

    /// The weight of one dimension.
    #[must_use]
    pub const fn of(&self, dim: Dimension) -> f64 {
        self.0[dim.index()]
    }
}

/// How well it is attested what a vacant runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attestation {
    /// Not at all.
    #[default]
    L0,
    /// By itself.
    L1,
    /// By another.
    L2,
    /// By hardware.
    L3,
}

impl Attestation {
    /// The level of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "L0" => Some(Self::L0),
            "L1" => Some(Self::L1),
            "L2" => Some(Self::L2),
            "L3" => Some(Self::L3),
            _ => None,
        }
    }

    /// What it adds to a call score.
    #[must_use]
    pub const fn floor(self) -> f64 {
        match self {
            Self::L0 => 0.0,
            Self::L1 => 0.05,
            Self::L2 => 0.10,
            Self::L3 => 0.15,
        }
    }
}

/// The score of a call: the bound with stake, attestation and portability on top (VA-UCB-5).
#[must_use]
pub fn call_score(ucb: f64, stake: f64, level: Attestation, portability: f64) -> f64 {
    let stake = 0.1 * (1.0 + stake.max(0.0) / 100.0).ln();
    ucb + stake + level.floor() + portability.max(0.0)
}

/// What dispatch asks about a vacant (VA-UCB-1).
pub trait Oracle {
    /// How good it is in these dimensions; the highest is called.
    fn score(&self, vacant: &VacantId, dims: &[Dimension]) -> f64;
}

/// Where an oracle finds what is known.
pub trait Known {
    /// What is known about a vacant; none when it is unknown.
    fn reputation(&self, vacant: &VacantId) -> Option<Reputation>;
    /// How many vacants are known.
    fn count(&self) -> u64;
}

/// The default: the upper confidence bound, so that the unknown is tried too (VA-UCB-6).
pub struct UcbOracle<K>(pub K);

impl<K: Known> Oracle for UcbOracle<K> {
    fn score(&self, vacant: &VacantId, dims: &[Dimension]) -> f64 {
        let reputation = self.0.reputation(vacant).unwrap_or_default();
        reputation.ucb(&Weights::equal(dims), self.0.count())
    }
}

/// The mean alone, 0 for the unknown: it never explores (VA-UCB-6).
pub struct MeanOracle<K>(pub K);

impl<K: Known> Oracle for MeanOracle<K> {
    fn score(&self, vacant: &VacantId, dims: &[Dimension]) -> f64 {
        let reputation = self.0.reputation(vacant);
        reputation.map_or(0.0, |reputation| reputation.mean(dims))
    }
}
