//! Tests of the vacant protocol.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

mod calling_out;
mod calls;
mod errors_explained;
mod further_values;
mod host;
mod originated;
mod registry;
mod the_log;
mod values;
mod vectors;
