//! The shared vector files.

use chancery_agh::conformance::{run, suites};

/// The files of the protocol's vectors.
fn files() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/agh");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let read = |path| std::fs::read_to_string(path).unwrap();
    paths.into_iter().map(read).collect()
}

// AG-JSON-1 to AG-JSON-4, AG-JSON-7, AG-ENV-1 to AG-ENV-18, AG-VAL-1 to AG-VAL-5, AG-FRS-1 to AG-FRS-4, AG-FRS-6,
// AG-EXT-1, AG-EXT-2, AG-EXT-7, AG-KND-1 to AG-KND-4, AG-CARD-1 to AG-CARD-7, AG-GRT-1, AG-PRS-4, AG-WHO-1 to AG-WHO-5,
// AG-WHO-7, AG-WHO-8, AG-SAY-1, AG-SAY-2, AG-DIR-1, AG-DIR-2, AG-CAP-1 to AG-CAP-5, AG-DIG-1, AG-DIG-2, AG-RCP-1,
// AG-RCP-2, AG-RSN-1, AG-TRC-1, AG-TRC-2, AG-LIF-1 to AG-LIF-7, AG-RTE-1 to AG-RTE-3, AG-DUP-1 to AG-DUP-3, AG-NAT-1,
// AG-NAT-2, AG-TRU-2 to AG-TRU-7, AG-TRU-10, AG-TRU-12, AG-B-1 to AG-B-9, AG-B-21, AG-B-22, AG-B-24, AG-B-41, AG-B-42
#[test]
fn every_case_of_every_file_passes() {
    let mut cases = 0;
    let mut seen: Vec<String> = Vec::new();
    for file in files() {
        let report = run(&file);
        let failures: Vec<_> = report.failures().collect();
        assert!(failures.is_empty(), "{}: {failures:#?}", report.suite);
        cases += report.cases.len();
        seen.push(report.suite);
    }
    assert_eq!(cases, 313);
    assert!(suites().all(|suite| seen.iter().any(|title| title == suite)));
}
