//! What a carrier of AGH asks of the node: envelopes in, in order; who is hosted here; what is said in their name.

use bytes::Bytes;
use chancery_agh::answer::{Answer, Outcome};
use chancery_agh::fault::{ErrorName, Fault, Stage};
use chancery_agh::greeting;
use chancery_agh::message::{Content, Message};
use chancery_agh::peer::PeerRecord;
use chancery_agh::revision::Revision;
use chancery_agh::subject;
use chancery_core::admin::{RunState, agents_prefix};
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::delivery::Whisper;
use chancery_core::digest::hex;
use chancery_core::json::{Object, Value};
use chancery_core::line::ProtocolName;
use chancery_core::protocol::{Caller, Door, Input, Protocol};
use chancery_core::time::Time;
use chancery_store::StoreError;

use crate::office::Office;
use crate::office_agh::rejected;
use crate::sequencer::Decided;
use crate::soft::lock;
use crate::suite::{AnyAnswer, AnyInput};

/// An envelope whose form is known, with the rows that its decision will read in memory.
pub struct AghRead(Result<Readable, Box<Outcome>>);

struct Readable {
    id: String,
    revision: Revision,
    /// Where the envelope belongs, by its own members.
    subject: String,
    is_question: bool,
    input: AnyInput,
    received: Time,
}

impl AghRead {
    /// The subject that the envelope itself names; none for what cannot be read.
    pub fn subject(&self) -> Option<&str> {
        self.0.as_ref().ok().map(|read| read.subject.as_str())
    }

    /// Whether it asks who somebody is: such a one may be answered at a reply subject too.
    pub fn is_question(&self) -> bool {
        self.0.as_ref().is_ok_and(|read| read.is_question)
    }
}

impl Office {
    /// Reads an envelope, and brings what its decision will read into memory. Many can be read at once, and
    /// then handed over in the order in which they came. One whose rows turn out not to be in memory may be overtaken.
    pub async fn read_agh(&self, raw: Bytes, door: Door) -> AghRead {
        let settings = self.gate().settings();
        let received = self.gate().clock().now();
        let decoded = Message::decode(raw, &settings.agh, Some(received.unix_seconds()));
        let message = match decoded {
            Ok(message) => message,
            Err(undecodable) => {
                let id = undecodable.id.unwrap_or_default();
                let outcome = rejected(&id, undecodable.revision, undecodable.fault);
                return AghRead(Err(outcome.into()));
            }
        };
        let (id, revision) = (message.id.to_string(), message.revision);
        let subject = subject::of(
            message.workspace.as_deref(),
            &message.channel,
            message.to.as_deref(),
        );
        let is_question = matches!(message.content, Ok(Content::Request { .. }));
        let (protocol, keys) = (self.gate().suite().agh(), self.gate().keyring());
        let caller = Caller::default();
        let authentic =
            protocol.authenticate(message, door, &caller, &keys, &settings.agh, received);
        let Ok(authentic) = authentic else {
            return AghRead(Err(busy(&id, revision).into()));
        };
        let input = AnyInput::Agh(Input::Envelope(authentic));
        self.gate().prepare(&input).await;
        AghRead(Ok(Readable {
            id,
            revision,
            subject,
            is_question,
            input,
            received,
        }))
    }

    /// Decides an envelope that was read. It is in line as soon as this is first polled.
    pub async fn decide_agh(&self, read: AghRead) -> Outcome {
        let read = match read.0 {
            Ok(read) => read,
            Err(outcome) => {
                self.note_agh(&outcome);
                return *outcome;
            }
        };
        let Ok(permit) = self.gate().permit() else {
            return busy(&read.id, read.revision);
        };
        let submitted = self.gate().submit(read.input, read.received, Some(permit));
        let outcome = match submitted.await {
            Ok(Decided {
                result: Ok(AnyAnswer::Agh(Answer::Decided(outcome))),
                ..
            }) => *outcome,
            _ => busy(&read.id, read.revision),
        };
        if let Some(seen) = outcome.seen.clone() {
            let now = self.gate().clock().now().unix_seconds();
            lock(self.agh()).presence.see(seen, now);
        }
        self.note_agh(&outcome);
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
        })
    }
}

fn busy(id: &str, revision: Revision) -> Outcome {
    rejected(id, revision, Fault::new(ErrorName::Busy, Stage::Routing))
}
