//! The bus of a journal's nodes over JetStream: a stream of orders, each in one node's hands until it is settled.
//!
//! Guarantees: an order is in the stream once, under a subject of its own, until a node says that it is done with; a node
//! that says nothing for [`HANDS_OFF`] loses its orders to another. What the stream holds is only who makes what: the
//! journal has the deliveries, and a stream that is lost is filled from it again.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::pull::Config as Pull;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::message::{Acker, PublishMessage};
use async_nats::jetstream::stream::{Config as Kept, DiscardPolicy, RetentionPolicy, Stream};
use async_nats::jetstream::{self, AckKind, Context};
use chancery_node::{Bus, Made, Office, Order};
use futures_util::StreamExt as _;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::connect::{BrokerOptions, connect};
use crate::outgoing_tls::OutgoingTls;

/// After how long without a word a node's orders go to another.
const HANDS_OFF: Duration = Duration::from_secs(10);
/// How often a node says that it still has an order.
const SAY_EVERY: Duration = Duration::from_secs(3);
/// How long the stream may take to take an order.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// How long the bus rests that could not be used.
const REST: Duration = Duration::from_secs(1);
/// Orders in one node's hands, and exempt ones beyond them.
const IN_HAND: (usize, usize) = (4_096, 256);
/// Orders of a journal; beyond them deliveries wait on record.
const ORDERS: i64 = 1_000_000;
/// The first and the longest pause before another connection is tried.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A connection to the broker, while there is one.
pub type Connected = watch::Receiver<Option<Client>>;

/// The bus, as whoever hands out sees it.
pub struct NatsBus {
    journal: String,
    context: watch::Sender<Option<Context>>,
    is_up: watch::Sender<bool>,
}

impl NatsBus {
    /// The bus of a journal, which no other has the name of; not reached yet.
    pub fn new(journal: String) -> Arc<Self> {
        Arc::new(Self {
            journal,
            context: watch::Sender::new(None),
            is_up: watch::Sender::new(false),
        })
    }

    fn stream_name(&self) -> String {
        format!("CHANCERY_BUS_{}", self.journal)
    }

    fn subject(&self, lane: &str, name: &str) -> String {
        format!("chancery.bus.{}.{lane}.{name}", self.journal)
    }

    fn is(&self, context: Option<Context>) {
        let up = context.is_some();
        self.context.send_replace(context);
        self.is_up.send_replace(up);
        metrics::gauge!("chancery_bus_up").set(if up { 1.0 } else { 0.0 });
    }

    /// The stream, made where there is none.
    async fn stream(&self, context: &Context) -> Result<Stream, String> {
        let kept = Kept {
            name: self.stream_name(),
            subjects: vec![self.subject("*", ">")],
            retention: RetentionPolicy::WorkQueue,
            max_messages: ORDERS,
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            discard_new_per_subject: true,
            ..Kept::default()
        };
        let made = context.get_or_create_stream(kept).await;
        made.map_err(|error| format!("the stream {} cannot be used: {error}", self.stream_name()))
    }
}

impl Bus for NatsBus {
    fn hand_out(&self, order: Order) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let context = self.context.borrow().clone();
        let lane = lane(order.exempt);
        let subject = self.subject(lane, &order.name);
        // Without an identifier of its own: the stream would refuse for a while what was taken out of it and is handed out
        // anew. The subject alone keeps it from having an order twice.
        let message = PublishMessage::build().payload(order.bytes);
        Box::pin(async move {
            let Some(context) = context else { return false };
            let publish = async {
                let published = context.send_publish(subject, message).await;
                match published {
                    Ok(acknowledged) => acknowledged.await.map(|_| ()),
                    Err(error) => Err(error),
                }
            };
            match tokio::time::timeout(TAKEN_WITHIN, publish).await {
                Ok(Ok(())) => true,
                Ok(Err(error)) => is_there(&error),
                Err(_) => false,
            }
        })
    }

    fn is_up(&self) -> watch::Receiver<bool> {
        self.is_up.subscribe()
    }
}

const fn lane(exempt: bool) -> &'static str {
    if exempt { "exempt" } else { "ordinary" }
}

/// Whether the stream refuses an order because it has it.
fn is_there(error: &jetstream::context::PublishError) -> bool {
    let has_it = error.to_string().contains("maximum messages per subject");
    if !has_it {
        tracing::debug!(%error, "the bus did not take an order");
    }
    has_it
}

/// The bus, while the node runs.
pub struct BusDoor {
    stop: watch::Sender<bool>,
    working: JoinHandle<()>,
    /// Keeps a connection, where there is none to share.
    connecting: Option<JoinHandle<()>>,
}

impl BusDoor {
    /// Takes orders over a connection that somebody else keeps. Needs a runtime.
    pub fn share(office: Arc<Office>, bus: Arc<NatsBus>, connected: Connected) -> Self {
        let (stop, stopped) = watch::channel(false);
        let worker = Worker {
            office,
            bus,
            in_hand: Mutex::default(),
        };
        Self {
            stop,
            working: tokio::spawn(worker.work(connected, stopped)),
            connecting: None,
        }
    }

    /// Takes orders over a connection of its own. Needs a runtime.
    pub fn open(
        office: Arc<Office>,
        bus: Arc<NatsBus>,
        options: BrokerOptions,
        tls: OutgoingTls,
    ) -> Self {
        let (told, connected) = watch::channel(None);
        let mut door = Self::share(office, bus, connected);
        door.connecting = Some(tokio::spawn(keep_connected(options, tls, told)));
        door
    }

    /// Takes no more orders; those in hand go to others.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        let _ = self.working.await;
        if let Some(connecting) = self.connecting {
            connecting.abort();
        }
    }
}

async fn keep_connected(
    options: BrokerOptions,
    tls: OutgoingTls,
    told: watch::Sender<Option<Client>>,
) {
    let mut pause = PAUSES.0;
    loop {
        match connect(&options, &tls).await {
            Ok(mut connection) => {
                pause = PAUSES.0;
                told.send_replace(Some(connection.client));
                let _ = connection.gone.wait_for(|gone| *gone).await;
                told.send_replace(None);
                tracing::warn!("the connection to the bus is gone; another one is made");
            }
            Err(reason) => tracing::warn!(%reason, "the bus cannot be reached; it is tried again"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Takes orders and makes them.
struct Worker {
    office: Arc<Office>,
    bus: Arc<NatsBus>,
    /// Orders in hand: a connection that is lost does not end them at once.
    in_hand: Mutex<JoinSet<()>>,
}

impl Worker {
    /// Serves one connection after the other.
    async fn work(self, mut connected: Connected, mut stop: watch::Receiver<bool>) {
        loop {
            let client = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                client = connected.wait_for(Option::is_some) => match client {
                    Ok(client) => client.clone(),
                    Err(_) => break,
                },
            };
            let Some(client) = client else { continue };
            let served = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => Ok(()),
                _ = connected.wait_for(Option::is_none) => Ok(()),
                served = self.serve(client) => served,
            };
            self.bus.is(None);
            if let Err(reason) = served {
                tracing::warn!(%reason, "the bus cannot be used; it is tried again");
                tokio::time::sleep(REST).await;
            }
        }
        let mut in_hand = std::mem::take(&mut *lock(&self.in_hand));
        in_hand.shutdown().await;
    }

    /// Takes orders until the stream cannot be read any more.
    async fn serve(&self, client: Client) -> Result<(), String> {
        let context = jetstream::new(client);
        let stream = self.bus.stream(&context).await?;
        let is_up = async {
            self.bus.is(Some(context.clone()));
            std::future::pending::<Result<(), String>>().await
        };
        tokio::select! {
            taken = self.take(&stream, false, IN_HAND.0) => taken,
            taken = self.take(&stream, true, IN_HAND.1) => taken,
            never = is_up => never,
        }
    }

    async fn take(&self, stream: &Stream, exempt: bool, at_most: usize) -> Result<(), String> {
        let said = |error: &dyn std::fmt::Display| format!("orders cannot be read: {error}");
        let pull = Pull {
            durable_name: Some(lane(exempt).to_owned()),
            filter_subject: self.bus.subject(lane(exempt), ">"),
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            ack_wait: HANDS_OFF,
            max_ack_pending: ORDERS,
            ..Pull::default()
        };
        let consumer = stream.get_or_create_consumer(lane(exempt), pull).await;
        let consumer = consumer.map_err(|error| said(&error))?;
        let places = Arc::new(Semaphore::new(at_most));
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let place = place.map_err(|error| said(&error))?;
            // One at a time: what is asked for in advance would lie here while another node has nothing to do.
            let mut orders = consumer
                .batch()
                .max_messages(1)
                .expires(SAY_EVERY)
                .messages()
                .await
                .map_err(|error| said(&error))?;
            let Some(order) = orders.next().await else {
                continue;
            };
            let (order, acker) = order.map_err(|error| said(&error))?.split();
            let office = Arc::clone(&self.office);
            let mut in_hand = lock(&self.in_hand);
            while in_hand.try_join_next().is_some() {}
            in_hand.spawn(async move {
                let _place = place;
                make(&office, &order.payload, &acker).await;
            });
        }
    }
}

/// Makes what an order asks for, and says so from time to time.
async fn make(office: &Office, order: &[u8], acker: &Acker) {
    let mine_until = Arc::new(Mutex::new(Instant::now() + HANDS_OFF));
    let of_delivery = Arc::clone(&mine_until);
    let is_mine = move || Instant::now() < *lock(&of_delivery);
    let saying = async {
        loop {
            tokio::time::sleep(SAY_EVERY).await;
            let asked = Instant::now();
            // Confirmed: a word that the broker did not get holds nothing.
            let said = acker.double_ack_with(AckKind::Progress);
            if let Ok(Ok(())) = tokio::time::timeout(SAY_EVERY, said).await {
                *lock(&mine_until) = asked + HANDS_OFF;
            } else if Instant::now() >= *lock(&mine_until) {
                return;
            }
        }
    };
    let made = tokio::select! {
        made = office.make_delivery(order, Arc::new(is_mine)) => made,
        // It is another node's by now.
        () = saying => return,
    };
    let word = match made {
        Made::Done => AckKind::Ack,
        Made::Later(after) => AckKind::Nak(Some(after)),
    };
    if let Err(error) = acker.ack_with(word).await {
        tracing::debug!(%error, "an order comes again, and is found settled");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
