//! All rows in one snapshot, with the head that they reflect.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, IsolationLevel};

use super::link::Patience;
use super::warm::Warm;
use super::{Postgres, PostgresError, head_of};
use crate::contract::StoreError;
use crate::moment::Moment;

impl Postgres {
    /// The rows of this moment, whoever commits meanwhile. Nobody waits for it.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn moment(&self) -> Result<Moment, StoreError> {
        let (shared, journal) = (&*self.shared, self.shared.journal);
        shared.patiently(|| {
            // A connection of its own: a snapshot is a transaction, and others read meanwhile.
            let mut client = shared.link.connect()?;
            let patience = shared.link.patience().clone();
            shared
                .link
                .run_to_its_end(async move { moment_of(&mut client, journal, &patience).await })
        })
    }
}

async fn moment_of(
    client: &mut Client,
    journal: i64,
    patience: &Patience,
) -> Result<Moment, PostgresError> {
    let beginning = async {
        let snapshot = client.build_transaction();
        let snapshot = snapshot.isolation_level(IsolationLevel::RepeatableRead);
        let snapshot = snapshot.read_only(true).start().await?;
        let sql = "SELECT seq, hash, time FROM chancery.journal WHERE id = $1";
        let found = snapshot.query_typed(sql, &[(&journal, Type::INT8)]).await?;
        Ok((snapshot, found))
    };
    let (snapshot, found) = patience.with(beginning).await?;
    let row = found
        .first()
        .ok_or_else(|| PostgresError::Damaged("the journal is gone".to_owned()))?;
    let head = head_of(row, 0)?;
    let all = Warm::of(&snapshot, journal, usize::MAX, patience)
        .await?
        .rows;
    // It has only read: that its end is heard of is nothing to wait for.
    drop(snapshot);
    let rows = all
        .into_iter()
        .filter_map(|(key, row)| Some((key, row?)))
        .collect();
    Ok(Moment { head, rows })
}
