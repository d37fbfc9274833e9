//! Rows of a space page by page: however many there are, no read of them takes long.
//!
//! Guarantees: rows that are there all the while are given once. Those of a page are of one moment; a later page may be of
//! a later one.

use chancery_core::rows::{Row, RowKey};

use crate::contract::{Store, StoreError};

/// Rows that are read at once.
const PAGE_ROWS: usize = 4_096;

/// The pages of rows below a prefix, in order; none is empty. It ends with an error.
pub struct Pages<'s> {
    store: &'s dyn Store,
    prefix: RowKey,
    after: Option<RowKey>,
    is_done: bool,
}

impl<'s> Pages<'s> {
    /// All rows of a store that are below `prefix`.
    pub fn below(store: &'s dyn Store, prefix: RowKey) -> Self {
        Self {
            store,
            prefix,
            after: None,
            is_done: false,
        }
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<Vec<(RowKey, Row)>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let page = self
            .store
            .scan(&self.prefix, self.after.as_ref(), PAGE_ROWS);
        self.is_done = page.as_ref().map_or(true, |page| page.len() < PAGE_ROWS);
        if let Ok(page) = &page {
            self.after = Some(page.last()?.0.clone());
        }
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::digest::Sha256Digest;
    use chancery_journal::Head;

    use super::*;
    use crate::contract::{Batch, StoredUnit};
    use crate::memory::Memory;

    #[test]
    fn every_row_comes_once_also_where_the_last_page_is_full() {
        for count in [0, 1, PAGE_ROWS - 1, PAGE_ROWS, PAGE_ROWS + 1, 2 * PAGE_ROWS] {
            let store = Memory::new();
            let key = |n: usize| RowKey::new("t", &[&(n as u64).to_be_bytes()]);
            let changes = (0..count).map(|n| (key(n), Some("".into()))).collect();
            let other = (RowKey::text("u", &["other"]), Some("".into()));
            let head = Head {
                seq: 1,
                hash: Sha256Digest::of(b"{}"),
                ..Head::EMPTY
            };
            let mut lines = chancery_journal::Lines::default();
            lines.push(b"{}");
            let batch = Batch {
                base: Head::EMPTY,
                head,
                lines,
                units: [changes, vec![other]]
                    .map(|rows| StoredUnit {
                        rows,
                        remembered: Vec::new(),
                    })
                    .into(),
                spent: Vec::new(),
            };
            store.commit(batch).unwrap();
            let pages: Result<Vec<_>, _> = Pages::below(&store, RowKey::text("t", &[])).collect();
            let keys: Vec<RowKey> = pages
                .unwrap()
                .concat()
                .into_iter()
                .map(|row| row.0)
                .collect();
            assert_eq!(keys, (0..count).map(key).collect::<Vec<_>>());
        }
    }
}
