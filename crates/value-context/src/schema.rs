//! The JSON Schema of a message, made from the types that decoding gives (VX-SCH-1).
//!
//! It describes what [`decode`](crate::message::decode) accepts as far as JSON Schema can say it. Grammars of context
//! strings, creed references and constraint values go further: what it accepts may still be refused, what it refuses
//! always is. Nothing validates against it at run time (VX-SCH-2).

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

use crate::agent_id::{self, BROADCAST};
use crate::context;
use crate::creed;
use crate::message::{ENVELOPE, Kind, VERSION};
use crate::message_id::MessageId;
use crate::payload::{ENVIRONMENTS, Severity};

/// Where this schema says it is at home.
const ID: &str = "urn:chancery:schema:value-context:1.2";

/// A text inside a payload that is described by a schema of its own.
macro_rules! text {
    ($(#[$what:meta] $text:ident, $name:literal, $schema:tt;)*) => {$(
        #[$what]
        pub(crate) struct $text;

        impl JsonSchema for $text {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

text! {
    /// A creed reference.
    CreedText, "creed_ref", {
        "type": "string",
        "pattern": "^creed://[a-z0-9.-]+/[a-zA-Z0-9._/@-]+$",
        "maxLength": creed::MAX_LENGTH,
    };
    /// A context.
    ContextText, "context", { "type": "string", "minLength": 1, "maxLength": context::MAX_CODE_POINTS };
    /// The hash of a manifest.
    ManifestHash, "manifest_hash", { "type": "string", "pattern": "^sha256:[a-f0-9]{64}$" };
    /// A pattern of model names.
    ModelPattern, "model_pattern", { "type": "string", "pattern": "^[a-zA-Z0-9*-]+$" };
    /// A purpose.
    Purpose, "purpose", { "type": "string", "pattern": "^[a-z0-9-]+$" };
    /// An environment.
    Environment, "environment", { "enum": ENVIRONMENTS };
}

/// An acknowledgement asks for none; whatever else is critical or an emergency does (VX-ES-2, VX-ES-3).
pub(crate) fn when_acks_are_asked_for() -> Value {
    let acknowledges = "^ACK: ?[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}($|[^0-9A-Za-z-])";
    let grave: Vec<&str> = Severity::ALL
        .into_iter()
        .filter(|severity| severity.is_grave())
        .map(Severity::as_str)
        .collect();
    let asked = |asked: bool| json!({ "properties": { "requires_ack": { "const": asked } } });
    json!([{
        "if": { "properties": { "reason": { "pattern": acknowledges } } },
        "then": asked(false),
        "else": {
            "if": { "properties": { "severity": { "enum": grave } } },
            "then": asked(true),
        },
    }])
}

impl JsonSchema for MessageId {
    fn schema_name() -> Cow<'static, str> {
        "message_id".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "UUID version 7, lower case",
            "type": "string",
            "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
        })
    }
}

/// The schema of a message as it is received.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let members: Map<String, Value> = ENVELOPE
        .into_iter()
        .map(|name| (name.to_owned(), member(name, &mut generator).to_value()))
        .collect();
    let payloads: Vec<Value> = Kind::ALL
        .into_iter()
        .map(|kind| {
            json!({
                "if": { "properties": { "type": { "const": kind.as_str() } } },
                "then": { "properties": { "payload": kind.payload_schema(&mut generator) } },
            })
        })
        .collect();
    let required: Vec<&str> = ENVELOPE
        .into_iter()
        .filter(|name| *name != "signature")
        .collect();
    let mut whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "Value-Context message 1.2, as Chancery receives it",
        "type": "object",
        "required": required,
        "properties": members,
        "additionalProperties": false,
        "allOf": payloads,
        "$defs": generator.take_definitions(true),
    });
    forbid_null(&mut whole);
    whole
}

/// A member of the envelope.
fn member(name: &str, generator: &mut SchemaGenerator) -> Schema {
    let kinds = Kind::ALL.map(Kind::as_str);
    let agent = json!({
        "type": "string",
        "minLength": 1,
        "maxLength": agent_id::MAX_CODE_POINTS,
        "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$",
    });
    let schema = match name {
        "vcp_message" => json!({ "const": VERSION }),
        "type" => json!({ "enum": kinds }),
        "message_id" => return generator.subschema_for::<MessageId>(),
        "sender" => json!({ "allOf": [agent, { "not": { "const": BROADCAST } }] }),
        "recipient" => agent,
        "timestamp" => json!({
            "type": "string",
            "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$",
        }),
        "signature" => json!({ "type": "string", "pattern": "^base64:[A-Za-z0-9+/=]+$" }),
        // The payload is described by type; a member that this function does not know is never valid.
        "payload" => json!({ "type": "object" }),
        _ => json!(false),
    };
    Schema::try_from(schema).unwrap_or_else(|_| Schema::from(false))
}

/// A member that may be left out may not be `null` (VX-ENV-5): takes `null` out wherever a type allowed it.
fn forbid_null(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(forbid_null),
        Value::Object(members) => {
            if let Some(Value::Array(types)) = members.get_mut("type") {
                types.retain(|name| name != "null");
                if let [one] = types.as_slice() {
                    let one = one.clone();
                    members.insert("type".to_owned(), one);
                }
            }
            if let Some(Value::Array(choices)) = members.get_mut("anyOf") {
                choices.retain(|choice| *choice != json!({ "type": "null" }));
            }
            members.values_mut().for_each(forbid_null);
        }
        _ => {}
    }
}
