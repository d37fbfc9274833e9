//! Every vector file of this protocol, run as `chancery conform` runs it.

use std::path::{Path, PathBuf};

use chancery_vibe::conformance;

/// All vector files below the workspace's `vectors/vibe`.
pub fn files(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&root)
        .unwrap_or_else(|error| panic!("{}: {error}", root.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", root.display());
    files
}

fn run_all(folder: &str) {
    let (mut passed, mut failures) = (0, Vec::new());
    for path in files(folder) {
        let report = conformance::run(&std::fs::read_to_string(&path).unwrap());
        for (id, outcome) in report.cases {
            match outcome {
                Ok(()) => passed += 1,
                Err(reason) => failures.push(format!("{}: {id}: {reason}", path.display())),
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{passed} passed, {} failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn every_vector_passes() {
    // VC-CAN-1, VC-CAN-2, VC-CAN-3, VC-CAN-4, VC-CAN-6, VC-CAN-7, VC-PART-5, VC-MON-2, VC-PRIV-6, VC-PRIV-7
    run_all("../../vectors/vibe");
}

#[test]
fn every_transcript_of_our_own_passes() {
    // VC-ACT-world-3, VC-OBJ-PurchaseMandate-2, VC-SET-4, VC-CLR-2, VC-CLR-4, VC-CLR-8, VC-CLR-12, VC-CLR-14, VC-CLR-15
    // VC-CLR-20, VC-HTTP-3, VC-SIG-2, VC-SIG-4, VC-ACT-commerce.create_cart-2, VC-ACT-world-4, VC-DSP-3, VC-DSP-5
    run_all("tests/transcripts");
}
