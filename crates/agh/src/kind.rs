//! The kinds of message.

use crate::fault::words;
use crate::revision::Revision;

words! {
    /// What an envelope is for (AG-ENV-3).
    Kind {
        /// Presence.
        Greet = "greet",
        /// A question who is there, or its answer.
        Whois = "whois",
        /// Something said to everybody, and in revision B also to one.
        Say = "say",
        /// Work handed to one peer (revision A).
        Direct = "direct",
        /// A capability shown or handed over.
        Capability = "capability",
        /// Whether something was taken.
        Receipt = "receipt",
        /// How work goes.
        Trace = "trace",
    }
}

impl Kind {
    /// Whether a revision has this kind (AG-B-2).
    pub const fn is_of(self, revision: Revision) -> bool {
        !matches!((self, revision), (Self::Direct, Revision::B))
    }

    /// Whether it asks for work rather than reporting on it.
    pub const fn asks(self) -> bool {
        matches!(self, Self::Say | Self::Direct | Self::Capability)
    }
}
