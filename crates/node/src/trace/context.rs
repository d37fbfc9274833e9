//! A place in somebody's trace, as W3C Trace Context writes it.

use std::future::Future;
use std::sync::Arc;

use chancery_core::digest::hex;

/// The longest `tracestate` that is passed on.
const STATE_BYTES: usize = 512;

/// A place in a trace: which trace, below which span, and whether it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) is_sampled: bool,
    /// What others keep with the trace; passed on as it came.
    pub(super) state: Option<Arc<str>>,
}

impl TraceContext {
    /// Reads `traceparent`, with `tracestate` where there is one. None for what is no trace context: it counts as absent.
    #[must_use]
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let mut part = |digits: usize| {
            let part = parts.next()?;
            let is_hex = part
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            (part.len() == digits && is_hex).then_some(part)
        };
        let (version, trace_id, span_id, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        // A later version may say more after what this one says.
        if version == "ff" || version == "00" && parts.next().is_some() {
            return None;
        }
        let flags: [u8; 1] = hex::decode_array(flags).ok()?;
        let context = Self {
            trace_id: hex::decode_array(trace_id).ok()?,
            span_id: hex::decode_array(span_id).ok()?,
            is_sampled: flags[0] & 1 == 1,
            state: tracestate.filter(|state| is_state(state)).map(Arc::from),
        };
        let is_there = context.trace_id != [0; 16] && context.span_id != [0; 8];
        is_there.then_some(context)
    }

    /// The header `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!(
            "00-{}-{}-{:02x}",
            hex::encode(&self.trace_id),
            hex::encode(&self.span_id),
            u8::from(self.is_sampled)
        )
    }

    /// The header `tracestate`, where there is one.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

fn is_state(text: &str) -> bool {
    let printable = |byte: u8| (b' '..=b'~').contains(&byte);
    !text.is_empty() && text.len() <= STATE_BYTES && text.bytes().all(printable)
}

tokio::task_local! {
    static HERE: TraceContext;
}

/// Runs a future at a place in a trace: what comes in below it belongs there, and so does what goes out.
pub async fn within<F: Future>(context: Option<TraceContext>, future: F) -> F::Output {
    match context {
        Some(context) => HERE.scope(context, future).await,
        None => future.await,
    }
}

/// The place that this task is at, if it is at any.
#[must_use]
pub fn here() -> Option<TraceContext> {
    HERE.try_with(TraceContext::clone).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_w3c_writes_is_read_and_written_again() {
        let read = TraceContext::parse(PARENT, Some("a=1,b=2")).unwrap();
        assert!(read.is_sampled);
        assert_eq!(read.traceparent(), PARENT);
        assert_eq!(read.tracestate(), Some("a=1,b=2"));
        let quiet = PARENT.replace("-01", "-00");
        assert!(!TraceContext::parse(&quiet, None).unwrap().is_sampled);
        // Other flags are for others, and later versions may add parts.
        let later = PARENT.replace("00-4b", "cc-4b").replace("-01", "-03-more");
        assert!(TraceContext::parse(&later, None).unwrap().is_sampled);
    }

    #[test]
    fn what_is_no_trace_context_counts_as_absent() {
        let zero_trace = PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_span = PARENT.replace("00f067aa0ba902b7", &"0".repeat(16));
        for wrong in [
            "",
            "00",
            &PARENT[..54],
            &PARENT.replace("00-4b", "ff-4b"),
            &PARENT.replace("4bf9", "4BF9"),
            &PARENT.replace("4bf9", "4bg9"),
            &format!("{PARENT}-more"),
            &format!(" {PARENT}"),
            &zero_trace,
            &zero_span,
        ] {
            assert_eq!(TraceContext::parse(wrong, None), None, "{wrong}");
        }
        for state in ["", "a=\u{1f}", "é=1", &"a".repeat(513)] {
            let read = TraceContext::parse(PARENT, Some(state)).unwrap();
            assert_eq!(read.tracestate(), None, "{state}");
        }
    }
}
