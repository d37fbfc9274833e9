//! Keys: who signs with what, and from when to when it counts.

use std::sync::Arc;

use chancery_core::admin::{Act, KEYS, key_key};
use chancery_core::keys::ed25519::decode_public_key;
use chancery_core::keys::{KeyRecord, KeySource, KeyState};
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use chancery_store::StoreError;
use chancery_value_context::agent_id::AgentId;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::super::door::{Call, HttpDoor, not_found};
use super::super::query::Query;
use super::super::reply::{Reply, json};
use super::{bad, record, refused};

/// Longest name of a key.
const ID_BYTES: usize = 128;

/// Lists keys, of one owner when `owner` is given.
pub(crate) async fn list(door: Arc<HttpDoor>, call: Call) -> Reply {
    let prefix = match Query::of(&call.parts) {
        Ok(query) => match query.text("owner") {
            Some(owner) => RowKey::text(KEYS, &[owner]),
            None => RowKey::text(KEYS, &[]),
        },
        Err(reply) => return reply,
    };
    let read = door.read(move |office| {
        let rows = office.gate().store().scan(&prefix, None, usize::MAX)?;
        rows.into_iter()
            .map(|(_, row)| parse(&row))
            .collect::<Result<Vec<_>, _>>()
    });
    match read.await {
        Ok(keys) => json(StatusCode::OK, &json!({ "keys": keys })),
        Err(reply) => reply,
    }
}

fn parse(row: &[u8]) -> Result<KeyRecord, StoreError> {
    serde_json::from_slice(row)
        .map_err(|error| StoreError(format!("a key cannot be read: {error}")))
}

/// Puts a key on record, or changes the one of that owner and id.
pub(crate) async fn add(door: Arc<HttpDoor>, call: Call) -> Reply {
    let key: KeyRecord = match call.value(&door).await {
        Ok(key) => key,
        Err(reply) => return reply,
    };
    if AgentId::parse(&key.owner).is_err() {
        return bad("owner does not name an agent");
    }
    if key.id.is_empty() || key.id.len() > ID_BYTES || key.id.chars().any(char::is_control) {
        return bad("id has to have 1 to 128 bytes and no control characters");
    }
    let key = KeyRecord {
        source: KeySource::Operator,
        removed: false,
        ..key
    };
    record(&door, Act::Key(key)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShortLived {
    owner: String,
    public: String,
    valid_until: Time,
}

/// Lets a spawned agent sign for a while (VX-KEY-6).
pub(crate) async fn add_short_lived(door: Arc<HttpDoor>, call: Call) -> Reply {
    let asked: ShortLived = match call.value(&door).await {
        Ok(asked) => asked,
        Err(reply) => return reply,
    };
    if AgentId::parse(&asked.owner).is_err() {
        return bad("owner does not name an agent");
    }
    let public = match decode_public_key(&asked.public) {
        Ok(public) => public,
        Err(fault) => return bad(&fault.to_string()),
    };
    let now = door.office.gate().clock().now();
    let latest = now.saturating_add(door.office.short_lived_key_life());
    if asked.valid_until < now || asked.valid_until > latest {
        return bad("a short-lived key ends after now and within its longest life");
    }
    let (owner, until) = (&asked.owner, Some(asked.valid_until));
    let registered = door.office.register_key(owner, *public.as_bytes(), until);
    match registered.await {
        Ok((seq, id)) => json(StatusCode::OK, &json!({ "seq": seq, "id": id })),
        Err(refusal) => refused(&refusal),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetState {
    owner: String,
    id: String,
    state: KeyState,
}

/// Moves a key to another state, as far as VX-KEY-4 allows.
pub(crate) async fn set_state(door: Arc<HttpDoor>, call: Call) -> Reply {
    let asked: SetState = match call.value(&door).await {
        Ok(asked) => asked,
        Err(reply) => return reply,
    };
    let row = key_key(&asked.owner, &asked.id);
    let on_record: Option<KeyRecord> = match door.read(move |office| office.row(&row)).await {
        Ok(on_record) => on_record,
        Err(reply) => return reply,
    };
    match on_record {
        Some(key) => {
            record(
                &door,
                Act::Key(KeyRecord {
                    state: asked.state,
                    ..key
                }),
            )
            .await
        }
        None => not_found(),
    }
}
