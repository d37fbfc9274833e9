//! Recovery decides the tail again and leaves the rows that live decisions left (CH-JRN-2).

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use bytes::Bytes;
use chancery_core::keys::KeyState;
use chancery_core::protocol::Suite;
use chancery_core::rows::{Row, RowKey};
use chancery_core::time::Time;
use chancery_store::testing::Chance;
use chancery_store::{CommitError, Embedded, Options, RecoverError, Store, recover};
use chancery_testkit::{TestHost, TestSettings, TestSuite, inputs};

use crate::support::{batch, unit};

const NAMES: [&str; 3] = ["ann", "bob", "cat"];
const VERBS: [&str; 7] = [
    "note", "batch", "follow", "later", "chain", "lookup", "send",
];

struct Story {
    host: TestHost,
    chance: Chance,
    now: Time,
    written: usize,
}

impl Story {
    fn begin(seed: u64) -> Self {
        let now = chancery_core::time::parse_audit("2026-02-15T10:30:00.5Z").unwrap();
        let mut host = TestHost::default();
        host.decide(&inputs::config_act(&TestSettings::default()), now);
        for name in NAMES {
            host.decide(
                &inputs::key_act(name, "k1", &inputs::key_of(name), KeyState::Active),
                now,
            );
            host.hold_key(name, inputs::key_of(name));
            host.decide(&inputs::host_act(name, Some("k1")), now);
        }
        Self {
            host,
            chance: Chance::new(seed),
            now,
            written: 0,
        }
    }

    fn go_on(&mut self, envelopes: usize) {
        for _ in 0..envelopes {
            let mut pick = |n: usize| self.chance.below(n as u64) as usize;
            let (from, to, verb) = (NAMES[pick(3)], NAMES[pick(3)], VERBS[pick(7)]);
            let (id, value) = (pick(500).to_string(), pick(9).to_string());
            let unsigned = inputs::unsigned(&id, from, to, verb, Some(&value));
            self.host
                .receive(inputs::signed(&inputs::key_of(from), &unsigned), self.now);
            self.now = self
                .now
                .saturating_add(std::time::Duration::from_millis(self.chance.below(2_000)));
            self.host.fire_due(self.now);
        }
    }

    /// The lines that are new since the last time go to the end of the log.
    fn write(&mut self, dir: &Path) {
        let mut text = Vec::new();
        for line in &self.host.lines()[self.written..] {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        self.written = self.host.lines().len();
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(dir.join("audit.jsonl"))
            .unwrap();
        file.write_all(&text).unwrap();
    }

    fn rows(&self) -> Vec<(RowKey, Row)> {
        self.host
            .rows()
            .iter()
            .map(|(key, bytes)| (key.clone(), bytes.clone()))
            .collect()
    }
}

fn options(dir: &Path) -> Options {
    Options {
        windows: TestSuite::default().windows(),
        row_cache_bytes: 1,
        ..Options::new(dir)
    }
}

fn all_rows(store: &Embedded) -> Vec<(RowKey, Row)> {
    store
        .scan(&RowKey::from_stored(Bytes::new()), None, usize::MAX)
        .unwrap()
}

#[test]
fn an_index_built_from_nothing_holds_the_same_rows() {
    for seed in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let mut story = Story::begin(seed);
        story.go_on(400);
        story.write(dir.path());
        let (store, tail) = Embedded::open(&options(dir.path())).unwrap();
        assert_eq!((tail.from, tail.to), (1, story.host.head().seq));
        let recovered = recover(&TestSuite::default(), &store, &tail).unwrap();
        assert_eq!(
            (recovered.head, recovered.lines),
            (story.host.head(), tail.len())
        );
        assert_eq!(store.head(), story.host.head());
        assert_eq!(all_rows(&store), story.rows(), "seed {seed}");
        assert!(store.window_len() > 0);
    }
}

#[test]
fn a_tail_is_decided_on_the_rows_of_the_index() {
    // Killed at any time, with the index as far as it happened to be.
    for seed in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let mut story = Story::begin(seed);
        for life in 0..6 {
            story.go_on(60);
            story.write(dir.path());
            let (store, tail) = Embedded::open(&options(dir.path())).unwrap();
            assert_eq!(tail.to, story.host.head().seq);
            recover(&TestSuite::default(), &store, &tail).unwrap();
            assert_eq!(all_rows(&store), story.rows(), "seed {seed}, life {life}");
            match (seed + life) % 3 {
                0 => store.close().unwrap(),
                1 => store.flush_index().unwrap(),
                _ => {}
            }
        }
    }
}

#[test]
fn nothing_is_committed_before_the_tail_is_taken_in() {
    let dir = tempfile::tempdir().unwrap();
    let mut story = Story::begin(1);
    story.write(dir.path());
    let (store, tail) = Embedded::open(&options(dir.path())).unwrap();
    let early = batch(store.head(), |chain| vec![unit(chain, 1, vec![])]);
    assert!(matches!(store.commit(early), Err(CommitError::Failed(_))));
    recover(&TestSuite::default(), &store, &tail).unwrap();
    let next = batch(store.head(), |chain| vec![unit(chain, 1, vec![])]);
    assert_eq!(store.commit(next).unwrap().seq, tail.to + 1);
}

#[test]
fn rules_that_give_other_lines_stop_recovery() {
    let dir = tempfile::tempdir().unwrap();
    let mut story = Story::begin(2);
    story.go_on(100);
    story.write(dir.path());
    let (store, tail) = Embedded::open(&options(dir.path())).unwrap();
    let error = recover(&TestSuite::altered(), &store, &tail).unwrap_err();
    assert!(matches!(error, RecoverError::Diverged(_)), "{error}");
}

#[test]
fn the_index_reflects_a_line_and_says_where_it_ends() {
    // CH-JRN-2: seq, line hash and byte offset.
    let dir = tempfile::tempdir().unwrap();
    let mut story = Story::begin(3);
    story.go_on(300);
    story.write(dir.path());
    let (store, tail) = Embedded::open(&options(dir.path())).unwrap();
    recover(&TestSuite::default(), &store, &tail).unwrap();
    store.close().unwrap();
    let index = rusqlite::Connection::open(dir.path().join("index.db")).unwrap();
    let mark: (i64, [u8; 32], i64) = index
        .query_row("SELECT seq, hash, offset FROM mark", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    let head = story.host.head();
    let len = fs::metadata(dir.path().join("audit.jsonl")).unwrap().len();
    assert_eq!(mark, (head.seq as i64, head.hash.0, len as i64));
}
