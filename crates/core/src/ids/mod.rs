//! Identifiers: how they are laid out, how they are checked, and how they follow from what is on record.
//!
//! Guarantees: the same inputs give the same identifier; a version 7 identifier made here is larger than
//! the one made before it by the same maker.
//! Refuses: to draw randomness or read a clock. Both are arguments.

mod caused;
mod derived;
mod layout;
mod sequence;

pub use caused::{ObjectKind, child_id, object_id};
pub use derived::DerivedIds;
pub use layout::{is_uuid4, is_uuid7, v4, v7};
pub use sequence::Uuid7Sequence;
pub use uuid::Uuid;
