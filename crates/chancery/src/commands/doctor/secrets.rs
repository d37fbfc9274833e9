//! Files that hold secrets: there, and readable by their owner alone (CH-JRN-9, VX-KEY-8).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Round;
use crate::config::{AgentBehaviour, Config, Store};

const CHECK: &str = "secrets";

/// How a file of a secret may be read at most.
pub(super) const OF_FILE: u32 = 0o600;

/// Looks at every secret that the configuration names, and at the data directory.
pub(super) fn look(config: &Config, named: &[PathBuf], round: &mut Round) {
    for path in named {
        look_at(path, OF_FILE, round);
    }
    let kept = kept(&config.data);
    for path in &kept {
        let wanted = if path.is_dir() { 0o700 } else { OF_FILE };
        look_at(path, wanted, round);
    }
    let count = named.len() + kept.len();
    round.done(CHECK, format!("{count} files, for their owner alone"));
}

fn look_at(path: &Path, wanted: u32, round: &mut Round) {
    if let Some((what, next)) = fault(path, wanted) {
        round.find(CHECK, path.display(), what, next);
    }
}

/// What is wrong with a secret from outside, and what to do.
pub(super) fn fault(path: &Path, wanted: u32) -> Option<(String, String)> {
    match fs::metadata(path) {
        Ok(metadata) => {
            let mode = metadata.permissions().mode() & 0o7777;
            let next = format!("chmod {wanted:o} {}", path.display());
            (mode & 0o077 != 0).then(|| (format!("others may read it (mode {mode:04o})"), next))
        }
        Err(error) => {
            let next = "put the file there, or take its name out of the configuration";
            Some((format!("it cannot be read: {error}"), next.to_owned()))
        }
    }
}

/// The files that the configuration and the world name.
pub(super) fn named(config: &Config) -> Vec<PathBuf> {
    let mut files = Vec::new();
    files.extend(config.tls.as_ref().map(|tls| tls.key.clone()));
    for nats in [&config.agh.nats, &config.bus].into_iter().flatten() {
        files.extend(nats.token_file.clone());
        files.extend(nats.credentials.clone());
    }
    if let Store::Postgres(database) = &config.store {
        files.extend(database.password_file.clone());
    }
    files.extend(config.vibe.tokens.clone());
    for agent in &config.vacant.agents {
        files.push(agent.seed.clone());
        files.extend(of_behaviour(&agent.behaviour));
    }
    for agent in &config.vibe.agents {
        files.extend(of_behaviour(&agent.behaviour));
    }
    files.extend(config.agh.peers.iter().filter_map(|peer| peer.key_file()));
    files.extend(of_models(config));
    // A world that cannot be read is told with the configuration.
    files.extend(crate::host::key_files(config).unwrap_or_default());
    files.sort();
    files.dedup();
    files
}

fn of_models(config: &Config) -> impl Iterator<Item = PathBuf> {
    let models = config.agh.models.values();
    models.filter_map(|model| model.key_file.clone())
}

fn of_behaviour(behaviour: &AgentBehaviour) -> Option<PathBuf> {
    match behaviour {
        AgentBehaviour::Http { key, .. } => Some(key.clone()),
        _ => None,
    }
}

/// What lies in the data directory, and itself. A node that never ran has none.
fn kept(data: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(data) else {
        return Vec::new();
    };
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    files.chain([data.to_owned()]).collect()
}
