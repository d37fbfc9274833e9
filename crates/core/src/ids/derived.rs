//! The identifiers that one decision makes, all from one recorded nonce.

use uuid::Uuid;

use super::layout::{first_of, unix_ms_of, v4, v7};
use crate::digest::Sha256;
use crate::time::Time;

/// Makes the identifiers of one decision: the n-th, counted from 1, follows from SHA-256(nonce ‖ n as eight
/// bytes, big-endian) and the decision's time (CH-JRN-3). Replay with the nonce of the line makes the same.
///
/// Its version 7 identifiers strictly increase: `rand_a` is n, and what exceeds its 12 bits is added to the
/// milliseconds.
#[derive(Clone, Debug)]
pub struct DerivedIds {
    nonce: [u8; 16],
    unix_ms: u64,
    made: u64,
}

impl DerivedIds {
    /// None made yet. `decided` is the decision's time.
    #[must_use]
    pub fn new(nonce: [u8; 16], decided: Time) -> Self {
        Self {
            nonce,
            unix_ms: unix_ms_of(decided),
            made: 0,
        }
    }

    /// The nonce, to be recorded when [`made`](Self::made) is not zero.
    #[must_use]
    pub const fn nonce(&self) -> &[u8; 16] {
        &self.nonce
    }

    /// How many identifiers were made.
    #[must_use]
    pub const fn made(&self) -> u64 {
        self.made
    }

    /// The next identifier, version 4.
    pub fn next_v4(&mut self) -> Uuid {
        v4(first_of(&self.next_bytes()))
    }

    /// The next identifier, version 7.
    pub fn next_v7(&mut self) -> Uuid {
        let bytes = self.next_bytes();
        let rand_b = u64::from_be_bytes(first_of(&bytes));
        let rand_a = (self.made & 0xfff) as u16;
        v7(self.unix_ms + (self.made >> 12), rand_a, rand_b)
    }

    /// The next 32 bytes, for identifiers of another shape.
    pub fn next_bytes(&mut self) -> [u8; 32] {
        self.made += 1;
        let mut hash = Sha256::new();
        hash.update(&self.nonce);
        hash.update(&self.made.to_be_bytes());
        hash.finish().0
    }
}
