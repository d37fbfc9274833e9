//! The list of requirement ids and the specification agree: an id that is listed is found.

use super::Fault;
use crate::conformance::ids;
use crate::project::TreeFile;

/// The list.
pub const IDS: &str = "docs/spec/ids.txt";

/// The files that give the ids their meaning.
const SPECIFICATION: &[&str] = &[
    "vibe-commerce",
    "value-context",
    "vacant",
    "agh-network",
    "interface",
];

/// Every rule about the specification.
pub fn check(files: &[TreeFile]) -> Vec<Fault> {
    let text_of = |path: &str| {
        files
            .iter()
            .find(|file| file.path == path)
            .and_then(TreeFile::text)
    };
    let mut faults = Vec::new();
    let mut specification = String::new();
    for name in SPECIFICATION {
        let path = format!("docs/spec/{name}.md");
        match text_of(&path) {
            Some(text) => specification += text,
            None => faults.push(Fault::new("spec", &path, "is missing")),
        }
    }
    let Some(list) = text_of(IDS) else {
        faults.push(Fault::new("spec", IDS, "is missing"));
        return faults;
    };
    let unknown = ids::listed(list).filter(|id| !ids::is_cited(&specification, id));
    faults.extend(unknown.map(|id| {
        Fault::new(
            "spec",
            IDS,
            format!("{id} is in no file of the specification"),
        )
    }));
    faults
}

#[cfg(test)]
mod tests {
    use super::super::{named, tree_of};
    use super::*;

    fn faults_with(list: &str) -> Vec<Fault> {
        let files: Vec<(String, &str)> = SPECIFICATION
            .iter()
            .map(|name| (format!("docs/spec/{name}.md"), "**VX-DUP-10** text"))
            .collect();
        let mut files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        files.push((IDS, list));
        check(&tree_of(&files))
    }

    #[test]
    fn a_listed_id_that_no_file_explains_is_a_fault() {
        assert!(faults_with("VX-DUP-10\n").is_empty());
        assert_eq!(
            named(&faults_with("VX-DUP-10\nVX-DUP-1\n")),
            [("spec", IDS)]
        );
    }

    #[test]
    fn a_missing_file_is_a_fault() {
        assert_eq!(check(&[]).len(), SPECIFICATION.len() + 1);
    }
}
