//! What decisions changed: the rules run along a log, and whoever asks gets the rows that a unit wrote.

use chancery_core::decision::WindowsBelow;
use chancery_core::rows::{Lookup, Row, RowChange, RowKey, Rows, RowsDamaged};
use chancery_core::time::Time;
use chancery_core::window::{Remember, WindowId, WindowName};
use chancery_journal::{Backing, Fold, Head, InMemory, Produced, Recorded};
use chancery_node::suite::Chancery;

/// The rules, as far as they give the lines on record.
pub(super) struct Changes {
    fold: Option<Fold<Chancery, Watched>>,
}

impl Changes {
    /// Before the first line of a log.
    pub(super) fn of_rules(suite: Chancery) -> Self {
        let fold = Fold::new(suite, Watched::default(), Head::EMPTY, true);
        Self { fold: fold.ok() }
    }

    /// Decides the next unit again and gives the rows that it changed, sorted by key. None when the rules of this
    /// build do not give its lines, or did not give those before it: what it changed is not known then.
    pub(super) fn of(&mut self, unit: &[Recorded]) -> Option<Vec<RowChange>> {
        let fold = self.fold.as_mut()?;
        match fold.apply(unit) {
            Ok(Produced::Same { .. }) => Some(fold.backing().last.clone()),
            Ok(Produced::LeftOut) | Err(_) => {
                self.fold = None;
                None
            }
        }
    }
}

/// Rows in memory that remember what changed last.
#[derive(Default)]
struct Watched {
    rows: InMemory,
    last: Vec<RowChange>,
}

impl Rows for Watched {
    fn get(&self, key: &RowKey) -> Lookup {
        self.rows.get(key)
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        self.rows.scan(prefix)
    }
}

impl WindowsBelow for Watched {
    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        self.rows.find(window, id, now)
    }
}

impl Backing for Watched {
    fn take(&mut self, changes: Vec<RowChange>, remembered: Vec<Remember>) {
        self.last.clone_from(&changes);
        self.rows.take(changes, remembered);
    }

    fn forget_ended(&mut self, now: Time) {
        self.rows.forget_ended(now);
    }

    fn load(&mut self, keys: &[RowKey]) -> Result<(), RowsDamaged> {
        self.rows.load(keys)
    }
}
