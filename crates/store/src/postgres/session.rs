//! A connection whose statements are prepared once.

use std::sync::{Mutex, PoisonError};

use chancery_journal::Head;
use futures_util::future::try_join_all;
use hashbrown::HashMap;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::PostgresError;

/// A statement, and the types of what it is given.
pub(super) struct Sql {
    pub(super) text: &'static str,
    pub(super) types: &'static [Type],
}

/// What a statement is given.
pub(super) type Given<'g> = Vec<&'g (dyn ToSql + Sync)>;

/// A connection.
pub(super) struct Session {
    client: Client,
    prepared: Mutex<HashMap<&'static str, Statement>>,
    /// The head that its transaction has locked and written nothing for. It ends with the connection: nobody may go on
    /// with the lock of another.
    held: Mutex<Option<Head>>,
}

impl Session {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            prepared: Mutex::default(),
            held: Mutex::default(),
        }
    }

    /// Its transaction keeps this head locked.
    pub(super) fn hold(&self, head: Head) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(head);
    }

    /// The head that is locked: whoever asks goes on with the transaction, or ends it.
    pub(super) fn take_held(&self) -> Option<Head> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.take()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Prepares statements in one trip. Those that are sent without waiting for each other's answers have to be: one that
    /// is still prepared would be overtaken.
    pub(super) async fn prepare(&self, all: &[&Sql]) -> Result<(), PostgresError> {
        try_join_all(all.iter().map(|sql| self.statement(sql))).await?;
        Ok(())
    }

    async fn statement(&self, sql: &Sql) -> Result<Statement, PostgresError> {
        let known = self.lock().get(sql.text).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare_typed(sql.text, sql.types).await?;
        self.lock().insert(sql.text, statement.clone());
        Ok(statement)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Statement>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn query(
        &self,
        sql: &Sql,
        given: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PostgresError> {
        let statement = self.statement(sql).await?;
        Ok(self.client.query(&statement, given).await?)
    }

    pub(super) async fn execute(
        &self,
        sql: &Sql,
        given: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, PostgresError> {
        let statement = self.statement(sql).await?;
        Ok(self.client.execute(&statement, given).await?)
    }

    /// A word of the transaction.
    pub(super) async fn say(&self, word: &str) -> Result<(), PostgresError> {
        Ok(self.client.batch_execute(word).await?)
    }
}
