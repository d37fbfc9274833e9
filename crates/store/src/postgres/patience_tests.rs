//! Patience is for a server that says nothing, not for much that there is to read.

use std::time::{Duration, Instant};

use chancery_core::rows::RowKey;
use chancery_testkit::postgres_server::PostgresServer;

use super::link::Patience;
use super::{PAGE_ROWS, Postgres, PostgresOptions};
use crate::copying::Beside;

/// How long the server of these tests may say nothing.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long each page of it takes.
const OF_A_PAGE: Duration = Duration::from_secs(1);
/// In all they take longer than anybody is patient.
const PAGES: i64 = 6;

fn open(server: &PostgresServer) -> Postgres {
    let options = PostgresOptions {
        url: server.url().to_owned(),
        password: None,
        journal: "large".to_owned(),
        may_begin: true,
        row_cache_bytes: 1,
        windows: &[],
        rows_version: 1,
    };
    Postgres::open_with(&options, Patience::of(PATIENCE)).unwrap()
}

/// A table of so many pages of rows below `space`, of which the first of each page is slow to read.
fn fill_slowly(server: &PostgresServer, table: &str, space: &str) {
    let hex = |key: &RowKey| -> String {
        let digits = key.as_bytes().iter().map(|byte| format!("{byte:02x}"));
        digits.collect()
    };
    let prefix = hex(&RowKey::text(space, &[]));
    // Keys are the numbers below the prefix, in order.
    let row = format!(
        "SELECT id, '\\x{prefix}'::bytea || int4send(n::int), int4send((n % {PAGE_ROWS})::int)
         FROM chancery.journal, generate_series(0, {}) n",
        PAGES * PAGE_ROWS - 1
    );
    server.execute(&format!("INSERT INTO chancery.{table} {row}"));
    server.execute(&format!(
        "ALTER TABLE chancery.{table} RENAME TO {table}_itself"
    ));
    server.execute(&format!(
        "CREATE VIEW chancery.{table} AS SELECT * FROM chancery.{table}_itself WHERE
         CASE WHEN value = int4send(0) THEN pg_sleep({}) IS NOT NULL ELSE true END",
        OF_A_PAGE.as_secs()
    ));
}

#[test]
fn rows_of_a_moment_may_take_longer_than_a_server_may_say_nothing() {
    // CH-JRN-5
    let server = PostgresServer::start();
    let store = open(&server);
    fill_slowly(&server, "state", "t");
    let begun = Instant::now();
    let moment = store.moment().unwrap();
    assert_eq!(moment.rows.len() as i64, PAGES * PAGE_ROWS);
    assert!(begun.elapsed() > PATIENCE, "nobody had to be patient");
}

#[test]
fn what_is_beside_a_log_may_take_longer_than_a_server_may_say_nothing() {
    // CH-JRN-5, CH-JRN-15
    let server = PostgresServer::start();
    let store = open(&server);
    fill_slowly(&server, "progress", "outbox-attempts");
    fill_slowly(&server, "state", chancery_core::delivery::OUTBOX);
    let begun = Instant::now();
    let beside = Beside::of(&store).unwrap();
    let (open, _) = beside.open.unwrap();
    let found = [beside.ops.len(), open.len()].map(|rows| rows as i64);
    assert_eq!(found, [PAGES * PAGE_ROWS; 2]);
    assert!(begun.elapsed() > PATIENCE, "nobody had to be patient");
}

#[test]
fn a_server_that_says_nothing_is_away_and_not_damaged() {
    // CH-JRN-5
    let server = PostgresServer::of_its_own();
    let store = open(&server);
    assert!(!store.is_away());
    server.pause();
    let told = store.moment().map(drop).unwrap_err();
    assert!(store.is_away(), "{told}");
    server.resume();
    store.moment().unwrap();
    assert!(!store.is_away());
}
