//! A market of rule-based agents over a node of its own: reproducible to the byte.
//!
//! Guarantees: the same seed and sizes give the same log, on another day and with another number of threads. The clock
//! is the market's own; a round's turns are decided on what was committed before it, side by side, and what they say
//! goes to the gate in the order of the envelopes that they answer.

mod chance;
mod people;
mod report;
mod round;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chancery_core::digest::Sha256Digest;
use chancery_core::ids::{ObjectKind, object_id, v4};
use chancery_core::protocol::Suite as _;
use chancery_core::refusal::Refusal;
use chancery_core::time::{Time, format_audit};
use chancery_node::suite::{AllSettings, Chancery};
use chancery_node::{
    Clock, Entropy, GateLimits, Hands, NoCarrier, Node, Office, Options, SideLogs, SoftLimits,
    Vault,
};
use chancery_store::{Embedded, Memory as MemoryStore, Options as StoreOptions, Store, recover};
use chancery_vibe::agent::AgentRecord;
use chancery_vibe::settings::Settings;
use chancery_vibe::world::read::Reader;
use chancery_vibe::world::seed::Seed;
use serde_json::{Value, json};

pub use report::Report;

use crate::agent::Agent;
use crate::behaviour::roles;
use people::{People, consumer, merchant};
use round::{Player, Said};

/// When every market begins: 2026-01-01T00:00:00Z.
const BEGINS: i64 = 1_767_225_600;
/// How long a consumer's wish lasts: longer than any market.
const WISH_LASTS: Duration = Duration::from_secs(30 * 86_400);
/// Rounds after which a market ends whatever is left: a deal takes about thirty.
const ROUNDS_A_DEAL: u64 = 200;

/// How large a market is, and the seed that it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Consumers, each with a buyer's agent.
    pub buyers: u64,
    /// Merchants, each with an agent.
    pub merchants: u64,
    /// Wishes in all.
    pub deals: u64,
    /// The seed.
    pub seed: u64,
}

/// Why a market could not be held.
#[derive(Debug, thiserror::Error)]
#[error("the market cannot be held: {0}")]
pub struct MarketError(pub String);

fn failed(error: impl std::fmt::Display) -> MarketError {
    MarketError(error.to_string())
}

/// A market under way.
struct Market {
    office: Arc<Office>,
    clock: Clock,
    people: People,
    players: Vec<Player>,
    /// Envelopes that people have posted.
    posted: u64,
    /// Sessions that were settled, with the envelope that did it, and are not dispatched yet.
    to_dispatch: Vec<(String, String)>,
    report: Report,
    threads: usize,
}

/// Holds a market in `dir`, or in memory, with so many threads; `told` hears of deals that came to their end.
///
/// # Errors
/// The directory cannot be used, or the node failed.
pub async fn hold(
    size: Size,
    threads: usize,
    dir: Option<&Path>,
    mut told: impl FnMut(u64),
) -> Result<Report, MarketError> {
    let people = People::of(size);
    let world = people.world().to_string();
    let seed = Arc::new(Seed::parse(world.as_bytes()).map_err(failed)?);
    let suite = Chancery::with_seed(Arc::clone(&seed));
    let store = open(dir, &suite)?;
    if let Some(dir) = dir {
        keep_seed(dir, &seed.digest.hex(), &world)?;
    }
    let clock = Clock::fixed(at(0));
    let office = start(suite, store, clock.clone())?;
    let settings = AllSettings {
        vibe: seed.in_settings(Settings::default()),
        ..AllSettings::default()
    };
    office.reconcile_settings(&settings).await.map_err(failed)?;
    let mut market = Market {
        office,
        clock,
        players: Vec::new(),
        people,
        posted: 0,
        to_dispatch: Vec::new(),
        report: Report::default(),
        threads: threads.max(1),
    };
    let began = Instant::now();
    market.host_agents(size).await?;
    market.play(size, &mut told).await?;
    let report = market.close(began).await?;
    Ok(report)
}

fn open(dir: Option<&Path>, suite: &Chancery) -> Result<Arc<dyn Store>, MarketError> {
    let Some(dir) = dir else {
        return Ok(Arc::new(MemoryStore::new()));
    };
    let options = StoreOptions {
        windows: suite.windows(),
        ..StoreOptions::new(dir)
    };
    let (store, tail) = Embedded::open(&options).map_err(failed)?;
    recover(suite, &store, &tail).map_err(failed)?;
    if store.head().seq > 0 {
        let reason = format!("{} holds a log already", dir.display());
        return Err(MarketError(reason));
    }
    Ok(Arc::new(store))
}

/// The seed beside the log, as a node keeps it (CH-JRN-12).
fn keep_seed(dir: &Path, digest: &str, world: &str) -> Result<(), MarketError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = dir.join(format!("seed-{digest}.json"));
    let mut file = std::fs::OpenOptions::new();
    let mut file = file
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    std::io::Write::write_all(&mut file, world.as_bytes()).map_err(failed)
}

fn start(suite: Chancery, store: Arc<dyn Store>, clock: Clock) -> Result<Arc<Office>, MarketError> {
    let node = Node::start(Options {
        suite: Arc::new(suite),
        store,
        vault: Arc::new(Vault::new()),
        clock,
        entropy: Entropy::Seed(0),
        gate_limits: GateLimits::default(),
        soft_limits: SoftLimits::default(),
        carrier: Arc::new(NoCarrier),
        side_logs: SideLogs::default(),
        hands: Hands::Own,
        spans: None,
    });
    node.map(Arc::new).map_err(failed)
}

/// The time of a round.
fn at(round: u64) -> Time {
    let seconds = BEGINS.saturating_add(i64::try_from(round).unwrap_or(i64::MAX));
    Time::from_unix_seconds(seconds).unwrap_or(Time::MAX)
}

impl Market {
    async fn host_agents(&mut self, size: Size) -> Result<(), MarketError> {
        let record = |address: &str, consumer_id, merchant_id| AgentRecord {
            address: address.to_owned(),
            consumer_id,
            merchant_id,
            agent: None,
        };
        let mut agents = Vec::new();
        for number in 0..size.merchants {
            let id = Some(merchant(number));
            agents.push((
                format!("merchant-{number}"),
                record("merchant", None, id),
                "merchant",
            ));
        }
        for number in 0..size.buyers {
            let id = Some(consumer(number));
            agents.push((
                format!("buyer-{number}"),
                record("buyer", id, None),
                "buyer",
            ));
        }
        let judge = record("platform:adjudicator", None, None);
        agents.push(("adjudicator".to_owned(), judge, "adjudicator"));
        agents.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, record, role) in agents {
            self.office
                .reconcile_vibe_agent(&name, &record)
                .await
                .map_err(failed)?;
            let behaviour = roles::role(role).ok_or_else(|| failed("no such role"))?;
            self.players
                .push(Player::new(Agent::new(&name, record), behaviour));
        }
        Ok(())
    }

    /// Round by round: people first, then the agents' turns.
    async fn play(&mut self, size: Size, told: &mut impl FnMut(u64)) -> Result<(), MarketError> {
        for item in self.people.items.clone() {
            let session = format!("goal-{}-{}", item.merchant_id, item.sku_id);
            let way = (
                "merchant:owner",
                "merchant:pricing",
                "delegate.set_business_goal",
            );
            self.post(way, &session, &item.goal()).await?;
        }
        let mut started = 0;
        for round in 0..size.deals.saturating_add(1).saturating_mul(ROUNDS_A_DEAL) {
            self.clock.set(at(round));
            let wave = size.buyers.min(size.deals - started);
            for deal in started..started + wave {
                self.wish(deal).await?;
            }
            started += wave;
            let acted = self.answer_the_gate().await? + self.dispatch().await?;
            let turns = self.take_turns().await?;
            told(self.report.deals_ended());
            if started == size.deals && acted == 0 && turns == 0 && self.to_dispatch.is_empty() {
                break;
            }
        }
        Ok(())
    }

    async fn wish(&mut self, deal: u64) -> Result<(), MarketError> {
        let index = usize::try_from(deal).map_err(failed)?;
        let wish = self.people.wishes[index].clone();
        let until = at(0).saturating_add(WISH_LASTS);
        let way = (
            "consumer:persona",
            "buyer:intent",
            "delegate.create_purchase_mandate",
        );
        self.report.deals += 1;
        self.post(
            way,
            &wish.session_id,
            &wish.mandate(format_audit(until).as_str()),
        )
        .await
    }

    /// People look at the purchases that wait for them.
    async fn answer_the_gate(&mut self) -> Result<usize, MarketError> {
        let waiting = self.office.vibe_approvals(&Reader::Psp).map_err(failed)?;
        let waiting: Value = serde_json::from_slice(&waiting).map_err(failed)?;
        let waiting = waiting["approvals"].as_array().cloned().unwrap_or_default();
        let mut answered = 0;
        for one in waiting {
            let session = one["session_id"].as_str().unwrap_or_default().to_owned();
            let wish = self
                .people
                .wishes
                .iter()
                .find(|wish| wish.session_id == session);
            let Some(approves) = wish.map(|wish| wish.approves) else {
                continue;
            };
            let cert_id = &one["cert"]["cert_id"];
            let (kind, payload) = if approves {
                ("delegate.approve_purchase", json!({"cert_id": cert_id}))
            } else {
                self.report.rejected_by_people += 1;
                (
                    "delegate.reject_purchase",
                    json!({"cert_id": cert_id, "reason": "not this one"}),
                )
            };
            self.post(
                ("consumer:persona", "buyer:authorization", kind),
                &session,
                &payload,
            )
            .await?;
            answered += 1;
        }
        Ok(answered)
    }

    /// Warehouses send what was paid.
    async fn dispatch(&mut self) -> Result<usize, MarketError> {
        let paid = std::mem::take(&mut self.to_dispatch);
        for (session, settle_msg_id) in &paid {
            let wish = self
                .people
                .wishes
                .iter()
                .find(|wish| wish.session_id == *session);
            let mut payload = json!({
                "order_id": object_id(ObjectKind::Order, settle_msg_id), "carrier": "courier",
            });
            if wish.is_none_or(|wish| wish.has_tracking) {
                payload["tracking"] = json!(format!("track-{session}"));
            }
            let way = (
                "merchant:fulfillment",
                "buyer:authorization",
                "commerce.dispatch",
            );
            self.post(way, session, &payload).await?;
        }
        Ok(paid.len())
    }

    /// An envelope of a person.
    async fn post(
        &mut self,
        (from, to, kind): (&str, &str, &str),
        session_id: &str,
        payload: &Value,
    ) -> Result<(), MarketError> {
        self.posted += 1;
        let mut first = [0; 16];
        let material = format!("people:{}", self.posted);
        first.copy_from_slice(&Sha256Digest::of(material.as_bytes()).0[..16]);
        let id = v4(first).to_string();
        let envelope = json!({
            "protocol": "vcp", "version": "1.0", "msg_id": id,
            "ts": format_audit(self.clock.now()).as_str(),
            "from": from, "to": to, "session_id": session_id, "in_reply_to": null,
            "idempotency_key": id, "signature": null,
            "action": {"kind": kind, "payload": payload},
        });
        let raw = Bytes::from(envelope.to_string());
        match self.office.receive_vibe(raw, None, None).await {
            Ok(_) => Ok(()),
            Err(refusal) => {
                self.report.refused(refusal.code);
                Ok(())
            }
        }
    }

    /// One turn for every envelope that waits: decided side by side, said one after the other.
    async fn take_turns(&mut self) -> Result<usize, MarketError> {
        let moves = round::decide(&self.office, &mut self.players, self.threads).map_err(failed)?;
        let count = moves.len();
        for one in moves {
            let said = self.finish(one).await?;
            self.note(&said);
        }
        Ok(count)
    }

    /// Takes what a turn says to the gate; one that is refused goes on.
    async fn finish(&mut self, mut one: round::Move) -> Result<Said, MarketError> {
        while let Some(outbound) = one.outbound.take() {
            let player = &self.players[one.player];
            let message = outbound.message.clone();
            let sent = self
                .office
                .send_hosted_vibe(&player.agent.name, one.inbound.seq, message)
                .await;
            let refusal: Option<Refusal> = sent.err();
            one.go_on(&self.office, player, refusal.as_ref());
            if refusal.is_none() {
                one.sent = Some(outbound);
            }
        }
        Ok(one.end(&mut self.players))
    }

    fn note(&mut self, said: &Said) {
        self.report.take(said, &self.people);
        if let Some((kind, message)) = &said.sent
            && kind == "platform.settle_payment"
        {
            let settled = (message.session_id.clone(), message.msg_id.clone());
            self.to_dispatch.push(settled);
        }
    }

    /// Looks at what came of it all, and stops the node.
    async fn close(mut self, began: Instant) -> Result<Report, MarketError> {
        self.report.close(&self.office, &self.people)?;
        self.report.elapsed = began.elapsed();
        self.office.stop().await.map_err(failed)?;
        Ok(self.report)
    }
}
