//! The vector files, and proof that they notice a broken function.

use crate::support::vector_file;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::Value;
use chancery_core::keys::Keyring;
use chancery_value_context::code::Fault;
use chancery_value_context::conformance::{
    Run, Subject, ThisBuild, run, run_against, run_with, suites,
};
use chancery_value_context::context::ContextFault;
use chancery_value_context::creed::{CreedFault, CreedRef};
use chancery_value_context::signature::{Form, SignatureText, SignedForms};
use chancery_value_context::verify::Verified;

fn file_of(suite: &str) -> String {
    let name = suite.strip_prefix("value-context/").unwrap();
    vector_file(&format!("{name}.json"))
}

fn failed(suite: &str, subject: &dyn Subject) -> Vec<String> {
    run_against(&file_of(suite), subject)
        .failures()
        .map(|(id, _)| id.to_owned())
        .collect()
}

// VX-CAN-1 to VX-CAN-8, VX-ENV-6, VX-SIG-4, VX-SIG-5, VX-ID-2, VX-CRD-1 to VX-CRD-6, VX-CTX-1 to VX-CTX-12,
// VX-PS-3, VX-CA-1, VX-CA-3, VX-CA-4, VX-CP-1 to VX-CP-7, VX-CP-9, VX-ES-1 to VX-ES-4, VX-CTX-8, VX-DUP-1 to VX-DUP-5, VX-RPL-1, VX-RPL-2, VX-RCV-1, VX-RCV-2, VX-RCV-3, VX-ERR-2
#[test]
fn every_case_of_every_suite_passes() {
    let world = vector_file("world.json");
    for suite in suites() {
        let with = Run {
            subject: &ThisBuild,
            world: Some(&world),
            part: None,
        };
        let report = run_with(&file_of(suite), &with);
        let failures: Vec<_> = report.failures().collect();
        assert!(failures.is_empty(), "{suite}: {failures:#?}");
        assert_eq!(report.suite, suite);
        assert!(!report.cases.is_empty());
    }
}

struct WrongNumbers;

impl Subject for WrongNumbers {
    fn canonical(&self, value: &Value<'_>, dialect: Dialect) -> Vec<u8> {
        match dialect {
            Dialect::Rfc8785 => to_bytes(value, Dialect::Python),
            other => to_bytes(value, other),
        }
    }
}

struct NoLegacy;

impl Subject for NoLegacy {
    fn verify<'k>(
        &self,
        sender: &str,
        signed: &SignedForms,
        signature: &SignatureText,
        keys: &'k Keyring,
        _: bool,
    ) -> Result<Verified<'k>, Fault> {
        ThisBuild.verify(sender, signed, signature, keys, false)
    }
}

struct BelievesAnything;

impl Subject for BelievesAnything {
    fn verify<'k>(
        &self,
        _: &str,
        _: &SignedForms,
        _: &SignatureText,
        _: &'k Keyring,
        _: bool,
    ) -> Result<Verified<'k>, Fault> {
        Ok(Verified {
            key_id: "k",
            form: Form::Jcs,
        })
    }
}

struct LaxGrammar;

impl Subject for LaxGrammar {
    fn creed<'a>(&self, text: &'a str) -> Result<CreedRef<'a>, CreedFault> {
        CreedRef::parse(text.trim_end_matches('/'))
    }

    fn validate_context(&self, _: &str) -> Result<(), ContextFault> {
        Ok(())
    }

    fn uuid7(&self, unix_ms: u64, rand_a: u16, rand_b: u64) -> String {
        ThisBuild.uuid7(unix_ms + 1, rand_a, rand_b)
    }
}

#[test]
fn a_planted_fault_makes_vectors_fail() {
    let canonicalization = failed("value-context/canonicalization", &WrongNumbers);
    assert!(canonicalization.contains(&"cn-num-01".to_owned()));
    assert!(!canonicalization.contains(&"cn-001".to_owned()));
    assert_eq!(
        failed("value-context/signed_messages", &NoLegacy),
        ["sg-float-legacy", "sg-key-legacy"]
    );
    assert!(!failed("value-context/signed_messages", &BelievesAnything).is_empty());
    assert_eq!(failed("value-context/creed_uris", &LaxGrammar), ["cr-19"]);
    assert!(failed("value-context/context_strings", &LaxGrammar).contains(&"cx-31".to_owned()));
    assert_eq!(failed("value-context/uuid7", &LaxGrammar).len(), 3);
}

#[test]
fn what_no_runner_knows_is_a_failure() {
    let only_failure = |file: &str| {
        let report = run(file);
        let failures: Vec<_> = report.failures().map(|(_, why)| why.to_owned()).collect();
        assert_eq!(failures.len(), 1, "{failures:?}");
        failures[0].clone()
    };
    assert_eq!(
        only_failure(r#"{"suite":"value-context/unheard-of","vectors":[]}"#),
        "no runner for this suite"
    );
    assert!(only_failure("[]").contains("not an object"));
    assert!(only_failure("{").contains("EOF"));
    let head = r#""suite":"value-context/creed_uris","version":"1.0.0","description":"""#;
    let case =
        r#"{"id":"a","uri":"creed://a/b","valid":true,"issuer":"a","path":"b","version":null"#;
    let file = |more: &str| format!("{{{head},\"vectors\":[{case}{more}}}]}}");
    assert_eq!(run(&file("")).failures().count(), 0);
    assert_eq!(
        only_failure(&file(r#","port":1"#)),
        "no check knows member port"
    );
    assert!(only_failure(&format!("{{{head},\"vectors\":[]}}")).contains("no cases"));
    assert!(
        only_failure(&format!("{{{head},\"more\":1,\"vectors\":[{case}}}]}}")).contains("more")
    );
    assert!(only_failure(&format!("{{{head},\"vectors\":[{case}}},{case}}}]}}")).contains("id"));
}
