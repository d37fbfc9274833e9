//! A node in a nutshell: the same functions in the same order, on rows in memory.

use std::cell::Cell;

use bytes::Bytes;
use chancery_core::admin::{self, Act};
use chancery_core::decision::{Aside, Before, Cx, Stop, Unit, Verdict};
use chancery_core::delivery::Whisper;
use chancery_core::keys::Keyring;
use chancery_core::line::ProtocolName;
use chancery_core::protocol::{Caller, Door, Failure, Input, Protocol};
use chancery_core::refusal::Refusal;
use chancery_core::rows::{Lookup, MapRows, Row, RowKey, Rows, RowsDamaged};
use chancery_core::time::Time;
use chancery_core::window::Windows;

use crate::answer::{Answer, Outcome, Verdict as Word};
use crate::fault::Fault;
use crate::message::Message;
use crate::outgoing::Outgoing;
use crate::peer::PeerRecord;
use crate::protocol::Agh;
use crate::revision::Revision;
use crate::rules::{StoredInteraction, interaction_key};
use crate::settings::Settings;
use crate::soft::Soft;

/// A node without threads, files or a network.
pub struct Host {
    settings: Settings,
    rows: MapRows,
    windows: Windows,
    soft: Soft,
    lines: u64,
    decisions: u64,
    units: Vec<Unit>,
    keeps_units: bool,
    whispers: Vec<Whisper>,
    row_operations: Cell<u64>,
}

/// What a request came to when it is no verdict about an envelope.
pub type Sent = Result<Answer, Refusal>;

impl Host {
    /// A node that hosts nobody yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            soft: Soft::new(&settings),
            settings,
            rows: MapRows::default(),
            windows: Windows::default(),
            lines: 0,
            decisions: 0,
            units: Vec::new(),
            keeps_units: false,
            whispers: Vec::new(),
            row_operations: Cell::new(0),
        }
    }

    /// The same, keeping what it put on record.
    #[must_use]
    pub fn keeping_units(mut self) -> Self {
        self.keeps_units = true;
        self
    }

    /// What was put on record.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// The rows.
    pub fn rows(&self) -> &MapRows {
        &self.rows
    }

    /// Rows that decisions have read and written so far: what the work grows with.
    pub fn row_operations(&self) -> u64 {
        self.row_operations.get()
    }

    /// The soft state.
    pub fn soft(&mut self) -> &mut Soft {
        &mut self.soft
    }

    /// What the node said by itself since the last call.
    pub fn take_whispers(&mut self) -> Vec<Whisper> {
        std::mem::take(&mut self.whispers)
    }

    /// Hosts a peer.
    pub fn host(&mut self, record: &PeerRecord) -> Result<(), String> {
        let act = Act::Agent {
            protocol: ProtocolName::Agh,
            id: record.address(),
            record: Some(serde_json::to_value(record).map_err(|error| error.to_string())?),
            run_state: None,
        };
        let hook = |_: ProtocolName,
                    id: &str,
                    before: Option<&serde_json::Value>,
                    after: Option<&serde_json::Value>,
                    cx: &mut Cx<'_>| Agh.agent_changed(id, before, after, cx);
        let decided = self.decide(Time::UNIX_EPOCH, |cx| {
            admin::decide(&act, &hook, cx).map(|_| Verdict::Record { answer: () })
        });
        let workspace = record.workspace_id.as_deref();
        self.soft
            .presence
            .forget(workspace, &record.channel, &record.card.peer_id);
        decided.map_err(|stop| format!("the peer cannot be hosted: {stop:?}"))
    }

    /// Hosts a peer that has nothing but a name.
    pub fn host_named(
        &mut self,
        workspace: Option<&str>,
        channel: &str,
        peer: &str,
    ) -> Result<(), String> {
        self.host(&PeerRecord::new(
            peer,
            channel,
            workspace,
            None,
            Vec::new(),
            crate::whois::Catalog::default(),
        ))
    }

    /// Decodes, authenticates and decides an envelope that arrives at `now` (Unix seconds).
    pub fn receive(&mut self, raw: impl Into<Bytes>, now: i64) -> Outcome {
        let received = instant(now);
        let message = match Message::decode(raw.into(), &self.settings, Some(now)) {
            Ok(message) => message,
            Err(undecodable) => {
                let id = undecodable.id.unwrap_or_default();
                return rejected(&id, undecodable.revision, undecodable.fault);
            }
        };
        let (id, revision) = (message.id.to_string(), message.revision);
        let caller = Caller::default();
        let keys = Keyring::default();
        let settings = self.settings.clone();
        let authentic = Agh.authenticate(message, Door::Http, &caller, &keys, &settings, received);
        let decided = match authentic {
            Ok(authentic) => {
                let input = Input::Envelope(authentic);
                self.decide(received, |cx| Agh.decide(&input, &settings, cx))
            }
            Err(refusal) => Err(Stop::Refused(refusal)),
        };
        match decided {
            Ok(Answer::Decided(outcome)) => {
                let mut outcome = *outcome;
                if let Some(seen) = outcome.seen.clone() {
                    self.soft.presence.see(seen, now);
                }
                if outcome.verdict == Word::Reject {
                    outcome.deliver_to.clear();
                }
                outcome
            }
            _ => {
                let busy = Fault::new(crate::fault::ErrorName::Busy, crate::fault::Stage::Routing);
                rejected(&id, revision, busy)
            }
        }
    }

    /// Decides what a local peer sends at `now` (Unix seconds).
    pub fn send(&mut self, body: &[u8], now: i64) -> Sent {
        let outgoing = Outgoing::decode(body, &self.settings)
            .map_err(|fault| fault.into_refusal(Revision::A))?;
        let (workspace, channel, from) = outgoing.place();
        let input = Input::Outgoing {
            agent: crate::peer::address(workspace, channel, from),
            answers: None,
            idempotency: None,
            content: outgoing,
        };
        self.input(&input, now)
    }

    /// A publication that failed.
    pub fn fail(&mut self, of: u64, about: &str, now: i64) -> Sent {
        let input = Input::Failed {
            of,
            about: about.to_owned(),
            why: Failure::Undeliverable,
        };
        self.input(&input, now)
    }

    fn input(&mut self, input: &Input<Agh>, now: i64) -> Sent {
        let settings = self.settings.clone();
        self.decide(instant(now), |cx| Agh.decide(input, &settings, cx))
            .map_err(|stop| match stop {
                Stop::Refused(refusal) => refusal,
                stop => Refusal::new("internal", 500, "", "").at(format!("{stop:?}")),
            })
    }

    /// An interaction on record.
    pub fn interaction(
        &self,
        workspace: Option<&str>,
        channel: &str,
        name: &str,
    ) -> Option<StoredInteraction> {
        let bytes = self.rows.find(&interaction_key(workspace, channel, name))?;
        serde_json::from_slice(bytes).ok()
    }

    fn decide<A>(
        &mut self,
        now: Time,
        rules: impl FnOnce(&mut Cx<'_>) -> Result<Verdict<A>, Stop>,
    ) -> Result<A, Stop> {
        self.decisions += 1;
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.decisions.to_be_bytes());
        let mut guards = self.soft.guards(now, now);
        let rows = Counted {
            rows: &self.rows,
            operations: &self.row_operations,
        };
        let mut cx = Cx::new(Before {
            now,
            seq: self.lines + 1,
            rows: &rows,
            windows: &self.windows,
            guards: &mut guards,
            nonce,
            keeps_agenda: true,
        });
        let (answer, aside) = match rules(&mut cx) {
            Err(stop) => return Err(stop),
            Ok(Verdict::Pass { answer, .. }) => (answer, cx.into_aside()),
            Ok(Verdict::Record { answer }) => {
                let (unit, aside) = cx.into_unit()?;
                self.take(unit, now);
                (answer, aside)
            }
        };
        let Aside { whispers, .. } = aside;
        self.whispers.extend(whispers);
        Ok(answer)
    }

    fn take(&mut self, mut unit: Unit, now: Time) {
        self.lines += unit.drafts.len() as u64;
        let written = unit.rows.len() as u64;
        self.row_operations.set(self.row_operations.get() + written);
        self.rows.apply(std::mem::take(&mut unit.rows));
        for record in &unit.remembered {
            self.windows.remember(record);
        }
        self.windows.forget_ended(now);
        if self.keeps_units {
            self.units.push(unit);
        }
    }
}

fn rejected(id: &str, revision: Revision, fault: Fault) -> Outcome {
    let mut outcome = Outcome::new(Word::Reject, id, revision);
    outcome.fault = Some(fault);
    outcome
}

fn instant(seconds: i64) -> Time {
    Time::from_unix_seconds(seconds).unwrap_or(Time::UNIX_EPOCH)
}

/// Rows that count how often they are asked.
struct Counted<'h> {
    rows: &'h MapRows,
    operations: &'h Cell<u64>,
}

impl Rows for Counted<'_> {
    fn get(&self, key: &RowKey) -> Lookup {
        self.operations.set(self.operations.get() + 1);
        self.rows.get(key)
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        let rows = self.rows.scan(prefix)?;
        self.operations
            .set(self.operations.get() + 1 + rows.len() as u64);
        Ok(rows)
    }
}
