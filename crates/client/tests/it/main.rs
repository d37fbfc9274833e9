//! The client library against real nodes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod parent_child;
mod runtime;
mod support;
mod vacants;
