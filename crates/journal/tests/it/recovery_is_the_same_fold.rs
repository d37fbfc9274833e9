//! Recovery is the fold over the tail of a log, on rows that are loaded when they are asked for (CH-JRN-2).

use std::collections::BTreeSet;

use bytes::Bytes;
use chancery_core::decision::WindowsBelow;
use chancery_core::digest::Sha256Digest;
use chancery_core::rows::{Lookup, Row, RowChange, RowKey, Rows, RowsDamaged};
use chancery_core::time::Time;
use chancery_core::window::{Remember, WindowId, WindowName};
use chancery_journal::{Backing, Fold, Head, InMemory, Produced, Recorded, Units, line};
use chancery_testkit::TestSuite;
use proptest::prelude::*;

use crate::scenario::{Story, steps};

/// Rows that must be loaded before they are seen.
struct OnDemand {
    held: InMemory,
    loaded: BTreeSet<RowKey>,
    loads: usize,
}

impl Rows for OnDemand {
    fn get(&self, key: &RowKey) -> Lookup {
        if self.loaded.contains(key) {
            self.held.get(key)
        } else {
            Lookup::NotLoaded
        }
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        self.held.scan(prefix)
    }
}

impl WindowsBelow for OnDemand {
    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        self.held.find(window, id, now)
    }
}

impl Backing for OnDemand {
    fn take(&mut self, changes: Vec<RowChange>, remembered: Vec<Remember>) {
        self.loaded
            .extend(changes.iter().map(|(key, _)| key.clone()));
        self.held.take(changes, remembered);
    }

    fn forget_ended(&mut self, now: Time) {
        self.held.forget_ended(now);
    }

    fn load(&mut self, keys: &[RowKey]) -> Result<(), RowsDamaged> {
        self.loads += 1;
        self.loaded.extend(keys.iter().cloned());
        Ok(())
    }
}

fn recorded(text: &Bytes) -> Recorded {
    Recorded {
        line: line::parse(text).unwrap(),
        canonical: text.clone(),
        hash: Sha256Digest::of(text),
    }
}

fn fold_tail(state: &InMemory, head: Head, tail: &[Bytes]) -> Fold<TestSuite, OnDemand> {
    let backing = OnDemand {
        held: state.clone(),
        loaded: BTreeSet::new(),
        loads: 0,
    };
    let mut fold = Fold::new(TestSuite::default(), backing, head, true).unwrap();
    let mut units = Units::default();
    for text in tail {
        let recorded = recorded(text);
        let more = recorded.line.more;
        if let Some(unit) = units.push(recorded, more).unwrap() {
            assert!(matches!(fold.apply(&unit).unwrap(), Produced::Same { .. }));
        }
    }
    fold
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_tail_gives_every_row_again(before in steps(), after in steps()) {
        let mut story = Story::begin();
        before.iter().for_each(|step| story.step(step));
        let (state, head) = (story.host.state().clone(), story.host.head());
        after.iter().for_each(|step| story.step(step));
        let tail = &story.host.lines()[usize::try_from(head.seq).unwrap()..];
        let fold = fold_tail(&state, head, tail);
        prop_assert_eq!(fold.head(), story.host.head());
        // Inboxes, outbox and timers too: a node goes on with them.
        prop_assert_eq!(&fold.backing().held.rows, story.host.rows());
    }
}

#[test]
fn rows_that_no_one_announced_are_loaded_and_the_decision_is_made_again() {
    let mut story = Story::begin();
    let (state, head) = (story.host.state().clone(), story.host.head());
    story.receive("1", "ann", "bob", "lookup", Some("thing"));
    let tail = &story.host.lines()[usize::try_from(head.seq).unwrap()..];
    let fold = fold_tail(&state, head, tail);
    // The key, the run state, the thing, and bob's inbox, which the end of the decision asks for.
    assert_eq!(fold.backing().loads, 4);
    assert_eq!(&fold.backing().held.rows, story.host.rows());
}

#[test]
fn what_windows_remembered_is_forgotten_when_it_has_ended() {
    let mut story = Story::begin();
    let (state, head) = (story.host.state().clone(), story.host.head());
    for round in 0..5 {
        story.receive(&round.to_string(), "ann", "bob", "note", None);
        story.now = story
            .now
            .saturating_add(std::time::Duration::from_secs(660));
    }
    let tail = &story.host.lines()[usize::try_from(head.seq).unwrap()..];
    let fold = fold_tail(&state, head, tail);
    assert_eq!(fold.backing().held.windows.len(), 1);
}
