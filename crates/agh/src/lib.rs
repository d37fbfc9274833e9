//! AGH Network v0, both published revisions: envelopes, presence, interactions, capabilities.
//!
//! Not built yet. It will guarantee the published order of checks, that an envelope counts once, and that an
//! interaction is moved only by the two who opened it. It will refuse to read a clock, a file, a socket or a random
//! source. The README of this crate says more.
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]
#![cfg_attr(not(test), forbid(clippy::disallowed_types))]
