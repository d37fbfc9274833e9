//! What is not exactly a line is refused, with what and where.

use bytes::Bytes;
use chancery_journal::line::{LineFault, parse};

const GOOD: &str = concat!(
    r#"{"envelope":{"a":1},"meta":{"eval_ts":"2026-05-15T12:00:00Z","key":"k1","origin":"agent","prev":""#,
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
    r#"","protocol":"agh","seq":7},"raw":"x","signature":"s"}"#
);

fn fault_of(from: &str, to: &str) -> LineFault {
    let text = GOOD.replacen(from, to, 1);
    assert_ne!(text, GOOD, "{from}");
    parse(&Bytes::from(text)).unwrap_err()
}

#[test]
fn the_good_line_is_good() {
    let line = parse(&Bytes::from_static(GOOD.as_bytes())).unwrap();
    assert_eq!(
        (line.seq, line.meta_text("key").as_deref()),
        (7, Some("k1"))
    );
    assert_eq!(line.meta_json("key"), Some(r#""k1""#));
}

#[test]
fn every_member_has_its_type() {
    let faults = [
        (r#""seq":7"#, r#""seq":"7""#, "meta.seq"),
        (r#""seq":7"#, r#""seq":0"#, "meta.seq"),
        (r#""seq":7"#, r#""seq":7.5"#, "meta.seq"),
        (r#","seq":7"#, "", "meta.seq"),
        (r#""agh""#, r#""smtp""#, "meta.protocol"),
        (r#""agent""#, r#""agents""#, "meta.origin"),
        ("12:00:00Z", "12:00:00+00:00", "meta.eval_ts"),
        ("12:00:00Z", "12:00:00.10Z", "meta.eval_ts"),
        (r#""eval_ts":"2026-05-15T12:00:00Z","#, "", "meta.eval_ts"),
        ("00112233445566", "0011223344556", "meta.prev"),
        ("aabbcc", "AABBCC", "meta.prev"),
        (r#""origin""#, r#""more":false,"origin""#, "meta.more"),
        (r#"{"a":1}"#, "[]", "envelope"),
        (r#""envelope":{"a":1},"#, "", "envelope"),
        (r#""raw":"x""#, r#""raw":1"#, "raw"),
        (r#""signature":"s""#, r#""signature":null"#, "signature"),
        (r#""signature""#, r#""sign""#, "sign"),
    ];
    for (from, to, at) in faults {
        match fault_of(from, to) {
            LineFault::Member { path, .. } => assert_eq!(path, at, "{to}"),
            other => panic!("{to}: {other}"),
        }
    }
}

#[test]
fn another_form_is_told_from_another_content() {
    // VC-RPL-3
    let forms = [
        (r#""a":1"#, r#""a":1.0"#),
        (r#""a":1"#, r#""a": 1"#),
        (r#"{"a":1}"#, r#"{"b":2,"a":1}"#),
        (r#""k1""#, r#""\u006b1""#),
        (
            r#""raw":"x","signature":"s""#,
            r#""signature":"s","raw":"x""#,
        ),
        (r#"{"envelope""#, r#" {"envelope""#),
    ];
    for (from, to) in forms {
        assert!(
            matches!(fault_of(from, to), LineFault::NonCanonical { .. }),
            "{to}"
        );
    }
    assert_eq!(
        fault_of(r#""s"}"#, "\"s\"}\n"),
        LineFault::NonCanonical { offset: GOOD.len() }
    );
}

#[test]
fn what_is_no_json_says_where() {
    assert!(matches!(
        fault_of(r#""a":1"#, r#""a":1,"a":1"#),
        LineFault::Json(_)
    ));
    assert!(
        matches!(fault_of(r#""a":1"#, r#""a":01"#), LineFault::Json(fault) if fault.offset >= 12)
    );
    assert!(matches!(
        parse(&Bytes::from_static(b"")),
        Err(LineFault::Json(_))
    ));
    assert!(matches!(
        parse(&Bytes::from_static(b"[]")),
        Err(LineFault::Member { .. })
    ));
}
