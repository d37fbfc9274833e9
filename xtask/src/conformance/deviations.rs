//! What `docs/deviations.md` says about a requirement.

use super::ids;

/// The heading of the table of what is built differently.
const DIFFERENT: &str = "## Built differently";
/// The heading of the list of what is not built.
const MISSING: &str = "## Not built yet";

/// The page, read.
pub struct Deviations<'a> {
    /// The rows of the table: the cell with the ids, and what is done instead.
    rows: Vec<(&'a str, &'a str)>,
    /// The list of what is not built.
    missing: &'a str,
}

impl<'a> Deviations<'a> {
    pub fn of(page: &'a str) -> Self {
        let after = |heading: &str| page.split_once(heading).map_or("", |(_, rest)| rest);
        let section = |heading| after(heading).split("\n## ").next().unwrap_or_default();
        let rows = section(DIFFERENT).lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            Some((cells.next()?, cells.next()?))
        });
        Self {
            rows: rows.filter(|(ids, _)| *ids != "id").collect(),
            missing: section(MISSING),
        }
    }

    /// What is done instead of a requirement, if anything is: all that its rows say.
    pub fn instead_of(&self, id: &str) -> Option<String> {
        let named = |(ids, _): &&(&str, &str)| ids::is_cited(ids, id);
        let rows = self.rows.iter().filter(named);
        let all: Vec<&str> = rows.map(|(_, instead)| *instead).collect();
        (!all.is_empty()).then(|| all.join(" "))
    }

    /// Whether the page says that it is not built.
    pub fn lacks(&self, id: &str) -> bool {
        ids::is_cited(self.missing, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_by_each_of_its_ids_and_by_no_other() {
        let page = "# Deviations\n\n## Built differently\n\n| id | instead | why |\n|---|---|---|\n\
                    | VX-A-1, VX-A-2 | Another way. | Because of VX-A-3. |\n\
                    | VX-A-2 | And more. | So. |\n\n## Not built yet\n\n- The rest (VX-B-1).\n";
        let deviations = Deviations::of(page);
        let instead = |id| deviations.instead_of(id);
        assert_eq!(instead("VX-A-1").as_deref(), Some("Another way."));
        assert_eq!(instead("VX-A-2").as_deref(), Some("Another way. And more."));
        for id in ["VX-A-3", "VX-A-10", "VX-B-1", "id"] {
            assert_eq!(deviations.instead_of(id), None, "{id}");
        }
        assert!(deviations.lacks("VX-B-1") && !deviations.lacks("VX-A-1"));
    }
}
