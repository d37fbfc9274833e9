//! Reading the environment: every key is also `CHANCERY_…`.

use super::settings::{Settings, Source};
use super::table::{self, KEYS};
use crate::exit::Failure;

const PREFIX: &str = "CHANCERY_";

/// Variables that are no keys and still ours: the file itself, what `serve` logs, what clients read, and what the tests
/// read.
const NO_KEYS: [&str; 6] = [
    "CHANCERY_CONFIG",
    "CHANCERY_LOG",
    "CHANCERY_URL",
    "CHANCERY_TOKEN",
    "CHANCERY_KEY",
    "CHANCERY_FOREIGN_VECTORS",
];

/// The variables of this process that concern us.
pub fn variables_of_process() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            name.starts_with(PREFIX)
                .then(|| (name, value.to_string_lossy().into_owned()))
        })
        .collect()
}

/// Reads variables into the settings.
pub(super) fn read(variables: &[(String, String)], settings: &mut Settings) -> Result<(), Failure> {
    for (name, value) in variables {
        if NO_KEYS.contains(&name.as_str()) || set_by_orchestrator(name) {
            continue;
        }
        let key = KEYS.iter().find(|key| key.variable() == *name);
        let key = key.ok_or_else(|| unknown(name))?;
        settings.set_text(key, value, Source::Environment)?;
    }
    Ok(())
}

/// A service called `chancery` makes Kubernetes set these in every container beside it.
fn set_by_orchestrator(name: &str) -> bool {
    name == "CHANCERY_PORT"
        || name.starts_with("CHANCERY_PORT_")
        || name.starts_with("CHANCERY_SERVICE_")
}

fn unknown(name: &str) -> Failure {
    let names: Vec<String> = KEYS.iter().map(table::Key::variable).collect();
    let nearest = table::nearest(name, names.iter().map(String::as_str)).unwrap_or_default();
    Failure::usage(format!("environment: unknown key {name}"))
        .next(format!("the nearest known key is {nearest}"))
}
