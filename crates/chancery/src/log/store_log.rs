//! The lines of an open store, read as a file is: what is committed, and nothing that is being written.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::rows::RowKey;
use chancery_store::Store;
use chancery_vibe::world::seed::Seed;

/// Lines read at once.
const PORTION: usize = 256;

/// The log of an open store up to a line.
#[derive(Clone)]
pub struct StoreLog {
    store: Arc<dyn Store>,
    last: Seq,
    max_bytes: u64,
    /// What the rules need beside the lines, where it is kept with them.
    seed: Option<Arc<Seed>>,
    /// Where the files beside the log are.
    folder: Option<PathBuf>,
}

impl StoreLog {
    /// All that is committed now. Reading fails beyond `max_bytes`.
    pub fn of(store: Arc<dyn Store>, max_bytes: u64) -> Self {
        let last = store.head().seq;
        Self {
            store,
            last,
            max_bytes,
            seed: None,
            folder: None,
        }
    }

    /// The same with what lies beside it: the world seed, and the folder of what was refused and what happened.
    #[must_use]
    pub fn beside(mut self, seed: Option<Arc<Seed>>, folder: PathBuf) -> Self {
        (self.seed, self.folder) = (seed, Some(folder));
        self
    }

    /// The world seed that is kept with it.
    pub fn seed(&self) -> Option<&Arc<Seed>> {
        self.seed.as_ref()
    }

    /// Where the files beside the log are.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The same log as far as it is committed now, by whomever.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn followed(mut self) -> io::Result<Self> {
        // Reading what is not in memory also brings in what others committed.
        let anything = RowKey::text("", &[]);
        let looked = self.store.scan(&anything, None, 0);
        looked.map_err(|error| io::Error::other(error.to_string()))?;
        self.last = self.store.head().seq;
        Ok(self)
    }

    /// The number of its last line.
    pub fn last(&self) -> Seq {
        self.last
    }

    /// Lines from `from` on, as many as one read brings; none beyond the last.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn portion(&self, from: Seq) -> io::Result<Vec<Bytes>> {
        let left = self.last.saturating_add(1).saturating_sub(from);
        let count = usize::try_from(left).unwrap_or(PORTION).min(PORTION);
        if count == 0 {
            return Ok(Vec::new());
        }
        let lines = self.store.lines(from, count);
        lines.map_err(|error| io::Error::other(error.to_string()))
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
        let lines = self.log.portion(self.next)?;
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
