//! Vacant: signed per-pair envelope chains, cards, registry, reputation.
//!
//! Not built yet. It will guarantee that a chain between two keys has no gap, no repeat and no fork, and that every
//! accepted call has at most one signed answer. It will refuse to read a clock, a file, a socket or a random source.
//! The README of this crate says more.
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]
#![cfg_attr(not(test), forbid(clippy::disallowed_types))]
