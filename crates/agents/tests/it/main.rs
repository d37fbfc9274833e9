//! Agents from outside: the turn loop, agents in a node, the roles, the market.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod desk;
mod elsewhere;
mod hosted;
mod markets;
mod mcp;
mod server;
mod turns;
mod turns_in_context;
mod turns_refused;
