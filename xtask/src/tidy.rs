//! Rules about the tree itself, which no compiler checks.
//!
//! A rule is a function from the files of the tree to faults, so that a test can hand it a tree of one offending file.
//! Only the two rules about length have exceptions, and those stand in one file, each with its reason.

mod crates;
mod exceptions;
mod sources;
mod spec;
mod text;

use crate::pages;
use crate::project::{self, TreeFile};
use anyhow::Result;
pub use spec::IDS;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Where the exceptions stand.
const EXCEPTIONS: &str = "xtask/tidy-exceptions.toml";

/// The environment variable that names the folder of other people's test data.
const FOREIGN: &str = "CHANCERY_FOREIGN_VECTORS";

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
struct Fault {
    /// Name of the rule, as exceptions cite it.
    rule: &'static str,
    path: String,
    /// The function, when the rule is about one.
    item: Option<String>,
    what: String,
}

impl Fault {
    fn new(rule: &'static str, path: &str, what: impl Into<String>) -> Self {
        Self {
            rule,
            path: path.to_owned(),
            item: None,
            what: what.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} [{}]", self.path, self.what, self.rule)
    }
}

/// `cargo xtask tidy`.
pub fn tidy() -> Result<ExitCode> {
    let files = project::tree(&project::root())?;
    let mut faults = faults_of(&files);
    match std::env::var_os(FOREIGN).map(PathBuf::from) {
        Some(folder) => faults.extend(text::foreign_copies(&files, &project::tree(&folder)?)),
        None => println!(
            "tidy: {FOREIGN} is not set: the search for copies of foreign files was left out"
        ),
    }
    not_run(&files, &mut faults);
    let exceptions = files
        .iter()
        .find(|file| file.path == EXCEPTIONS)
        .and_then(TreeFile::text);
    let faults = exceptions::excuse(faults, exceptions.unwrap_or_default());
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    println!("tidy: {} files, {} faults", files.len(), faults.len());
    Ok(if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What nobody types of the pages is told at every run, so that it stays a short list.
fn not_run(files: &[TreeFile], faults: &mut Vec<Fault>) {
    let is_page = |path: &str| {
        path == "README.md"
            || path.starts_with("docs/") && path.ends_with(".md") && !path.starts_with("docs/spec/")
    };
    let pages = files.iter().filter(|file| is_page(&file.path));
    let pages = pages.filter_map(|file| Some((file.path.as_str(), file.text()?)));
    match pages::marks(pages) {
        Ok(marks) => {
            println!("not run: {} of {}", marks.len(), pages::MOST_NOT_RUN);
            for (page, reason) in marks {
                println!("  {page}: {reason}");
            }
        }
        Err(what) => faults.push(Fault::new("not-run", "README.md and docs/", what)),
    }
}

fn faults_of(files: &[TreeFile]) -> Vec<Fault> {
    let rules = [sources::check, crates::check, text::check, spec::check];
    rules.iter().flat_map(|rule| rule(files)).collect()
}

/// A tree for the tests of the rules.
#[cfg(test)]
fn tree_of(files: &[(&str, &str)]) -> Vec<TreeFile> {
    let file = |(path, text): &(&str, &str)| TreeFile {
        path: (*path).to_owned(),
        bytes: text.as_bytes().to_vec(),
    };
    files.iter().map(file).collect()
}

/// The rules and paths of faults, for comparing.
#[cfg(test)]
fn named(faults: &[Fault]) -> Vec<(&str, &str)> {
    faults
        .iter()
        .map(|fault| (fault.rule, fault.path.as_str()))
        .collect()
}
