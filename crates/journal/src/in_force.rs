//! What is in force at a point of the log: the settings and the keys that its lines so far leave.

use std::sync::Arc;

use chancery_core::admin::{self, CONFIG, KEYS};
use chancery_core::keys::{KeyRecord, Keyring};
use chancery_core::protocol::Suite;
use chancery_core::rows::{RowChange, RowKey, Rows, RowsDamaged};

use crate::prepare::Terms;

/// The settings and keys that hold after some line. Both follow the rows, so that a key or a configuration counts from
/// the unit after the one that brought it, live and in replay.
#[derive(Clone, Debug)]
pub struct InForce<S: Suite> {
    settings: Arc<S::Settings>,
    /// Another one for other settings.
    settings_version: u64,
    keyring: Keyring,
    config_rows: RowKey,
    key_rows: RowKey,
}

impl<S: Suite> InForce<S> {
    /// What the rows say.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn of_rows(suite: &S, rows: &dyn Rows) -> Result<Self, RowsDamaged> {
        Ok(Self {
            settings: Arc::new(suite.settings(rows)?),
            settings_version: 0,
            keyring: admin::keyring(rows)?,
            config_rows: RowKey::text(CONFIG, &[]),
            key_rows: RowKey::text(KEYS, &[]),
        })
    }

    /// The settings.
    pub fn settings(&self) -> &S::Settings {
        &self.settings
    }

    /// What lines can be read under from here on.
    pub fn terms(&self) -> Terms<S> {
        Terms {
            keys: self.keyring.clone(),
            settings: Some((self.settings_version, Arc::clone(&self.settings))),
        }
    }

    /// Whether these are still the settings in force.
    pub(crate) fn has_settings(&self, version: u64) -> bool {
        self.settings_version == version
    }

    /// The keys. Copies are cheap.
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// The changes of a unit that [`InForce::follow`] looks at: of most units none.
    pub fn relevant(&self, changes: &[RowChange]) -> Vec<RowChange> {
        below(changes, &self.config_rows)
            .chain(below(changes, &self.key_rows))
            .cloned()
            .collect()
    }

    /// Follows a unit's changes, all or the relevant ones; `rows` hold them already.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn follow(
        &mut self,
        suite: &S,
        rows: &dyn Rows,
        changes: &[RowChange],
    ) -> Result<(), RowsDamaged> {
        if below(changes, &self.config_rows).next().is_some() {
            self.settings = Arc::new(suite.settings(rows)?);
            self.settings_version += 1;
        }
        for (key, change) in below(changes, &self.key_rows.clone()) {
            match change {
                Some(bytes) => self.set_key(key, bytes)?,
                None => admin::drop_key(&mut self.keyring, key),
            }
        }
        Ok(())
    }

    fn set_key(&mut self, key: &RowKey, bytes: &[u8]) -> Result<(), RowsDamaged> {
        let damaged = |reason: String| RowsDamaged(format!("{key:?}: {reason}"));
        let record: KeyRecord =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        admin::set_key(&mut self.keyring, record).map_err(|error| damaged(error.to_string()))
    }
}

/// The changes below a prefix. Changes are sorted by key.
fn below<'c>(changes: &'c [RowChange], prefix: &'c RowKey) -> impl Iterator<Item = &'c RowChange> {
    let first = changes.partition_point(|(key, _)| key < prefix);
    changes[first..]
        .iter()
        .take_while(move |(key, _)| key.starts_with(prefix))
}
