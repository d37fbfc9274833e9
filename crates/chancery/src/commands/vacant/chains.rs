//! Where the chains of a caller stand: one file, replaced as a whole (VA-DSP-11).
//!
//! Beside it stands the call that is on its way (VA-DSP-10): a crash between sending and hearing sends the same bytes
//! again.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use chancery_core::digest::Blake2b256;
use chancery_vacant::envelope::EMPTY_PREV_HASH;
use chancery_vacant::id::VacantId;
use chancery_vacant::rules::chain::ReplayState;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Link {
    last_seq: u64,
    last_hash_hex: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Both {
    request: Link,
    response: Link,
}

/// The chains of one caller.
pub(super) struct Chains {
    path: PathBuf,
    all: BTreeMap<String, Both>,
}

/// Where both chains with one target stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) request: ReplayState,
    pub(super) response: ReplayState,
}

impl Chains {
    /// Reads the file; none is none yet.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let all = match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                Failure::damaged(format!("{} holds no chains: {error}", path.display()))
                    .next("a chain that is lost cannot be continued: restore the file")
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => {
                return Err(Failure::usage(format!(
                    "cannot read {}: {error}",
                    path.display()
                )));
            }
        };
        Ok(Self {
            path: path.to_owned(),
            all,
        })
    }

    /// Where the chains with a target stand.
    pub(super) fn standing(&self, target: &VacantId) -> Result<Standing, Failure> {
        let both = self.all.get(&target.hex()).cloned().unwrap_or_default();
        Ok(Standing {
            request: state(&both.request)?,
            response: state(&both.response)?,
        })
    }

    /// Keeps where they stand now.
    pub(super) fn keep(&mut self, target: &VacantId, now: &Standing) -> Result<(), Failure> {
        let link = |state: &ReplayState| Link {
            last_seq: state.last_sequence_no,
            last_hash_hex: state.chain_tip.hex(),
        };
        let both = Both {
            request: link(&now.request),
            response: link(&now.response),
        };
        self.all.insert(target.hex(), both);
        let text = serde_json::to_vec_pretty(&self.all).unwrap_or_default();
        replace(&self.path, &text)
    }

    fn pending_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".pending");
        name.into()
    }

    /// The call that was on its way when the program ended.
    pub(super) fn pending(&self, target: &VacantId) -> Option<Vec<u8>> {
        let text = fs::read(self.pending_path()).ok()?;
        let pending: BTreeMap<String, String> = serde_json::from_slice(&text).ok()?;
        pending
            .get(&target.hex())
            .map(|body| body.clone().into_bytes())
    }

    /// A call is on its way, or none is any more.
    pub(super) fn set_pending(
        &self,
        target: &VacantId,
        body: Option<&[u8]>,
    ) -> Result<(), Failure> {
        let path = self.pending_path();
        let mut pending: BTreeMap<String, String> = fs::read(&path)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        match body {
            Some(body) => {
                let body = String::from_utf8_lossy(body).into_owned();
                pending.insert(target.hex(), body);
            }
            None => {
                pending.remove(&target.hex());
            }
        }
        replace(&path, &serde_json::to_vec(&pending).unwrap_or_default())
    }
}

fn state(link: &Link) -> Result<ReplayState, Failure> {
    if link.last_seq == 0 {
        return Ok(ReplayState {
            last_sequence_no: 0,
            chain_tip: EMPTY_PREV_HASH,
        });
    }
    let tip = Blake2b256::from_hex(&link.last_hash_hex);
    Ok(ReplayState {
        last_sequence_no: link.last_seq,
        chain_tip: tip.map_err(|_| Failure::damaged("a hash in the state file is none"))?,
    })
}

/// The whole file, or the one before.
fn replace(path: &Path, text: &[u8]) -> Result<(), Failure> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let written = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
        .and_then(|mut file| {
            file.write_all(text)?;
            file.as_file().sync_all()?;
            Ok(file)
        })
        .and_then(|file| file.persist(path).map_err(|error| error.error));
    written
        .map(|_| ())
        .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))
}
