//! Tests that need other people's data. `ci` runs without it, so such a test returns early there and shows nothing.

use super::tests_in::TestLine;
use std::collections::{BTreeMap, BTreeSet};

/// The variable that names the data, as code asks for it.
const ASKED: &str = "\"CHANCERY_FOREIGN_VECTORS\"";

/// A function by its file and its name.
type Named<'a> = (&'a str, String);

/// The lines without those of tests that return early, of what looks for the data, and of helpers that nothing else calls.
pub fn without(lines: Vec<TestLine<'_>>) -> Vec<TestLine<'_>> {
    let mut functions: BTreeMap<Named<'_>, String> = BTreeMap::new();
    for line in &lines {
        let text = functions.entry((line.file, line.test.clone())).or_default();
        text.push_str(line.text);
        text.push('\n');
    }
    let left_out = left_out(&functions);
    let whole: BTreeSet<&str> = left_out.iter().map(|(file, _)| *file).collect();
    let is_empty = |file: &str| {
        let of_file = functions
            .iter()
            .filter(|((in_file, _), _)| *in_file == file);
        let mut tests = of_file.filter(|(_, text)| is_test(text)).peekable();
        tests.peek().is_some() && tests.all(|(named, _)| left_out.contains(named))
    };
    let empty: BTreeSet<&str> = whole.into_iter().filter(|file| is_empty(file)).collect();
    let counts = |line: &TestLine<'_>| {
        !empty.contains(line.file) && !left_out.contains(&(line.file, line.test.clone()))
    };
    lines.into_iter().filter(counts).collect()
}

fn left_out<'a>(functions: &BTreeMap<Named<'a>, String>) -> BTreeSet<Named<'a>> {
    let asks = |(named, text): (&Named<'a>, &String)| text.contains(ASKED).then(|| named.clone());
    let finders: BTreeSet<Named<'_>> = functions.iter().filter_map(asks).collect();
    let needs = |file: &str, text: &str| {
        finders.iter().any(|(of_file, name)| {
            let is_known = file == *of_file
                || crate_of(file) == crate_of(of_file)
                    && functions
                        .get(&(file, String::new()))
                        .is_some_and(|head| calls(head, name, ""));
            is_known && calls(text, name, "(")
        })
    };
    let mut found = finders.clone();
    for ((file, name), text) in functions {
        if text.contains("return") && needs(file, text) {
            found.insert((file, name.clone()));
        }
    }
    loop {
        let is_only_theirs = |((file, name), text): (&Named<'a>, &String)| {
            if is_test(text) || name.is_empty() || found.contains(&(*file, name.clone())) {
                return None;
            }
            let mut callers = functions.iter().filter(|((in_file, other), text)| {
                in_file == file && other != name && calls(text, name, "(")
            });
            let first = callers.next()?;
            let all = found.contains(first.0) && callers.all(|(named, _)| found.contains(named));
            all.then(|| (*file, name.clone()))
        };
        let more: Vec<Named<'_>> = functions.iter().filter_map(is_only_theirs).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

fn is_test(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim_start().starts_with("#[test]") || line.contains("::test]"))
}

fn crate_of(file: &str) -> Option<&str> {
    file.split('/').nth(1)
}

/// Whether a name stands in a text as a word, with this behind it.
fn calls(text: &str, name: &str, behind: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let after = &text[at + name.len()..];
        !text[..at].ends_with(is_word) && !after.starts_with(is_word) && after.starts_with(behind)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests_in;
    use super::*;
    use crate::project::TreeFile;

    fn counted(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| TreeFile {
            path: (*path).to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        let files: Vec<TreeFile> = files.iter().map(file).collect();
        let lines = without(tests_in::all(&files)).into_iter();
        let cited = lines.filter(|line| line.text.contains("WORD"));
        cited.map(|line| line.test).collect()
    }

    const FINDER: &str =
        "fn folder() -> Option<P> {\n    env::var_os(\"CHANCERY_FOREIGN_VECTORS\") // WORD\n}\n";
    const LEAVES: &str = "// WORD\n#[test]\nfn a() {\n    let Some(it) = folder() else { return };\n    helper(it);\n}\n";
    const HELPER: &str = "fn helper() {\n    // WORD\n}\n";
    const OTHER: &str = "#[test]\nfn b() {\n    // WORD\n}\n";

    #[test]
    fn what_returns_early_counts_for_nothing() {
        let text = format!("{FINDER}{LEAVES}{HELPER}{OTHER}");
        assert_eq!(counted(&[("crates/x/tests/it/y.rs", &text)]), ["b"]);
        // A helper that others call as well counts.
        let called = OTHER.replace("// WORD", "helper();");
        let text = format!("{FINDER}{LEAVES}{HELPER}{called}");
        assert_eq!(counted(&[("crates/x/tests/it/y.rs", &text)]), ["helper"]);
        // With no other test the head of the file counts for nothing either.
        let text = format!("//! WORD\n{FINDER}{LEAVES}{HELPER}");
        assert!(counted(&[("crates/x/tests/it/y.rs", &text)]).is_empty());
    }

    #[test]
    fn a_finder_of_the_same_crate_is_known_where_it_is_named() {
        let support = ("crates/x/tests/it/support.rs", FINDER);
        let uses = format!("use crate::support::folder;\n\n{LEAVES}{OTHER}");
        assert_eq!(
            counted(&[support, ("crates/x/tests/it/y.rs", &uses)]),
            ["b"]
        );
        // Another function of that name has nothing to do with it.
        let other = format!("{LEAVES}{OTHER}");
        assert_eq!(
            counted(&[support, ("crates/x/tests/it/y.rs", &other)]),
            ["a", "b"]
        );
    }
}
