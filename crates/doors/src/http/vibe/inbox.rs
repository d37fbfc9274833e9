//! `GET /inbox/vibe/ADDRESS` and `GET /vcp/inbox`: what is addressed to a caller (VC-ADR-9, VC-HTTP-5).

use std::sync::Arc;

use chancery_core::admin::TokenRecord;
use http::StatusCode;

use super::super::door::{Call, HttpDoor};
use super::super::inbox::{self, Acknowledgement, Asked, Wanted};
use super::super::query::Query;
use super::super::reply::{Reply, json};
use super::answers::{failed, found, not_found};
use super::token_of;

/// Whose inbox a request names.
struct Named {
    address: String,
    session_id: Option<String>,
    merchant_id: Option<String>,
}

impl Named {
    fn of(address: String, query: &Query) -> Self {
        let text = |name| query.text(name).map(str::to_owned);
        Self {
            address,
            session_id: text("session_id"),
            merchant_id: text("merchant_id"),
        }
    }

    /// The inbox that is meant; none when the caller may not read it.
    async fn wanted(
        self,
        door: &HttpDoor,
        token: Option<&TokenRecord>,
    ) -> Result<Option<Wanted>, Reply> {
        let token = token.cloned();
        let session_id = self.session_id.clone();
        let name = door
            .read(move |office| {
                office.vibe_inbox(
                    &self.address,
                    token.as_ref(),
                    self.session_id.as_deref(),
                    self.merchant_id.as_deref(),
                )
            })
            .await?;
        Ok(name.map(|name| Wanted { name, session_id }))
    }
}

/// Reads an inbox: a page, a page once there is one, or a stream.
pub(crate) async fn read(door: Arc<HttpDoor>, call: Call) -> Reply {
    let address = call.param("agent").to_owned();
    let answered = async {
        let query = Query::of(&call.parts)?;
        let named = Named::of(address, &query);
        let Some(wanted) = named.wanted(&door, token_of(&call.access)).await? else {
            return Ok(not_found());
        };
        let asked = Asked::of(wanted, &query)?;
        inbox::serve(&door, asked, &call.parts.headers).await
    };
    match answered.await {
        Ok(reply) => reply,
        Err(reply) => failed(&reply),
    }
}

/// Moves the durable cursor of an inbox.
pub(crate) async fn acknowledge(door: Arc<HttpDoor>, call: Call) -> Reply {
    let address = call.param("agent").to_owned();
    let token = token_of(&call.access).cloned();
    let wanted = async {
        let query = Query::of(&call.parts)?;
        Named::of(address, &query)
            .wanted(&door, token.as_ref())
            .await
    };
    let wanted = match wanted.await {
        Ok(Some(wanted)) => wanted,
        Ok(None) => return not_found(),
        Err(reply) => return failed(&reply),
    };
    let through = match call.value::<Acknowledgement>(&door).await {
        Ok(acknowledgement) => acknowledgement.through,
        Err(reply) => return reply,
    };
    let moved = door.read(move |office| office.inboxes().acknowledge(&wanted.name, through));
    match moved.await {
        Ok(cursor) => json(StatusCode::OK, &serde_json::json!({ "through": cursor })),
        Err(reply) => failed(&reply),
    }
}

/// The same entries in the shape of the protocol's own read.
pub(crate) async fn entries(door: Arc<HttpDoor>, call: Call) -> Reply {
    let answered = async {
        let query = Query::of(&call.parts)?;
        let after = query.number("after_seq")?.unwrap_or(0);
        let Some(address) = query.text("address").map(str::to_owned) else {
            return Ok(not_found());
        };
        let named = Named::of(address, &query);
        let Some(wanted) = named.wanted(&door, token_of(&call.access)).await? else {
            return Ok(not_found());
        };
        let asked = Asked::of(wanted, &query)?;
        let limit = asked.limit;
        let entries = door
            .read(move |office| inbox::entries(office, &asked.wanted, after, limit))
            .await?;
        let next = entries.last().map_or(after, |entry| entry.seq);
        let mut body = Vec::from(&b"{\"entries\":["[..]);
        for (number, entry) in entries.iter().enumerate() {
            if number > 0 {
                body.push(b',');
            }
            body.extend_from_slice(&entry.line);
        }
        body.extend_from_slice(format!("],\"next_seq\":{next}}}").as_bytes());
        Ok(found(body))
    };
    match answered.await {
        Ok(reply) => reply,
        Err(reply) => failed(&reply),
    }
}
