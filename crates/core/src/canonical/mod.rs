//! Canonical JSON out.
//!
//! Guarantees: one value has one sequence of bytes in a [`Dialect`], whatever order, white space and
//! escapes it was written with; reading those bytes and writing them again changes nothing. Members are
//! sorted here, so nothing depends on how a map type of some library keeps its order. [`Canonical`] says
//! whether the dialects agree on a value, so that one buffer serves signature, fingerprint and log line.
//!
//! Refuses to: normalize Unicode, or read anything: what is malformed never gets this far.

mod form;
mod number;
mod order;
mod string;
mod write;

pub use form::Form;
pub use number::write_f64;
pub use string::{write_string, write_string_html_safe};
pub use write::{
    Canonical, canonical_cutting, plain_cutting, plain_len, to_bytes, write, write_without_member,
};

/// A canonical form. All three write strings alike and no white space; they differ in the order of names
/// beyond the Basic Multilingual Plane and in the form of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// RFC 8785 (VX-CAN-1 to VX-CAN-4): names by UTF-16 code units, numbers as ECMAScript writes the
    /// double.
    Rfc8785,
    /// What Python's `json.dumps` writes with sorted keys (VX-CAN-7, VA-CJ-1 to VA-CJ-6): names by code
    /// point, integer tokens exact, other numbers as the `repr` of the double.
    Python,
    /// Vibe and the journal (VC-CAN-2 to VC-CAN-4): names by code point, integer tokens exact, other
    /// numbers as ECMAScript writes the double.
    Vibe,
}
