//! Committed rows in memory, bounded.
//!
//! Guarantees: a row that was changed and is not yet in the index is here and stays here; what is here is the
//! committed state, never an older one; clean rows make room for others when the bound is reached (a clock:
//! a row that was read since the hand last passed gets another round).
//!
//! Every batch of changes has a number, the *change*. A row carries the change that last touched it and is clean
//! once `written`, the last change that the index holds, has reached it. No pass over rows is needed to unpin them.
//!
//! A cache keeps in mind which rows are in the index alone (`dropped.rs`): those that it dropped, and those that were there
//! at the start, once it was told of all of them. What it neither holds nor may have dropped is absent, and nobody has to
//! ask the index. That is every first contact.
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

use crate::dropped::Dropped;

const SHARDS: usize = 64;

/// Below this a cache could not hold what a handful of decisions read, and they would fetch forever.
pub const LEAST_CACHE_BYTES: usize = 1 << 20;

/// What an entry costs besides its key and value.
const ENTRY_BYTES: usize = 96;

/// What a row costs besides its bytes and the value that they stand for.
const ROW_BYTES: usize = 88;

/// The part of a cache's bound that its filters of dropped rows take.
const DROPPED_SHARE: usize = 8;

/// How long a row usually is.
const USUAL_ROW_BYTES: usize = 256;

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
    elsewhere: Elsewhere,
    table: HashTable<usize>,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    hand: usize,
    bytes: usize,
}

/// What is known of the rows that are in the index alone.
#[derive(Default)]
enum Elsewhere {
    /// Nothing.
    #[default]
    Unknown,
    /// Those that were dropped and those that were told of; there may be more.
    Some(Dropped),
    /// All.
    All(Dropped),
}

/// What a cache begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// An index without a row.
    Empty,
    /// One whose rows the cache will be told of ([`Cache::learn`]).
    Told,
    /// One with rows that nobody tells of.
    Unknown,
}

struct Entry {
    key: RowKey,
    hash: u64,
    value: Option<Row>,
    change: u64,
    /// What it is counted for.
    cost: usize,
    was_read: AtomicBool,
}

/// The row's bytes, and what rules make of them: names, numbers and texts in allocations of their own. A row without
/// bytes yet is counted as one of usual length until the index has it.
fn row_cost(row: &Row) -> usize {
    ROW_BYTES + 3 * row.known_len().unwrap_or(USUAL_ROW_BYTES)
}

pub(crate) fn cost(key: &RowKey, value: Option<&Row>) -> usize {
    ENTRY_BYTES + key.as_bytes().len() + value.map_or(0, row_cost)
}

impl Cache {
    /// An empty cache of about `limit_bytes`, at least [`LEAST_CACHE_BYTES`].
    pub fn new(limit_bytes: usize, index: Index) -> Self {
        let shard_bytes = limit_bytes.max(LEAST_CACHE_BYTES) / SHARDS;
        let filter_bytes = shard_bytes / DROPPED_SHARE;
        let shard = |_| {
            let dropped = Dropped::new(filter_bytes);
            RwLock::new(Shard {
                elsewhere: match index {
                    Index::Empty => Elsewhere::All(dropped),
                    Index::Told => Elsewhere::Some(dropped),
                    Index::Unknown => Elsewhere::Unknown,
                },
                ..Shard::default()
            })
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            hasher: DefaultHashBuilder::default(),
            shard_limit_bytes: shard_bytes - filter_bytes,
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
            None if shard.knows_absent(hash) => Lookup::Absent,
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

    /// Tells of rows that are in the index. They may be removed meanwhile: of those it suspects in vain.
    pub fn learn<'k>(&self, keys: impl IntoIterator<Item = &'k RowKey>) {
        for key in keys {
            let hash = self.hasher.hash_one(key);
            let mut shard = self
                .shard(hash)
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            shard.note_elsewhere(hash);
        }
    }

    /// It was told of every row that was in the index when it was made.
    pub fn learned_all(&self) {
        for shard in &self.shards {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            if let Elsewhere::Some(dropped) = &mut shard.elsewhere {
                shard.elsewhere = Elsewhere::All(std::mem::take(dropped));
            }
        }
    }

    /// How many rows can be told of before it suspects too many in vain.
    pub fn room_to_learn(&self) -> usize {
        self.shard_limit_bytes * SHARDS / DROPPED_SHARE
    }

    /// Counts rows anew that have their bytes now.
    pub fn recount<'r>(&self, rows: impl IntoIterator<Item = (&'r RowKey, &'r Option<Row>)>) {
        for (key, _) in rows.into_iter().filter(|(_, value)| value.is_some()) {
            let hash = self.hasher.hash_one(key);
            let mut shard = self
                .shard(hash)
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let before = shard.bytes;
            shard.recount(hash, key);
            self.account(before, shard.bytes);
        }
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

    /// Whether a row that is not here is nowhere.
    fn knows_absent(&self, hash: u64) -> bool {
        matches!(&self.elsewhere, Elsewhere::All(dropped) if !dropped.may_have(hash))
    }

    fn note_elsewhere(&mut self, hash: u64) {
        match &mut self.elsewhere {
            Elsewhere::Some(dropped) | Elsewhere::All(dropped) => dropped.note(hash),
            Elsewhere::Unknown => {}
        }
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
                self.bytes -= entry.cost;
                entry.cost = cost(key, value.as_ref());
                entry.value = value;
                entry.change = change;
                self.bytes += entry.cost;
            }
            return slot;
        }
        let entry = Entry {
            key: key.clone(),
            hash,
            cost: cost(key, value.as_ref()),
            value,
            change,
            was_read: AtomicBool::new(true),
        };
        self.bytes += entry.cost;
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

    fn recount(&mut self, hash: u64, key: &RowKey) {
        let slot = self.table.find(hash, |slot| self.is_at(*slot, key));
        let Some(slot) = slot.copied() else { return };
        if let Some(entry) = &mut self.entries[slot] {
            self.bytes -= entry.cost;
            entry.cost = cost(key, entry.value.as_ref());
            self.bytes += entry.cost;
        }
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
        self.bytes -= entry.cost;
        if entry.value.is_some() {
            self.note_elsewhere(entry.hash);
        }
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
        /// How far the cache was told of what is in the index: the name of the last row.
        told: u64,
    }

    const NAMES: u64 = 12;

    fn named(n: u64) -> RowKey {
        RowKey::text("t", &[&n.to_string()])
    }

    impl World {
        fn step(&mut self, chance: &mut Chance) {
            let key = named(chance.below(NAMES));
            match chance.below(9) {
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
                6 if self.told < NAMES => {
                    let key = named(self.told);
                    if self.index.get(&key).is_some_and(Option::is_some) {
                        self.cache.learn([&key]);
                    }
                    self.told += 1;
                    if self.told == NAMES {
                        self.cache.learned_all();
                    }
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
            for n in 0..NAMES {
                let key = named(n);
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
            let begins = [Index::Empty, Index::Told, Index::Unknown][seed as usize % 3];
            let rows: BTreeMap<_, _> = match begins {
                Index::Empty => BTreeMap::new(),
                _ => (0..NAMES / 2)
                    .map(|n| (named(2 * n), Some(Row::from("old"))))
                    .collect(),
            };
            let mut world = World {
                cache: Cache::new(0, begins),
                committed: rows.clone(),
                index: rows,
                change: 0,
                under_way: Vec::new(),
                told: if begins == Index::Told { 0 } else { NAMES },
            };
            for _ in 0..200 {
                world.step(&mut chance);
                world.check();
            }
            assert!(world.cache.bytes() < 40 * 20_100);
        }
    }
}
