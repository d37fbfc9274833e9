//! The lines of an open store, read as a file is: what is committed, and nothing that is being written.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use chancery_core::line::Seq;
use chancery_store::Store;

/// Lines read at once.
const PORTION: usize = 256;

/// The log of an open store up to a line.
#[derive(Clone)]
pub struct StoreLog {
    store: Arc<dyn Store>,
    last: Seq,
    max_bytes: u64,
}

impl StoreLog {
    /// All that is committed now. Reading fails beyond `max_bytes`.
    pub fn of(store: Arc<dyn Store>, max_bytes: u64) -> Self {
        let last = store.head().seq;
        Self {
            store,
            last,
            max_bytes,
        }
    }

    pub(super) fn reader(&self) -> impl Read + use<> {
        Reader {
            log: self.clone(),
            next: 1,
            bytes: 0,
            rest: Vec::new(),
            at: 0,
        }
    }
}

impl fmt::Debug for StoreLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreLog(..={})", self.last)
    }
}

impl PartialEq for StoreLog {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store) && self.last == other.last
    }
}

impl Eq for StoreLog {}

struct Reader {
    log: StoreLog,
    next: Seq,
    bytes: u64,
    rest: Vec<u8>,
    at: usize,
}

impl Reader {
    fn fill(&mut self) -> io::Result<()> {
        self.rest.clear();
        self.at = 0;
        let left = self.log.last.saturating_add(1).saturating_sub(self.next);
        let count = usize::try_from(left).unwrap_or(PORTION).min(PORTION);
        if count == 0 {
            return Ok(());
        }
        let lines = self.log.store.lines(self.next, count);
        let lines = lines.map_err(|error| io::Error::other(error.to_string()))?;
        self.next += lines.len() as u64;
        for line in &lines {
            self.rest.extend_from_slice(line);
            self.rest.push(b'\n');
        }
        self.bytes += self.rest.len() as u64;
        if self.bytes > self.log.max_bytes {
            let limit = self.log.max_bytes;
            return Err(io::Error::other(format!(
                "it is longer than limits.log_check_bytes ({limit}); use chancery log on the files"
            )));
        }
        Ok(())
    }
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.rest.len() {
            self.fill()?;
        }
        let count = into.len().min(self.rest.len() - self.at);
        into[..count].copy_from_slice(&self.rest[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
