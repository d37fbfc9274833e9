//! A node in a nutshell: the same functions in the same order, on rows in memory, for vectors that need rules.

use bytes::Bytes;
use chancery_core::admin::{self, Act, RunState};
use chancery_core::decision::{Before, Cx, Guard, Guards, Open, Shut, Stop, Verdict};
use chancery_core::keys::Keyring;
use chancery_core::line::ProtocolName;
use chancery_core::protocol::{Caller, Door, Input, Protocol};
use chancery_core::refusal::Refusal;
use chancery_core::rows::{Lookup, MapRows, Rows as _};
use chancery_core::time::Time;
use chancery_core::window::Windows;

use crate::agent::AgentRecord;
use crate::outgoing::Outgoing;
use crate::protocol::{Answer, ValueContext};
use crate::settings::Settings;
use crate::world::World;

/// What a request came to.
pub(super) type Outcome = Result<Answer, Refusal>;

/// Soft state with no room left in any inbox.
struct Full;

impl Guards for Full {
    fn pass(&mut self, guard: Guard<'_>) -> Result<(), Shut> {
        match guard {
            Guard::Inbox { .. } => Err(Shut { retry_after_s: 1 }),
            _ => Ok(()),
        }
    }
}

/// A node with the agents and keys of a world.
pub(super) struct Host {
    protocol: ValueContext,
    settings: Settings,
    keyring: Keyring,
    rows: MapRows,
    windows: Windows,
    lines: u64,
}

impl Host {
    pub(super) fn new(world: &World) -> Result<Self, String> {
        let mut host = Self {
            protocol: ValueContext,
            settings: Settings::default(),
            keyring: Keyring::new(),
            rows: MapRows::default(),
            windows: Windows::default(),
            lines: 0,
        };
        for key in &world.keys {
            host.act(&Act::Key(key.clone()))?;
        }
        for agent in &world.agents {
            let record =
                serde_json::to_value(AgentRecord::of(agent)).map_err(|error| error.to_string())?;
            host.act(&Act::Agent {
                protocol: ProtocolName::ValueContext,
                id: agent.id.as_str().to_owned(),
                record: Some(record),
                run_state: None,
            })?;
        }
        host.keyring = admin::keyring(&host.rows).map_err(|damage| damage.to_string())?;
        Ok(host)
    }

    /// Decodes, authenticates and decides an envelope that arrives at `now`; `full` when there is no room.
    pub(super) fn receive(&mut self, raw: Bytes, now: Time, full: bool) -> Outcome {
        self.receive_through(raw, Door::Http, now, full)
    }

    /// The same by another way.
    pub(super) fn receive_by(&mut self, raw: Bytes, door: Door, now: Time) -> Outcome {
        self.receive_through(raw, door, now, false)
    }

    fn receive_through(&mut self, raw: Bytes, door: Door, now: Time, full: bool) -> Outcome {
        let message = self.protocol.decode(raw, door, &self.settings)?;
        let caller = Caller::default();
        let authentic = self.protocol.authenticate(
            message,
            door,
            &caller,
            &self.keyring,
            &self.settings,
            now,
        )?;
        self.take(&Input::Envelope(authentic), now, full)
    }

    /// Decides what a hosted agent sends: the body of a send request.
    pub(super) fn send(&mut self, body: &serde_json::Value, now: Time) -> Outcome {
        let body = body.to_string();
        let content = Outgoing::decode(body.as_bytes(), self.settings.max_bytes, &[], true)
            .map_err(|undecodable| undecodable.fault.into_refusal("schema"))?;
        let input = Input::Outgoing {
            agent: content.sender.as_str().to_owned(),
            answers: None,
            idempotency: None,
            content,
        };
        self.take(&input, now, false)
    }

    fn take(&mut self, input: &Input<ValueContext>, now: Time, full: bool) -> Outcome {
        let protocol = self.protocol;
        let settings = self.settings.clone();
        let verdict = self.decide(now, full, |cx| protocol.decide(input, &settings, cx));
        verdict.map_err(|stop| match stop {
            Stop::Refused(refusal) => refusal,
            stop => Refusal::new("internal", 500, "", "").at(format!("{stop:?}")),
        })
    }

    /// The run state on record.
    pub(super) fn run_state(&self, participant: &str) -> Result<RunState, String> {
        match self.rows.get(&admin::run_state_key(participant)) {
            Lookup::Found(bytes) => {
                serde_json::from_slice(&bytes).map_err(|error| error.to_string())
            }
            _ => Ok(RunState::default()),
        }
    }

    /// Starts again with what the rows hold, as bytes: nothing else is carried over.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        let rows = std::mem::take(&mut self.rows);
        for (key, bytes) in rows.iter() {
            self.rows.apply(vec![(key.clone(), Some(bytes.clone()))]);
        }
        self.keyring = admin::keyring(&self.rows).map_err(|damage| damage.to_string())?;
        Ok(())
    }

    fn act(&mut self, act: &Act) -> Result<(), String> {
        let protocol = self.protocol;
        let hook =
            |_: ProtocolName,
             id: &str,
             before: Option<&serde_json::Value>,
             after: Option<&serde_json::Value>,
             cx: &mut Cx<'_>| protocol.agent_changed(id, before, after, cx);
        let decided = self.decide(Time::UNIX_EPOCH, false, |cx| {
            admin::decide(act, &hook, cx).map(|_| Verdict::Record { answer: () })
        });
        decided.map_err(|stop| format!("the world cannot be set up: {stop:?}"))
    }

    fn decide<A>(
        &mut self,
        now: Time,
        full: bool,
        rules: impl FnOnce(&mut Cx<'_>) -> Result<Verdict<A>, Stop>,
    ) -> Result<A, Stop> {
        let (mut open, mut shut) = (Open, Full);
        let guards: &mut dyn Guards = if full { &mut shut } else { &mut open };
        let before = Before {
            now,
            seq: self.lines + 1,
            rows: &self.rows,
            windows: &self.windows,
            guards,
            nonce: [0; 16],
            keeps_agenda: true,
        };
        let mut cx = Cx::new(before);
        match rules(&mut cx)? {
            Verdict::Pass { answer, .. } => Ok(answer),
            Verdict::Record { answer } => {
                let (unit, _) = cx.into_unit()?;
                self.lines += unit.drafts.len() as u64;
                self.rows.apply(unit.rows);
                for record in &unit.remembered {
                    self.windows.remember(record);
                }
                Ok(answer)
            }
        }
    }
}
