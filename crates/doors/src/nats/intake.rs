//! Envelopes from the broker on their way to the node: in order, many at once, and bounded.

use std::sync::Arc;

use async_nats::jetstream::AckKind;
use async_nats::jetstream::message::Acker;
use bytes::Bytes;
use chancery_agh::fault::ErrorName;
use chancery_core::protocol::Door;
use chancery_node::{AghRead, Office};
use futures_util::StreamExt as _;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::broker::Broker;

/// Bytes of envelopes that wait for their decision.
const WAITING_BYTES: usize = 64 * 1024 * 1024;
/// What a waiting envelope takes besides its own bytes.
const ENVELOPE_BYTES: usize = 512;
/// Envelopes that are read or decided at once.
const AT_ONCE: usize = 1_024;

/// An envelope that came in.
pub(super) struct Arrived {
    pub(super) subject: async_nats::Subject,
    pub(super) reply: Option<async_nats::Subject>,
    pub(super) payload: Bytes,
    /// Told when it was processed, where the broker asks for that.
    pub(super) acker: Option<Acker>,
}

/// Where envelopes wait.
#[derive(Clone)]
pub(super) struct Intake {
    queue: mpsc::UnboundedSender<(Arrived, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
}

impl Intake {
    /// An empty intake, and where its envelopes come out.
    pub(super) fn new() -> (
        Self,
        mpsc::UnboundedReceiver<(Arrived, OwnedSemaphorePermit)>,
    ) {
        let (queue, out) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(WAITING_BYTES));
        (Self { queue, room }, out)
    }

    /// Takes an envelope in if there is room; beyond that it is lost, as any may be (AG-DLV-1).
    pub(super) fn offer(&self, arrived: Arrived) {
        match Arc::clone(&self.room).try_acquire_many_owned(weight(&arrived)) {
            Ok(room) => {
                // The other end is gone only when the node stops.
                let _ = self.queue.send((arrived, room));
            }
            Err(_) => {
                metrics::counter!("chancery_agh_nats_dropped_total", "why" => "full").increment(1);
            }
        }
    }

    /// Takes an envelope in as soon as there is room: what the broker keeps can wait there.
    pub(super) async fn put(&self, arrived: Arrived) {
        let room = Arc::clone(&self.room).acquire_many_owned(weight(&arrived));
        if let Ok(room) = room.await {
            let _ = self.queue.send((arrived, room));
        }
    }
}

fn weight(arrived: &Arrived) -> u32 {
    let bytes = arrived.payload.len() + ENVELOPE_BYTES;
    u32::try_from(bytes.min(WAITING_BYTES)).unwrap_or(u32::MAX)
}

/// Brings what comes in to the node, until nothing can come in any more.
pub(super) async fn work(
    office: Arc<Office>,
    broker: Arc<Broker>,
    mut arrivals: mpsc::UnboundedReceiver<(Arrived, OwnedSemaphorePermit)>,
) {
    let at_once = AT_ONCE.min(office.gate().limits().requests / 2).max(1);
    let mut reading = FuturesOrdered::new();
    let mut deciding = FuturesUnordered::new();
    let mut open = true;
    while open || !reading.is_empty() || !deciding.is_empty() {
        let has_room = reading.len() + deciding.len() < at_once;
        tokio::select! {
            biased;
            Some((read, arrived, room)) = reading.next(), if !reading.is_empty() => {
                deciding.push(decide(&office, &broker, read, arrived, room));
            }
            Some(()) = deciding.next(), if !deciding.is_empty() => {}
            arrival = arrivals.recv(), if open && has_room => match arrival {
                None => open = false,
                Some((arrived, room)) => {
                    if !broker.is_own(&arrived.payload) {
                        reading.push_back(read(&office, arrived, room));
                    } else if let Some(acker) = arrived.acker {
                        let _ = acker.ack().await;
                    }
                }
            }
        }
    }
}

async fn read(
    office: &Office,
    arrived: Arrived,
    room: OwnedSemaphorePermit,
) -> (AghRead, Arrived, OwnedSemaphorePermit) {
    let read = office.read_agh(arrived.payload.clone(), Door::Nats).await;
    if read
        .subject()
        .is_some_and(|subject| *subject != *arrived.subject)
    {
        tracing::debug!(subject = %arrived.subject, "an envelope came on another subject than its own");
    }
    (read, arrived, room)
}

async fn decide(
    office: &Office,
    broker: &Broker,
    read: AghRead,
    arrived: Arrived,
    _room: OwnedSemaphorePermit,
) {
    let is_question = read.is_question();
    let outcome = office.decide_agh(read).await;
    let error = outcome.fault.as_ref().map(|fault| fault.error);
    let is_busy = error == Some(ErrorName::Busy);
    if is_busy {
        metrics::counter!("chancery_agh_nats_dropped_total", "why" => "busy").increment(1);
    }
    if let Some(acker) = &arrived.acker {
        let kind = match is_busy {
            true => AckKind::Nak(None),
            false => AckKind::Ack,
        };
        // Not acknowledged, it comes again and is a duplicate.
        let _ = acker.ack_with(kind).await;
    }
    // An asker may wait at a reply subject of its own (AG-NAT-8).
    if let Some(reply) = arrived.reply.filter(|_| is_question) {
        for answer in outcome.emitted {
            broker.whisper(reply.to_string(), answer);
        }
    }
}
