//! Which requirement ids have a test that names them.
//!
//! A citation counts when it stands in a test: a file under a crate's `tests/`, a `#[cfg(test)]` module, or the code of
//! a doc test. It is counted once per test function. The count says that a test claims to show the requirement; it does
//! not say that the test is good.

pub mod ids;
mod tests_in;

use crate::project::{self, TreeFile};
use crate::tidy;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use tests_in::TestLine;

/// Per id, in the order of the list: how many tests cite it.
type Counts<'a> = Vec<(&'a str, usize)>;

/// How the counts are shown.
pub enum Form {
    /// By group, for a person.
    Table,
    /// All of them, for a program.
    Json,
    /// In one line, for the end of a run.
    Total,
}

/// `cargo xtask conformance`.
pub fn conformance(form: &Form) -> Result<ExitCode> {
    let files = project::tree(&project::root())?;
    let list = files
        .iter()
        .find(|file| file.path == tidy::IDS)
        .and_then(TreeFile::text);
    let counts = count(
        list.with_context(|| format!("{} is missing", tidy::IDS))?,
        &files,
    );
    match form {
        Form::Table => print!("{}", table(&counts)),
        Form::Json => println!("{}", serde_json::to_string_pretty(&json(&counts))?),
        Form::Total => println!("{}", total(&counts)),
    }
    Ok(ExitCode::SUCCESS)
}

fn count<'a>(list: &'a str, files: &[TreeFile]) -> Counts<'a> {
    let ids: Vec<&str> = ids::listed(list).collect();
    let prefixes: BTreeSet<&str> = ids.iter().filter_map(|id| id.split('-').next()).collect();
    let mut citing: BTreeMap<&str, BTreeSet<(String, String)>> = BTreeMap::new();
    for TestLine {
        file,
        test,
        text,
        begins,
    } in tests_in::all(files)
    {
        let may_cite = prefixes.iter().any(|prefix| text.contains(prefix));
        if !may_cite && !begins {
            continue;
        }
        let cites = |id: &str| ids::is_cited(text, id) || (begins && ids::is_in_name(&test, id));
        for id in ids.iter().filter(|id| cites(id)) {
            citing
                .entry(id)
                .or_default()
                .insert((file.to_owned(), test.clone()));
        }
    }
    ids.into_iter()
        .map(|id| (id, citing.get(id).map_or(0, BTreeSet::len)))
        .collect()
}

/// `VX-DUP` of `VX-DUP-3`; the actions of Vibe Commerce are one group.
fn group(id: &str) -> &str {
    let second = id.match_indices('-').nth(1);
    second.map_or(id, |(at, _)| &id[..at])
}

fn table(counts: &Counts) -> String {
    let mut groups: Vec<(&str, Counts)> = Vec::new();
    for &(id, tests) in counts {
        match groups.iter_mut().find(|(name, _)| *name == group(id)) {
            Some((_, members)) => members.push((id, tests)),
            None => groups.push((group(id), vec![(id, tests)])),
        }
    }
    let mut out = format!(
        "{:<10} {:>5} {:>6} {:>6}  cited by tests (id x tests)\n",
        "group", "ids", "cited", "not"
    );
    for (name, members) in groups {
        let cited: Vec<String> = members
            .iter()
            .filter(|(_, tests)| *tests > 0)
            .map(|(id, tests)| format!("{} x{tests}", &id[name.len() + 1..]))
            .collect();
        let (all, some) = (members.len(), cited.len());
        out += format!(
            "{name:<10} {all:>5} {some:>6} {:>6}  {}",
            all - some,
            cited.join(", ")
        )
        .trim_end();
        out += "\n";
    }
    out + &total(counts) + "\n"
}

fn total(counts: &Counts) -> String {
    let cited = counts.iter().filter(|(_, tests)| *tests > 0).count();
    format!(
        "{} ids, {cited} cited, {} not",
        counts.len(),
        counts.len() - cited
    )
}

fn json(counts: &Counts) -> serde_json::Value {
    let cited = counts.iter().filter(|(_, tests)| *tests > 0).count();
    let ids: Vec<_> = counts
        .iter()
        .map(|(id, tests)| serde_json::json!({ "id": id, "tests": tests }))
        .collect();
    serde_json::json!({
        "total": counts.len(), "cited": cited, "not_cited": counts.len() - cited, "ids": ids
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_tests_not_lines() {
        let file = |path: &str, text: &str| TreeFile {
            path: path.to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        let files = [
            file(
                "crates/a/tests/it/x.rs",
                "//! VX-A-3\n// VX-A-1\n#[test]\nfn one() {\n    f(); // VX-A-1 and VX-A-10\n}\n\
                 #[test]\nfn vx_a_1_again() {}\n",
            ),
            file("crates/a/src/lib.rs", "// VX-A-2\npub fn f() {}\n"),
        ];
        let counts = count("VX-A-1\nVX-A-2\nVX-A-3\nVX-A-10\n", &files);
        assert_eq!(
            counts,
            [("VX-A-1", 2), ("VX-A-2", 0), ("VX-A-3", 1), ("VX-A-10", 1)]
        );
        assert_eq!(total(&counts), "4 ids, 3 cited, 1 not");
        assert!(
            table(&counts).contains("VX-A           4      3      1  1 x2, 3 x1, 10 x1\n"),
            "{}",
            table(&counts)
        );
        assert_eq!(
            json(&counts)["ids"][0],
            serde_json::json!({ "id": "VX-A-1", "tests": 2 })
        );
    }

    #[test]
    fn actions_are_one_group() {
        assert_eq!(group("VC-ACT-world.debit-1"), "VC-ACT");
        assert_eq!(group("VX-DUP-3"), "VX-DUP");
    }
}
