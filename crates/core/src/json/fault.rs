//! Why a text was refused.

use std::fmt;

use super::Path;

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// Longer than the rules allow; nothing was read.
    #[error("the text is too large")]
    TooLarge,
    /// Not UTF-8.
    #[error("the text is not valid UTF-8")]
    InvalidUtf8,
    /// Begins with U+FEFF.
    #[error("the text begins with a byte order mark")]
    ByteOrderMark,
    /// Ends before the value is complete.
    #[error("the text ends before the value is complete")]
    UnexpectedEnd,
    /// A character that the grammar does not allow here.
    #[error("unexpected character")]
    Syntax,
    /// A raw character below U+0020 inside a string.
    #[error("control character in a string")]
    ControlCharacter,
    /// A backslash followed by something that is no escape.
    #[error("invalid escape in a string")]
    InvalidEscape,
    /// A token that begins like a number and is none: leading zero, missing digits.
    #[error("invalid number")]
    InvalidNumber,
    /// Something other than white space after the value.
    #[error("content after the value")]
    TrailingContent,
    /// A member name that occurs twice in one object.
    #[error("member name occurs twice")]
    DuplicateName,
    /// An escaped surrogate without its other half.
    #[error("unpaired surrogate")]
    LoneSurrogate,
    /// An integer token outside ±(2^53 − 1).
    #[error("integer out of range")]
    IntegerOutOfRange,
    /// A number beyond a double.
    #[error("number too large")]
    NumberOverflow,
    /// More levels than the rules allow.
    #[error("nested too deeply")]
    TooDeep,
}

/// The first fault of a text and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub kind: FaultKind,
    /// The value that could not be read; the member, for a repeated name.
    pub path: Path,
    /// Byte offset into the text.
    pub offset: usize,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} (byte {})", self.kind, self.path, self.offset)
    }
}

impl std::error::Error for Fault {}
