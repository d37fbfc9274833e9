//! The door: a connection to the broker for as long as the node runs, made again whenever it is gone (AG-NAT-6).

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use chancery_agh::peer::PeerRecord;
use chancery_node::Office;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::broker::{Broker, Publication};
use super::bus::Connected;
use super::connect::{BrokerOptions, connect};
use super::intake::{self, Intake};
use super::jetstream;
use super::members::Members;
use super::publisher::{Proofs, Publisher};
use crate::outgoing_tls::OutgoingTls;

/// Publications that wait for the connection.
const QUEUED: usize = 1_024;
/// The first and the longest pause before another connection is tried.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How often it is looked whether the broker still answers.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a stop waits for what came in to be decided.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// AGH over NATS, while the node runs.
pub struct NatsDoor {
    stop: watch::Sender<bool>,
    connecting: JoinHandle<()>,
    deciding: JoinHandle<()>,
    connected: watch::Sender<Option<Client>>,
}

/// What all connections share.
struct Keeper {
    office: Arc<Office>,
    broker: Arc<Broker>,
    options: BrokerOptions,
    tls: OutgoingTls,
    intake: Intake,
    /// The latest connection.
    connected: watch::Sender<Option<Client>>,
}

impl NatsDoor {
    /// Keeps a connection to the broker from here on. Until there is one, hosted peers are told to try again when
    /// they send something that would have to leave. Needs a runtime.
    pub fn open(
        office: Arc<Office>,
        broker: Arc<Broker>,
        options: BrokerOptions,
        tls: OutgoingTls,
    ) -> Self {
        office.agh_broker_is(false);
        let (stop, stopped) = watch::channel(false);
        let (intake, arrivals) = Intake::new();
        let deciding = tokio::spawn(intake::work(
            Arc::clone(&office),
            Arc::clone(&broker),
            arrivals,
        ));
        let connected = watch::Sender::new(None);
        let keeper = Keeper {
            office,
            broker,
            options,
            tls,
            intake,
            connected: connected.clone(),
        };
        Self {
            stop,
            connecting: tokio::spawn(keeper.keep(stopped)),
            deciding,
            connected,
        }
    }

    /// The connection, for others who speak with the same broker.
    pub fn connected(&self) -> Connected {
        self.connected.subscribe()
    }

    /// Leaves all channels, and waits for what came in to be decided.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        let ended = async {
            // Both end by themselves; a panic in one is told by the runtime.
            let _ = self.connecting.await;
            let _ = self.deciding.await;
            // What was acknowledged last is still on its way out.
            if let Some(client) = self.connected.send_replace(None) {
                let _ = client.flush().await;
            }
        };
        let _ = tokio::time::timeout(STOP_WITHIN, ended).await;
    }
}

impl Keeper {
    async fn keep(self, mut stop: watch::Receiver<bool>) {
        let mut pause = PAUSES.0;
        loop {
            let lasted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                lasted = self.one_connection() => lasted,
            };
            self.broker.is(None);
            self.connected.send_replace(None);
            self.office.agh_broker_is(false);
            match lasted {
                Ok(()) => {
                    pause = PAUSES.0;
                    tracing::warn!(
                        servers = ?self.options.servers,
                        "the connection to the broker is gone; another one is made"
                    );
                }
                Err(reason) => {
                    tracing::warn!(
                        %reason,
                        servers = ?self.options.servers,
                        "the broker cannot be reached; it is tried again"
                    );
                }
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Makes a connection and serves it until it is gone; an error when there was none.
    async fn one_connection(&self) -> Result<(), String> {
        let connection = connect(&self.options, &self.tls).await?;
        let (client, mut gone) = (connection.client, connection.gone);
        self.connected.send_replace(Some(client.clone()));
        let jetstream = match self.options.jetstream {
            true => Some(jetstream::open(&client, self.speaks_v1()).await?),
            false => None,
        };
        let proofs = Arc::new(Proofs::new(connection.permissions));
        let (inbox, listening) = Publisher::listen(&client, Arc::clone(&proofs)).await?;
        let mut publisher = Publisher {
            client: client.clone(),
            proofs: Arc::clone(&proofs),
            inbox,
            jetstream: jetstream.clone(),
        };
        let mut members = Members::new(client, jetstream, self.intake.clone());
        let (queue, mut queued) = mpsc::channel(QUEUED);
        tokio::select! {
            _ = gone.wait_for(|gone| *gone) => {}
            () = listening => {}
            published = publisher.run(&mut queued) => {
                if let Err(reason) = published {
                    tracing::debug!(%reason, "publishing has ended");
                }
            }
            served = self.serve(&mut members, queue, &proofs) => served?,
        }
        Ok(())
    }

    /// Joins for all hosted peers, and greets for them: now, when others come, and from time to time.
    async fn serve(
        &self,
        members: &mut Members,
        queue: mpsc::Sender<Publication>,
        proofs: &Proofs,
    ) -> Result<(), String> {
        let mut changed = self.office.peers_changed();
        changed.mark_unchanged();
        let mut peers = self.peers().await?;
        members.follow(&peers, self.speaks_v1()).await?;
        self.broker.is(Some(queue));
        self.office.agh_broker_is(true);
        tracing::info!(peers = peers.len(), "the broker is there");
        self.greet(&peers).await;
        self.ask_who_is_there(&peers).await;
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut greeted = Instant::now();
        loop {
            tokio::select! {
                _ = changed.changed() => {
                    peers = self.peers().await?;
                    let new = members.follow(&peers, self.speaks_v1()).await?;
                    let new: Vec<PeerRecord> = new.into_iter().cloned().collect();
                    self.greet(&new).await;
                    self.ask_who_is_there(&new).await;
                }
                _ = look.tick() => {
                    self.office.agh_broker_is(!proofs.is_late());
                    if greeted.elapsed() >= self.greet_interval() {
                        greeted = Instant::now();
                        self.greet(&peers).await;
                    }
                }
            }
        }
    }

    async fn greet(&self, peers: &[PeerRecord]) {
        for greeting in peers
            .iter()
            .filter_map(|peer| self.office.agh_greeting(peer))
        {
            self.broker.say(greeting).await;
        }
    }

    /// One peer of each channel asks, so that whoever is there is known at once (CH-JRN-13).
    async fn ask_who_is_there(&self, peers: &[PeerRecord]) {
        let mut asked: Vec<(Option<&str>, &str)> = Vec::new();
        for peer in peers {
            let place = (peer.workspace_id.as_deref(), peer.channel.as_str());
            if asked.contains(&place) {
                continue;
            }
            if let Some(question) = self.office.agh_question(peer) {
                asked.push(place);
                self.broker.say(question).await;
            }
        }
    }

    async fn peers(&self) -> Result<Vec<PeerRecord>, String> {
        let office = Arc::clone(&self.office);
        let read = tokio::task::spawn_blocking(move || office.agh_peers()).await;
        let read = read.map_err(|error| error.to_string())?;
        read.map_err(|error| error.to_string())
    }

    fn speaks_v1(&self) -> bool {
        self.office.gate().settings().agh.trust.enabled
    }

    fn greet_interval(&self) -> Duration {
        Duration::from_secs(self.office.gate().settings().agh.greet_interval_s)
    }
}
