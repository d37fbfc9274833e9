//! What the log holds, and what shows when it was changed.

use chancery_core::rows::Row;
use chancery_journal::{Chain, Check};
use chancery_vacant::payload::Profile;

use crate::host::{Host, accepted, replay, verify};

fn story() -> Host {
    let mut host = Host::of(&["bob"]);
    for (text, profile) in [
        ("1", Profile::Base),
        ("2", Profile::SelfEval),
        ("3", Profile::Base),
    ] {
        let call = host.next("ann", "bob", text, profile);
        let call = accepted(host.receive(&call)).call;
        host.answer("bob", call, "ho").unwrap();
    }
    host
}

/// The same lines without some, chained anew: what a forger with the disk would leave.
fn without(host: &Host, left_out: &[usize]) -> Vec<bytes::Bytes> {
    let mut chain = Chain::default();
    let mut lines = Vec::new();
    for (index, text) in host.lines.iter().enumerate() {
        if left_out.contains(&index) {
            continue;
        }
        let seq = chain.head().seq + 1;
        let prev = chain.head().hash.hex();
        let mut value: serde_json::Value = serde_json::from_slice(text).unwrap();
        value["meta"]["prev"] = prev.into();
        value["meta"]["seq"] = seq.into();
        let text = serde_json::to_vec(&value).unwrap();
        let rules = chancery_core::json::ReadRules::OWN;
        let tree = chancery_core::json::read(&text, &rules).unwrap();
        let line =
            chancery_core::canonical::to_bytes(&tree, chancery_core::canonical::Dialect::Vibe);
        let hash = chancery_core::digest::Sha256Digest::of(&line);
        let mut head = chain.head();
        head.seq = seq;
        head.hash = hash;
        chain = Chain::after(head);
        lines.push(line.into());
    }
    lines
}

// CH-JRN-7, CH-JRN-10, CH-JRN-3
#[test]
fn a_log_verifies_and_replays_byte_for_byte() {
    let host = story();
    let report = verify(&host.lines);
    assert!(report.passed(), "{:?}", report.findings);
    assert_eq!(report.signatures, 6);
    let report = replay(&host.lines);
    assert_eq!(report.divergence, None);
    assert_eq!(report.replayed, host.lines.len() as u64);
    let line = chancery_journal::line::parse(&host.lines[1]).unwrap();
    let message: serde_json::Value = serde_json::from_slice(&line.envelope).unwrap();
    assert_eq!(message["parts"][0]["text"], "1");
    assert!(message["metadata"]["urn:vacant:v1"]["caller_signature"].is_string());
    let line = chancery_journal::line::parse(&host.lines[3]).unwrap();
    assert_eq!(line.meta_text("form").as_deref(), Some("selfeval"));
}

// CH-JRN-7, VA-REP-3
#[test]
fn a_call_that_was_taken_out_of_a_rewritten_log_shows_in_its_chain() {
    let host = story();
    let kept = verify(&without(&host, &[]));
    assert!(kept.passed(), "{:?}", kept.findings);
    let report = verify(&without(&host, &[3, 4]));
    let broken = |check: &Check| matches!(check, Check::Protocol(what) if what.contains("REPLAY"));
    assert!(
        report.findings.iter().any(|finding| broken(&finding.check)),
        "{:?}",
        report.findings
    );
}

// VA-ENV-6, CH-JRN-7
#[test]
fn a_changed_text_fails_its_signature() {
    let host = story();
    let mut lines = host.lines.clone();
    let text = String::from_utf8(lines[1].to_vec()).unwrap();
    lines[1] = text.replace("\"text\":\"1\"", "\"text\":\"9\"").into();
    let report = verify(&lines);
    let signature = |check: &Check| matches!(check, Check::Signature(_));
    assert!(
        report
            .findings
            .iter()
            .any(|finding| signature(&finding.check))
    );
}

// VA-PERF-2: what is kept of a pair that rests; the log is kept beside it.
#[test]
fn a_pair_at_rest_takes_at_most_512_bytes() {
    let mut host = Host::of(&["bob"]);
    let fixed: usize = size_of(&host);
    let callers = 64;
    for number in 0..callers {
        let name = format!("caller {number}");
        let call = host.next(&name, "bob", "hi", Profile::Base);
        let call = accepted(host.receive(&call)).call;
        host.answer("bob", call, "ho").unwrap();
    }
    // Each caller has two ordered pairs: to bob, and back.
    let each = (size_of(&host) - fixed) / (2 * callers);
    assert!(each <= 512, "{each}");
}

/// The bytes of all rows, with what the map keeps of each: a hash, where its key is, where its row is.
fn size_of(host: &Host) -> usize {
    let entry = std::mem::size_of::<(u64, Box<[u8]>, Row)>();
    let rows = host.rows().iter();
    rows.map(|(key, row)| key.as_bytes().len() + row.bytes().len() + entry)
        .sum()
}
