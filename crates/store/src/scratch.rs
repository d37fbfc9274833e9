//! The state of a fold over a log of any length: the rows that its latest lines changed or asked for in memory, all others
//! in a file that nobody keeps.
//!
//! Guarantees: rows are those of an ordered map, whether they lie in memory or in the file; memory does not grow with the
//! log. The file is SQLite's own temporary one: it has no name, and is gone with the process however that ends.
//!
//! Rows live in two *generations*. The young one takes what is changed and what is fetched; once the lines taken have
//! filled it, it becomes the old one, and what the old one had goes to the file.

use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher as _;

use chancery_core::decision::WindowsBelow;
use chancery_core::rows::{Lookup, MapRows, Row, RowChange, RowKey, Rows, RowsDamaged};
use chancery_core::time::Time;
use chancery_core::window::{Remember, WindowId, WindowName, Windows};
use chancery_journal::Backing;
use hashbrown::DefaultHashBuilder;
use rusqlite::{Connection, OptionalExtension, params};

use crate::dropped::Dropped;
use crate::index::end_of;

/// Lines of a generation. Rows take about half of what the lines do that they come from.
const GENERATION_BYTES: usize = 128 << 20;

/// What the filter of rows in the file takes: ten bits for each of 13 million.
const FILTER_BYTES: usize = 16 << 20;

const SCHEMA: &str = "
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA page_size = 8192;
    PRAGMA cache_size = -32768;
    CREATE TABLE rows (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
";

/// Rows and windows of a fold.
pub struct Scratch {
    young: Generation,
    old: Generation,
    file: Option<Spilled>,
    windows: Windows,
    /// Lines whose changes the young generation has taken.
    line_bytes: usize,
    generation_bytes: usize,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::of_generations(GENERATION_BYTES)
    }
}

/// Rows as they are since some line, and keys of those that are gone since then.
#[derive(Default)]
struct Generation {
    rows: MapRows,
    gone: HashSet<RowKey, DefaultHashBuilder>,
}

impl Generation {
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.gone.is_empty()
    }

    /// The row, or that there is none; nothing where that is for an older generation to say.
    fn find(&self, key: &RowKey) -> Option<Option<&Row>> {
        let row = self.rows.find(key).map(Some);
        // Of most generations nothing is gone.
        row.or_else(|| (!self.gone.is_empty() && self.gone.contains(key)).then_some(None))
    }

    fn knows(&self, key: &RowKey) -> bool {
        self.find(key).is_some()
    }

    /// Lays what it has below a prefix over older rows.
    fn lay_over(
        &self,
        prefix: &RowKey,
        below: &mut BTreeMap<RowKey, Option<Row>>,
    ) -> Result<(), RowsDamaged> {
        let gone = self.gone.iter().filter(|key| key.starts_with(prefix));
        below.extend(gone.map(|key| (key.clone(), None)));
        let rows = self.rows.scan(prefix)?.into_iter();
        below.extend(rows.map(|(key, row)| (key, Some(row))));
        Ok(())
    }
}

impl Scratch {
    /// With generations of so many bytes of lines.
    pub fn of_generations(generation_bytes: usize) -> Self {
        Self {
            young: Generation::default(),
            old: Generation::default(),
            file: None,
            windows: Windows::default(),
            line_bytes: 0,
            generation_bytes,
        }
    }

    fn change(&mut self, key: RowKey, change: Option<Row>) {
        let (old, file, young) = (&self.old, &self.file, &mut self.young);
        if change.is_some() {
            if !young.gone.is_empty() {
                young.gone.remove(&key);
            }
        } else if old.knows(&key) || file.as_ref().is_some_and(|file| file.may_have(&key)) {
            young.gone.insert(key.clone());
        }
        young.rows.apply([(key, change)]);
    }

    /// Begins a generation: what was old goes to the file.
    fn turn(&mut self) -> Result<(), rusqlite::Error> {
        self.line_bytes = 0;
        let young = std::mem::take(&mut self.young);
        let leaving = std::mem::replace(&mut self.old, young);
        if leaving.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(Spilled::new()?),
        };
        file.take(&leaving, &self.old)
    }

    /// What the generations have below a prefix.
    fn in_memory(
        &self,
        prefix: &RowKey,
    ) -> Result<impl Iterator<Item = (RowKey, Option<Row>)>, RowsDamaged> {
        let mut rows = BTreeMap::new();
        self.old.lay_over(prefix, &mut rows)?;
        self.young.lay_over(prefix, &mut rows)?;
        Ok(rows.into_iter())
    }
}

impl Rows for Scratch {
    fn get(&self, key: &RowKey) -> Lookup {
        let known = self.young.find(key).or_else(|| self.old.find(key));
        match (known, &self.file) {
            (Some(Some(row)), _) => Lookup::Found(row.clone()),
            (None, Some(file)) if file.may_have(key) => Lookup::NotLoaded,
            _ => Lookup::Absent,
        }
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        if self.old.is_empty() && self.file.is_none() {
            return self.young.rows.scan(prefix);
        }
        let mut rows = Vec::new();
        self.visit(prefix, &mut |key, row| {
            rows.push((key.clone(), row.clone()))
        })?;
        Ok(rows)
    }

    fn visit(
        &self,
        prefix: &RowKey,
        visitor: &mut dyn FnMut(&RowKey, &Row),
    ) -> Result<(), RowsDamaged> {
        let mut newer = self.in_memory(prefix)?.peekable();
        let mut told = |(key, row): (RowKey, Option<Row>)| {
            if let Some(row) = row {
                visitor(&key, &row);
            }
        };
        if let Some(file) = &self.file {
            let of_file = |key: RowKey, row: Row| {
                while let Some(before) = newer.next_if(|(newer, _)| *newer < key) {
                    told(before);
                }
                match newer.next_if(|(newer, _)| *newer == key) {
                    Some(instead) => told(instead),
                    None => told((key, Some(row))),
                }
            };
            file.visit(prefix, of_file).map_err(damaged)?;
        }
        newer.for_each(told);
        Ok(())
    }
}

impl WindowsBelow for Scratch {
    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        self.windows.find(window, id, now)
    }
}

impl Backing for Scratch {
    fn take(&mut self, changes: Vec<RowChange>, remembered: Vec<Remember>) {
        if self.old.is_empty() && self.file.is_none() {
            self.young.rows.apply(changes);
        } else {
            for (key, change) in changes {
                self.change(key, change);
            }
        }
        self.windows.remember_all(&remembered);
    }

    fn grown(&mut self, line_bytes: usize) -> Result<(), RowsDamaged> {
        self.line_bytes += line_bytes;
        if self.line_bytes < self.generation_bytes {
            return Ok(());
        }
        self.turn().map_err(damaged)
    }

    fn forget_ended(&mut self, now: Time) {
        self.windows.forget_ended(now);
    }

    fn load(&mut self, keys: &[RowKey]) -> Result<(), RowsDamaged> {
        for key in keys {
            if self.get(key) != Lookup::NotLoaded {
                continue;
            }
            let Some(file) = &self.file else { continue };
            match file.find(key).map_err(damaged)? {
                row @ Some(_) => self.young.rows.apply([(key.clone(), row)]),
                // The filter took it for one that is there.
                None => {
                    self.young.gone.insert(key.clone());
                }
            }
        }
        Ok(())
    }
}

fn damaged(error: rusqlite::Error) -> RowsDamaged {
    RowsDamaged(format!("the file of rows beside memory: {error}"))
}

/// Rows that no generation has.
struct Spilled {
    connection: Connection,
    hasher: DefaultHashBuilder,
    /// Those that may be here.
    filter: Dropped,
}

impl Spilled {
    fn new() -> Result<Self, rusqlite::Error> {
        // Of no name: a temporary file that is deleted as soon as it is open.
        let connection = Connection::open("")?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self {
            connection,
            hasher: DefaultHashBuilder::default(),
            filter: Dropped::new(FILTER_BYTES),
        })
    }

    fn may_have(&self, key: &RowKey) -> bool {
        self.filter.may_have(self.hasher.hash_one(key))
    }

    /// Takes what a generation has and a newer one does not know better.
    fn take(&mut self, leaving: &Generation, newer: &Generation) -> Result<(), rusqlite::Error> {
        let transaction = self.connection.transaction()?;
        let mut put = transaction.prepare("INSERT OR REPLACE INTO rows VALUES (?1, ?2)")?;
        let mut remove = transaction.prepare("DELETE FROM rows WHERE key = ?1")?;
        for (key, row) in leaving.rows.iter() {
            if !newer.knows(&key) {
                put.execute(params![key.as_bytes(), &row[..]])?;
                self.filter.note(self.hasher.hash_one(&key));
            }
        }
        for key in leaving.gone.iter().filter(|key| !newer.knows(key)) {
            remove.execute([key.as_bytes()])?;
        }
        drop((put, remove));
        transaction.commit()
    }

    fn find(&self, key: &RowKey) -> Result<Option<Row>, rusqlite::Error> {
        let sql = "SELECT value FROM rows WHERE key = ?1";
        let mut select = self.connection.prepare_cached(sql)?;
        let row = select.query_row([key.as_bytes()], |row| row.get::<_, Vec<u8>>(0));
        Ok(row.optional()?.map(Row::from))
    }

    fn visit(
        &self,
        prefix: &RowKey,
        mut visitor: impl FnMut(RowKey, Row),
    ) -> Result<(), rusqlite::Error> {
        let sql =
            "SELECT key, value FROM rows WHERE key >= ?1 AND (?2 IS NULL OR key < ?2) ORDER BY key";
        let mut select = self.connection.prepare_cached(sql)?;
        let mut rows = select.query(params![prefix.as_bytes(), end_of(prefix.as_bytes())])?;
        while let Some(row) = rows.next()? {
            let key = RowKey::from_stored(row.get_ref(0)?.as_blob()?);
            visitor(key, row.get_ref(1)?.as_blob()?.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(space: u8, name: u8) -> RowKey {
        RowKey::new(["a", "b"][usize::from(space % 2)], &[&[name]])
    }

    /// The row, fetched where it has to be.
    fn fetched(rows: &mut Scratch, key: &RowKey) -> Lookup {
        if rows.get(key) == Lookup::NotLoaded {
            rows.load(std::slice::from_ref(key)).unwrap();
        }
        rows.get(key)
    }

    proptest! {
        /// However rows come and go, and wherever they lie, they are those of a map (CH-JRN-7).
        #[test]
        fn rows_of_a_scratch_are_those_of_a_map(
            steps in proptest::collection::vec((0..6u8, 0..2u8, 0..8u8), 0..300),
        ) {
            // A generation of two units.
            let (mut rows, mut model) = (Scratch::of_generations(2), MapRows::default());
            for (number, (step, space, name)) in steps.into_iter().enumerate() {
                let key = key(space, name);
                match step {
                    0..=3 => {
                        let row = (step < 3).then(|| Row::from(number.to_string().as_str()));
                        model.apply([(key.clone(), row.clone())]);
                        rows.take(vec![(key, row)], Vec::new());
                        rows.grown(1).unwrap();
                    }
                    4 => prop_assert_eq!(fetched(&mut rows, &key), model.get(&key)),
                    _ => {
                        let prefix = RowKey::text(["a", "b"][usize::from(space)], &[]);
                        prop_assert_eq!(rows.scan(&prefix).unwrap(), model.scan(&prefix).unwrap());
                    }
                }
            }
            for name in 0..8 {
                let key = key(0, name);
                prop_assert_eq!(fetched(&mut rows, &key), model.get(&key));
            }
        }
    }

    #[test]
    fn memory_holds_two_generations() {
        // CH-JRN-7
        const ROWS: usize = 1_000;
        let mut rows = Scratch::of_generations(100);
        for number in 0..ROWS {
            let key = RowKey::text("row", &[&number.to_string()]);
            rows.take(vec![(key, Some(Row::from("x")))], Vec::new());
            rows.grown(1).unwrap();
        }
        let held = rows.young.rows.iter().count() + rows.old.rows.iter().count();
        assert!(held <= 200, "{held} rows in memory");
        let (mut seen, all) = (0, RowKey::text("row", &[]));
        rows.visit(&all, &mut |_, _| seen += 1).unwrap();
        assert_eq!(seen, ROWS);
    }
}
