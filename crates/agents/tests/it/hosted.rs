//! Agents in a node: a turn for every envelope, restarts, suspension, the human gate, and agents that misbehave.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chancery_agents::behaviour::{
    Behaviour, Echo, Infer, InferElsewhere, Inferred, Request, Script, Unanswered,
};
use chancery_agents::budget::Usage;
use chancery_agents::context::Context;
use chancery_agents::host::{Agents, Hosted, progress};
use chancery_agents::{Agent, Outcome};
use chancery_core::admin::{Act, RunState, TokenRecord};
use chancery_core::line::ProtocolName;
use chancery_core::protocol::Suite as _;
use chancery_node::Office;
use chancery_node::suite::Chancery;
use chancery_store::{
    Embedded, Memory as MemoryStore, OpenError, Options as StoreOptions, Store, recover,
};
use chancery_vibe::rules::inbox;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::desk::{assert_replays, goal, mandate, merchant, office, seed};

/// A node with agents that live in it.
pub struct House {
    pub office: Arc<Office>,
    pub agents: Agents,
}

/// Posts an envelope as from outside.
pub async fn post(office: &Office, mut envelope: Value, number: u64) -> String {
    let members = envelope.as_object_mut().unwrap();
    let msg_id = format!("msg-{number}");
    let more = [
        ("protocol", json!("vcp")),
        ("version", json!("1.0")),
        ("ts", json!("2026-05-15T12:00:00Z")),
        ("msg_id", json!(msg_id)),
        ("idempotency_key", json!(format!("key-{number}"))),
    ];
    for (name, value) in more {
        members.insert(name.to_owned(), value);
    }
    let raw = envelope.to_string().into();
    office.receive_vibe(raw, None, None).await.unwrap();
    msg_id
}

/// A question to a merchant's support.
pub fn question(merchant_id: &str, session_id: &str) -> Value {
    json!({
        "from": "buyer:negotiation", "to": "merchant:support", "session_id": session_id,
        "action": {"kind": "commerce.request_offer", "payload": {
            "merchant_id": merchant_id, "sku_id": "sku", "inquiry": "is it quiet?"}},
    })
}

fn embedded(dir: &Path) -> Arc<dyn Store> {
    let suite = Chancery::with_seed(seed());
    let options = StoreOptions {
        windows: suite.windows(),
        ..StoreOptions::new(dir)
    };
    // What an agent was reading on a thread of its own when it ended holds the store for a moment longer.
    let (store, tail) = loop {
        match Embedded::open(&options) {
            Err(OpenError::Locked(_)) => std::thread::yield_now(),
            opened => break opened.unwrap(),
        }
    };
    recover(&suite, &store, &tail).unwrap();
    Arc::new(store)
}

impl House {
    async fn over(store: Arc<dyn Store>, hosted: Vec<Hosted>) -> Self {
        let office = office(store, &seed()).await;
        let agents = Agents::start(&office, hosted).await.unwrap();
        Self { office, agents }
    }

    pub async fn new(hosted: Vec<Hosted>) -> Self {
        let house = Self::over(Arc::new(MemoryStore::new()), hosted).await;
        post(&house.office, goal("m1", "g1"), 1).await;
        post(&house.office, mandate("c1", "s1"), 2).await;
        house
    }

    /// Waits until so many turns have ended.
    pub async fn turns(&self, count: u64) {
        let mut turns = self.agents.turns();
        turns.wait_for(|ended| *ended >= count).await.unwrap();
    }

    /// The record of an agent's latest turn.
    pub fn record(&self, agent: &str) -> Value {
        self.office.turn_records(agent, 1).unwrap()[0].clone()
    }

    /// The lines that answer others: the agent and the line answered.
    fn answers(&self) -> Vec<(String, u64)> {
        let lines = self.office.gate().store().lines(1, usize::MAX).unwrap();
        let lines = lines
            .iter()
            .map(|line| serde_json::from_slice::<Value>(line).unwrap());
        let answers = lines.filter_map(|line| {
            let agent = line["meta"]["principal"].as_str()?.to_owned();
            Some((agent, line["meta"]["answers"].as_u64()?))
        });
        answers.collect()
    }

    pub fn outcomes(&self, agent: &str) -> Vec<String> {
        let records = self.office.turn_records(agent, 100).unwrap();
        let outcomes = records
            .iter()
            .map(|record| record["outcome"].as_str().unwrap().to_owned());
        outcomes.collect()
    }
}

fn hosted(agent: Agent, behaviour: impl Infer + 'static) -> Hosted {
    Hosted {
        agent,
        behaviour: Behaviour::Here(Arc::new(behaviour)),
    }
}

/// VC-TURN-1, CH-JRN-16: an envelope in an agent's inbox starts a turn, and its answer goes through the gate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_envelope_for_an_agent_starts_a_turn() {
    let house = House::new(vec![hosted(merchant("keys", "m1"), Echo)]).await;
    let asked = post(&house.office, question("m1", "s1"), 10).await;
    let heard = inbox("buyer:negotiation", Some("c1"));
    house.office.inboxes().wait(&heard, 0).await.unwrap();
    let entries = house.office.inboxes().read(&heard, 0, 10).unwrap();
    let line: Value = serde_json::from_slice(&entries[0].line).unwrap();
    assert_eq!(line["envelope"]["in_reply_to"], json!(asked));
    let answer = &line["envelope"]["action"]["payload"]["answer"];
    assert_eq!(answer, "echo: is it quiet?");
    assert_eq!(line["meta"]["origin"], "agent");
    // The goal had its turn too, without a word.
    house.turns(2).await;
    assert_eq!(house.outcomes("keys"), ["emitted", "no_reply"]);
    assert_eq!(house.answers().len(), 1);
    let lines = house.office.gate().store().lines(1, usize::MAX).unwrap();
    assert_replays(&lines, &seed());
}

/// CH-JRN-15, CH-JRN-16: a turn that ran before a stop is neither lost nor repeated, and what the agent kept is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_go_on_after_a_restart() {
    let script = json!([[
        {"decision": "memory_update", "key": "last", "value": "$inbound.msg_id", "type": "string"},
        {"decision": "emit_envelope", "to": "$inbound.from", "in_reply_to": "$inbound.msg_id",
         "idempotency_key": null, "action": {"kind": "commerce.respond_inquiry", "payload": {"answer": "yes"}}},
    ]]);
    let script = Script::parse(script.to_string().as_bytes()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let agents = || vec![hosted(merchant("keys", "m1"), script.clone())];
    let house = House::over(embedded(dir.path()), agents()).await;
    post(&house.office, mandate("c1", "s1"), 1).await;
    for number in 0..5 {
        post(&house.office, question("m1", "s1"), 10 + number).await;
    }
    house.turns(2).await;
    let House {
        office,
        agents: living,
    } = house;
    living.stop().await;
    // Asked while nobody is at home, and acknowledged by somebody else who reads the inbox.
    post(&office, question("m1", "s1"), 20).await;
    let name = inbox("merchant:support", Some("m1"));
    office.inboxes().acknowledge(&name, u64::MAX).unwrap();
    office.stop().await.unwrap();
    drop(office);

    let house = House::over(embedded(dir.path()), agents()).await;
    post(&house.office, question("m1", "s1"), 30).await;
    let heard = inbox("buyer:negotiation", Some("c1"));
    let mut entries = Vec::new();
    while entries.len() < 7 {
        let last = entries
            .last()
            .map_or(0, |entry: &chancery_node::InboxEntry| entry.seq);
        house.office.inboxes().wait(&heard, last).await.unwrap();
        entries = house.office.inboxes().read(&heard, 0, 100).unwrap();
    }
    let mut answered = house.answers();
    assert_eq!(answered.len(), 7);
    answered.dedup();
    assert_eq!(answered.len(), 7, "each once, in order");
    let agent = merchant("keys", "m1");
    while progress::kept(&house.office, &agent, "s1").unwrap().turns < 7 {
        tokio::task::yield_now().await;
    }
    let kept = progress::kept(&house.office, &agent, "s1").unwrap();
    assert_eq!(kept.memory.text("last"), Some("msg-30"));
    house.agents.stop().await;
    house.office.stop().await.unwrap();
}

/// CH-JRN-16: what was about to be sent when the node stopped is sent once, with the memory that goes with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intent_is_carried_out_once() {
    for was_sent in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let house = House::over(
            embedded(dir.path()),
            vec![hosted(merchant("keys", "m1"), Echo)],
        )
        .await;
        post(&house.office, mandate("c1", "s1"), 1).await;
        let House { office, agents } = house;
        agents.stop().await;
        post(&office, question("m1", "s1"), 10).await;
        // A turn of an earlier life: it meant to say something else than this behaviour would.
        let agent = merchant("keys", "m1");
        let name = inbox("merchant:support", Some("m1"));
        let seq = office.inboxes().read(&name, 0, 1).unwrap()[0].seq;
        let envelope = json!({
            "protocol": "vcp", "version": "1.0", "msg_id": agent.derived_id("emit", "msg-10"),
            "ts": "2026-05-15T12:00:00Z", "from": "merchant", "to": "buyer:negotiation", "session_id": "s1",
            "in_reply_to": "msg-10", "idempotency_key": null,
            "action": {"kind": "commerce.respond_inquiry", "payload": {"answer": "as I was saying"}},
        });
        let mut memory = chancery_agents::Memory::default();
        let entry = chancery_agents::memory::Entry {
            value: json!("kept"),
            kind: chancery_agents::memory::Type::String,
            private: false,
        };
        memory.put("mood".to_owned(), entry).unwrap();
        let intent = progress::Intent {
            envelope: envelope.to_string(),
            memory,
        };
        progress::intend(&office, &agent, seq, &intent).unwrap();
        if was_sent {
            let settings = office.gate().settings();
            let text = intent.envelope.as_bytes();
            let message = chancery_vibe::message::Message::decode(text, &settings.vibe).unwrap();
            office.send_hosted_vibe("keys", seq, message).await.unwrap();
        }
        office.stop().await.unwrap();
        drop(office);

        let house = House::over(
            embedded(dir.path()),
            vec![hosted(merchant("keys", "m1"), Echo)],
        )
        .await;
        house.turns(1).await;
        assert_eq!(house.answers(), [("keys".to_owned(), seq)]);
        let heard = inbox("buyer:negotiation", Some("c1"));
        let entries = house.office.inboxes().read(&heard, 0, 10).unwrap();
        let line: Value = serde_json::from_slice(&entries[0].line).unwrap();
        assert_eq!(
            line["envelope"]["action"]["payload"]["answer"],
            "as I was saying"
        );
        let kept = progress::kept(&house.office, &agent, "s1").unwrap();
        assert_eq!(kept.memory.text("mood"), Some("kept"));
        house.agents.stop().await;
        house.office.stop().await.unwrap();
    }
}

/// CH-JRN-16: the gate refuses a second envelope for the same agent and line, whoever asks for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_envelope_is_answered_once() {
    let house = House::new(vec![hosted(merchant("keys", "m1"), Echo)]).await;
    post(&house.office, question("m1", "s1"), 10).await;
    house.turns(2).await;
    let (agent, seq) = house.answers()[0].clone();
    let envelope = json!({
        "protocol": "vcp", "version": "1.0", "msg_id": "again", "ts": "2026-05-15T12:00:00Z",
        "from": "merchant", "to": "buyer:negotiation", "session_id": "s1", "in_reply_to": "msg-10",
        "action": {"kind": "commerce.respond_inquiry", "payload": {"answer": "again"}},
    });
    let settings = house.office.gate().settings();
    let text = envelope.to_string();
    let decode =
        || chancery_vibe::message::Message::decode(text.as_bytes(), &settings.vibe).unwrap();
    let refused = house.office.send_hosted_vibe(&agent, seq, decode()).await;
    assert_eq!(refused.unwrap_err().code, "already_answered");
    // Nor does anybody speak for an agent that is not on record, or under another address than its own.
    let refused = house.office.send_hosted_vibe("nobody", seq, decode()).await;
    assert_eq!(refused.unwrap_err().code, "sender_not_authorized");
    let text = text.replace("\"merchant\"", "\"merchant:owner\"");
    let message = chancery_vibe::message::Message::decode(text.as_bytes(), &settings.vibe).unwrap();
    let refused = house
        .office
        .send_hosted_vibe(&agent, seq + 1, message)
        .await;
    assert_eq!(refused.unwrap_err().code, "sender_not_authorized");
}

async fn set_run_state(office: &Office, agent: &Agent, state: RunState) {
    let act = Act::Agent {
        protocol: ProtocolName::Vibe,
        id: agent.name.clone(),
        record: Some(serde_json::to_value(&agent.record).unwrap()),
        run_state: Some(state),
    };
    office.act(act).await.unwrap();
}

/// CH-ID-5: a suspended participant says nothing, neither through its agent nor with a token; it goes on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspension_holds_on_every_path() {
    let mut keys = merchant("keys", "m1");
    keys.record.agent = Some("house-of-keys".to_owned());
    let house = House::new(vec![
        hosted(keys.clone(), Echo),
        hosted(merchant("other", "m2"), Echo),
    ])
    .await;
    let token = |principal: &str, agent: Option<&str>| TokenRecord {
        id: format!("t-{principal}"),
        principal: principal.to_owned(),
        scopes: Vec::new(),
        addresses: vec![
            "merchant:fulfillment".to_owned(),
            "merchant:pricing".to_owned(),
        ],
        consumer_id: None,
        merchant_id: Some("m1".to_owned()),
        agent: agent.map(str::to_owned),
        revoked: false,
    };
    let one = token("clerk", Some("house-of-keys"));
    let another = token("stranger", None);
    for record in [&one, &another] {
        house.office.issue_token_for(record.clone()).await.unwrap();
    }
    house.turns(1).await;
    set_run_state(&house.office, &keys, RunState::Suspended).await;
    post(&house.office, question("m1", "s1"), 10).await;
    post(&house.office, question("m2", "s1"), 11).await;
    house.turns(2).await;
    let speakers: Vec<String> = house
        .answers()
        .into_iter()
        .map(|(agent, _)| agent)
        .collect();
    assert_eq!(speakers, ["other"], "the agents beside it go on");
    let offer = |number: u64| {
        let offer = json!({
            "protocol": "vcp", "version": "1.0", "msg_id": format!("offer-{number}"), "ts": "2026-05-15T12:00:00Z",
            "from": "merchant:pricing", "to": "buyer:negotiation", "session_id": "s1",
            "idempotency_key": format!("offer-{number}"),
            "action": {"kind": "commerce.propose_offer", "payload": {
                "offer_id": format!("offer-{number}"), "merchant_id": "m1", "sku_id": "sku", "qty": 1,
                "unit_price": 12_000, "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [],
                "expires_at": "2026-05-15T13:00:00Z"}},
        });
        bytes::Bytes::from(offer.to_string())
    };
    let refused = house.office.receive_vibe(offer(1), None, Some(&one)).await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.code, refused.status), ("suspended", 423));
    let taken = house
        .office
        .receive_vibe(offer(2), None, Some(&another))
        .await;
    assert!(taken.is_ok(), "a token that is its own participant");
    set_run_state(&house.office, &keys, RunState::Running).await;
    house.turns(3).await;
    assert_eq!(house.answers().len(), 2);
    assert!(
        house
            .office
            .receive_vibe(offer(1), None, Some(&one))
            .await
            .is_ok()
    );
    let lines = house.office.gate().store().lines(1, usize::MAX).unwrap();
    assert_replays(&lines, &seed());
}

/// VC-GATE-1, CH-ID-5: no agent answers the human gate: none can be hosted as a person.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_agent_is_a_person() {
    let house = House::new(Vec::new()).await;
    for address in [
        "consumer",
        "consumer:persona",
        "merchant:owner",
        "world",
        "platform",
        "buyer:owner",
    ] {
        for (consumer, merchant) in [(Some("c1"), None), (None, Some("m1")), (None, None)] {
            let record = chancery_vibe::agent::AgentRecord {
                address: address.to_owned(),
                consumer_id: consumer.map(str::to_owned),
                merchant_id: merchant.map(str::to_owned),
                agent: None,
            };
            assert!(record.fault().is_some());
            let put = house.office.reconcile_vibe_agent("eve", &record).await;
            assert!(put.is_err(), "{address} {consumer:?} {merchant:?}");
        }
    }
    // And a role that acts for the wrong side, or for somebody else than before.
    let keys = merchant("keys", "m1");
    assert!(
        house
            .office
            .reconcile_vibe_agent("keys", &keys.record)
            .await
            .unwrap()
    );
    let other = merchant("keys", "m2");
    assert!(
        house
            .office
            .reconcile_vibe_agent("keys", &other.record)
            .await
            .is_err()
    );
}

/// Answers when it is let, and counts how often it was asked.
struct Waits {
    output: String,
    asked: Arc<Semaphore>,
    may_answer: Arc<Semaphore>,
}

impl InferElsewhere for Waits {
    fn infer(&self, _: Request) -> BoxFuture<'_, Result<Inferred, Unanswered>> {
        self.asked.add_permits(1);
        Box::pin(async {
            self.may_answer.acquire().await.unwrap().forget();
            let (text, usage) = (self.output.clone(), Usage::FREE);
            Ok(Inferred { text, usage })
        })
    }
}

/// CH-JRN-2, CH-JRN-16, VC-AUD-4: a log that fails while an agent is about to speak costs it neither the turn nor its words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_outlives_a_log_that_fails() {
    let dir = tempfile::tempdir().unwrap();
    let (asked, may_answer) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let answer = json!({"decision": "emit_envelope", "to": "buyer:negotiation", "in_reply_to": "msg-10",
        "idempotency_key": null, "action": {"kind": "commerce.respond_inquiry", "payload": {"answer": "as I was saying"}}});
    let agent = merchant("keys", "m1");
    let waits = Waits {
        output: answer.to_string(),
        asked: Arc::clone(&asked),
        may_answer: Arc::clone(&may_answer),
    };
    let behaviour = Behaviour::Elsewhere(Arc::new(waits));
    let living = Hosted {
        agent: agent.clone(),
        behaviour,
    };
    let house = House::over(embedded(dir.path()), vec![living]).await;
    let House { office, agents } = house;
    post(&office, mandate("c1", "s1"), 1).await;
    post(&office, question("m1", "s1"), 10).await;
    let name = inbox("merchant:support", Some("m1"));
    let seq = office.inboxes().read(&name, 0, 1).unwrap()[0].seq;
    asked.acquire().await.unwrap().forget();
    office.gate().fail("as a disk that is gone");
    may_answer.add_permits(1);
    let intent = loop {
        match progress::intent(&office, &agent, seq).unwrap() {
            Some(intent) => break intent,
            None => tokio::task::yield_now().await,
        }
    };
    // It is told what everybody is told, and neither thinks again nor ends its turn.
    let settings = office.gate().settings();
    let text = intent.envelope.as_bytes();
    let message = chancery_vibe::message::Message::decode(text, &settings.vibe).unwrap();
    let refused = office.send_hosted_vibe("keys", seq, message).await;
    assert_eq!(refused.unwrap_err().code, "audit_unavailable");
    agents.stop().await;
    assert_eq!(asked.available_permits(), 0);
    assert!(office.turn_records("keys", 10).unwrap().is_empty());
    office.stop().await.unwrap();
    drop(office);

    let house = House::over(embedded(dir.path()), vec![hosted(agent, Echo)]).await;
    house.turns(1).await;
    assert_eq!(house.answers(), [("keys".to_owned(), seq)]);
    let heard = inbox("buyer:negotiation", Some("c1"));
    let entries = house.office.inboxes().read(&heard, 0, 10).unwrap();
    let line: Value = serde_json::from_slice(&entries[0].line).unwrap();
    let said = &line["envelope"]["action"]["payload"]["answer"];
    assert_eq!(said, "as I was saying");
    house.agents.stop().await;
    house.office.stop().await.unwrap();
}

struct Hangs;
impl InferElsewhere for Hangs {
    fn infer(&self, _: Request) -> BoxFuture<'_, Result<Inferred, Unanswered>> {
        Box::pin(std::future::pending())
    }
}

struct Says(String);
impl InferElsewhere for Says {
    fn infer(&self, _: Request) -> BoxFuture<'_, Result<Inferred, Unanswered>> {
        let text = self.0.clone();
        let usage = Usage::FREE;
        Box::pin(async move { Ok(Inferred { text, usage }) })
    }
}

struct Panics;
impl Infer for Panics {
    fn infer(&self, _: &Context<'_>) -> String {
        panic!("a behaviour that panics, as it should")
    }
}

/// An agent that hangs, fails, floods or talks nonsense ends its turn, is counted, and stops nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_misbehaves_stops_nobody() {
    let elsewhere = |name: &str, behaviour: Arc<dyn InferElsewhere>| {
        let mut agent = merchant(name, "m2");
        agent.budget.time = Duration::from_millis(50);
        Hosted {
            agent,
            behaviour: Behaviour::Elsewhere(behaviour),
        }
    };
    let flood: Vec<Value> = (0..1_000)
        .map(|n| json!({"decision": "memory_update", "key": format!("k{n}"), "value": n, "type": "int"}))
        .collect();
    let house = House::new(vec![
        elsewhere("hangs", Arc::new(Hangs)),
        elsewhere("floods", Arc::new(Says(json!(flood).to_string()))),
        elsewhere("shouts", Arc::new(Says("x".repeat(1 << 20)))),
        elsewhere("nests", Arc::new(Says("[".repeat(1 << 16)))),
        hosted(merchant("panics", "m2"), Panics),
        hosted(merchant("keys", "m1"), Echo),
    ])
    .await;
    post(&house.office, question("m2", "s1"), 10).await;
    post(&house.office, question("m1", "s1"), 11).await;
    // One turn each, and the goal of m1.
    house.turns(7).await;
    assert_eq!(house.outcomes("hangs"), [Outcome::Timeout.as_str()]);
    assert_eq!(house.outcomes("panics"), [Outcome::Failed.as_str()]);
    for name in ["floods", "shouts", "nests"] {
        assert_eq!(house.outcomes(name), [Outcome::BudgetExhausted.as_str()]);
        let record = &house.office.turn_records(name, 1).unwrap()[0];
        assert_eq!(record["inference_calls"], 8);
        assert_eq!(record["steps"][0]["code"], "undecodable_decision");
    }
    let speakers: Vec<String> = house
        .answers()
        .into_iter()
        .map(|(agent, _)| agent)
        .collect();
    assert_eq!(speakers, ["keys"]);
}
