//! Files that change while the node runs: on a request, on SIGHUP, and when the world, the certificate or its key
//! changes (VX-KEY-7, VX-HTTP-5).
//!
//! A file that is broken, or that the record does not allow, leaves everything as it was and is told: in the log of the
//! process, and as a `key_alert` event.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chancery_core::decision::Event;
use chancery_core::line::ProtocolName;
use chancery_doors::HttpCarrier;
use chancery_doors::http::{Reload, Reloaded, TlsKeeper};
use chancery_doors::ws::Dialer;
use chancery_node::Office;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::files::{WorldFile, tls_identity};
use super::{bring_in_line, vibe_tokens};
use crate::config::{Config, Settings, Sources};
use crate::exit::Failure;

/// What a reload works on.
pub(super) struct Reloading {
    pub(super) office: Arc<Office>,
    pub(super) config: Config,
    /// Where the configuration comes from, and what it said at the start.
    pub(super) read_from: Option<(Sources, Settings)>,
    pub(super) carrier: Arc<HttpCarrier>,
    pub(super) dialer: Arc<Dialer>,
    pub(super) tls: Option<Arc<TlsKeeper>>,
    /// Whose keys come from elsewhere than the world file, and stay.
    pub(super) others: Vec<String>,
}

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why files are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Somebody asked for it, and wants to know of the configuration too.
    Asked,
    /// One has changed: a configuration that is being written does not keep a new certificate from being used.
    Seen,
}

/// What reads the files again: when asked, and when they are seen to have changed.
pub(super) struct Reloads {
    pub(super) asked: Reload,
    pub(super) seen: Reload,
}

/// Reads the files again, one request after the other.
pub(super) fn of(reloading: Reloading) -> Reloads {
    let shared = Arc::new((reloading, Mutex::new(())));
    Reloads {
        asked: because(Why::Asked, &shared),
        seen: because(Why::Seen, &shared),
    }
}

fn because(why: Why, shared: &Arc<(Reloading, Mutex<()>)>) -> Reload {
    let shared = Arc::clone(shared);
    Arc::new(move || {
        let shared = Arc::clone(&shared);
        Box::pin(async move {
            let (reloading, one_at_a_time) = &*shared;
            let _turn = one_at_a_time.lock().await;
            match read_again(reloading, why).await {
                Ok((changed, needs_restart)) => {
                    tracing::info!(?changed, ?needs_restart, "the files were read again");
                    Reloaded::Read {
                        changed,
                        needs_restart,
                    }
                }
                Err(failure) => {
                    let mend =
                        "mend what it names, then send SIGHUP again, or type: chancery reload";
                    let next = failure.next.as_deref().unwrap_or(mend);
                    tracing::warn!(reason = %failure.what, next, "reload refused, nothing changed");
                    alert(&reloading.office);
                    Reloaded::Refused(failure.what)
                }
            }
        })
    })
}

/// What is on record otherwise, and in how many lines; which keys count from the next start on.
type ReadAgain = (Vec<(&'static str, usize)>, Vec<String>);

async fn read_again(reloading: &Reloading, why: Why) -> Result<ReadAgain, Failure> {
    let needs_restart = match why {
        Why::Asked => keys_that_changed(reloading)?,
        Why::Seen => Vec::new(),
    };
    let (tokens, record) = read_files(reloading).await?;
    let changed = [
        ("tokens of vibe", tokens),
        ("rules, agents and keys", record),
    ];
    let changed = changed.into_iter().filter(|(_, lines)| *lines > 0);
    Ok((changed.collect(), needs_restart))
}

fn keys_that_changed(reloading: &Reloading) -> Result<Vec<String>, Failure> {
    let Some((sources, at_start)) = &reloading.read_from else {
        return Ok(Vec::new());
    };
    let now = sources.settings()?;
    Config::of(&now)?.check_files()?;
    Ok(at_start.differences(&now))
}

/// Reads the files that the configuration names; how many lines the tokens and the rest came to.
async fn read_files(reloading: &Reloading) -> Result<(usize, usize), Failure> {
    let Reloading {
        office,
        config,
        read_from: _,
        carrier,
        dialer,
        tls,
        others,
    } = reloading;
    // What cannot be read shows before anything changes.
    let world = config.value_context.world.as_ref();
    let world = world.map(|path| WorldFile::read(path, config.dev));
    let world = world.transpose()?;
    if let (Some(keeper), Some(tls)) = (tls, &config.tls) {
        let replaced = keeper.replace(&tls_identity(tls)?);
        replaced.map_err(|error| Failure::usage(error.to_string()))?;
    }
    let adopted = vibe_tokens::adopt(office, config).await?;
    let Some(mut world) = world else {
        return Ok((adopted, 0));
    };
    let secret_keys = world.take_secret_keys()?;
    let vault = office.gate().vault();
    // The record of an agent says whether the node signs for it, so the keys of new ones are held before.
    let held: Vec<bool> = secret_keys
        .iter()
        .map(|(owner, _)| vault.holds(owner))
        .collect();
    let owners: Vec<String> = secret_keys.iter().map(|(owner, _)| owner.clone()).collect();
    let mut replacing = Vec::new();
    for ((owner, key), was_held) in secret_keys.into_iter().zip(&held) {
        if *was_held {
            replacing.push((owner, key));
        } else {
            vault.hold(owner, key);
        }
    }
    let written = match bring_in_line(office, config, Some(&world)).await {
        Ok(written) => written,
        Err(failure) => {
            let is_new = |owner: &str| {
                let at = owners.iter().position(|known| known == owner);
                at.is_some_and(|at| !held[at])
            };
            vault.keep_only(|owner| !is_new(owner));
            return Err(failure);
        }
    };
    let addresses = world.addresses();
    dialer.call(&addresses);
    carrier.set_addresses(addresses);
    vault.keep_only(|owner| owners.iter().chain(others).any(|kept| kept == owner));
    for (owner, key) in replacing {
        vault.hold(owner, key);
    }
    let named = office.reconcile_signing().await;
    named.map_err(|error| Failure::usage(error.to_string()))?;
    Ok((adopted, written))
}

fn alert(office: &Office) {
    office.note_event(&Event {
        name: "key_alert",
        protocol: ProtocolName::ValueContext,
        message_id: None,
    });
}

/// Looks at the files and reads them again when one has changed and then all stayed as they are for one look: what is
/// still being written is left alone.
pub(super) fn watch(config: &Config, reload: &Reload) -> Option<JoinHandle<()>> {
    let tls = config.tls.iter();
    let tls = tls.flat_map(|tls| [tls.certificate.clone(), tls.key.clone()]);
    let files: Vec<PathBuf> = config
        .value_context
        .world
        .iter()
        .cloned()
        .chain(tls)
        .collect();
    if files.is_empty() {
        return None;
    }
    let reload = Arc::clone(reload);
    let look_at_all = move || -> Vec<_> { files.iter().map(|file| looks(file)).collect() };
    let mut read = look_at_all();
    Some(tokio::spawn(async move {
        let mut before = read.clone();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = look_at_all();
            if now != read && now == before {
                read.clone_from(&now);
                reload().await;
            }
            before = now;
        }
    }))
}

/// What changes when a file does: its time, its size, and which file it is. None while there is no file.
fn looks(path: &Path) -> Option<(SystemTime, u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}
