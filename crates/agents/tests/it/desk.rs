//! A node over a small world, people who post to it, and agents that take turns on it by hand.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use chancery_agents::behaviour::Infer;
use chancery_agents::context::Context;
use chancery_agents::host::with_snapshot;
use chancery_agents::memory::Memory;
use chancery_agents::turn::{Turn, run};
use chancery_agents::{Agent, Inbound, TurnRecord};
use chancery_core::refusal::Refusal;
use chancery_core::rows::MapRows;
use chancery_core::time::parse_vibe;
use chancery_journal::{Replayer, prepare};
use chancery_node::suite::{AllSettings, Chancery};
use chancery_node::{
    Clock, Entropy, GateLimits, Hands, NoCarrier, Node, Office, Options, SideLogs, SoftLimits,
    Vault,
};
use chancery_store::{Memory as MemoryStore, Store};
use chancery_vibe::agent::AgentRecord;
use chancery_vibe::settings::Settings;
use chancery_vibe::world::seed::Seed;
use serde_json::{Value, json};

/// The floor of the merchant `m1` for `sku`.
pub const FLOOR: u64 = 9_000;
/// The budget of the consumer `c1`.
pub const BUDGET: u64 = 11_500;

/// Two merchants and two consumers with money.
pub fn world() -> Value {
    json!({
        "seed_id": "agents", "currency": "USD",
        "policy": {"verification_version": "verify-1", "ranking_version": "rank-1", "min_reputation": 0,
                   "cert_ttl_s": 900, "auth_ttl_s": 900, "freshness_window_s": 300},
        "merchants": [
            {"merchant_id": "m1", "name": "One", "account_id": "a_m1"},
            {"merchant_id": "m2", "name": "Two", "account_id": "a_m2"}],
        "catalog": [
            {"merchant_id": "m1", "sku_id": "sku", "title": "Quiet keyboard", "attributes": ["quiet"],
             "list_price": 12900, "eta_days": 2, "refundable": true},
            {"merchant_id": "m2", "sku_id": "sku", "title": "Loud keyboard", "attributes": [],
             "list_price": 9900, "eta_days": 3, "refundable": true}],
        "inventory": [
            {"merchant_id": "m1", "sku_id": "sku", "on_hand": 500, "reserved": 0},
            {"merchant_id": "m2", "sku_id": "sku", "on_hand": 500, "reserved": 0}],
        "ledger": [
            {"account_id": "a_c1", "owner": "c1", "currency": "USD", "balance": 1_000_000},
            {"account_id": "a_c2", "owner": "c2", "currency": "USD", "balance": 1_000_000},
            {"account_id": "a_m1", "owner": "m1", "currency": "USD", "balance": 0},
            {"account_id": "a_m2", "owner": "m2", "currency": "USD", "balance": 0}],
        "reputation": [{"merchant_id": "m1", "score": 800}],
    })
}

/// A node and what was posted to it.
pub struct Desk {
    pub office: Arc<Office>,
    seed: Arc<Seed>,
    runtime: tokio::runtime::Runtime,
    sent: Mutex<u32>,
}

/// A merchant's agent.
pub fn merchant(name: &str, merchant_id: &str) -> Agent {
    Agent::new(
        name,
        AgentRecord {
            address: "merchant".to_owned(),
            consumer_id: None,
            merchant_id: Some(merchant_id.to_owned()),
            agent: None,
        },
    )
}

/// A buyer's agent.
pub fn buyer(name: &str, consumer_id: &str) -> Agent {
    Agent::new(
        name,
        AgentRecord {
            address: "buyer".to_owned(),
            consumer_id: Some(consumer_id.to_owned()),
            merchant_id: None,
            agent: None,
        },
    )
}

/// A node's office over a store.
pub async fn office(store: Arc<dyn Store>, seed: &Arc<Seed>) -> Arc<Office> {
    let office = Node::start(Options {
        suite: Arc::new(Chancery::with_seed(Arc::clone(seed))),
        store,
        vault: Arc::new(Vault::new()),
        clock: Clock::fixed(parse_vibe("2026-05-15T12:00:00Z").unwrap()),
        entropy: Entropy::System,
        gate_limits: GateLimits::default(),
        soft_limits: SoftLimits::default(),
        carrier: Arc::new(NoCarrier),
        side_logs: SideLogs::default(),
        hands: Hands::Own,
        spans: None,
    });
    let office: Arc<Office> = Arc::new(office.unwrap());
    let settings = AllSettings {
        vibe: seed.in_settings(Settings::default()),
        ..AllSettings::default()
    };
    office.reconcile_settings(&settings).await.unwrap();
    office
}

/// The seed of [`world`].
pub fn seed() -> Arc<Seed> {
    Arc::new(Seed::parse(world().to_string().as_bytes()).unwrap())
}

impl Desk {
    /// A node with these agents on record; the merchant `m1` has a goal, the session `s1` a mandate of `c1`.
    pub fn new(agents: &[&Agent]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let seed = seed();
        let office = runtime.block_on(office(Arc::new(MemoryStore::new()), &seed));
        let desk = Self {
            office,
            seed,
            runtime,
            sent: Mutex::new(0),
        };
        for agent in agents {
            let put = desk.office.reconcile_vibe_agent(&agent.name, &agent.record);
            desk.runtime.block_on(put).unwrap();
        }
        desk.post(goal("m1", "sg")).unwrap();
        desk.post(mandate("c1", "s1")).unwrap();
        desk
    }

    /// Posts an envelope as from outside; members that are not given are filled in. Gives its `msg_id`.
    pub fn post(&self, mut envelope: Value) -> Result<String, Refusal> {
        let number = {
            let mut sent = self.sent.lock().unwrap();
            *sent += 1;
            *sent
        };
        let members = envelope.as_object_mut().unwrap();
        members
            .entry("msg_id")
            .or_insert(json!(format!("msg-{number}")));
        members
            .entry("idempotency_key")
            .or_insert(json!(format!("key-{number}")));
        let more = [
            ("protocol", "vcp"),
            ("version", "1.0"),
            ("ts", "2026-05-15T12:00:00Z"),
            ("session_id", "s1"),
        ];
        for (name, value) in more {
            members.entry(name).or_insert(json!(value));
        }
        let msg_id = envelope["msg_id"].as_str().unwrap().to_owned();
        let raw = Bytes::from(envelope.to_string());
        let received = self.office.receive_vibe(raw, None, None);
        self.runtime.block_on(received).map(|_| msg_id)
    }

    /// The buyer asks `m1` for an offer; gives the envelope's identifier.
    pub fn ask(&self, session_id: &str) -> String {
        let envelope = json!({
            "from": "buyer:negotiation", "to": "merchant:pricing", "session_id": session_id,
            "action": {"kind": "commerce.request_offer", "payload": {
                "merchant_id": "m1", "sku_id": "sku", "inquiry": "is it quiet?"}},
        });
        self.post(envelope).unwrap()
    }

    /// The latest envelope in an agent's inboxes.
    pub fn latest(&self, agent: &Agent) -> Arc<Inbound> {
        let entries = agent.inboxes().into_iter().flat_map(|name| {
            let read = self.office.inboxes().read(&name, 0, 1_000);
            read.unwrap()
        });
        let entry = entries.max_by_key(|entry| entry.seq).unwrap();
        let line = chancery_journal::line::parse(&entry.line).unwrap();
        Arc::new(Inbound::read(entry.seq, &line.envelope).unwrap())
    }

    /// Lets an agent take the turn of an envelope.
    pub fn turn(
        &self,
        agent: &Agent,
        inbound: &Arc<Inbound>,
        memory: Memory,
        behaviour: &dyn Infer,
    ) -> (TurnRecord, Memory) {
        let turn = Turn::new(Arc::new(agent.clone()), Arc::clone(inbound), memory);
        with_snapshot(&self.office, agent, |snapshot| {
            run(turn, behaviour, snapshot, |outbound| {
                let sent = self
                    .office
                    .send_hosted_vibe(&agent.name, inbound.seq, outbound.message);
                self.runtime.block_on(sent)
            })
        })
    }

    /// A turn on the latest envelope, by outputs written down.
    pub fn play(&self, agent: &Agent, outputs: &[Value]) -> (TurnRecord, Memory, Vec<Value>) {
        let played = Outputs::new(outputs);
        let inbound = self.latest(agent);
        let (record, memory) = self.turn(agent, &inbound, Memory::default(), &played);
        let seen = played.seen.into_inner().unwrap();
        (record, memory, seen)
    }

    /// A turn on the latest envelope that must not reach the gate.
    pub fn play_unsent(&self, agent: &Agent, outputs: &[Value]) -> TurnRecord {
        let (played, inbound) = (Outputs::new(outputs), self.latest(agent));
        let turn = Turn::new(Arc::new(agent.clone()), inbound, Memory::default());
        with_snapshot(&self.office, agent, |snapshot| {
            run(turn, &played, snapshot, |outbound| {
                let text = String::from_utf8_lossy(&outbound.text).into_owned();
                panic!("it reached the gate: {text}")
            })
        })
        .0
    }

    /// How many lines the log has.
    pub fn head(&self) -> u64 {
        self.office.gate().store().head().seq
    }

    /// The lines of the log.
    pub fn lines(&self) -> Vec<Bytes> {
        self.office.gate().store().lines(1, usize::MAX).unwrap()
    }

    /// The last line.
    pub fn last(&self) -> Value {
        serde_json::from_slice(self.lines().last().unwrap()).unwrap()
    }

    /// Replays the log and asserts that the rules give every line again.
    pub fn assert_replays(&self) {
        assert_replays(&self.lines(), &self.seed);
    }
}

/// Replays a log and asserts that the rules give every line again.
pub fn assert_replays(lines: &[Bytes], seed: &Arc<Seed>) {
    let suite = || Chancery::with_seed(Arc::clone(seed));
    let mut replayer = Replayer::new(suite(), MapRows::default()).unwrap();
    for line in lines {
        let keys = replayer.keyring().clone();
        replayer.take(prepare(&suite(), line.clone(), &keys));
    }
    let (report, _) = replayer.finish();
    assert_eq!(report.divergence, None);
    assert_eq!(report.replayed, lines.len() as u64);
}

/// The goal of a merchant.
pub fn goal(merchant_id: &str, session_id: &str) -> Value {
    json!({
        "from": "merchant:owner", "to": "merchant:pricing", "session_id": session_id,
        "action": {"kind": "delegate.set_business_goal", "payload": {
            "offer_mandate_id": format!("om-{merchant_id}"), "merchant_id": merchant_id, "goal": "sell",
            "skus": ["sku"],
            "pricing": {"list_price": 12_900, "floor_price": FLOOR, "floor_currency": "USD"},
            "permitted_claims": ["quiet"], "fulfillment": {"methods": ["courier"]}, "valid_until": null}},
    })
}

/// The mandate of a consumer.
pub fn mandate(consumer_id: &str, session_id: &str) -> Value {
    json!({
        "from": "consumer:persona", "to": "buyer:intent", "session_id": session_id,
        "action": {"kind": "delegate.create_purchase_mandate", "payload": {
            "mandate_id": format!("mandate-{session_id}"), "consumer_id": consumer_id,
            "ap2_intent_mandate": {"goal": "quiet keyboard", "merchants": null, "skus": null,
                "requires_refundability": false, "intent_expiry": "2026-06-15T12:00:00Z"},
            "ap2_cart_mandate": null,
            "authority": {"can_buy_without_confirmation": true, "max_spend_without_confirmation": 1_000_000,
                "can_negotiate": true, "can_accept_substitutes": false,
                "can_share_with_merchant": [], "must_not_share_with_merchant": []},
            "hard_constraints": {"budget": BUDGET, "currency": "USD", "must_have": []},
            "payment_instrument": {"type": "account", "account_id": format!("a_{consumer_id}")}}},
    })
}

/// An offer of `m1` as a merchant's agent decides it.
pub fn offer(in_reply_to: &str, unit_price: &Value) -> Value {
    json!({
        "decision": "emit_envelope", "to": "buyer:negotiation", "in_reply_to": in_reply_to,
        "idempotency_key": format!("offer-{in_reply_to}"),
        "action": {"kind": "commerce.propose_offer", "payload": {
            "offer_id": format!("off-{in_reply_to}"), "merchant_id": "m1", "sku_id": "sku", "qty": 1,
            "unit_price": unit_price, "fulfillment": {"method": "courier", "eta_days": 2},
            "claims": ["quiet"], "expires_at": "2026-05-15T13:00:00Z"}},
    })
}

/// An answer to a question.
pub fn answer(in_reply_to: &str, text: &str) -> Value {
    json!({
        "decision": "emit_envelope", "to": "buyer:negotiation", "in_reply_to": in_reply_to,
        "idempotency_key": null,
        "action": {"kind": "commerce.respond_inquiry", "payload": {"answer": text}},
    })
}

/// A memory update.
pub fn keep(key: &str, value: &Value, kind: &str, tag: Option<&str>) -> Value {
    json!({"decision": "memory_update", "key": key, "value": value, "type": kind, "tag": tag})
}

/// Saying nothing.
pub fn no_reply() -> Value {
    json!({"decision": "no_reply", "reason": "nothing to say"})
}

/// A behaviour that plays outputs, and notes what it was shown. A text is played as it is.
pub struct Outputs {
    outputs: Vec<Value>,
    pub seen: Mutex<Vec<Value>>,
}

impl Outputs {
    pub fn new(outputs: &[Value]) -> Self {
        Self {
            outputs: outputs.to_vec(),
            seen: Mutex::default(),
        }
    }
}

impl Infer for Outputs {
    fn infer(&self, context: &Context<'_>) -> String {
        let parts = context.parts().into_iter();
        let parts = parts.map(|(name, part)| json!({"name": name, "is": part}));
        self.seen.lock().unwrap().push(parts.collect());
        let step = usize::try_from(context.step - 1).unwrap();
        match self.outputs.get(step) {
            Some(Value::String(text)) => text.clone(),
            Some(output) => output.to_string(),
            None => no_reply().to_string(),
        }
    }
}

/// A part of a context that was shown.
pub fn part<'v>(seen: &'v Value, name: &str) -> &'v Value {
    let parts = seen.as_array().unwrap();
    let part = parts.iter().find(|part| part["name"] == name);
    &part.unwrap()["is"]
}

/// The codes of a record's steps.
pub fn codes(record: &TurnRecord) -> Vec<Option<&'static str>> {
    record.steps.iter().map(|step| step.code).collect()
}
