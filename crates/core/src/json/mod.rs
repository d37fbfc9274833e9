//! Strict JSON in.
//!
//! Guarantees: what is read is RFC 8259 JSON in UTF-8 without a byte order mark, one value and nothing
//! after it, with no unpaired surrogate. Size and depth are bounded by the caller's [`ReadRules`], the
//! work grows as n log n at worst, and no input can exhaust the stack. Number tokens are kept as they
//! were written, because money rules and legacy canonical forms judge the token and not the value. A
//! fault names its kind, its place and its byte offset; the first one in the text is the one reported.
//!
//! Refuses to: repair, guess, round a number, or read a stream piece by piece.

mod fault;
mod number;
mod path;
mod read;
mod rules;
mod text;
mod value;
mod written;

pub use fault::{Fault, FaultKind};
pub use number::Number;
pub use path::{Path, Place, Step};
pub use read::{read, read_noting};
pub use rules::{DuplicateNames, Integers, MAX_DEPTH, Overflow, ReadRules};
pub(crate) use text::plain_run;
pub use value::{Object, Value};
