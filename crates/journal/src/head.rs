//! The end of a journal, and how units are chained to it.

use bytes::{Bytes, BytesMut};
use chancery_core::digest::Sha256Digest;
use chancery_core::line::{Draft, ProtocolName, Seq};
use chancery_core::time::Time;

use crate::line::render;

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

/// Lines are cut from blocks of at least this size: one allocation serves many, and is used again once the last of
/// them is gone.
const BLOCK_BYTES: usize = 64 << 10;

/// Appends units: gives every line its number and its link to the line before.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    head: Head,
    buffer: Vec<u8>,
    block: BytesMut,
}

impl Chain {
    /// A chain that goes on after `head`.
    pub fn after(head: Head) -> Self {
        Self {
            head,
            ..Self::default()
        }
    }

    /// The last line appended.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Appends a unit's lines: each draft with its sealed envelope. Puts the rendered lines, without newlines, to `out`.
    pub fn append_unit<'d, E: AsRef<[u8]>>(
        &mut self,
        unit: impl ExactSizeIterator<Item = (&'d Draft, E)>,
        out: &mut Vec<Bytes>,
    ) {
        let lines = unit.len();
        assert!(lines > 0, "a unit has at least one line");
        for (index, (draft, envelope)) in unit.enumerate() {
            let more = index + 1 < lines;
            self.buffer.clear();
            render(
                draft,
                envelope.as_ref(),
                self.head.seq + 1,
                &self.head.hash,
                more,
                &mut self.buffer,
            );
            let hash = Sha256Digest::of(&self.buffer);
            self.head.advance(hash, draft.protocol, draft.eval_ts);
            out.push(self.cut());
        }
    }

    /// The line in the buffer as a piece of a block.
    fn cut(&mut self) -> Bytes {
        if self.block.capacity() < self.buffer.len() {
            self.block.reserve(self.buffer.len().max(BLOCK_BYTES));
        }
        self.block.extend_from_slice(&self.buffer);
        self.block.split().freeze()
    }
}
