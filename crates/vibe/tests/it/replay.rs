//! Replay: the rules over the log give every line again, and the same envelopes always give the same log.

use std::collections::BTreeMap;

use bytes::Bytes;
use chancery_core::digest::Sha256Digest;
use chancery_core::json::{self, Object, ReadRules, Value};
use chancery_core::line::Draft;
use chancery_core::rows::MapRows;
use chancery_journal::{Chain, Lines, ReplayReport, Replayer, Verifier, prepare, prepare_under};
use chancery_vibe::conformance::{Host, Play, play, verbatim};
use chancery_vibe::message::Message;
use chancery_vibe::settings::Settings;
use chancery_vibe::world::hash::{state_hash, world_hash};
use chancery_vibe::world::seed::Seed;

use crate::suite::VibeSuite;
use crate::vectors::files;

/// The lines of a node's units, as its log holds them.
pub fn lines(units: &[Vec<Draft>]) -> Vec<Bytes> {
    let mut chain = Chain::default();
    let mut lines = Lines::default();
    for unit in units {
        let drafts = unit
            .iter()
            .map(|draft| (draft, draft.envelope.bytes().clone()));
        chain.append_unit(drafts, &mut lines);
    }
    lines.into_bytes()
}

/// Replays a log on a seed.
pub fn replay(lines: &[Bytes], seed: &Seed) -> (ReplayReport, MapRows) {
    let mut replayer = Replayer::new(VibeSuite, seed.rows()).unwrap();
    for line in lines {
        let terms = replayer.terms();
        replayer.take(prepare_under(&VibeSuite, line.clone(), &terms));
    }
    replayer.finish()
}

/// Every transcript of the vectors and of this crate, with its seed.
pub fn transcripts(mut each: impl FnMut(&Value<'_>, &Seed)) {
    for folder in ["../../vectors/vibe", "tests/transcripts"] {
        for path in files(folder) {
            let text = std::fs::read(&path).unwrap();
            let file = json::read(&text, &ReadRules::OWN).unwrap();
            let Some(transcripts) = file.get("transcripts") else {
                continue;
            };
            for transcript in transcripts.as_array().unwrap() {
                let mut world = Vec::new();
                verbatim(transcript.get("world").unwrap(), &mut world);
                each(transcript, &Seed::parse(&world).unwrap());
            }
        }
    }
}

/// The text of every step of every transcript, by the transcript's name.
pub fn steps() -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut steps = BTreeMap::new();
    transcripts(|transcript, _| {
        let id = transcript.get("id").and_then(Value::as_str).unwrap();
        let all = transcript.get("steps").unwrap().as_array().unwrap();
        let texts = all.iter().map(|step| {
            let mut text = Vec::new();
            verbatim(step, &mut text);
            text
        });
        let before = steps.insert(id.to_owned(), texts.collect());
        assert!(before.is_none(), "two transcripts are called {id}");
    });
    steps
}

/// Says something that a reader of the run wants to know.
pub fn tell(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Plays a transcript, each body rewritten, and looks at the node at the end.
pub fn play_as(
    transcript: &Value<'_>,
    rewrite: &dyn Fn(&[u8]) -> Vec<u8>,
    at_end: &mut dyn FnMut(&Host),
) {
    let mut play_ = Play {
        rewrite,
        at_end: &mut |host| {
            at_end(host);
            Ok(())
        },
    };
    let id = transcript.get("id").and_then(Value::as_str).unwrap();
    play(transcript, &mut play_).unwrap_or_else(|reason| panic!("{id}: {reason}"));
}

#[test]
fn every_transcript_is_replayed_byte_for_byte() {
    // VC-RPL-1, VC-RPL-2, VC-IDEM-8, VC-SIG-1, VC-SIG-6, CH-JRN-7
    let (mut logs, mut count, mut signatures) = (0, 0, 0);
    transcripts(|transcript, seed| {
        play_as(transcript, &|body| body.to_vec(), &mut |host| {
            let lines = lines(host.units());
            let (report, rows) = replay(&lines, seed);
            let id = transcript.get("id").and_then(Value::as_str).unwrap();
            assert_eq!(report.divergence, None, "{id}");
            assert_eq!(report.replayed, lines.len() as u64, "{id}");
            assert_eq!(world_hash(&rows), world_hash(host.rows()), "{id}");
            assert_eq!(state_hash(&rows), state_hash(host.rows()), "{id}");
            logs += 1;
            count += lines.len();
            signatures += report.signatures;
        });
    });
    tell(&format!(
        "{logs} logs, {count} lines, {signatures} signatures"
    ));
    assert!(signatures > 0, "the signed transcripts have signatures");
}

#[test]
fn every_line_is_canonical_chained_and_signed() {
    // VC-AUD-1, VC-AUD-2, VC-CAN-1, CH-JRN-7
    transcripts(|transcript, _| {
        play_as(transcript, &|body| body.to_vec(), &mut |host| {
            let mut verifier = Verifier::new(VibeSuite);
            for line in lines(host.units()) {
                let keys = verifier.keyring().clone();
                verifier.take(prepare(&VibeSuite, line, &keys));
            }
            let report = verifier.finish(None);
            assert!(report.passed(), "{:?}", report.findings);
        });
    });
}

/// What an envelope on record is, read from its bytes and from its tree.
fn read_both_ways(envelope: &Bytes, settings: &Settings) -> [Option<String>; 2] {
    let tree = json::read(envelope, &ReadRules::OWN).unwrap();
    let by_bytes = Message::decode_recorded(envelope, settings).ok();
    let by_tree = Message::of_recorded(&tree, envelope, settings);
    [by_bytes, by_tree].map(|message| message.map(|message| format!("{message:?}")))
}

#[test]
fn an_envelope_whose_tree_is_at_hand_reads_as_its_bytes_do() {
    // CH-JRN-7, VC-RPL-2
    let mut read = 0;
    transcripts(|transcript, _| {
        play_as(transcript, &|body| body.to_vec(), &mut |host| {
            for draft in host.units().iter().flatten() {
                let envelope = draft.envelope.bytes();
                let [by_bytes, by_tree] = read_both_ways(envelope, host.settings());
                assert_eq!(by_bytes, by_tree);
                read += usize::from(by_bytes.is_some());
            }
        });
    });
    assert!(read > 1_000, "{read}");
}

#[test]
fn a_tree_that_the_protocol_would_not_read_is_no_envelope() {
    // VC-ENV-18
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let with = |extra: &str| {
        let text = format!(
            r#"{{"action":{{"kind":"commerce.search","payload":{{"query":"x"}}}},"extra":{extra},"from":"buyer:discovery","idempotency_key":null,"in_reply_to":null,"msg_id":"m","protocol":"vcp","session_id":"s","signature":null,"to":"platform:aggregator","ts":"2026-05-15T12:00:00Z","version":"1.0"}}"#
        );
        read_both_ways(&text.into(), &Settings::default())
    };
    for (extra, is_read) in [
        ("1".to_owned(), true),
        (deep(63), true),
        (deep(64), false),
        ("1e999".to_owned(), false),
        (format!("\"{}\"", "x".repeat(262_144)), false),
    ] {
        let [by_bytes, by_tree] = with(&extra);
        assert_eq!(by_bytes.is_some(), is_read);
        assert_eq!(by_bytes, by_tree);
    }
}

/// The same value with members in another order and blanks between all tokens.
fn shuffled(value: &Value<'_>) -> Value<'static> {
    match value.clone().into_owned() {
        Value::Object(object) => {
            let mut members: Vec<(String, Value<'static>)> = object
                .iter()
                .map(|(name, value)| (name.to_owned(), shuffled(value)))
                .collect();
            members.sort_by_key(|(name, _)| Sha256Digest::of(name.as_bytes()).0);
            Value::Object(members.into_iter().collect::<Object<'static>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(shuffled).collect()),
        scalar => scalar,
    }
}

fn spread(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Object(object) => {
            out.extend_from_slice(b" {\n");
            for (index, (name, value)) in object.iter().enumerate() {
                out.extend_from_slice(if index == 0 { b"\t" } else { b" ,\r\n " });
                spread(&Value::from(name), out);
                out.extend_from_slice(b" : ");
                spread(value, out);
            }
            out.extend_from_slice(b" } ");
        }
        scalar => verbatim(scalar, out),
    }
}

#[test]
fn key_order_and_white_space_leave_no_trace() {
    // VC-RPL-3, VC-IDEM-3
    let rewrite = |body: &[u8]| {
        let value = json::read(body, &ReadRules::OWN).unwrap();
        let mut text = Vec::new();
        spread(&shuffled(&value), &mut text);
        assert_ne!(text, body);
        text
    };
    transcripts(|transcript, _| {
        let mut plain = Vec::new();
        play_as(transcript, &|body| body.to_vec(), &mut |host| {
            plain = lines(host.units());
        });
        play_as(transcript, &rewrite, &mut |host| {
            assert_eq!(lines(host.units()), plain);
        });
    });
}

#[test]
fn a_line_that_was_edited_is_found() {
    // VC-RPL-2, CH-JRN-7
    let mut edited = 0;
    transcripts(|transcript, seed| {
        if transcript.get("id").and_then(Value::as_str) != Some("settlement/by-buyer") {
            return;
        }
        play_as(transcript, &|body| body.to_vec(), &mut |host| {
            let log = lines(host.units());
            for (index, line) in log.iter().enumerate() {
                let text = std::str::from_utf8(line).unwrap();
                let Some(at) = text.find("\"ts\":\"2026") else {
                    continue;
                };
                let mut changed = text.as_bytes().to_vec();
                changed[at + 9] = b'5';
                let mut log = log.clone();
                log[index] = changed.into();
                let (report, _) = replay(&log, seed);
                assert!(report.divergence.is_some(), "line {}", index + 1);
                edited += 1;
            }
        });
    });
    assert!(edited > 5, "the settlement has lines to edit");
}
