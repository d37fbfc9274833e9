//! Canonical forms by name, each with what its protocol's reader refuses.

use super::Dialect;
use crate::json::{Integers, ReadRules};

/// A canonical form that people ask for by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// RFC 8785, as value-context signs.
    Rfc8785,
    /// What Python's `json.dumps` writes with sorted keys, as value-context's older form.
    Python,
    /// Vibe, and the lines of the log.
    Vibe,
    /// Vacant: the Python form, integers of any size.
    Vacant,
}

impl Form {
    /// The form of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "rfc8785" => Some(Self::Rfc8785),
            "python" => Some(Self::Python),
            "vibe" => Some(Self::Vibe),
            "vacant" => Some(Self::Vacant),
            _ => None,
        }
    }

    /// How it is written.
    #[must_use]
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Rfc8785 => Dialect::Rfc8785,
            Self::Python | Self::Vacant => Dialect::Python,
            Self::Vibe => Dialect::Vibe,
        }
    }

    /// The rules of the protocol that uses the form; only the size is not bounded, as nobody remote fills it.
    #[must_use]
    pub const fn rules(self) -> ReadRules {
        let rules = match self {
            Self::Rfc8785 | Self::Python => ReadRules::VALUE_CONTEXT,
            Self::Vibe => ReadRules {
                // An integer out of range is refused outside money fields (VC-MON-4), and in those too.
                integers: Integers::Safe,
                ..ReadRules::VIBE
            },
            Self::Vacant => ReadRules::VACANT,
        };
        ReadRules {
            max_bytes: usize::MAX,
            ..rules
        }
    }
}
