//! Traces: where the time of one envelope goes, stage by stage, below the span of whoever sent it.
//!
//! Spans are made only where somebody collects them and for envelopes whose trace is recorded; the path of the others
//! asks one question. A span that finds no room is lost and counted: nothing waits for whoever collects them.

mod context;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;

pub use context::{TraceContext, here, within};

/// The steps of an envelope's path, each a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From bytes to a message.
    Decode,
    /// Who sent it.
    Authenticate,
    /// What becomes of it.
    Decide,
    /// Sealed, written and synced.
    Commit,
    /// Handed to inboxes here and to the outbox.
    Deliver,
}

impl Stage {
    const fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Authenticate => "authenticate",
            Self::Decide => "decide",
            Self::Commit => "commit",
            Self::Deliver => "deliver",
        }
    }
}

/// Which side of a request a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Neither.
    Internal,
    /// It answers.
    Server,
    /// It asks.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A word of ours: never anything that a message says.
    Text(&'static str),
    /// A number.
    Number(i64),
}

/// A stretch of time that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace it belongs to.
    pub trace_id: [u8; 16],
    /// Its own identifier.
    pub span_id: [u8; 8],
    /// The span it is a part of.
    pub parent: Option<[u8; 8]>,
    /// What others keep with the trace.
    pub state: Option<Arc<str>>,
    /// What it is.
    pub name: &'static str,
    /// Which side it is.
    pub kind: SpanKind,
    /// When it began.
    pub start_unix_ns: u64,
    /// When it ended.
    pub end_unix_ns: u64,
    /// What else is known of it.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// Whether it ended in a fault of this node's.
    pub is_fault: bool,
}

/// Where finished spans go.
pub struct Spans {
    queue: mpsc::Sender<Span>,
    /// Of the traces that begin here, one in so many is recorded.
    one_in: u64,
    /// Traces that began here.
    begun: AtomicU64,
    ids: AtomicU64,
}

impl Spans {
    /// Room for so many spans; they come out at the other end.
    #[must_use]
    pub fn new(room: usize, one_in: u64, seed: u64) -> (Arc<Self>, mpsc::Receiver<Span>) {
        let (queue, out) = mpsc::channel(room);
        let spans = Self {
            queue,
            one_in: one_in.max(1),
            begun: AtomicU64::new(0),
            ids: AtomicU64::new(seed),
        };
        (Arc::new(spans), out)
    }

    /// The trace of an envelope that came with this context, if it is recorded: as whoever sent it wants, else one in
    /// so many.
    pub(crate) fn trace(self: &Arc<Self>, caller: Option<&TraceContext>) -> Option<Arc<Trace>> {
        match caller {
            Some(caller) if !caller.is_sampled => return None,
            None if !self.is_the_one() => return None,
            _ => {}
        }
        let trace_id = caller.map_or_else(|| self.trace_id(), |caller| caller.trace_id);
        let now = (Instant::now(), SystemTime::now());
        let since_epoch = now.1.duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(Arc::new(Trace {
            context: TraceContext {
                trace_id,
                span_id: self.span_id(),
                is_sampled: true,
                state: caller.and_then(|caller| caller.state.clone()),
            },
            parent: caller.map(|caller| caller.span_id),
            anchor: (
                now.0,
                u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX),
            ),
            spans: Arc::clone(self),
        }))
    }

    /// Whether the trace that begins here is the one in so many.
    fn is_the_one(&self) -> bool {
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        begun.is_multiple_of(self.one_in)
    }

    fn trace_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.span_id());
        id[8..].copy_from_slice(&self.span_id());
        id
    }

    /// Unlike every other of this process, and hardly ever like one of another: identifiers need not be secret.
    fn span_id(&self) -> [u8; 8] {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut id = self.ids.fetch_add(STEP, Ordering::Relaxed);
        for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
            id = (id ^ (id >> shift)).wrapping_mul(factor);
        }
        (id ^ (id >> 31)).max(1).to_be_bytes()
    }

    fn finished(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            metrics::counter!("chancery_spans_dropped_total", "why" => "full").increment(1);
        }
    }
}

/// The recorded trace of one envelope: its own span, and those of its stages below.
pub(crate) struct Trace {
    /// The envelope's own span.
    context: TraceContext,
    parent: Option<[u8; 8]>,
    /// One moment on both clocks.
    anchor: (Instant, u64),
    spans: Arc<Spans>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.context.traceparent())
    }
}

impl Trace {
    /// The place of the envelope's own span.
    pub(crate) const fn context(&self) -> &TraceContext {
        &self.context
    }

    /// A stage that began then and is over.
    pub(crate) fn stage(&self, stage: Stage, began: Instant) {
        self.below(
            self.spans.span_id(),
            stage.name(),
            SpanKind::Internal,
            began,
            Vec::new(),
        );
    }

    /// The place of an attempt to bring something to another node.
    pub(crate) fn attempt(&self) -> TraceContext {
        TraceContext {
            span_id: self.spans.span_id(),
            ..self.context.clone()
        }
    }

    /// Such an attempt is over.
    pub(crate) fn attempted(&self, at: &TraceContext, began: Instant, outcome: &'static str) {
        let outcome = vec![("chancery.outcome", AttributeValue::Text(outcome))];
        self.below(at.span_id, "attempt", SpanKind::Client, began, outcome);
    }

    fn below(
        &self,
        span_id: [u8; 8],
        name: &'static str,
        kind: SpanKind,
        began: Instant,
        attributes: Vec<(&'static str, AttributeValue)>,
    ) {
        self.spans.finished(Span {
            trace_id: self.context.trace_id,
            span_id,
            parent: Some(self.context.span_id),
            state: self.context.state.clone(),
            name,
            kind,
            start_unix_ns: self.unix_ns(began),
            end_unix_ns: self.unix_ns(Instant::now()),
            attributes,
            is_fault: false,
        });
    }

    /// The envelope's passage is over.
    pub(crate) fn concluded(
        &self,
        began: Instant,
        attributes: Vec<(&'static str, AttributeValue)>,
        is_fault: bool,
    ) {
        self.spans.finished(Span {
            trace_id: self.context.trace_id,
            span_id: self.context.span_id,
            parent: self.parent,
            state: self.context.state.clone(),
            name: "envelope",
            kind: SpanKind::Server,
            start_unix_ns: self.unix_ns(began),
            end_unix_ns: self.unix_ns(Instant::now()),
            attributes,
            is_fault,
        });
    }

    fn unix_ns(&self, at: Instant) -> u64 {
        let (anchor, unix_ns) = self.anchor;
        let ns = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        match at.checked_duration_since(anchor) {
            Some(after) => unix_ns.saturating_add(ns(after)),
            None => unix_ns.saturating_sub(ns(anchor.duration_since(at))),
        }
    }
}

/// A trace with the moment at which the stage under way began.
#[derive(Clone, Debug)]
pub(crate) struct Traced {
    pub(crate) trace: Arc<Trace>,
    pub(crate) since: Instant,
}

impl Traced {
    pub(crate) fn begins(&mut self) {
        self.since = Instant::now();
    }

    /// The stage that began last is over, and the next begins.
    pub(crate) fn ends(&mut self, stage: Stage) {
        self.trace.stage(stage, self.since);
        self.begins();
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn a_span_that_finds_no_room_is_lost_and_counted_and_nobody_waits() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let told = recorder.handle();
        let (spans, mut out) = Spans::new(2, 1, 7);
        metrics::with_local_recorder(&recorder, || {
            let trace = spans.trace(None).unwrap();
            for _ in 0..5 {
                trace.stage(Stage::Decide, Instant::now());
            }
        });
        drop(spans);
        let kept = std::iter::from_fn(|| out.try_recv().ok()).count();
        assert_eq!(kept, 2);
        let lost = "chancery_spans_dropped_total{why=\"full\"} 3";
        assert!(told.render().contains(lost), "{}", told.render());
    }
}
