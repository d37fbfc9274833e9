//! The journal in PostgreSQL that the configuration names, if it names one (CH-JRN-5).

use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_core::protocol::Suite as _;
use chancery_node::suite::Chancery;
use chancery_store::{
    Postgres, PostgresError, PostgresLook, PostgresOptions, ROWS_VERSION, look_at_postgres,
};

use crate::config::{Config, Database, Store};
use crate::exit::{Exit, Failure};
use crate::secret_file;

/// How long a node that is to serve waits for a database that is not there yet.
const WAITED_FOR: Duration = Duration::from_secs(30);
/// Between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Opens the journal of a node; it is begun when it is not there.
pub(super) fn of(config: &Config) -> Result<Option<Arc<Postgres>>, Failure> {
    let Store::Postgres(database) = &config.store else {
        return Ok(None);
    };
    open(database, config.row_cache_bytes, true).map(Some)
}

/// The same for a node that is to serve: it may be started together with the database, or while that is away. What waiting
/// does not help is told at once.
pub(super) async fn awaited(config: &Config) -> Result<Option<Arc<Postgres>>, Failure> {
    let Store::Postgres(database) = &config.store else {
        return Ok(None);
    };
    let options = options(database, config.row_cache_bytes, true)?;
    let begun = Instant::now();
    loop {
        let error = match Postgres::open(&options) {
            Ok(opened) => return Ok(Some(Arc::new(opened))),
            Err(error) => error,
        };
        // Another certificate does not come by waiting.
        if !error.is_passing() || matches!(error, PostgresError::Insecure { .. }) {
            return Err(not_opened(&error, database));
        }
        if begun.elapsed() >= WAITED_FOR {
            let said = not_opened(&error, database);
            // As for a database that is gone for too long while a node serves.
            return Err(Failure {
                exit: Exit::Damaged,
                ..said
            });
        }
        tracing::warn!(%error, store = %database.shown(), "the database is not there yet");
        tokio::time::sleep(PAUSE).await;
    }
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
    let opened = Postgres::open(&options(database, row_cache_bytes, may_begin)?);
    opened
        .map(Arc::new)
        .map_err(|error| not_opened(&error, database))
}

fn options(
    database: &Database,
    row_cache_bytes: u64,
    may_begin: bool,
) -> Result<PostgresOptions, Failure> {
    Ok(PostgresOptions {
        url: database.url.clone(),
        password: password_of(database)?,
        journal: database.journal.clone(),
        may_begin,
        row_cache_bytes: usize::try_from(row_cache_bytes).unwrap_or(usize::MAX),
        windows: Chancery::default().windows(),
        rows_version: ROWS_VERSION,
    })
}

/// What a database says of itself and of a journal. Nothing is changed there.
pub(crate) fn look_at(database: &Database) -> Result<PostgresLook, Failure> {
    let password = password_of(database)?;
    let looked = look_at_postgres(&database.url, password.as_deref(), &database.journal);
    looked.map_err(|error| not_opened(&error, database))
}

fn password_of(database: &Database) -> Result<Option<String>, Failure> {
    let read = |path| secret_file::read_secret(path, "a password");
    let text = database.password_file.as_deref().map(read).transpose()?;
    Ok(text.map(|text| text.trim_end_matches(['\r', '\n']).to_owned()))
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
        PostgresError::OldServer { .. } => {
            Failure::usage(said).next("bring the database to a newer PostgreSQL")
        }
        PostgresError::Newer { .. } => Failure::usage(said)
            .next("use the version of chancery that changed them, or a later one"),
        PostgresError::Older { .. } => Failure::usage(said)
            .next("start chancery serve of this version on it once: it brings the tables up to date"),
        PostgresError::OtherRows { .. } => Failure::usage(said).next(
            "with the program that wrote them move the journal to files, with this one to a journal of another name",
        ),
        PostgresError::NoJournal(_) => Failure::usage(said)
            .next("set journal to the name of one that is there; chancery serve begins a new one"),
        _ => Failure::usage(said),
    }
}
