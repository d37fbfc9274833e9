//! A vacant with a node inside this process: it answers calls that reach its door, and calls other vacants.
//!
//! Guarantees: a call is accepted once and has one answer; both are on record before they are told. A call of its own is
//! carried until its target has said what became of it, and an answer counts when it is signed by the target and next in
//! its chain.

use std::net::SocketAddr;
use std::sync::Arc;

use chancery_core::inbox::InboxName;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::line::{ProtocolName, Seq};
use chancery_doors::http::{ServeOptions, Server, serve};
use chancery_doors::{HttpCarrier, OutgoingTls, VacantsAbroad};
use chancery_node::suite::{AllSettings, Chancery};
use chancery_node::vacants::{Behaviour, HostedVacant, OnRestart, Vacants};
use chancery_node::{
    Clock, Entropy, GateLimits, Hands, Node, Office, Options, SideLogs, SoftLimits, Vault,
};
use chancery_vacant::id::VacantId;
use chancery_vacant::message::Message;
use chancery_vacant::payload::{Payload, Role};
use chancery_vacant::state::State;
use serde_json::{Value, json};

use crate::embedded::{Place, open};
use crate::error::{Error, Refused};

/// The name of the one vacant that the node hosts.
const NAME: &str = "vacant";

/// A vacant and its node.
pub struct Vacant {
    office: Arc<Office>,
    vacants: Arc<Vacants>,
    server: Server,
    id: VacantId,
    read: Seq,
}

/// A call that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its line.
    pub seq: Seq,
    /// Who called; the node has proven that.
    pub caller: String,
    /// What it says.
    pub text: String,
}

impl Vacant {
    /// Starts a node for the vacant of this seed, and takes calls at `listen`; port 0 picks a free one. Addresses of
    /// this machine and its network are called as well. Needs a tokio runtime.
    pub async fn start(
        seed: &[u8; 32],
        capability: &str,
        place: Place,
        listen: SocketAddr,
    ) -> Result<Self, Error> {
        let given = |error: &dyn std::fmt::Display| Error::Given(error.to_string());
        let failed = |error: &dyn std::fmt::Display| Error::Node(error.to_string());
        let key = SigningKey::from_seed(seed);
        let id = VacantId::of(&key);
        let vault = Arc::new(Vault::new());
        vault.hold(id.hex(), key);
        let tls = OutgoingTls::new(None).map_err(|error| given(&error))?;
        let abroad = Arc::new(VacantsAbroad::new(&tls, true));
        let carrier = HttpCarrier::with_tls(Default::default(), &tls);
        let office = Node::start(Options {
            suite: Arc::new(Chancery::default()),
            store: open(&place)?,
            vault,
            clock: Clock::System,
            entropy: Entropy::System,
            gate_limits: GateLimits::default(),
            soft_limits: SoftLimits::default(),
            carrier: Arc::new(carrier.with_vacants(Arc::clone(&abroad))),
            side_logs: SideLogs::default(),
            hands: Hands::Own,
            spans: None,
        });
        let office: Arc<Office> = Arc::new(office.map_err(|error| failed(&error))?);
        let vacants = Vacants::new(Arc::clone(&office), vec![hosted(id, capability)], Some(0));
        let vacants = Arc::new(vacants.with_scout(Arc::clone(&abroad) as Arc<_>));
        abroad.begin(&vacants);
        let mut options = ServeOptions::new(listen);
        options.vacants = Some(Arc::clone(&vacants));
        let server = serve(Arc::clone(&office), options).map_err(|error| given(&error))?;
        let base = format!("http://{}", server.listening().address);
        let settings = AllSettings::default();
        let in_line = office.reconcile_settings(&settings).await;
        in_line.map_err(|error| given(&error))?;
        let in_line = vacants.reconcile(&base).await;
        in_line.map_err(|error| given(&error))?;
        vacants.resume().await.map_err(|error| failed(&error))?;
        let read = office.inboxes().cursor(&inbox());
        Ok(Self {
            read: read.map_err(|error| failed(&error))?,
            office,
            vacants,
            server,
            id,
        })
    }

    /// Its id.
    pub fn id(&self) -> String {
        self.id.hex()
    }

    /// The address of its card: what callers need to know.
    pub fn card(&self) -> String {
        format!("http://{}/card", self.server.listening().address)
    }

    /// Calls the vacant whose card is at an address; gives what it says.
    pub async fn call(&self, card: &str, says: &str) -> Result<String, Error> {
        let body = json!({"from": NAME, "to": card, "text": says}).to_string();
        let sent = self.vacants.send(body.as_bytes(), None, |_| true).await;
        let reply = sent.ok_or(Error::NotLetIn(403))?;
        let told: Value = serde_json::from_slice(&reply.body)
            .map_err(|error| Error::Answer(error.to_string()))?;
        if reply.status != 200 {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(Error::Refused(Refused {
                code: text(&told["error"]["data"][0]["reason"]),
                message: text(&told["error"]["message"]),
                path: None,
                retryable: reply.status == 503,
            }));
        }
        let parts = told["result"]["message"]["parts"].as_array();
        let texts = parts.into_iter().flatten();
        let texts: Vec<&str> = texts.filter_map(|part| part["text"].as_str()).collect();
        Ok(texts.join(" "))
    }

    /// The next call, waited for. One that is not answered is shown again after a start.
    pub async fn next(&mut self) -> Result<Heard, Error> {
        let failed = |error: chancery_store::StoreError| Error::Node(error.to_string());
        loop {
            let inboxes = self.office.inboxes();
            inboxes.wait(&inbox(), self.read).await.map_err(failed)?;
            for entry in inboxes.read(&inbox(), self.read, 1).map_err(failed)? {
                self.read = entry.seq;
                let line = chancery_journal::line::parse(&entry.line)
                    .map_err(|fault| Error::Node(fault.to_string()))?;
                // Answers to calls of its own are told to whoever made them.
                if line.meta_json("answers").is_some() {
                    continue;
                }
                let message = Message::of_record(line.received())
                    .map_err(|error| Error::Node(error.to_string()))?;
                return Ok(Heard {
                    seq: entry.seq,
                    caller: message.envelope.from.hex(),
                    text: message.envelope.payload.joined(),
                });
            }
        }
    }

    /// Answers a call: signed, and on record when this returns.
    pub async fn answer(&self, heard: &Heard, says: &str) -> Result<(), Error> {
        let says = Payload::text(Role::Agent, says);
        let answered = self.vacants.answer(&self.id, heard.seq, says).await;
        answered.map_err(|refusal| Error::Refused(Refused::from(&refusal)))?;
        let moved = self.office.inboxes().acknowledge(&inbox(), heard.seq);
        moved.map_err(|error| Error::Node(error.to_string()))?;
        Ok(())
    }

    /// Stops the door, then the node.
    pub async fn stop(self) -> Result<(), Error> {
        self.server.stop().await;
        let stopped = self.office.stop().await;
        stopped.map_err(|error| Error::Node(error.to_string()))
    }
}

fn hosted(id: VacantId, capability: &str) -> HostedVacant {
    HostedVacant {
        name: NAME.to_owned(),
        id,
        first_state: State::Active,
        capability: capability.to_owned(),
        behaviour: Behaviour::Inbox,
        on_restart: OnRestart::Rerun,
        participant: None,
    }
}

fn inbox() -> InboxName {
    InboxName {
        protocol: ProtocolName::Vacant,
        agent: NAME.to_owned(),
    }
}

impl std::fmt::Debug for Vacant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vacant({})", self.id.short())
    }
}
