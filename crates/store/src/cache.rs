//! Committed rows in memory, bounded.
//!
//! Guarantees: a row that was changed and is not yet in the index is here and stays here; what is here is the
//! committed state, never an older one; clean rows make room for others when the bound is reached (a clock:
//! a row that was read since the hand last passed gets another round).
//!
//! Every batch of changes has a number, the *change*. A row carries the change that last touched it and is clean
//! once `written`, the last change that the index holds, has reached it. No pass over rows is needed to unpin them.
//!
//! As long as a shard of an index that was empty at the start has dropped no row, it holds all there are: what it does
//! not have is absent, and nobody has to ask the index. That is every first contact of a young node.
//!
//! **Why a load cannot bring back an old row.** A load reads the index without a lock on the cache, so a newer
//! value could be committed, written and evicted meanwhile, and the old one put in its place. Therefore a loader
//! notes `written` first, reads, and puts the value in only if the row is still absent and `written` has not
//! moved. Were there a newer committed value, it would have been put here; being absent it was evicted, so its
//! change was at or below `written`; `written` is what it was before the read, so the read has seen it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use chancery_core::rows::{Lookup, Row, RowChange, RowKey};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

const SHARDS: usize = 64;

/// Below this a cache could not hold what a handful of decisions read, and they would fetch forever.
pub const LEAST_CACHE_BYTES: usize = 1 << 20;

/// What an entry costs besides its key and value.
const ENTRY_BYTES: usize = 96;

/// What a row costs besides its bytes and the value that they stand for.
const ROW_BYTES: usize = 88;

/// How many entries one insertion looks at to make room: eviction keeps up, and no insertion is slow.
const HAND_STEPS: usize = 16;

/// The cache.
pub struct Cache {
    shards: Vec<RwLock<Shard>>,
    hasher: DefaultHashBuilder,
    shard_limit_bytes: usize,
    bytes: AtomicUsize,
    /// The last change that the index holds.
    written: AtomicU64,
}

#[derive(Default)]
struct Shard {
    /// Whether every row of this shard is here, none in the index alone.
    is_whole: bool,
    table: HashTable<usize>,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    hand: usize,
    bytes: usize,
}

struct Entry {
    key: RowKey,
    hash: u64,
    value: Option<Row>,
    change: u64,
    was_read: AtomicBool,
}

impl Entry {
    fn cost(&self) -> usize {
        cost(&self.key, self.value.as_ref())
    }
}

/// The row's bytes, and what rules make of them: names, numbers and texts in allocations of their own.
fn row_cost(row: &Row) -> usize {
    ROW_BYTES + 3 * row.len()
}

pub(crate) fn cost(key: &RowKey, value: Option<&Row>) -> usize {
    ENTRY_BYTES + key.as_bytes().len() + value.map_or(0, row_cost)
}

impl Cache {
    /// An empty cache of about `limit_bytes`, at least [`LEAST_CACHE_BYTES`]. `is_whole` says that the index is empty
    /// as well.
    pub fn new(limit_bytes: usize, is_whole: bool) -> Self {
        let shard = |_| {
            RwLock::new(Shard {
                is_whole,
                ..Shard::default()
            })
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            hasher: DefaultHashBuilder::default(),
            shard_limit_bytes: limit_bytes.max(LEAST_CACHE_BYTES) / SHARDS,
            bytes: AtomicUsize::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// A row, from memory alone.
    pub fn peek(&self, key: &RowKey) -> Lookup {
        let hash = self.hasher.hash_one(key);
        let shard = self
            .shard(hash)
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        match shard.find(hash, key) {
            Some(entry) => {
                entry.was_read.store(true, Ordering::Relaxed);
                entry.value.clone().map_or(Lookup::Absent, Lookup::Found)
            }
            None if shard.is_whole => Lookup::Absent,
            None => Lookup::NotLoaded,
        }
    }

    /// Puts committed changes in; they stay until `change` is written.
    pub fn apply<'r>(&self, rows: impl IntoIterator<Item = &'r RowChange>, change: u64) {
        let written = self.written();
        for (key, value) in rows {
            let hash = self.hasher.hash_one(key);
            let mut shard = self
                .shard(hash)
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let before = shard.bytes;
            let slot = shard.put(hash, key, value.clone(), change);
            shard.make_room(self.shard_limit_bytes, written, Some(slot), HAND_STEPS);
            self.account(before, shard.bytes);
        }
    }

    /// Puts in what was read from the index when [`Cache::written`] was `read_at`. Gives the committed value;
    /// none when the index moved on meanwhile and has to be read again.
    pub fn settle(&self, key: &RowKey, value: Option<Row>, read_at: u64) -> Option<Option<Row>> {
        let hash = self.hasher.hash_one(key);
        let mut shard = self
            .shard(hash)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = shard.find(hash, key) {
            entry.was_read.store(true, Ordering::Relaxed);
            return Some(entry.value.clone());
        }
        if self.written() != read_at {
            return None;
        }
        let before = shard.bytes;
        let slot = shard.put(hash, key, value.clone(), 0);
        shard.make_room(self.shard_limit_bytes, read_at, Some(slot), HAND_STEPS);
        self.account(before, shard.bytes);
        Some(value)
    }

    /// The last change that the index holds.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// The index now holds every change up to this one.
    pub fn set_written(&self, change: u64) {
        self.written.store(change, Ordering::SeqCst);
    }

    /// Drops what is over the bound: after rows became clean that had to be kept.
    pub fn shrink(&self) {
        let written = self.written();
        for shard in &self.shards {
            if shard.read().unwrap_or_else(PoisonError::into_inner).bytes <= self.shard_limit_bytes
            {
                continue;
            }
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            let before = shard.bytes;
            // Two rounds: the first takes back what reading gave, the second finds what nobody read since.
            let steps = shard.entries.len() * 2;
            shard.make_room(self.shard_limit_bytes, written, None, steps);
            self.account(before, shard.bytes);
        }
    }

    /// Bytes that the rows take.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        // The table uses the lowest and the highest bits; these are neither.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    fn account(&self, before: usize, after: usize) {
        if after >= before {
            self.bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
}

impl Shard {
    fn find(&self, hash: u64, key: &RowKey) -> Option<&Entry> {
        let slot = self.table.find(hash, |slot| self.is_at(*slot, key))?;
        self.entries[*slot].as_ref()
    }

    fn is_at(&self, slot: usize, key: &RowKey) -> bool {
        self.entries[slot]
            .as_ref()
            .is_some_and(|entry| entry.key == *key)
    }

    /// Puts a row in; gives its slot.
    fn put(&mut self, hash: u64, key: &RowKey, value: Option<Row>, change: u64) -> usize {
        if let Some(slot) = self
            .table
            .find(hash, |slot| self.is_at(*slot, key))
            .copied()
        {
            if let Some(entry) = &mut self.entries[slot] {
                self.bytes -= entry.cost();
                entry.value = value;
                entry.change = change;
                self.bytes += entry.cost();
            }
            return slot;
        }
        let entry = Entry {
            key: key.clone(),
            hash,
            value,
            change,
            was_read: AtomicBool::new(true),
        };
        self.bytes += entry.cost();
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot] = Some(entry);
                slot
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        };
        let entries = &self.entries;
        self.table.insert_unique(hash, slot, |slot| {
            entries[*slot].as_ref().map_or(0, |entry| entry.hash)
        });
        slot
    }

    /// Drops clean rows that nobody read lately, as far as the bound asks for it, but not the one just put in:
    /// whoever loads a row must find it.
    fn make_room(
        &mut self,
        limit_bytes: usize,
        written: u64,
        just_put: Option<usize>,
        steps: usize,
    ) {
        for _ in 0..steps {
            if self.bytes <= limit_bytes {
                return;
            }
            let slot = self.hand % self.entries.len();
            self.hand = slot + 1;
            let Some(entry) = &mut self.entries[slot] else {
                continue;
            };
            if Some(slot) == just_put
                || entry.change > written
                || std::mem::take(entry.was_read.get_mut())
            {
                continue;
            }
            self.drop_entry(slot);
        }
    }

    fn drop_entry(&mut self, slot: usize) {
        let Some(entry) = self.entries[slot].take() else {
            return;
        };
        self.bytes -= entry.cost();
        self.is_whole &= entry.value.is_none();
        if let Ok(found) = self.table.find_entry(entry.hash, |of| *of == slot) {
            found.remove();
        }
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::Chance;

    /// The cache beside plain maps: what is committed, and what the index holds.
    struct World {
        cache: Cache,
        committed: BTreeMap<RowKey, Option<Row>>,
        index: BTreeMap<RowKey, Option<Row>>,
        change: u64,
        /// Loads that have read the index and not yet put the row in.
        under_way: Vec<(RowKey, Option<Row>, u64)>,
    }

    impl World {
        fn step(&mut self, chance: &mut Chance) {
            let key = RowKey::text("t", &[&chance.below(12).to_string()]);
            match chance.below(8) {
                0..=2 => {
                    self.change += 1;
                    // Larger than a shard of the smallest cache: a clean row goes as soon as another comes.
                    let value = Row::from(vec![chance.below(250) as u8; 20_000]);
                    let value = (!chance.one_in(5)).then_some(value);
                    self.cache
                        .apply(&[(key.clone(), value.clone())], self.change);
                    self.committed.insert(key, value);
                }
                3 => {
                    self.index = self.committed.clone();
                    self.cache.set_written(self.change);
                    self.cache.shrink();
                }
                4 | 5 => {
                    let value = self.index.get(&key).cloned().flatten();
                    self.under_way.push((key, value, self.cache.written()));
                }
                _ if !self.under_way.is_empty() => {
                    let at = chance.below(self.under_way.len() as u64) as usize;
                    let (key, value, read_at) = self.under_way.swap_remove(at);
                    if let Some(settled) = self.cache.settle(&key, value, read_at) {
                        assert_eq!(settled, self.committed.get(&key).cloned().flatten());
                    }
                }
                _ => {}
            }
        }

        fn check(&self) {
            for n in 0..12 {
                let key = RowKey::text("t", &[&n.to_string()]);
                let committed = self.committed.get(&key).cloned().flatten();
                match self.cache.peek(&key) {
                    Lookup::Found(value) => assert_eq!(Some(value), committed),
                    Lookup::Absent => assert_eq!(None, committed),
                    Lookup::NotLoaded => {
                        let written = self.index.get(&key).cloned().flatten();
                        assert_eq!(written, committed, "a row that is not written was evicted");
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_the_committed_ones_however_loads_commits_flushes_and_evictions_interleave() {
        for seed in 0..300 {
            let mut chance = Chance::new(seed);
            let mut world = World {
                cache: Cache::new(0, seed % 2 == 0),
                committed: BTreeMap::new(),
                index: BTreeMap::new(),
                change: 0,
                under_way: Vec::new(),
            };
            for _ in 0..200 {
                world.step(&mut chance);
                world.check();
            }
            assert!(world.cache.bytes() < 40 * 20_100);
        }
    }
}
