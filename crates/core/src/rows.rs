//! Rows: the state of the rules as an ordered map from keys to bytes.
//!
//! A decision reads rows through a [`View`]: it sees its own writes, and a refusal drops them. Nothing here
//! touches a disk; a row that is not in memory is reported as [`Lookup::NotLoaded`] so that the host can
//! fetch it and decide again.

mod map;
mod row;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use hashbrown::DefaultHashBuilder;

pub use map::MapRows;
pub use row::Row;

/// The key of a row: a space (what kind of row) and parts, encoded so that bytes sort as the parts do.
///
/// A key is looked for in several maps, so that it knows its hash. It is another one in another process.
#[derive(Clone)]
pub struct RowKey {
    hash: u64,
    encoded: Encoded,
}

/// How keys are hashed.
static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);

/// Nearly every key is short, and stands where it is looked for; copies of a long one share one allocation.
#[derive(Clone)]
enum Encoded {
    Short { len: u8, bytes: [u8; SHORT_BYTES] },
    Long(Arc<[u8]>),
}

/// With its hash, length and kind, a short key fills a cache line.
const SHORT_BYTES: usize = 54;

/// Ends a part; sorts below every byte of a longer part.
const END: [u8; 2] = [0, 1];
/// Stands for a zero byte inside a part.
const ZERO: [u8; 2] = [0, 0xff];

impl RowKey {
    /// The key of `space` with the given parts.
    pub fn new(space: &str, parts: &[&[u8]]) -> Self {
        Self::of_parts(std::iter::once(space.as_bytes()).chain(parts.iter().copied()))
    }

    /// The key of `space` with textual parts.
    pub fn text(space: &str, parts: &[&str]) -> Self {
        let parts = parts.iter().map(|part| part.as_bytes());
        Self::of_parts(std::iter::once(space.as_bytes()).chain(parts))
    }

    fn of_parts<'p>(parts: impl Iterator<Item = &'p [u8]>) -> Self {
        let mut key = Encoder::new();
        for part in parts {
            key.push_part(part);
        }
        key.finish()
    }

    /// This key with one more part.
    pub fn child(&self, part: &[u8]) -> Self {
        let mut key = Encoder::new();
        key.push(self.as_bytes());
        key.push_part(part);
        key.finish()
    }

    /// A key as a store gave it back.
    pub fn from_stored(key: impl AsRef<[u8]>) -> Self {
        let mut encoder = Encoder::new();
        encoder.push(key.as_ref());
        encoder.finish()
    }

    /// The encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.encoded {
            Encoded::Short { len, bytes } => &bytes[..usize::from(*len)],
            Encoded::Long(bytes) => bytes,
        }
    }

    /// Whether this key lies below `prefix` (or is it).
    pub fn starts_with(&self, prefix: &RowKey) -> bool {
        self.as_bytes().starts_with(prefix.as_bytes())
    }

    /// Whether this key belongs to a space.
    pub fn is_in(&self, space: &str) -> bool {
        self.as_bytes()
            .strip_prefix(space.as_bytes())
            .is_some_and(|rest| rest.starts_with(&END))
    }

    /// The key of nothing but the space; none where there is no whole space.
    fn space(&self) -> Option<Self> {
        let bytes = self.as_bytes();
        let end = bytes.windows(END.len()).position(|pair| pair == END)?;
        let mut key = Encoder::new();
        key.push(&bytes[..end + END.len()]);
        Some(key.finish())
    }

    /// The parts, the space first.
    pub fn parts(&self) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        let mut part = Vec::new();
        let mut rest = self.as_bytes();
        while let Some(zero) = rest.iter().position(|byte| *byte == 0) {
            let (plain, after) = rest.split_at(zero);
            part.extend_from_slice(plain);
            match after.get(1) {
                Some(1) => parts.push(std::mem::take(&mut part)),
                _ => part.push(0),
            }
            rest = after.get(2..).unwrap_or_default();
        }
        parts
    }
}

impl PartialEq for RowKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.as_bytes() == other.as_bytes()
    }
}

impl Eq for RowKey {}

impl PartialOrd for RowKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RowKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for RowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A key being put together.
struct Encoder {
    short: [u8; SHORT_BYTES],
    len: usize,
    /// All of it, once it has outgrown the room.
    long: Vec<u8>,
}

impl Encoder {
    const fn new() -> Self {
        Self {
            short: [0; SHORT_BYTES],
            len: 0,
            long: Vec::new(),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.long.is_empty() {
            if let Some(room) = self.short.get_mut(self.len..self.len + bytes.len()) {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
                return;
            }
            self.long.extend_from_slice(&self.short[..self.len]);
        }
        self.long.extend_from_slice(bytes);
    }

    fn push_part(&mut self, part: &[u8]) {
        // Nearly no part has a zero byte.
        if !part.contains(&0) {
            self.push(part);
            self.push(&END);
            return;
        }
        let mut pieces = part.split(|byte| *byte == 0);
        self.push(pieces.next().unwrap_or_default());
        for piece in pieces {
            self.push(&ZERO);
            self.push(piece);
        }
        self.push(&END);
    }

    fn finish(self) -> RowKey {
        let bytes = match self.long.is_empty() {
            true => &self.short[..self.len],
            false => &self.long,
        };
        let hash = HASHER.hash_one(bytes);
        let encoded = if self.long.is_empty() {
            Encoded::Short {
                len: u8::try_from(self.len).expect("a short key is shorter than 256 bytes"),
                bytes: self.short,
            }
        } else {
            Encoded::Long(self.long.into())
        };
        RowKey { hash, encoded }
    }
}

impl fmt::Debug for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, part) in self.parts().iter().enumerate() {
            if n > 0 {
                f.write_str("/")?;
            }
            write!(f, "{}", String::from_utf8_lossy(part))?;
        }
        Ok(())
    }
}

/// What is known about a row without touching a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The row.
    Found(Row),
    /// There is no such row.
    Absent,
    /// Not in memory: fetch it, then ask again.
    NotLoaded,
}

/// A change of one row: what it holds now, or `None` when it is removed.
pub type RowChange = (RowKey, Option<Row>);

/// Rows below a decision: what was decided before it.
pub trait Rows {
    /// One row, from memory.
    fn get(&self, key: &RowKey) -> Lookup;

    /// All rows whose key starts with `prefix`, in order. Rules use it for what is small and rare.
    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged>;

    /// The same one after the other, for what may be many: rows that lie on a disk need not all be in memory at once.
    ///
    /// # Errors
    /// They cannot be read; some may have been visited.
    fn visit(
        &self,
        prefix: &RowKey,
        visitor: &mut dyn FnMut(&RowKey, &Row),
    ) -> Result<(), RowsDamaged> {
        let rows = self.scan(prefix)?;
        rows.iter().for_each(|(key, row)| visitor(key, row));
        Ok(())
    }
}

/// The rows could not be read: a fault of this node's storage, never of a sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rows cannot be read: {0}")]
pub struct RowsDamaged(pub String);

/// The rows as one decision sees them: those below, and its own writes on top.
pub struct View<'a> {
    below: &'a dyn Rows,
    changes: BTreeMap<RowKey, Option<Row>>,
}

impl<'a> View<'a> {
    /// A view without writes of its own yet.
    pub fn new(below: &'a dyn Rows) -> Self {
        Self {
            below,
            changes: BTreeMap::new(),
        }
    }

    /// One row.
    pub fn get(&self, key: &RowKey) -> Lookup {
        match self.changes.get(key) {
            Some(Some(row)) => Lookup::Found(row.clone()),
            Some(None) => Lookup::Absent,
            None => self.below.get(key),
        }
    }

    /// All rows below a prefix, own writes included, in order.
    pub fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        let mut rows: BTreeMap<RowKey, Row> = self.below.scan(prefix)?.into_iter().collect();
        for (key, change) in self
            .changes
            .range(prefix.clone()..)
            .take_while(|(key, _)| key.starts_with(prefix))
        {
            match change {
                Some(row) => rows.insert(key.clone(), row.clone()),
                None => rows.remove(key),
            };
        }
        Ok(rows.into_iter().collect())
    }

    /// Writes a row.
    pub fn put(&mut self, key: RowKey, row: Row) {
        self.changes.insert(key, Some(row));
    }

    /// Removes a row.
    pub fn remove(&mut self, key: RowKey) {
        self.changes.insert(key, None);
    }

    /// The writes, sorted by key.
    pub fn into_changes(self) -> Vec<RowChange> {
        self.changes.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_as_their_parts_do(
            a in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..4), 0..4),
            b in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..4), 0..4),
        ) {
            let key = |parts: &Vec<Vec<u8>>| {
                RowKey::new("s", &parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
            };
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
            prop_assert_eq!(key(&a).parts()[1..].to_vec(), a);
        }
    }

    #[test]
    fn a_long_key_is_like_a_short_one() {
        for len in (0..70).chain([100, 400]) {
            let part = vec![b'x'; len];
            let key = RowKey::new("s", &[&part, &[0, 7]]);
            assert_eq!(key.parts(), [b"s".to_vec(), part.clone(), vec![0, 7]]);
            let parent = RowKey::new("s", &[&part]);
            assert_eq!(parent.child(&[0, 7]), key);
            assert!(key.starts_with(&parent) && key.is_in("s"));
        }
    }

    #[test]
    fn a_view_reads_its_own_writes_and_leaves_the_rows_below_alone() {
        let key = |name: &str| RowKey::text("t", &[name]);
        let mut below = MapRows::default();
        below.apply([(key("a"), Some("1".into())), (key("b"), Some("2".into()))]);
        let mut view = View::new(&below);
        view.remove(key("a"));
        view.put(key("c"), "3".into());
        assert_eq!(view.get(&key("a")), Lookup::Absent);
        assert_eq!(view.get(&key("c")), Lookup::Found("3".into()));
        let names: Vec<_> = view
            .scan(&RowKey::text("t", &[]))
            .unwrap()
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(names, [key("b"), key("c")]);
        assert_eq!(below.get(&key("a")), Lookup::Found("1".into()));
    }
}
