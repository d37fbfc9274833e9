//! How a crate is laid out: inherited lints, one integration test binary, a page that says what it is, and, for a pure
//! crate, the line that forbids what it must not touch.

use super::Fault;
use crate::project::TreeFile;
use crate::purity::{FORBID, PURE};
use std::collections::BTreeSet;

/// What the README of an empty crate says and that of a built one does not.
const NOT_BUILT: &str = "not built yet";

/// Every rule about crates.
pub fn check(files: &[TreeFile]) -> Vec<Fault> {
    let mut faults = workspace_denies_missing_docs(files);
    for folder in package_folders(files) {
        faults.extend(inherits_lints(files, folder));
        faults.extend(one_test_binary(files, folder));
        if folder.starts_with("crates/") {
            faults.extend(says_what_it_is(files, folder));
        }
    }
    faults.extend(PURE.iter().flat_map(|name| forbids_impurity(files, name)));
    faults
}

/// Folders of the workspace's packages; `fuzz/` is a workspace of its own.
fn package_folders(files: &[TreeFile]) -> BTreeSet<&str> {
    let folders = files
        .iter()
        .filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    folders.filter(|folder| *folder != "fuzz").collect()
}

fn text_of<'a>(files: &'a [TreeFile], path: &str) -> Option<&'a str> {
    files
        .iter()
        .find(|file| file.path == path)
        .and_then(TreeFile::text)
}

fn manifest(files: &[TreeFile], path: &str) -> toml::Table {
    text_of(files, path)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

fn workspace_denies_missing_docs(files: &[TreeFile]) -> Vec<Fault> {
    let table = manifest(files, "Cargo.toml");
    let level = ["lints", "rust", "missing_docs"]
        .iter()
        .fold(table.get("workspace"), |value, key| {
            value.and_then(|value| value.get(key))
        });
    match level.and_then(toml::Value::as_str) {
        Some("deny" | "forbid") => Vec::new(),
        _ => vec![Fault::new(
            "documented",
            "Cargo.toml",
            "the workspace does not deny missing_docs",
        )],
    }
}

fn inherits_lints(files: &[TreeFile], folder: &str) -> Option<Fault> {
    let path = format!("{folder}/Cargo.toml");
    let table = manifest(files, &path);
    let inherits = table
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        .and_then(toml::Value::as_bool);
    (inherits != Some(true)).then(|| Fault::new("lints", &path, "wants `[lints] workspace = true`"))
}

/// One test binary, and one for each build with other features.
fn one_test_binary(files: &[TreeFile], folder: &str) -> Vec<Fault> {
    let manifest_path = format!("{folder}/Cargo.toml");
    let mut faults = Vec::new();
    let mut of_other_builds = Vec::new();
    let manifest = manifest(files, &manifest_path);
    let named = manifest.get("test").and_then(toml::Value::as_array);
    for target in named.into_iter().flatten() {
        match (target.get("name"), target.get("required-features")) {
            (Some(toml::Value::String(name)), Some(_)) => {
                of_other_builds.push(format!("{name}/main.rs"));
            }
            _ => faults.push(Fault::new(
                "test-binary",
                &manifest_path,
                "names a test binary of its own for no build of its own",
            )),
        }
    }
    let tests = format!("{folder}/tests/");
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some(rest) = file.path.strip_prefix(&tests) else {
            continue;
        };
        let parts: Vec<&str> = rest.split('/').collect();
        let is_known = rest == "it/main.rs" || of_other_builds.iter().any(|one| one == rest);
        if matches!(parts[..], [_] | [_, "main.rs"]) && !is_known {
            let what = "a second test binary: the only one is tests/it/main.rs";
            faults.push(Fault::new("test-binary", &file.path, what));
        }
    }
    faults
}

/// The root file begins with documentation; the README is there and says whether the crate is built.
fn says_what_it_is(files: &[TreeFile], folder: &str) -> Vec<Fault> {
    let root = ["src/lib.rs", "src/main.rs"]
        .iter()
        .map(|name| format!("{folder}/{name}"))
        .find_map(|path| text_of(files, &path).map(|text| (path, text)));
    let Some((root_path, root)) = root else {
        return vec![Fault::new(
            "crate-page",
            folder,
            "has neither src/lib.rs nor src/main.rs",
        )];
    };
    let mut faults = Vec::new();
    if !root.starts_with("//!") {
        faults.push(Fault::new(
            "crate-page",
            &root_path,
            "does not begin with its documentation",
        ));
    }
    let readme_path = format!("{folder}/README.md");
    let Some(readme) = text_of(files, &readme_path) else {
        faults.push(Fault::new("crate-page", &readme_path, "is missing"));
        return faults;
    };
    let is_empty = syn::parse_file(root).is_ok_and(|syntax| syntax.items.is_empty());
    let words = readme
        .to_lowercase()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    if is_empty != words.contains(NOT_BUILT) {
        let what = format!("says \"{NOT_BUILT}\" if and only if the crate is empty");
        faults.push(Fault::new("crate-page", &readme_path, what));
    }
    faults
}

fn forbids_impurity(files: &[TreeFile], name: &str) -> Vec<Fault> {
    let path = format!("crates/{name}/src/lib.rs");
    let root = text_of(files, &path).unwrap_or_default();
    let missing = FORBID
        .iter()
        .filter(|line| !root.lines().any(|other| other == **line));
    missing
        .map(|line| Fault::new("pure", &path, format!("wants the line {line}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{named, tree_of};
    use super::*;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    #[test]
    fn every_member_inherits_the_lints_of_the_workspace() {
        let files = tree_of(&[
            ("crates/a/Cargo.toml", LINTS),
            ("xtask/Cargo.toml", "[package]\n"),
        ]);
        assert_eq!(inherits_lints(&files, "crates/a"), None);
        assert_eq!(
            inherits_lints(&files, "xtask").unwrap().path,
            "xtask/Cargo.toml"
        );
    }

    #[test]
    fn the_workspace_denies_missing_docs() {
        let denying = tree_of(&[(
            "Cargo.toml",
            "[workspace.lints.rust]\nmissing_docs = \"deny\"\n",
        )]);
        assert!(workspace_denies_missing_docs(&denying).is_empty());
        let warning = tree_of(&[(
            "Cargo.toml",
            "[workspace.lints.rust]\nmissing_docs = \"warn\"\n",
        )]);
        assert_eq!(
            named(&workspace_denies_missing_docs(&warning)),
            [("documented", "Cargo.toml")]
        );
    }

    #[test]
    fn a_second_test_binary_is_found() {
        let good = tree_of(&[
            ("crates/a/Cargo.toml", LINTS),
            ("crates/a/tests/it/main.rs", ""),
            ("crates/a/tests/it/power_cut.rs", ""),
            ("crates/a/tests/data/x.json", ""),
        ]);
        assert!(one_test_binary(&good, "crates/a").is_empty());
        for second in ["crates/a/tests/more.rs", "crates/a/tests/more/main.rs"] {
            let files = tree_of(&[("crates/a/Cargo.toml", LINTS), (second, "")]);
            assert_eq!(
                named(&one_test_binary(&files, "crates/a")),
                [("test-binary", second)]
            );
        }
        let files = tree_of(&[("crates/a/Cargo.toml", "[[test]]\nname = \"x\"\n")]);
        assert_eq!(
            named(&one_test_binary(&files, "crates/a")),
            [("test-binary", "crates/a/Cargo.toml")]
        );
        let other_build = "[[test]]\nname = \"x\"\nrequired-features = [\"f\"]\n";
        let files = tree_of(&[
            ("crates/a/Cargo.toml", other_build),
            ("crates/a/tests/x/main.rs", ""),
        ]);
        assert!(one_test_binary(&files, "crates/a").is_empty());
    }

    #[test]
    fn a_crate_says_what_it_is_and_whether_it_is_built() {
        let faults = |readme: &str, root: &str| {
            let files = tree_of(&[
                ("crates/a/README.md", readme),
                ("crates/a/src/lib.rs", root),
            ]);
            says_what_it_is(&files, "crates/a").len()
        };
        assert_eq!(
            faults("# a\n\nNot built\nyet.\n", "//! Doc.\n#![cfg_attr(x, y)]\n"),
            0
        );
        assert_eq!(faults("# a\n", "//! Doc.\npub mod b;\n"), 0);
        assert_eq!(faults("# a\n", "pub mod b;\n"), 1, "no documentation");
        assert_eq!(
            faults("# a\n", "//! Doc.\n"),
            1,
            "empty, and the page is silent about it"
        );
        assert_eq!(
            faults("Not built yet.", "//! Doc.\npub mod b;\n"),
            1,
            "built, and the page denies it"
        );
        let files = tree_of(&[("crates/a/src/lib.rs", "//! Doc.\n")]);
        assert_eq!(
            named(&says_what_it_is(&files, "crates/a")),
            [("crate-page", "crates/a/README.md")]
        );
        assert_eq!(
            named(&says_what_it_is(&[], "crates/a")),
            [("crate-page", "crates/a")]
        );
    }

    #[test]
    fn a_pure_crate_forbids_what_it_must_not_touch() {
        let faults = |text: &str| {
            forbids_impurity(&tree_of(&[("crates/core/src/lib.rs", text)]), "core").len()
        };
        let [methods, types] = FORBID else {
            panic!("two lines")
        };
        assert_eq!(faults(&format!("//! Doc.\n{methods}\n{types}\n")), 0);
        assert_eq!(faults(&format!("//! Doc.\n{methods}\n// {types}\n")), 1);
        assert_eq!(faults("//! Doc.\n"), 2);
        assert_eq!(forbids_impurity(&[], "core").len(), 2);
    }
}
