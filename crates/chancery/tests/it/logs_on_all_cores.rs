//! Verification and replay of files with any suite, prepared on all cores and taken in order (CH-JRN-7).

use bytes::Bytes;
use chancery::log::{Checked, Lines, LogFile, Rules, Verified, replay, verify};
use chancery::{Progress, Terminal};
use chancery_journal::{Check, ReplayReport};
use chancery_testkit::TestSuite;

use crate::sample;
use crate::support::Place;

fn lines_of(place: &Place, lines: &[Bytes]) -> (Lines, Progress) {
    let path = place.write("audit.jsonl", sample::text(lines));
    let progress = Progress::of_bytes(None, &Terminal::of_process(true));
    (Lines::of(vec![LogFile::Path(path)]), progress)
}

fn rules(suite: &TestSuite) -> Rules<'_, TestSuite> {
    Rules {
        suite,
        serves: |_| true,
    }
}

fn verified(lines: &[Bytes]) -> Verified {
    let place = Place::new();
    let (lines, mut progress) = lines_of(&place, lines);
    verify(rules(&TestSuite::default()), lines, None, &mut progress).unwrap()
}

fn replayed(suite: &TestSuite, lines: &[Bytes]) -> Checked<ReplayReport> {
    let place = Place::new();
    let (lines, mut progress) = lines_of(&place, lines);
    replay(rules(suite), lines, &mut progress).unwrap()
}

#[test]
fn signatures_are_checked_under_the_key_on_record_at_their_line() {
    // CH-JRN-7: many batches, keys that change in between.
    let lines = sample::conversation(700);
    let found = verified(&lines);
    assert!(found.report.passed(), "{:?}", found.report.findings);
    assert_eq!(found.report.lines, lines.len() as u64);
    assert_eq!(found.report.signatures, 3 * 701);
    let again = replayed(&TestSuite::default(), &lines);
    assert_eq!(again.report.divergence, None);
    assert_eq!(again.report.replayed, lines.len() as u64);
    assert_eq!(again.report.signatures, 3 * 701);
}

#[test]
fn a_forged_signature_is_found_in_its_line() {
    // CH-JRN-7
    let mut lines = sample::conversation(300);
    let at = 400;
    let text = String::from_utf8(lines[at].to_vec()).unwrap();
    let start = text.find("base64:").unwrap() + "base64:".len();
    let other = if text[start..].starts_with('A') {
        "B"
    } else {
        "A"
    };
    let forged = format!("{}{other}{}", &text[..start], &text[start + 1..]);
    lines[at] = forged.into();
    let found = verified(&lines);
    let signature = found
        .report
        .findings
        .iter()
        .find(|finding| matches!(finding.check, Check::Signature(_)))
        .unwrap();
    assert_eq!(found.place(signature.seq).unwrap().line, at as u64 + 1);
    assert!(
        replayed(&TestSuite::default(), &lines)
            .report
            .divergence
            .is_some()
    );
}

#[test]
fn a_rule_that_changed_diverges() {
    // CH-JRN-7, VC-RPL-2
    let lines = sample::conversation(10);
    let found = replayed(&TestSuite::altered(), &lines);
    let divergence = found.report.divergence.clone().unwrap();
    let first_batch = lines
        .iter()
        .position(|line| line.windows(7).any(|part| part == b"\"batch\""))
        .unwrap();
    assert!(divergence.seq > first_batch as u64, "{divergence}");
    assert_eq!(found.place(divergence.seq).unwrap().line, divergence.seq);
}

#[test]
fn the_order_of_a_log_does_not_depend_on_the_cores() {
    // VC-RPL-4
    let lines = sample::conversation(500);
    let first = verified(&lines).report;
    for _ in 0..5 {
        assert_eq!(verified(&lines).report, first);
    }
}
