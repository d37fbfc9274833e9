//! Publishing, with one proof of arrival for many publications.
//!
//! The client library has no PING of its own to offer. What proves the same is a message to the connection's own inbox:
//! the broker takes what a connection sends in order, so when that message is back everything before it was taken.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::client::PublishErrorKind;
use async_nats::message::OutboundMessage;
use async_nats::{Client, Subject, jetstream};
use bytes::Bytes;
use chancery_node::Carried;
use futures_util::{SinkExt as _, StreamExt as _};
use memchr::memmem;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::broker::Publication;
use super::permissions::{GRACE, Permission, Permissions};

/// Publications that share one proof at most.
const TOGETHER: usize = 256;
/// How long the broker may take for a proof before it counts as down (AG-NAT-7).
const PROOF_WITHIN: Duration = Duration::from_secs(5);

/// How often a broker is asked for a proof when nothing is published.
const PROBE_EVERY: Duration = Duration::from_secs(5);

/// Proofs that have not come back, oldest first.
pub(super) struct Proofs {
    open: Mutex<Open>,
    permissions: Arc<Permissions>,
}

/// Who waits to hear of a publication, and on which subject that was.
struct Expecting {
    subject: Subject,
    done: oneshot::Sender<Carried>,
}

#[derive(Default)]
struct Open {
    number: u64,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    number: u64,
    since: Instant,
    told: Vec<Expecting>,
}

impl Proofs {
    /// No proof open yet, on a connection with these permissions.
    pub(super) fn new(permissions: Arc<Permissions>) -> Self {
        Self {
            open: Mutex::default(),
            permissions,
        }
    }

    /// These wait for the next proof; gives what to send for it.
    fn expect(&self, told: Vec<Expecting>) -> Bytes {
        let mut open = self.lock();
        open.number += 1;
        let number = open.number;
        open.waiting.push_back(Waiting {
            number,
            since: Instant::now(),
            told,
        });
        Bytes::copy_from_slice(&number.to_be_bytes())
    }

    /// A proof is back: everything published before it was taken, or refused.
    fn came_back(&self, proof: &[u8]) {
        let Ok(number) = proof.try_into().map(u64::from_be_bytes) else {
            return;
        };
        let mut first_ones = Vec::new();
        let mut open = self.lock();
        while let Some(first) = open.waiting.pop_front_if(|first| first.number <= number) {
            for told in first.told {
                match self.permissions.of(&told.subject) {
                    Permission::Unknown => first_ones.push(told),
                    known => told.tell(known),
                }
            }
        }
        drop(open);
        if first_ones.is_empty() {
            return;
        }
        let permissions = Arc::clone(&self.permissions);
        tokio::spawn(async move {
            tokio::time::sleep(GRACE).await;
            for told in first_ones {
                let permission = permissions.of(&told.subject);
                if permission != Permission::Refused {
                    permissions.took(&told.subject);
                }
                told.tell(permission);
            }
        });
    }

    /// Whether the broker leaves a proof waiting for longer than it may.
    pub(super) fn is_late(&self) -> bool {
        let open = self.lock();
        open.waiting
            .front()
            .is_some_and(|first| first.since.elapsed() > PROOF_WITHIN)
    }

    fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Expecting {
    fn tell(self, permission: Permission) {
        // Whoever asked may have given up.
        let _ = self.done.send(match permission {
            Permission::Refused => Carried::Refused,
            Permission::Given | Permission::Unknown => Carried::Delivered,
        });
    }
}

/// Publishes over one connection.
pub(super) struct Publisher {
    pub(super) client: Client,
    pub(super) proofs: Arc<Proofs>,
    pub(super) inbox: Subject,
    pub(super) jetstream: Option<jetstream::Context>,
}

impl Publisher {
    /// Subscribes the inbox that proofs come back to, and listens there until the connection is gone.
    pub(super) async fn listen(
        client: &Client,
        proofs: Arc<Proofs>,
    ) -> Result<(Subject, impl Future<Output = ()> + use<>), String> {
        let inbox: Subject = client.new_inbox().into();
        let subscribed = client.subscribe(inbox.clone()).await;
        let mut subscription = subscribed.map_err(|error| error.to_string())?;
        let listening = async move {
            while let Some(message) = subscription.next().await {
                proofs.came_back(&message.payload);
            }
        };
        Ok((inbox, listening))
    }

    /// Publishes what is queued, until the connection or the queue is gone.
    pub(super) async fn run(
        &mut self,
        queue: &mut mpsc::Receiver<Publication>,
    ) -> Result<(), String> {
        let mut batch = Vec::with_capacity(TOGETHER);
        loop {
            let taken = queue.recv_many(&mut batch, TOGETHER);
            match tokio::time::timeout(PROBE_EVERY, taken).await {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                // A proof that nobody waits for: whether the broker is there.
                Err(_) if self.proofs.is_empty() => self.ask_for_proof(Vec::new()).await?,
                Err(_) => {}
            }
            let mut waiting = Vec::with_capacity(batch.len());
            for publication in batch.drain(..) {
                if self.keeps(&publication) {
                    self.publish_kept(publication).await;
                } else {
                    waiting.extend(self.publish(publication).await?);
                }
            }
            if !waiting.is_empty() {
                self.ask_for_proof(waiting).await?;
            }
        }
    }

    /// Hands one publication to the client; gives who waits for the proof.
    async fn publish(&mut self, publication: Publication) -> Result<Option<Expecting>, String> {
        self.ready().await?;
        let Publication {
            subject,
            payload,
            leave,
            done,
        } = publication;
        let subject: Subject = subject.into();
        let message = outbound(subject.clone(), payload);
        let handed = leave.while_given(|| self.client.start_send_unpin(message));
        let carried = match handed {
            Some(Ok(())) => return Ok(done.map(|done| Expecting { subject, done })),
            Some(Err(error)) => match error.kind() {
                PublishErrorKind::MaxPayloadExceeded => Carried::Refused,
                _ => Carried::Failed { at_least: None },
            },
            None => Carried::Failed { at_least: None },
        };
        if let Some(done) = done {
            let _ = done.send(carried);
        }
        Ok(None)
    }

    async fn ask_for_proof(&mut self, waiting: Vec<Expecting>) -> Result<(), String> {
        self.ready().await?;
        let proof = outbound(self.inbox.clone(), self.proofs.expect(waiting));
        let sent = self.client.start_send_unpin(proof);
        sent.map_err(|error| error.to_string())
    }

    async fn ready(&mut self) -> Result<(), String> {
        let ready = std::future::poll_fn(|cx| self.client.poll_ready_unpin(cx));
        ready.await.map_err(|error| error.to_string())
    }

    /// Whether a publication's proof is that the stream has it. The acknowledgement comes to the message's reply
    /// subject, where an answer to a question would be taken for it: questions are published without one.
    fn keeps(&self, publication: &Publication) -> bool {
        self.jetstream.is_some()
            && publication.done.is_some()
            && memmem::find(&publication.payload, br#""kind":"whois""#).is_none()
    }

    async fn publish_kept(&self, publication: Publication) {
        let Publication {
            subject,
            payload,
            leave,
            done,
        } = publication;
        let (Some(context), Some(done)) = (&self.jetstream, done) else {
            return;
        };
        if !leave.is_given() {
            let _ = done.send(Carried::Failed { at_least: None });
            return;
        }
        match context.publish(subject, payload).await {
            Ok(acknowledged) => {
                tokio::spawn(async move {
                    let carried = match acknowledged.await {
                        Ok(_) => Carried::Delivered,
                        Err(error) => {
                            tracing::warn!(%error, "the stream did not take a publication");
                            Carried::Failed { at_least: None }
                        }
                    };
                    let _ = done.send(carried);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a publication could not be made");
                let too_large =
                    error.kind() == jetstream::context::PublishErrorKind::MaxPayloadExceeded;
                let _ = done.send(match too_large {
                    true => Carried::Refused,
                    false => Carried::Failed { at_least: None },
                });
            }
        }
    }
}

fn outbound(subject: Subject, payload: Bytes) -> OutboundMessage {
    OutboundMessage {
        subject,
        payload,
        reply: None,
        headers: None,
    }
}
