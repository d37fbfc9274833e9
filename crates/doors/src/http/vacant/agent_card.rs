//! The A2A agent card of a vacant: one object that is valid for 0.3 and for 1.0 (VA-A2A-2, VA-A2A-3).

use chancery_core::digest::hex;
use chancery_node::vacants::VacantFace;
use chancery_vacant::wire::METADATA_KEY;
use serde_json::{Value, json};

/// The version of the agent behind the card.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The card; `required` says whether a call without an envelope is refused.
pub(super) fn agent_card(face: &VacantFace, required: bool) -> Value {
    let url = format!("{}/a2a", face.address);
    let card = face.card.as_ref();
    let capability = card.map_or("", |card| card.capability_text.as_str());
    let interface = |version: &str| json!({"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version});
    let resources = json!({
        "url": format!("{url}/v1"), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0",
    });
    json!({
        "name": face.name,
        "description": capability,
        "version": VERSION,
        "supportedInterfaces": [interface("1.0"), interface("0.3"), resources],
        "capabilities": {
            "streaming": true,
            "pushNotifications": false,
            "extensions": [envelope_extension(required), capability_extension(face)],
        },
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{
            "id": "vacant_call",
            "name": "Call this vacant",
            "description": capability,
            "tags": ["vacant"],
        }],
        "url": url,
        "preferredTransport": "JSONRPC",
        "protocolVersion": "0.3.0",
        "supportsAuthenticatedExtendedCard": false,
    })
}

fn envelope_extension(required: bool) -> Value {
    json!({
        "uri": METADATA_KEY,
        "description": "every call and every answer is a signed envelope",
        "required": required,
    })
}

fn capability_extension(face: &VacantFace) -> Value {
    let card = face.card.as_ref();
    json!({
        "uri": "urn:vacant:v1:capability",
        "description": "who this vacant is, under its own signature",
        "required": false,
        "params": {
            "vacant_id": face.id.hex(),
            "did_key": face.id.did_key(),
            "halo_version": card.map(|card| card.halo_version),
            "state": face.state,
            "native_endpoint": card.and_then(|card| card.endpoint.as_deref()),
            "capability_card_blob_hex": card.map(|card| hex::encode(&card.serialize())),
        },
    })
}
