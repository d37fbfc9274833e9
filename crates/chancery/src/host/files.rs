//! The files that a node is made of: the world, secret keys, the TLS identity.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chancery_core::keys::ed25519::SigningKey;
use chancery_doors::OutgoingTls;
use chancery_doors::http::{TlsIdentity, TlsKeeper};
use chancery_node::Vault;
use chancery_value_context::world::World;

use super::check::of_key;
use crate::config::{Config, Tls};
use crate::exit::Failure;
use crate::secret_file;

/// A world file and where it lies: the key files it names are found beside it.
pub(super) struct WorldFile {
    pub(super) world: World,
    folder: PathBuf,
}

impl WorldFile {
    /// Reads a world. Secret seeds inside it are for development only (CH-CFG-2).
    pub(super) fn read(path: &Path, dev: bool) -> Result<Self, Failure> {
        let text = read_json(path)?;
        let world = World::parse(&text)
            .map_err(|fault| Failure::usage(format!("{}: {fault}", path.display())))?;
        if !dev && !world.secret_keys.is_empty() {
            let failure = Failure::usage(format!("{} holds secret_seeds_hex", path.display()));
            return Err(failure.next(
                "put each seed into a key_file of mode 0600, or set dev = true on loopback",
            ));
        }
        Ok(Self {
            world,
            folder: path.parent().map(Path::to_owned).unwrap_or_default(),
        })
    }

    /// Where agents that are hosted elsewhere are reached.
    pub(super) fn addresses(&self) -> BTreeMap<String, String> {
        let addresses = self.world.addresses.iter();
        addresses
            .map(|(id, url)| (id.as_str().to_owned(), url.to_string()))
            .collect()
    }

    /// The files of the secret keys of hosted agents, each with its owner.
    fn key_files(&self) -> impl Iterator<Item = (&str, PathBuf)> {
        let named = self.world.agents.iter();
        named.filter_map(|agent| {
            let file = agent.key_file.as_ref()?;
            Some((agent.id.as_str(), self.folder.join(&**file)))
        })
    }

    /// Whether each of these files holds a key.
    pub(super) fn read_key_files(&self) -> Vec<(PathBuf, Result<(), Failure>)> {
        let read = |(owner, file): (&str, PathBuf)| {
            let read = key_of(owner, &file).map(drop);
            (file, read)
        };
        self.key_files().map(read).collect()
    }

    /// The secret keys of hosted agents, taken out: they are held in one place only.
    pub(super) fn take_secret_keys(&mut self) -> Result<Vec<(String, SigningKey)>, Failure> {
        let mut in_world = std::mem::take(&mut self.world.secret_keys);
        let mut keys = Vec::new();
        for agent in &self.world.agents {
            let id = agent.id.as_str().to_owned();
            if let Some(file) = &agent.key_file {
                let key = key_of(&id, &self.folder.join(&**file))?;
                keys.push((id, key));
            } else if let Some(key) = in_world.remove(&agent.id) {
                keys.push((id, key));
            }
        }
        Ok(keys)
    }
}

/// The world that the configuration names.
pub(super) fn world_file(config: &Config) -> Result<Option<WorldFile>, Failure> {
    let path = config.value_context.world.as_deref();
    let read = path.map(|path| WorldFile::read(path, config.dev));
    read.transpose().map_err(of_key("value_context.world"))
}

fn key_of(owner: &str, file: &Path) -> Result<SigningKey, Failure> {
    let read = secret_file::read_key(file);
    read.map_err(of_key(&format!("key_file of {owner}")))
}

/// The files of secret keys that the world file names.
pub(crate) fn key_files(config: &Config) -> Result<Vec<PathBuf>, Failure> {
    let world = world_file(config)?;
    let named = world.iter().flat_map(WorldFile::key_files);
    Ok(named.map(|(_, file)| file).collect())
}

/// The secret keys of hosted agents.
pub(super) fn vault(world: Option<&mut WorldFile>) -> Result<Arc<Vault>, Failure> {
    let vault = Vault::new();
    for (owner, key) in world
        .map(WorldFile::take_secret_keys)
        .transpose()?
        .unwrap_or_default()
    {
        vault.hold(owner, key);
    }
    Ok(Arc::new(vault))
}

/// What the listener shows, where it speaks TLS.
pub(super) fn tls_keeper(config: &Config) -> Result<Option<Arc<TlsKeeper>>, Failure> {
    let Some(tls) = &config.tls else {
        return Ok(None);
    };
    let keeper = TlsKeeper::new(&tls_identity(tls)?);
    let keeper = keeper.map_err(|error| Failure::usage(error.to_string()));
    Ok(Some(keeper.map_err(of_key("tls.certificate and tls.key"))?))
}

/// The certificate chain and the key.
pub(super) fn tls_identity(tls: &Tls) -> Result<TlsIdentity, Failure> {
    Ok(TlsIdentity {
        certificates_pem: read(&tls.certificate)?,
        key_pem: read(&tls.key)?,
    })
}

/// What connections to other nodes are secured with.
pub(crate) fn outgoing_tls(ca_file: Option<&Path>) -> Result<OutgoingTls, Failure> {
    let roots = ca_file.map(read).transpose().map_err(of_key("ca_file"))?;
    let tls = OutgoingTls::new(roots.as_deref());
    tls.map_err(|error| match ca_file {
        Some(_) => of_key("ca_file")(Failure::usage(error.to_string())),
        None => Failure::usage(error.to_string()),
    })
}

/// Reads a file of JSON. One that was cut short is told as that: what a reader of its members says of it would mislead.
pub(super) fn read_json(path: &Path) -> Result<Vec<u8>, Failure> {
    let text = read(path)?;
    match serde_json::from_slice::<serde::de::IgnoredAny>(&text) {
        Ok(_) => Ok(text),
        Err(error) if error.is_eof() => {
            let what = format!(
                "{}:{}: the JSON ends too early",
                path.display(),
                error.line()
            );
            Err(Failure::usage(what)
                .next("put the whole file in its place: this one was cut short"))
        }
        Err(error) => Err(Failure::usage(format!(
            "{}: no JSON: {error}",
            path.display()
        ))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))
}
