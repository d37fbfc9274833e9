//! Makes chained units, and stores to put them in.

use bytes::Bytes;
use chancery_core::line::{Draft, DraftEnvelope, Origin, ProtocolName};
use chancery_core::rows::{Row, RowChange, RowKey};
use chancery_core::time::Time;
use chancery_core::window::{Remember, WindowName};
use chancery_journal::{Chain, Head, Lines};
use chancery_store::{
    Batch, CommitError, Embedded, Options, PostgresOptions, Store, StoredUnit, Tail,
};

pub const SEEN: WindowName = "test/seen";
pub const WINDOWS: &[WindowName] = &[SEEN];

pub fn key(name: &str) -> RowKey {
    RowKey::text("t", &[name])
}

pub fn put(name: &str, value: &str) -> RowChange {
    (key(name), Some(value.as_bytes().to_vec().into()))
}

pub fn gone(name: &str) -> RowChange {
    (key(name), None)
}

pub fn at(seconds: i64) -> Time {
    Time::from_unix_seconds(seconds).unwrap()
}

pub fn seen(n: u8, until: Time) -> Remember {
    Remember {
        window: SEEN,
        id: [n; 16],
        value: u64::from(n),
        until,
    }
}

/// A line to be: its decision time and something to make it long.
pub fn draft(time: Time, filling: usize) -> Draft {
    let envelope = format!("{{\"text\":\"{}\"}}", "x".repeat(filling));
    Draft {
        protocol: ProtocolName::Test,
        origin: Origin::External,
        envelope: DraftEnvelope::Whole(envelope.into()),
        raw: None,
        signature: None,
        eval_ts: Some(time),
        meta: Vec::new(),
    }
}

/// A unit with its lines.
#[derive(Clone)]
pub struct Unit {
    pub lines: Vec<Bytes>,
    pub changes: StoredUnit,
}

/// A unit of `lines` lines after `chain`.
pub fn unit(chain: &mut Chain, lines: usize, rows: Vec<RowChange>) -> Unit {
    let drafts: Vec<Draft> = (0..lines).map(|n| draft(at(1_000), 20 * n)).collect();
    unit_of(chain, &drafts, rows, Vec::new())
}

pub fn unit_of(
    chain: &mut Chain,
    drafts: &[Draft],
    rows: Vec<RowChange>,
    remembered: Vec<Remember>,
) -> Unit {
    let mut lines = Lines::default();
    let sealed = drafts
        .iter()
        .map(|draft| (draft, draft.envelope.bytes().clone()));
    chain.append_unit(sealed, &mut lines);
    Unit {
        lines: lines.into_bytes(),
        changes: StoredUnit { rows, remembered },
    }
}

/// A batch of units on `base`.
pub fn batch(base: Head, make: impl FnOnce(&mut Chain) -> Vec<Unit>) -> Batch {
    let mut chain = Chain::after(base);
    let units = make(&mut chain);
    let mut lines = Lines::default();
    for line in units.iter().flat_map(|unit| &unit.lines) {
        lines.push(line);
    }
    Batch {
        base,
        head: chain.head(),
        lines,
        units: units.into_iter().map(|unit| unit.changes).collect(),
        spent: Vec::new(),
    }
}

/// Commits one unit of one line with these row changes.
pub fn commit_rows(store: &impl Store, rows: Vec<RowChange>) -> Head {
    let batch = batch(store.head(), |chain| vec![unit(chain, 1, rows)]);
    store.commit(batch).unwrap()
}

/// Commits `lines` units of one line without rows, in one batch.
pub fn commit_lines(store: &impl Store, lines: usize) -> Head {
    let batch = batch(store.head(), |chain| {
        (0..lines).map(|_| unit(chain, 1, Vec::new())).collect()
    });
    store.commit(batch).unwrap()
}

pub fn value(rows: &[Option<Row>], n: usize) -> Option<&str> {
    rows[n]
        .as_deref()
        .map(|bytes| std::str::from_utf8(bytes).unwrap())
}

pub fn options(dir: &std::path::Path) -> Options {
    Options {
        windows: WINDOWS,
        ..Options::new(dir)
    }
}

/// Opens a store whose index is up to date.
pub fn open(options: &Options) -> Embedded {
    let (store, tail) = Embedded::open(options).unwrap();
    assert!(tail.is_empty(), "{tail:?}");
    store
}

/// Stands in for the rules: takes the tail in as lines that change nothing.
pub fn take_in_blindly(store: &Embedded, tail: &Tail) -> Head {
    let mut head = store.head();
    for line in store.lines(tail.from, usize::MAX).unwrap() {
        let read = chancery_journal::line::parse(&line).unwrap();
        head.advance(
            chancery_core::digest::Sha256Digest::of(&line),
            read.protocol,
            read.eval_ts,
        );
    }
    let nothing = StoredUnit {
        rows: Vec::new(),
        remembered: Vec::new(),
    };
    store.take_in(vec![nothing], head).unwrap();
    head
}

/// A journal on a PostgreSQL server, with the smallest cache.
pub fn journal(url: &str, name: &str) -> PostgresOptions {
    PostgresOptions {
        url: url.to_owned(),
        password: None,
        journal: name.to_owned(),
        may_begin: true,
        row_cache_bytes: 1,
        windows: WINDOWS,
        rows_version: 1,
    }
}

/// A counter's next value, decided on what the store holds.
pub fn count(store: &impl Store, base: Head) -> Batch {
    let rows = store.load(&[key("counter")]).unwrap();
    let before: u64 = value(&rows, 0).unwrap_or("0").parse().unwrap();
    counted(base, before)
}

/// A counter's next value after `before`.
pub fn counted(base: Head, before: u64) -> Batch {
    batch(base, |chain| {
        vec![unit(
            chain,
            1,
            vec![put("counter", &(before + 1).to_string())],
        )]
    })
}

/// Counts one on, however often others are faster.
pub fn count_on(store: &impl Store) {
    let mut base = store.head();
    while let Err(error) = store.commit(count(store, base)) {
        let CommitError::Behind { head, .. } = error else {
            panic!("{error}")
        };
        base = head;
    }
}
