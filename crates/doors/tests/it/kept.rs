//! Where the log of a test's node is kept over its restarts: what holds on files holds in PostgreSQL.

use std::path::PathBuf;
use std::sync::Arc;

use chancery_core::protocol::Suite as _;
use chancery_node::suite::Chancery;
use chancery_store::{Postgres, PostgresOptions, Store};
use chancery_testkit::postgres_server::PostgresServer;
use tempfile::TempDir;

use crate::support::{embedded, temporary};

/// A log of a test's own.
pub enum Kept {
    Files { path: PathBuf, _dir: TempDir },
    Database(PostgresServer),
}

impl Kept {
    pub fn on_files() -> Self {
        let (dir, path) = temporary();
        Self::Files { path, _dir: dir }
    }

    pub fn in_postgresql() -> Self {
        Self::Database(PostgresServer::start())
    }

    /// Opens it, as often as a node is started.
    pub fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Files { path, .. } => embedded(path),
            Self::Database(server) => journal(server, "kept", &Chancery::default()),
        }
    }

    /// Loses what follows from the log, where that is something of its own.
    pub fn lose_index(&self) {
        if let Self::Files { path, .. } = self {
            std::fs::remove_file(path.join("index.db")).unwrap();
        }
    }
}

/// A journal that no other test has, in the server that all share.
pub fn fresh(name: &str) -> Arc<dyn Store> {
    journal(PostgresServer::shared(), name, &Chancery::default())
}

/// A journal in PostgreSQL.
pub fn journal(server: &PostgresServer, name: &str, suite: &Chancery) -> Arc<dyn Store> {
    journal_with_cache(server, name, suite, 64 << 20)
}

/// The same with so much memory for rows.
pub fn journal_with_cache(
    server: &PostgresServer,
    name: &str,
    suite: &Chancery,
    row_cache_bytes: usize,
) -> Arc<dyn Store> {
    let options = PostgresOptions {
        url: server.url().to_owned(),
        password: None,
        journal: name.to_owned(),
        may_begin: true,
        row_cache_bytes,
        windows: suite.windows(),
        rows_version: chancery_store::ROWS_VERSION,
    };
    Arc::new(Postgres::open(&options).unwrap())
}
