//! Behaviour of the value-context crate, one file a subject.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]
#![allow(clippy::print_stdout, reason = "tests tell what they counted")]

mod answers;
mod contexts;
mod envelopes;
mod escalations;
mod files;
mod identifiers;
mod operations;
mod payloads;
mod properties;
mod requests;
mod resumes;
mod schema;
mod shares;
mod signature_help;
mod signatures;
mod stage;
mod standing;
mod support;
mod vectors;
