//! An inbox as an event stream: event `envelope`, id = seq, data = entry.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_node::InboxEntry;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::access::out_of_force;
use super::door::{HttpDoor, busy};
use super::inbox::{Wanted, entries, write_entry};
use super::reply::{Reply, ReplyBody, not_stored};

/// How often a silent stream says that it lives.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// How long a stream pauses when all reads are taken.
const PAUSE: Duration = Duration::from_millis(100);
/// Entries read at once, and events on their way to the client.
const PORTION: usize = 16;

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Streams everything after a line, as it comes.
pub(crate) fn stream(
    door: &Arc<HttpDoor>,
    wanted: Wanted,
    after: Seq,
    headers: HeaderMap,
) -> Result<Reply, Reply> {
    let Ok(place) = Arc::clone(&door.watchers).try_acquire_owned() else {
        return Err(busy());
    };
    let (events, body) = mpsc::channel(PORTION);
    let feeding = feed(Arc::clone(door), wanted, after, events, place);
    let allowed = Arc::clone(door);
    tokio::spawn(async move {
        tokio::select! {
            () = feeding => {}
            // Whoever may not read any more reads no more.
            () = out_of_force(&allowed, &headers) => {}
        }
    });
    let mut reply = Response::new(ReplyBody::Parts(body));
    reply.headers_mut().insert(CONTENT_TYPE, EVENTS);
    Ok(not_stored(reply))
}

/// Ends when the client is gone, the door closes or the store cannot be read.
async fn feed(
    door: Arc<HttpDoor>,
    wanted: Wanted,
    mut after: Seq,
    events: mpsc::Sender<Bytes>,
    _place: OwnedSemaphorePermit,
) {
    // Says at once that the stream is there: a client need not wait for the first entry.
    if events.send(Bytes::from_static(b":\n\n")).await.is_err() {
        return;
    }
    loop {
        let asked = wanted.clone();
        let read = door
            .read(move |office| entries(office, &asked, after, PORTION))
            .await;
        let Ok(portion) = read else {
            if door.office.gate().has_failed() || events.is_closed() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        for entry in &portion {
            if events.send(event(entry)).await.is_err() {
                return;
            }
            after = entry.seq;
        }
        if !portion.is_empty() {
            continue;
        }
        tokio::select! {
            woken = door.office.inboxes().wait(&wanted.name, after) => if woken.is_err() { return },
            () = tokio::time::sleep(SIGN_OF_LIFE) => {
                if events.send(Bytes::from_static(b":\n\n")).await.is_err() {
                    return;
                }
            }
            () = events.closed() => return,
            () = door.stopped() => return,
        }
    }
}

/// A line is canonical JSON: it has no line break that would end the event's data.
fn event(entry: &InboxEntry) -> Bytes {
    let mut event = format!("event: envelope\nid: {}\ndata: ", entry.seq).into_bytes();
    write_entry(entry, &mut event);
    event.extend_from_slice(b"\n\n");
    event.into()
}
