//! Canonical bytes as published and as specified.
//!
//! The canonicalizer sorts for itself, so a build in which some dependency turned on serde_json's
//! `preserve_order` gives the same bytes. To see it, run these tests once more in such a build:
//! `cargo test -p chancery-core --features serde_json/preserve_order`. It is a command of its own and no
//! member of the workspace, because a member would turn the feature on for every other test.

use std::path::PathBuf;
use std::process::Command;

use chancery_core::canonical::{Dialect, canonical_cutting, to_bytes, write_without_member};
use chancery_core::json::{FaultKind, Integers, ReadRules, Value, read};
use sha2::{Digest, Sha256};

use crate::canonical_support::{foreign, permissive, unhex, vectors};

fn text<'v>(case: &'v serde_json::Value, member: &str) -> &'v str {
    case[member]
        .as_str()
        .unwrap_or_else(|| panic!("{member} of {case}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn value_context_vectors() {
    // VX-ENV-6, VX-CAN-1 to VX-CAN-5, VX-CAN-7, VX-CAN-8
    let file = vectors("value-context/canonicalization.json");
    let cases = file["vectors"].as_array().unwrap();
    assert_eq!(cases.len(), 37);
    for case in cases {
        let id = text(case, "id");
        let input = unhex(text(case, "input_hex"));
        let outcome = read(&input, &ReadRules::VALUE_CONTEXT);
        if case.get("error").is_some() {
            assert_eq!(text(case, "error"), "malformed_json", "{id}");
            assert_ne!(outcome.expect_err(id).kind, FaultKind::TooLarge, "{id}");
            continue;
        }
        let value = outcome.unwrap_or_else(|fault| panic!("{id}: {fault}"));
        let jcs = canonical_cutting(&value, "signature", Dialect::Rfc8785);
        assert_eq!(hex(jcs.bytes()), text(case, "jcs_hex"), "{id}");
        let legacy = hex(&to_bytes(&value, Dialect::Python));
        assert_eq!(legacy, text(case, "legacy_hex"), "{id}");
        let same = case["same"].as_bool().unwrap();
        assert!(same || !jcs.agree(), "{id}: the dialects differ");
        let vibe = to_bytes(&value, Dialect::Vibe);
        assert_eq!(jcs.agree(), same && vibe == jcs.bytes(), "{id}");
    }
}

#[test]
fn vibe_vectors() {
    // VC-CAN-1 to VC-CAN-5, VC-ENV-18, VC-IDEM-3, VC-MON-4. No case has a money field, so every integer must
    // be in range.
    let rules = ReadRules {
        integers: Integers::Safe,
        ..ReadRules::VIBE
    };
    let file = vectors("vibe/canonical.json");
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 43);
    for case in cases {
        let input = text(case, "input");
        let outcome = read(input.as_bytes(), &rules);
        if case.get("error").is_some() {
            assert_eq!(text(case, "error"), "malformed_json", "{input}");
            assert!(outcome.is_err(), "{input}");
            continue;
        }
        let value = outcome.unwrap();
        let bytes = to_bytes(&value, Dialect::Vibe);
        assert_eq!(hex(&bytes), text(case, "canonical_hex"), "{input}");
        assert_eq!(
            hex(&Sha256::digest(&bytes)),
            text(case, "sha256"),
            "{input}"
        );
        if case.get("fingerprint").is_some() {
            assert_eq!(fingerprint(value), text(case, "fingerprint"), "{input}");
        }
    }
}

/// VC-IDEM-3
fn fingerprint(value: Value<'_>) -> String {
    let Value::Object(mut envelope) = value else {
        panic!("an envelope is an object");
    };
    for name in ["msg_id", "ts", "signature"] {
        envelope.remove(name);
    }
    for name in ["in_reply_to", "idempotency_key"] {
        if !envelope.contains(name) {
            envelope.insert(name, Value::Null);
        }
    }
    hex(&Sha256::digest(to_bytes(
        &Value::Object(envelope),
        Dialect::Vibe,
    )))
}

#[test]
fn vacant_vectors() {
    // VA-CJ-1 to VA-CJ-3. The objects stand in the file as JSON, so the file is read by our reader.
    let file = vectors("vacant/canonical_json.json");
    let file = serde_json::to_vec(&file).unwrap();
    let file = read(&file, &ReadRules::VACANT).unwrap();
    let cases = file.get("cases").unwrap().as_array().unwrap();
    assert_eq!(cases.len(), 10);
    for case in cases {
        let bytes = to_bytes(case.get("object").unwrap(), Dialect::Python);
        let expected = case.get("canonical_hex").unwrap().as_str().unwrap();
        assert_eq!(hex(&bytes), expected, "{:?}", case.get("id"));
    }
}

#[test]
fn signed_messages_are_cut_from_one_buffer() {
    // VX-CAN-1: real envelopes, with the signature wherever it falls.
    let file = vectors("value-context/requests.json");
    let mut envelopes = 0;
    for case in file["vectors"].as_array().unwrap() {
        let Some(body) = case["body"].as_str() else {
            continue;
        };
        let Ok(value) = read(body.as_bytes(), &ReadRules::VALUE_CONTEXT) else {
            continue;
        };
        for dialect in [Dialect::Rfc8785, Dialect::Python, Dialect::Vibe] {
            let canonical = canonical_cutting(&value, "signature", dialect);
            let mut without = b"kept".to_vec();
            write_without_member(&value, "signature", dialect, &mut without);
            assert_eq!(canonical.signed_bytes(), without[4..]);
            assert_eq!(canonical.bytes(), to_bytes(&value, dialect));
        }
        envelopes += 1;
    }
    assert!(envelopes > 50, "{envelopes}");
}

#[test]
fn published_pairs() {
    // VX-CAN-1 to VX-CAN-4
    let Some(folder) = foreign("json/jcs", "6 published pairs of RFC 8785") else {
        return;
    };
    for name in [
        "arrays",
        "french",
        "structures",
        "unicode",
        "values",
        "weird",
    ] {
        let input = std::fs::read(folder.join(format!("{name}.input.json"))).unwrap();
        let output = std::fs::read(folder.join(format!("{name}.output.json"))).unwrap();
        assert_canonical(&input, &output, name);
    }
}

#[test]
fn published_pairs_of_the_package() {
    // The oracle's package carries the published pairs and the two examples printed in the RFC.
    let resources = package_folder("serde_json_canonicalizer").join("tests/resources");
    let pairs = [
        "arrays",
        "french",
        "structures",
        "unicode",
        "values",
        "weird",
    ];
    for name in pairs {
        let file = |folder| resources.join("testdata").join(folder).join(name);
        let input = std::fs::read(file("input").with_extension("json")).unwrap();
        let output = std::fs::read_to_string(file("outhex").with_extension("txt")).unwrap();
        let output: String = output.split_whitespace().collect();
        assert_canonical(&input, &unhex(&output), name);
    }
    for name in ["rfc_example", "rfc_sorting"] {
        let input = std::fs::read(resources.join(format!("{name}.input.json"))).unwrap();
        let output = std::fs::read(resources.join(format!("{name}.expected.json"))).unwrap();
        assert_canonical(&input, &output, name);
    }
}

fn assert_canonical(input: &[u8], output: &[u8], name: &str) {
    let written = to_bytes(&permissive(input), Dialect::Rfc8785);
    let (written, output) = (
        String::from_utf8(written).unwrap(),
        str::from_utf8(output).unwrap(),
    );
    assert_eq!(written, output.trim_end(), "{name}");
}

/// Where the build took a package from. Only the host's packages are asked for: others may not be there.
fn package_folder(package: &str) -> PathBuf {
    let cargo = |args: &[&str]| {
        let output = Command::new(env!("CARGO")).args(args).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let version = cargo(&["-vV"]);
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap();
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let metadata = cargo(&[
        "metadata",
        "--offline",
        "--format-version=1",
        "--filter-platform",
        host,
        "--manifest-path",
        manifest,
    ]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let found = packages.iter().find(|p| p["name"] == package).unwrap();
    PathBuf::from(text(found, "manifest_path"))
        .parent()
        .unwrap()
        .to_owned()
}
