//! Behaviour of the value-context crate, one file a subject.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

mod answers;
mod contexts;
mod envelopes;
mod files;
mod identifiers;
mod properties;
mod requests;
mod schema;
mod signature_help;
mod signatures;
mod support;
mod vectors;
