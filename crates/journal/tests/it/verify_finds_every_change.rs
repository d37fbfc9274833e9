//! Any change, loss or reordering shows (CH-JRN-3, CH-JRN-7).

use bytes::Bytes;
use chancery_journal::{Check, NOT_PROVEN};
use chancery_testkit::TestSuite;
use proptest::prelude::*;

use crate::scenario::{Story, forge, replay, steps, verify};

#[test]
fn every_single_byte_counts() {
    let mut story = Story::begin();
    story.receive("1", "ann", "bob", "follow", Some("é\n"));
    story.act(&chancery_testkit::inputs::outgoing(
        "cat", "bob", "note", None,
    ));
    let lines = story.host.lines();
    for index in 0..lines.len() {
        for at in 0..lines[index].len() {
            for flip in [0x01, 0x20, 0x80] {
                let mut changed = lines.to_vec();
                let mut bytes = lines[index].to_vec();
                bytes[at] ^= flip;
                changed[index] = bytes.into();
                let report = verify(&changed, Some(story.host.head()));
                assert!(!report.passed(), "line {index}, byte {at}, flip {flip:#x}");
                // Without knowing the last line from elsewhere, only a change of that very line can go unseen.
                let unaided = verify(&changed, None);
                assert!(
                    !unaided.passed() || index + 1 == lines.len(),
                    "line {index}, byte {at}, flip {flip:#x}"
                );
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Tampering {
    Byte {
        line: prop::sample::Index,
        at: prop::sample::Index,
        to: u8,
    },
    Remove {
        line: prop::sample::Index,
    },
    Repeat {
        line: prop::sample::Index,
    },
    Swap {
        a: prop::sample::Index,
        b: prop::sample::Index,
    },
    CutOff {
        line: prop::sample::Index,
    },
    InsertByte {
        line: prop::sample::Index,
        at: prop::sample::Index,
        byte: u8,
    },
}

fn tampering() -> impl Strategy<Value = Tampering> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), index(), any::<u8>()).prop_map(|(line, at, to)| Tampering::Byte { line, at, to }),
        index().prop_map(|line| Tampering::Remove { line }),
        index().prop_map(|line| Tampering::Repeat { line }),
        (index(), index()).prop_map(|(a, b)| Tampering::Swap { a, b }),
        index().prop_map(|line| Tampering::CutOff { line }),
        (index(), index(), any::<u8>()).prop_map(|(line, at, byte)| Tampering::InsertByte {
            line,
            at,
            byte
        }),
    ]
}

fn tamper(lines: &[Bytes], how: &Tampering) -> Vec<Bytes> {
    let mut lines = lines.to_vec();
    let count = lines.len();
    match how {
        Tampering::Byte { line, at, to } => {
            let mut bytes = lines[line.index(count)].to_vec();
            let at = at.index(bytes.len());
            bytes[at] = *to;
            lines[line.index(count)] = bytes.into();
        }
        Tampering::InsertByte { line, at, byte } => {
            let mut bytes = lines[line.index(count)].to_vec();
            bytes.insert(at.index(bytes.len()), *byte);
            lines[line.index(count)] = bytes.into();
        }
        Tampering::Remove { line } => {
            lines.remove(line.index(count));
        }
        Tampering::Repeat { line } => {
            let index = line.index(count);
            lines.insert(index, lines[index].clone());
        }
        Tampering::Swap { a, b } => lines.swap(a.index(count), b.index(count)),
        Tampering::CutOff { line } => lines.truncate(line.index(count)),
    }
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn nothing_can_be_changed_unseen(steps in steps(), how in tampering()) {
        let mut story = Story::begin();
        for step in &steps {
            story.step(step);
        }
        let lines = story.host.lines();
        let changed = tamper(lines, &how);
        prop_assume!(changed != lines);
        prop_assert!(!verify(&changed, Some(story.host.head())).passed());
        // Without the head from elsewhere all shows that touches a line before the last one kept.
        let prefix = changed.len() <= lines.len() && changed[..] == lines[..changed.len()];
        let last_alone = changed.len() == lines.len() && changed[..lines.len() - 1] == lines[..lines.len() - 1];
        if !prefix && !last_alone {
            prop_assert!(!verify(&changed, None).passed());
            prop_assert!(replay(TestSuite::default(), &changed).0.divergence.is_some());
        }
    }

    #[test]
    fn a_forger_who_chains_the_rest_anew_cannot_break_replay(
        steps in steps(),
        line in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        to in b' '..=b'~',
    ) {
        let mut story = Story::begin();
        for step in &steps {
            story.step(step);
        }
        let mut lines = story.host.lines().to_vec();
        let index = line.index(lines.len());
        let mut bytes = lines[index].to_vec();
        let at = at.index(bytes.len());
        bytes[at] = to;
        forge(&mut lines, index, bytes.into());
        let (report, _) = replay(TestSuite::default(), &lines);
        prop_assert_eq!(report.verified, lines.len() as u64);
        prop_assert_eq!(verify(&lines, None).lines, lines.len() as u64);
    }
}

#[test]
fn a_log_that_ends_inside_a_unit_is_not_whole() {
    // CH-JRN-4
    let mut story = Story::begin();
    story.receive("1", "ann", "bob", "batch", None);
    let lines = story.host.lines();
    let report = verify(&lines[..lines.len() - 1], None);
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].check, Check::UnitNotWhole);
    assert_eq!(report.findings[0].seq, lines.len() as u64 - 1);
}

#[test]
fn a_report_counts_and_says_what_a_pass_does_not_prove() {
    // CH-JRN-7
    let story = Story::everything();
    let report = verify(story.host.lines(), None);
    assert!(report.passed());
    assert_eq!(report.lines, story.host.head().seq);
    assert_eq!(report.head, story.host.head());
    assert_eq!(report.signatures, 9);
    assert_eq!(report.not_proven, NOT_PROVEN);
}

#[test]
fn what_holds_no_line_at_all_is_no_log() {
    // CH-JRN-7
    let lines = [Bytes::from_static(b"hello"), Bytes::from_static(b"{}")];
    let report = verify(&lines, None);
    assert!(report.is_no_log());
    assert_eq!(report.found, 2);
}

#[test]
fn a_number_beyond_all_sense_is_a_finding_and_no_crash() {
    let story = Story::begin();
    let text = String::from_utf8(story.host.lines()[0].to_vec()).unwrap();
    for number in [
        "18446744073709551615",
        "18446744073709551616",
        "0",
        "-1",
        "1.5",
        "9007199254740991",
    ] {
        let forged = text.replace(r#""seq":1"#, &format!(r#""seq":{number}"#));
        let lines = [forged.into(), story.host.lines()[1].clone()];
        assert!(!verify(&lines, None).passed(), "{number}");
    }
}
