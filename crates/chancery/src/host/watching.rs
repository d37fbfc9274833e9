//! Files that are read again when they change: the world, the certificate and its key (VX-KEY-7, VX-HTTP-5).

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chancery_doors::http::{Reload, Reloaded};
use tokio::task::JoinHandle;

use crate::config::Config;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What tells one content of a file from another without reading it.
type Look = Option<(SystemTime, u64)>;

/// Reloads whenever one of the files has changed, until it is aborted.
pub(super) fn watch(config: &Config, reload: Reload) -> JoinHandle<()> {
    let tls = config.tls.iter();
    let tls = tls.flat_map(|tls| [tls.certificate.clone(), tls.key.clone()]);
    let files: Vec<PathBuf> = config
        .value_context
        .world
        .iter()
        .cloned()
        .chain(tls)
        .collect();
    let mut seen = look_at(&files);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = look_at(&files);
            if now != seen {
                seen = now;
                tell(reload().await);
            }
        }
    })
}

fn look_at(files: &[PathBuf]) -> Vec<Look> {
    let look = |file: &PathBuf| look(file);
    files.iter().map(look).collect()
}

fn look(file: &Path) -> Look {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Says what came of a reload that nobody waits for.
pub(super) fn tell(reloaded: Reloaded) {
    match reloaded {
        Reloaded::Changed(changes) => tracing::info!(changes, "the files were read again"),
        Reloaded::Refused(reason) => {
            tracing::error!(
                reason,
                "the files cannot be used; everything stays as it was"
            );
        }
    }
}
