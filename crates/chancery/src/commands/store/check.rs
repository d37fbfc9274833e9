//! `chancery store check`: the log is sound, and the rows are those that the rules give, also while nodes write.
//!
//! The rows are read first, all of one moment, with the line that they reflect; then the log, which holds that line by now.
//! The rules run up to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::delivery::OUTBOX;
use chancery_core::line::Seq;
use chancery_core::rows::{Row, RowKey};
use chancery_core::timer::TIMERS;
use chancery_journal::Head;
use chancery_node::suite::Chancery;
use chancery_store::{
    Memory, Moment, Postgres, ROWS_VERSION, Store as _, StoreError, copy_log, moment_in,
};
use serde_json::json;

use super::place::{
    StorePlace, away, committed, lines_of, live_log, seed_in, suite, unread, unreadable,
};
use crate::commands::log::verified;
use crate::config::Config;
use crate::exit::{Exit, Failure, Outcome};
use crate::host::{SeedText, database_to_read, read_kept_seed};
use crate::log::LogFile;
use crate::terminal::Terminal;

/// Rows read at once.
const PORTION: usize = 10_000;

/// Accepted envelopes of vacants: a table of its own in files, whose older rows may be dropped and which nothing reads back.
const ACCEPTED: &str = "replay_protect";

/// Checks the configured store.
pub(super) fn run(config: &Config, terminal: &mut Terminal) -> Outcome {
    let found = Found::at(&StorePlace::configured(config)?)?;
    let database = found.database;
    let read = |failure| match &database {
        Some(store) => away(store, failure),
        None => failure,
    };
    let told = verified(found.log.clone()).map_err(read)?;
    let compared = match found.moment {
        Some(moment) => {
            let compared = compare(&suite(found.seed.as_ref()), found.log, moment);
            Some(compared.map_err(read)?)
        }
        None => None,
    };
    let other: &[String] = compared.as_ref().map_or(&[], |compared| &compared.other);
    let passed = told["passed"] == true && other.is_empty();
    if terminal.json {
        terminal.json_line(&json!({
            "passed": passed, "log": told, "rows": compared.as_ref().map(|compared| compared.rows),
            "lines": compared.as_ref().map(|compared| compared.lines), "other_rows": other,
        }))?;
    } else {
        for finding in told["findings"].as_array().into_iter().flatten() {
            writeln!(terminal.out, "{}: {}", finding["at"], finding["check"])?;
        }
        for key in other {
            writeln!(terminal.out, "row {key} is not what the rules give")?;
        }
        let lines = told["lines"].as_u64().unwrap_or_default();
        writeln!(
            terminal.out,
            "{lines} lines, {}",
            in_words(compared.as_ref(), lines)
        )?;
        let verdict = match passed {
            true => terminal.good("every check passed"),
            false => terminal.bad("NOT VALID"),
        };
        writeln!(terminal.out, "{verdict}")?;
    }
    Ok(if passed { Exit::Done } else { Exit::No })
}

fn in_words(compared: Option<&Compared>, lines: Seq) -> String {
    match compared {
        None => "and no index of this version: a node makes it when it starts".to_owned(),
        Some(Compared {
            rows, lines: up_to, ..
        }) if *up_to == lines => {
            format!("{rows} rows compared with what the rules give")
        }
        Some(Compared {
            rows, lines: up_to, ..
        }) => {
            format!("{rows} rows compared with what the rules give at line {up_to}")
        }
    }
}

/// What there is to compare.
struct Found {
    moment: Option<Moment>,
    /// With all lines that the rows reflect.
    log: LogFile,
    seed: Option<SeedText>,
    /// Where they are read from, if that is PostgreSQL.
    database: Option<Arc<Postgres>>,
}

impl Found {
    fn at(place: &StorePlace) -> Result<Self, Failure> {
        match place {
            StorePlace::Directory(dir) => Ok(Self {
                moment: moment_in(dir, ROWS_VERSION).map_err(no_index)?,
                log: live_log(dir)?,
                seed: seed_in(dir)?,
                database: None,
            }),
            StorePlace::Database(database) => {
                let store = database_to_read(database)?;
                let moment = store.moment().map_err(|error| unread(&store, error))?;
                store.follow().map_err(|error| unread(&store, error))?;
                Ok(Self {
                    moment: Some(moment),
                    seed: read_kept_seed(&store)?,
                    log: committed(Arc::clone(&store) as Arc<_>),
                    database: Some(store),
                })
            }
        }
    }
}

fn no_index(error: StoreError) -> Failure {
    unreadable(error).next("stop the node and delete index.db; the next start makes it anew")
}

/// Rows beside those that the rules give.
struct Compared {
    /// Up to which line.
    lines: Seq,
    rows: u64,
    /// Names of rows that differ.
    other: Vec<String>,
}

/// Runs the rules over the log and compares every row, but for those that may go without a line: what is settled of
/// the agenda, and what is pruned of accepted envelopes.
fn compare(suite: &Chancery, log: LogFile, moment: Moment) -> Result<Compared, Failure> {
    let given = Memory::new();
    let count = usize::try_from(moment.head.seq).unwrap_or(usize::MAX);
    let copied = copy_log(suite, lines_of(log).take(count), &given, |_| ());
    let head = copied.map_err(|error| Failure::no(error.to_string()))?;
    let Head { seq, hash, .. } = moment.head;
    if (head.seq, head.hash) != (seq, hash) {
        let what = format!("the rows reflect a line {seq}, {hash}, that is not on the log");
        return Err(Failure::damaged(what));
    }
    let (mut found, expected) = (moment.rows, rows_of(&given).map_err(unreadable)?);
    found.retain(is_compared);
    Ok(Compared {
        lines: seq,
        rows: found.len() as u64,
        other: different(&expected, &found),
    })
}

fn is_compared((key, _): &(RowKey, Row)) -> bool {
    ![OUTBOX, TIMERS, ACCEPTED].iter().any(|it| key.is_in(it))
}

fn rows_of(store: &Memory) -> Result<Vec<(RowKey, Row)>, StoreError> {
    let everything = RowKey::from_stored(Bytes::new());
    let (mut rows, mut after): (Vec<(RowKey, Row)>, Option<RowKey>) = (Vec::new(), None);
    loop {
        let page = store.scan(&everything, after.as_ref(), PORTION)?;
        let Some((last, _)) = page.last() else {
            return Ok(rows);
        };
        after = Some(last.clone());
        rows.extend(page.into_iter().filter(is_compared));
    }
}

/// Names of rows that one has and the other has not, or otherwise.
fn different(expected: &[(RowKey, Row)], found: &[(RowKey, Row)]) -> Vec<String> {
    let by_key = |rows: &[(RowKey, Row)]| rows.iter().cloned().collect::<BTreeMap<_, _>>();
    let (expected, found) = (by_key(expected), by_key(found));
    let keys: BTreeSet<&RowKey> = expected.keys().chain(found.keys()).collect();
    let other = keys
        .into_iter()
        .filter(|key| expected.get(*key) != found.get(*key));
    other.map(|key| format!("{key:?}")).collect()
}
