//! Following a task: its state first, then all that happens to it, as events of a stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use serde_json::Value;
use tokio::sync::mpsc;

use super::model::{Event, Task, TaskState};
use super::tasks::{Entry, StreamPlace};
use crate::http::{Reply, ReplyBody};

/// How often a silent stream says that it lives.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// Events on their way to the client.
const PORTION: usize = 16;

/// Until when a task is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until nothing more happens without somebody speaking.
    AtRest,
    /// Until its end.
    Ended,
}

/// What a stream tells.
pub(crate) struct Following {
    first: Event,
    then: Option<(Arc<Entry>, usize, Until)>,
    place: StreamPlace,
}

impl Following {
    /// A stream of one event.
    pub(crate) fn one(event: Event, place: StreamPlace) -> Self {
        Self {
            first: event,
            then: None,
            place,
        }
    }

    /// A task, and what happens to it after so many events.
    pub(crate) fn new(
        task: Task,
        seen: usize,
        entry: Arc<Entry>,
        until: Until,
        place: StreamPlace,
    ) -> Self {
        Self {
            first: Event::Task(task),
            then: Some((entry, seen, until)),
            place,
        }
    }

    /// As server-sent events, each written by the binding.
    pub(crate) fn into_reply(
        self,
        write: impl Fn(&Event) -> Value + Send + Sync + 'static,
    ) -> Reply {
        let (events, body) = mpsc::channel(PORTION);
        tokio::spawn(self.feed(events, write));
        let mut reply = Response::new(ReplyBody::Parts(body));
        let headers = reply.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        reply
    }

    async fn feed(
        self,
        events: mpsc::Sender<Bytes>,
        write: impl Fn(&Event) -> Value + Send + Sync + 'static,
    ) {
        // The place among the streams is taken as long as this one lives.
        let mut place = self.place;
        if events.send(event(&write(&self.first))).await.is_err() {
            return;
        }
        let Some((entry, mut seen, until)) = self.then else {
            return;
        };
        loop {
            let happened = tokio::select! {
                happened = entry.after(seen) => happened,
                () = events.closed() => return,
                () = place.closed() => return,
                () = tokio::time::sleep(SIGN_OF_LIFE) => {
                    if events.send(Bytes::from_static(b":\n\n")).await.is_err() {
                        return;
                    }
                    continue;
                }
            };
            for told in happened.unwrap_or_default() {
                seen += 1;
                let is_last = told.state().is_some_and(|state| is_over(state, until));
                if events.send(event(&write(&told))).await.is_err() || is_last {
                    return;
                }
            }
        }
    }
}

const fn is_over(state: TaskState, until: Until) -> bool {
    match until {
        Until::AtRest => state.is_at_rest(),
        Until::Ended => state.is_terminal(),
    }
}

/// JSON is written on one line: nothing in it ends the event.
fn event(data: &Value) -> Bytes {
    format!("data: {data}\n\n").into()
}
