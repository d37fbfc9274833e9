//! The protocol from outside: vectors, own transcripts, replay, permissions, money, world.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod crashes;
mod doors;
mod identity;
mod limits;
mod permissions;
mod reads;
mod replay;
mod search;
mod suite;
mod support;
mod vectors;
mod worlds;
