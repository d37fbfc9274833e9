//! What a carrier of AGH asks of the node: envelopes in, in order; who is hosted here; what is said in their name.

use std::collections::HashMap;

use bytes::Bytes;
use chancery_agh::answer::{Answer, Outcome};
use chancery_agh::fault::{ErrorName, Fault, Stage};
use chancery_agh::grammar::split_handle;
use chancery_agh::greeting;
use chancery_agh::kind::Kind;
use chancery_agh::message::{Content, Message};
use chancery_agh::outgoing::{TRACEPARENT, TRACESTATE};
use chancery_agh::peer::{PeerRecord, address};
use chancery_agh::revision::Revision;
use chancery_agh::rules::{StoredInteraction, interaction_key};
use chancery_agh::settings::Tasks;
use chancery_agh::subject;
use chancery_agh::task::{self, Known};
use chancery_core::admin::{RunState, agents_prefix};
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::delivery::Whisper;
use chancery_core::digest::hex;
use chancery_core::json::{Object, Value};
use chancery_core::line::ProtocolName;
use chancery_core::protocol::{Caller, Door, Input, Protocol};
use chancery_core::time::Time;
use chancery_store::StoreError;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::office::Office;
use crate::office_agh::{count_agh, rejected};
use crate::others::Word;
use crate::passage::Passage;
use crate::sequencer::Decided;
use crate::soft::lock;
use crate::suite::{AnyAnswer, AnyInput};
use crate::trace::{Stage as PathStage, TraceContext};

/// An envelope whose form is known, with the rows that its decision will read in memory.
pub struct AghRead {
    passage: Passage,
    read: Result<Readable, Box<Outcome>>,
}

struct Readable {
    id: String,
    revision: Revision,
    /// Where the envelope belongs, by its own members.
    subject: String,
    is_question: bool,
    kind: Option<Kind>,
    input: AnyInput,
    received: Time,
}

impl AghRead {
    /// The subject that the envelope itself names; none for what cannot be read.
    pub fn subject(&self) -> Option<&str> {
        self.read.as_ref().ok().map(|read| read.subject.as_str())
    }

    /// The same, rejected when `fault` finds something wrong with the envelope.
    pub(crate) fn only_of(mut self, fault: impl FnOnce(&Message) -> Option<Fault>) -> Self {
        if let Ok(read) = &self.read
            && let AnyInput::Agh(Input::Envelope(authentic)) = &read.input
            && let Some(fault) = fault(&authentic.message)
        {
            self.read = Err(rejected(&read.id, read.revision, fault).into());
        }
        self
    }

    /// Whether it asks who somebody is: such a one may be answered at a reply subject too.
    pub fn is_question(&self) -> bool {
        self.read.as_ref().is_ok_and(|read| read.is_question)
    }
}

impl Office {
    /// Reads an envelope, and brings what its decision will read into memory. Many can be read at once, and
    /// then handed over in the order in which they came. One whose rows turn out not to be in memory may be overtaken.
    pub async fn read_agh(&self, raw: Bytes, door: Door) -> AghRead {
        let mut passage = self.passage(ProtocolName::Agh);
        let read = self.read_passing(&mut passage, raw, door).await;
        let read = read.map_err(Box::new);
        AghRead { passage, read }
    }

    async fn read_passing(
        &self,
        passage: &mut Passage,
        raw: Bytes,
        door: Door,
    ) -> Result<Readable, Outcome> {
        let settings = self.gate().settings();
        let received = self.gate().clock().now();
        self.adopt(passage, || named_trace(&raw));
        let decoded = Message::decode(raw, &settings.agh, Some(received.unix_seconds()));
        passage.ends(PathStage::Decode);
        let message = match decoded {
            Ok(message) => message,
            Err(undecodable) => {
                let id = undecodable.id.unwrap_or_default();
                return Err(rejected(&id, undecodable.revision, undecodable.fault));
            }
        };
        let (id, revision) = (message.id.to_string(), message.revision);
        passage.names(|| {
            let workspace = message.workspace.as_deref();
            let sender = address(workspace, &message.channel, &message.from);
            (sender, Some(id.clone()))
        });
        if let Some(tasks) = &settings.agh.tasks
            && message.to.as_deref() == Some(tasks.keeper.as_str())
            && let Err(fault) = self.judge_task(&message, tasks)
        {
            return Err(rejected(&id, revision, fault));
        }
        let subject = subject::of(
            message.workspace.as_deref(),
            &message.channel,
            message.to.as_deref(),
        );
        let is_question = matches!(message.content, Ok(Content::Request { .. }));
        let kind = message.kind;
        let (protocol, keys) = (self.gate().suite().agh(), self.gate().keyring());
        let caller = Caller::default();
        let authentic =
            protocol.authenticate(message, door, &caller, &keys, &settings.agh, received);
        passage.ends(PathStage::Authenticate);
        let Ok(authentic) = authentic else {
            return Err(busy(&id, revision));
        };
        let input = AnyInput::Agh(Input::Envelope(authentic));
        self.gate().prepare(&input).await;
        Ok(Readable {
            id,
            revision,
            subject,
            is_question,
            kind,
            input,
            received,
        })
    }

    /// Whether work may be handed to the keeper of tasks (AG-SEC-4). A store that cannot be read lets nobody write.
    fn judge_task(&self, message: &Message, tasks: &Tasks) -> Result<(), Fault> {
        let (workspace, channel) = (message.workspace.as_deref(), &*message.channel);
        let look = || -> Result<Known, StoreError> {
            let work = message.work.as_deref().unwrap_or_default();
            let stored: Option<StoredInteraction> =
                self.row(&interaction_key(workspace, channel, work))?;
            let locals = self.agh_locals(workspace, channel)?;
            let local = |id: &str| locals.iter().find(|peer| peer.card.peer_id == id);
            let now = self.gate().clock().now().unix_seconds();
            let card = match local(&message.from) {
                Some(peer) => Some(peer.shown_card()),
                None => lock(self.agh())
                    .presence
                    .find(workspace, channel, &message.from, now)
                    .map(|known| known.card.clone()),
            };
            Ok(Known {
                channel_is_joined: !locals.is_empty(),
                keeper_is_there: local(&tasks.keeper).is_some(),
                card,
                task: stored.map(|stored| stored.interaction),
            })
        };
        let busy = |_| Fault::new(ErrorName::TaskIngressUnavailable, Stage::Routing);
        let known = look().map_err(busy)?;
        match task::is_write(message, tasks, known.task.as_ref()) {
            true => task::judge(message, tasks, &known),
            false => Ok(()),
        }
    }

    /// Decides an envelope that was read. It is in line as soon as this is first polled.
    pub async fn decide_agh(&self, read: AghRead) -> Outcome {
        let AghRead { mut passage, read } = read;
        let outcome = match read {
            Ok(read) => self.decide_read(&mut passage, read).await,
            Err(outcome) => *outcome,
        };
        self.conclude_agh(&passage, &outcome);
        outcome
    }

    async fn decide_read(&self, passage: &mut Passage, read: Readable) -> Outcome {
        let Ok(permit) = self.gate().permit() else {
            return busy(&read.id, read.revision);
        };
        let decided = self.decide(passage, read.input, read.received, Some(permit));
        let mut outcome = match decided.await {
            Ok(Decided {
                result: Ok(AnyAnswer::Agh(Answer::Decided(outcome))),
                ..
            }) => *outcome,
            Ok(Decided {
                result: Err(refusal),
                ..
            }) => match Fault::of_refusal(&refusal, read.revision) {
                Some(fault) => rejected(&read.id, read.revision, fault),
                None => busy(&read.id, read.revision),
            },
            _ => busy(&read.id, read.revision),
        };
        self.seal_emitted(&mut outcome);
        if let Some(seen) = outcome.seen.clone() {
            self.others().tell(&Word::Seen {
                told_ms: self.others().told_ms(),
                ago_s: 0,
                seen: Box::new(seen.clone()),
            });
            let now = self.gate().clock().now().unix_seconds();
            lock(self.agh()).presence.see(seen, now);
        }
        count_agh("received", read.kind, &outcome);
        outcome
    }

    /// All peers that are hosted here, by address.
    pub fn agh_peers(&self) -> Result<Vec<PeerRecord>, StoreError> {
        let prefix = agents_prefix(ProtocolName::Agh);
        let rows = self.gate().store().scan(&prefix, None, usize::MAX)?;
        let read = |(key, bytes): (_, chancery_core::rows::Row)| {
            serde_json::from_slice(&bytes).map_err(|error| StoreError(format!("{key:?}: {error}")))
        };
        rows.into_iter().map(read).collect()
    }

    /// What the node says in the name of a peer that is here: its greeting. None while the peer is suspended.
    pub fn agh_greeting(&self, record: &PeerRecord) -> Option<Whisper> {
        let (id, now, signed) = self.about_to_speak(record)?;
        self.of_peer(record, greeting::greet(record, id, now, signed))
    }

    /// The question of a peer that is here who else is. None while the peer is suspended.
    pub fn agh_question(&self, record: &PeerRecord) -> Option<Whisper> {
        let (id, now, signed) = self.about_to_speak(record)?;
        self.of_peer(record, greeting::who_is_there(record, &id, now, signed))
    }

    /// Whether what leaves can be carried: while it cannot, senders are told to try again (CH-JRN-11).
    pub fn agh_broker_is(&self, up: bool) {
        lock(self.agh()).broker_is_down = !up;
    }

    fn about_to_speak(&self, record: &PeerRecord) -> Option<(String, i64, bool)> {
        let address = record.address();
        let state = self.run_state(record.participant(&address)).ok()?;
        if state == RunState::Suspended {
            return None;
        }
        let settings = self.gate().settings();
        let signed = settings.agh.trust.enabled && self.gate().vault().holds(&record.card.peer_id);
        // A verified handle without its proof is rejected everywhere (AG-TRU-7): such a peer speaks for itself.
        if !signed && split_handle(&record.card.peer_id).is_some() {
            return None;
        }
        let now = self.gate().clock().now();
        // On no log, so no replay needs to make it again.
        let mut id = [0; 16];
        getrandom::fill(&mut id).ok()?;
        Some((hex::encode(&id), now.unix_seconds(), signed))
    }

    fn of_peer(&self, record: &PeerRecord, envelope: Object<'static>) -> Option<Whisper> {
        let mut bytes: Bytes = to_bytes(&Value::Object(envelope), Dialect::Vibe).into();
        if self.gate().settings().agh.trust.enabled
            && self.gate().vault().holds(&record.card.peer_id)
        {
            let mut sign = |message: &[u8]| self.gate().vault().sign(&record.card.peer_id, message);
            bytes = self.gate().suite().agh().seal(&bytes, &mut sign)?;
        }
        Some(Whisper {
            protocol: ProtocolName::Agh,
            to: subject::broadcast(record.workspace_id.as_deref(), &record.channel),
            bytes,
            signer: None,
        })
    }

    /// Signs what the node said by itself, as it goes out over the network too (AG-TRU-10).
    pub(crate) fn seal_emitted(&self, outcome: &mut Outcome) {
        if outcome.emitted.is_empty() || !self.gate().settings().agh.trust.enabled {
            return;
        }
        let sealed = |bytes: Bytes| {
            let made: Spoken<'_> = serde_json::from_slice(&bytes).ok()?;
            let Some(_) = made.proof else {
                return Some(bytes);
            };
            let mut sign = |message: &[u8]| self.gate().vault().sign(&made.from, message);
            self.gate().suite().agh().seal(&bytes, &mut sign)
        };
        outcome.emitted = outcome.emitted.drain(..).filter_map(sealed).collect();
    }
}

/// The place in a trace that an envelope names in `ext`.
fn named_trace(raw: &[u8]) -> Option<TraceContext> {
    #[derive(Deserialize)]
    struct Named {
        ext: HashMap<String, serde_json::Value>,
    }
    let named: Named = serde_json::from_slice(raw).ok()?;
    let text = |name: &str| named.ext.get(name).and_then(serde_json::Value::as_str);
    TraceContext::parse(text(TRACEPARENT)?, text(TRACESTATE))
}

/// Who says something, and whether its proof waits for a signature.
#[derive(Deserialize)]
struct Spoken<'b> {
    #[serde(borrow)]
    from: std::borrow::Cow<'b, str>,
    proof: Option<IgnoredAny>,
}

fn busy(id: &str, revision: Revision) -> Outcome {
    rejected(id, revision, Fault::new(ErrorName::Busy, Stage::Routing))
}
