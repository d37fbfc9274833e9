//! What the core promises, one file a behaviour.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says what it left out"
)]

mod canonical_agreement;
mod canonical_numbers;
mod canonical_properties;
mod canonical_support;
mod canonical_vectors;
mod digest_hex;
mod ids_caused;
mod ids_derived;
mod ids_layout;
mod json_accepts_and_refuses;
mod json_faults;
mod json_properties;
mod json_suite;
mod keys_ed25519;
mod keys_jws;
mod keys_keyring;
mod keys_keyring_verify;
mod keys_p256;
mod keys_secret_text;
mod keys_vectors;
mod keys_wycheproof;
mod plain_text;
mod time_arithmetic;
mod time_grammars;
mod time_vacant;
