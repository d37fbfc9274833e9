//! Agents from outside: the turn loop, agents in a node, the roles, the market.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod desk;
mod hosted;
mod markets;
mod turns;
mod turns_in_context;
mod turns_refused;
