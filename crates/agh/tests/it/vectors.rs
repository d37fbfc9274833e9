//! The shared vector files, one test a file: it says which requirements the cases of that file show.

use chancery_agh::conformance::{run, suites};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/agh");

/// Runs a file; every case has to pass.
fn passes(file: &str, cases: usize) {
    let text = std::fs::read_to_string(format!("{FOLDER}/{file}.json")).unwrap();
    let report = run(&text);
    let failures: Vec<_> = report.failures().collect();
    assert!(failures.is_empty(), "{file}: {failures:#?}");
    assert_eq!(report.cases.len(), cases, "{file}");
}

#[test]
fn every_file_has_a_runner_and_every_runner_a_file() {
    let mut titles = Vec::new();
    for entry in std::fs::read_dir(FOLDER).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        titles.push(run(&text).suite);
    }
    titles.sort();
    let mut known: Vec<_> = suites().map(str::to_owned).collect();
    known.sort();
    assert_eq!(titles, known);
}

// AG-JSON-1, AG-JSON-2, AG-JSON-4, AG-JSON-7, AG-ENV-1, AG-ENV-2, AG-ENV-3, AG-ENV-4, AG-ENV-5, AG-ENV-6, AG-ENV-7, AG-ENV-8,
// AG-ENV-9, AG-ENV-11, AG-ENV-12, AG-ENV-13, AG-ENV-14, AG-ENV-15, AG-ENV-16, AG-ENV-17, AG-ENV-18, AG-VAL-3, AG-VAL-4, AG-VAL-5,
// AG-FRS-1, AG-FRS-2, AG-FRS-3, AG-EXT-1, AG-EXT-7, AG-KND-2, AG-KND-3, AG-KND-4, AG-CARD-1, AG-CARD-3, AG-CARD-5, AG-CARD-6,
// AG-CARD-7, AG-GRT-1, AG-WHO-1, AG-WHO-2, AG-SAY-1, AG-SAY-2, AG-DIR-1, AG-CAP-1, AG-CAP-2, AG-CAP-3, AG-CAP-4, AG-CAP-5, AG-RCP-1,
// AG-RCP-2, AG-TRC-1, AG-TRC-2
#[test]
fn envelopes_of_revision_a() {
    passes("envelopes", 166);
}

// AG-B-1, AG-B-2, AG-B-3, AG-B-4, AG-B-5, AG-B-6, AG-B-7, AG-B-8, AG-B-9, AG-B-41, AG-B-42
#[test]
fn envelopes_of_both_revisions() {
    passes("rev-b-envelopes", 33);
}

// AG-LIF-1, AG-LIF-2, AG-LIF-3, AG-LIF-4, AG-LIF-5, AG-LIF-6, AG-LIF-7, AG-DIR-2
#[test]
fn interactions() {
    passes("lifecycle", 20);
}

// AG-B-21, AG-B-22
#[test]
fn work() {
    passes("rev-b-work", 5);
}

// AG-RTE-1, AG-RTE-2, AG-RTE-3, AG-WHO-4, AG-PRS-3
#[test]
fn routing() {
    passes("routing", 15);
}

// AG-DUP-3, AG-FRS-2
#[test]
fn duplicates() {
    passes("dedupe", 5);
}

// AG-PRS-4
#[test]
fn presence() {
    passes("presence", 6);
}

// AG-WHO-3
#[test]
fn questions() {
    passes("whois-match", 11);
}

// AG-WHO-7, AG-WHO-8
#[test]
fn catalogs() {
    passes("whois-catalog", 8);
}

// AG-DIG-1
#[test]
fn digests_of_capabilities() {
    passes("capability-digests", 9);
}

// AG-NAT-1, AG-NAT-2
#[test]
fn subjects() {
    passes("route-tokens", 9);
}

// AG-B-24
#[test]
fn subjects_of_revision_b() {
    passes("rev-b-subjects", 4);
}

// AG-B-7
#[test]
fn direct_rooms() {
    passes("rev-b-direct-ids", 5);
}

// AG-TRU-2, AG-TRU-3, AG-TRU-4, AG-TRU-5, AG-TRU-6, AG-TRU-7, AG-TRU-12
#[test]
fn proofs() {
    passes("trust", 17);
}
