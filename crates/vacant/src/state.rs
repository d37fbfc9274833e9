//! The life of a vacant: six states, seven events, and who may be called (section 11).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a vacant (VA-STA-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// New: it runs, and is in no public index.
    #[default]
    Local,
    /// Published.
    Active,
    /// Asleep.
    Hibernating,
    /// Asleep for too long: it has to be revived.
    Stale,
    /// Gone, and may be archived.
    Sunk,
    /// Gone for good.
    Archived,
}

/// What may happen to a vacant (VA-STA-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Time passes.
    Tick,
    /// It shows that it lives.
    Heartbeat,
    /// Somebody calls it.
    CallReceived,
    /// Somebody reviews it.
    ReviewReceived,
    /// It is to wake.
    ReviveRequested,
    /// It is to be archived.
    ArchiveRequested,
    /// It is to have a child.
    SpawnRequested,
}

/// An event that has no place in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event} does not happen to a vacant that is {state}")]
pub struct InvalidEvent {
    /// The state.
    pub state: State,
    /// The event.
    pub event: Event,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Local,
        Self::Active,
        Self::Hibernating,
        Self::Stale,
        Self::Sunk,
        Self::Archived,
    ];

    /// The name, which is its text form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "LOCAL",
            Self::Active => "ACTIVE",
            Self::Hibernating => "HIBERNATING",
            Self::Stale => "STALE",
            Self::Sunk => "SUNK",
            Self::Archived => "ARCHIVED",
        }
    }

    /// The state of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Whether it takes calls (VA-STA-3).
    #[must_use]
    pub const fn can_be_called(self) -> bool {
        matches!(self, Self::Local | Self::Active)
    }

    /// Whether it runs (VA-STA-3).
    #[must_use]
    pub const fn is_runnable(self) -> bool {
        self.can_be_called()
    }

    /// Whether it may review others (VA-STA-3).
    #[must_use]
    pub const fn can_review(self) -> bool {
        matches!(self, Self::Local | Self::Active | Self::Hibernating)
    }

    /// Whether it has to be revived before it can do anything (VA-STA-3).
    #[must_use]
    pub const fn requires_revive(self) -> bool {
        matches!(self, Self::Stale)
    }

    /// Whether it is gone for callers, and not only asleep.
    #[must_use]
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::Sunk | Self::Archived)
    }

    /// The status of a call on the native binding (VA-SRV-4).
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Local | Self::Active => 200,
            Self::Hibernating | Self::Stale => 423,
            Self::Sunk | Self::Archived => 410,
        }
    }

    /// The state after an event (VA-STA-2).
    pub fn after(self, event: Event) -> Result<Self, InvalidEvent> {
        use Event::{
            ArchiveRequested, CallReceived, Heartbeat, ReviewReceived, ReviveRequested,
            SpawnRequested, Tick,
        };
        match (self, event) {
            (
                Self::Local | Self::Active,
                Tick | Heartbeat | CallReceived | ReviewReceived | SpawnRequested,
            )
            | (Self::Hibernating | Self::Stale | Self::Sunk, Tick | Heartbeat | ReviewReceived)
            | (Self::Archived, Tick) => Ok(self),
            (Self::Hibernating | Self::Stale, ReviveRequested) => Ok(Self::Active),
            (Self::Sunk, ArchiveRequested) => Ok(Self::Archived),
            (state, event) => Err(InvalidEvent { state, event }),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Tick,
        Self::Heartbeat,
        Self::CallReceived,
        Self::ReviewReceived,
        Self::ReviveRequested,
        Self::ArchiveRequested,
        Self::SpawnRequested,
    ];

    /// The name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tick => "TICK",
            Self::Heartbeat => "HEARTBEAT",
            Self::CallReceived => "CALL_RECEIVED",
            Self::ReviewReceived => "REVIEW_RECEIVED",
            Self::ReviveRequested => "REVIVE_REQUESTED",
            Self::ArchiveRequested => "ARCHIVE_REQUESTED",
            Self::SpawnRequested => "SPAWN_REQUESTED",
        }
    }

    /// The event of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
