//! The protocol from outside: vectors, own transcripts, replay, permissions, money, world.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accounts;
mod agreements;
mod ap2;
mod apart;
mod contradictions;
mod coverage;
mod crashes;
mod doors;
mod exhaustive;
mod goals;
mod identity;
mod limits;
mod machines;
mod model;
mod permissions;
mod private;
mod promises;
mod reads;
mod replay;
mod retention;
mod search;
mod signed;
mod suite;
mod support;
mod vectors;
mod worlds;
