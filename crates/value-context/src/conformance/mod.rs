//! The vector files of this protocol, run against the functions a node calls.
//!
//! Nothing is passed over: a file, a case or a member that no runner knows is a failure. Expectations come
//! from the file alone. [`Subject`] lets a test put a broken function in place of a true one and see the
//! vectors notice.

mod escalation;
mod grammar;
mod host;
mod requests;
mod signatures;
mod standing;
mod timing;

use crate::code::Fault;
use crate::context::{self, Context, ContextFault};
use crate::creed::{CreedFault, CreedRef};
use crate::message::{DEFAULT_MAX_BYTES, Kind, decode, read_json};
use crate::signature::{SignatureText, SignedForms};
use crate::verify::{Verified, verify_signature};
use chancery_core::canonical::{Dialect, to_bytes};
pub use chancery_core::conformance::SuiteReport;
use chancery_core::conformance::{Case, expect};
use chancery_core::ids;
use chancery_core::json::Value;
use chancery_core::keys::Keyring;
use chancery_core::time::Time;
use std::collections::BTreeSet;

/// The functions that vectors are run against. Each default is the one the node calls.
pub trait Subject {
    /// Reads JSON as the protocol allows it.
    fn read<'a>(&self, text: &'a [u8]) -> Result<Value<'a>, Fault> {
        read_json(text, DEFAULT_MAX_BYTES)
    }

    /// Writes a canonical form.
    fn canonical(&self, value: &Value<'_>, dialect: Dialect) -> Vec<u8> {
        to_bytes(value, dialect)
    }

    /// The bytes that a signature covers.
    fn signed_forms(&self, envelope: &Value<'_>) -> SignedForms {
        SignedForms::of(envelope)
    }

    /// Checks a signature.
    fn verify<'k>(
        &self,
        sender: &str,
        signed: &SignedForms,
        signature: &SignatureText,
        keys: &'k Keyring,
        accept_legacy: bool,
    ) -> Result<Verified<'k>, Fault> {
        let now = Time::UNIX_EPOCH;
        verify_signature(sender, signed, signature, keys, now, accept_legacy)
    }

    /// Lays out a message identifier.
    fn uuid7(&self, unix_ms: u64, rand_a: u16, rand_b: u64) -> String {
        ids::v7(unix_ms, rand_a, rand_b).to_string()
    }

    /// Takes a constitution reference apart.
    fn creed<'a>(&self, text: &'a str) -> Result<CreedRef<'a>, CreedFault> {
        CreedRef::parse(text)
    }

    /// Checks a context string as a message's is checked.
    fn validate_context(&self, text: &str) -> Result<(), ContextFault> {
        context::validate(text)
    }

    /// Takes a context string apart.
    fn parse_context<'a>(&self, text: &'a str) -> Result<Context<'a>, ContextFault> {
        Context::parse(text)
    }
}

/// The functions of this build.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisBuild;

impl Subject for ThisBuild {}

/// What a file is run with.
pub struct Run<'a> {
    /// The functions under test.
    pub subject: &'a dyn Subject,
    /// The text of `world.json` beside the file, which some suites speak of.
    pub world: Option<&'a str>,
    /// A part of a suite, where it has one of that name.
    pub part: Option<&'a str>,
}

type Runner = fn(&mut Case, &Run<'_>) -> Result<(), String>;

/// Suites by the name their files carry.
const RUNNERS: [(&str, Runner); 15] = [
    (
        "value-context/canonicalization",
        signatures::canonicalization,
    ),
    ("value-context/signed_messages", signatures::signed_message),
    ("value-context/uuid7", grammar::uuid7),
    ("value-context/creed_uris", grammar::creed_uri),
    ("value-context/context_strings", grammar::context_string),
    (
        "value-context/context_transitions",
        grammar::context_transition,
    ),
    ("value-context/state_mapping", grammar::state_mapping),
    ("value-context/scope", standing::scope),
    ("value-context/constraints", standing::constraints),
    (requests::SUITE, requests::request),
    ("value-context/dedupe", requests::dedupe),
    (
        "value-context/escalation_obligations",
        escalation::obligations,
    ),
    ("value-context/resume", escalation::resume),
    ("value-context/retry", timing::retry),
    ("value-context/reconnect", timing::reconnect),
];

/// The names of the suites that can be run.
pub fn suites() -> impl Iterator<Item = &'static str> {
    RUNNERS.iter().map(|(suite, _)| *suite)
}

/// Whether a file holds messages, each of which is read: the examples of the specification.
pub fn are_examples(file: &str) -> bool {
    let Ok(mut file) = serde_json::from_str::<serde_json::Value>(file) else {
        return false;
    };
    let messages = file["messages"].take();
    let read =
        |message: &serde_json::Value| decode(message.to_string().into(), DEFAULT_MAX_BYTES).is_ok();
    messages
        .as_array()
        .is_some_and(|messages| !messages.is_empty() && messages.iter().all(read))
}

/// Runs a vector file against this build.
pub fn run(file: &str) -> SuiteReport {
    run_with(
        file,
        &Run {
            subject: &ThisBuild,
            world: None,
            part: None,
        },
    )
}

/// Runs a vector file against other functions.
pub fn run_against(file: &str, subject: &dyn Subject) -> SuiteReport {
    run_with(
        file,
        &Run {
            subject,
            world: None,
            part: None,
        },
    )
}

/// Runs a vector file with what it needs.
pub fn run_with(file: &str, run: &Run<'_>) -> SuiteReport {
    let mut file = match Case::parse(file) {
        Ok(file) => file,
        Err(reason) => return SuiteReport::unreadable("", reason),
    };
    let suite = match file.text("suite") {
        Ok(suite) => suite,
        Err(reason) => return SuiteReport::unreadable("", reason),
    };
    let Some((_, runner)) = RUNNERS.iter().find(|(known, _)| *known == suite) else {
        return SuiteReport::unreadable(&suite, "no runner for this suite");
    };
    let cases = match cases_of(file).and_then(|cases| part_of(&suite, cases, run.part)) {
        Ok(cases) => cases,
        Err(reason) => return SuiteReport::unreadable(&suite, reason),
    };
    let mut ids = BTreeSet::new();
    let run_case = |mut case: Case| {
        let id = case.text("id").unwrap_or_default();
        let outcome = if id.is_empty() || !ids.insert(id.clone()) {
            Err("the case has no id of its own".to_owned())
        } else {
            case.optional_text("note")
                .and_then(|_| runner(&mut case, run))
                .and_then(|()| case.finish())
        };
        (id, outcome)
    };
    SuiteReport {
        suite,
        cases: cases.into_iter().map(run_case).collect(),
    }
}

/// The cases of a part of a suite; all of them when no part is named.
fn part_of(suite: &str, cases: Vec<Case>, part: Option<&str>) -> Result<Vec<Case>, String> {
    match part {
        None => Ok(cases),
        Some(part) if suite == requests::SUITE && Kind::named(part).is_some() => Ok(cases
            .into_iter()
            .filter(|case| requests::is_about(case, part))
            .collect()),
        Some(part) => Err(format!("this suite has no part {part}")),
    }
}

fn cases_of(mut file: Case) -> Result<Vec<Case>, String> {
    let version = file.text("version")?;
    if version != "1.0.0" {
        return Err(format!("no runner for version {version} of this suite"));
    }
    file.text("description")?;
    let cases = file.cases("vectors")?;
    file.finish()?;
    if cases.is_empty() {
        return Err("the file has no cases".to_owned());
    }
    Ok(cases)
}
