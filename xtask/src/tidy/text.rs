//! What no file of the tree may hold: a path of somebody's machine, the host of a package registry, a package we
//! decided against, or a copy of somebody else's data.

use super::Fault;
use crate::project::TreeFile;
use std::collections::BTreeMap;

/// The one file that may know where foreign data lies beside a checkout.
const KNOWS_THE_FOREIGN_FOLDER: &str = ".ci/run";

// Written in two halves so that this file does not hold them itself.
const HOME_FOLDERS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
];
const FOREIGN_FOLDER: &str = concat!("../sha", "red");
const REGISTRIES: &[&str] = &[
    concat!("crates", ".io"),
    concat!("registry.", "npmjs"),
    concat!("pypi", ".org"),
    concat!("rsproxy", ".cn"),
];

/// Every rule about text.
pub fn check(files: &[TreeFile]) -> Vec<Fault> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &TreeFile) -> Vec<Fault> {
    let Some(text) = file.text() else {
        return Vec::new();
    };
    // A lock file is as its tool writes it.
    if file.path.ends_with("Cargo.lock") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut found = |rule, what: &str| {
            faults.push(Fault::new(
                rule,
                &file.path,
                format!("line {}: {what}", index + 1),
            ));
        };
        for folder in HOME_FOLDERS
            .iter()
            .filter(|folder| begins_a_path(line, folder))
        {
            found("machine-path", folder);
        }
        if line.contains(FOREIGN_FOLDER) && file.path != KNOWS_THE_FOREIGN_FOLDER {
            found("machine-path", FOREIGN_FOLDER);
        }
        for host in REGISTRIES.iter().filter(|host| line.contains(**host)) {
            found("registry", host);
        }
    }
    faults
}

/// Whether `folder` stands in the line as the beginning of a path, not as the middle of another.
fn begins_a_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || ".-_/{}".contains(c))
    })
}

/// Files of the tree that are, byte for byte, one of the foreign folder.
pub fn foreign_copies(files: &[TreeFile], foreign: &[TreeFile]) -> Vec<Fault> {
    let foreign: BTreeMap<&[u8], &str> = foreign
        .iter()
        .map(|file| (file.bytes.as_slice(), file.path.as_str()))
        .collect();
    let copies = files.iter().filter(|file| !file.bytes.is_empty());
    copies
        .filter_map(|file| {
            let original = foreign.get(file.bytes.as_slice())?;
            Some(Fault::new(
                "foreign-copy",
                &file.path,
                format!("is a copy of the foreign {original}"),
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{named, tree_of};
    use super::*;

    #[test]
    fn a_path_of_a_machine_is_found() {
        for folder in HOME_FOLDERS {
            for line in [
                format!("{folder}x"),
                format!("see `{folder}x`"),
                format!("a=\"{folder}x\""),
            ] {
                assert_eq!(
                    named(&check(&tree_of(&[("a.md", &line)]))),
                    [("machine-path", "a.md")],
                    "{line}"
                );
            }
            let inside = format!("https://example.test{folder}x, net{folder}x, {{id}}{folder}");
            assert!(check(&tree_of(&[("a.md", &inside)])).is_empty());
        }
    }

    #[test]
    fn only_the_check_script_knows_the_foreign_folder() {
        let line = format!("cd {FOREIGN_FOLDER}/vectors");
        assert_eq!(
            named(&check(&tree_of(&[("a.sh", &line)]))),
            [("machine-path", "a.sh")]
        );
        assert!(check(&tree_of(&[(KNOWS_THE_FOREIGN_FOLDER, &line)])).is_empty());
    }

    #[test]
    fn a_registry_is_named_in_lock_files_only() {
        for host in REGISTRIES {
            let line = format!("# see https://{host}/x");
            assert_eq!(
                named(&check(&tree_of(&[("a.md", &line)]))),
                [("registry", "a.md")]
            );
            assert!(check(&tree_of(&[("Cargo.lock", &line)])).is_empty());
        }
    }

    #[test]
    fn a_copy_of_a_foreign_file_is_found_under_any_name() {
        let foreign = tree_of(&[("suite/y_1.json", "[1]"), ("suite/empty", "")]);
        let files = tree_of(&[
            ("vectors/mine.json", "[1]"),
            ("b.json", "[1] "),
            ("empty", ""),
        ]);
        assert_eq!(
            named(&foreign_copies(&files, &foreign)),
            [("foreign-copy", "vectors/mine.json")]
        );
    }
}
