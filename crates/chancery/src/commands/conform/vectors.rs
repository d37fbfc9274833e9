//! `chancery conform --vectors`: vector files against this build, without a network.
//!
//! The runners are those of the protocol crates and call the functions a node calls. Nothing is passed over: a file, a
//! case or a member that no runner knows is a failure.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use chancery_core::conformance::SuiteReport;
use chancery_value_context::conformance::{Run, ThisBuild, run_with};
use serde_json::{Value, json};

use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::terminal::Terminal;

/// Folders below folders that are looked into.
const MAX_DEPTH: usize = 16;
/// The file that other files of its folder speak of.
const WORLD: &str = "world.json";
/// The file of messages that the specification prints.
const EXAMPLES: &str = "examples.json";

/// A file that was found.
struct VectorFile {
    path: PathBuf,
    text: String,
    /// What it says it is; none when it does not say.
    suite: Option<String>,
}

/// What `--only` names: a suite with or without its protocol, and a part of it after a colon.
#[derive(Clone, Copy)]
struct Only<'o> {
    suite: &'o str,
    part: Option<&'o str>,
}

impl<'o> Only<'o> {
    fn parse(name: &'o str) -> Self {
        match name.split_once(':') {
            Some((suite, part)) => Self {
                suite,
                part: Some(part),
            },
            None => Self {
                suite: name,
                part: None,
            },
        }
    }

    fn is_of(self, file: &VectorFile) -> bool {
        file.suite.as_deref().is_some_and(|suite| {
            suite == self.suite
                || suite
                    .split_once('/')
                    .is_some_and(|(_, rest)| rest == self.suite)
        })
    }
}

/// A case that failed.
struct Failing {
    file: String,
    suite: String,
    id: String,
    reason: String,
}

#[derive(Default)]
struct Tally {
    passed: u64,
    /// Always 0: what cannot be run is a failure.
    skipped: u64,
    failing: Vec<Failing>,
}

/// Runs the vector files below a folder; of the suites in `only` alone, if there are any.
pub(super) fn run(folder: &Path, only: &[String], terminal: &mut Terminal) -> Outcome {
    let files = read_all(folder)?;
    let mut tally = Tally::default();
    for (file, part) in wanted(&files, folder, only)? {
        tally.run(file, part, folder);
    }
    tell(&tally, terminal)?;
    Ok(if tally.failing.is_empty() {
        Exit::Done
    } else {
        Exit::No
    })
}

fn read_all(folder: &Path) -> Result<Vec<VectorFile>, Failure> {
    let mut paths = Vec::new();
    walk(folder, 0, &mut paths)?;
    paths.sort();
    if paths.is_empty() {
        return Err(Failure::usage(format!(
            "there is no vector file (*.json) below {}",
            folder.display()
        )));
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
        let suite = suite_of(&text);
        Ok(VectorFile { path, text, suite })
    };
    paths.into_iter().map(read).collect()
}

fn walk(folder: &Path, depth: usize, paths: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        Failure::usage(format!("cannot read {}: {error}", folder.display()))
    };
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.is_dir() && depth < MAX_DEPTH {
            walk(&path, depth + 1, paths)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            paths.push(path);
        }
    }
    Ok(())
}

/// The suite a file says it is, by `suite`, `name` or `title`.
fn suite_of(text: &str) -> Option<String> {
    let file: Value = serde_json::from_str(text).ok()?;
    let named = ["suite", "name", "title"]
        .iter()
        .find_map(|name| file.get(name));
    named.and_then(Value::as_str).map(str::to_owned)
}

/// The files that `--only` leaves, with the part of each. A name that fits none is an error: it would look like a pass.
fn wanted<'f>(
    files: &'f [VectorFile],
    folder: &Path,
    only: &'f [String],
) -> Result<Vec<(&'f VectorFile, Option<&'f str>)>, Failure> {
    if only.is_empty() {
        return Ok(files.iter().map(|file| (file, None)).collect());
    }
    let mut wanted = Vec::new();
    for name in only {
        let only = Only::parse(name);
        let before = wanted.len();
        let of_it = files.iter().filter(|file| only.is_of(file));
        wanted.extend(of_it.map(|file| (file, only.part)));
        if wanted.len() == before {
            return Err(Failure::usage(format!(
                "no file below {} is of suite {}",
                folder.display(),
                only.suite
            ))
            .next(format!("there are: {}", suites_of(files))));
        }
    }
    Ok(wanted)
}

fn suites_of(files: &[VectorFile]) -> String {
    let mut suites: Vec<&str> = files
        .iter()
        .filter_map(|file| file.suite.as_deref())
        .collect();
    suites.sort_unstable();
    suites.dedup();
    suites.join(", ")
}

impl VectorFile {
    /// The text of a file beside it.
    fn beside(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path.with_file_name(name)).ok()
    }

    fn cases(&self, part: Option<&str>) -> Vec<(String, Result<(), String>)> {
        let none = |reason: &str| SuiteReport::unreadable("", reason).cases;
        match self.suite.as_deref() {
            None => none("it names no suite"),
            Some(suite) if suite.starts_with("value-context/") => {
                let world = self.beside(WORLD);
                let run = Run {
                    subject: &ThisBuild,
                    world: world.as_deref(),
                    part,
                };
                run_with(&self.text, &run).cases
            }
            Some(title) if chancery_agh::conformance::suites().any(|known| known == title) => {
                chancery_agh::conformance::run(&self.text).cases
            }
            Some(name) if chancery_vacant::conformance::suites().any(|known| known == name) => {
                chancery_vacant::conformance::run(&self.text).cases
            }
            Some(suite) if chancery_vibe::conformance::suites().any(|known| known == suite) => {
                chancery_vibe::conformance::run(&self.text).cases
            }
            Some(_) => none("no runner for this suite"),
        }
    }

    /// Data of other files' cases, which has none of its own: the world that `requests` is about, and the examples of
    /// the specification, as far as they are what they say.
    fn is_companion(&self) -> bool {
        if self.suite.is_some() {
            return false;
        }
        match self.path.file_name().and_then(|name| name.to_str()) {
            Some(WORLD) => {
                chancery_value_context::world::World::parse(self.text.as_bytes()).is_ok()
            }
            Some(EXAMPLES) => chancery_value_context::conformance::are_examples(&self.text),
            _ => false,
        }
    }
}

impl Tally {
    fn run(&mut self, file: &VectorFile, part: Option<&str>, folder: &Path) {
        if file.is_companion() {
            return;
        }
        let path = file.path.strip_prefix(folder).unwrap_or(&file.path);
        let name = path.display().to_string();
        let suite = file.suite.clone().unwrap_or_default();
        for (id, outcome) in file.cases(part) {
            match outcome {
                Ok(()) => self.passed += 1,
                Err(reason) => self.failing.push(Failing {
                    file: name.clone(),
                    suite: suite.clone(),
                    id,
                    reason,
                }),
            }
        }
    }
}

fn tell(tally: &Tally, terminal: &mut Terminal) -> Result<(), Failed> {
    let failed = tally.failing.len();
    if terminal.json {
        let failures: Vec<Value> = tally
            .failing
            .iter()
            .map(|case| {
                json!({"file": case.file, "suite": case.suite, "id": case.id, "reason": case.reason})
            })
            .collect();
        return terminal.json_line(&json!({
            "passed": tally.passed,
            "failed": failed,
            "skipped": tally.skipped,
            "failures": failures,
        }));
    }
    for case in &tally.failing {
        let id = terminal.bad(&case.id);
        writeln!(terminal.out, "{}: {id}: {}", case.file, case.reason)?;
    }
    Ok(writeln!(
        terminal.out,
        "{} passed, {failed} failed, {} skipped",
        tally.passed, tally.skipped
    )?)
}
