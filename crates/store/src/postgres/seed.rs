//! The world seed that a journal began with (CH-JRN-12): beside the journal, so that every node and every check has it.

use tokio_postgres::types::Type;

use super::Postgres;
use crate::contract::StoreError;

impl Postgres {
    /// The seed that is kept, if one is.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn seed(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let (shared, journal) = (&*self.shared, self.shared.journal);
        shared.patiently(|| {
            let client = shared.link.reader()?;
            shared.link.run(async move {
                let sql = "SELECT text FROM chancery.seed WHERE journal = $1";
                let rows = client.query_typed(sql, &[(&journal, Type::INT8)]).await?;
                Ok(rows.first().map(|row| row.get(0)))
            })
        })
    }

    /// Keeps a seed; one that is kept stays.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn keep_seed(&self, text: &[u8]) -> Result<(), StoreError> {
        let (shared, journal) = (&*self.shared, self.shared.journal);
        shared.patiently(|| {
            let (client, text) = (shared.link.reader()?, text.to_vec());
            shared.link.run(async move {
                let sql = "INSERT INTO chancery.seed VALUES ($1, $2) ON CONFLICT DO NOTHING";
                let given: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
                    [(&journal, Type::INT8), (&text, Type::BYTEA)];
                client.execute_typed(sql, &given).await?;
                Ok(())
            })
        })
    }
}
