//! The broker as whoever publishes sees it: there, or not.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use chancery_core::delivery::{Delivery, Whisper};
use chancery_node::{Attempt, Carried, Leave};
use hashbrown::{DefaultHashBuilder, HashSet};
use tokio::sync::{mpsc, oneshot, watch};

/// Own broadcasts that are recognised when they come back; beyond it the rules find that they are duplicates.
const OWN: usize = 16_384;

/// A broker that may be there or not.
pub struct Broker {
    live: watch::Sender<Option<mpsc::Sender<Publication>>>,
    own: Mutex<Own>,
}

/// Something to be published.
pub(super) struct Publication {
    pub(super) subject: String,
    pub(super) payload: Bytes,
    pub(super) leave: Leave,
    /// Told what came of it; nobody is for what is said once and lost without harm.
    pub(super) done: Option<oneshot::Sender<Carried>>,
}

/// The latest broadcasts of this node, by a hash that nobody outside can aim at.
#[derive(Default)]
struct Own {
    hasher: DefaultHashBuilder,
    hashes: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Default for Broker {
    fn default() -> Self {
        Self {
            live: watch::Sender::new(None),
            own: Mutex::default(),
        }
    }
}

impl Broker {
    /// Publishes a line's envelope; done when the broker has it (AG-NAT-7). The outbox limits how long that may take.
    pub(crate) fn carry(&self, delivery: &Delivery, payload: Bytes, leave: Leave) -> Attempt {
        let mut live = self.live.subscribe();
        let subject = delivery.to.split(' ').next().unwrap_or_default().to_owned();
        self.note_own(&subject, &payload);
        Box::pin(async move {
            let failed = Carried::Failed { at_least: None };
            let queue = match live.wait_for(Option::is_some).await {
                Ok(queue) => queue.clone(),
                Err(_) => return failed,
            };
            let (done, told) = oneshot::channel();
            let publication = Publication {
                subject,
                payload,
                leave,
                done: Some(done),
            };
            match queue {
                Some(queue) if queue.send(publication).await.is_ok() => {
                    told.await.unwrap_or(failed)
                }
                _ => failed,
            }
        })
    }

    /// Publishes once, if the broker is there and there is room.
    pub(crate) fn whisper(&self, subject: String, payload: Bytes) {
        self.note_own(&subject, &payload);
        let said = match &*self.live.borrow() {
            None => false,
            Some(queue) => queue.try_send(soft(subject, payload)).is_ok(),
        };
        if !said {
            metrics::counter!("chancery_agh_nats_unsaid_total").increment(1);
        }
    }

    /// Publishes once, and waits for room.
    pub(super) async fn say(&self, whisper: Whisper) {
        self.note_own(&whisper.to, &whisper.bytes);
        let queue = self.live.borrow().clone();
        if let Some(queue) = queue {
            // Without a broker it is said after the next connection.
            let _ = queue.send(soft(whisper.to, whisper.bytes)).await;
        }
    }

    /// The broker is there from here on, and takes publications here; or it is gone.
    pub(super) fn is(&self, queue: Option<mpsc::Sender<Publication>>) {
        let up = queue.is_some();
        self.live.send_replace(queue);
        metrics::gauge!("chancery_agh_nats_up").set(if up { 1.0 } else { 0.0 });
    }

    /// Whether a payload is one of this node's own that came back.
    pub(super) fn is_own(&self, payload: &[u8]) -> bool {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = own.hasher.hash_one(payload);
        own.hashes.contains(&hash)
    }

    fn note_own(&self, subject: &str, payload: &[u8]) {
        if !subject.ends_with(".broadcast") {
            return;
        }
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = own.hasher.hash_one(payload);
        if own.hashes.insert(hash) {
            own.order.push_back(hash);
        }
        if own.order.len() > OWN
            && let Some(oldest) = own.order.pop_front()
        {
            own.hashes.remove(&oldest);
        }
    }
}

fn soft(subject: String, payload: Bytes) -> Publication {
    Publication {
        subject,
        payload,
        leave: Leave::always(),
        done: None,
    }
}
