//! Every case of the Wycheproof suites for Ed25519 and for ECDSA P-256 with SHA-256 in r‖s form.

use std::collections::BTreeMap;
use std::path::Path;

use chancery_core::digest::hex;
use chancery_core::keys::{ed25519, p256};
use serde_json::Value;
use wycheproof::TestResult;

use crate::keys_vectors::text;

/// Cases that the suite calls valid and we refuse, with the reason.
type Stricter = &'static [(usize, &'static str)];

/// VX-SIG-6, VA-ID-4: none. No case has a valid signature under a small or oddly encoded key.
const ED25519_STRICTER: Stricter = &[];
const P256_STRICTER: Stricter = &[];

/// What came of one suite.
#[derive(Default)]
struct Tally {
    accepted: usize,
    refused: usize,
    stricter: BTreeMap<usize, bool>,
}

impl Tally {
    fn new(stricter: Stricter) -> Self {
        Self {
            stricter: stricter.iter().map(|(id, _)| (*id, false)).collect(),
            ..Self::default()
        }
    }

    /// Holds one answer against the suite's.
    fn case(&mut self, id: usize, expected: TestResult, accepted: bool) {
        match expected {
            TestResult::Valid if self.stricter.contains_key(&id) => {
                assert!(!accepted, "case {id} is listed as refused, but accepted");
                self.stricter.insert(id, true);
            }
            TestResult::Valid => assert!(accepted, "valid case {id} refused"),
            TestResult::Invalid => assert!(!accepted, "invalid case {id} accepted"),
            TestResult::Acceptable => panic!("case {id} leaves the answer open"),
        }
        if accepted {
            self.accepted += 1;
        } else {
            self.refused += 1;
        }
    }

    fn finish(self, suite: &str, number_of_tests: usize) {
        assert_eq!(self.accepted + self.refused, number_of_tests);
        assert!(self.accepted > 0 && self.refused > 0);
        assert!(
            self.stricter.values().all(|seen| *seen),
            "a listed case was not met: {:?}",
            self.stricter
        );
        println!(
            "{suite}: {number_of_tests} cases, {} accepted, {} refused, {} of these stricter than the suite",
            self.accepted,
            self.refused,
            self.stricter.len()
        );
    }
}

fn ed25519_verifies(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    ed25519::VerifyingKey::from_bytes(key).is_ok_and(|key| key.verify(message, signature))
}

fn p256_verifies(point: &[u8], message: &[u8], signature: &[u8]) -> bool {
    p256::VerifyingKey::from_uncompressed(point).is_ok_and(|key| key.verify(message, signature))
}

// VX-SIG-6, VA-ID-4
#[test]
fn ed25519_agrees_on_every_case() {
    use wycheproof::eddsa::{TestName, TestSet};
    let set = TestSet::load(TestName::Ed25519).unwrap();
    let mut tally = Tally::new(ED25519_STRICTER);
    for group in &set.test_groups {
        for case in &group.tests {
            let accepted = ed25519_verifies(&group.key.pk, &case.msg, &case.sig);
            tally.case(case.tc_id, case.result, accepted);
        }
    }
    tally.finish("Ed25519", set.number_of_tests);
}

// VC-SIG-2
#[test]
fn p256_agrees_on_every_case() {
    use wycheproof::ecdsa::{TestName, TestSet};
    let set = TestSet::load(TestName::EcdsaSecp256r1Sha256P1363).unwrap();
    let mut tally = Tally::new(P256_STRICTER);
    for group in &set.test_groups {
        for case in &group.tests {
            let accepted = p256_verifies(&group.key.key, &case.msg, &case.sig);
            tally.case(case.tc_id, case.result, accepted);
        }
    }
    tally.finish("ECDSA P-256 SHA-256 P1363", set.number_of_tests);
}

/// The same suites from a folder outside, which may be newer than the package.
#[test]
fn foreign_files_agree_on_every_case() {
    let files = [
        "ed25519_test.json",
        "ecdsa_secp256r1_sha256_p1363_test.json",
    ];
    let Some(folder) = std::env::var_os("CHANCERY_FOREIGN_VECTORS") else {
        println!(
            "CHANCERY_FOREIGN_VECTORS is not set: {} files left out",
            files.len()
        );
        return;
    };
    let folder = Path::new(&folder).join("crypto");
    let [ed25519, p256] = files.map(|file| {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str::<Value>(&text).unwrap()
    });
    run_foreign(
        "Ed25519 file",
        &ed25519,
        "pk",
        ED25519_STRICTER,
        ed25519_verifies,
    );
    run_foreign(
        "P-256 file",
        &p256,
        "uncompressed",
        P256_STRICTER,
        p256_verifies,
    );
}

fn run_foreign(
    suite: &str,
    file: &Value,
    key_member: &str,
    stricter: Stricter,
    verifies: fn(&[u8], &[u8], &[u8]) -> bool,
) {
    let mut tally = Tally::new(stricter);
    for group in file["testGroups"].as_array().unwrap() {
        let key = hex::decode(text(&group["publicKey"], key_member)).unwrap();
        for case in group["tests"].as_array().unwrap() {
            let message = hex::decode(text(case, "msg")).unwrap();
            let signature = hex::decode(text(case, "sig")).unwrap();
            let expected = match text(case, "result") {
                "valid" => TestResult::Valid,
                "invalid" => TestResult::Invalid,
                _ => TestResult::Acceptable,
            };
            let id = usize::try_from(case["tcId"].as_u64().unwrap()).unwrap();
            tally.case(id, expected, verifies(&key, &message, &signature));
        }
    }
    let number = usize::try_from(file["numberOfTests"].as_u64().unwrap()).unwrap();
    tally.finish(suite, number);
}
