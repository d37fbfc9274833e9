//! The conformance page: every requirement, and whether it is done, built differently, or not done.
//!
//! Done means that a test which `ci` runs names the id: in a file under a crate's `tests/`, in a `#[cfg(test)]` module, or in
//! the code of a doc test. That says that a test claims to show the requirement; it does not say that the test is good.
//! Built differently and not built are what `docs/deviations.md` says.

mod deviations;
mod draw;
mod foreign;
pub mod ids;
mod tests_in;

use crate::project::{self, TreeFile};
use crate::tidy;
use anyhow::{Context, Result};
use deviations::Deviations;
pub use draw::Wanted as Draw;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use tests_in::TestLine;

/// Where the page stands.
const PAGE: &str = "docs/conformance.md";
const DEVIATIONS: &str = "docs/deviations.md";
/// Tests that a row names; of the others it tells how many there are.
const NAMED_TESTS: usize = 3;

const HEAD: &str = "\
# Conformance

Every requirement of `docs/spec/`, and what shows that it is met. `cargo xtask conformance > docs/conformance.md` writes this
page, and `cargo xtask ci` fails when it is not what the tree says. A requirement is done when a test that `ci` runs names
it, and deviates when `docs/deviations.md` says what is done instead.

| id | state | shown by |
|---|---|---|
";

/// What is wanted.
pub enum Form {
    /// The page.
    Page,
    /// The same for a program, with all tests.
    Json,
    /// Whether the page in the tree is the page.
    Check,
    /// Some of what is done, to be looked at.
    Draw(Draw),
}

/// How a requirement stands.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Done,
    /// With what is done instead.
    Deviates(String),
    NotDone,
}

/// A requirement, how it stands, and the tests that name it.
struct Row<'a> {
    id: &'a str,
    state: State,
    tests: Vec<String>,
}

/// `cargo xtask conformance`.
pub fn conformance(form: &Form) -> Result<ExitCode> {
    let files = project::tree(&project::root())?;
    let text = |path: &str| files.iter().find(|file| file.path == path)?.text();
    let missing = |path: &'static str| move || format!("{path} is missing");
    let list = text(tidy::IDS).with_context(missing(tidy::IDS))?;
    let told = text(DEVIATIONS).with_context(missing(DEVIATIONS))?;
    let rows = rows(list, told, &files);
    match form {
        Form::Page => print!("{}", page(&rows)),
        Form::Json => println!("{}", serde_json::to_string_pretty(&json(&rows))?),
        Form::Draw(wanted) => print!("{}", draw::drawn(&rows, wanted)?),
        Form::Check => return Ok(check(text(PAGE).unwrap_or_default(), &rows)),
    }
    Ok(ExitCode::SUCCESS)
}

fn rows<'a>(list: &'a str, told: &'a str, files: &[TreeFile]) -> Vec<Row<'a>> {
    let deviations = Deviations::of(told);
    let mut citing = citing(list, files);
    let row = |id| {
        let tests: Vec<String> = citing.remove(id).unwrap_or_default().into_iter().collect();
        let state = match deviations.instead_of(id) {
            _ if deviations.lacks(id) => State::NotDone,
            Some(instead) => State::Deviates(instead),
            None if tests.is_empty() => State::NotDone,
            None => State::Done,
        };
        Row { id, state, tests }
    };
    ids::listed(list).map(row).collect()
}

/// The tests that name each id.
fn citing<'a>(list: &'a str, files: &[TreeFile]) -> BTreeMap<&'a str, BTreeSet<String>> {
    let ids: Vec<&str> = ids::listed(list).collect();
    let prefixes: BTreeSet<&str> = ids.iter().filter_map(|id| id.split('-').next()).collect();
    let mut citing: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for TestLine {
        file,
        test,
        text,
        begins,
    } in foreign::without(tests_in::all(files))
    {
        let may_cite = prefixes.iter().any(|prefix| text.contains(prefix));
        if !may_cite && !begins {
            continue;
        }
        let cites = |id: &str| ids::is_cited(text, id) || (begins && ids::is_in_name(&test, id));
        for id in ids.iter().filter(|id| cites(id)) {
            citing.entry(id).or_default().insert(name_of(file, &test));
        }
    }
    citing
}

/// `node::crashes::a_test` of a function in `crates/node/tests/it/crashes.rs`.
fn name_of(file: &str, test: &str) -> String {
    let place = file.trim_start_matches("crates/").trim_end_matches(".rs");
    let left_out = ["src", "tests", "it", "mod", "lib"];
    let mut parts: Vec<&str> = place
        .split('/')
        .filter(|part| !left_out.contains(part))
        .collect();
    if !test.is_empty() {
        parts.push(test);
    }
    parts.join("::")
}

fn page(rows: &[Row]) -> String {
    let mut page = HEAD.to_owned();
    for row in rows {
        page += &line(row);
    }
    page + "\n" + &total(rows) + "\n"
}

fn line(Row { id, state, tests }: &Row) -> String {
    let named: Vec<String> = tests
        .iter()
        .take(NAMED_TESTS)
        .map(|test| format!("`{test}`"))
        .collect();
    let mut shown = named.join(", ");
    if tests.len() > NAMED_TESTS {
        shown += &format!(" and {} more", tests.len() - NAMED_TESTS);
    }
    match state {
        State::Done => format!("| {id} | done | {shown} |\n"),
        State::Deviates(instead) => format!("| {id} | deviates | {instead} |\n"),
        State::NotDone => format!("| {id} | not done | |\n"),
    }
}

fn total(rows: &[Row]) -> String {
    let count = |is: fn(&State) -> bool| rows.iter().filter(|row| is(&row.state)).count();
    format!(
        "{} done, {} deviate, {} not done",
        count(|state| *state == State::Done),
        count(|state| matches!(state, State::Deviates(_))),
        count(|state| *state == State::NotDone),
    )
}

/// Says which rows of the page in the tree are not what they should be.
fn check(found: &str, rows: &[Row]) -> ExitCode {
    let expected = page(rows);
    println!("{}", total(rows));
    if found == expected {
        return ExitCode::SUCCESS;
    }
    let stands: BTreeSet<&str> = found.lines().collect();
    for line in expected.lines().filter(|line| !stands.contains(line)) {
        println!("{PAGE} lacks: {line}");
    }
    println!("write the page anew: cargo xtask conformance > {PAGE}");
    ExitCode::FAILURE
}

fn json(rows: &[Row]) -> serde_json::Value {
    let state = |row: &Row| match &row.state {
        State::Done => "done",
        State::Deviates(_) => "deviates",
        State::NotDone => "not done",
    };
    rows.iter()
        .map(|row| serde_json::json!({"id": row.id, "state": state(row), "tests": row.tests}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: &str = "VX-A-1\nVX-A-2\nVX-A-3\nVX-A-4\nVX-A-10\n";
    const TOLD: &str = "## Built differently\n\n| id | instead | why |\n|---|---|---|\n\
                        | VX-A-3 | Otherwise. | So. |\n\n## Not built yet\n\n- VX-A-4.\n";

    fn files(test: &str) -> [TreeFile; 2] {
        let file = |path: &str, text: &str| TreeFile {
            path: path.to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        [
            file("crates/a/tests/it/x.rs", test),
            file("crates/a/src/lib.rs", "// VX-A-2\npub fn f() {}\n"),
        ]
    }

    #[test]
    fn a_row_says_done_with_its_tests_deviates_with_the_entry_or_not_done() {
        let files = files(
            "//! VX-A-3\n// VX-A-1\n#[test]\nfn one() {\n    f(); // VX-A-1 and VX-A-10, VX-A-4\n}\n\
             #[test]\nfn vx_a_1_again() {}\n",
        );
        let page = page(&rows(IDS, TOLD, &files));
        let rest = page.strip_prefix(HEAD).unwrap();
        assert_eq!(
            rest,
            "| VX-A-1 | done | `a::x::one`, `a::x::vx_a_1_again` |\n\
             | VX-A-2 | not done | |\n\
             | VX-A-3 | deviates | Otherwise. |\n\
             | VX-A-4 | not done | |\n\
             | VX-A-10 | done | `a::x::one` |\n\
             \n2 done, 1 deviate, 2 not done\n"
        );
    }

    #[test]
    fn a_row_that_changes_without_the_page_fails() {
        let before = files("// VX-A-1\n#[test]\nfn one() {}\n");
        let stands = page(&rows(IDS, TOLD, &before));
        assert_eq!(check(&stands, &rows(IDS, TOLD, &before)), ExitCode::SUCCESS);
        let after = files("// VX-A-2\n#[test]\nfn one() {}\n");
        assert_eq!(check(&stands, &rows(IDS, TOLD, &after)), ExitCode::FAILURE);
        let ignored = files("// VX-A-1\n#[test]\n#[ignore]\nfn one() {}\n");
        assert_eq!(
            check(&stands, &rows(IDS, TOLD, &ignored)),
            ExitCode::FAILURE
        );
    }

    #[test]
    fn many_tests_are_counted_and_three_are_named() {
        let row = Row {
            id: "VX-A-1",
            state: State::Done,
            tests: ["a", "b", "c", "d", "e"].map(str::to_owned).into(),
        };
        assert_eq!(line(&row), "| VX-A-1 | done | `a`, `b`, `c` and 2 more |\n");
    }
}
