//! Looking at a journal in PostgreSQL without changing anything: nothing is migrated and nothing begun.

use tokio_postgres::Client;

use super::link::Link;
use super::{PostgresError, schema, version};

/// What is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresLook {
    /// How many steps the tables have taken; none where this program has made none yet.
    pub version: Option<i32>,
    /// How many this build knows.
    pub known: usize,
    /// Whether the journal is there.
    pub has_journal: bool,
    /// Settings of the server under which it forgets what it acknowledged when its machine stops.
    pub forgetful: Vec<String>,
}

/// Settings without which a commit is not durable.
const DURABLE: [&str; 3] = ["fsync", "full_page_writes", "synchronous_commit"];

/// Looks at a journal.
///
/// # Errors
/// The server cannot be reached, does not let us in, is too old, or cannot be asked.
pub fn look(
    url: &str,
    password: Option<&str>,
    journal: &str,
) -> Result<PostgresLook, PostgresError> {
    let link = Link::new(url, password)?;
    let client = link.connect()?;
    let journal = journal.to_owned();
    let looked = link.run(async move { ask(&client, &journal).await });
    link.close();
    looked
}

async fn ask(client: &Client, journal: &str) -> Result<PostgresLook, PostgresError> {
    version::ensure_known(client).await?;
    let mut forgetful = Vec::new();
    for name in DURABLE {
        let asked = "SELECT current_setting($1)";
        let value: String = client.query_one(asked, &[&name]).await?.get(0);
        if value == "off" {
            forgetful.push(format!("{name} = off"));
        }
    }
    let mut look = PostgresLook {
        version: None,
        known: schema::steps(),
        has_journal: false,
        forgetful,
    };
    look.version = schema::version(client).await?;
    if look.version.is_none() {
        return Ok(look);
    }
    let named = "SELECT FROM chancery.journal WHERE name = $1";
    look.has_journal = client.query_opt(named, &[&journal]).await?.is_some();
    Ok(look)
}
