//! Which rows a cache once had and dropped: a Bloom filter of one cache line a row.
//!
//! Guarantees: a row that was noted is never denied. The filter has a fixed size; the more rows are noted, the more often it
//! says "maybe" of one that was not, and the index is asked in vain.

/// Bits of a block: what one row sets lies in one cache line.
const BLOCK_BITS: u64 = 512;
const WORDS: usize = 8;
/// Bits that a row sets in its block.
const BITS_A_ROW: u32 = 6;
/// An odd number without a pattern: the hash that comes in has served other tables already.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The filter. It takes no memory until the first row is noted.
#[derive(Default)]
pub(crate) struct Dropped {
    blocks: Vec<[u64; WORDS]>,
    most_blocks: usize,
}

impl Dropped {
    /// A filter that takes at most so many bytes.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self {
            blocks: Vec::new(),
            most_blocks: (most_bytes / (WORDS * 8)).max(1),
        }
    }

    /// Notes the row of a hash.
    pub(crate) fn note(&mut self, hash: u64) {
        if self.blocks.is_empty() {
            self.blocks = vec![[0; WORDS]; self.most_blocks];
        }
        let block = block_of(hash, self.blocks.len());
        for bit in bits_of(hash) {
            self.blocks[block][bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Whether the row of a hash may have been noted.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        if self.blocks.is_empty() {
            return false;
        }
        let block = &self.blocks[block_of(hash, self.blocks.len())];
        bits_of(hash).all(|bit| block[bit / 64] & (1 << (bit % 64)) != 0)
    }
}

fn block_of(hash: u64, blocks: usize) -> usize {
    let mixed = hash.wrapping_mul(MIX);
    ((u128::from(mixed) * blocks as u128) >> 64) as usize
}

fn bits_of(hash: u64) -> impl Iterator<Item = usize> {
    let mixed = (hash ^ (hash >> 32))
        .wrapping_mul(MIX)
        .rotate_left(29)
        .wrapping_mul(MIX);
    (0..BITS_A_ROW).map(move |n| ((mixed >> (9 * n)) % BLOCK_BITS) as usize)
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use super::*;

    #[test]
    fn what_was_noted_is_never_denied_and_little_else_is_suspected() {
        const ROWS: u64 = 100_000;
        let hasher = hashbrown::DefaultHashBuilder::default();
        let hash = |n: u64| hasher.hash_one(n);
        // Ten bits a row.
        let mut dropped = Dropped::new(ROWS as usize * 10 / 8);
        assert!(!dropped.may_have(hash(0)));
        (0..ROWS).for_each(|n| dropped.note(hash(n)));
        assert!((0..ROWS).all(|n| dropped.may_have(hash(n))));
        let suspected = (ROWS..2 * ROWS).filter(|n| dropped.may_have(hash(*n)));
        let suspected = suspected.count() as u64;
        assert!(suspected < ROWS / 20, "{suspected} of {ROWS}");
    }
}
