//! What a vacant shows of itself: `/card`, `/health`, its agent card, and to its owner its state.

use std::sync::Arc;

use chancery_core::digest::{Sha256Digest, hex};
use chancery_node::vacants::VacantFace;
use chancery_vacant::error::ProtocolError;
use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;

use super::super::door::{Call, HttpDoor, not_found};
use super::super::reply::{Reply, empty, json, not_stored, reply};
use super::{Addressed, JSON, addressed, agent_card, refused};

const CACHED: HeaderValue = HeaderValue::from_static("max-age=300");

/// `GET /card` (VA-SRV-16).
pub(crate) async fn card(door: Arc<HttpDoor>, call: Call) -> Reply {
    let face = match face(&door, addressed(&door, &call)).await {
        Ok(face) => face,
        Err(reply) => return reply,
    };
    let card = face.card.as_ref();
    let body = json!({
        "vacant_id": face.id.hex(),
        "capability_text": card.map(|card| card.capability_text.as_str()),
        "endpoint": card.and_then(|card| card.endpoint.as_deref()),
        "halo_version": card.map(|card| card.halo_version),
        "capability_card_blob_hex": card.map(|card| hex::encode(&card.serialize())),
    });
    json(StatusCode::OK, &body)
}

/// `GET /health` (VA-SRV-16).
pub(crate) async fn health(door: Arc<HttpDoor>, call: Call) -> Reply {
    match face(&door, addressed(&door, &call)).await {
        Ok(face) => {
            let body = json!({"vacant_id": face.id.hex(), "state": face.state, "name": face.name});
            not_stored(json(StatusCode::OK, &body))
        }
        Err(reply) => reply,
    }
}

/// `GET /.well-known/agent-card.json` (VA-A2A-2): in every state but the two that are gone.
pub(crate) async fn agent_card(door: Arc<HttpDoor>, call: Call) -> Reply {
    let face = match face(&door, addressed(&door, &call)).await {
        Ok(face) => face,
        Err(reply) => return reply,
    };
    if face.state.is_gone() {
        return refused(ProtocolError::TargetUnavailable(face.state));
    }
    let required = door.office.gate().settings().vacant.require_envelope;
    let body = agent_card::agent_card(&face, required).to_string();
    let tag = format!("\"{}\"", &Sha256Digest::of(body.as_bytes()).hex()[..32]);
    let mut answer = if is_known(&call.parts.headers, &tag) {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        reply(StatusCode::OK, JSON, body)
    };
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, CACHED);
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    answer
}

/// Whether the caller has this version already.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}

/// `GET /state/vacant/NAME`.
pub(crate) async fn state(door: Arc<HttpDoor>, call: Call) -> Reply {
    let Some(vacants) = door.vacants.clone() else {
        return not_found();
    };
    let Some(vacant) = vacants.find(call.param("agent")).cloned() else {
        return not_found();
    };
    match door.read(move |_| vacants.state_of(&vacant)).await {
        Ok(Some(state)) => not_stored(json(StatusCode::OK, &state)),
        Ok(None) => not_found(),
        Err(reply) => reply,
    }
}

async fn face(door: &HttpDoor, addressed: Addressed) -> Result<VacantFace, Reply> {
    let (vacants, vacant) = addressed?;
    let face = door.read(move |_| vacants.face(&vacant)).await?;
    face.ok_or_else(|| refused(ProtocolError::NotFound("the vacant is not on record yet")))
}
