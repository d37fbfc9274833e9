//! How a command ends: four exit codes (CH-CLI-1), and failures that say what is wrong, where, and what to do
//! next (CH-CLI-3).

use std::fmt;
use std::io;
use std::process::ExitCode;

use chancery_core::guide::Guide;

/// The exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: the answer is no: rejected, diverged, not valid.
    No,
    /// 2: wrong usage or configuration.
    Usage,
    /// 3: damaged data.
    Damaged,
}

impl Exit {
    /// Every one of them.
    pub const ALL: [Self; 4] = [Self::Done, Self::No, Self::Usage, Self::Damaged];

    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Usage => 2,
            Self::Damaged => 3,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A command that could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What is wrong, and where.
    pub what: String,
    /// The requirement behind a refusal.
    pub requirement: Option<&'static str>,
    /// What to do next.
    pub next: Option<String>,
}

impl Failure {
    /// The answer is no.
    pub fn no(what: impl Into<String>) -> Self {
        Self::new(Exit::No, what)
    }

    /// Wrong usage or configuration.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// Damaged data.
    pub fn damaged(what: impl Into<String>) -> Self {
        Self::new(Exit::Damaged, what)
    }

    fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            exit,
            what: what.into(),
            requirement: None,
            next: None,
        }
    }

    /// The same, saying what to do next.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// The same, with what is told of the code of a refusal.
    #[must_use]
    pub(crate) fn explained(mut self, guide: Option<&Guide>) -> Self {
        if let Some(guide) = guide {
            self.requirement = Some(guide.requirement);
            self.next = Some(guide.next.to_owned());
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        // As a rejected envelope is shown.
        if let Some(requirement) = self.requirement {
            write!(f, "\n  {:<12} {requirement}", "requirement")?;
        }
        match (&self.next, self.requirement) {
            (Some(next), Some(_)) => write!(f, "\n  {:<12} {next}", "next"),
            (Some(next), None) => write!(f, "\n  {next}"),
            (None, _) => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// What a command gives back.
pub type Outcome = Result<Exit, Failed>;

/// Why a command ended early.
#[derive(Debug)]
pub enum Failed {
    /// Something to tell.
    Told(Failure),
    /// Nobody reads what we write (`chancery log show | head`): nothing to tell, and nobody to tell it to.
    NobodyReads,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self::Told(failure)
    }
}

/// Only writes to our own output end in a bare I/O error; every other one is told with its file.
impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::NobodyReads;
        }
        Self::Told(Failure::damaged(format!(
            "cannot write the output: {error}"
        )))
    }
}
