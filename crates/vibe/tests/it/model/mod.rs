//! A model of the whole protocol, and the node beside it: every envelope must come out as the model says.
//!
//! The model is written from the specification and knows nothing of the rules. A step is a handful of numbers; what they
//! send follows from the model's state, so a failure shrinks to few steps that still make sense.

mod after;
mod compose;
mod compose_after;
mod deal;
mod dice;
mod judge;
mod pay;
mod state;
mod table;

use std::collections::BTreeMap;
use std::sync::Mutex;

use chancery_core::rows::Rows as _;
use chancery_vibe::conformance::Reply;
use chancery_vibe::settings::{Platform, Settings};
use chancery_vibe::world::hash::{entry_of, state_hash, world_hash};
use chancery_vibe::world::read::{self, Reader};
use chancery_vibe::world::rows::Table;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use serde_json::{Value, json};

use self::dice::Dice;
use self::state::{Model, Outcome, PHASES, Policy, World};
use self::table::TABLE;
use crate::replay::{lines, replay, tell};
use crate::support::{Desk, noon, seed};

/// Steps of one case: about a dozen deals.
const STEPS_OF_A_CASE: usize = 200;

/// The numbers of one step.
#[derive(Clone)]
pub struct Words([u16; 24]);

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|word| write!(f, "{word:04x}"))
    }
}

fn item(merchant: &str, sku: &str) -> (String, String) {
    (merchant.to_owned(), sku.to_owned())
}

/// The world that both begin with.
fn start() -> World {
    let mut world = World::default();
    for (id, owner, currency, balance) in [
        ("a_m1", "m1", "USD", 0),
        ("a_m2", "m2", "USD", 0),
        ("a_c1", "c1", "USD", 1_500_000),
        ("a_c2", "c2", "USD", 300_000),
        ("a_c3", "c2", "EUR", 900_000),
    ] {
        let row = (owner.to_owned(), currency.to_owned(), balance);
        world.ledger.insert(id.to_owned(), row);
    }
    for (merchant, sku, attributes, refundable) in [
        ("m1", "s1", vec!["brushed".to_owned()], true),
        ("m1", "s2", Vec::new(), false),
        ("m2", "s1", Vec::new(), true),
        ("m2", "s2", vec!["brushed".to_owned()], true),
    ] {
        world
            .catalog
            .insert(item(merchant, sku), (attributes, refundable));
        world.stock.insert(item(merchant, sku), (6, 0));
    }
    world.reputation = BTreeMap::from([("m1".to_owned(), 700), ("m2".to_owned(), 500)]);
    // None is what a node takes without being told, and an authorization ends before its certificate.
    world.policy = Policy {
        cert_ttl_s: 700,
        auth_ttl_s: 250,
        min_reputation: 450,
    };
    world
}

/// The same as a seed.
fn as_seed(world: &World) -> Value {
    let account = |(id, (owner, currency, balance)): (&String, &(String, String, i64))| json!({"account_id": id, "owner": owner, "currency": currency, "balance": balance});
    let listing = |((merchant, sku), (attributes, refundable)): (
        &(String, String),
        &(Vec<String>, bool),
    )| {
        json!({"merchant_id": merchant, "sku_id": sku, "title": "Quiet keyboard", "attributes": attributes,
            "list_price": 44_000, "eta_days": 2, "refundable": refundable})
    };
    let stock = |((merchant, sku), (on_hand, reserved)): (&(String, String), &(u64, u64))| json!({"merchant_id": merchant, "sku_id": sku, "on_hand": on_hand, "reserved": reserved});
    json!({
        "seed_id": "model", "currency": "USD",
        "policy": {"cert_ttl_s": world.policy.cert_ttl_s, "auth_ttl_s": world.policy.auth_ttl_s,
            "min_reputation": world.policy.min_reputation},
        "merchants": [{"merchant_id": "m1", "name": "One", "account_id": "a_m1"},
            {"merchant_id": "m2", "name": "Two", "account_id": "a_m2"}],
        "catalog": world.catalog.iter().map(listing).collect::<Vec<_>>(),
        "inventory": world.stock.iter().map(stock).collect::<Vec<_>>(),
        "ledger": world.ledger.iter().map(account).collect::<Vec<_>>(),
        "reputation": [{"merchant_id": "m1", "score": 700}, {"merchant_id": "m2", "score": 500}],
    })
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Words;

    fn init_state() -> BoxedStrategy<Self> {
        let fresh = |auto| Self {
            auto,
            now: 0,
            made: 0,
            accepted: 0,
            world: start(),
            sessions: BTreeMap::new(),
            mandates: BTreeMap::new(),
            goals: BTreeMap::new(),
            offers: BTreeMap::new(),
            certs: BTreeMap::new(),
            holds: BTreeMap::new(),
            orders: BTreeMap::new(),
            transactions: BTreeMap::new(),
            returns: BTreeMap::new(),
            disputes: BTreeMap::new(),
            known: BTreeMap::new(),
            keys: BTreeMap::new(),
            last: None,
        };
        any::<bool>().prop_map(fresh).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<Words> {
        any::<[u16; 24]>().prop_map(Words).boxed()
    }

    fn apply(mut model: Self, words: &Words) -> Self {
        let envelope = model.compose(&mut Dice::new(&words.0));
        let outcome = model.judge(&envelope);
        model.last = Some((envelope, outcome));
        model
    }
}

/// How often each kind was accepted, how many steps there were, and how many of them were accepted.
static COUNTED: Mutex<(BTreeMap<&'static str, u64>, u64, u64)> =
    Mutex::new((BTreeMap::new(), 0, 0));
/// The refusals that were seen.
static REFUSED: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

fn count(kind: &'static str, outcome: &Outcome) {
    let mut counted = COUNTED.lock().unwrap();
    counted.1 += 1;
    match outcome {
        Outcome::Accepted { emitted, .. } => {
            counted.2 += 1;
            for kind in std::iter::once(&kind).chain(emitted) {
                *counted.0.entry(kind).or_default() += 1;
            }
        }
        Outcome::Replayed(_) => {}
        Outcome::Refused(code) => *REFUSED.lock().unwrap().entry(code).or_default() += 1,
    }
}

/// The node, and every answer that it gave to what it accepted.
struct Node {
    desk: Desk,
    answers: Vec<Reply>,
}

impl StateMachineTest for Node {
    type SystemUnderTest = Self;
    type Reference = Model;

    fn init_test(model: &Model) -> Self {
        let settings = Settings {
            platform: if model.auto {
                Platform::Auto
            } else {
                Platform::Manual
            },
            ..Settings::default()
        };
        Self {
            desk: Desk::of(&seed(&as_seed(&model.world)), settings),
            answers: Vec::new(),
        }
    }

    fn apply(mut node: Self, model: &Model, _: Words) -> Self {
        let (envelope, outcome) = model.last.as_ref().unwrap();
        count(envelope.kind, outcome);
        let sent = json!({
            "protocol": "vcp", "version": "1.0", "msg_id": envelope.id, "ts": noon(envelope.ts), "from": envelope.from,
            "to": envelope.to, "session_id": envelope.session, "in_reply_to": envelope.reply,
            "idempotency_key": envelope.key, "action": {"kind": envelope.kind, "payload": envelope.payload},
        });
        let reply = node.desk.post(&sent);
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        let said = match (reply.status, reply.replayed) {
            (200, false) => {
                let kinds = body["emitted"].as_array().unwrap().iter();
                let kinds: Vec<&str> = kinds
                    .map(|made| made["action"]["kind"].as_str().unwrap())
                    .collect();
                assert_eq!(reply.lines_added, kinds.len() + 1, "{sent}");
                json!({"emitted": kinds, "follow_up_error": body["follow_up_error"]["code"]})
            }
            (200, true) => json!({"replayed": true}),
            _ => json!({"code": body["code"]}),
        };
        let expected = match outcome {
            Outcome::Accepted {
                emitted,
                follow_up_error,
            } => {
                json!({"emitted": emitted, "follow_up_error": follow_up_error})
            }
            Outcome::Replayed(_) => json!({"replayed": true}),
            Outcome::Refused(code) => json!({"code": code}),
        };
        assert_eq!(said, expected, "{sent}\n{body}");
        match outcome {
            Outcome::Accepted { .. } => node.answers.push(reply),
            Outcome::Replayed(of) => {
                assert_eq!(reply.lines_added, 0);
                assert_eq!(
                    reply.body, node.answers[*of].body,
                    "a repeat is answered byte for byte"
                );
            }
            Outcome::Refused(_) => assert_eq!(reply.lines_added, 0),
        }
        node
    }

    fn check_invariants(node: &Self, model: &Model) {
        let Some((envelope, Outcome::Accepted { emitted, .. })) = &model.last else {
            return;
        };
        check_session(node, model, &envelope.session);
        let writes = |kind: &str| kind.starts_with("world.");
        if writes(envelope.kind) || emitted.iter().any(|kind| writes(kind)) {
            check_world(node, model);
        }
    }

    fn teardown(node: Self, model: Model) {
        check_world(&node, &model);
        for session in model.sessions.keys() {
            check_session(&node, &model, session);
        }
        let log = lines(node.desk.host.units());
        let (report, rows) = replay(&log, &seed(&as_seed(&start())));
        assert_eq!(report.divergence, None);
        assert_eq!(report.replayed, log.len() as u64);
        assert_eq!(state_hash(&rows), state_hash(node.desk.host.rows()));
        assert_eq!(world_hash(&rows), world_hash(node.desk.host.rows()));
    }
}

fn check_session(node: &Node, model: &Model, id: &str) {
    let session = &model.sessions[id];
    let told = read::session(node.desk.host.rows(), id, &Reader::Psp)
        .unwrap()
        .unwrap();
    let told: Value = serde_json::from_slice(&told).unwrap();
    let expected = json!({"session_id": id, "kind": session.kind, "phase": PHASES[session.phase],
        "mandate_id": session.mandate, "offers": session.offers, "certs": session.certs, "orders": session.orders});
    assert_eq!(told, expected);
}

fn check_world(node: &Node, model: &Model) {
    let world = &model.world;
    let item = |(merchant, sku): &(String, String)| format!("{merchant}/{sku}");
    let named = |rows: Vec<(String, Value)>| rows.into_iter().collect::<BTreeMap<String, Value>>();
    let stock = world.stock.iter().map(|(of, (on_hand, reserved))| {
        let row =
            json!({"merchant_id": of.0, "sku_id": of.1, "on_hand": on_hand, "reserved": reserved});
        (item(of), row)
    });
    let ledger = world.ledger.iter().map(|(id, (owner, currency, balance))| {
        (
            id.clone(),
            json!({"account_id": id, "owner": owner, "currency": currency, "balance": balance}),
        )
    });
    let scores = world.reputation.iter();
    let scores = scores.map(|(id, score)| (id.clone(), json!({"merchant_id": id, "score": score})));
    let orders = model
        .orders
        .iter()
        .map(|(id, order)| (id.clone(), order.row.clone()));
    let disputes = model
        .disputes
        .iter()
        .map(|(id, dispute)| (id.clone(), dispute.row.clone()));
    let rulings = world
        .rulings
        .iter()
        .map(|(id, row)| (id.clone(), row.clone()));
    for (table, expected) in [
        (Table::Inventory, named(stock.collect())),
        (Table::Ledger, named(ledger.collect())),
        (Table::Reputation, named(scores.collect())),
        (Table::Orders, named(orders.collect())),
        (Table::Disputes, named(disputes.collect())),
        (Table::Rulings, named(rulings.collect())),
    ] {
        let rows = node.desk.host.rows().scan(&table.prefix()).unwrap();
        let found = rows
            .iter()
            .map(|(key, row)| (entry_of(key), serde_json::from_slice::<Value>(row).unwrap()));
        assert_eq!(
            found.collect::<BTreeMap<String, Value>>(),
            expected,
            "{}",
            table.as_str()
        );
    }
    // No money is made or lost: the sum of each currency is that of the start.
    let sum = |world: &World, of: &str| -> i64 {
        let rows = world
            .ledger
            .values()
            .filter(|(_, currency, _)| currency == of);
        rows.map(|(.., balance)| balance).sum()
    };
    for currency in ["USD", "EUR"] {
        assert_eq!(sum(world, currency), sum(&start(), currency));
    }
    for (on_hand, reserved) in world.stock.values() {
        assert!(reserved <= on_hand);
    }
}

fn number_from(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given
        .and_then(|given| given.parse().ok())
        .unwrap_or(default)
}

#[test]
fn the_node_does_what_the_model_says() {
    // VC-GEN-1, VC-GEN-4, VC-GEN-5, VC-PIPE-1, VC-PIPE-3, VC-PIPE-4, VC-PIPE-5, VC-SM-1, VC-SM-2, VC-SM-3, VC-SM-4
    // VC-SM-5, VC-IDEM-1, VC-IDEM-3, VC-IDEM-4, VC-IDEM-5, VC-IDEM-7, VC-IDEM-9, VC-SET-1, VC-SET-2, VC-SET-4
    // VC-GATE-3, VC-GATE-4, VC-PLAT-1, VC-PLAT-2, VC-CLR-3, VC-CLR-10, VC-CLR-17, VC-DSP-3, VC-DSP-4, VC-RPL-1, VC-RPL-4
    let steps = number_from("CHANCERY_MODEL_STEPS", 20_000);
    let first = number_from("CHANCERY_MODEL_SEED", 4);
    let config = Config {
        cases: u32::try_from(steps.div_ceil(STEPS_OF_A_CASE as u64)).unwrap(),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(first),
        ..Config::default()
    };
    let mut runner = TestRunner::new(config.clone());
    let strategy = Model::sequential_strategy(STEPS_OF_A_CASE..=STEPS_OF_A_CASE);
    let ran = runner.run(&strategy, |(model, steps, seen)| {
        Node::test_sequential(config.clone(), model, steps, seen);
        Ok(())
    });
    ran.unwrap_or_else(|failure| panic!("CHANCERY_MODEL_SEED={first}: {failure}"));
    let (accepted, steps, taken) = COUNTED.lock().unwrap().clone();
    for (code, times) in REFUSED.lock().unwrap().iter() {
        tell(&format!("{times:>7} refused {code}"));
    }
    for row in &TABLE {
        let times = accepted.get(row.kind).copied().unwrap_or(0);
        tell(&format!("{times:>7} accepted {}", row.kind));
    }
    tell(&format!(
        "{steps} steps, {taken} of them accepted ({} %)",
        taken * 100 / steps
    ));
    assert!(taken * 10 > steps * 4, "more than 40 % are accepted");
    for row in &TABLE {
        let times = accepted.get(row.kind).copied().unwrap_or(0);
        assert!(times >= 50, "{} was accepted {times} times", row.kind);
    }
}
