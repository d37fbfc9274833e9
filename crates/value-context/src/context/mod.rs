//! Context strings: grammar, meaning and change (section 7).
//!
//! [`validate`] answers whether a string is one and allocates nothing; [`Context::parse`] gives what it
//! says. A string is never rewritten: the canonical form serves comparison alone. An unknown value is
//! kept and reported, it is no fault.

mod change;
mod meaning;
mod table;
mod units;
mod validate;

pub use change::{Change, ChangeSeverity, change};
pub use meaning::{Context, ContextValue, RiskLevel};
pub use table::Dimension;
pub use validate::{MAX_CODE_POINTS, MAX_VALUES, validate};

/// Why a text is no context string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextFault {
    /// No character at all; the envelope's schema refuses it already.
    #[error("context is empty")]
    Empty,
    /// More than [`MAX_CODE_POINTS`].
    #[error("context is longer than 512 code points")]
    TooLong,
    /// A leading, trailing or doubled `|`.
    #[error("context has an empty segment")]
    EmptySegment,
    /// A symbol that nothing follows.
    #[error("context has a segment without a value")]
    NoValue,
    /// Two segments with the same symbol.
    #[error("context has the same dimension twice")]
    RepeatedSymbol,
    /// More than [`MAX_VALUES`] values in one segment.
    #[error("context has more than 16 values in a dimension")]
    TooManyValues,
    /// A character that can neither begin nor continue a unit.
    #[error("context has a character outside the grammar")]
    Character,
    /// Half a flag.
    #[error("context has a single regional indicator")]
    LoneRegionalIndicator,
    /// A joiner that joins nothing.
    #[error("context has a joiner without a second character")]
    DanglingJoiner,
    /// The mark of the personal band and nothing else.
    #[error("context is an empty personal band")]
    EmptyBand,
}

impl ContextFault {
    /// The requirement that the string fails.
    pub const fn requirement(self) -> &'static str {
        match self {
            Self::Character | Self::LoneRegionalIndicator | Self::DanglingJoiner => "VX-CTX-2",
            Self::EmptyBand => "VX-CTX-7",
            _ => "VX-CTX-4",
        }
    }
}
