//! The journal in PostgreSQL that the configuration names, if it names one (CH-JRN-5).

use std::sync::Arc;

use chancery_core::protocol::Suite as _;
use chancery_node::suite::Chancery;
use chancery_store::{Postgres, PostgresError, PostgresOptions};

use crate::config::{Config, Database, Store};
use crate::exit::Failure;
use crate::secret_file;

/// Raised whenever rules write rows differently.
const ROWS_VERSION: u32 = 1;

/// Opens the journal of a node; it is begun when it is not there.
pub(super) fn of(config: &Config) -> Result<Option<Arc<Postgres>>, Failure> {
    let Store::Postgres(database) = &config.store else {
        return Ok(None);
    };
    open(database, config.row_cache_bytes, true).map(Some)
}

/// Opens a journal that is there, to read it.
pub(crate) fn to_read(database: &Database) -> Result<Arc<Postgres>, Failure> {
    open(database, 0, false)
}

/// Opens a journal.
pub(crate) fn open(
    database: &Database,
    row_cache_bytes: u64,
    may_begin: bool,
) -> Result<Arc<Postgres>, Failure> {
    let password = database.password_file.as_deref();
    let password = password
        .map(|path| secret_file::read_secret(path, "a password"))
        .transpose()?;
    let options = PostgresOptions {
        url: database.url.clone(),
        password: password.map(|text| text.trim_end_matches(['\r', '\n']).to_owned()),
        journal: database.journal.clone(),
        may_begin,
        row_cache_bytes: usize::try_from(row_cache_bytes).unwrap_or(usize::MAX),
        windows: Chancery::default().windows(),
        rows_version: ROWS_VERSION,
    };
    let opened = Postgres::open(&options);
    opened
        .map(Arc::new)
        .map_err(|error| not_opened(&error, database))
}

fn not_opened(error: &PostgresError, database: &Database) -> Failure {
    let said = format!("store = {}: {error}", database.shown());
    match error {
        PostgresError::Damaged(_) => Failure::damaged(said),
        PostgresError::Unreachable { .. } => {
            Failure::usage(said).next("start PostgreSQL there, or correct store")
        }
        PostgresError::Denied { .. } => Failure::usage(said)
            .next("put the password into a file of mode 0600 and name it in store_password_file"),
        PostgresError::Newer { .. } => Failure::usage(said)
            .next("use the version of chancery that changed them, or a later one"),
        PostgresError::NoJournal(_) => Failure::usage(said)
            .next("set journal to the name of one that is there; chancery serve begins a new one"),
        _ => Failure::usage(said),
    }
}
