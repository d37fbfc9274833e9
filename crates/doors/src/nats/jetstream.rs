//! JetStream, as an option that changes no meaning (AG-NAT-10): an acknowledged publication is kept, an acknowledged
//! message was processed, and neither is a receipt. What is read from the stream is judged as everything else is.

use async_nats::Client;
use async_nats::jetstream::consumer::pull::{Config as Pull, Stream as Messages};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::stream::{Config as Kept, DiscardPolicy};
use async_nats::jetstream::{self, Context};
use chancery_agh::peer::PeerRecord;
use chancery_agh::subject::{PREFIX, PREFIX_V1};
use chancery_core::digest::{Sha256Digest, hex};
use std::time::Duration;

use super::intake::Arrived;

/// The stream of all AGH subjects.
const STREAM: &str = "AGH_NETWORK_V0";
/// How long a message is kept: as long as any envelope is remembered.
const KEPT_FOR: Duration = Duration::from_secs(86_400);
/// Bytes that the stream keeps; beyond them the oldest go.
const KEPT_BYTES: i64 = 1 << 30;
/// Messages that a peer has under way and has not acknowledged.
const UNDER_WAY: i64 = 1_024;

/// The stream, made where there is none. One that is there stays as its owner set it up.
pub(super) async fn open(client: &Client, with_v1: bool) -> Result<Context, String> {
    let context = jetstream::new(client.clone());
    let mut subjects = vec![format!("{PREFIX}.>")];
    if with_v1 {
        subjects.push(format!("{PREFIX_V1}.>"));
    }
    let kept = Kept {
        name: STREAM.to_owned(),
        subjects,
        max_age: KEPT_FOR,
        max_bytes: KEPT_BYTES,
        discard: DiscardPolicy::Old,
        ..Kept::default()
    };
    let made = context.get_or_create_stream(kept).await;
    made.map_err(|error| format!("the stream {STREAM} cannot be used: {error}"))?;
    Ok(context)
}

/// What a peer has not read of a subject, and everything that comes.
pub(super) async fn messages(
    context: &Context,
    subject: &str,
    peer: &PeerRecord,
) -> Result<Messages, String> {
    let said = |error: &dyn std::fmt::Display| format!("{subject} cannot be read: {error}");
    let stream = context.get_stream(STREAM).await;
    let stream = stream.map_err(|error| said(&error))?;
    let name = consumer_name(subject, peer);
    let pull = Pull {
        durable_name: Some(name.clone()),
        filter_subject: subject.to_owned(),
        deliver_policy: DeliverPolicy::New,
        ack_policy: AckPolicy::Explicit,
        max_ack_pending: UNDER_WAY,
        ..Pull::default()
    };
    let consumer = stream.get_or_create_consumer(&name, pull).await;
    let consumer = consumer.map_err(|error| said(&error))?;
    consumer.messages().await.map_err(|error| said(&error))
}

/// A message of the stream as one that came in.
pub(super) fn arrived(message: jetstream::Message) -> Arrived {
    let (message, acker) = message.split();
    Arrived {
        subject: message.subject,
        reply: None,
        payload: message.payload,
        acker: Some(acker),
    }
}

/// The name under which the broker remembers how far a peer has read: its channel and itself, in letters that such
/// a name may have, and a digest that keeps two apart.
fn consumer_name(subject: &str, peer: &PeerRecord) -> String {
    let plain = |text: &str| -> String {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        text.chars().take(48).map(letter).collect()
    };
    let what = format!("{} {subject}", peer.address());
    let digest = hex::encode(&Sha256Digest::of(what.as_bytes()).0[..8]);
    let (channel, id) = (plain(&peer.channel), plain(&peer.card.peer_id));
    format!("{channel}-{id}-{digest}")
}
