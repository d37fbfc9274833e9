//! What the rules answer.

use chancery_core::line::Seq;

use crate::id::VacantId;
use crate::payload::Profile;

/// What came of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A call is accepted and on record: its behaviour may run.
    Accepted(Accepted),
    /// The answer to a call is on record, at this line.
    Answered(Seq),
    /// A call of a hosted vacant is on record.
    Called {
        /// Its line.
        line: Seq,
        /// The call as its target has it, when that is hosted here too.
        here: Option<Accepted>,
    },
    /// The same request to send was carried out before, at this line.
    SentBefore(Seq),
    /// The answer to a call of ours is on record, at this line.
    Replied(Seq),
    /// An act of administration is on record, at this line.
    Acted(Seq),
    /// A failure is on record, or there was nothing left that could fail.
    Noted,
}

/// A call that waits for its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its line: whoever answers names it.
    pub call: Seq,
    /// The name of the vacant that is called.
    pub name: String,
    /// Who calls.
    pub caller: VacantId,
    /// The profile of the call, and so of its answer.
    pub profile: Profile,
}
