//! What the test protocol does, so that the tests that stand on it stand on something.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod verbs;
