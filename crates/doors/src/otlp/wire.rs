//! Spans as OTLP writes them: the few protobuf messages of `opentelemetry/proto/trace/v1` that an export needs.

use chancery_node::trace::{AttributeValue, Span, SpanKind};

/// The types of protobuf fields that are written here.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

/// `SpanFlags`: it is sampled, and says whether its parent is of another process.
const FLAGS: u32 = 0x0000_0101;
/// `SpanFlags`: its parent is.
const REMOTE: u32 = 0x0000_0200;
/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: u64 = 2;

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.tag(field, VARINT);
        self.varint(value);
        self
    }

    fn fixed64(mut self, field: u64, value: u64) -> Self {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn fixed32(mut self, field: u64, value: u32) -> Self {
        self.tag(field, FIXED32);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.tag(field, LENGTH);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn text(self, field: u64, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    fn message(self, field: u64, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    fn messages<'m>(self, field: u64, values: impl Iterator<Item = Self> + 'm) -> Self {
        values.fold(self, |all, value| all.message(field, &value))
    }
}

/// `ExportTraceServiceRequest` with these spans of this process.
pub(super) fn export(spans: &[Span], resource: &[(&str, String)]) -> Vec<u8> {
    let attributes = resource.iter().map(|(key, value)| text_value(key, value));
    let resource = Message::default().messages(1, attributes);
    let scope = Message::default()
        .text(1, "chancery")
        .text(2, env!("CARGO_PKG_VERSION"));
    let of_scope = Message::default()
        .message(1, &scope)
        .messages(2, spans.iter().map(span));
    let of_resource = Message::default()
        .message(1, &resource)
        .message(2, &of_scope);
    Message::default().message(1, &of_resource).0
}

fn span(span: &Span) -> Message {
    let mut message = Message::default()
        .bytes(1, &span.trace_id)
        .bytes(2, &span.span_id);
    if let Some(state) = &span.state {
        message = message.text(3, state);
    }
    if let Some(parent) = &span.parent {
        message = message.bytes(4, parent);
    }
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    };
    let attributes = span.attributes.iter().map(|(key, value)| match value {
        AttributeValue::Text(text) => text_value(key, text),
        AttributeValue::Number(number) => {
            // An int64 is written as its two's complement.
            let value = Message::default().number(3, number.cast_unsigned());
            Message::default().text(1, key).message(2, &value)
        }
    });
    message = message
        .text(5, span.name)
        .number(6, kind)
        .fixed64(7, span.start_unix_ns)
        .fixed64(8, span.end_unix_ns)
        .messages(9, attributes);
    if span.is_fault {
        let status = Message::default().number(3, STATUS_ERROR);
        message = message.message(15, &status);
    }
    // Only what answers somebody else is below a span of theirs.
    let is_remote = span.kind == SpanKind::Server && span.parent.is_some();
    message.fixed32(16, if is_remote { FLAGS | REMOTE } else { FLAGS })
}

fn text_value(key: &str, text: &str) -> Message {
    let value = Message::default().text(1, text);
    Message::default().text(1, key).message(2, &value)
}
