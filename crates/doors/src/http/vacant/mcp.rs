//! A vacant behind MCP (section 17): two tools, the same chains as everywhere else.

use std::sync::Arc;
use std::time::Instant;

use chancery_core::refusal::Refusal;
use chancery_node::vacants::{Binding, HostedVacant, Vacants};
use chancery_vacant::error::ProtocolError;
use chancery_vacant::message::Message;
use chancery_vacant::native::OutOfTurn;
use chancery_vacant::wire::read_json;
use serde_json::{Map, Value, json};

use super::super::door::{Call, HttpDoor};
use super::super::reply::Reply;
use super::native::error_of;
use super::{addressed, native_reply};
use crate::mcp::{Told, ToolFace, Toolbox, answer};

/// `POST …/mcp`.
pub(crate) async fn call(door: Arc<HttpDoor>, call: Call) -> Reply {
    let (vacants, at) = match addressed(&door, &call) {
        Ok(addressed) => addressed,
        Err(reply) => return reply,
    };
    let limit = door.office.gate().settings().vacant.max_bytes;
    let body = door
        .bodies
        .read(&call.parts.headers, call.body, limit)
        .await;
    match body {
        Ok(body) => answer(VacantTools { vacants, at }, call.parts, body).await,
        Err(fault) => native_reply(vacants.refuse(error_of(fault))),
    }
}

/// The two tools of a hosted vacant (VA-MCP-1).
#[derive(Clone)]
pub struct VacantTools {
    vacants: Arc<Vacants>,
    at: Arc<HostedVacant>,
}

impl VacantTools {
    /// The tools of this vacant.
    pub fn new(vacants: Arc<Vacants>, at: Arc<HostedVacant>) -> Self {
        Self { vacants, at }
    }

    /// Rows 2 to 8 of VA-SRV-4, as on every other binding (VA-MCP-4).
    async fn vacant_call(&self, arguments: &Map<String, Value>) -> Result<Value, Refusal> {
        let since = Instant::now();
        let message = self.read(arguments).map_err(Refusal::from);
        let message = message.inspect_err(|refusal| self.vacants.note_refused(refusal))?;
        let call = self
            .vacants
            .accept(&self.at, message, Binding::Native, since);
        let answer = self.vacants.finish(call.await?).await?;
        let message: Value =
            serde_json::from_slice(&answer).map_err(|_| ProtocolError::BehaviourFailed)?;
        Ok(json!({ "message": message }))
    }

    fn read(&self, arguments: &Map<String, Value>) -> Result<Message, ProtocolError> {
        let envelope = arguments
            .get("envelope")
            .filter(|envelope| envelope.is_object());
        let envelope =
            envelope.ok_or_else(|| ProtocolError::format_at("/envelope", "it is no object"))?;
        let settings = self.vacants.office().gate().settings();
        let text = envelope.to_string();
        let body = read_json(text.as_bytes(), settings.vacant.max_bytes)?;
        let message = Message::of_body(&body)?;
        message.check_limits(&settings.vacant)?;
        Ok(message)
    }

    /// What went wrong, with what the caller needs to go on (VA-MCP-5, VA-SRV-11, VA-SRV-12).
    fn failure(&self, refusal: &Refusal) -> Value {
        let mut told = json!({"error": refusal.message, "code": refusal.code});
        if let Some(place) = OutOfTurn::of(refusal) {
            told["last_sequence_no"] = json!(place.last_sequence_no.to_string());
            told["chain_tip"] = json!(place.chain_tip);
        }
        let lost = self.vacants.lost_answer(refusal);
        let lost = lost.and_then(|message| serde_json::from_slice::<Value>(&message).ok());
        if let Some(response) = lost {
            told["response"] = response;
        }
        told
    }

    /// From the signed card; nulls where there is none (VA-MCP-6).
    fn describe(&self) -> Value {
        let face = self.vacants.face(&self.at).ok().flatten();
        let card = face.and_then(|face| face.card);
        let card = card.as_ref();
        json!({
            "vacant_id": self.at.id.hex(),
            "capability_text": card.map(|card| card.capability_text.as_str()),
            "halo_version": card.map(|card| card.halo_version),
            "endpoint": card.and_then(|card| card.endpoint.as_deref()),
        })
    }
}

impl Toolbox for VacantTools {
    fn instructions(&self) -> String {
        "vacant_call takes a signed envelope: a JSON-RPC message/send body with metadata[\"urn:vacant:v1\"]. \
         vacant_describe tells whom it is for."
            .to_owned()
    }

    fn tools(&self) -> Vec<ToolFace> {
        vacant_tools()
    }

    async fn call(&self, name: &str, arguments: Map<String, Value>) -> Option<Told> {
        match name {
            "vacant_call" => Some(match self.vacant_call(&arguments).await {
                Ok(structured) => Told {
                    structured,
                    is_error: false,
                },
                Err(refusal) => Told {
                    structured: self.failure(&refusal),
                    is_error: true,
                },
            }),
            "vacant_describe" => Some(Told {
                structured: self.describe(),
                is_error: false,
            }),
            _ => None,
        }
    }
}

/// The two tools, in their order (VA-MCP-1, VA-MCP-3, VA-MCP-7).
pub fn vacant_tools() -> Vec<ToolFace> {
    let text_or_null = json!({"type": ["string", "null"]});
    vec![
        ToolFace {
            name: "vacant_call",
            title: "Call this vacant",
            description: "Sends this vacant a signed envelope and gives its signed answer."
                .to_owned(),
            input: json!({
                "type": "object",
                "properties": {"envelope": {
                    "type": "object",
                    "description": "a JSON-RPC message/send body with a signed envelope",
                }},
                "required": ["envelope"],
            }),
            output: Some(json!({
                "type": "object",
                "properties": {
                    "message": {"type": "object"},
                    "error": {"type": "string"},
                    "code": {"type": "string"},
                },
            })),
        },
        ToolFace {
            name: "vacant_describe",
            title: "Describe this vacant",
            description: "Tells who this vacant is and what it can do, from its signed card."
                .to_owned(),
            input: json!({"type": "object", "properties": {}}),
            output: Some(json!({
                "type": "object",
                "properties": {
                    "vacant_id": text_or_null,
                    "capability_text": text_or_null,
                    "halo_version": {"type": ["integer", "null"]},
                    "endpoint": text_or_null,
                },
                "required": ["vacant_id", "capability_text", "halo_version", "endpoint"],
            })),
        },
    ]
}
