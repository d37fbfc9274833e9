//! One decision: the context a rule works in, and the unit that comes out of it.
//!
//! A rule reads rows and windows, takes identifiers, asks guards, and collects what it wants: lines, row
//! changes, deliveries, timers. Either all of it happens, as one unit on the log, or nothing does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::delivery::{Delivery, Whisper, outbox_key};
use crate::ids::{DerivedIds, Uuid};
use crate::inbox::{self, InboxName};
use crate::line::{Draft, MetaValue, ProtocolName, Seq};
use crate::refusal::Refusal;
use crate::rows::{Lookup, Row, RowChange, RowKey, Rows, RowsDamaged, View};
use crate::time::Time;
use crate::timer::{TimerName, timer_key};
use crate::window::{Remember, WindowId, WindowName, Windows};

/// Sixteen random bytes from which a decision's identifiers follow (CH-JRN-3).
pub type Nonce = [u8; 16];

/// What a rule answers.
#[derive(Debug)]
pub enum Verdict<A> {
    /// A unit for the log.
    Record {
        /// What the sender is told once the unit is durable.
        answer: A,
    },
    /// Nothing to record: a duplicate, an answer given again, something ignored.
    Pass {
        /// What the sender is told.
        answer: A,
        /// Lines to be delivered once more: the same bytes to the same recipient.
        repeat: Vec<(Seq, Delivery)>,
    },
}

/// Why a rule stopped without a verdict.
#[derive(Debug)]
pub enum Stop {
    /// The input is refused; nothing of the decision stays.
    Refused(Refusal),
    /// Rows that are not in memory: fetch them and decide again.
    Missing(Vec<RowKey>),
    /// The node's own data cannot be read.
    Damaged(RowsDamaged),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<RowsDamaged> for Stop {
    fn from(damage: RowsDamaged) -> Self {
        Self::Damaged(damage)
    }
}

/// What soft state is asked. It may only refuse; replay runs with every guard open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard<'a> {
    /// May this sender send one more now?
    Rate {
        /// Whose rate.
        sender: &'a str,
    },
    /// Is there room in this inbox?
    Inbox {
        /// Whose inbox.
        name: &'a InboxName,
    },
    /// Is there room for one more record in the windows?
    Window,
    /// Did this not come before, among what left no line? It is noted until then, when an end is given.
    Once {
        /// Whose rules.
        protocol: ProtocolName,
        /// What identifies it.
        id: &'a WindowId,
        /// The last instant at which it is remembered.
        until: Option<Time>,
    },
    /// May this one have one more of these within a second?
    Quota {
        /// One more of what, for instance `agh/receipts`.
        of: &'static str,
        /// Who.
        who: &'a str,
        /// How many a second.
        per_second: u32,
    },
    /// Can what leaves this node in that protocol be carried right now?
    Network {
        /// Whose rules.
        protocol: ProtocolName,
    },
    /// Is this participant elsewhere there, as far as is known?
    Present {
        /// Whose rules.
        protocol: ProtocolName,
        /// Its name, as that protocol writes it.
        name: &'a str,
    },
}

/// A guard that is shut, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shut {
    /// After how many seconds to try again.
    pub retry_after_s: u32,
}

/// Soft state as a decision sees it.
pub trait Guards {
    /// Passes, or says when to try again.
    fn pass(&mut self, guard: Guard<'_>) -> Result<(), Shut>;
}

/// All guards open: replay, recovery, tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

impl Guards for Open {
    fn pass(&mut self, _: Guard<'_>) -> Result<(), Shut> {
        Ok(())
    }
}

/// Windows below a decision.
pub trait WindowsBelow {
    /// The value remembered under `id` at `now`.
    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64>;
}

impl WindowsBelow for Windows {
    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        Windows::find(self, window, id, now)
    }
}

/// Something worth telling that is neither a line nor a refusal (CH-JRN-6): it goes to `events.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub name: &'static str,
    /// Whose rules.
    pub protocol: ProtocolName,
    /// About which message.
    pub message_id: Option<String>,
}

/// Something to be kept in full, for the owner of the data alone (VX-AUD-2). The log has it too; this is where a
/// person looks first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// What happened.
    pub name: &'static str,
    /// Whose rules.
    pub protocol: ProtocolName,
    /// When it was decided.
    pub at: Time,
    /// The envelope, as its line holds it.
    pub envelope: Bytes,
}

/// What a decision starts from.
pub struct Before<'a> {
    /// The decision time.
    pub now: Time,
    /// The number that the unit's first line will get.
    pub seq: Seq,
    /// The rows below.
    pub rows: &'a dyn Rows,
    /// The windows below.
    pub windows: &'a dyn WindowsBelow,
    /// Soft state.
    pub guards: &'a mut dyn Guards,
    /// Where identifiers come from.
    pub nonce: Nonce,
    /// Whether inbox, outbox and timer rows are kept: a node does, replay need not.
    pub keeps_agenda: bool,
}

/// The context of one decision.
pub struct Cx<'a> {
    now: Time,
    seq: Seq,
    view: View<'a>,
    windows: &'a dyn WindowsBelow,
    guards: &'a mut dyn Guards,
    ids: DerivedIds,
    nonce: Nonce,
    keeps_agenda: bool,
    remembered: Vec<Remember>,
    drafts: Vec<Draft>,
    inboxes: Vec<(InboxName, usize)>,
    deliveries: Vec<(usize, Delivery)>,
    whispers: Vec<Whisper>,
    events: Vec<Event>,
    audits: Vec<Audit>,
    /// Where rows are written before they are copied.
    scratch: Vec<u8>,
}

/// What came of a decision that is to be recorded.
#[derive(Debug, Default)]
pub struct Unit {
    /// Its lines.
    pub drafts: Vec<Draft>,
    /// Its row changes, sorted by key; inbox, outbox and timer rows among them.
    pub rows: Vec<RowChange>,
    /// What its windows remember.
    pub remembered: Vec<Remember>,
    /// Inboxes that got an entry, with the number of the line: so that waiting readers can be woken.
    pub inboxes: Vec<(InboxName, Seq)>,
    /// Deliveries to be started after the commit, with their outbox keys.
    pub deliveries: Vec<(RowKey, Delivery)>,
}

/// What a decision leaves besides its verdict, also when it is refused.
#[derive(Debug, Default)]
pub struct Aside {
    /// Soft messages.
    pub whispers: Vec<Whisper>,
    /// Things to tell.
    pub events: Vec<Event>,
    /// Things to keep in full.
    pub audits: Vec<Audit>,
}

impl Aside {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.whispers.is_empty() && self.events.is_empty() && self.audits.is_empty()
    }
}

impl<'a> Cx<'a> {
    /// A context with nothing decided yet.
    pub fn new(before: Before<'a>) -> Self {
        Self {
            now: before.now,
            seq: before.seq,
            view: View::new(before.rows),
            windows: before.windows,
            guards: before.guards,
            ids: DerivedIds::new(before.nonce, before.now),
            nonce: before.nonce,
            keeps_agenda: before.keeps_agenda,
            remembered: Vec::new(),
            drafts: Vec::new(),
            inboxes: Vec::new(),
            deliveries: Vec::new(),
            whispers: Vec::new(),
            events: Vec::new(),
            audits: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The decision time: the only clock a rule knows.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Whether rows that only a running node needs are kept: inboxes, timers, answers that may be asked for again.
    /// Replay keeps none of them.
    pub fn keeps_agenda(&self) -> bool {
        self.keeps_agenda
    }

    /// The number that the next line of this unit will get.
    pub fn next_seq(&self) -> Seq {
        self.seq + self.drafts.len() as u64
    }

    /// A row.
    pub fn bytes(&self, key: &RowKey) -> Result<Option<Row>, Stop> {
        match self.view.get(key) {
            Lookup::Found(row) => Ok(Some(row)),
            Lookup::Absent => Ok(None),
            Lookup::NotLoaded => Err(Stop::Missing(vec![key.clone()])),
        }
    }

    /// A row's value, shared with everybody else who reads the row.
    pub fn shared<T>(&self, key: &RowKey) -> Result<Option<Arc<T>>, Stop>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        let Some(row) = self.bytes(key)? else {
            return Ok(None);
        };
        let value = row
            .value()
            .map_err(|error| RowsDamaged(format!("{key:?}: {error}")))?;
        Ok(Some(value))
    }

    /// A row's value, to change it.
    pub fn row<T>(&self, key: &RowKey) -> Result<Option<T>, Stop>
    where
        T: DeserializeOwned + Clone + Send + Sync + 'static,
    {
        let value = self.shared::<T>(key)?;
        Ok(value.map(|value| T::clone(&value)))
    }

    /// All rows below a prefix: for what is small and rare.
    pub fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, Stop> {
        Ok(self.view.scan(prefix)?)
    }

    /// Writes a row.
    pub fn put<T: Serialize>(&mut self, key: RowKey, value: &T) {
        let bytes = self.written(value);
        self.view.put(key, bytes.into());
    }

    /// Writes a row that is likely to be read again soon: its value is kept with it. Gives the row.
    pub fn put_value<T>(&mut self, key: RowKey, value: T) -> Row
    where
        T: Serialize + DeserializeOwned + PartialEq + Send + Sync + 'static,
    {
        self.put_shared(key, Arc::new(value))
    }

    /// The same with a value that is shared already.
    pub fn put_shared<T>(&mut self, key: RowKey, value: Arc<T>) -> Row
    where
        T: Serialize + DeserializeOwned + PartialEq + Send + Sync + 'static,
    {
        let row = Row::of(value);
        self.view.put(key, row.clone());
        row
    }

    fn written<T: Serialize>(&mut self, value: &T) -> Bytes {
        self.scratch.clear();
        serde_json::to_writer(&mut self.scratch, value)
            .expect("a row is plain data and always has a JSON form");
        // A copy of the exact length: rows are kept, and room to spare would be kept with them.
        Bytes::copy_from_slice(&self.scratch)
    }

    /// Writes a row's bytes.
    pub fn put_bytes(&mut self, key: RowKey, bytes: Bytes) {
        self.view.put(key, bytes.into());
    }

    /// Removes a row.
    pub fn remove(&mut self, key: RowKey) {
        self.view.remove(key);
    }

    /// What a window remembers under `id`, this decision's own records included.
    pub fn seen(&self, window: WindowName, id: &WindowId) -> Option<u64> {
        let own = self
            .remembered
            .iter()
            .find(|record| record.window == window && record.id == *id);
        own.map(|record| record.value)
            .or_else(|| self.windows.find(window, id, self.now))
    }

    /// Remembers an identifier for `span` from now.
    pub fn remember(&mut self, window: WindowName, id: WindowId, value: u64, span: Duration) {
        self.remembered.push(Remember {
            window,
            id,
            value,
            until: self.now.saturating_add(span),
        });
    }

    /// A fresh UUIDv7, derived from the decision's nonce and time.
    pub fn uuid7(&mut self) -> Uuid {
        self.ids.next_v7()
    }

    /// Thirty-two fresh bytes, derived from the decision's nonce.
    pub fn entropy(&mut self) -> [u8; 32] {
        self.ids.next_bytes()
    }

    /// A fresh UUIDv4, derived from the decision's nonce.
    pub fn uuid4(&mut self) -> Uuid {
        self.ids.next_v4()
    }

    /// Asks soft state. A shut guard refuses with `refusal`, which gets the time to wait.
    pub fn guard(
        &mut self,
        guard: Guard<'_>,
        refusal: impl FnOnce() -> Refusal,
    ) -> Result<(), Stop> {
        self.guards.pass(guard).map_err(|shut| {
            let mut refusal = refusal();
            refusal.retry_after_s = Some(shut.retry_after_s);
            Stop::Refused(refusal)
        })
    }

    /// Whether soft state lets something pass: for rules that go on differently when it does not.
    pub fn passes(&mut self, guard: Guard<'_>) -> bool {
        self.guards.pass(guard).is_ok()
    }

    /// Adds a line; gives back its number.
    pub fn line(&mut self, draft: Draft) -> Seq {
        let seq = self.next_seq();
        self.drafts.push(draft);
        seq
    }

    /// Puts the line `seq` of this unit into an inbox.
    pub fn inbox(&mut self, name: InboxName, seq: Seq) {
        let index = self.own_line(seq);
        self.inboxes.push((name, index));
    }

    /// Sends the line `seq` of this unit out, after the commit.
    pub fn deliver(&mut self, seq: Seq, delivery: Delivery) {
        let index = self.own_line(seq);
        self.deliveries.push((index, delivery));
    }

    fn own_line(&self, seq: Seq) -> usize {
        let index = seq
            .checked_sub(self.seq)
            .and_then(|index| usize::try_from(index).ok());
        index
            .filter(|index| *index < self.drafts.len())
            .expect("a rule names only lines it has drafted")
    }

    /// Asks for a timer. The same name and time again replaces it.
    pub fn set_timer<T: Serialize>(&mut self, name: &TimerName, due: Time, timer: &T) {
        if self.keeps_agenda {
            self.put(timer_key(due, name), timer);
        }
    }

    /// Takes a timer back.
    pub fn cancel_timer(&mut self, name: &TimerName, due: Time) {
        if self.keeps_agenda {
            self.remove(timer_key(due, name));
        }
    }

    /// Sends something that is on no log.
    pub fn whisper(&mut self, whisper: Whisper) {
        self.whispers.push(whisper);
    }

    /// Tells something.
    pub fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Keeps something in full.
    pub fn audit(&mut self, audit: Audit) {
        self.audits.push(audit);
    }

    /// Ends a decision that records nothing.
    pub fn into_aside(self) -> Aside {
        Aside {
            whispers: self.whispers,
            events: self.events,
            audits: self.audits,
        }
    }

    /// Ends a decision that is recorded: inbox and outbox entries become rows, the nonce is noted if it was used.
    pub fn into_unit(mut self) -> Result<(Unit, Aside), Stop> {
        assert!(
            !self.drafts.is_empty(),
            "a recorded decision has at least one line"
        );
        if self.ids.made() > 0 {
            let nonce = crate::digest::hex::encode(&self.nonce);
            self.drafts[0].meta.push(("nonce", MetaValue::Text(nonce)));
        }
        let inboxes = self.take_inboxes()?;
        let deliveries = self.take_deliveries();
        let unit = Unit {
            drafts: self.drafts,
            rows: self.view.into_changes(),
            remembered: self.remembered,
            inboxes,
            deliveries,
        };
        Ok((
            unit,
            Aside {
                whispers: self.whispers,
                events: self.events,
                audits: self.audits,
            },
        ))
    }

    fn take_inboxes(&mut self) -> Result<Vec<(InboxName, Seq)>, Stop> {
        let mut entries = Vec::with_capacity(self.inboxes.len());
        // Rules may name lines in any order; an inbox is in that of the journal.
        self.inboxes.sort_by_key(|(_, index)| *index);
        for (name, index) in std::mem::take(&mut self.inboxes) {
            let seq = self.seq + index as u64;
            if self.keeps_agenda {
                inbox::append(&mut self.view, &name, seq)?;
            }
            entries.push((name, seq));
        }
        Ok(entries)
    }

    fn take_deliveries(&mut self) -> Vec<(RowKey, Delivery)> {
        let mut started = Vec::with_capacity(self.deliveries.len());
        for (number, (index, delivery)) in
            std::mem::take(&mut self.deliveries).into_iter().enumerate()
        {
            let key = outbox_key(self.seq + index as u64, number);
            if self.keeps_agenda {
                self.put(key.clone(), &delivery);
            }
            started.push((key, delivery));
        }
        started
    }
}
