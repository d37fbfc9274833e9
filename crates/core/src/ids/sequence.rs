//! Version 7 identifiers that strictly increase.

use uuid::Uuid;

use super::layout::{unix_ms_of, v7};
use crate::time::Time;

const COUNTER_SEED_MASK: u16 = (1 << 11) - 1;
const COUNTER_MAX: u16 = (1 << 12) - 1;

/// Makes version 7 identifiers, each larger than the one before, also when the clock stands still or steps
/// back (VX-ID-3). `rand_a` is a counter that starts in the lower half of its range.
#[derive(Clone, Debug, Default)]
pub struct Uuid7Sequence {
    last: Option<Last>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    unix_ms: u64,
    counter: u16,
}

impl Uuid7Sequence {
    /// No identifier made yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { last: None }
    }

    /// Goes on after an identifier that such a sequence made.
    #[must_use]
    pub fn after(made: Uuid) -> Self {
        let bytes = made.into_bytes();
        let mut unix_ms = [0; 8];
        unix_ms[2..].copy_from_slice(&bytes[..6]);
        let counter = u16::from_be_bytes([bytes[6], bytes[7]]) & COUNTER_MAX;
        Self {
            last: Some(Last {
                unix_ms: u64::from_be_bytes(unix_ms),
                counter,
            }),
        }
    }

    /// The next identifier. Of `entropy` the first two bytes seed the counter, the other eight are `rand_b`.
    ///
    /// Milliseconds beyond year 9999 count as its last one, so that there is always room to count on.
    pub fn next(&mut self, unix_ms: u64, entropy: [u8; 10]) -> Uuid {
        let [a, b, rand_b @ ..] = entropy;
        let unix_ms = unix_ms.min(unix_ms_of(Time::MAX));
        let made = match self.last {
            Some(last) if unix_ms <= last.unix_ms => last.following(),
            _ => Last {
                unix_ms,
                counter: u16::from_be_bytes([a, b]) & COUNTER_SEED_MASK,
            },
        };
        self.last = Some(made);
        v7(made.unix_ms, made.counter, u64::from_be_bytes(rand_b))
    }
}

impl Last {
    /// One more in the same millisecond, or the first of the next one when that is full.
    const fn following(self) -> Self {
        if self.counter < COUNTER_MAX {
            Self {
                unix_ms: self.unix_ms,
                counter: self.counter + 1,
            }
        } else {
            Self {
                unix_ms: self.unix_ms + 1,
                counter: 0,
            }
        }
    }
}
