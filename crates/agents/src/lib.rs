//! Agents that live in the node: the turn loop and behaviours.
//!
//! Not built yet. It will guarantee that one inbound envelope drives one bounded turn with at most one envelope out,
//! under the same rules as everybody's. It will refuse to run during replay, or to speak for a suspended agent. The
//! README of this crate says more.
