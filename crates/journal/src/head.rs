//! The end of a journal, and how units are chained to it.

use chancery_core::digest::Sha256Digest;
use chancery_core::line::{Draft, ProtocolName, Seq};
use chancery_core::time::Time;

use crate::line::render;
use crate::lines::Lines;

/// The end of a journal: where the next line goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last line's number, 0 when there is none.
    pub seq: Seq,
    /// Its SHA-256, zeros when there is none.
    pub hash: Sha256Digest,
    /// The latest decision time of any line (CH-JRN-14).
    pub time: Option<Time>,
}

impl Head {
    /// The head of a journal without lines.
    pub const EMPTY: Self = Self {
        seq: 0,
        hash: Sha256Digest::ZERO,
        time: None,
    };

    /// Goes on by one line with these properties.
    pub fn advance(&mut self, hash: Sha256Digest, protocol: ProtocolName, eval_ts: Option<Time>) {
        self.seq += 1;
        self.hash = hash;
        // Under the envelope clock a vibe line carries its sender's time, which must not move the journal's.
        if protocol != ProtocolName::Vibe {
            self.time = self.time.max(eval_ts);
        }
    }

    /// The time at which an input is decided that reached the door at `received`: never before the journal's.
    pub fn decision_time(&self, received: Time) -> Time {
        let received = received.truncate_to_micros();
        self.time.map_or(received, |time| time.max(received))
    }

    /// The time at which inputs are decided whose line has none: what the log alone says.
    pub fn time_by_position(&self) -> Time {
        self.time.unwrap_or(Time::UNIX_EPOCH)
    }
}

impl Default for Head {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Appends units: gives every line its number and its link to the line before.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    head: Head,
}

impl Chain {
    /// A chain that goes on after `head`.
    pub fn after(head: Head) -> Self {
        Self { head }
    }

    /// The last line appended.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Appends a unit's lines to `out`: each draft with its sealed envelope.
    pub fn append_unit<'d, E: AsRef<[u8]>>(
        &mut self,
        unit: impl ExactSizeIterator<Item = (&'d Draft, E)>,
        out: &mut Lines,
    ) {
        let lines = unit.len();
        assert!(lines > 0, "a unit has at least one line");
        for (index, (draft, envelope)) in unit.enumerate() {
            let more = index + 1 < lines;
            let (seq, prev) = (self.head.seq + 1, &self.head.hash);
            let line = out.render(|text| render(draft, envelope.as_ref(), seq, prev, more, text));
            let hash = Sha256Digest::of(line);
            self.head.advance(hash, draft.protocol, draft.eval_ts);
        }
    }
}
