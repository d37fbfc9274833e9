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
use serde::{Deserialize, Serialize};

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

/// Looks a mutation's key up (step 10).
pub(super) fn look_up(
    message: &Message,
    principal: Option<&str>,
    eval: Time,
    settings: &Settings,
    cx: &Cx<'_>,
) -> Result<Bound, Stop> {
    let Some(own) = &message.idempotency_key else {
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

/// Keys that are dropped with one that is bound: more than one, so that they never pile up.
const DROPPED_AT_ONCE: usize = 2;

/// Where the queue of bound keys begins and ends, and when its first was bound.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Ends {
    first: u64,
    next: u64,
    oldest: Option<Time>,
}

/// A key in the queue: when it was bound, for whom, and what it is.
#[derive(Clone, Serialize, Deserialize)]
struct Queued {
    at: Time,
    principal: Option<String>,
    from: String,
    key: String,
}

/// Binds a mutation's key to its answer.
pub(super) fn bind(
    message: &Message,
    own: &str,
    principal: Option<&str>,
    eval: Time,
    body: &[u8],
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let row_key = key::idempotency(principal, &message.from_text, own);
    cx.put_bytes(row_key, row(message, eval, body));
    if settings.clock == Clock::Envelope {
        return Ok(());
    }
    let mut ends: Ends = cx.row(&key::idempotency_ends())?.unwrap_or_default();
    let queued = Queued {
        at: eval,
        principal: principal.map(str::to_owned),
        from: message.from_text.clone(),
        key: own.to_owned(),
    };
    cx.put(key::idempotency_queue(ends.next), &queued);
    ends.next += 1;
    ends.oldest = ends.oldest.or(Some(eval));
    drop_ended(&mut ends, eval, settings, cx)?;
    cx.put(key::idempotency_ends(), &ends);
    Ok(())
}

/// Drops the oldest keys that are past their retention.
fn drop_ended(
    ends: &mut Ends,
    eval: Time,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let retention = Duration::from_secs(settings.idempotency_retention_s);
    let has_ended = |at: Time| eval.since(at).is_some_and(|age| age > retention);
    for _ in 0..DROPPED_AT_ONCE {
        if !ends.oldest.is_some_and(has_ended) {
            break;
        }
        let place = key::idempotency_queue(ends.first);
        let damaged = || RowsDamaged("vibe-idem-queue".to_owned());
        let queued: Queued = cx.row(&place)?.ok_or_else(damaged)?;
        let row_key = key::idempotency(queued.principal.as_deref(), &queued.from, &queued.key);
        // A key that was bound anew since then stands further back as well.
        let bound = cx.bytes(&row_key)?;
        if bound.is_some_and(|row| Record::parse(&row).is_some_and(|record| record.at == queued.at))
        {
            cx.remove(row_key);
        }
        cx.remove(place);
        ends.first += 1;
        let first: Option<Queued> = cx.row(&key::idempotency_queue(ends.first))?;
        ends.oldest = first.map(|first| first.at);
    }
    Ok(())
}

/// The row that binds a key.
fn row(message: &Message, eval: Time, body: &[u8]) -> Bytes {
    let at = eval.to_string();
    let mut row = Vec::with_capacity(33 + at.len() + body.len());
    row.extend_from_slice(message.fingerprint().as_bytes());
    row.push(u8::try_from(at.len()).expect("a timestamp has at most 32 characters"));
    row.extend_from_slice(at.as_bytes());
    row.extend_from_slice(body);
    row.into()
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
