//! Every code is told of in `docs/errors/README.md`, with its status.

use chancery_vibe::code::Code;

// CH-CLI-3, VC-ERR-1
#[test]
fn every_code_has_its_row() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors/README.md");
    let page = std::fs::read_to_string(page).unwrap();
    let vibe = page.split("\n## ").find(|part| part.starts_with("vibe"));
    let missing: Vec<_> = Code::ALL
        .iter()
        .map(|code| format!("| `{}` | {} |", code.as_str(), code.status()))
        .filter(|row| !vibe.unwrap().contains(row.as_str()))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}
