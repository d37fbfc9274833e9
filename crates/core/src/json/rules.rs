//! What a protocol's reader accepts beyond the grammar.

use super::Value;
use super::read::refusal_of;

/// No rules allow deeper nesting than this, whatever they say. Values are dropped, compared and written
/// by recursion, and this depth fits a small thread's stack.
pub const MAX_DEPTH: usize = 1024;

/// What to do with a member name that occurs twice in one object, compared after unescaping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateNames {
    /// The text is refused.
    Refuse,
    /// The last value stands, at the place of the first.
    LastWins,
}

/// Which integer tokens (no `.`, `e`, `E`) are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integers {
    /// Those within ±(2^53 − 1), which every reader keeps exact.
    Safe,
    /// Any; fields that must be in range are judged later.
    Any,
}

/// What to do with a number whose value is beyond a double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The text is refused.
    Refuse,
    /// The text is refused for a token with a fraction or an exponent; an integer token stays exact.
    RefuseFloats,
    /// The token is kept.
    Keep,
}

/// The limits and choices of one reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRules {
    /// A longer text is refused before it is looked at.
    pub max_bytes: usize,
    /// Levels of arrays and objects; the outermost is level 1. At most [`MAX_DEPTH`] counts.
    pub max_depth: usize,
    /// What to do with a repeated member name.
    pub duplicate_names: DuplicateNames,
    /// Which integer tokens are accepted.
    pub integers: Integers,
    /// What to do with a number beyond a double.
    pub overflow: Overflow,
}

impl ReadRules {
    /// Whether a text of `bytes` bytes that was read under other rules, none of whose names is repeated, would have
    /// been read under these as well.
    #[must_use]
    pub fn admit(&self, value: &Value<'_>, bytes: usize) -> bool {
        bytes <= self.max_bytes && self.admit_below(value, self.max_depth.min(MAX_DEPTH))
    }

    fn admit_below(&self, value: &Value<'_>, levels: usize) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::String(_) => true,
            Value::Number(number) => refusal_of(number.token(), self).is_none(),
            Value::Array(items) => {
                levels > 0 && items.iter().all(|item| self.admit_below(item, levels - 1))
            }
            Value::Object(members) => {
                let mut values = members.iter().map(|(_, value)| value);
                levels > 0 && values.all(|value| self.admit_below(value, levels - 1))
            }
        }
    }

    /// value-context: VX-ENV-6, VX-ENV-7.
    pub const VALUE_CONTEXT: Self = Self {
        max_bytes: 65_536,
        max_depth: 32,
        duplicate_names: DuplicateNames::Refuse,
        integers: Integers::Safe,
        overflow: Overflow::Refuse,
    };

    /// vibe: VC-ENV-18, VC-CLR-7. Integers out of range are read, because in a money field they have a
    /// code of their own; the envelope decoder refuses the others (VC-MON-4).
    pub const VIBE: Self = Self {
        max_bytes: 262_144,
        max_depth: 64,
        duplicate_names: DuplicateNames::Refuse,
        integers: Integers::Any,
        overflow: Overflow::Refuse,
    };

    /// vacant: VA-CJ-4, VA-CJ-6, VA-CJ-7. Integers of any size stay exact.
    pub const VACANT: Self = Self {
        max_bytes: 1_048_576,
        max_depth: 64,
        duplicate_names: DuplicateNames::LastWins,
        integers: Integers::Any,
        overflow: Overflow::RefuseFloats,
    };

    /// agh: AG-JSON-1 to AG-JSON-7. Values are kept exactly as received (AG-ENV-19), so also a number
    /// that no double holds.
    pub const AGH: Self = Self {
        max_bytes: 1_048_576,
        max_depth: 128,
        duplicate_names: DuplicateNames::Refuse,
        integers: Integers::Any,
        overflow: Overflow::Keep,
    };

    /// Text that this program wrote itself: no limit but the reader's own on depth.
    pub const OWN: Self = Self {
        max_bytes: usize::MAX,
        max_depth: MAX_DEPTH,
        duplicate_names: DuplicateNames::Refuse,
        integers: Integers::Any,
        overflow: Overflow::Keep,
    };
}
