//! What the nodes of a journal tell each other beside the log (CH-JRN-13). All of it may be lost: whoever misses a word
//! refuses or reaches less for a moment, and no row depends on it.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use chancery_agh::soft::Seen;
use chancery_store::{Note, Store};
use serde::{Deserialize, Serialize};

use crate::outbox::Carried;

/// One thing that is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// What senders used of their allowance since the last word about it.
    Used {
        /// When this is told, by [`Others::told_ms`].
        told_ms: u64,
        /// Who, and how often.
        by: Vec<(String, u32)>,
    },
    /// A remote AGH peer gave a sign of life.
    Seen {
        /// When this is told, by [`Others::told_ms`].
        told_ms: u64,
        /// How many seconds before that it was.
        ago_s: i64,
        /// The sign.
        seen: Box<Seen>,
    },
    /// Whoever knows remote AGH peers says which.
    WhoIsPresent,
    /// This node is there, and has connections of this sum.
    Here {
        /// Another one for other connections.
        sum: u64,
    },
    /// Whoever has connections says which.
    WhoIsConnected,
    /// These are connected here: name, and the number of the connection.
    Connected {
        /// Who.
        claims: Vec<(String, u64)>,
        /// Whether these are all; else they have just come.
        all: bool,
    },
    /// These are not any more.
    Gone {
        /// Who.
        claims: Vec<(String, u64)>,
    },
    /// A message for somebody who is connected to that node.
    Carry(Box<Errand>),
    /// What came of it.
    Carried {
        /// Who asked.
        node: String,
        /// The number of the question.
        number: u64,
        /// What came of it.
        carried: Carried,
    },
    /// A soft message for a peer that is connected to that node.
    Whisper {
        /// Which node.
        node: String,
        /// The peer's subject.
        subject: String,
        /// The message.
        text: String,
    },
}

/// A message that another node is to bring over one of its connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    /// Which node.
    pub node: String,
    /// The number of the question, for the answer.
    pub number: u64,
    /// Who sends it.
    pub from: String,
    /// Who gets it.
    pub to: String,
    /// Whether it goes out although its sender is suspended.
    pub exempt: bool,
    /// How long it may take.
    pub within_ms: u32,
    /// The message's identifier.
    pub id: String,
    /// The message.
    pub envelope: String,
}

/// Told of every word, with the name of the node that says it. It must not wait.
type Ear = Box<dyn Fn(&str, &Word) + Send + Sync>;

/// The other nodes of the journal.
pub struct Others {
    store: Arc<dyn Store>,
    started: Instant,
    ears: RwLock<Vec<Ear>>,
}

impl Others {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            started: Instant::now(),
            ears: RwLock::default(),
        })
    }

    /// Whether there may be any.
    pub fn may_be(&self) -> bool {
        self.store.is_shared()
    }

    /// When a word is told: by a clock that counts from any moment, for whoever hears it late.
    pub fn told_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// What they call this node.
    pub fn own_name(&self) -> &str {
        self.store.process()
    }

    /// Tells all of them.
    pub fn tell(&self, word: &Word) {
        if !self.may_be() {
            return;
        }
        if let Ok(text) = serde_json::to_string(word) {
            self.store.tell(text);
        }
    }

    /// Tells `ear` whatever they say from here on.
    pub fn listen(&self, ear: impl Fn(&str, &Word) + Send + Sync + 'static) {
        let mut ears = self.ears.write().unwrap_or_else(PoisonError::into_inner);
        ears.push(Box::new(ear));
    }

    /// One of them says something. What this build does not know is not for it.
    pub(crate) fn hear(&self, note: &Note) {
        let Ok(word) = serde_json::from_str(&note.text) else {
            tracing::debug!(from = note.from, "a word that this node does not know");
            return;
        };
        let ears = self.ears.read().unwrap_or_else(PoisonError::into_inner);
        ears.iter().for_each(|ear| ear(&note.from, &word));
    }
}
