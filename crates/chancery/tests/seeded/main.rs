//! The test kit against nodes that are wrong on purpose: a program of its own, so that the build with that feature has
//! nothing else to compile.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
#![expect(dead_code, reason = "the other tests use the rest of it")]

#[path = "../it/served.rs"]
mod served;
#[path = "../it/support.rs"]
mod support;
#[path = "../it/test_kit.rs"]
mod test_kit;
#[path = "../it/wire.rs"]
mod wire;
