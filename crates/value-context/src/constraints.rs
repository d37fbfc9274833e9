//! The constraints of one type that an agent is under, and what they come to together (VX-CP-2 to 8).
//!
//! The result depends on the messages alone, never on the order they arrive in: entries are kept with the time and
//! identifier of their message, an override takes away what is older than itself, and what is older than an override
//! has no effect. What is so old that no override can arrive before it any more is folded together, so a set does not
//! grow with the number of messages.

use std::collections::BTreeSet;

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::Value;
use chancery_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::message_id::MessageId;
use crate::payload::{ConstraintType, Mode, trimmed};
use crate::verify::MAX_AGE;

/// The place of a message in the order that counts: its time, then its identifier (VX-ORD-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    /// When it was made.
    pub at: Time,
    /// Its identifier.
    pub id: MessageId,
}

/// A value in the form in which values of its type are combined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// Topics or audiences, as they are compared (VX-CP-3).
    Words(BTreeSet<String>),
    /// A limit or a floor.
    Number(u64),
    /// A value without a known order, as RFC 8785 text.
    Any(String),
}

impl Held {
    /// The value of a constraint of this type, which allows it.
    pub fn of(kind: ConstraintType, value: &Value<'_>) -> Self {
        match (kind, value) {
            (ConstraintType::Unknown, value) => Self::any(value),
            (_, Value::Number(number)) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the type allows whole numbers from 0 to 2^53 − 1 alone"
                )]
                let number = number.as_f64() as u64;
                Self::Number(number)
            }
            (_, Value::String(word)) => Self::Words(BTreeSet::from([compared(word)])),
            (_, Value::Array(words)) => Self::Words(
                words
                    .iter()
                    .filter_map(Value::as_str)
                    .map(compared)
                    .collect(),
            ),
            (_, value) => Self::any(value),
        }
    }

    fn any(value: &Value<'_>) -> Self {
        let text = to_bytes(value, Dialect::Rfc8785);
        Self::Any(String::from_utf8(text).expect("canonical JSON is UTF-8"))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Words(words) => words.iter().map(|word| word.len() + 3).sum(),
            Self::Number(_) => 16,
            Self::Any(text) => text.len(),
        }
    }
}

/// A topic or audience as it is compared.
fn compared(word: &str) -> String {
    trimmed(word).to_ascii_lowercase()
}

/// What the constraints of one type come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effective {
    /// Topics or audiences, sorted by their bytes.
    Words(BTreeSet<String>),
    /// A limit or a floor.
    Number(u64),
    /// All distinct values, as RFC 8785 text, in the order they came into force.
    All(Vec<String>),
}

impl Effective {
    /// As JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Words(words) => words.iter().map(String::as_str).collect(),
            Self::Number(number) => (*number).into(),
            Self::All(values) => values
                .iter()
                .map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default())
                .collect(),
        }
    }

    /// Whether it lets nobody be served.
    pub fn is_nobody(&self, kind: ConstraintType) -> bool {
        kind == ConstraintType::AudienceRestrict
            && matches!(self, Self::Words(words) if words.is_empty())
    }
}

/// Combines values of one type; none when there are none.
pub fn combine<'h>(
    kind: ConstraintType,
    values: impl Iterator<Item = &'h Held>,
) -> Option<Effective> {
    let mut combined = None;
    for value in values {
        combined = Some(match combined {
            None => first(value),
            Some(so_far) => both(kind, so_far, value),
        });
    }
    combined
}

fn first(value: &Held) -> Effective {
    match value {
        Held::Words(words) => Effective::Words(words.clone()),
        Held::Number(number) => Effective::Number(*number),
        Held::Any(text) => Effective::All(vec![text.clone()]),
    }
}

fn both(kind: ConstraintType, so_far: Effective, value: &Held) -> Effective {
    match (so_far, value) {
        (Effective::Words(a), Held::Words(b)) if kind == ConstraintType::AudienceRestrict => {
            Effective::Words(a.intersection(b).cloned().collect())
        }
        (Effective::Words(a), Held::Words(b)) => Effective::Words(a.union(b).cloned().collect()),
        (Effective::Number(a), Held::Number(b)) if kind == ConstraintType::SafetyFloor => {
            Effective::Number(a.max(*b))
        }
        (Effective::Number(a), Held::Number(b)) => Effective::Number(a.min(*b)),
        (Effective::All(mut values), Held::Any(text)) => {
            if !values.contains(text) {
                values.push(text.clone());
            }
            Effective::All(values)
        }
        // A type has values of one form; what is there stays.
        (so_far, _) => so_far,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    stamp: Stamp,
    value: Held,
}

/// The entries of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraints {
    /// The newest override.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overridden: Option<Stamp>,
    /// What no override can come before any more, folded together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    settled: Vec<Held>,
    /// The others, in the order that counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    recent: Vec<Entry>,
    /// Whether the parent was told that the type is not known (VX-CP-6).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub told: bool,
}

impl Constraints {
    /// Applies what one message says about this type; whether it had any effect.
    pub fn apply(
        &mut self,
        kind: ConstraintType,
        stamp: Stamp,
        mode: Mode,
        values: Vec<Held>,
        now: Time,
    ) -> bool {
        self.settle(kind, now);
        if self.overridden.is_some_and(|newest| stamp < newest) {
            return false;
        }
        if mode == Mode::Override {
            self.overridden = Some(stamp);
            self.settled.clear();
            self.recent.retain(|entry| entry.stamp > stamp);
        }
        let place = self.recent.partition_point(|entry| entry.stamp <= stamp);
        let entries = values.into_iter().map(|value| Entry { stamp, value });
        self.recent.splice(place..place, entries);
        true
    }

    /// All values in force, in the order that counts.
    pub fn values(&self) -> impl Iterator<Item = &Held> {
        let recent = self.recent.iter().map(|entry| &entry.value);
        self.settled.iter().chain(recent)
    }

    /// About how many bytes the values take.
    pub fn bytes(&self) -> usize {
        self.values().map(Held::bytes).sum()
    }

    /// Folds together what is older than any message that can still arrive (VX-RPL-1).
    fn settle(&mut self, kind: ConstraintType, now: Time) {
        let oldest = now.saturating_sub(MAX_AGE);
        let old = self.recent.partition_point(|entry| entry.stamp.at < oldest);
        if old == 0 {
            return;
        }
        let old: Vec<Held> = self.recent.drain(..old).map(|entry| entry.value).collect();
        let folded = combine(kind, self.settled.iter().chain(&old));
        self.settled = match folded {
            Some(Effective::Words(words)) => vec![Held::Words(words)],
            Some(Effective::Number(number)) => vec![Held::Number(number)],
            Some(Effective::All(values)) => values.into_iter().map(Held::Any).collect(),
            None => Vec::new(),
        };
    }
}
