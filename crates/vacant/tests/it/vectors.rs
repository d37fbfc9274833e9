//! The shared vectors, each against the functions a node calls.

use std::path::PathBuf;

use chancery_vacant::conformance::run;

fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/vacant")
}

/// Runs one file and gives the number of its cases.
fn passes(file: &str) -> usize {
    let text = std::fs::read_to_string(vectors().join(file)).expect("the vectors are in the tree");
    let report = run(&text);
    let failures: Vec<_> = report.failures().collect();
    assert!(failures.is_empty(), "{file}: {failures:#?}");
    report.cases.len()
}

// VA-ID-2, VA-ID-3
#[test]
fn keys() {
    assert_eq!(passes("keys.json"), 18);
}

// VA-CJ-1, VA-CJ-2, VA-CJ-3, VA-CJ-4
#[test]
fn canonical_json() {
    assert_eq!(passes("canonical_json.json"), 10);
}

// VA-TS-1, VA-TS-2, VA-TS-3
#[test]
fn timestamps() {
    assert_eq!(passes("timestamps.json"), 19);
}

// VA-ENV-5, VA-ENV-6, VA-ENV-7, VA-MSG-4, VA-MSG-6, VA-WIRE-1, VA-WIRE-2, VA-WIRE-3
#[test]
fn envelopes() {
    assert_eq!(passes("envelopes_base.json"), 29);
    assert_eq!(passes("envelopes_selfeval.json"), 28);
}

// VA-WIRE-4, VA-WIRE-5, VA-MSG-1, VA-MSG-3
#[test]
fn what_parses() {
    assert_eq!(passes("parse_base.json"), 47);
    assert_eq!(passes("parse_selfeval.json"), 47);
}

// VA-ID-4, VA-ENV-8, VA-WIRE-6, VA-MSG-7
#[test]
fn what_verifies() {
    assert_eq!(passes("tamper_base.json"), 17);
    assert_eq!(passes("tamper_selfeval.json"), 17);
}

// VA-CARD-1, VA-CARD-2, VA-CARD-3, VA-CARD-4, VA-CARD-5, VA-CARD-6, VA-CARD-7, VA-CARD-8
#[test]
fn cards() {
    assert_eq!(passes("cards.json"), 19);
    assert_eq!(passes("card_blobs.json"), 26);
}

// VA-STA-1, VA-STA-2, VA-STA-3
#[test]
fn states() {
    assert_eq!(passes("state_machine.json"), 6);
}

// VA-UCB-2, VA-UCB-3, VA-UCB-4, VA-UCB-5
#[test]
fn scores() {
    assert_eq!(passes("ucb.json"), 20);
}

// VA-DSP-2, VA-DSP-3, VA-DSP-4
#[test]
fn dispatch() {
    assert_eq!(passes("dispatch.json"), 12);
}

// VA-REP-1, VA-REP-2, VA-REP-3, VA-REP-5, VA-MSG-9
#[test]
fn chains() {
    assert_eq!(passes("replay_base.json"), 26);
    assert_eq!(passes("replay_selfeval.json"), 27);
}

// VA-SRV-2, VA-SRV-3, VA-SRV-4, VA-SRV-5, VA-SRV-6, VA-RSP-1, VA-RSP-5, VA-MSG-8, VA-WIRE-10, CH-CFG-3
#[test]
fn servers() {
    assert_eq!(passes("serve_base.json"), 40);
    assert_eq!(passes("serve_selfeval.json"), 38);
}
