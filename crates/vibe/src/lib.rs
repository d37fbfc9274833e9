//! Vibe Commerce Protocol 1.0: envelope, actions, permissions, private guard, world, lifecycle.
//!
//! Not built yet. It will guarantee that money is integer and moves only past the human gate, that a settlement
//! happens whole or not at all, and that a repeat has no second effect. It will refuse to read a clock, a file, a
//! socket or a random source. The README of this crate says more.
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]
#![cfg_attr(not(test), forbid(clippy::disallowed_types))]
