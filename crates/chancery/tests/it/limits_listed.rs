//! `docs/limits.md` says the defaults that the program has (CH-LIM-1).

use serde_json::Value;

use crate::support::{Place, workspace};

/// The quantities of a cell: `4,096`, `24 h`, `256 MiB (at least 1 MiB)`, in seconds, bytes or pieces.
fn quantities(cell: &str) -> Vec<u64> {
    let words: Vec<&str> = cell.split([' ', ';', '(', ')']).collect();
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let Ok(number) = word.trim_end_matches(',').replace(',', "").parse::<u64>() else {
            continue;
        };
        let unit = match words.get(index + 1).copied().unwrap_or_default() {
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "h" => 3_600,
            "minutes" => 60,
            _ => 1,
        };
        found.push(number * unit);
    }
    found
}

/// The names in backticks.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_default_on_the_page_is_the_programs() {
    // CH-LIM-1
    let page = std::fs::read_to_string(workspace().join("docs/limits.md")).unwrap();
    let shown = Place::new().run(&["config", "show", "--json"]).exits(0);
    let shown = shown.json();
    let mut compared = 0;
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.split(" |").map(str::trim).collect();
        let [_, default, keys, ..] = cells[..] else {
            panic!("a row has four cells: {line}");
        };
        let default = default.trim_start_matches("| ");
        for key in names(keys) {
            let Some(value) = shown.get(key).and_then(|entry| entry["value"].as_u64()) else {
                // A key of an agent's own table has its default there, a query's parameter in its path.
                assert!(
                    keys.contains("of the agent") || keys.contains("query"),
                    "{line}"
                );
                continue;
            };
            let told = quantities(default);
            assert!(
                told.is_empty() || told.contains(&value),
                "{key} = {value}: {line}"
            );
            compared += usize::from(!told.is_empty());
        }
    }
    assert!(compared >= 25, "{compared} defaults");
}

#[test]
fn every_key_that_is_a_limit_is_on_the_page() {
    // CH-LIM-1
    let page = std::fs::read_to_string(workspace().join("docs/limits.md")).unwrap();
    let shown: Value = Place::new()
        .run(&["config", "show", "--json"])
        .exits(0)
        .json();
    let is_limit = |key: &&String| key.starts_with("limits.") || key.contains(".max_bytes");
    for key in shown.as_object().unwrap().keys().filter(is_limit) {
        assert!(page.contains(&format!("`{key}`")), "{key}");
    }
}
