//! What running vector files needs in every protocol: reading a case whole, and telling how it went.

mod case;

pub use case::{Case, into_texts};

/// How the cases of one file went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteReport {
    /// What the file says it is.
    pub suite: String,
    /// Each case by its id, with the reason where it failed.
    pub cases: Vec<(String, Result<(), String>)>,
}

impl SuiteReport {
    /// A file that no case of could be run.
    pub fn unreadable(suite: &str, reason: impl Into<String>) -> Self {
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

/// Compares what came out with what the file expects.
///
/// # Errors
/// They differ.
pub fn expect<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what} is {found:?}, expected {expected:?}"))
}
