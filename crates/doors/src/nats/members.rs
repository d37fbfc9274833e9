//! The subscriptions of hosted peers: joined and left as the record changes (AG-NAT-5, AG-B-44).

use std::collections::{BTreeMap, BTreeSet};

use async_nats::{Client, jetstream};
use chancery_agh::peer::PeerRecord;
use chancery_agh::subject;
use futures_util::StreamExt as _;
use tokio::task::{AbortHandle, JoinSet};

use super::intake::{Arrived, Intake};
use super::jetstream as stream;

/// Who has joined over one connection. Dropping it leaves everything.
pub(super) struct Members {
    client: Client,
    jetstream: Option<jetstream::Context>,
    intake: Intake,
    /// By subject, what listens there.
    listening: BTreeMap<String, AbortHandle>,
    tasks: JoinSet<()>,
    joined: BTreeSet<String>,
}

impl Members {
    pub(super) fn new(
        client: Client,
        jetstream: Option<jetstream::Context>,
        intake: Intake,
    ) -> Self {
        Self {
            client,
            jetstream,
            intake,
            listening: BTreeMap::new(),
            tasks: JoinSet::new(),
            joined: BTreeSet::new(),
        }
    }

    /// Listens for exactly these peers from here on; gives those that are new.
    pub(super) async fn follow<'p>(
        &mut self,
        peers: &'p [PeerRecord],
        with_v1: bool,
    ) -> Result<Vec<&'p PeerRecord>, String> {
        let mut wanted: BTreeMap<String, &PeerRecord> = BTreeMap::new();
        for peer in peers {
            for subject in subjects(peer, with_v1) {
                // Of a channel's peers the first stands for its broadcasts.
                wanted.entry(subject).or_insert(peer);
            }
        }
        // Direct subjects sort behind the broadcast ones of their channel: first everybody's, then each one's own.
        for (subject, peer) in &wanted {
            if !self.listening.contains_key(subject) {
                self.listen(subject, peer).await?;
            }
        }
        let unwanted = |subject: &String| !wanted.contains_key(subject);
        let left: Vec<String> = self
            .listening
            .keys()
            .rev()
            .filter(|s| unwanted(s))
            .cloned()
            .collect();
        for subject in left {
            if let Some(listening) = self.listening.remove(&subject) {
                listening.abort();
            }
        }
        while self.tasks.try_join_next().is_some() {}
        let joined: BTreeSet<String> = peers.iter().map(PeerRecord::address).collect();
        let before = std::mem::replace(&mut self.joined, joined);
        let is_new = |peer: &&PeerRecord| !before.contains(&peer.address());
        Ok(peers.iter().filter(is_new).collect())
    }

    async fn listen(&mut self, subject: &str, peer: &PeerRecord) -> Result<(), String> {
        let intake = self.intake.clone();
        let listening = match &self.jetstream {
            Some(context) => {
                let mut kept = stream::messages(context, subject, peer).await?;
                self.tasks.spawn(async move {
                    while let Some(message) = kept.next().await {
                        match message {
                            Ok(message) => intake.put(stream::arrived(message)).await,
                            Err(error) => tracing::warn!(%error, "the stream could not be read"),
                        }
                    }
                })
            }
            None => {
                let subscribed = self.client.subscribe(subject.to_owned()).await;
                let mut subscription = subscribed.map_err(|error| error.to_string())?;
                self.tasks.spawn(async move {
                    while let Some(message) = subscription.next().await {
                        intake.offer(Arrived {
                            subject: message.subject,
                            reply: message.reply,
                            payload: message.payload,
                            acker: None,
                        });
                    }
                })
            }
        };
        self.listening.insert(subject.to_owned(), listening);
        Ok(())
    }
}

/// What a peer listens to: everybody's subject in its channel, its own, and both under v1 where that is spoken
/// (AG-NAT-11).
fn subjects(peer: &PeerRecord, with_v1: bool) -> Vec<String> {
    let (workspace, channel) = (peer.workspace_id.as_deref(), peer.channel.as_str());
    let id = peer.card.peer_id.as_str();
    let mut subjects = vec![
        subject::broadcast(workspace, channel),
        subject::direct(workspace, channel, id),
    ];
    if with_v1 {
        subjects.push(subject::broadcast_v1(workspace, channel));
        subjects.push(subject::direct_v1(workspace, channel, id));
    }
    subjects
}
