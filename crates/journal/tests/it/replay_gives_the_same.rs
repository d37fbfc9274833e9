//! Replay of an untouched log gives the same lines and rows (VC-RPL-1, CH-JRN-7).

use chancery_core::keys::Keyring;
use chancery_core::rows::MapRows;
use chancery_journal::{Prepared, Replayer, prepare};
use chancery_testkit::TestSuite;
use proptest::prelude::*;

use crate::scenario::{Story, replay, steps, verify, without_agenda};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_story_replays_to_its_own_rows(steps in steps()) {
        let mut story = Story::begin();
        for step in &steps {
            story.step(step);
        }
        let lines = story.host.lines();
        let (report, rows) = replay(TestSuite::default(), lines);
        prop_assert_eq!(&report.divergence, &None);
        prop_assert_eq!(report.replayed, lines.len() as u64);
        prop_assert_eq!(report.head, story.host.head());
        prop_assert_eq!(rows, without_agenda(story.host.rows()));
        let verified = verify(lines, Some(story.host.head()));
        prop_assert_eq!(verified.findings, vec![]);
        prop_assert_eq!(verified.signatures, report.signatures);
    }
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    // VC-RPL-3, VC-RPL-4
    assert_eq!(
        Story::everything().host.lines(),
        Story::everything().host.lines()
    );
}

#[test]
fn every_kind_of_line_is_replayed_and_every_signature_checked() {
    let story = Story::everything();
    let (report, _) = replay(TestSuite::default(), story.host.lines());
    assert_eq!(report.divergence, None);
    assert_eq!(
        (report.replayed, report.left_out),
        (story.host.head().seq, 0)
    );
    // Seven envelopes of ann and bob, two that the node signed.
    assert_eq!(report.signatures, 9);
}

#[test]
fn lines_may_be_prepared_on_other_threads_under_keys_that_are_out_of_date() {
    // CH-JRN-7: each signature counts under the key on record at its line, wherever it was checked first.
    let story = Story::everything();
    let lines = story.host.lines();
    let chunk = lines.len().div_ceil(3);
    let suite = TestSuite::default();
    let prepared: Vec<Prepared> = std::thread::scope(|scope| {
        let workers: Vec<_> = lines
            .chunks(chunk)
            .map(|lines| {
                scope.spawn(move || {
                    let none = Keyring::default();
                    lines
                        .iter()
                        .map(|line| prepare(&suite, line.clone(), &none))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    let mut replayer = Replayer::new(suite, MapRows::default()).unwrap();
    prepared.into_iter().for_each(|line| replayer.take(line));
    let (report, _) = replayer.finish();
    assert_eq!(report.divergence, None);
    assert_eq!(report.signatures, 9);
}
