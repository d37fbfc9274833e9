//! What a store holds against what its log says.

use std::collections::BTreeMap;

use bytes::Bytes;
use chancery_core::delivery::OUTBOX;
use chancery_core::digest::Sha256Digest;
use chancery_core::protocol::Suite;
use chancery_core::rows::{MapRows, Row, RowKey};
use chancery_core::timer::TIMERS;
use chancery_journal::line::parse;
use chancery_journal::{Fold, Head, InMemory, Recorded, Replayer, Units, Verifier, prepare};
use chancery_store::Store;

/// All rows but those of work that is done with outside the log.
pub fn rows_of(store: &dyn Store) -> BTreeMap<RowKey, Row> {
    let all = RowKey::from_stored(Bytes::new());
    without_agenda(store.scan(&all, None, usize::MAX).unwrap())
}

fn without_agenda(rows: impl IntoIterator<Item = (RowKey, Row)>) -> BTreeMap<RowKey, Row> {
    let is_agenda = |key: &RowKey| key.is_in(OUTBOX) || key.is_in(TIMERS);
    rows.into_iter()
        .filter(|(key, _)| !is_agenda(key))
        .collect()
}

/// The log verifies and replays without divergence, and its fold gives the rows that the store has (CH-JRN-7).
pub fn assert_log_gives<S: Suite + Clone>(suite: &S, store: &dyn Store) {
    let lines = store.lines(1, usize::MAX).unwrap();
    assert_eq!(lines.len() as u64, store.head().seq);
    let mut verifier = Verifier::new(suite.clone());
    let mut replayer = Replayer::new(suite.clone(), MapRows::default()).unwrap();
    for line in &lines {
        let prepared = prepare(suite, line.clone(), verifier.keyring());
        verifier.take(prepared.clone());
        replayer.take(prepared);
    }
    let verified = verifier.finish(Some(store.head()));
    assert!(verified.passed(), "{:?}", verified.findings);
    let (replayed, _) = replayer.finish();
    assert_eq!(replayed.divergence, None);
    assert_eq!(replayed.replayed, lines.len() as u64);
    assert_eq!(rows_of(store), fold(suite, &lines));
}

fn fold<S: Suite + Clone>(suite: &S, lines: &[Bytes]) -> BTreeMap<RowKey, Row> {
    let mut fold = Fold::new(suite.clone(), InMemory::default(), Head::EMPTY, true).unwrap();
    let mut units = Units::default();
    for canonical in lines {
        let recorded = Recorded {
            line: parse(canonical).unwrap(),
            canonical: canonical.clone(),
            hash: Sha256Digest::of(canonical),
        };
        let more = recorded.line.more;
        if let Some(unit) = units.push(recorded, more).unwrap() {
            fold.apply(&unit).unwrap();
        }
    }
    let rows = fold.into_backing().rows;
    without_agenda(rows.iter().map(|(key, bytes)| (key.clone(), bytes.clone())))
}

/// What each line of a log does: the verb of an envelope, the kind of a `node` line.
pub fn verbs(store: &dyn Store) -> Vec<String> {
    let lines = store.lines(1, usize::MAX).unwrap();
    let verb = |line: &Bytes| {
        let envelope = parse(line).unwrap().envelope;
        let envelope: serde_json::Value = serde_json::from_slice(&envelope).unwrap();
        let word = envelope.get("verb").or_else(|| envelope.get("kind"));
        word.and_then(serde_json::Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    lines.iter().map(verb).collect()
}
