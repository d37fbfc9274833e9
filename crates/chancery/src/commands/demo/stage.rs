//! The node of the demo: a directory with a configuration, a world, and a key for each agent that speaks.

use std::path::{Path, PathBuf};

use chancery_core::keys::ed25519::{SigningKey, encode_public_key};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::config::{Config, DEFAULT_FILE, Flags, Sources};
use crate::exit::Failure;
use crate::secret_file;

/// The agents of the story.
pub(super) const LIVING_ROOM: &str = "agent://home.local/living-room";
pub(super) const KITCHEN: &str = "agent://home.local/kitchen";
pub(super) const HALLWAY: &str = "agent://home.local/hallway";

const CONFIG: &str = "\
# Written by chancery demo.
listen = \"127.0.0.1:0\"
data = \"chancery-data\"
dev = true

[value_context]
world = \"agents.json\"

[vibe]
world = \"world.json\"
";

/// Everything that the story needs.
pub(super) struct Stage {
    /// The configuration of the node.
    pub(super) config: Config,
    /// The key of the living room.
    pub(super) living_room: SigningKey,
    /// The key of the kitchen.
    pub(super) kitchen: SigningKey,
    /// Removes the directory when the story is over.
    _temporary: Option<TempDir>,
}

impl Stage {
    /// Writes the files, below `keep` or in a directory of their own.
    pub(super) fn build(keep: Option<&Path>) -> Result<Self, Failure> {
        let (dir, temporary) = place(keep)?;
        let living_room = secret_file::new_key(&dir.join("living-room.key"))?;
        let kitchen = secret_file::new_key(&dir.join("kitchen.key"))?;
        let world = world(&living_room, &kitchen);
        secret_file::write_new(
            &dir.join("agents.json"),
            world.to_string().as_bytes(),
            0o644,
        )?;
        secret_file::write_new(
            &dir.join("world.json"),
            super::deal::world().to_string().as_bytes(),
            0o644,
        )?;
        let file = dir.join(DEFAULT_FILE);
        for key in super::chain::KEYS {
            secret_file::new_key(&dir.join(key))?;
        }
        let (peers, vacants) = (super::handover::PEERS, super::chain::VACANTS);
        let config = format!("{CONFIG}{peers}{vacants}");
        secret_file::write_new(&file, config.as_bytes(), 0o644)?;
        let sources = Sources {
            file: Some(file),
            // A variable meant for another node has no say here.
            environment: Vec::new(),
            flags: Flags::default(),
        };
        Ok(Self {
            config: Config::load(&sources)?,
            living_room,
            kitchen,
            _temporary: temporary,
        })
    }
}

fn place(keep: Option<&Path>) -> Result<(PathBuf, Option<TempDir>), Failure> {
    match keep {
        Some(dir) if dir.exists() => Err(secret_file::exists(dir)),
        Some(dir) => {
            secret_file::make_private_folder(dir)?;
            Ok((dir.to_owned(), None))
        }
        None => {
            let temporary = TempDir::with_prefix("chancery-demo-").map_err(|error| {
                Failure::usage(format!("cannot make a temporary directory: {error}"))
                    .next("set TMPDIR to a directory that can be written, or use --keep DIR")
            })?;
            Ok((temporary.path().to_owned(), Some(temporary)))
        }
    }
}

/// Three agents that know each other. The kitchen is the living room's parent; the hallway only listens and has no key.
fn world(living_room: &SigningKey, kitchen: &SigningKey) -> Value {
    json!({
        "trust": {"trust_anchors": {
            LIVING_ROOM: trusted(living_room),
            KITCHEN: trusted(kitchen),
        }},
        "local_agents": [
            {"id": LIVING_ROOM, "parent": KITCHEN, "children": [], "peers": [HALLWAY]},
            {"id": KITCHEN, "parent": null, "children": [LIVING_ROOM], "peers": [HALLWAY]},
            {"id": HALLWAY, "parent": null, "children": [], "peers": [LIVING_ROOM, KITCHEN]},
        ],
    })
}

fn trusted(key: &SigningKey) -> Value {
    json!({"type": "agent", "keys": [{
        "id": "k-01",
        "algorithm": "ed25519",
        "public_key": encode_public_key(&key.verifying_key()),
        "state": "active",
        "valid_from": "2026-01-01T00:00:00Z",
        "valid_until": "9999-12-31T23:59:59Z",
    }]})
}
