//! The side that calls: one connection to each WebSocket address, made again whenever it is gone (VX-WS-7).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chancery_node::Office;
use hashbrown::HashSet;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::Role;
use url::Url;

use super::pace::Pace;
use super::{Conversation, Doorkeeper, Ears, Line, Switchboard, Terms, WsLimits, handshake};
use crate::outgoing_tls::OutgoingTls;
use crate::routes::may_be_used;

/// Keeps connections to the addresses of remote agents.
pub struct Dialer {
    caller: Arc<Caller>,
    stop: watch::Sender<bool>,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    /// The agents at each address; dropping the sender ends the call.
    at: BTreeMap<String, (BTreeSet<String>, watch::Sender<()>)>,
    tasks: JoinSet<()>,
}

/// What all calls share.
struct Caller {
    office: Arc<Office>,
    switchboard: Arc<Switchboard>,
    tls: Arc<OutgoingTls>,
    limits: WsLimits,
}

impl Dialer {
    /// A dialer that calls nobody yet.
    pub fn new(
        office: Arc<Office>,
        switchboard: Arc<Switchboard>,
        tls: Arc<OutgoingTls>,
        limits: WsLimits,
    ) -> Self {
        let caller = Arc::new(Caller {
            office,
            switchboard,
            tls,
            limits,
        });
        Self {
            caller,
            stop: watch::Sender::new(false),
            calls: Mutex::default(),
        }
    }

    /// Keeps connections to these addresses from here on. Needs a runtime.
    pub fn call(&self, addresses: &BTreeMap<String, String>) {
        let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (agent, address) in addresses {
            let is_ours = Url::parse(address)
                .is_ok_and(|url| matches!(url.scheme(), "ws" | "wss") && may_be_used(&url));
            if is_ours {
                wanted
                    .entry(address.clone())
                    .or_default()
                    .insert(agent.clone());
            }
        }
        let mut calls = self.lock();
        calls
            .at
            .retain(|address, (agents, _)| wanted.get(address) == Some(agents));
        for (address, agents) in wanted {
            if calls.at.contains_key(&address) {
                continue;
            }
            let (keep, kept) = watch::channel(());
            let caller = Arc::clone(&self.caller);
            let stop = self.stop.subscribe();
            let call = call(caller, address.clone(), agents.clone(), kept, stop);
            calls.tasks.spawn(call);
            calls.at.insert(address, (agents, keep));
        }
        while calls.tasks.try_join_next().is_some() {}
    }

    /// Closes all connections.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        let mut tasks = std::mem::take(&mut self.lock().tasks);
        let ended = async { while tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_secs(3), ended).await;
        tasks.shutdown().await;
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls one address until it is not wanted any more.
async fn call(
    caller: Arc<Caller>,
    address: String,
    agents: BTreeSet<String>,
    mut kept: watch::Receiver<()>,
    mut stop: watch::Receiver<bool>,
) {
    let mut pace = Pace::new();
    let unwanted = async move {
        tokio::select! {
            // Nothing is ever sent: a change is that the address is gone.
            _ = kept.changed() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    };
    let mut unwanted = std::pin::pin!(unwanted);
    loop {
        let connected = tokio::select! {
            biased;
            () = &mut unwanted => return,
            connected = caller.connect(&address) => connected,
        };
        let mut lasted = Duration::ZERO;
        if let Some((stream, status)) = connected {
            let since = Instant::now();
            let mut told = false;
            let stopped = async {
                (&mut unwanted).await;
                told = true;
            };
            caller.talk(stream, status, &agents, stopped).await;
            if told {
                return;
            }
            lasted = since.elapsed();
        }
        tokio::select! {
            biased;
            () = &mut unwanted => return,
            () = tokio::time::sleep(pace.pause(lasted)) => {}
        }
    }
}

impl Caller {
    async fn connect(&self, address: &str) -> Option<(TokioIo<Upgraded>, bool)> {
        let url = Url::parse(address).ok()?;
        match handshake::call(&url, &self.tls, &handshake::Upgrade::VALUE_CONTEXT).await {
            Ok(connected) => Some(connected),
            Err(error) => {
                tracing::info!(%error, "a WebSocket connection could not be made; it is tried again");
                None
            }
        }
    }

    async fn talk(
        &self,
        stream: TokioIo<Upgraded>,
        status: bool,
        agents: &BTreeSet<String>,
        stop: impl Future<Output = ()>,
    ) {
        let greetings = self.greet(agents).await;
        let (outgoing, to_write) = mpsc::channel(self.limits.outgoing_frames);
        let line = Line {
            number: self.switchboard.number(),
            outgoing,
            is_own_call: true,
        };
        let mut ears = Ears {
            office: Arc::clone(&self.office),
            switchboard: Arc::clone(&self.switchboard),
            line: line.clone(),
            doorkeeper: Box::new(Chosen),
            answers_greetings: false,
            agents_at_most: self.limits.agents,
            behind: HashSet::new(),
            greeted: HashSet::new(),
        };
        for agent in agents {
            ears.behind.insert(agent.clone());
            self.switchboard.learn(agent, &line);
        }
        let terms = Terms {
            role: Role::Client,
            status,
            limits: self.limits,
            max_bytes: self.office.gate().settings().value_context.max_bytes,
            greetings,
        };
        let conversation = Conversation::new(stream, ears, to_write, terms).await;
        conversation.run(stop).await;
    }

    /// Every hosted agent that knows one there, and has a context, shares it; gives the messages' identifiers.
    async fn greet(&self, agents: &BTreeSet<String>) -> HashSet<String> {
        let mut greetings = HashSet::new();
        for theirs in agents {
            for ours in self.office.acquaintances(theirs) {
                match self.office.greet_value_context(&ours, theirs).await {
                    Ok(Some(sent)) => {
                        greetings.insert(sent.message_id);
                    }
                    Ok(None) => {}
                    Err(refusal) => tracing::debug!(%refusal, "a greeting was not sent"),
                }
            }
        }
        greetings
    }
}

/// An address that the operator chose is not limited by its failures; dropped frames end its connection.
struct Chosen;

impl Doorkeeper for Chosen {
    fn lets_in(&self, _: &[u8]) -> bool {
        true
    }

    fn failed(&self) {}
}
