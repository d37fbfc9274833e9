//! The stop button: who may send right now, asked at the last moment before bytes leave.
//!
//! A participant is on the list of the suspended before the line that suspends it is made durable, and off it after the
//! line that resumes it is. Whoever writes to a socket holds the list still while it writes: once the list has changed
//! no write of a suspended participant is under way, and none begins.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use chancery_core::admin::RunState;
use chancery_core::decision::Unit;
use chancery_core::rows::{RowChange, RowKey};
use chancery_store::{Store, StoreError};
use hashbrown::{HashMap, HashSet};
use tokio::sync::watch;

/// The space of run states.
const RUN: &str = "run";

/// Who is suspended.
#[derive(Debug)]
pub(crate) struct Suspended {
    now: RwLock<HashSet<String>>,
    changed: watch::Sender<()>,
}

impl Suspended {
    /// The list as the record has it.
    pub(crate) fn on_record(store: &dyn Store) -> Result<Arc<Self>, StoreError> {
        Ok(Arc::new(Self {
            now: RwLock::new(suspended_in(store)?),
            changed: watch::Sender::new(()),
        }))
    }

    /// The list as the record has it now: what was about to be committed is not.
    pub(crate) fn read_anew(&self, store: &dyn Store) -> Result<(), StoreError> {
        *self.write() = suspended_in(store)?;
        self.changed.send_replace(());
        Ok(())
    }

    /// Whether a row says who may send.
    pub(crate) fn follows(&self, key: &RowKey) -> bool {
        key.is_in(RUN)
    }

    /// Units are about to be made durable: whom any of them suspends says nothing more.
    pub(crate) fn about_to_commit(&self, units: &[Unit]) {
        let mut suspended = states(units).filter(|(_, suspended)| *suspended).peekable();
        if suspended.peek().is_some() {
            self.write()
                .extend(suspended.map(|(participant, _)| participant));
            self.changed.send_replace(());
        }
    }

    /// Units are durable: whom the last word about it does not suspend may speak again.
    pub(crate) fn committed(&self, units: &[Unit]) {
        let last: HashMap<String, bool> = states(units).collect();
        if !last.is_empty() {
            self.write().retain(|name| last.get(name) != Some(&false));
            self.changed.send_replace(());
        }
    }

    /// Told whenever anybody is suspended or resumed.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashSet<String>> {
        self.now.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, HashSet<String>> {
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who is suspended on record.
fn suspended_in(store: &dyn Store) -> Result<HashSet<String>, StoreError> {
    let rows = store.scan(&RowKey::text(RUN, &[]), None, usize::MAX)?;
    let states = rows
        .into_iter()
        .filter_map(|(key, row)| state_of(&(key, Some(row))));
    let suspended = states.filter(|(_, suspended)| *suspended);
    Ok(suspended.map(|(participant, _)| participant).collect())
}

/// What units say about run states, in order.
fn states(units: &[Unit]) -> impl Iterator<Item = (String, bool)> {
    let rows = units.iter().flat_map(|unit| &unit.rows);
    rows.filter_map(state_of)
}

/// The participant of a run state's row, and whether it is suspended by it. What cannot be read counts as suspended.
fn state_of((key, change): &RowChange) -> Option<(String, bool)> {
    if !key.is_in(RUN) {
        return None;
    }
    let parts = key.parts();
    let participant = String::from_utf8_lossy(parts.get(1)?).into_owned();
    let suspended = change.as_ref().is_some_and(|bytes| {
        serde_json::from_slice::<RunState>(bytes).unwrap_or(RunState::Suspended)
            == RunState::Suspended
    });
    Some((participant, suspended))
}

/// The leave of one message to go out: asked before its bytes are written, and while they are.
#[derive(Clone, Debug)]
pub struct Leave {
    /// None for what leaves although its sender is suspended.
    of: Option<(Arc<Suspended>, Arc<str>)>,
}

impl Leave {
    pub(crate) fn new(suspended: &Arc<Suspended>, from: &str, exempt: bool) -> Self {
        Self {
            of: (!exempt).then(|| (Arc::clone(suspended), from.into())),
        }
    }

    /// A leave that nobody withdraws: for what no agent sends.
    pub fn always() -> Self {
        Self { of: None }
    }

    /// A leave, and what withdraws it: for tests of what writes.
    pub fn with_button() -> (Self, impl Fn()) {
        let suspended = Arc::new(Suspended {
            now: RwLock::default(),
            changed: watch::Sender::new(()),
        });
        let leave = Self::new(&suspended, "it", false);
        let button = move || {
            suspended.write().insert("it".to_owned());
            suspended.changed.send_replace(());
        };
        (leave, button)
    }

    /// Does something, unless the sender is suspended; it will not be while this runs, so it must not wait.
    pub fn while_given<T>(&self, write: impl FnOnce() -> T) -> Option<T> {
        let Some((suspended, from)) = &self.of else {
            return Some(write());
        };
        let now = suspended.read();
        (!now.contains(&**from)).then(write)
    }

    /// The same for several messages at once: unless any of their senders is suspended.
    pub fn while_all_given<T>(leaves: &[Self], write: impl FnOnce() -> T) -> Option<T> {
        let Some((suspended, _)) = leaves.iter().find_map(|leave| leave.of.as_ref()) else {
            return Some(write());
        };
        let now = suspended.read();
        let any_is_suspended = leaves.iter().any(|leave| {
            let from = leave.of.as_ref();
            from.is_some_and(|(_, from)| now.contains(&**from))
        });
        (!any_is_suspended).then(write)
    }

    /// Whether the message may go out right now.
    pub fn is_given(&self) -> bool {
        self.while_given(|| ()).is_some()
    }

    /// Returns once the message may go out.
    pub(crate) async fn given(&self) {
        self.wait_for(true).await;
    }

    /// Returns once the message may not go out.
    pub async fn withdrawn(&self) {
        self.wait_for(false).await;
    }

    async fn wait_for(&self, given: bool) {
        let Some((suspended, _)) = &self.of else {
            if given {
                return;
            }
            return std::future::pending().await;
        };
        let mut changed = suspended.changed.subscribe();
        while self.is_given() != given {
            if changed.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
