//! `GET /inbox/value-context/AGENT` and its `ack`: reading, waiting, acknowledging.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::inbox::InboxName;
use chancery_core::line::{ProtocolName, Seq};
use chancery_node::{InboxEntry, Office};
use chancery_store::StoreError;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use super::door::{Call, HttpDoor, busy, internal, not_found};
use super::journal::{ANSWER_BYTES, LIMIT, LIMIT_AT_MOST};
use super::query::Query;
use super::reply::{Reply, held, json};
use super::{agh, inbox_stream};

/// The longest wait of one request.
const WAIT_S_AT_MOST: u64 = 60;
/// Entries read at once.
const PORTION: usize = 64;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// Which entries are meant: those of one inbox, or of one session in it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The inbox.
    pub(crate) name: InboxName,
    /// The session, where one is named.
    pub(crate) session_id: Option<String>,
}

impl Wanted {
    fn keeps(&self, line: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Line<'l> {
            #[serde(borrow)]
            envelope: Envelope<'l>,
        }
        #[derive(Deserialize)]
        struct Envelope<'l> {
            #[serde(borrow)]
            session_id: std::borrow::Cow<'l, str>,
        }
        let Some(wanted) = &self.session_id else {
            return true;
        };
        serde_json::from_slice::<Line<'_>>(line)
            .is_ok_and(|line| line.envelope.session_id == wanted.as_str())
    }
}

/// What a reader asks for.
pub(crate) struct Asked {
    /// Which entries.
    pub(crate) wanted: Wanted,
    /// Entries that the view holds; older ones are in the log alone (AG-DLV-2).
    depth: Option<u64>,
    after: Option<Seq>,
    /// How many at most.
    pub(crate) limit: usize,
    wait: Duration,
}

impl Asked {
    /// What the parameters of a request say.
    pub(crate) fn of(wanted: Wanted, query: &Query) -> Result<Self, Reply> {
        let limit = query
            .number("limit")?
            .unwrap_or(LIMIT)
            .clamp(1, LIMIT_AT_MOST);
        let wait = query.number("wait")?.unwrap_or(0).min(WAIT_S_AT_MOST);
        Ok(Self {
            wanted,
            depth: None,
            after: query.number("after")?,
            limit: usize::try_from(limit).unwrap_or(PORTION),
            wait: Duration::from_secs(wait),
        })
    }
}

/// Reads an inbox: a page, a page once there is one, or a stream.
pub(crate) async fn read(door: Arc<HttpDoor>, call: Call) -> Reply {
    let asked = asked(&call, inbox_name(&door, &call), None);
    respond(&door, call, asked).await
}

/// The same for a peer of AGH, whose inbox is a bounded view.
pub(crate) async fn read_agh(door: Arc<HttpDoor>, call: Call) -> Reply {
    let depth = door.office.gate().settings().agh.max_queue_depth;
    let asked = agh::inbox_name(&call).and_then(|name| asked(&call, name, Some(depth)));
    respond(&door, call, asked).await
}

async fn respond(door: &Arc<HttpDoor>, call: Call, asked: Result<Asked, Reply>) -> Reply {
    let headers = call.parts.headers;
    match answer(door, asked, &headers).await {
        Ok(reply) | Err(reply) => reply,
    }
}

async fn answer(
    door: &Arc<HttpDoor>,
    asked: Result<Asked, Reply>,
    headers: &HeaderMap,
) -> Result<Reply, Reply> {
    let asked = asked?;
    let name = asked.wanted.name.clone();
    if !door.read(move |office| office.hosts(&name)).await? {
        return Err(not_found());
    }
    serve(door, asked, headers).await
}

/// Reads an inbox that the caller may read.
pub(crate) async fn serve(
    door: &Arc<HttpDoor>,
    asked: Asked,
    headers: &HeaderMap,
) -> Result<Reply, Reply> {
    let after = match asked.after {
        Some(after) => after,
        None => {
            let name = asked.wanted.name.clone();
            door.read(move |office| office.inboxes().cursor(&name))
                .await?
        }
    };
    if wants_stream(headers) {
        let after = last_event_id(headers).unwrap_or(after);
        return inbox_stream::stream(door, asked.wanted, after, headers.clone());
    }
    let (after, skipped) = view(door, &asked, after).await?;
    let mut page = page(door, &asked, after).await?;
    if page.0.is_empty() && !asked.wait.is_zero() {
        drop(page);
        wait(door, &asked, after).await?;
        page = self::page(door, &asked, after).await?;
    }
    Ok(render(&page.0, after, skipped, page.1))
}

/// Where the view begins, and how many entries fell out of it.
async fn view(door: &HttpDoor, asked: &Asked, after: Seq) -> Result<(Seq, u64), Reply> {
    let Some(depth) = asked.depth else {
        return Ok((after, 0));
    };
    let name = asked.wanted.name.clone();
    door.read(move |office| office.inboxes().newest(&name, after, depth))
        .await
}

fn asked(call: &Call, name: InboxName, depth: Option<u64>) -> Result<Asked, Reply> {
    let wanted = Wanted {
        name,
        session_id: None,
    };
    let asked = Asked::of(wanted, &Query::of(&call.parts)?)?;
    Ok(Asked { depth, ..asked })
}

/// The inbox that a path names. A vacant has two names, of which the inbox has one.
fn inbox_name(door: &HttpDoor, call: &Call) -> InboxName {
    let agent = call.param("agent");
    if !call.parts.uri.path().starts_with("/inbox/vacant/") {
        return InboxName {
            protocol: ProtocolName::ValueContext,
            agent: agent.to_owned(),
        };
    }
    let vacant = door.vacants.as_ref().and_then(|all| all.find(agent));
    InboxName {
        protocol: ProtocolName::Vacant,
        agent: vacant
            .map_or(agent, |vacant| vacant.name.as_str())
            .to_owned(),
    }
}

async fn page(
    door: &HttpDoor,
    asked: &Asked,
    after: Seq,
) -> Result<(Vec<InboxEntry>, OwnedSemaphorePermit), Reply> {
    let (wanted, limit) = (asked.wanted.clone(), asked.limit);
    door.read_held(move |office| entries(office, &wanted, after, limit))
        .await
}

/// Entries after a line, bounded in number and in bytes; one always fits.
pub(crate) fn entries(
    office: &Office,
    wanted: &Wanted,
    mut after: Seq,
    limit: usize,
) -> Result<Vec<InboxEntry>, StoreError> {
    let mut entries = Vec::new();
    let mut bytes = 0;
    while entries.len() < limit {
        let portion =
            office
                .inboxes()
                .read(&wanted.name, after, PORTION.min(limit - entries.len()))?;
        let Some(last) = portion.last() else { break };
        after = last.seq;
        for entry in portion {
            if !wanted.keeps(&entry.line) {
                continue;
            }
            bytes += entry.line.len();
            if bytes > ANSWER_BYTES && !entries.is_empty() {
                return Ok(entries);
            }
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// Waits for an entry, for the time the reader gave, or for the door to close.
async fn wait(door: &HttpDoor, asked: &Asked, after: Seq) -> Result<(), Reply> {
    let Ok(_place) = door.watchers.try_acquire() else {
        return Err(busy());
    };
    tokio::select! {
        woken = door.office.inboxes().wait(&asked.wanted.name, after) => woken.map_err(|error| {
            tracing::error!(%error, "an inbox cannot be read");
            internal()
        }),
        () = tokio::time::sleep(asked.wait) => Ok(()),
        () = door.stopped() => Ok(()),
    }
}

fn render(entries: &[InboxEntry], after: Seq, skipped: u64, place: OwnedSemaphorePermit) -> Reply {
    let mut body = Vec::with_capacity(
        64 + entries
            .iter()
            .map(|entry| entry.line.len() + 32)
            .sum::<usize>(),
    );
    body.extend_from_slice(b"{\"entries\":[");
    for (number, entry) in entries.iter().enumerate() {
        if number > 0 {
            body.push(b',');
        }
        write_entry(entry, &mut body);
    }
    let next = entries.last().map_or(after, |entry| entry.seq);
    body.extend_from_slice(format!("],\"next\":{next}").as_bytes());
    if skipped > 0 {
        body.extend_from_slice(format!(",\"skipped\":{skipped}").as_bytes());
    }
    body.push(b'}');
    held(JSON, body, place)
}

/// An entry: the line with its number in front. The line is an object, so its first byte is the brace.
pub(crate) fn write_entry(entry: &InboxEntry, into: &mut Vec<u8>) {
    into.extend_from_slice(format!("{{\"seq\":{},", entry.seq).as_bytes());
    into.extend_from_slice(entry.line.get(1..).unwrap_or_default());
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| {
        let essence = range.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("text/event-stream")
    })
}

fn last_event_id(headers: &HeaderMap) -> Option<Seq> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acknowledgement {
    /// The last entry that is done with.
    pub(crate) through: Seq,
}

/// Moves the durable cursor.
pub(crate) async fn acknowledge(door: Arc<HttpDoor>, call: Call) -> Reply {
    let name = inbox_name(&door, &call);
    move_cursor(&door, call, name).await
}

/// The same for a peer of AGH.
pub(crate) async fn acknowledge_agh(door: Arc<HttpDoor>, call: Call) -> Reply {
    match agh::inbox_name(&call) {
        Ok(name) => move_cursor(&door, call, name).await,
        Err(reply) => reply,
    }
}

async fn move_cursor(door: &Arc<HttpDoor>, call: Call, name: InboxName) -> Reply {
    let through = match call.value::<Acknowledgement>(door).await {
        Ok(acknowledgement) => acknowledgement.through,
        Err(reply) => return reply,
    };
    let moved = door.read(move |office| match office.hosts(&name)? {
        true => office.inboxes().acknowledge(&name, through).map(Some),
        false => Ok(None),
    });
    match moved.await {
        Ok(Some(cursor)) => json(StatusCode::OK, &serde_json::json!({ "through": cursor })),
        Ok(None) => not_found(),
        Err(reply) => reply,
    }
}
