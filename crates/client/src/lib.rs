//! What a Rust agent links to talk to a node.
//!
//! Not built yet. It will guarantee that what it signs is what the node verifies, and that a repeated send has one
//! effect. It will refuse to send a secret over an open line, or to retry without bound. The README of this crate says
//! more.
