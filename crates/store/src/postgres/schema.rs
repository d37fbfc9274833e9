//! The tables, and how they come to be.
//!
//! A migration is one step forward; steps already taken are never changed. They run when a store is opened to write, one
//! process at a time; whoever only reads changes nothing. A database that a newer build has changed is left alone: nothing
//! here runs backwards.

use tokio_postgres::Client;

use super::PostgresError;

/// Any number: whoever migrates holds the lock of it.
const MIGRATION_LOCK: i64 = 0x6368_616e_6365_7279;

/// The steps so far, the first one first.
const STEPS: &[&str] = &[
    "
    CREATE TABLE chancery.journal (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL UNIQUE,
        rows_version integer NOT NULL,
        seq bigint NOT NULL,
        hash bytea NOT NULL,
        time text
    );
    CREATE TABLE chancery.line (
        journal bigint NOT NULL REFERENCES chancery.journal,
        seq bigint NOT NULL,
        text bytea NOT NULL,
        PRIMARY KEY (journal, seq)
    );
    CREATE TABLE chancery.state (
        journal bigint NOT NULL REFERENCES chancery.journal,
        key bytea NOT NULL,
        value bytea NOT NULL,
        PRIMARY KEY (journal, key)
    );
    CREATE TABLE chancery.packet (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        journal bigint NOT NULL REFERENCES chancery.journal,
        name text NOT NULL,
        ends_ms bigint NOT NULL,
        records bytea NOT NULL
    );
    CREATE INDEX packet_by_end ON chancery.packet (journal, ends_ms);
    CREATE TABLE chancery.batch (
        journal bigint NOT NULL REFERENCES chancery.journal,
        base bigint NOT NULL,
        base_hash bytea NOT NULL,
        token bytea NOT NULL,
        seq bigint NOT NULL,
        hash bytea NOT NULL,
        time text,
        changes bytea NOT NULL,
        PRIMARY KEY (journal, base)
    );
    CREATE TABLE chancery.progress (
        journal bigint NOT NULL REFERENCES chancery.journal,
        key bytea NOT NULL,
        value bytea NOT NULL,
        PRIMARY KEY (journal, key)
    );
",
    "
    CREATE TABLE chancery.seed (
        journal bigint PRIMARY KEY REFERENCES chancery.journal,
        text bytea NOT NULL
    );
    CREATE TABLE chancery.duty (
        journal bigint PRIMARY KEY REFERENCES chancery.journal,
        holder text NOT NULL,
        until timestamptz NOT NULL
    );
",
    // Journals are never removed, so nothing has to be looked up for each row; what is written often is neither compressed
    // nor moved aside where it fits a page, and rows that change find room beside themselves.
    "
    ALTER TABLE chancery.line DROP CONSTRAINT line_journal_fkey,
        ALTER COLUMN text SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160);
    ALTER TABLE chancery.state DROP CONSTRAINT state_journal_fkey,
        ALTER COLUMN value SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160, fillfactor = 70);
    ALTER TABLE chancery.packet DROP CONSTRAINT packet_journal_fkey,
        ALTER COLUMN records SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160);
    ALTER TABLE chancery.batch DROP CONSTRAINT batch_journal_fkey,
        ALTER COLUMN changes SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160);
    ALTER TABLE chancery.progress DROP CONSTRAINT progress_journal_fkey,
        ALTER COLUMN value SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160, fillfactor = 70);
",
    // How long ago a batch was committed is told by one clock for all nodes.
    "
    ALTER TABLE chancery.batch ADD COLUMN at timestamptz;
    ALTER TABLE chancery.batch ALTER COLUMN at SET DEFAULT clock_timestamp();
",
];

/// How many steps this build knows.
pub(super) const fn steps() -> usize {
    STEPS.len()
}

/// How many steps the tables have taken; none where there are none.
pub(super) async fn version(client: &Client) -> Result<Option<i32>, PostgresError> {
    let is_there = "SELECT to_regclass('chancery.schema') IS NOT NULL AND to_regclass('chancery.journal') IS NOT NULL";
    if !client.query_one(is_there, &[]).await?.get::<_, bool>(0) {
        return Ok(None);
    }
    let version = client.query_opt("SELECT version FROM chancery.schema", &[]);
    Ok(version.await?.map(|row| row.get(0)))
}

/// Whether there are tables of this build's state; nothing is changed.
///
/// # Errors
/// There are some of another state.
pub(super) async fn is_current(client: &Client) -> Result<bool, PostgresError> {
    let Some(found) = version(client).await? else {
        return Ok(false);
    };
    match usize::try_from(found).unwrap_or(usize::MAX) {
        steps if steps > STEPS.len() => Err(PostgresError::Newer {
            found,
            known: STEPS.len(),
        }),
        steps if steps < STEPS.len() => Err(PostgresError::Older {
            found,
            known: STEPS.len(),
        }),
        _ => Ok(true),
    }
}

/// Brings the tables to this build's state.
pub(super) async fn migrate(client: &mut Client) -> Result<(), PostgresError> {
    let step = client.transaction().await?;
    step.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK])
        .await?;
    step.batch_execute(
        "CREATE SCHEMA IF NOT EXISTS chancery;
         CREATE TABLE IF NOT EXISTS chancery.schema (version integer NOT NULL)",
    )
    .await?;
    let found = step
        .query_opt("SELECT version FROM chancery.schema", &[])
        .await?;
    let version: i32 = found.map_or(0, |row| row.get(0));
    let done = usize::try_from(version).unwrap_or(usize::MAX);
    if done > STEPS.len() {
        return Err(PostgresError::Newer {
            found: version,
            known: STEPS.len(),
        });
    }
    for sql in &STEPS[done..] {
        step.batch_execute(sql).await?;
    }
    if done < STEPS.len() {
        let now = i32::try_from(STEPS.len()).expect("there are few steps");
        step.execute("DELETE FROM chancery.schema", &[]).await?;
        step.execute("INSERT INTO chancery.schema VALUES ($1)", &[&now])
            .await?;
    }
    step.commit().await?;
    Ok(())
}
