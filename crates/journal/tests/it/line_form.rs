//! How a line is written (VC-AUD-2, CH-JRN-3).

use bytes::Bytes;
use chancery_core::digest::Sha256Digest;
use chancery_core::line::{Draft, DraftEnvelope, MetaValue, Origin, ProtocolName};
use chancery_core::time::parse_audit;
use chancery_journal::{Chain, Head, Lines, line};
use proptest::prelude::*;

const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

fn draft(protocol: ProtocolName) -> Draft {
    Draft {
        protocol,
        origin: Origin::External,
        envelope: DraftEnvelope::Whole(Bytes::from_static(br#"{"a":1}"#)),
        raw: None,
        signature: None,
        eval_ts: Some(parse_audit("2026-05-15T12:00:00.25Z").unwrap()),
        meta: Vec::new(),
    }
}

fn rendered(draft: &Draft, seq: u64, more: bool) -> String {
    let mut out = Vec::new();
    line::render(
        draft,
        draft.envelope.bytes(),
        seq,
        &Sha256Digest::ZERO,
        more,
        &mut out,
    );
    String::from_utf8(out).unwrap()
}

#[test]
fn a_line_is_canonical_with_sorted_members() {
    let mut vibe = draft(ProtocolName::Vibe);
    vibe.signature = Some("sig\"".to_owned());
    vibe.meta = vec![
        ("route_decision", MetaValue::Text("deliver".to_owned())),
        ("applied_state_diff_id", MetaValue::Null),
        ("principal", MetaValue::Text("é\n".to_owned())),
        (
            "batch",
            MetaValue::Json(Bytes::from_static(br#"{"id":"x","index":0,"size":4}"#)),
        ),
        ("checks", MetaValue::Words(&["a", "b"])),
        ("answers", MetaValue::Integer(u64::MAX)),
        ("zeal", MetaValue::True),
    ];
    assert_eq!(
        rendered(&vibe, 1, true),
        [
            r#"{"envelope":{"a":1},"meta":{"answers":18446744073709551615,"applied_state_diff_id":null,"#,
            r#""batch":{"id":"x","index":0,"size":4},"checks":["a","b"],"eval_ts":"2026-05-15T12:00:00.25Z","more":true,"#,
            r#""origin":"external","prev":""#,
            ZEROS,
            r#"","principal":"é\n","protocol":"vibe","route_decision":"deliver","seq":1,"zeal":true},"#,
            r#""signature":"sig\""}"#,
        ]
        .concat()
    );
}

#[test]
fn what_does_not_apply_is_left_out_and_a_time_may_be_null() {
    // CH-JRN-4, CH-JRN-12
    let mut node = draft(ProtocolName::Node);
    node.eval_ts = None;
    node.raw = Some(Bytes::from_static(br#"{"a": 1.0}"#));
    assert_eq!(
        rendered(&node, 90, false),
        [
            r#"{"envelope":{"a":1},"meta":{"eval_ts":null,"origin":"external","prev":""#,
            ZEROS,
            r#"","protocol":"node","seq":90},"raw":"{\"a\": 1.0}"}"#,
        ]
        .concat()
    );
}

#[test]
#[should_panic(expected = "nor one that every line has")]
fn rules_cannot_write_over_what_every_line_has() {
    let mut draft = draft(ProtocolName::Agh);
    draft.meta = vec![("seq", MetaValue::Integer(7))];
    rendered(&draft, 1, false);
}

#[test]
fn a_chain_numbers_links_and_times_its_lines() {
    // CH-JRN-1, CH-JRN-3, CH-JRN-14
    let mut chain = Chain::after(Head::EMPTY);
    let mut lines = Lines::default();
    let unit = [draft(ProtocolName::Agh), draft(ProtocolName::Agh)];
    chain.append_unit(
        unit.iter().map(|draft| (draft, draft.envelope.bytes())),
        &mut lines,
    );
    let texts = lines.clone().into_bytes();
    let read: Vec<_> = texts
        .iter()
        .map(|text| line::parse(text).unwrap())
        .collect();
    assert_eq!(
        (read[0].seq, read[0].more, read[0].prev),
        (1, true, Sha256Digest::ZERO)
    );
    assert_eq!(
        (read[1].seq, read[1].more, read[1].prev),
        (2, false, Sha256Digest::of(&texts[0]))
    );
    let time = unit[0].eval_ts;
    assert_eq!(
        chain.head(),
        Head {
            seq: 2,
            hash: Sha256Digest::of(&texts[1]),
            time
        }
    );

    let mut later = draft(ProtocolName::Vibe);
    later.eval_ts = Some(parse_audit("2030-01-01T00:00:00Z").unwrap());
    chain.append_unit([(&later, later.envelope.bytes())].into_iter(), &mut lines);
    assert_eq!((chain.head().seq, chain.head().time), (3, time));
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        text in any::<String>(),
        raw in proptest::option::of(any::<String>()),
        signature in proptest::option::of(any::<String>()),
        number in any::<u64>(),
        seq in 1..(1u64 << 53),
        more in any::<bool>(),
        prev in any::<[u8; 32]>(),
    ) {
        let mut draft = draft(ProtocolName::ValueContext);
        draft.origin = Origin::Agent;
        draft.raw = raw.map(Bytes::from);
        draft.signature = signature;
        draft.meta = vec![("via", MetaValue::Text(text.clone())), ("answers", MetaValue::Integer(number))];
        let mut out = Vec::new();
        line::render(&draft, draft.envelope.bytes(), seq, &Sha256Digest(prev), more, &mut out);
        let read = line::parse(&out.into()).unwrap();
        prop_assert_eq!((read.seq, read.more, read.prev, read.origin), (seq, more, Sha256Digest(prev), draft.origin));
        prop_assert_eq!((read.protocol, read.eval_ts), (draft.protocol, draft.eval_ts));
        prop_assert_eq!(read.meta_text("via"), Some(text));
        prop_assert_eq!(read.meta_json("answers").map(str::to_owned), Some(number.to_string()));
        prop_assert_eq!((&read.envelope, read.raw, read.signature), (draft.envelope.bytes(), draft.raw, draft.signature));
    }
}
