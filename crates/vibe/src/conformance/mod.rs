//! The vector files of this protocol, run against the functions a node calls.
//!
//! Nothing is passed over: a file, a case or a member that no runner knows is a failure. Expectations come from the
//! file alone.

mod case;
mod host;
mod tables;
mod transcript;

pub use case::verbatim;
pub use host::{Host, Reply, Request};
pub use transcript::{Play, play};

use case::{Case, Outcome};
use chancery_core::json::{self, ReadRules};

/// How the cases of one file went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteReport {
    /// The suite that the file says it is.
    pub suite: String,
    /// Each case by its id, with the reason where it failed.
    pub cases: Vec<(String, Result<(), String>)>,
}

impl SuiteReport {
    fn unreadable(suite: &str, reason: impl Into<String>) -> Self {
        Self {
            suite: suite.to_owned(),
            cases: vec![("file".to_owned(), Err(reason.into()))],
        }
    }

    /// The cases that failed, with their reasons.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        self.cases.iter().filter_map(|(id, outcome)| {
            let reason = outcome.as_ref().err()?;
            Some((id.as_str(), reason.as_str()))
        })
    }
}

/// The names of the suites that can be run.
pub fn suites() -> impl Iterator<Item = &'static str> {
    [
        "vibe/transcripts",
        "vibe/partition",
        "vibe/canonical",
        "vibe/ids",
        "vibe/guard",
        "vibe/money",
    ]
    .into_iter()
}

/// Runs a vector file against this build.
pub fn run(file: &str) -> SuiteReport {
    let value = match json::read(file.as_bytes(), &ReadRules::OWN) {
        Ok(value) => value,
        Err(fault) => return SuiteReport::unreadable("", fault.to_string()),
    };
    let mut file = match Case::of(&value) {
        Ok(file) => file,
        Err(reason) => return SuiteReport::unreadable("", reason),
    };
    let suite = match file.text("suite") {
        Ok(suite) => suite.to_owned(),
        Err(reason) => return SuiteReport::unreadable("", reason),
    };
    let cases = match run_suite(&suite, &mut file) {
        Ok(cases) => cases,
        Err(reason) => return SuiteReport::unreadable(&suite, reason),
    };
    match file.finish() {
        Ok(()) if cases.is_empty() => SuiteReport::unreadable(&suite, "the file has no cases"),
        Ok(()) => SuiteReport { suite, cases },
        Err(reason) => SuiteReport::unreadable(&suite, reason),
    }
}

fn run_suite(suite: &str, file: &mut Case<'_>) -> Result<Vec<(String, Outcome)>, String> {
    type Runner = fn(&mut Case<'_>) -> Outcome;
    let runner: Runner = match suite {
        "vibe/transcripts" => return transcript::run_all(file),
        "vibe/partition" => return tables::partition(file),
        "vibe/canonical" => tables::canonical,
        "vibe/ids" => tables::ids,
        "vibe/guard" => tables::guard,
        "vibe/money" => tables::money,
        _ => return Err("no runner for this suite".to_owned()),
    };
    file.optional("requirements");
    let mut outcomes = Vec::new();
    for (index, case) in file.array("cases")?.iter().enumerate() {
        let outcome = Case::of(case).and_then(|mut case| {
            runner(&mut case)?;
            case.finish()
        });
        outcomes.push((format!("{suite}#{index}"), outcome));
    }
    Ok(outcomes)
}
