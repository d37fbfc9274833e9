//! The vector files of this protocol, run against the functions a node calls.
//!
//! Nothing is passed over: a file, a case or a member that no runner knows is a failure. Expectations come from the
//! file alone; what another implementation answers (`go_reference`) is information.

mod discovery;
pub mod host;
mod sequences;
mod verdicts;

use std::collections::BTreeSet;

pub use chancery_core::conformance::SuiteReport;
use chancery_core::conformance::{Case, expect};

/// What a file says besides its cases.
struct File {
    now: Option<i64>,
    greet_interval: Option<i64>,
    peer_card: Option<serde_json::Value>,
}

type Runner = fn(&mut Case, &File) -> Result<(), String>;

/// Runners by the title that a file carries.
const RUNNERS: [(&str, Runner); 14] = [
    ("Single-envelope verdicts, revision A", verdicts::envelope),
    (
        "Revision detection and revision B verdicts",
        verdicts::either_revision,
    ),
    ("Ed25519 + JCS trust profile", verdicts::trust),
    ("Canonical capability digest", verdicts::digest),
    (
        "Interaction lifecycle sequences, revision A",
        sequences::interaction,
    ),
    ("Work lifecycle sequences, revision B", sequences::work),
    ("Replay-window duplicate detection", sequences::duplicates),
    (
        "Routing, delivery and automatic receipts, revision A",
        sequences::routing,
    ),
    ("Remote presence", discovery::presence),
    ("Broadcast whois query matching", discovery::question),
    (
        "Rich catalog discovery (agh.include / agh.capability_ids)",
        discovery::catalog,
    ),
    (
        "NATS route tokens and subjects, revision A",
        discovery::subjects,
    ),
    ("Subjects, revision B", discovery::subjects_b),
    ("Direct room identity, revision B", discovery::room),
];

/// The titles of the files that can be run.
pub fn suites() -> impl Iterator<Item = &'static str> {
    RUNNERS.iter().map(|(suite, _)| *suite)
}

/// Runs a vector file against this build.
pub fn run(file: &str) -> SuiteReport {
    let mut file = match Case::parse(file) {
        Ok(file) => file,
        Err(reason) => return SuiteReport::unreadable("", reason),
    };
    let title = match file.text("title") {
        Ok(title) => title,
        Err(reason) => return SuiteReport::unreadable("", reason),
    };
    let Some((_, runner)) = RUNNERS.iter().find(|(known, _)| *known == title) else {
        return SuiteReport::unreadable(&title, "no runner for this file");
    };
    let (about, cases) = match open(file) {
        Ok(opened) => opened,
        Err(reason) => return SuiteReport::unreadable(&title, reason),
    };
    let mut ids = BTreeSet::new();
    let run_case = |mut case: Case| {
        let id = case.text("id").unwrap_or_default();
        let outcome = if id.is_empty() || !ids.insert(id.clone()) {
            Err("the case has no id of its own".to_owned())
        } else {
            case.optional("note");
            case.optional("go_reference");
            runner(&mut case, &about).and_then(|()| case.finish())
        };
        (id, outcome)
    };
    SuiteReport {
        suite: title,
        cases: cases.into_iter().map(run_case).collect(),
    }
}

fn open(mut file: Case) -> Result<(File, Vec<Case>), String> {
    file.text_if_any("about")?;
    if let Some(revision) = file.text_if_any("revision")? {
        expect("revision", revision.as_str(), "A")?;
    }
    let integer = |value: Option<serde_json::Value>| value.and_then(|value| value.as_i64());
    let about = File {
        now: integer(file.optional("now")),
        greet_interval: integer(file.optional("greet_interval")),
        peer_card: file.optional("peer_card"),
    };
    let cases = file.cases("cases")?;
    file.finish()?;
    if cases.is_empty() {
        return Err("the file has no cases".to_owned());
    }
    Ok((about, cases))
}
