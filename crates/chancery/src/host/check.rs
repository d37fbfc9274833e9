//! Whether a start would get past the files that the configuration names: `config check` and `doctor` ask.
//!
//! Guarantees: a file is read by what a start reads it with, so both say the same of it.
//!
//! Refuses to: open a store, ask a database or a broker, or write.

use std::path::{Path, PathBuf};

use super::world_seed::{self, WorldSeed};
use super::{agents, broker, files, tokens, vacants, vibe_tokens};
use crate::config::{AgentBehaviour, Config, Store};
use crate::exit::Failure;
use crate::secret_file;

/// A file that a start would refuse.
pub(crate) struct WrongFile {
    /// The key of the configuration that leads to it.
    pub(crate) key: String,
    /// Where it is, as far as that is one place.
    pub(crate) path: Option<PathBuf>,
    /// What is wrong with it.
    pub(crate) failure: Failure,
}

/// A failure that names the key of the configuration that led to it.
pub(super) fn of_key(key: &str) -> impl FnOnce(Failure) -> Failure + '_ {
    move |mut failure| {
        failure.what = format!("{key}: {}", failure.what);
        let mend = || format!("mend that file, or correct {key} in the configuration");
        failure.next.get_or_insert_with(mend);
        failure
    }
}

/// Reads every file that the configuration names, and gives those that a start would refuse.
pub(crate) fn wrong_files(config: &Config) -> Vec<WrongFile> {
    let config = &without_environment(config);
    let mut found = Found::default();
    if let Err((key, path, failure)) = config.first_missing() {
        found.take(key, Some(path), Err(failure));
    }
    of_node(config, &mut found);
    of_protocols(config, &mut found);
    found.0
}

/// The keys of models that a node finds in its environment are not looked for: ours may be another.
fn without_environment(config: &Config) -> Config {
    let mut config = config.clone();
    let vacants = config.vacant.agents.iter_mut();
    let behaviours = vacants.map(|agent| &mut agent.behaviour);
    let agents = config.vibe.agents.iter_mut();
    for behaviour in behaviours.chain(agents.map(|agent| &mut agent.behaviour)) {
        if let AgentBehaviour::Model(entry) = behaviour {
            entry.key_env = None;
        }
    }
    for entry in config.agh.models.values_mut() {
        entry.key_env = None;
    }
    config
}

fn of_node(config: &Config, found: &mut Found) {
    if let Some(tls) = &config.tls {
        let read = files::tls_keeper(config).map(drop);
        found.take("tls.certificate", Some(&tls.certificate), read);
    }
    let ca_file = config.ca_file.as_deref();
    found.take("ca_file", ca_file, files::outgoing_tls(ca_file).map(drop));
    if let Store::Postgres(database) = &config.store
        && let Some(path) = &database.password_file
    {
        let read = secret_file::read_secret(path, "a password").map(drop);
        found.take("store_password_file", Some(path), read);
    }
    for (key, nats, options) in [
        ("agh.nats", &config.agh.nats, broker::broker_options(config)),
        ("bus", &config.bus, broker::bus_options(config)),
    ] {
        let nats = nats.as_ref();
        let path = nats.and_then(|nats| nats.credentials.as_ref().or(nats.token_file.as_ref()));
        found.take(key, path.map(PathBuf::as_path), options.map(drop));
    }
    found.take("data", None, tokens::read_first(config).map(drop));
}

fn of_protocols(config: &Config, found: &mut Found) {
    let world = config.value_context.world.as_deref();
    match files::world_file(config) {
        Ok(Some(world_file)) => {
            for (path, read) in world_file.read_key_files() {
                found.take("value_context.world", Some(&path), read);
            }
        }
        Ok(None) => {}
        Err(failure) => found.take("value_context.world", world, Err(failure)),
    }
    let seed = config.vibe.world.as_deref();
    let read = match &config.store {
        Store::Postgres(_) => world_seed::named(config).map(drop),
        Store::Embedded | Store::Memory => WorldSeed::of(config, None).map(drop),
    };
    found.take("vibe.world", seed, read);
    let tokens = config.vibe.tokens.as_deref();
    found.take("vibe.tokens", tokens, vibe_tokens::wanted(config).map(drop));
    found.take("vibe.agent", None, agents::described(config).map(drop));
    for agent in &config.vacant.agents {
        let read = vacants::key_of(agent).map(drop);
        found.take("vacant.agent", Some(&agent.seed), read);
        let at_once = config.vacant.behaviour_calls;
        let answers = vacants::behaviour(agent, at_once).map(drop);
        found.take("vacant.agent", None, answers);
    }
    let peers = config.agh.peers().map(drop);
    let peers = peers.and_then(|()| config.agh.keys().map(drop));
    found.take(
        "agh.peer",
        None,
        peers.and_then(|()| broker::answering(config).map(drop)),
    );
}

#[derive(Default)]
struct Found(Vec<WrongFile>);

impl Found {
    /// Takes what reading a file gave. One that is not there is found once.
    fn take(&mut self, key: &str, path: Option<&Path>, read: Result<(), Failure>) {
        let Err(failure) = read else { return };
        let mut known = self.0.iter().filter_map(|known| known.path.as_ref());
        if known.any(|known| failure.what.contains(&*known.to_string_lossy())) {
            return;
        }
        self.0.push(WrongFile {
            key: key.to_owned(),
            path: path.map(Path::to_owned),
            failure,
        });
    }
}
