//! The bit layout of UUID versions 4 and 7 (RFC 9562), and the strict check of their text.

use uuid::{Builder, Uuid};

use crate::time::Time;

/// What 48 bits hold.
const UNIX_MS_MASK: u64 = (1 << 48) - 1;
const RAND_A_MASK: u16 = (1 << 12) - 1;
const RAND_B_MASK: u64 = (1 << 62) - 1;

/// A version 4 identifier: `entropy` with the version and variant bits set.
#[must_use]
pub fn v4(entropy: [u8; 16]) -> Uuid {
    Builder::from_random_bytes(entropy).into_uuid()
}

/// A version 7 identifier: 48 bits of Unix milliseconds, 12 of `rand_a`, 62 of `rand_b` (VX-ID-2). Bits that
/// do not fit are dropped from the top.
#[must_use]
pub fn v7(unix_ms: u64, rand_a: u16, rand_b: u64) -> Uuid {
    let high = (unix_ms & UNIX_MS_MASK) << 16 | 7 << 12 | u64::from(rand_a & RAND_A_MASK);
    let low = 0b10 << 62 | (rand_b & RAND_B_MASK);
    Uuid::from_u64_pair(high, low)
}

/// The milliseconds a version 7 identifier made at `time` carries; before 1970 there are none.
pub(super) fn unix_ms_of(time: Time) -> u64 {
    u64::try_from(time.unix_millis()).unwrap_or(0)
}

/// The first `N` bytes of a digest.
pub(super) fn first_of<const N: usize>(digest: &[u8; 32]) -> [u8; N] {
    std::array::from_fn(|at| digest[at])
}

/// Whether `text` is a version 7 identifier in lower case with hyphens and nothing else (VX-ID-1).
#[must_use]
pub fn is_uuid7(text: &str) -> bool {
    has_layout(text, b'7')
}

/// Whether `text` is a version 4 identifier in lower case with hyphens and nothing else.
#[must_use]
pub fn is_uuid4(text: &str) -> bool {
    has_layout(text, b'4')
}

fn has_layout(text: &str, version: u8) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            14 => byte == version,
            19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}
