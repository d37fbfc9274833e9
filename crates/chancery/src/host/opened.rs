//! The store of a node: opened, its tail decided again, its closed segments checked in the background.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chancery_core::protocol::Suite;
use chancery_node::suite::Chancery;
use chancery_node::{Office, SideLogs};
use chancery_store::{
    Embedded, LockError, Memory, OpenError, Options, Postgres, SideLog, SideLogLimits, Store,
    recover,
};

use crate::config::{self, Config};
use crate::exit::Failure;
use crate::secret_file;

/// An open store.
pub(super) enum Opened {
    Embedded {
        store: Arc<Embedded>,
        stop_scrub: Arc<AtomicBool>,
    },
    Memory(Arc<Memory>),
    Postgres(Arc<Postgres>),
}

impl Opened {
    /// Opens the store that the configuration names and decides the tail of its log again.
    pub(super) fn open(
        config: &Config,
        suite: &Chancery,
        database: Option<Arc<Postgres>>,
    ) -> Result<Self, Failure> {
        match (&config.store, database) {
            (_, Some(database)) => {
                secret_file::make_private_folder(&config.data)?;
                Ok(Self::Postgres(database))
            }
            (config::Store::Memory, None) => Ok(Self::Memory(Arc::new(Memory::new()))),
            (_, None) => open_embedded(config, suite),
        }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded { store, .. } => Arc::clone(store) as Arc<dyn Store>,
            Self::Memory(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Postgres(store) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    /// Refusals, events and grave escalations are noted beside the log; without a data directory nowhere.
    pub(super) fn side_logs(&self, config: &Config) -> Result<SideLogs, Failure> {
        if let Self::Memory(_) = self {
            return Ok(SideLogs::default());
        }
        let open = |name| {
            SideLog::open(&config.data, name, SideLogLimits::default()).map_err(|error| {
                Failure::damaged(format!("{}/{name}: {error}", config.data.display()))
            })
        };
        let side_logs = SideLogs::new(open("rejections.jsonl")?, open("events.jsonl")?);
        Ok(side_logs.with_audits(open("escalations.jsonl")?))
    }

    /// Puts the address into the lock file, so that a second process can name this one (CH-NET-5).
    pub(super) fn tell_address(&self, address: &str) {
        if let Self::Embedded { store, .. } = self
            && let Err(error) = store.tell_address(address)
        {
            tracing::warn!(%error, "the lock file does not name the address");
        }
    }

    /// Checks closed segments in full. What it finds ends the node with exit 3 (CH-JRN-4).
    pub(super) fn scrub_in_background(&self, office: &Arc<Office>) {
        let Self::Embedded { store, stop_scrub } = self else {
            return;
        };
        let (store, stop, office) = (
            Arc::clone(store),
            Arc::clone(stop_scrub),
            Arc::clone(office),
        );
        tokio::task::spawn_blocking(move || {
            if let Err(error) = store.scrub(&stop) {
                office.gate().fail(&error.to_string());
            }
        });
    }

    pub(super) fn stop_scrubbing(&self) {
        if let Self::Embedded { stop_scrub, .. } = self {
            stop_scrub.store(true, Ordering::Relaxed);
        }
    }
}

fn open_embedded(config: &Config, suite: &Chancery) -> Result<Opened, Failure> {
    let options = Options {
        address: config.listen.to_string(),
        segment_bytes: config.segment_bytes,
        row_cache_bytes: usize::try_from(config.row_cache_bytes).unwrap_or(usize::MAX),
        index_lag_entries: config.index_lag_entries,
        windows: suite.windows(),
        ..Options::new(&config.data)
    };
    let (store, tail) =
        Embedded::open(&options).map_err(|error| not_opened(&error, &config.data))?;
    if let Some(repair) = &tail.repair {
        tracing::warn!(
            ?repair,
            "the end of the log was cut back to its last whole unit; nothing in it was acknowledged"
        );
    }
    let recovered =
        recover(suite, &store, &tail).map_err(|error| Failure::damaged(error.to_string()))?;
    tracing::debug!(?recovered, "the tail of the log was decided again");
    Ok(Opened::Embedded {
        store: Arc::new(store),
        stop_scrub: Arc::default(),
    })
}

fn not_opened(error: &OpenError, data: &Path) -> Failure {
    let at = data.display();
    match error {
        error if error.is_damage() => Failure::damaged(error.to_string()).next(format!(
            "leave {at} as it is, and see what is wrong: chancery doctor"
        )),
        OpenError::Locked(LockError::Held { .. }) => Failure::usage(error.to_string())
            .next("stop that process first, or name another directory: data, or --data DIR"),
        OpenError::Locked(LockError::Unusable { .. }) => {
            Failure::usage(error.to_string()).next(writable(data))
        }
        OpenError::Io(error) => {
            Failure::usage(format!("the data directory {at} cannot be used: {error}"))
                .next(writable(data))
        }
        error => Failure::usage(format!("{at}: {error}")).next(writable(data)),
    }
}

fn writable(data: &Path) -> String {
    let at = data.display();
    format!(
        "let the user that runs the node write in {at} (ls -ld {at}), or name another: data, or --data DIR"
    )
}
