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
    // VC-ACT-commerce.accept_offer-3, VC-ACT-commerce.accept_offer-4, VC-ACT-commerce.counter_offer-1
    // VC-ACT-commerce.counter_offer-2, VC-ACT-commerce.counter_offer-3, VC-ACT-commerce.create_cart-1
    // VC-ACT-commerce.create_cart-2, VC-ACT-commerce.dispatch-1, VC-ACT-commerce.dispatch-2
    // VC-ACT-commerce.dispatch-3, VC-ACT-commerce.dispatch-4, VC-ACT-commerce.propose_offer-1
    // VC-ACT-commerce.propose_offer-3, VC-ACT-commerce.propose_offer-4, VC-ACT-commerce.request_offer-1
    // VC-ACT-commerce.request_offer-2, VC-ACT-commerce.request_return-1, VC-ACT-commerce.request_return-2
    // VC-ACT-commerce.respond_inquiry-1, VC-ACT-commerce.respond_return-1, VC-ACT-commerce.search-1
    // VC-ACT-delegate.approve_purchase-2, VC-ACT-delegate.approve_purchase-3
    // VC-ACT-delegate.create_purchase_mandate-1, VC-ACT-delegate.create_purchase_mandate-2
    // VC-ACT-delegate.create_purchase_mandate-3, VC-ACT-platform.authorize_payment-1
    // VC-ACT-platform.authorize_payment-2, VC-ACT-platform.authorize_payment-3
    // VC-ACT-platform.create_match_certificate-1, VC-ACT-platform.create_match_certificate-2
    // VC-ACT-platform.create_match_certificate-3, VC-ACT-platform.create_match_certificate-4
    // VC-ACT-platform.open_dispute-1, VC-ACT-platform.open_dispute-2, VC-ACT-platform.rank_offers-1
    // VC-ACT-platform.rank_offers-2, VC-ACT-platform.refund_payment-1, VC-ACT-platform.request_evidence-1
    // VC-ACT-platform.rule_dispute-1, VC-ACT-platform.rule_dispute-2, VC-ACT-platform.rule_dispute-3
    // VC-ACT-platform.settle_payment-1, VC-ACT-platform.settle_payment-2, VC-ACT-platform.settle_payment-3
    // VC-ACT-platform.submit_evidence-1, VC-ACT-platform.verify_claims-1, VC-ACT-platform.verify_claims-2
    // VC-ACT-world-2, VC-ADR-2, VC-ADR-5, VC-ADR-6, VC-ADR-7, VC-AP2-2, VC-CAN-1, VC-CAN-2, VC-CAN-3, VC-CAN-4
    // VC-CAN-5, VC-CAN-6, VC-CAN-7, VC-DSP-1, VC-DSP-3, VC-DSP-4, VC-ENV-1, VC-ENV-2, VC-ENV-3, VC-ENV-4
    // VC-ENV-6, VC-ENV-7, VC-ENV-8, VC-ENV-9, VC-ENV-10, VC-ENV-11, VC-ENV-12, VC-ENV-15, VC-ENV-16, VC-ENV-17
    // VC-ENV-18, VC-GATE-1, VC-GATE-2, VC-GATE-3, VC-GATE-4, VC-HTTP-1, VC-HTTP-6, VC-IDEM-1, VC-IDEM-3
    // VC-IDEM-4, VC-IDEM-5, VC-IDEM-7, VC-IDEM-9, VC-MON-1, VC-MON-2, VC-MON-3, VC-MON-4, VC-MON-5
    // VC-OBJ-GroundedOffer-1, VC-OBJ-MatchCertificate-2, VC-OBJ-MatchCertificate-3, VC-OBJ-OfferMandate-1
    // VC-OBJ-PurchaseMandate-1, VC-OBJ-TransactionStateDiff-2, VC-PART-1, VC-PART-2, VC-PART-3, VC-PART-4
    // VC-PART-5, VC-PIPE-1, VC-PIPE-4, VC-PIPE-5, VC-PLAT-1, VC-PLAT-2, VC-PLAT-3, VC-PLAT-4, VC-PRIV-3
    // VC-PRIV-6, VC-PRIV-7, VC-PRIV-8, VC-PRIV-9, VC-PRIV-10, VC-REP-1, VC-REP-2, VC-SET-1, VC-SET-2, VC-SET-4
    // VC-SET-5, VC-SIG-2, VC-SIG-3, VC-SIG-4, VC-SIG-5, VC-SIG-7, VC-SM-1, VC-SM-2, VC-SM-3, VC-SM-4, VC-SM-5
    // VC-WLD-4
    run_all("../../vectors/vibe");
}

#[test]
fn every_transcript_of_our_own_passes() {
    // VC-ACT-commerce.create_cart-1, VC-ACT-commerce.create_cart-2, VC-ACT-commerce.respond_return-1
    // VC-ACT-delegate.reject_purchase-2, VC-ACT-platform.authorize_payment-2
    // VC-ACT-platform.authorize_payment-3, VC-ACT-platform.create_match_certificate-2
    // VC-ACT-platform.rule_dispute-1, VC-ACT-platform.rule_dispute-2, VC-ACT-platform.settle_payment-3
    // VC-ACT-world-3, VC-ACT-world-4, VC-AP2-2, VC-CLR-2, VC-CLR-4, VC-CLR-5, VC-CLR-6, VC-CLR-8, VC-CLR-12
    // VC-CLR-14, VC-CLR-15, VC-CLR-20, VC-DSP-3, VC-DSP-5, VC-GATE-4, VC-HTTP-3, VC-OBJ-PurchaseMandate-2
    // VC-PART-3, VC-PIPE-1, VC-SET-4, VC-SIG-2, VC-SIG-4, VC-SM-1, VC-SM-2, VC-SM-5, VC-SM-3, VC-SM-4, VC-AUD-3
    // VC-ACT-commerce.reject_offer-1, VC-ACT-platform.refund_payment-1, VC-ACT-platform.rule_dispute-3, VC-DSP-4
    // VC-ACT-commerce.search-3, VC-PRIV-1, VC-PRIV-4, VC-PRIV-5, VC-CLR-16, VC-GEN-5, VC-PIPE-3, VC-SET-6, VC-PIPE-5
    // VC-WLD-1, VC-WLD-4, VC-SIG-5, VC-ADR-7, VC-REP-2, VC-ENV-4, VC-ENV-7, VC-ACT-world-2, VC-SET-2
    // VC-ACT-delegate.approve_purchase-2, VC-OBJ-MatchCertificate-2, VC-OBJ-MatchCertificate-3
    // VC-OBJ-MatchCertificate-4
    run_all("tests/transcripts");
}
