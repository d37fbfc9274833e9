//! Durable inboxes of hosted agents: reading, waiting, acknowledging.
//!
//! Reading consumes nothing. The cursor is progress, not a decision: it is kept in `ops` and synced before it is answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use chancery_core::inbox::{
    InboxName, Page, full_page_key, full_pages_prefix, of_open_page, open_page_key,
};
use chancery_core::line::Seq;
use chancery_core::rows::{Row, RowChange, RowKey};
use chancery_store::{Store, StoreError};
use hashbrown::HashMap;
use tokio::sync::Notify;

/// Full pages that one scan brings.
const PAGES_AT_ONCE: usize = 64;

/// An entry as it lies in an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxEntry {
    /// The line.
    pub seq: Seq,
    /// Its bytes, as the log has them.
    pub line: Bytes,
}

/// All inboxes of a node.
pub struct Inboxes {
    store: Arc<dyn Store>,
    waiting: Mutex<HashMap<InboxName, Arc<Notify>>>,
    /// Held while a cursor moves.
    moving: Mutex<()>,
    /// How many entries of each inbox are acknowledged. Whoever decides asks for it, so nobody reads the store with it held:
    /// that may wait for the decision to end.
    acknowledged: Mutex<HashMap<InboxName, u64>>,
}

/// How full an inbox is, as committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    total: u64,
    acknowledged: u64,
    /// The last entry.
    pub(crate) last: Seq,
}

impl Fill {
    /// Entries that are not acknowledged.
    pub(crate) fn depth(&self) -> u64 {
        self.total.saturating_sub(self.acknowledged)
    }
}

impl Inboxes {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            waiting: Mutex::default(),
            moving: Mutex::default(),
            acknowledged: Mutex::default(),
        }
    }

    /// Entries after a line, at most `limit`.
    pub fn read(
        &self,
        name: &InboxName,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<InboxEntry>, StoreError> {
        let seqs = self.seqs_after(name, after, limit)?;
        let mut entries = Vec::with_capacity(seqs.len());
        for run in consecutive_runs(&seqs) {
            let lines = self.store.lines(run[0], run.len())?;
            if lines.len() != run.len() {
                return Err(StoreError(format!(
                    "the log has no line {}",
                    run[0] + lines.len() as u64
                )));
            }
            entries.extend(
                run.iter()
                    .zip(lines)
                    .map(|(seq, line)| InboxEntry { seq: *seq, line }),
            );
        }
        Ok(entries)
    }

    /// Where to read on so that at most `depth` entries follow `after`, and how many fall out of that view (AG-DLV-2).
    pub fn newest(
        &self,
        name: &InboxName,
        after: Seq,
        depth: u64,
    ) -> Result<(Seq, u64), StoreError> {
        let open = self.open_page(name)?;
        let total = open.before + open.entries.len() as u64;
        let follow = total.saturating_sub(self.ordinal(name, after)?);
        let skipped = follow.saturating_sub(depth);
        if skipped == 0 {
            return Ok((after, 0));
        }
        let limit = usize::try_from(skipped).unwrap_or(usize::MAX);
        let fallen = self.seqs_after(name, after, limit)?;
        Ok((fallen.last().copied().unwrap_or(after), skipped))
    }

    /// Returns when an entry after `after` is there, or was there already.
    pub async fn wait(&self, name: &InboxName, after: Seq) -> Result<(), StoreError> {
        loop {
            let notify = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                Arc::clone(waiting.entry(name.clone()).or_default())
            };
            let woken = notify.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            if self.last(name)? > after {
                return Ok(());
            }
            woken.await;
        }
    }

    /// The acknowledged cursor.
    pub fn cursor(&self, name: &InboxName) -> Result<Seq, StoreError> {
        let bytes = self.store.ops_get(&cursor_key(name))?;
        Ok(bytes
            .and_then(|bytes| bytes.as_ref().try_into().ok().map(Seq::from_be_bytes))
            .unwrap_or_default())
    }

    /// Moves the cursor; it never goes back. Durable when this returns.
    pub fn acknowledge(&self, name: &InboxName, through: Seq) -> Result<Seq, StoreError> {
        // Held throughout: of two callers the later one must not put the earlier cursor back. Callers of other
        // processes cannot either: the store keeps the greater one.
        let _moving = self.lock_moving();
        let through = through.min(self.last(name)?);
        let raised = (cursor_key(name), Row::from(&through.to_be_bytes()[..]));
        self.store.ops_raise(raised, &[], true)?;
        let through = self.cursor(name)?;
        self.note_acknowledged(name, self.ordinal(name, through)?);
        Ok(through)
    }

    /// Moves the cursor past an entry that an agent in this process has dealt with, in one step with what it keeps of
    /// it. Not synced: over a power cut both are lost together, and the entry is dealt with again.
    pub fn settle(
        &self,
        name: &InboxName,
        through: Seq,
        kept: Vec<RowChange>,
    ) -> Result<(), StoreError> {
        let _moving = self.lock_moving();
        // Whoever else reads the inbox may have acknowledged more: the greater one stays.
        let raised = (cursor_key(name), Row::from(&through.to_be_bytes()[..]));
        self.store.ops_raise(raised, &kept, false)?;
        self.note_acknowledged(name, self.ordinal(name, through)?);
        Ok(())
    }

    /// Whether a line is an entry of an inbox.
    pub fn contains(&self, name: &InboxName, seq: Seq) -> Result<bool, StoreError> {
        let next = self.seqs_after(name, seq.saturating_sub(1), 1)?;
        Ok(next.first() == Some(&seq))
    }

    /// How many entries are not acknowledged.
    pub fn depth(&self, name: &InboxName) -> Result<u64, StoreError> {
        Ok(self.fill(name)?.depth())
    }

    pub(crate) fn fill(&self, name: &InboxName) -> Result<Fill, StoreError> {
        let open = self.open_page(name)?;
        Ok(Fill {
            total: open.before + open.entries.len() as u64,
            acknowledged: self.acknowledged(name)?,
            last: open.entries.last().copied().unwrap_or_default(),
        })
    }

    /// The same with a cursor that another process may have moved.
    pub(crate) fn fill_anew(&self, name: &InboxName) -> Result<Fill, StoreError> {
        self.lock_acknowledged().remove(name);
        self.fill(name)
    }

    /// How many entries are acknowledged.
    fn acknowledged(&self, name: &InboxName) -> Result<u64, StoreError> {
        if let Some(known) = self.lock_acknowledged().get(name) {
            return Ok(*known);
        }
        let count = self.ordinal(name, self.cursor(name)?)?;
        Ok(self.note_acknowledged(name, count))
    }

    /// Notes how many entries are acknowledged, unless more are known to be; gives how many.
    fn note_acknowledged(&self, name: &InboxName, count: u64) -> u64 {
        let mut acknowledged = self.lock_acknowledged();
        let known = acknowledged.entry_ref(name).or_insert(count);
        *known = count.max(*known);
        *known
    }

    /// An entry was committed: wakes whoever waits.
    pub(crate) fn arrived(&self, name: &InboxName) {
        let notify = self
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
        if let Some(notify) = notify {
            notify.notify_waiters();
        }
    }

    /// Others may have put entries into the inboxes whose open pages are among these rows.
    pub(crate) fn others_arrived(&self, rows: &[RowChange]) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever begins to wait after this looks into the rows first.
        if waiting.is_empty() {
            return;
        }
        let names = rows.iter().filter_map(|(key, _)| of_open_page(key));
        for notify in names.filter_map(|name| waiting.remove(&name)) {
            notify.notify_waiters();
        }
    }

    fn seqs_after(
        &self,
        name: &InboxName,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Seq>, StoreError> {
        let mut seqs = Vec::new();
        // The open page is read first: a page that fills up meanwhile is then found among the full ones or in it.
        let open = self.open_page(name)?;
        let prefix = full_pages_prefix(name);
        let mut last_page = full_page_key(name, after);
        while seqs.len() < limit {
            let pages = self.store.scan(&prefix, Some(&last_page), PAGES_AT_ONCE)?;
            let Some((key, _)) = pages.last() else { break };
            last_page = key.clone();
            for (_, bytes) in &pages {
                let page = Page::parse(bytes).map_err(|damage| StoreError(damage.to_string()))?;
                seqs.extend(page.entries.into_iter().filter(|seq| *seq > after));
            }
        }
        let known = seqs.last().copied().unwrap_or(after);
        seqs.extend(open.entries.into_iter().filter(|seq| *seq > known));
        seqs.truncate(limit);
        Ok(seqs)
    }

    /// How many entries lie at or before a line.
    fn ordinal(&self, name: &InboxName, through: Seq) -> Result<u64, StoreError> {
        let open = self.open_page(name)?;
        // Whoever decides asks this of an inbox that is new to it: most have no other page, and a scan is no cheap look.
        let is_in_open =
            open.before == 0 || open.entries.first().is_some_and(|first| *first <= through);
        if is_in_open {
            return Ok(open.before + open.entries.partition_point(|seq| *seq <= through) as u64);
        }
        let next = self.store.scan(
            &full_pages_prefix(name),
            Some(&full_page_key(name, through)),
            1,
        )?;
        let page = match next.first() {
            Some((_, bytes)) => {
                Page::parse(bytes).map_err(|damage| StoreError(damage.to_string()))?
            }
            None => open,
        };
        Ok(page.before + page.entries.partition_point(|seq| *seq <= through) as u64)
    }

    fn last(&self, name: &InboxName) -> Result<Seq, StoreError> {
        Ok(self
            .open_page(name)?
            .entries
            .last()
            .copied()
            .unwrap_or_default())
    }

    fn open_page(&self, name: &InboxName) -> Result<Page, StoreError> {
        let rows = self.store.load(&[open_page_key(name)])?;
        match rows.into_iter().next().flatten() {
            Some(bytes) => Page::parse(&bytes).map_err(|damage| StoreError(damage.to_string())),
            None => Ok(Page::default()),
        }
    }

    fn lock_moving(&self) -> MutexGuard<'_, ()> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_acknowledged(&self) -> MutexGuard<'_, HashMap<InboxName, u64>> {
        self.acknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn cursor_key(name: &InboxName) -> RowKey {
    RowKey::text("cursor", &[name.protocol.as_str(), &name.agent])
}

/// Cuts ascending numbers into runs without gaps, so that each run is one read of the log.
fn consecutive_runs(seqs: &[Seq]) -> impl Iterator<Item = &[Seq]> {
    seqs.chunk_by(|a, b| a + 1 == *b)
}
