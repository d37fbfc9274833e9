//! One line of the log: written straight into a buffer, read back strictly.
//!
//! A line is canonical JSON in the vibe dialect (CH-JRN-3, VC-AUD-2): `envelope`, `meta`, and where they apply `raw`
//! and `signature`. What is read is either exactly what [`render`] writes, or a fault that says what and where.

mod read;
mod write;

pub(crate) use read::read_with;
pub use read::{LineFault, MAX_LINE_BYTES, Reading, parse, read};
pub use write::render;

/// The members of `meta` that every line may have; a protocol adds others.
mod member {
    pub(super) const EVAL_TS: &str = "eval_ts";
    pub(super) const MORE: &str = "more";
    pub(super) const ORIGIN: &str = "origin";
    pub(super) const PREV: &str = "prev";
    pub(super) const PROTOCOL: &str = "protocol";
    pub(super) const SEQ: &str = "seq";
}
