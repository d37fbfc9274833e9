//! The files that a node is made of: the world, secret keys, the TLS identity.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chancery_core::keys::ed25519::SigningKey;
use chancery_doors::OutgoingTls;
use chancery_doors::http::TlsIdentity;
use chancery_node::Vault;
use chancery_value_context::world::World;

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
        let text = std::fs::read(path)
            .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
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

    /// The files of the secret keys of hosted agents.
    fn key_files(&self) -> impl Iterator<Item = PathBuf> {
        let named = self.world.agents.iter();
        let named = named.filter_map(|agent| agent.key_file.as_ref());
        named.map(|file| self.folder.join(&**file))
    }

    /// The secret keys of hosted agents, taken out: they are held in one place only.
    pub(super) fn take_secret_keys(&mut self) -> Result<Vec<(String, SigningKey)>, Failure> {
        let mut in_world = std::mem::take(&mut self.world.secret_keys);
        let mut keys = Vec::new();
        for agent in &self.world.agents {
            let id = agent.id.as_str().to_owned();
            if let Some(file) = &agent.key_file {
                keys.push((id, secret_file::read_key(&self.folder.join(&**file))?));
            } else if let Some(key) = in_world.remove(&agent.id) {
                keys.push((id, key));
            }
        }
        Ok(keys)
    }
}

/// The files of secret keys that the world file names.
pub(crate) fn key_files(config: &Config) -> Result<Vec<PathBuf>, Failure> {
    let Some(path) = &config.value_context.world else {
        return Ok(Vec::new());
    };
    Ok(WorldFile::read(path, config.dev)?.key_files().collect())
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

/// The certificate chain and the key.
pub(super) fn tls_identity(tls: &Tls) -> Result<TlsIdentity, Failure> {
    Ok(TlsIdentity {
        certificates_pem: read(&tls.certificate)?,
        key_pem: read(&tls.key)?,
    })
}

/// What connections to other nodes are secured with.
pub(crate) fn outgoing_tls(ca_file: Option<&Path>) -> Result<OutgoingTls, Failure> {
    let roots = ca_file.map(read).transpose()?;
    OutgoingTls::new(roots.as_deref()).map_err(|error| Failure::usage(error.to_string()))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))
}
