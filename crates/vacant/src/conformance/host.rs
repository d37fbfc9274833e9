//! A node in a nutshell: the same functions in the same order, on rows in memory, for vectors that need rules.

use bytes::Bytes;
use chancery_core::admin::{self, Act};
use chancery_core::decision::{Before, Cx, Open, Stop, Verdict};
use chancery_core::keys::Keyring;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::line::{DraftEnvelope, ProtocolName, Seq};
use chancery_core::protocol::{Caller, Door, Input, Protocol};
use chancery_core::refusal::Refusal;
use chancery_core::rows::{MapRows, Rows};
use chancery_core::time::{Time, parse_vacant};
use chancery_core::window::Windows;

use crate::agent::AgentRecord;
use crate::answer::Answer;
use crate::error::ProtocolError;
use crate::id::VacantId;
use crate::message::Message;
use crate::native::{self, OutOfTurn, RpcId};
use crate::outgoing::Outgoing;
use crate::payload::{Payload, Role};
use crate::protocol::Vacant;
use crate::rules::chain::{Pair, ReplayState, pair_key};
use crate::settings::Settings;
use crate::state::State;

/// The reply of a server: a status and a body.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// A node that hosts vacants which say what they hear.
pub(super) struct Host {
    protocol: Vacant,
    settings: Settings,
    keys: Vec<(VacantId, SigningKey)>,
    rows: MapRows,
    windows: Windows,
    /// The recorded envelopes, by line.
    lines: Vec<Bytes>,
}

impl Host {
    pub(super) fn new() -> Self {
        Self {
            protocol: Vacant,
            settings: Settings::default(),
            keys: Vec::new(),
            rows: MapRows::default(),
            windows: Windows::default(),
            lines: Vec::new(),
        }
    }

    /// Hosts a vacant.
    pub(super) fn host(&mut self, name: &str, key: SigningKey, state: State) -> Result<(), String> {
        let id = VacantId::of(&key);
        let record = AgentRecord {
            id,
            state,
            card: None,
            inbox: false,
            agent: None,
        };
        self.keys.push((id, key));
        let record = serde_json::to_value(record).map_err(|error| error.to_string())?;
        let act = Act::Agent {
            protocol: ProtocolName::Vacant,
            id: name.to_owned(),
            record: Some(record),
            run_state: None,
        };
        let protocol = self.protocol;
        let hook =
            |_: ProtocolName,
             id: &str,
             before: Option<&serde_json::Value>,
             after: Option<&serde_json::Value>,
             cx: &mut Cx<'_>| protocol.agent_changed(id, before, after, cx);
        self.decide(|cx| admin::decide(&act, &hook, cx).map(|_| Verdict::Record { answer: () }))
            .map_err(|stop| format!("the server cannot be set up: {stop:?}"))
    }

    /// Preloads a pair (VA-REP-5).
    pub(super) fn seed(&mut self, from: &VacantId, to: &VacantId, state: ReplayState) {
        let pair = Pair {
            state,
            ..Pair::default()
        };
        let row = serde_json::to_vec(&pair).expect("a row has a JSON form");
        self.rows.apply([(pair_key(from, to), Some(row.into()))]);
    }

    /// Where a pair stands.
    pub(super) fn state_of(&self, from: &VacantId, to: &VacantId) -> Result<ReplayState, String> {
        match self.rows.get(&pair_key(from, to)) {
            chancery_core::rows::Lookup::Found(row) => serde_json::from_slice::<Pair>(&row)
                .map(|pair| pair.state)
                .map_err(|error| error.to_string()),
            _ => Ok(ReplayState::default()),
        }
    }

    /// A request on the native path of the vacant `at`: checks 1 to 8 of VA-SRV-4.
    pub(super) fn post(&mut self, at: &VacantId, media_type: Option<&str>, body: &Bytes) -> Reply {
        let (id, message) = match native::check_media_type(media_type.map(str::as_bytes)) {
            Ok(()) => native::read_request(body, &self.settings),
            Err(error) => (RpcId::default(), Err(error)),
        };
        let answered = message
            .map_err(Refusal::from)
            .and_then(|message| self.call(Some(at), message))
            .and_then(|answer| self.behave(&answer));
        match answered {
            Ok(message) => Reply {
                status: 200,
                body: native::answer(&id, &message),
            },
            Err(refusal) => {
                let lost = OutOfTurn::of(&refusal).and_then(|place| place.answer);
                let response = lost.map(|line| self.recorded(line));
                Reply {
                    status: refusal.status,
                    body: native::refusal(&id, &refusal, response.as_deref()),
                }
            }
        }
    }

    /// Checks 3 to 6: destination, signature, state, chain.
    pub(super) fn call(
        &mut self,
        at: Option<&VacantId>,
        message: Message,
    ) -> Result<(Answer, Payload), Refusal> {
        if at.is_some_and(|at| *at != message.envelope.to) {
            return Err(ProtocolError::Misdirected.into());
        }
        let payload = message.envelope.payload.clone();
        let authentic = self.protocol.authenticate(
            message,
            Door::Http,
            &Caller::default(),
            &Keyring::new(),
            &self.settings,
            now(),
        )?;
        let answer = self.submit(&Input::Envelope(authentic))?;
        Ok((answer, payload))
    }

    /// Checks 7 and 8: the behaviour, and the signed answer.
    fn behave(&mut self, (answer, heard): &(Answer, Payload)) -> Result<Bytes, Refusal> {
        let Answer::Accepted(accepted) = answer else {
            return Err(ProtocolError::BehaviourFailed.into());
        };
        let says = Payload::text(Role::Agent, format!("echo: {}", heard.joined()));
        let agent = self.keys.iter().find(|(id, _)| {
            let hosted = crate::agent::hosted_key(id);
            matches!(self.rows.get(&hosted), chancery_core::rows::Lookup::Found(row)
                if serde_json::from_slice::<crate::agent::Hosted>(&row)
                    .is_ok_and(|row| row.name == accepted.name))
        });
        let agent = agent.map(|(id, _)| id.hex()).unwrap_or_default();
        let input = Input::Outgoing {
            agent,
            answers: Some(accepted.call),
            idempotency: None,
            content: Outgoing::Answer(says),
        };
        match self.submit(&input)? {
            Answer::Answered(line) => Ok(self.recorded(line)),
            _ => Err(ProtocolError::BehaviourFailed.into()),
        }
    }

    fn recorded(&self, line: Seq) -> Bytes {
        let index = usize::try_from(line)
            .ok()
            .and_then(|line| line.checked_sub(1));
        let found = index.and_then(|index| self.lines.get(index));
        found.cloned().unwrap_or_default()
    }

    fn submit(&mut self, input: &Input<Vacant>) -> Result<Answer, Refusal> {
        let (protocol, settings) = (self.protocol, self.settings.clone());
        let decided = self.decide(|cx| protocol.decide(input, &settings, cx));
        decided.map_err(|stop| match stop {
            Stop::Refused(refusal) => refusal,
            stop => Refusal::new("internal", 500, "", "").at(format!("{stop:?}")),
        })
    }

    fn decide<A>(
        &mut self,
        rules: impl FnOnce(&mut Cx<'_>) -> Result<Verdict<A>, Stop>,
    ) -> Result<A, Stop> {
        let before = Before {
            now: now(),
            seq: self.lines.len() as u64 + 1,
            rows: &self.rows,
            windows: &self.windows,
            guards: &mut Open,
            nonce: [0; 16],
            keeps_agenda: true,
        };
        let mut cx = Cx::new(before);
        match rules(&mut cx)? {
            Verdict::Pass { answer, .. } => Ok(answer),
            Verdict::Record { answer } => {
                let (unit, _) = cx.into_unit()?;
                let sealed = unit.drafts.iter().map(|draft| self.seal(&draft.envelope));
                let sealed: Vec<Bytes> = sealed.collect();
                self.lines.extend(sealed);
                self.rows.apply(unit.rows);
                Ok(answer)
            }
        }
    }

    fn seal(&self, envelope: &DraftEnvelope) -> Bytes {
        match envelope {
            DraftEnvelope::Whole(bytes) => bytes.clone(),
            DraftEnvelope::Unsealed { bytes, signer } => {
                let key = self.keys.iter().find(|(id, _)| id.hex() == *signer);
                let mut sign = |message: &[u8]| key.map(|(_, key)| key.sign(message));
                self.protocol.seal(bytes, &mut sign).unwrap_or_default()
            }
        }
    }
}

/// Any time will do: no vector asks for the clock.
fn now() -> Time {
    parse_vacant("2026-05-06T07:09:00Z").unwrap_or(Time::UNIX_EPOCH)
}
