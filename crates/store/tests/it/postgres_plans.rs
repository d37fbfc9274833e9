//! However the server plans a read, it looks rows up by their keys, and it ends (CH-JRN-5).

use std::sync::atomic::{AtomicBool, Ordering};

use chancery_core::rows::{RowChange, RowKey};
use chancery_store::{Postgres, PostgresError, PostgresOptions, Store};
use chancery_testkit::postgres_server::PostgresServer;

use crate::support::*;

/// Rows that a journal gets after its server has made its plans.
const GROWN: usize = 100_000;
/// Keys of one read, and rows of one commit.
const AT_ONCE: usize = 20;

/// Puts rows into a journal past everybody, as if it had grown.
fn grow(server: &PostgresServer, space: &str) {
    let prefix = RowKey::text(space, &[]);
    let digits = prefix.as_bytes().iter().map(|byte| format!("{byte:02x}"));
    let prefix: String = digits.collect();
    server.execute(&format!(
        "INSERT INTO chancery.state SELECT id, '\\x{prefix}'::bytea || int4send(n), 'grown'
         FROM chancery.journal, generate_series(1, {GROWN}) n"
    ));
}

/// What was read of the table of rows so far, in any way. Every session of the store has to have ended: only then has it
/// told what it read.
fn rows_read(server: &PostgresServer) -> u64 {
    let sessions = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'chancery'";
    while server.answer(sessions) != "0" {
        std::thread::yield_now();
    }
    let read = "SELECT coalesce(sum(seq_tup_read), 0) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes
            WHERE schemaname = 'chancery' AND relname IN ('state', 'progress'))
        FROM pg_stat_user_tables WHERE schemaname = 'chancery' AND relname IN ('state', 'progress')";
    server.answer(read).parse().unwrap()
}

/// Names of one round.
fn names(round: usize) -> Vec<String> {
    (0..AT_ONCE).map(|n| format!("{round}-{n}")).collect()
}

/// Reads rows, puts some and takes some away, in every way that a node does; gives how many keys that were.
fn round(store: &Postgres, round: usize) -> usize {
    let keys: Vec<RowKey> = names(round).iter().map(|name| key(name)).collect();
    store.load(&keys).unwrap();
    let (before, now) = (names(round.wrapping_sub(1)), names(round));
    let puts = now.iter().map(|name| put(name, "x"));
    let (removed, forgotten) = before.split_at(AT_ONCE / 2);
    let changes: Vec<RowChange> = puts.chain(removed.iter().map(|name| gone(name))).collect();
    commit_rows(store, changes.clone());
    let forgotten: Vec<RowKey> = forgotten.iter().map(|name| key(name)).collect();
    store.forget(&forgotten).unwrap();
    store.ops_put(&changes, true).unwrap();
    store.ops_get(&keys[0]).unwrap();
    store.scan(&key("none"), None, AT_ONCE).unwrap();
    5 * AT_ONCE
}

#[test]
fn a_journal_that_grows_is_read_by_its_keys() {
    // Without statistics the server believes in a handful of rows, or in none, and plans for those.
    for state in ["nobody has looked at", "was found empty"] {
        let server = PostgresServer::start();
        let options = journal(server.url(), "grows");
        let store = Postgres::open(&options).unwrap();
        for table in ["state", "progress"] {
            let unlooked = format!("ALTER TABLE chancery.{table} SET (autovacuum_enabled = off)");
            server.execute(&unlooked);
            if state == "was found empty" {
                server.execute(&format!("VACUUM chancery.{table}"));
            }
        }
        commit_rows(&store, vec![put("first", "x")]);
        store.close().unwrap();
        drop(store);
        let store = Postgres::open(&options).unwrap();
        // Until the server has made up its mind: that takes it five times.
        let mut asked: usize = (1..=10).map(|n| round(&store, n)).sum();
        grow(&server, "t");
        asked += (11..=20).map(|n| round(&store, n)).sum::<usize>();
        store.close().unwrap();
        drop(store);
        let read = rows_read(&server);
        println!("a journal that {state}: {read} rows read for {asked} keys");
        assert!(read <= 4 * asked as u64, "{read} rows for {asked} keys");
    }
}

#[test]
fn a_read_ends_however_fast_others_commit() {
    let server = PostgresServer::start();
    let (reader, writer) = (
        Postgres::open(&journal(server.url(), "busy")).unwrap(),
        Postgres::open(&journal(server.url(), "busy")).unwrap(),
    );
    grow(&server, "t");
    let (done, enough) = (AtomicBool::new(false), 20_000);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut batches = 0;
            while !done.load(Ordering::SeqCst) && batches < enough {
                commit_rows(&writer, vec![put("last", &batches.to_string())]);
                batches += 1;
            }
            batches
        });
        while writer.head().seq == 0 {
            std::thread::yield_now();
        }
        let rows = reader.scan(&RowKey::text("t", &[]), None, usize::MAX);
        done.store(true, Ordering::SeqCst);
        let batches = writing.join().unwrap();
        println!("{batches} batches of others before a read of {GROWN} rows had ended");
        assert!(batches < enough, "it ended with the last of the others");
        // It is of the moment that this handle knows.
        let rows = rows.unwrap();
        let (_, last) = rows.iter().find(|(name, _)| *name == key("last")).unwrap();
        let last: u64 = std::str::from_utf8(last).unwrap().parse().unwrap();
        assert_eq!((rows.len(), last + 1), (GROWN + 1, reader.head().seq));
    });
}

#[test]
fn who_only_reads_changes_no_table() {
    let server = PostgresServer::start();
    let mut options = journal(server.url(), "kept");
    options.may_begin = false;
    let open = |options: &PostgresOptions| Postgres::open(options).map(drop);
    assert!(matches!(open(&options), Err(PostgresError::NoJournal(_))));
    let schema = "SELECT count(*) FROM pg_namespace WHERE nspname = 'chancery'";
    assert_eq!(server.answer(schema), "0", "a reader made tables");
    options.may_begin = true;
    open(&options).unwrap();
    options.may_begin = false;
    open(&options).unwrap();
    // As an older build would have left them: nobody may take a step for somebody who reads.
    server.execute("UPDATE chancery.schema SET version = version - 1");
    let told = open(&options).unwrap_err();
    assert!(matches!(told, PostgresError::Older { .. }), "{told}");
    server.execute("UPDATE chancery.schema SET version = version + 2");
    let told = open(&options).unwrap_err();
    assert!(matches!(told, PostgresError::Newer { .. }), "{told}");
}
