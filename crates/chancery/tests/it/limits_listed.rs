//! `docs/limits.md` says the defaults that the program has (CH-LIM-1).

use chancery::config::table;
use serde_json::Value;

use crate::support::{Place, workspace};

/// The quantities of a cell: `4,096`, `24 h`, `256 MiB (at least 1 MiB)`, in seconds, bytes or pieces.
pub fn quantities(cell: &str) -> Vec<u64> {
    let words: Vec<&str> = cell.split([' ', ';', '(', ')']).collect();
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let Ok(number) = word.trim_end_matches(',').replace(',', "").parse::<u64>() else {
            continue;
        };
        let unit = words
            .get(index + 1)
            .map_or("", |word| word.trim_end_matches(','));
        let unit = match unit {
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

/// The default of a key in an agent's own table.
fn of_agent(name: &str) -> u64 {
    let agent = table::find_list("vibe.agent").unwrap();
    let key = agent.keys.iter().find(|key| key.name == name);
    key.expect(name).default.parse().unwrap()
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
            let value = match keys.contains("of the agent") {
                true => Some(of_agent(key)),
                false => shown.get(key).and_then(|entry| entry["value"].as_u64()),
            };
            let Some(value) = value else {
                // A query's parameter has its default in its path.
                assert!(keys.contains("query"), "{line}");
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
