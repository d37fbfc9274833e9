//! The fold: a unit of recorded lines is decided again and must give the same lines.
//!
//! Replay runs it over a whole log in memory, recovery over the tail of a store. The chain and the signatures of the
//! lines are checked before, by whoever feeds it.

use bytes::Bytes;
use chancery_core::decision::{Before, Nonce, Open, Unit};
use chancery_core::delivery::Delivery;
use chancery_core::digest::{Sha256Digest, hex};
use chancery_core::inbox::InboxName;
use chancery_core::keys::Keyring;
use chancery_core::line::{Draft, DraftEnvelope, Line, Seq};
use chancery_core::protocol::Suite;
use chancery_core::rows::{RowKey, RowsDamaged};

use crate::backing::Backing;
use crate::decide::{Outcome, decide_input};
use crate::divergence::{Divergence, Reason, differing_member};
use crate::head::Head;
use crate::in_force::InForce;
use crate::line::render;

/// How often a decision may ask for rows that were loaded for it before, evicted in between, before they count as
/// damaged. How many rows it reads is not limited.
const MAX_LOADS_IN_VAIN: usize = 256;

/// A line on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// What it says.
    pub line: Line,
    /// Its canonical bytes.
    pub canonical: Bytes,
    /// The SHA-256 of the bytes on record: what the next line names.
    pub hash: Sha256Digest,
}

/// What a unit gave when it was decided again.
#[derive(Debug)]
pub enum Produced {
    /// The same lines; their changes are taken in.
    Same {
        /// Inboxes that got an entry.
        inboxes: Vec<(InboxName, Seq)>,
        /// Deliveries that were to start.
        deliveries: Vec<(RowKey, Delivery)>,
    },
    /// This build does not have the unit's rules: it is left out, its changes are not known.
    LeftOut,
}

/// The state of a suite's rules after some line of a log.
pub struct Fold<S: Suite, B> {
    suite: S,
    backing: B,
    in_force: InForce<S>,
    head: Head,
    keeps_agenda: bool,
    forgotten_minute: i64,
    buffer: Vec<u8>,
}

impl<S: Suite, B: Backing> Fold<S, B> {
    /// The state that `backing` holds, which is that after `head`. Inbox, outbox and timer rows are written when
    /// `keeps_agenda`: recovery needs them, replay does not and keeps its memory small.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub fn new(suite: S, backing: B, head: Head, keeps_agenda: bool) -> Result<Self, RowsDamaged> {
        let in_force = InForce::of_rows(&suite, &backing)?;
        Ok(Self {
            suite,
            backing,
            in_force,
            head,
            keeps_agenda,
            forgotten_minute: i64::MIN,
            buffer: Vec::new(),
        })
    }

    /// The last line taken in.
    pub fn head(&self) -> Head {
        self.head
    }

    /// The keys in force.
    pub fn keyring(&self) -> &Keyring {
        self.in_force.keyring()
    }

    /// The settings and keys in force.
    pub(crate) fn in_force(&self) -> &InForce<S> {
        &self.in_force
    }

    /// The settings in force.
    pub fn settings(&self) -> &S::Settings {
        self.in_force.settings()
    }

    /// The suite.
    pub fn suite(&self) -> &S {
        &self.suite
    }

    /// The rows and windows.
    pub fn backing(&self) -> &B {
        &self.backing
    }

    /// Ends the fold.
    pub fn into_backing(self) -> B {
        self.backing
    }

    /// Decides a unit again, compares its lines and takes its changes in.
    ///
    /// # Errors
    /// The first line that the rules do not give again, and why. The state is as before.
    pub fn apply(&mut self, unit: &[Recorded]) -> Result<Produced, Divergence> {
        self.apply_read(unit, None)
    }

    /// The same with the input that the unit's first line was, when it was read already.
    pub(crate) fn apply_read(
        &mut self,
        unit: &[Recorded],
        input: Option<S::Input>,
    ) -> Result<Produced, Divergence> {
        let first = &unit.first().expect("a unit has at least one line").line;
        if !self.suite.has_rules(first, self.in_force.settings()) {
            self.advance(unit);
            return Ok(Produced::LeftOut);
        }
        let produced = self.decide_again(first, input)?;
        self.compare(&produced.drafts, unit)?;
        self.take(produced, unit)
            .map_err(|damage| Divergence::at(first.seq, Reason::Damaged(damage.0)))
    }

    fn decide_again(&mut self, first: &Line, input: Option<S::Input>) -> Result<Unit, Divergence> {
        let diverged = |reason| Divergence::at(first.seq, reason);
        let settings = self.in_force.settings();
        let input = match input {
            Some(input) => input,
            None => self
                .suite
                .reread(first, settings)
                .map_err(|damage| diverged(Reason::Unreadable(damage.reason)))?,
        };
        let nonce = recorded_nonce(first)
            .ok_or_else(|| diverged(Reason::Unreadable("meta.nonce".to_owned())))?;
        let by_position = self.head.time_by_position();
        let (mut loaded, mut in_vain) = (Vec::new(), 0);
        while in_vain <= MAX_LOADS_IN_VAIN {
            let before = Before {
                now: first.eval_ts.unwrap_or(by_position),
                seq: first.seq,
                rows: &self.backing,
                windows: &self.backing,
                guards: &mut Open,
                nonce,
                keeps_agenda: self.keeps_agenda,
            };
            match decide_input(&self.suite, &input, settings, by_position, before) {
                Outcome::Recorded { unit, .. } => return Ok(unit),
                Outcome::Passed { .. } => return Err(diverged(Reason::NotRecorded)),
                Outcome::Refused { refusal, .. } => return Err(diverged(Reason::Refused(refusal))),
                Outcome::Damaged(damage) => return Err(diverged(Reason::Damaged(damage.0))),
                Outcome::Missing(keys) => {
                    let before = loaded.len();
                    for key in keys {
                        if !loaded.contains(&key) {
                            loaded.push(key);
                        }
                    }
                    in_vain += usize::from(loaded.len() == before);
                    self.backing
                        .load(&loaded)
                        .map_err(|damage| diverged(Reason::Damaged(damage.0)))?;
                }
            }
        }
        Err(diverged(Reason::Damaged(
            "rows that were loaded are still missing".to_owned(),
        )))
    }

    fn compare(&mut self, drafts: &[Draft], unit: &[Recorded]) -> Result<(), Divergence> {
        for (index, (draft, recorded)) in drafts.iter().zip(unit).enumerate() {
            let more = index + 1 < drafts.len();
            let seq = unit[0].line.seq + index as u64;
            let diverged = |reason| Divergence::at(recorded.line.seq, reason);
            let envelope = self
                .sealed_as_recorded(draft, &recorded.line)
                .map_err(diverged)?;
            self.buffer.clear();
            // The chain is checked elsewhere: a line edited before this one is that line's divergence, not this one's.
            render(
                draft,
                &envelope,
                seq,
                &recorded.line.prev,
                more,
                &mut self.buffer,
            );
            if self.buffer != recorded.canonical {
                return Err(diverged(Reason::Differs(differing_member(
                    &self.buffer,
                    &recorded.canonical,
                ))));
            }
        }
        // Whole units differ in `more` before they differ in length.
        if drafts.len() != unit.len() {
            let reason = Reason::Differs("number of lines".to_owned());
            return Err(Divergence::at(unit[0].line.seq, reason));
        }
        Ok(())
    }

    /// A node's signature is taken from the line: whoever feeds the fold has checked it under the public key on record.
    fn sealed_as_recorded(&self, draft: &Draft, line: &Line) -> Result<Bytes, Reason> {
        match &draft.envelope {
            DraftEnvelope::Whole(bytes) => Ok(bytes.clone()),
            DraftEnvelope::Unsealed { bytes, .. } => {
                let signature = self
                    .suite
                    .recorded_signature(line)
                    .ok_or(Reason::NotSealed)?;
                self.suite
                    .seal(draft.protocol, bytes, &mut |_| Some(signature))
                    .ok_or(Reason::NotSealed)
            }
        }
    }

    fn take(&mut self, produced: Unit, unit: &[Recorded]) -> Result<Produced, RowsDamaged> {
        let followed = self.in_force.relevant(&produced.rows);
        self.backing.take(produced.rows, produced.remembered);
        let line_bytes = unit.iter().map(|line| line.canonical.len()).sum();
        self.backing.grown(line_bytes)?;
        self.in_force
            .follow(&self.suite, &self.backing, &followed)?;
        self.advance(unit);
        Ok(Produced::Same {
            inboxes: produced.inboxes,
            deliveries: produced.deliveries,
        })
    }

    fn advance(&mut self, unit: &[Recorded]) {
        for recorded in unit {
            self.head
                .advance(recorded.hash, recorded.line.protocol, recorded.line.eval_ts);
            self.head.seq = recorded.line.seq;
        }
        let now = self.head.time_by_position();
        let minute = now.unix_seconds().div_euclid(60);
        if minute > self.forgotten_minute {
            self.forgotten_minute = minute;
            self.backing.forget_ended(now);
        }
    }
}

/// The nonce that a unit's first line names; zeros when it made no identifiers; none when it is damaged.
fn recorded_nonce(line: &Line) -> Option<Nonce> {
    match line.meta_json("nonce") {
        None => Some(Nonce::default()),
        Some(_) => hex::decode_array_lower(&line.meta_text("nonce")?).ok(),
    }
}
