//! What can be wrong with PostgreSQL, and what may pass.

use std::time::Duration;

use chancery_core::line::Seq;

use crate::contract::StoreError;

/// Why PostgreSQL could not be used.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// No connection came about.
    #[error("PostgreSQL at {place} cannot be reached: {reason}")]
    Unreachable {
        /// Host and port.
        place: String,
        /// What was told.
        reason: String,
    },
    /// It does not let this user in.
    #[error("PostgreSQL at {place} does not let {user} in: {reason}")]
    Denied {
        /// Host and port.
        place: String,
        /// The user.
        user: String,
        /// What was told.
        reason: String,
    },
    /// What it says of itself is not what the address asks for.
    #[error("PostgreSQL at {place} cannot be reached over TLS: {reason}")]
    Insecure {
        /// Host and port.
        place: String,
        /// What was told.
        reason: String,
    },
    /// It has taken what was asked and says nothing.
    #[error("PostgreSQL has said nothing for {} s", .0.as_secs())]
    Silent(Duration),
    /// The address cannot be used as it is written.
    #[error("the address of PostgreSQL cannot be used: {0}")]
    Address(String),
    /// The journal is not there, and is not to be begun.
    #[error("the database has no journal {0}")]
    NoJournal(String),
    /// Others have changed what a decision reads.
    #[error("the journal has moved on")]
    Moved,
    /// It says so itself.
    #[error("PostgreSQL: {}", told(.0))]
    Server(#[from] tokio_postgres::Error),
    /// Nobody knows what this build does on it.
    #[error("the server is PostgreSQL {found}, this build wants {least} or a newer one")]
    OldServer {
        /// Its major version.
        found: i32,
        /// The oldest that is taken.
        least: i32,
    },
    /// A newer build has changed the tables.
    #[error("the database has the tables of a newer version ({found}, this one knows {known})")]
    Newer {
        /// What the database says.
        found: i32,
        /// What this build knows.
        known: usize,
    },
    /// This build has changed the tables, and nobody has opened them to write since.
    #[error("the database has the tables of an older version ({found}, this one wants {known})")]
    Older {
        /// What the database says.
        found: i32,
        /// What this build wants.
        known: usize,
    },
    /// The journal's rows were written by other rules.
    #[error("the rows of this journal are of version {found}, this build writes version {known}")]
    OtherRows {
        /// What the journal says.
        found: i64,
        /// What this build writes.
        known: u32,
    },
    /// What the database holds is not what this program writes.
    #[error("the database is damaged: {0}")]
    Damaged(String),
    /// This handle knows a journal that went on too far without it.
    #[error("line {0} is too far behind")]
    TooFarBehind(Seq),
    /// No thread could be started.
    #[error("no thread for PostgreSQL: {0}")]
    Runtime(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// What the server said, where it said something: the error alone is a word.
pub(super) fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => {
            let source = std::error::Error::source(error);
            source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
        }
    }
}

impl PostgresError {
    /// Whether trying again may help: a server that is gone, silent, starting, stopping, or that chose this session as the
    /// victim.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Insecure { .. } | Self::Silent(_) => true,
            Self::Server(error) => error.code().is_none_or(|code| {
                let class = &code.code()[..2];
                // connection, operator intervention, rolled back, out of resources, invalid transaction state
                matches!(class, "08" | "57" | "40" | "53" | "25")
            }),
            _ => false,
        }
    }
}

impl From<PostgresError> for StoreError {
    fn from(error: PostgresError) -> Self {
        Self(error.to_string())
    }
}
