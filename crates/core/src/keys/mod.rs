//! Keys: signatures made and checked, the texts keys come in, and who may use which key when.
//!
//! Guarantees: checking a signature answers yes or no and never panics; a decoded public key is canonical and
//! of large order, and is decoded once; what one machine accepts every machine accepts; signing is
//! deterministic; a secret is wiped when dropped and never printed.
//! Refuses: to make keys (the seed is an argument), to read files, and to fetch a key from anywhere.

pub mod base64;
pub mod ed25519;
pub mod jws;
pub mod keyring;
pub mod p256;

pub use keyring::{
    Algorithm, KeyRecord, KeySource, KeyState, KeyValidity, Keyring, KeyringError, Verdict,
};
