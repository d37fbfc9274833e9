//! Spans on their way to a collector: OTLP over HTTP, in protobuf.
//!
//! Guarantees: nobody waits for a collector; what finds no room in the queue, or does not get through, is lost and
//! counted; what is in the queue at a stop still has a moment to leave.

mod wire;

use std::time::Duration;

use bytes::Bytes;
use chancery_node::Leave;
use chancery_node::trace::Span;
use http::HeaderValue;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use url::Url;

use crate::outgoing_http::Connections;
use crate::outgoing_tls::OutgoingTls;

/// Spans that wait for a collector.
pub const QUEUE_SPANS: usize = 16_384;
/// Spans of one request.
const BATCH_SPANS: usize = 512;
/// How long the first span of a request waits for others.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts for one request, and the pause before each but the first.
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// How long what is left may take to leave at a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// What sends spans to a collector.
pub struct Exporter {
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Exporter {
    /// Sends what comes out of `spans` to a collector's address (`/v1/traces` below it), as spans of `resource`. Needs a
    /// tokio runtime.
    #[must_use]
    pub fn start(
        collector: &Url,
        tls: &OutgoingTls,
        spans: mpsc::Receiver<Span>,
        resource: Vec<(&'static str, String)>,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let post = Post {
            connections: Connections::new(tls.clone()),
            url: traces_at(collector),
            resource,
        };
        Self {
            task: tokio::spawn(post.all(spans, stopped)),
            stop,
        }
    }

    /// Sends what is left, for a moment.
    pub async fn stop(mut self) {
        // Its task may have ended.
        let _ = self.stop.send(());
        if tokio::time::timeout(STOP_TIMEOUT, &mut self.task)
            .await
            .is_err()
        {
            self.task.abort();
            tracing::warn!("the collector did not take the last spans in time");
        }
    }
}

fn traces_at(collector: &Url) -> Url {
    let mut url = collector.clone();
    let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

struct Post {
    connections: Connections,
    url: Url,
    resource: Vec<(&'static str, String)>,
}

impl Post {
    async fn all(self, mut spans: mpsc::Receiver<Span>, mut stopped: oneshot::Receiver<()>) {
        let mut batch = Vec::with_capacity(BATCH_SPANS);
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                () = collect(&mut spans, &mut batch) => {}
            }
            if batch.is_empty() {
                return;
            }
            self.send(&batch).await;
            batch.clear();
        }
        spans.close();
        loop {
            while batch.len() < BATCH_SPANS
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            self.send(&batch).await;
            batch.clear();
        }
    }

    /// Sends a batch, or counts it as lost.
    async fn send(&self, batch: &[Span]) {
        let body = Bytes::from(wire::export(batch, &self.resource));
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            match self.attempt(body.clone()).await {
                Sent::Taken => {
                    metrics::counter!("chancery_spans_exported_total")
                        .increment(batch.len() as u64);
                    return;
                }
                Sent::Refused => break,
                Sent::Again => {}
            }
        }
        metrics::counter!("chancery_spans_dropped_total", "why" => "export")
            .increment(batch.len() as u64);
        tracing::warn!(
            spans = batch.len(),
            "the collector does not take spans; they are lost"
        );
    }

    async fn attempt(&self, body: Bytes) -> Sent {
        let leave = Leave::always();
        let asked = self.connections.post_as(&self.url, PROTOBUF, body, &leave);
        match tokio::time::timeout(REQUEST_TIMEOUT, asked).await {
            Ok(Ok(answer)) if (200..300).contains(&answer.status) => Sent::Taken,
            // What OTLP says may be tried again.
            Ok(Ok(answer)) if ![429, 502, 503, 504].contains(&answer.status) => Sent::Refused,
            _ => Sent::Again,
        }
    }
}

enum Sent {
    Taken,
    Refused,
    Again,
}

/// Waits for spans and takes those that come soon after the first. None come when nobody makes any more. What it has
/// taken is in `batch` also when it is given up.
async fn collect(spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
    let Some(first) = spans.recv().await else {
        return;
    };
    batch.push(first);
    let enough = tokio::time::Instant::now() + BATCH_TIME;
    while batch.len() < BATCH_SPANS
        && let Ok(Some(next)) = tokio::time::timeout_at(enough, spans.recv()).await
    {
        batch.push(next);
    }
}
