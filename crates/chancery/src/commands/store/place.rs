//! Where a journal is taken from, and where it goes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::protocol::Suite as _;
use chancery_node::suite::Chancery;
use chancery_store::{
    Beside, DirLock, Embedded, LockError, Options, Postgres, Store, StoreError, ops_in, recover,
};

use crate::config::{self, Config, Database};
use crate::exit::Failure;
use crate::host::{
    SeedText, database_to_read, keep_seed_in, open_database, read_kept_seed, read_seed,
    seed_kept_in,
};
use crate::log::{Lines, LiveLog, LogFile, StoreLog, find};
use crate::terminal::{Progress, Terminal};

/// Memory for rows while a log is copied.
const CACHE_BYTES: u64 = 256 << 20;

/// A store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StorePlace {
    Directory(PathBuf),
    Database(Database),
}

impl StorePlace {
    /// The store that an argument names.
    pub(super) fn named(
        text: &str,
        journal: &str,
        password_file: Option<&Path>,
    ) -> Result<Self, Failure> {
        if text.is_empty() {
            return Err(Failure::usage("an empty text names no store")
                .next("name a data directory, or postgres://USER@HOST/DATABASE"));
        }
        Ok(match Database::address(text) {
            Some(url) => Self::Database(Database {
                url,
                journal: journal.to_owned(),
                password_file: password_file.map(Path::to_owned),
            }),
            None => Self::Directory(PathBuf::from(text)),
        })
    }

    /// The store of a node.
    pub(super) fn configured(config: &Config) -> Result<Self, Failure> {
        match &config.store {
            config::Store::Embedded => Ok(Self::Directory(config.data.clone())),
            config::Store::Postgres(database) => Ok(Self::Database(database.clone())),
            config::Store::Memory => Err(Failure::usage("store = \"memory\" keeps nothing")),
        }
    }
}

/// How much there is to read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    /// About so many bytes, where that is known.
    Bytes(Option<u64>),
    Lines(u64),
}

impl Size {
    /// Shows how far the reading of it is.
    pub(super) fn progress(self, terminal: &Terminal) -> Progress {
        match self {
            Self::Bytes(bytes) => Progress::of_bytes(bytes, terminal),
            Self::Lines(lines) => Progress::of_steps(lines, terminal),
        }
    }

    /// What a line is of it.
    pub(super) fn of(self, line: &Bytes) -> u64 {
        match self {
            Self::Bytes(_) => line.len() as u64 + 1,
            Self::Lines(_) => 1,
        }
    }
}

/// A log, and what is beside it.
pub(super) struct Source {
    pub(super) lines: Box<dyn Iterator<Item = Result<Bytes, StoreError>>>,
    pub(super) seed: Option<SeedText>,
    pub(super) beside: Beside,
    pub(super) size: Size,
    /// The store, where it is one in PostgreSQL.
    database: Option<Arc<Postgres>>,
    /// Keeps nodes away while it is read.
    _lock: Option<DirLock>,
}

impl Source {
    /// The log of a store that no node writes to.
    pub(super) fn at_rest(place: &StorePlace) -> Result<Self, Failure> {
        match place {
            StorePlace::Directory(dir) => {
                let lock = match dir.is_dir() {
                    true => Some(DirLock::take(dir, "").map_err(in_use)?),
                    false => None,
                };
                Ok(Self {
                    _lock: lock,
                    ..Self::in_directory(dir)?
                })
            }
            StorePlace::Database(database) => {
                let store = database_to_read(database)?;
                unattended(&store, database)?;
                Self::in_store(store)
            }
        }
    }

    /// The log of a store as it is now, also while nodes write to it.
    pub(super) fn as_it_is(place: &StorePlace) -> Result<Self, Failure> {
        match place {
            StorePlace::Directory(dir) => Self::in_directory(dir),
            StorePlace::Database(database) => Self::in_store(database_to_read(database)?),
        }
    }

    fn in_directory(dir: &Path) -> Result<Self, Failure> {
        // Before the lines: a cursor must not point beyond them.
        let ops = ops_in(dir).map_err(unreadable)?;
        Self::of_files(dir, Beside { ops, open: None })
    }

    /// The log files in a directory, with what else is known to be beside them.
    pub(super) fn of_files(dir: &Path, beside: Beside) -> Result<Self, Failure> {
        let lines = Lines::of(vec![live_log(dir)?]);
        let seed = seed_in(dir)?;
        Ok(Self {
            size: Size::Bytes(lines.total_bytes()),
            lines: Box::new(whole_lines(lines)),
            seed,
            beside,
            database: None,
            _lock: None,
        })
    }

    fn in_store(store: Arc<Postgres>) -> Result<Self, Failure> {
        let beside = Beside::of(&*store).map_err(|error| unread(&store, error))?;
        let seed = read_kept_seed(&store)?;
        // Not before what is beside it.
        let head = store.follow().map_err(|error| unread(&store, error))?;
        Ok(Self {
            size: Size::Lines(head.seq),
            lines: Box::new(lines_of(committed(Arc::clone(&store) as Arc<_>))),
            seed,
            beside,
            database: Some(store),
            _lock: None,
        })
    }

    /// What went wrong while its lines were read.
    pub(super) fn failed(&self, failure: Failure) -> Failure {
        match &self.database {
            Some(store) => away(store, failure),
            None => failure,
        }
    }

    /// The rules over its world.
    pub(super) fn suite(&self) -> Chancery {
        suite(self.seed.as_ref())
    }
}

/// The lines that are committed in a store now.
pub(super) fn committed(store: Arc<dyn Store>) -> LogFile {
    LogFile::Store(StoreLog::of(store, u64::MAX))
}

/// The log in a directory as it is now, also while a node writes to it.
pub(super) fn live_log(dir: &Path) -> Result<LogFile, Failure> {
    let cannot =
        |error: std::io::Error| Failure::damaged(format!("cannot read {}: {error}", dir.display()));
    match LiveLog::of(dir).map_err(cannot)? {
        Some(log) => Ok(LogFile::Live(log)),
        // It says what a directory without a log lacks.
        None => Err(match find(&[dir.to_owned()]) {
            Err(failure) => failure,
            Ok(_) => Failure::usage(format!("there is no log in {}", dir.display())),
        }),
    }
}

/// The seed that is kept in a directory.
pub(super) fn seed_in(dir: &Path) -> Result<Option<SeedText>, Failure> {
    seed_kept_in(dir).map(|path| read_seed(&path)).transpose()
}

/// The rules over a world.
pub(super) fn suite(seed: Option<&SeedText>) -> Chancery {
    match seed {
        Some((seed, _)) => Chancery::with_seed(Arc::clone(seed)),
        None => Chancery::default(),
    }
}

/// The lines of one log.
pub(super) fn lines_of(log: LogFile) -> impl Iterator<Item = Result<Bytes, StoreError>> {
    whole_lines(Lines::of(vec![log]))
}

/// Lines one by one. A last one without its newline was never acknowledged and stays away.
fn whole_lines(mut lines: Lines) -> impl Iterator<Item = Result<Bytes, StoreError>> {
    let mut block = Vec::new().into_iter();
    std::iter::from_fn(move || {
        loop {
            if let Some(line) = block.next() {
                return Some(Ok(line));
            }
            match lines.next_block() {
                Ok(Some(mut next)) => {
                    if next.unended {
                        next.lines.pop();
                    }
                    block = next.lines.into_iter();
                }
                Ok(None) => return None,
                Err(failure) => return Some(Err(StoreError(failure.what))),
            }
        }
    })
}

/// A store that a log goes to.
pub(super) struct Target {
    pub(super) store: Arc<dyn Store>,
}

impl Target {
    /// Opens it, and keeps the seed there.
    pub(super) fn open(place: &StorePlace, seed: Option<&SeedText>) -> Result<Self, Failure> {
        let store: Arc<dyn Store> = match place {
            StorePlace::Directory(dir) => open_directory(dir, seed)?,
            StorePlace::Database(database) => {
                let store = open_database(database, CACHE_BYTES, true)?;
                unattended(&store, database)?;
                if let Some((_, text)) = seed {
                    store.keep_seed(text).map_err(unreadable)?;
                }
                store
            }
        };
        Ok(Self { store })
    }

    pub(super) fn close(self) -> Result<(), Failure> {
        self.store.close().map_err(unreadable)
    }
}

fn open_directory(dir: &Path, seed: Option<&SeedText>) -> Result<Arc<Embedded>, Failure> {
    let suite = suite(seed);
    let options = Options {
        windows: suite.windows(),
        ..Options::new(dir)
    };
    let not_opened = |error: chancery_store::OpenError| match error.is_damage() {
        true => Failure::damaged(error.to_string()),
        false => Failure::usage(error.to_string()),
    };
    let (store, tail) = Embedded::open(&options).map_err(not_opened)?;
    if let Some((seed, text)) = seed {
        keep_seed_in(dir, seed, text)?;
    }
    // What an earlier run wrote may not be in the index yet.
    recover(&suite, &store, &tail).map_err(|error| Failure::damaged(error.to_string()))?;
    Ok(Arc::new(store))
}

fn in_use(error: LockError) -> Failure {
    Failure::usage(error.to_string()).next("stop the node first")
}

/// A node on the journal would have what is moved under its feet.
fn unattended(store: &Postgres, database: &Database) -> Result<(), Failure> {
    let attended = store.is_attended();
    if !attended.map_err(|error| unread(store, error))? {
        return Ok(());
    }
    let journal = &database.journal;
    Err(
        Failure::usage(format!("a node runs on the journal {journal}"))
            .next("stop all its nodes first; one that was killed counts as gone after 5 seconds"),
    )
}

pub(super) fn unreadable(error: StoreError) -> Failure {
    Failure::damaged(error.to_string())
}

/// The same of a store in PostgreSQL: what a server that is gone or silent holds is not damaged by that.
pub(super) fn unread(store: &Postgres, error: StoreError) -> Failure {
    away(store, unreadable(error))
}

/// What was read from a store could not be: as damage, unless its server is away.
pub(super) fn away(store: &Postgres, failure: Failure) -> Failure {
    match store.is_away() {
        true => Failure::usage(failure.what).next("run it again when PostgreSQL answers"),
        false => failure,
    }
}
