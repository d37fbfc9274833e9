//! Logs in another form, cut short, or with lines that are none.

use bytes::Bytes;
use chancery_journal::line::{self, LineFault};
use chancery_journal::{Check, Reason};
use chancery_testkit::TestSuite;

use crate::scenario::{Story, replay, verify, without_agenda};

#[test]
fn a_line_in_another_form_is_reported_and_still_replays_to_the_same_rows() {
    // VC-RPL-3
    let story = Story::everything();
    let mut lines = story.host.lines().to_vec();
    let text = String::from_utf8(lines[7].to_vec()).unwrap();
    lines[7] = Bytes::from(text.replacen(r#","meta":{"#, r#", "meta":{"#, 1));
    let offset = text.find(r#","meta":{"#).unwrap() + 1;

    let verified = verify(&lines, None);
    assert_eq!(verified.findings[0].check, Check::NonCanonical { offset });
    assert_eq!(verified.findings[0].seq, 8);
    assert!(
        verified.findings[0]
            .to_string()
            .contains("non_canonical_entry")
    );
    // The next line names the hash of the line as it was.
    assert_eq!(verified.findings[1].check, Check::Chain);
    assert_eq!(verified.findings.len(), 2);

    let (report, rows) = replay(TestSuite::default(), &lines);
    let divergence = report.divergence.unwrap();
    assert_eq!(divergence.seq, 8);
    assert_eq!(
        divergence.reason,
        Reason::Form(LineFault::NonCanonical { offset })
    );
    assert_eq!(report.replayed, lines.len() as u64);
    assert_eq!(rows, without_agenda(story.host.rows()));
}

#[test]
fn replay_of_a_log_cut_inside_a_unit_says_so() {
    // CH-JRN-4
    let mut story = Story::begin();
    story.receive("1", "ann", "bob", "batch", None);
    let whole = story.host.head().seq;
    let lines = &story.host.lines()[..usize::try_from(whole).unwrap() - 1];
    let (report, _) = replay(TestSuite::default(), lines);
    let divergence = report.divergence.unwrap();
    assert_eq!(
        (divergence.seq, divergence.reason),
        (whole - 1, Reason::UnitNotWhole)
    );
    assert_eq!(report.replayed, whole - 4);
}

#[test]
fn a_missing_line_and_what_is_no_line_are_divergences() {
    let story = Story::everything();
    let mut lines = story.host.lines().to_vec();
    lines.remove(9);
    let divergence = replay(TestSuite::default(), &lines).0.divergence.unwrap();
    assert_eq!(divergence.seq, 10);
    assert_eq!(
        divergence.reason,
        Reason::Sequence {
            expected: 10,
            found: 11
        }
    );

    lines[3] = Bytes::from_static(b"{\"envelope\":{");
    let divergence = replay(TestSuite::default(), &lines).0.divergence.unwrap();
    assert_eq!(divergence.seq, 4);
    assert!(matches!(
        divergence.reason,
        Reason::Form(LineFault::Json(_))
    ));
}

#[test]
fn a_replay_of_nothing_finds_nothing() {
    let (report, rows) = replay(TestSuite::default(), &[]);
    assert_eq!((report.verified, report.divergence), (0, None));
    assert_eq!(rows.iter().count(), 0);
}

#[test]
fn key_lines_are_where_a_chunk_is_best_ended() {
    let story = Story::everything();
    let changing = story
        .host
        .lines()
        .iter()
        .filter(|text| chancery_journal::changes_keys(&line::parse(text).unwrap()));
    assert_eq!(changing.count(), 4);
}
