//! The lines of the tree that belong to tests, and which test each belongs to.
//!
//! A helper counts like a test: the compiler refuses code that nothing calls, so some test runs it. What `ci` does not
//! run counts for nothing: an ignored test, or one behind a feature that no step turns on.
//!
//! Which lines are tests is read from the syntax; which test a line belongs to is read from the lines, because macros
//! such as `proptest!` hide their functions from the syntax.

use crate::project::TreeFile;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// A line of a test.
#[derive(Debug, PartialEq)]
pub struct TestLine<'a> {
    /// The file it stands in.
    pub file: &'a str,
    /// The function it belongs to; empty for the head of a file.
    pub test: String,
    /// The line.
    pub text: &'a str,
    /// Whether the function begins here.
    pub begins: bool,
}

/// The features of tests that a step of `ci` turns on.
const FEATURES: [&str; 1] = ["seeded-faults"];

/// Every line of every test under `crates/` that `ci` runs.
pub fn all(files: &[TreeFile]) -> Vec<TestLine<'_>> {
    let ours = |file: &&TreeFile| file.is_rust() && file.path.starts_with("crates/");
    let sources: Vec<&TreeFile> = files.iter().filter(ours).collect();
    let test_modules: BTreeSet<String> = sources
        .iter()
        .flat_map(|file| modules_for_tests(file).1.into_iter())
        .collect();
    let mut lines = Vec::new();
    for file in sources {
        let Some(text) = file.text() else { continue };
        let is_test_file = file.path.split('/').nth(2) == Some("tests")
            || test_modules
                .iter()
                .any(|module| is_module(&file.path, module));
        if is_test_file {
            lines.extend(lines_of(&file.path, text, &[1..=usize::MAX]));
        } else {
            lines.extend(lines_of(&file.path, text, &modules_for_tests(file).0));
            lines.extend(doc_test_lines(&file.path, text));
        }
    }
    lines
}

/// `src/a/tests` is the module of `src/a/tests.rs`, `src/a/tests/mod.rs` and whatever is below.
fn is_module(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// The lines of `#[cfg(test)]` modules written in the file, and the paths of those written elsewhere.
fn modules_for_tests(file: &TreeFile) -> (Vec<RangeInclusive<usize>>, Vec<String>) {
    let (mut ranges, mut elsewhere) = (Vec::new(), Vec::new());
    let Some(syntax) = file.text().and_then(|text| syn::parse_file(text).ok()) else {
        return (ranges, elsewhere);
    };
    for item in &syntax.items {
        let syn::Item::Mod(module) = item else {
            continue;
        };
        if !module.attrs.iter().any(is_cfg_test) {
            continue;
        }
        match &module.content {
            Some((brace, _)) => {
                let last = brace.span.close().end().line;
                ranges.push(module.mod_token.span.start().line..=last);
            }
            None => elsewhere.push(format!(
                "{}/{}",
                folder_of_children(&file.path),
                module.ident
            )),
        }
    }
    (ranges, elsewhere)
}

fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute
            .parse_args::<syn::Path>()
            .is_ok_and(|condition| condition.is_ident("test"))
}

fn folder_of_children(path: &str) -> &str {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder,
        _ => path.trim_end_matches(".rs"),
    }
}

fn lines_of<'a>(
    path: &'a str,
    text: &'a str,
    ranges: &[RangeInclusive<usize>],
) -> Vec<TestLine<'a>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut current = String::new();
    let mut runs = true;
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let begins = function_name(line);
        if let Some(name) = begins {
            current = name.to_owned();
            runs = !is_left_out(&lines[..index]);
        }
        let (test, runs) = match above_function(&lines[index..]) {
            Some((name, below)) => (name, !is_left_out(&lines[..index + below])),
            None => (current.as_str(), runs),
        };
        if runs && ranges.iter().any(|range| range.contains(&(index + 1))) {
            found.push(TestLine {
                file: path,
                test: test.to_owned(),
                text: line,
                begins: begins.is_some(),
            });
        }
    }
    found
}

/// Whether the attributes that end these lines keep `ci` from running the function below them.
fn is_left_out(above: &[&str]) -> bool {
    let is_attribute = |line: &&&str| {
        let line = line.trim_start();
        line.starts_with("#[") || line.starts_with("//")
    };
    let attributes = above.iter().rev().take_while(is_attribute);
    attributes.map(|line| line.trim_start()).any(|line| {
        let feature = line.strip_prefix("#[cfg(feature = \"");
        let feature = feature.and_then(|rest| rest.split('"').next());
        line.starts_with("#[ignore") || feature.is_some_and(|name| !FEATURES.contains(&name))
    })
}

/// When the first line is a comment or attribute above a function: its name, and how many lines below it begins.
fn above_function<'a>(lines: &[&'a str]) -> Option<(&'a str, usize)> {
    let is_above = |line: &&&str| {
        let line = line.trim_start();
        (line.starts_with("//") && !line.starts_with("//!")) || line.starts_with("#[")
    };
    let above = lines.iter().take_while(is_above).count();
    let name = lines.get(above).and_then(|line| function_name(line))?;
    (above > 0).then_some((name, above))
}

/// The name, when the line begins a function.
fn function_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let before = line.find("fn ")?;
    let qualifiers = [
        "pub",
        "pub(crate)",
        "pub(super)",
        "async",
        "const",
        "extern",
        "unsafe",
        "\"C\"",
    ];
    if !line[..before]
        .split_whitespace()
        .all(|word| qualifiers.contains(&word))
    {
        return None;
    }
    let name = &line[before + 3..];
    let end = name
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(name.len());
    (end > 0).then(|| &name[..end])
}

/// The code inside documentation, one test per block.
fn doc_test_lines<'a>(path: &'a str, text: &'a str) -> Vec<TestLine<'a>> {
    let mut block: Option<(String, bool)> = None;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let doc = trimmed
            .strip_prefix("///")
            .or_else(|| trimmed.strip_prefix("//!"));
        let Some(doc) = doc.map(str::trim_start) else {
            block = None;
            continue;
        };
        if let Some(language) = doc.strip_prefix("```") {
            let runs =
                ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&language.trim());
            block = match block {
                Some(_) => None,
                None => Some((format!("doc test at line {}", index + 1), runs)),
            };
        } else if let Some((test, true)) = &block {
            found.push(TestLine {
                file: path,
                test: test.clone(),
                text: line,
                begins: false,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests_citing(path: &str, text: &str, word: &str) -> Vec<String> {
        let files = [TreeFile {
            path: path.to_owned(),
            bytes: text.as_bytes().to_vec(),
        }];
        let lines = all(&files)
            .into_iter()
            .filter(|line| line.text.contains(word));
        lines.map(|line| line.test).collect()
    }

    #[test]
    fn a_comment_above_a_test_belongs_to_it() {
        let text = "//! WORD\n\n// WORD\n#[test]\nfn a() {\n    // WORD\n}\n\n// WORD\nfn b() {}\n";
        assert_eq!(
            tests_citing("crates/x/tests/it/y.rs", text, "WORD"),
            ["", "a", "a", "b"]
        );
    }

    #[test]
    fn what_ci_does_not_run_counts_for_nothing() {
        let text = "#[test]\n#[ignore = \"slow\"]\nfn a() {\n    // WORD\n}\n\n\
                    #[cfg(feature = \"other\")]\n#[test]\nfn b() {\n    // WORD\n}\n\n\
                    #[cfg(feature = \"seeded-faults\")]\n#[test]\nfn c() {\n    // WORD\n}\n\n\
                    fn d() {\n    // WORD\n}\n";
        assert_eq!(
            tests_citing("crates/x/tests/it/y.rs", text, "WORD"),
            ["c", "d"]
        );
    }

    #[test]
    fn functions_inside_macros_count() {
        let text = "proptest! {\n    // WORD\n    #[test]\n    fn inner(x in 0..3) {\n    }\n}\n";
        assert_eq!(
            tests_citing("crates/x/tests/it/y.rs", text, "WORD"),
            ["inner"]
        );
    }

    #[test]
    fn of_a_library_only_test_modules_and_doc_tests_count() {
        let text = "// WORD\n/// WORD\n/// ```\n/// f(); // WORD\n/// ```\npub fn f() {} // WORD\n\
                    #[cfg(test)]\nmod tests {\n    // WORD\n    #[test]\n    fn t() {}\n}\n\
                    mod other {\n    // WORD\n}\n";
        assert_eq!(
            tests_citing("crates/x/src/lib.rs", text, "WORD"),
            ["t", "doc test at line 3"]
        );
        let picture = "/// ```text\n/// WORD\n/// ```\npub fn f() {}\n";
        assert!(tests_citing("crates/x/src/lib.rs", picture, "WORD").is_empty());
    }

    #[test]
    fn a_test_module_in_a_file_of_its_own_counts() {
        let file = |path: &str, text: &str| TreeFile {
            path: path.to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        let files = [
            file(
                "crates/x/src/a.rs",
                "#[cfg(test)]\nmod tests;\nmod other;\n",
            ),
            file("crates/x/src/a/tests.rs", "fn t() {}\n"),
            file("crates/x/src/a/tests/more.rs", "fn u() {}\n"),
            file("crates/x/src/a/other.rs", "fn v() {}\n"),
        ];
        let tests: Vec<String> = all(&files).into_iter().map(|line| line.test).collect();
        assert_eq!(tests, ["t", "u"]);
    }
}
