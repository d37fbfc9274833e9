//! Lines in the form of VC-AUD-2, and the envelopes that the runtime writes.

use bytes::Bytes;
use chancery_core::canonical::write_string;
use chancery_core::line::{Draft, DraftEnvelope, MetaValue, Origin, ProtocolName, Seq};
use chancery_core::time::Time;

/// The place of a line in a batch (VC-SET-2).
pub(super) struct Batch<'b> {
    pub(super) id: &'b str,
    pub(super) index: usize,
    pub(super) size: usize,
}

/// What a line is made of.
pub(super) struct LineOf<'l> {
    pub(super) envelope: Bytes,
    pub(super) origin: Origin,
    pub(super) signature: Option<&'l str>,
    pub(super) principal: Option<&'l str>,
    /// The line that a hosted agent answers by it.
    pub(super) answers: Option<Seq>,
    pub(super) eval: Time,
    /// The envelope whose diff it applies.
    pub(super) diff_of: Option<&'l str>,
    pub(super) batch: Option<Batch<'l>>,
    pub(super) to_world: bool,
}

/// A line.
pub(super) fn line(of: &LineOf<'_>) -> Draft {
    let text = |text: Option<String>| text.map_or(MetaValue::Null, MetaValue::Text);
    let route = if of.to_world {
        word(b"\"apply_world\"")
    } else {
        word(b"\"deliver\"")
    };
    let mut meta = vec![
        (
            "applied_state_diff_id",
            text(of.diff_of.map(|msg_id| ["sd_", msg_id].concat())),
        ),
        ("batch", of.batch.as_ref().map_or(MetaValue::Null, batch)),
        ("partition_check", word(b"\"pass\"")),
        ("payload_check", word(b"\"pass\"")),
        ("principal", text(of.principal.map(str::to_owned))),
        ("route_decision", route),
    ];
    meta.extend(of.answers.map(|line| ("answers", MetaValue::Integer(line))));
    Draft {
        protocol: ProtocolName::Vibe,
        origin: of.origin,
        envelope: DraftEnvelope::Whole(of.envelope.clone()),
        raw: None,
        signature: of.signature.map(str::to_owned),
        eval_ts: Some(of.eval),
        meta,
    }
}

/// A fixed word, written as JSON.
const fn word(json: &'static [u8]) -> MetaValue {
    MetaValue::Json(Bytes::from_static(json))
}

fn batch(batch: &Batch<'_>) -> MetaValue {
    let mut json = Vec::from(&b"{\"id\":"[..]);
    write_string(batch.id, &mut json);
    json.extend_from_slice(
        format!(",\"index\":{},\"size\":{}}}", batch.index, batch.size).as_bytes(),
    );
    MetaValue::Json(json.into())
}

/// An envelope that the runtime makes (VC-SET-2, VC-PLAT-3).
pub(super) struct Made<'m> {
    pub(super) msg_id: &'m str,
    pub(super) kind: &'m str,
    /// Canonical JSON.
    pub(super) payload: &'m [u8],
    pub(super) from: &'m str,
    pub(super) to: &'m str,
    pub(super) in_reply_to: &'m str,
    pub(super) session_id: &'m str,
    pub(super) ts: &'m str,
}

/// Its canonical bytes; its idempotency key is its own identifier (VC-CAN-6).
pub(super) fn envelope(made: &Made<'_>) -> Bytes {
    let mut out = Vec::with_capacity(512 + made.payload.len());
    let mut put = |name: &[u8], value: &str| {
        out.extend_from_slice(name);
        write_string(value, &mut out);
    };
    put(b"{\"action\":{\"kind\":", made.kind);
    out.extend_from_slice(b",\"payload\":");
    out.extend_from_slice(made.payload);
    let mut put = |name: &[u8], value: &str| {
        out.extend_from_slice(name);
        write_string(value, &mut out);
    };
    put(b"},\"from\":", made.from);
    put(b",\"idempotency_key\":", made.msg_id);
    put(b",\"in_reply_to\":", made.in_reply_to);
    put(b",\"msg_id\":", made.msg_id);
    put(b",\"protocol\":\"vcp\",\"session_id\":", made.session_id);
    put(b",\"signature\":null,\"to\":", made.to);
    put(b",\"ts\":", made.ts);
    out.extend_from_slice(b",\"version\":\"1.0\"}");
    out.into()
}
