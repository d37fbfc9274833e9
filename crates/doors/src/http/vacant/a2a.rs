//! A vacant behind the A2A bindings (section 16): `POST …/a2a`, and `…/a2a/v1/…` for HTTP+JSON.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use chancery_core::json::Place;
use chancery_core::line::ProtocolName;
use chancery_core::refusal::Refusal;
use chancery_core::time::Time;
use chancery_node::vacants::{Binding, HostedVacant, OpenedCall, Vacants};
use chancery_vacant::error::ProtocolError;
use chancery_vacant::message::Message as Envelope;
use chancery_vacant::payload::Payload;
use chancery_vacant::wire::{METADATA_KEY, read_json, read_payload};
use serde_json::Value;

use super::super::door::{Call, HttpDoor};
use super::super::reply::Reply;
use super::addressed;
use super::native::error_of;
use crate::a2a::{
    Agent, Artifact, Fault, Features, Incoming, Message, Mode, Part, RestRequest, Role, Service,
    Taken, TaskState, Updater, Version, Work, answer_rest, answer_rpc, media_type, version_of,
};

/// `POST …/a2a`: JSON-RPC of 0.3 and 1.0.
pub(crate) async fn call(door: Arc<HttpDoor>, call: Call) -> Reply {
    let service = match service(&door, &call) {
        Ok(service) => service,
        Err(reply) => return reply,
    };
    let version = version_of(&call.parts.headers, &call.parts.uri, Version::Old);
    let body = body(&door, &call.parts.headers, call.body, &["application/json"]).await;
    let max_bytes = door.office.gate().settings().vacant.max_bytes;
    answer_rpc(&service, version, body, max_bytes).await
}

/// `…/a2a/v1/…`: HTTP+JSON of 1.0.
pub(crate) async fn resource(door: Arc<HttpDoor>, call: Call) -> Reply {
    let service = match service(&door, &call) {
        Ok(service) => service,
        Err(reply) => return reply,
    };
    let parts = &call.parts;
    let version = version_of(&parts.headers, &parts.uri, Version::New);
    let allowed = ["application/json", "application/a2a+json"];
    let body = body(&door, &parts.headers, call.body, &allowed).await;
    let path = parts.uri.path();
    let request = RestRequest {
        method: &parts.method,
        path: path.split_once("/a2a/v1/").map_or("", |(_, rest)| rest),
        query: parts.uri.query().unwrap_or_default(),
        version,
        body,
    };
    answer_rest(&service, request).await
}

fn service(door: &HttpDoor, call: &Call) -> Result<Service<VacantAgent>, Reply> {
    let (vacants, at) = addressed(door, call)?;
    Ok(Service {
        agent: VacantAgent { vacants, at },
        tasks: Arc::clone(&door.tasks),
    })
}

async fn body(
    door: &HttpDoor,
    headers: &http::HeaderMap,
    body: axum::body::Body,
    allowed: &[&str],
) -> Result<Bytes, Fault> {
    media_type(headers, allowed)?;
    let limit = door.office.gate().settings().vacant.max_bytes;
    let read = door.bodies.read(headers, body, limit).await;
    read.map_err(|fault| {
        let refusal = error_of(fault).into();
        door.office.note_rejection(ProtocolName::Vacant, &refusal);
        Fault::of_refusal(&refusal, None)
    })
}

struct VacantAgent {
    vacants: Arc<Vacants>,
    at: Arc<HostedVacant>,
}

impl Agent for VacantAgent {
    fn owner(&self) -> String {
        self.at.name.clone()
    }

    fn features(&self) -> Features {
        Features {
            extended_card_is_known: true,
            extension: Some(METADATA_KEY),
            ..Features::default()
        }
    }

    fn clock(&self) -> Arc<dyn Fn() -> Time + Send + Sync> {
        let office = Arc::clone(self.vacants.office());
        Arc::new(move || office.gate().clock().now())
    }

    fn fresh_id(&self) -> String {
        self.vacants.unguessable_id()
    }

    async fn take(&self, incoming: Incoming) -> Result<Taken, Fault> {
        let since = Instant::now();
        let heard = self.read(&incoming);
        let heard = match heard {
            Ok(heard) => heard,
            Err(error) => return Err(self.refused(error.into())),
        };
        match heard {
            Heard::Envelope(envelope) => self.take_signed(*envelope, incoming.mode, since).await,
            Heard::Plain(payload) => {
                let settings = self.vacants.office().gate().settings();
                if settings.vacant.require_envelope {
                    return Err(Fault::envelope_required());
                }
                self.take_plain(payload, incoming.mode).await
            }
        }
    }
}

/// What a message turns out to be (VA-A2A-4): the metadata alone makes it an envelope.
enum Heard {
    Envelope(Box<Envelope>),
    Plain(Payload),
}

impl VacantAgent {
    fn read(&self, incoming: &Incoming) -> Result<Heard, ProtocolError> {
        let settings = self.vacants.office().gate().settings();
        let body = read_json(&incoming.body, settings.vacant.max_bytes)?;
        let message = incoming
            .place
            .iter()
            .try_fold(&body, |at, name| at.get(name));
        let message = message.ok_or_else(|| ProtocolError::format("message is missing"))?;
        let metadata = message.get("metadata");
        if metadata
            .and_then(|metadata| metadata.get(METADATA_KEY))
            .is_some()
        {
            let envelope = Envelope::of(message)?;
            envelope.check_limits(&settings.vacant)?;
            return Ok(Heard::Envelope(Box::new(envelope)));
        }
        let members = message.as_object();
        let members = members.ok_or_else(|| ProtocolError::format("message is no object"))?;
        let payload = read_payload(members, &Place::ROOT.child("message"))?;
        if payload.parts.len() > settings.vacant.max_parts {
            return Err(ProtocolError::format("the message has too many parts"));
        }
        Ok(Heard::Plain(payload))
    }

    async fn take_signed(
        &self,
        envelope: Envelope,
        mode: Mode,
        since: Instant,
    ) -> Result<Taken, Fault> {
        let binding = Binding::A2a;
        let accepted = self.vacants.accept(&self.at, envelope, binding, since);
        let call = accepted.await.map_err(|refusal| self.told(&refusal))?;
        if mode == Mode::Immediate {
            return Ok(self.as_task(call));
        }
        match self.vacants.finish(call).await {
            Ok(message) => Ok(Taken::Message(signed_message(&message)?)),
            Err(refusal) => Err(Fault::of_refusal(&refusal, None)),
        }
    }

    /// The behaviour runs in the background (VA-A2A-10).
    fn as_task(&self, call: OpenedCall) -> Taken {
        let (withdrawal, vacants) = (call.withdrawal(), Arc::clone(&self.vacants));
        let cancel = move || -> std::pin::Pin<Box<dyn Future<Output = bool> + Send>> {
            Box::pin(async move { vacants.withdraw(&withdrawal).await })
        };
        let vacants = Arc::clone(&self.vacants);
        let work: Work = Box::new(move |updater| Box::pin(finish(vacants, call, updater)));
        Taken::Task {
            work,
            cancel: Some(Box::new(cancel)),
            history: None,
            state: TaskState::TaskStateWorking,
        }
    }

    async fn take_plain(&self, heard: Payload, mode: Mode) -> Result<Taken, Fault> {
        let says = self.vacants.hear_anonymous(&self.at, &heard).await;
        let message = plain_message(says.map_err(|refusal| self.refused(refusal))?);
        if mode != Mode::Immediate {
            return Ok(Taken::Message(message));
        }
        let work: Work =
            Box::new(move |updater| Box::pin(async move { complete(&updater, message) }));
        Ok(Taken::Task {
            work,
            cancel: None,
            history: None,
            state: TaskState::TaskStateWorking,
        })
    }

    /// Counts a refusal of this door's, and tells it.
    fn refused(&self, refusal: Refusal) -> Fault {
        self.vacants.note_refused(&refusal);
        self.told(&refusal)
    }

    fn told(&self, refusal: &Refusal) -> Fault {
        let lost = self.vacants.lost_answer(refusal);
        let lost = lost.and_then(|message| serde_json::from_slice(&message).ok());
        Fault::of_refusal(refusal, lost)
    }
}

async fn finish(vacants: Arc<Vacants>, call: OpenedCall, updater: Updater) {
    let answered = vacants.finish(call).await;
    let message = answered
        .ok()
        .and_then(|message| signed_message(&message).ok());
    match message {
        Some(message) => complete(&updater, message),
        None => {
            updater.status(TaskState::TaskStateFailed, None);
        }
    }
}

/// The answer is the status, and its parts are the artifact.
fn complete(updater: &Updater, message: Message) {
    let artifact = Artifact {
        artifact_id: "answer".to_owned(),
        name: None,
        parts: message.parts.clone(),
    };
    updater.artifact(artifact, false, true);
    updater.status(TaskState::TaskStateCompleted, Some(message));
}

/// A recorded answer as A2A 1.0 writes a message: no nulls, no member that it does not know (VA-A2A-6).
fn signed_message(recorded: &[u8]) -> Result<Message, Fault> {
    let broken = || {
        let error = ProtocolError::BehaviourFailed;
        Fault::of_refusal(&error.into(), None)
    };
    let value = read_json(recorded, usize::MAX).map_err(|_| broken())?;
    let members = value.as_object().ok_or_else(broken)?;
    let payload = read_payload(members, &Place::ROOT).map_err(|_| broken())?;
    let metadata: Value = serde_json::from_slice(recorded).map_err(|_| broken())?;
    let metadata = match metadata.get("metadata") {
        Some(Value::Object(members)) => members.clone(),
        _ => return Err(broken()),
    };
    Ok(Message {
        metadata: Some(metadata),
        extensions: vec![METADATA_KEY.to_owned()],
        ..plain_message(payload)
    })
}

fn plain_message(payload: Payload) -> Message {
    Message {
        message_id: payload.message_id.unwrap_or_default(),
        context_id: payload.context_id,
        role: Role::Agent,
        parts: payload.parts.into_iter().map(Part::text).collect(),
        ..Message::default()
    }
}
