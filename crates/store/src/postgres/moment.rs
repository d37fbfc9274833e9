//! All rows in one snapshot, with the head that they reflect.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, IsolationLevel};

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
            shared
                .link
                .run(async move { moment_of(&mut client, journal).await })
        })
    }
}

async fn moment_of(client: &mut Client, journal: i64) -> Result<Moment, PostgresError> {
    let snapshot = client.build_transaction();
    let snapshot = snapshot.isolation_level(IsolationLevel::RepeatableRead);
    let snapshot = snapshot.read_only(true).start().await?;
    let sql = "SELECT seq, hash, time FROM chancery.journal WHERE id = $1";
    let found = snapshot.query_typed(sql, &[(&journal, Type::INT8)]).await?;
    let row = found
        .first()
        .ok_or_else(|| PostgresError::Damaged("the journal is gone".to_owned()))?;
    let head = head_of(row, 0)?;
    let all = Warm::of(&snapshot, journal, usize::MAX).await?.rows;
    snapshot.commit().await?;
    let rows = all
        .into_iter()
        .filter_map(|(key, row)| Some((key, row?)))
        .collect();
    Ok(Moment { head, rows })
}
