//! What the test protocol and the judge of histories do, so that the tests that stand on them stand on something.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod linear;
mod verbs;
