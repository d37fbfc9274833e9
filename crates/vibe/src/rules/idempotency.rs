//! Idempotency (section 12): a key is bound to the first accepted request under it, and to its answer.
//!
//! A bound key is one row: the fingerprint, the decision time, and the body as it was answered. It is written with the
//! effect, so either both are on record or neither.
//!
//! Under the wall clock no later decision is earlier, so a key past its retention can never be found bound again: it is
//! dropped, a few with each key that is bound. Under the envelopes' own clock a sender may always stamp earlier, and
//! every key stays.

use std::time::Duration;

use bytes::Bytes;
use chancery_core::decision::{Cx, Stop};
use chancery_core::rows::RowsDamaged;
use chancery_core::time::{Time, parse_audit};

use super::bound_keys;
use super::record::AnswerBody;
use crate::message::Message;
use crate::settings::{Clock, Settings};
use crate::state::key;

/// What a key is bound to.
pub(super) enum Bound {
    /// Nothing, or nothing any more.
    Not,
    /// The same request: its answer.
    Same(Bytes),
    /// Another request.
    Other,
}

/// Looks a mutation's key up (step 10). Replay binds none, so that it finds none.
pub(super) fn look_up(
    message: &Message,
    principal: Option<&str>,
    eval: Time,
    settings: &Settings,
    cx: &Cx<'_>,
) -> Result<Bound, Stop> {
    let Some(own) = message
        .idempotency_key
        .as_ref()
        .filter(|_| cx.keeps_agenda())
    else {
        return Ok(Bound::Not);
    };
    let Some(row) = cx.bytes(&key::idempotency(principal, &message.from_text, own))? else {
        return Ok(Bound::Not);
    };
    let record = Record::parse(&row).ok_or_else(|| RowsDamaged("vibe-idem".to_owned()))?;
    // Age is never negative: an earlier decision time is age zero (VC-IDEM-7).
    let age = eval.since(record.at).unwrap_or_default();
    if age > Duration::from_secs(settings.idempotency_retention_s) {
        return Ok(Bound::Not);
    }
    if record.fingerprint == message.fingerprint().as_bytes() {
        Ok(Bound::Same(row.bytes().slice_ref(record.body)))
    } else {
        Ok(Bound::Other)
    }
}

/// Binds a mutation's key to its answer, which `body` writes behind what it is bound to: the answer and the row are the
/// same bytes. Gives the answer.
pub(super) fn bind(
    message: &Message,
    own: &str,
    principal: Option<&str>,
    eval: Time,
    body: &AnswerBody<'_>,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Bytes, Stop> {
    let row_key = key::idempotency(principal, &message.from_text, own);
    let (row, body) = row(message, eval, body);
    cx.put_bytes(row_key.clone(), row);
    if settings.clock == Clock::Envelope {
        return Ok(body);
    }
    let retention = Duration::from_secs(settings.idempotency_retention_s);
    let has_ended = |at: Time| eval.since(at).is_some_and(|age| age > retention);
    bound_keys::note(row_key, eval, has_ended, cx)?;
    Ok(body)
}

/// When a key was bound, as its row tells it.
pub(super) fn bound_at(row: &[u8]) -> Option<Time> {
    Record::parse(row).map(|record| record.at)
}

/// The row that binds a key, and the answer in it.
fn row(message: &Message, eval: Time, body: &AnswerBody<'_>) -> (Bytes, Bytes) {
    let at = eval.to_string();
    let bound_to = 33 + at.len();
    let mut row = Vec::with_capacity(bound_to + body.len());
    row.extend_from_slice(message.fingerprint().as_bytes());
    row.push(u8::try_from(at.len()).expect("a timestamp has at most 32 characters"));
    row.extend_from_slice(at.as_bytes());
    body.write(&mut row);
    let row = Bytes::from(row);
    let body = row.slice(bound_to..);
    (row, body)
}

/// A bound key on record.
struct Record<'r> {
    fingerprint: &'r [u8],
    at: Time,
    body: &'r [u8],
}

impl<'r> Record<'r> {
    fn parse(row: &'r [u8]) -> Option<Self> {
        let (fingerprint, rest) = row.split_at_checked(32)?;
        let (length, rest) = rest.split_first()?;
        let (at, body) = rest.split_at_checked(usize::from(*length))?;
        let at = parse_audit(std::str::from_utf8(at).ok()?).ok()?;
        Some(Self {
            fingerprint,
            at,
            body,
        })
    }
}
