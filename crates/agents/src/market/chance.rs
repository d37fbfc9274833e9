//! Chance that follows from a seed, and from nothing else.

/// SplitMix64: small, and the same everywhere.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    /// The chance of a name under a seed: what one draws does not move another.
    pub(super) fn of(seed: u64, name: &str) -> Self {
        let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
        for byte in name.bytes() {
            state = mixed(state.rotate_left(8) ^ u64::from(byte));
        }
        Self(state)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// Whether something of so many in a hundred happens.
    pub(super) fn happens(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = self.next() % from.len() as u64;
        &from[usize::try_from(index).unwrap_or(0)]
    }
}

fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
