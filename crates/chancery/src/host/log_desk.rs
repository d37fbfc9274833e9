//! The whole log of this node, checked for its tools (`log_verify`, `log_explain`).

use std::path::PathBuf;
use std::sync::Arc;

use chancery_doors::http::LogDesk;
use chancery_node::Office;
use chancery_node::suite::Chancery;
use chancery_store::Store;
use serde_json::Value;

use crate::commands::log::{explained, verified};
use crate::config::{self, Config};
use crate::exit::Failure;
use crate::log::{LogFile, StoreLog};

/// The log of a node that runs.
pub(super) struct Desk {
    store: Arc<dyn Store>,
    suite: Chancery,
    /// Where the files beside the log are.
    folder: Option<PathBuf>,
    max_bytes: u64,
}

impl Desk {
    pub(super) fn new(office: &Office, config: &Config) -> Self {
        let is_on_disk = config.store != config::Store::Memory;
        Self {
            store: Arc::clone(office.gate().store()),
            suite: office.gate().suite().clone(),
            folder: is_on_disk.then(|| config.data.clone()),
            max_bytes: config.limits.log_check_bytes,
        }
    }

    fn log(&self) -> LogFile {
        LogFile::Store(StoreLog::of(Arc::clone(&self.store), self.max_bytes))
    }
}

impl LogDesk for Desk {
    fn verify(&self) -> Result<Value, String> {
        verified(self.log()).map_err(told)
    }

    fn explain(&self, id: &str) -> Result<Value, String> {
        let folder = self.folder.as_deref();
        explained(id, self.suite.clone(), self.log(), folder).map_err(told)
    }
}

fn told(failure: Failure) -> String {
    failure.what
}
