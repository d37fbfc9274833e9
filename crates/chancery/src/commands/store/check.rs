//! `chancery store check`: the log is sound, and the rows are those that the rules give.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::delivery::OUTBOX;
use chancery_core::line::Seq;
use chancery_core::rows::{Row, RowKey};
use chancery_core::timer::TIMERS;
use chancery_node::suite::Chancery;
use chancery_store::{Memory, Store, StoreError, copy_log};
use serde_json::json;

use super::place::{Source, StorePlace, Target, lines_of, unreadable};
use crate::commands::log::verified;
use crate::config::Config;
use crate::exit::{Exit, Failure, Outcome};
use crate::host::database_to_read;
use crate::log::{LogFile, StoreLog};
use crate::terminal::Terminal;

/// Rows compared at once.
const PORTION: usize = 10_000;
/// How often rows are compared that nodes change meanwhile.
const ATTEMPTS: usize = 20;

/// Accepted envelopes of vacants: a table of its own in files, whose older rows may be dropped and which nothing reads back.
const ACCEPTED: &str = "replay_protect";

/// Checks the configured store.
pub(super) fn run(config: &Config, terminal: &mut Terminal) -> Outcome {
    let place = StorePlace::configured(config)?;
    let source = Source::as_it_is(&place)?;
    let (suite, seed) = (source.suite(), source.seed.clone());
    drop(source);
    let store: Arc<dyn Store> = match &place {
        StorePlace::Directory(_) => Target::open(&place, seed.as_ref())?.store,
        StorePlace::Database(database) => database_to_read(database)?,
    };
    let log = LogFile::Store(StoreLog::of(Arc::clone(&store), u64::MAX));
    let told = verified(log)?;
    let compared = compare(&suite, &store)?;
    store.close().map_err(unreadable)?;
    let passed = told["passed"] == true && compared.other.is_empty();
    if terminal.json {
        terminal.json_line(&json!({
            "passed": passed, "log": told, "rows": compared.rows, "lines": compared.lines,
            "other_rows": compared.other,
        }))?;
    } else {
        for finding in told["findings"].as_array().into_iter().flatten() {
            writeln!(terminal.out, "{}: {}", finding["at"], finding["check"])?;
        }
        for key in &compared.other {
            writeln!(terminal.out, "row {key} is not what the rules give")?;
        }
        writeln!(
            terminal.out,
            "{} lines, {} rows compared with what the rules give",
            compared.lines, compared.rows
        )?;
        let verdict = match passed {
            true => terminal.good("every check passed"),
            false => terminal.bad("NOT VALID"),
        };
        writeln!(terminal.out, "{verdict}")?;
    }
    Ok(if passed { Exit::Done } else { Exit::No })
}

/// Rows beside those that the rules give.
struct Compared {
    lines: Seq,
    rows: u64,
    /// Names of rows that differ.
    other: Vec<String>,
}

/// Runs the rules over the log and compares every row, but for those that may go without a line: what is settled of
/// the agenda, and what is pruned of accepted envelopes.
fn compare(suite: &Chancery, store: &Arc<dyn Store>) -> Result<Compared, Failure> {
    let given = Memory::new();
    let mut attempt = 0;
    loop {
        attempt += 1;
        let copied = copy_log(suite, lines_of(Arc::clone(store)), &given, |_| ());
        let head = copied.map_err(|error| Failure::no(error.to_string()))?;
        let found = rows_of(&**store).map_err(unreadable)?;
        if store.head().seq != head.seq {
            if attempt < ATTEMPTS {
                continue;
            }
            let what = "nodes write faster than the rows can be compared";
            return Err(Failure::usage(what).next("check again when they are quieter"));
        }
        let expected = rows_of(&given).map_err(unreadable)?;
        return Ok(Compared {
            lines: head.seq,
            rows: found.len() as u64,
            other: different(&expected, &found),
        });
    }
}

fn rows_of(store: &dyn Store) -> Result<Vec<(RowKey, Row)>, StoreError> {
    let everything = RowKey::from_stored(Bytes::new());
    let (mut rows, mut after): (Vec<(RowKey, Row)>, Option<RowKey>) = (Vec::new(), None);
    loop {
        let page = store.scan(&everything, after.as_ref(), PORTION)?;
        let Some((last, _)) = page.last() else {
            return Ok(rows);
        };
        after = Some(last.clone());
        let is_left_out = |key: &RowKey| [OUTBOX, TIMERS, ACCEPTED].iter().any(|it| key.is_in(it));
        rows.extend(page.into_iter().filter(|(key, _)| !is_left_out(key)));
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
