//! What the contract cannot show: several processes on one journal, and a server that goes away (CH-JRN-5).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chancery_core::rows::{Lookup, RowKey};
use chancery_journal::Head;
use chancery_store::{
    Batch, CommitError, Note, Postgres, PostgresError, Spent, Store, Watch, look_at_postgres,
};
use chancery_testkit::postgres_server::PostgresServer;
use tokio_postgres::NoTls;

use crate::support::*;

fn open(server: &PostgresServer, name: &str) -> Postgres {
    Postgres::open(&journal(server.url(), name)).unwrap()
}

/// Runs a statement as somebody else.
fn beside(server: &PostgresServer, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
    });
}

fn counter(store: &Postgres) -> u64 {
    let rows = store.load(&[key("counter")]).unwrap();
    value(&rows, 0).unwrap_or("0").parse().unwrap()
}

#[test]
fn processes_on_one_journal_commit_in_turn_and_follow_each_other() {
    let server = PostgresServer::start();
    // Each has a cache of its own, as another process would.
    let stores = [0, 1, 2].map(|_| open(&server, "shared"));
    std::thread::scope(|scope| {
        for store in &stores {
            scope.spawn(move || (0..50).for_each(|_| count_on(store)));
        }
    });
    for store in &stores {
        let head = store.follow().unwrap();
        assert_eq!((head.seq, counter(store)), (150, 150));
        assert_eq!(store.lines(1, 1_000).unwrap().len(), 150);
    }
}

#[test]
fn rows_that_are_read_together_are_of_one_moment() {
    let server = PostgresServer::start();
    let (writer, reader) = (open(&server, "pairs"), open(&server, "pairs"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..200 {
                let value = n.to_string();
                let rows = vec![put("a", &value), put("b", &value)];
                let two = batch(writer.head(), |chain| vec![unit(chain, 1, rows)]);
                writer.commit(two).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let rows = reader.scan(&RowKey::text("t", &[]), None, 9).unwrap();
            let values: Vec<_> = rows.iter().map(|(_, row)| row.bytes().clone()).collect();
            assert!(
                values.windows(2).all(|pair| pair[0] == pair[1]),
                "{values:?}"
            );
        }
    });
}

#[test]
fn a_server_that_is_killed_loses_nothing_and_doubles_nothing() {
    let mut server = PostgresServer::of_its_own();
    let store = open(&server, "killed");
    let (done, counted) = (AtomicBool::new(false), 300);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..counted).for_each(|_| count_on(&store));
            done.store(true, Ordering::SeqCst);
        });
        let mut kills = 0;
        while !done.load(Ordering::SeqCst) && kills < 5 {
            // A hundred lines on it is killed again, whatever it is doing then.
            let from = store.head().seq;
            while store.head().seq < from + 40 && !done.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            server.kill();
            server.restart();
            kills += 1;
        }
        println!("{kills} kills of PostgreSQL");
    });
    assert_eq!((store.head().seq, counter(&store)), (counted, counted));
    let again = open(&server, "killed");
    assert_eq!((again.head(), counter(&again)), (store.head(), counted));
}

#[test]
fn a_session_that_ends_in_the_middle_of_a_commit_leaves_no_doubt() {
    let server = PostgresServer::start();
    let store = open(&server, "ended");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..200).for_each(|_| count_on(&store));
            done.store(true, Ordering::SeqCst);
        });
        let mut ended = 0;
        while !done.load(Ordering::SeqCst) {
            beside(
                &server,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = 'chancery' AND query <> '' AND pid <> pg_backend_pid()",
            );
            ended += 1;
        }
        println!("sessions were ended {ended} times");
    });
    assert_eq!((store.head().seq, counter(&store)), (200, 200));
    assert_eq!(store.lines(1, 1_000).unwrap().len(), 200);
}

#[test]
fn journals_of_one_database_share_nothing() {
    let server = PostgresServer::start();
    let (one, other) = (open(&server, "one"), open(&server, "other"));
    count_on(&one);
    one.ops_put(&[put("cursor", "1")], true).unwrap();
    assert_eq!((other.follow().unwrap().seq, counter(&other)), (0, 0));
    assert_eq!(other.ops_get(&key("cursor")).unwrap(), None);
    assert!(other.lines(1, 9).unwrap().is_empty());
    count_on(&other);
    assert_eq!((counter(&one), counter(&other)), (1, 1));
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let server = PostgresServer::start();
    drop(open(&server, "old"));
    beside(&server, "UPDATE chancery.schema SET version = 1000");
    let refused = Postgres::open(&journal(server.url(), "old"));
    assert!(matches!(
        refused.err(),
        Some(PostgresError::Newer { found: 1_000, .. })
    ));
}

/// Takes back what every step after the first has done to the tables.
const BACK_TO_THE_FIRST: &str = "
    DROP TABLE chancery.seed, chancery.duty;
    ALTER TABLE chancery.line ADD CONSTRAINT line_journal_fkey FOREIGN KEY (journal) REFERENCES chancery.journal,
        ALTER COLUMN text SET STORAGE EXTENDED, RESET (toast_tuple_target);
    ALTER TABLE chancery.state ADD CONSTRAINT state_journal_fkey FOREIGN KEY (journal) REFERENCES chancery.journal,
        ALTER COLUMN value SET STORAGE EXTENDED, RESET (toast_tuple_target, fillfactor);
    ALTER TABLE chancery.packet ADD CONSTRAINT packet_journal_fkey FOREIGN KEY (journal) REFERENCES chancery.journal,
        ALTER COLUMN records SET STORAGE EXTENDED, RESET (toast_tuple_target);
    ALTER TABLE chancery.batch ADD CONSTRAINT batch_journal_fkey FOREIGN KEY (journal) REFERENCES chancery.journal,
        ALTER COLUMN changes SET STORAGE EXTENDED, RESET (toast_tuple_target), DROP COLUMN at;
    ALTER TABLE chancery.progress ADD CONSTRAINT progress_journal_fkey FOREIGN KEY (journal) REFERENCES chancery.journal,
        ALTER COLUMN value SET STORAGE EXTENDED, RESET (toast_tuple_target, fillfactor);
    UPDATE chancery.schema SET version = 1
";

#[test]
fn tables_of_the_first_version_become_this_one_with_all_that_they_hold() {
    // CH-JRN-5
    let server = PostgresServer::start();
    let store = open(&server, "old");
    (0..20).for_each(|_| count_on(&store));
    let windows = batch(store.head(), |chain| {
        let remembered = vec![seen(7, at(5_000))];
        vec![unit_of(
            chain,
            &[draft(at(1_000), 9)],
            Vec::new(),
            remembered,
        )]
    });
    store.commit(windows).unwrap();
    store.ops_put(&[put("cursor", "7")], true).unwrap();
    let (head, lines) = (store.head(), store.lines(1, 1_000).unwrap());
    drop(store);
    // What the tables are, apart from what they hold.
    let shape = "SELECT relname, reloptions, attname, attstorage FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
        WHERE relnamespace = 'chancery'::regnamespace AND relkind = 'r' AND attnum > 0
        AND NOT attisdropped ORDER BY 1, 3";
    let references = "SELECT conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'chancery'::regnamespace
        ORDER BY 1";
    let current = [shape, references].map(|asked| server.answer(asked));
    server.execute(BACK_TO_THE_FIRST);
    assert_ne!(
        [shape, references].map(|asked| server.answer(asked)),
        current
    );
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| open(&server, "old").head());
        }
    });
    assert_eq!(
        [shape, references].map(|asked| server.answer(asked)),
        current
    );
    let look = look_at_postgres(server.url(), None, "old").unwrap();
    assert_eq!(look.version, i32::try_from(look.known).ok());
    let store = open(&server, "old");
    assert_eq!((store.head(), counter(&store)), (head, 20));
    assert_eq!(store.lines(1, 1_000).unwrap(), lines);
    assert_eq!(store.find(SEEN, &[7; 16], at(1_000)), Some(7));
    assert_eq!(
        store.ops_get(&key("cursor")).unwrap().as_deref(),
        Some(&b"7"[..])
    );
    count_on(&store);
    assert_eq!(counter(&store), 21);
}

#[test]
fn many_may_open_an_empty_database_at_once() {
    let server = PostgresServer::start();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| open(&server, "first").head());
        }
    });
    count_on(&open(&server, "first"));
}

#[test]
fn rows_that_other_rules_wrote_are_not_read() {
    let server = PostgresServer::start();
    drop(open(&server, "rows"));
    let mut options = journal(server.url(), "rows");
    options.rows_version += 1;
    assert!(matches!(
        Postgres::open(&options).err(),
        Some(PostgresError::OtherRows { found: 1, known: 2 })
    ));
}

#[test]
fn an_answer_without_lines_is_not_of_an_old_moment() {
    let server = PostgresServer::start();
    let (one, other) = (open(&server, "asked"), open(&server, "asked"));
    let old = other.head();
    let nothing = || batch(old, |_| Vec::new());
    assert_eq!(other.commit(nothing()).unwrap(), old);
    count_on(&one);
    let Err(CommitError::Behind { head, rows, .. }) = other.commit(nothing()) else {
        panic!("the head is another one");
    };
    assert_eq!((head, rows), (one.head(), vec![put("counter", "1")]));
}

#[test]
fn whoever_was_slower_is_told_what_the_others_used_and_how_long_ago() {
    // CH-JRN-13
    let server = PostgresServer::start();
    let [one, other, late] = [0; 3].map(|_| open(&server, "spent"));
    let old = other.head();
    let spent = |who: &str, times| Spent {
        who: who.to_owned(),
        times,
    };
    let begun = Instant::now();
    let mut first = count(&one, one.head());
    first.spent = vec![spent("a", 3), spent("b", 1)];
    one.commit(first).unwrap();
    count_on(&one);
    let mut third = count(&one, one.head());
    third.spent = vec![spent("a", 2)];
    one.commit(third).unwrap();
    let Err(CommitError::Behind { spent: told, .. }) = other.commit(batch(old, |_| Vec::new()))
    else {
        panic!("the head is another one");
    };
    let took = begun.elapsed();
    let (told, ages): (Vec<Spent>, Vec<Duration>) = told.into_iter().unzip();
    assert_eq!(told, [spent("a", 3), spent("b", 1), spent("a", 2)]);
    assert!(
        ages.is_sorted_by(|a, b| a >= b),
        "the oldest first: {ages:?}"
    );
    assert!(ages.iter().all(|age| *age <= took), "{ages:?} in {took:?}");
    // Batches of an older build do not say when they were.
    server.execute("UPDATE chancery.batch SET at = NULL");
    let Err(CommitError::Behind { spent: told, .. }) = late.commit(batch(old, |_| Vec::new()))
    else {
        panic!("the head is another one");
    };
    assert!(told.iter().all(|(_, age)| *age == Duration::MAX));
}

#[test]
fn a_thread_that_decides_sees_nothing_of_what_others_commit_meanwhile() {
    let server = PostgresServer::start();
    let one = open(&server, "still");
    count_on(&one);
    let other = open_cold(&server, "still");
    let still = other.keep_still();
    count_on(&one);
    // The row was never read here: the database has it as it is later.
    assert!(other.load(&[key("counter")]).is_err());
    assert!(still.was_disturbed());
    assert_eq!((other.head().seq, other.foreign_changes()), (1, 0));
    drop(still);
    assert_eq!(counter(&other), 2);
    assert_eq!((other.head().seq, other.foreign_changes()), (2, 1));
    assert!(!other.keep_still().was_disturbed());
}

/// A journal that has rows, of which this handle has none in memory.
fn open_cold(server: &PostgresServer, name: &str) -> Postgres {
    let mut options = journal(server.url(), name);
    options.row_cache_bytes = 0;
    let store = Postgres::open(&options).unwrap();
    assert_eq!(store.peek(&key("counter")), Lookup::NotLoaded);
    store
}

#[test]
fn a_handle_that_began_with_all_rows_asks_for_none_and_follows_the_others() {
    let server = PostgresServer::start();
    let mut options = journal(server.url(), "warm");
    options.row_cache_bytes = 1 << 20;
    let open = || Postgres::open(&options).unwrap();
    let one = open();
    // A journal of nothing, and one of a row.
    assert_eq!(one.peek(&key("counter")), Lookup::Absent);
    count_on(&one);
    let other = open();
    let known = |store: &Postgres, name: &str| match store.peek(&key(name)) {
        Lookup::Found(row) => Some(String::from_utf8(row.to_vec()).unwrap()),
        Lookup::Absent => None,
        Lookup::NotLoaded => panic!("{name} is not known"),
    };
    assert_eq!(known(&other, "counter").as_deref(), Some("1"));
    assert_eq!(known(&other, "new"), None);
    let added = batch(one.head(), |chain| {
        vec![unit(chain, 1, vec![put("new", "x"), put("counter", "2")])]
    });
    one.commit(added).unwrap();
    // Of the moment that it knows, then of the next.
    assert_eq!(known(&other, "new"), None);
    other.follow().unwrap();
    assert_eq!(known(&other, "new").as_deref(), Some("x"));
    assert_eq!(known(&other, "counter").as_deref(), Some("2"));
}

/// A batch of one line and one row.
fn putting(base: Head, name: &str) -> Batch {
    batch(base, |chain| vec![unit(chain, 1, vec![put(name, "1")])])
}

/// After this time the server lets go of a lock that is kept and not used.
const LOCK_IS_KEPT: Duration = Duration::from_secs(2);

#[test]
fn a_batch_that_others_were_faster_than_is_overtaken_once_at_most() {
    const TIMES: usize = 8;
    let server = PostgresServer::start();
    let mut journals = (0..TIMES).map(|time| format!("kept-{time}"));
    assert!(
        journals.any(|journal| is_overtaken_once(&server, &journal)),
        "each time nothing went on for longer than a lock is kept"
    );
}

/// The story of a batch that was too late. On a busy machine the lock may be let go of before it is used: that says
/// nothing, and gives false.
fn is_overtaken_once(server: &PostgresServer, journal: &str) -> bool {
    let (one, other) = (open(server, journal), open(server, journal));
    let late = putting(other.head(), "a");
    count_on(&one);
    let begun = Instant::now();
    let Err(CommitError::Behind { head, .. }) = other.commit(late) else {
        panic!("the head is another one");
    };
    assert!(other.is_contended());
    std::thread::scope(|scope| {
        // It waits for the lock that is kept.
        let waiting = scope.spawn(|| {
            let next = putting(one.head(), "b");
            one.commit(next)
        });
        let again = other.commit(putting(head, "a"));
        if begun.elapsed() >= LOCK_IS_KEPT {
            return false;
        }
        let committed = again.unwrap();
        assert_eq!(committed.seq, 2);
        assert!(matches!(
            waiting.join().unwrap(),
            Err(CommitError::Behind { head, .. }) if head == committed
        ));
        true
    })
}

#[test]
fn a_lock_that_is_kept_ends_with_its_connection() {
    let server = PostgresServer::start();
    let (one, other) = (open(&server, "gone"), open(&server, "gone"));
    let late = putting(other.head(), "a");
    count_on(&one);
    let Err(CommitError::Behind { head, .. }) = other.commit(late) else {
        panic!("the head is another one");
    };
    beside(
        &server,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'chancery' AND state = 'idle in transaction'",
    );
    count_on(&one);
    // Over another connection, which has no lock.
    other.follow().unwrap();
    let again = putting(head, "a");
    assert!(matches!(
        other.commit(again),
        Err(CommitError::Behind { head, .. }) if head == one.head()
    ));
    assert_eq!(one.follow().unwrap().seq, 2);
    assert_eq!(one.lines(1, 9).unwrap().len(), 2);
}

#[test]
fn a_turn_that_is_taken_and_not_used_ends_by_itself() {
    let server = PostgresServer::start();
    let (one, other) = (open(&server, "turn"), open(&server, "turn"));
    count_on(&one);
    let CommitError::Behind { head, rows, .. } = other.take_turn(other.head()) else {
        panic!("what came before is told");
    };
    assert_eq!((head, rows), (one.head(), vec![put("counter", "1")]));
    // The lock is let go of after a moment, and by whoever asks whether it is still the head.
    count_on(&one);
    assert!(matches!(
        other.take_turn(head),
        CommitError::Behind { head, .. } if head == one.head()
    ));
    other.commit(batch(one.head(), |_| Vec::new())).unwrap();
    count_on(&one);
    assert_eq!(one.head().seq, 3);
}

#[test]
fn one_process_has_the_duty_and_gives_it_back() {
    let server = PostgresServer::start();
    let stores = [0, 1].map(|_| open(&server, "duty"));
    let (told, moved) = std::sync::mpsc::channel();
    for store in &stores {
        assert_eq!(store.duty(), None, "nobody asked for it");
        let told = told.clone();
        store
            .watch(Watch {
                moved: Arc::new(move || {
                    let _ = told.send(());
                }),
                heard: Arc::new(|_| {}),
            })
            .unwrap();
    }
    let holder = || stores.iter().position(|store| store.duty().is_some());
    let first = loop {
        moved.recv().unwrap();
        if let Some(first) = holder() {
            break first;
        }
    };
    let second = 1 - first;
    // Several times over somebody else could have had it by now.
    (0..3).for_each(|_| moved.recv().unwrap());
    assert_eq!(stores[second].duty(), None);
    stores[first].close().unwrap();
    while stores[second].duty().is_none() {
        moved.recv().unwrap();
    }
    assert_eq!(stores[first].duty(), None);
}

#[test]
fn a_note_reaches_the_other_processes_of_the_journal_alone() {
    // CH-JRN-13
    let server = PostgresServer::start();
    let stores = ["told", "told", "untold"].map(|journal| open(&server, journal));
    let (told, heard) = std::sync::mpsc::channel();
    for (n, store) in stores.iter().enumerate() {
        let told = told.clone();
        let heard = move |note: Note| {
            let _ = told.send((n, note));
        };
        store
            .watch(Watch {
                moved: Arc::new(|| {}),
                heard: Arc::new(heard),
            })
            .unwrap();
    }
    // A note can be lost while the other does not listen yet; the long one takes several notices.
    let long = "é".repeat(20_000);
    let first = loop {
        stores[0].tell(long.clone());
        if let Ok(first) = heard.recv_timeout(std::time::Duration::from_millis(100)) {
            break first;
        }
    };
    assert_eq!(first.0, 1);
    assert_eq!(first.1.from, stores[0].process());
    assert_eq!(first.1.text, long);
    stores[1].tell("back".to_owned());
    let back = loop {
        let (n, note) = heard.recv().unwrap();
        if note.text == "back" {
            break n;
        }
    };
    assert_eq!(back, 0);
}

#[test]
fn the_world_seed_is_kept_once() {
    // CH-JRN-12
    let server = PostgresServer::start();
    let (one, other) = (open(&server, "seeded"), open(&server, "seeded"));
    assert_eq!(other.seed().unwrap(), None);
    one.keep_seed(b"first").unwrap();
    other.keep_seed(b"second").unwrap();
    assert_eq!(other.seed().unwrap().as_deref(), Some(&b"first"[..]));
}

#[test]
fn a_journal_that_is_not_there_is_not_begun_by_a_reader() {
    let server = PostgresServer::start();
    let mut options = journal(server.url(), "nowhere");
    options.may_begin = false;
    let refused = Postgres::open(&options);
    assert!(matches!(refused.err(), Some(PostgresError::NoJournal(_))));
}
