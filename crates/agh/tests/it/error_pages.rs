//! Every error is told of in `docs/errors/agh.md`, with its reason and its requirement.

use chancery_agh::fault::ErrorName;

// CH-CLI-3, AG-ERR-1, AG-B-48
#[test]
fn every_error_has_its_row() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors/agh.md");
    let page = std::fs::read_to_string(page).unwrap();
    for error in ErrorName::ALL {
        let (name, reason) = (error.as_str(), error.reason().as_str());
        let start = format!("| <a id=\"{name}\"></a>`{name}` | `{reason}` | ");
        let row = page.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("{name} with {reason}"));
        assert!(
            row.ends_with(&format!("| {} |", error.requirement())),
            "{row}"
        );
    }
}
