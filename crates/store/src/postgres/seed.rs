//! The world seed that a journal began with (CH-JRN-12): beside the journal, so that every node and every check has it.

use tokio_postgres::types::Type;

use super::Postgres;
use super::session::Sql;
use crate::contract::StoreError;

static SEED: Sql = Sql {
    text: "SELECT text FROM chancery.seed WHERE journal = $1",
    types: &[Type::INT8],
};
static KEEP_SEED: Sql = Sql {
    text: "INSERT INTO chancery.seed VALUES ($1, $2) ON CONFLICT DO NOTHING",
    types: &[Type::INT8, Type::BYTEA],
};

impl Postgres {
    /// The seed that is kept, if one is.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn seed(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let (shared, journal) = (&*self.shared, self.shared.journal);
        shared.patiently(|| {
            let session = shared.link.reader()?;
            shared.link.run(async move {
                let rows = session.query(&SEED, &[&journal]).await?;
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
            let (session, text) = (shared.link.reader()?, text.to_vec());
            shared.link.run(async move {
                session.execute(&KEEP_SEED, &[&journal, &text]).await?;
                Ok(())
            })
        })
    }
}
