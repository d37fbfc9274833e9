//! Whole deals over HTTP while the node is killed and started again: what was answered is on record, once, and the
//! ledger is what the log gives.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chancery_core::rows::MapRows;
use chancery_journal::{Replayer, prepare};
use chancery_node::suite::Chancery;
use chancery_testkit::postgres_server::PostgresServer;
use chancery_vibe::world::read::{Reader, table};
use chancery_vibe::world::rows::Table;
use chancery_vibe::world::seed::Seed;
use serde_json::{Value, json};

use crate::kill::Random;
use crate::served::Served;
use crate::support::Place;
use crate::wire::{Wire, segment};

/// Seconds of an ordinary run; `CHANCERY_STORM_S` asks for another number.
const SECONDS: u64 = 60;
/// Buyers at once.
const BUYERS: usize = 8;

pub fn world() -> Value {
    let accounts = (0..BUYERS).map(|buyer| {
        json!({"account_id": format!("acc_{buyer}"), "owner": format!("c_{buyer}"), "currency": "USD",
            "balance": 1_000_000_000_000_i64})
    });
    let merchant =
        json!({"account_id": "acc_keys", "owner": "m_keys", "currency": "USD", "balance": 0});
    json!({
        "seed_id": "storm", "currency": "USD", "policy": {},
        "merchants": [{"merchant_id": "m_keys", "name": "Keys", "account_id": "acc_keys"}],
        "catalog": [{"merchant_id": "m_keys", "sku_id": "sku_quiet", "title": "Quiet keyboard", "attributes": [],
            "list_price": 12_900, "eta_days": 2, "refundable": true}],
        "inventory": [{"merchant_id": "m_keys", "sku_id": "sku_quiet", "on_hand": 1_000_000_000, "reserved": 0}],
        "ledger": accounts.chain([merchant]).collect::<Vec<_>>(),
    })
}

/// What a buyer may spend, and for what.
pub fn mandate(name: &str, buyer: usize) -> Value {
    json!({
        "mandate_id": format!("man_{name}"), "consumer_id": format!("c_{buyer}"),
        "ap2_intent_mandate": {"goal": "a quiet keyboard", "intent_expiry": "2026-06-01T00:00:00Z"},
        "authority": {"can_buy_without_confirmation": false, "max_spend_without_confirmation": 0,
            "can_negotiate": true, "can_accept_substitutes": false, "can_share_with_merchant": [],
            "must_not_share_with_merchant": []},
        "hard_constraints": {"budget": 47_113},
        "payment_instrument": {"type": "account", "account_id": format!("acc_{buyer}")},
    })
}

/// An envelope under a key of its own: `SESSION-NAME` is its identifier.
pub fn envelope(
    session: &str,
    name: &str,
    (from, to, kind): (&str, &str, &str),
    reply: Option<&str>,
    payload: &Value,
) -> Value {
    let id = format!("{session}-{name}");
    json!({
        "protocol": "vcp", "version": "1.0", "msg_id": id, "ts": "2026-05-15T12:00:00Z", "from": from, "to": to,
        "session_id": session, "in_reply_to": reply, "idempotency_key": format!("k-{id}"),
        "action": {"kind": kind, "payload": payload},
    })
}

/// Where the node is, while there is one.
#[derive(Default)]
struct Address {
    now: Mutex<Option<SocketAddr>>,
    changed: Condvar,
}

impl Address {
    fn set(&self, address: Option<SocketAddr>) {
        *self.now.lock().unwrap() = address;
        self.changed.notify_all();
    }

    fn wait(&self) -> SocketAddr {
        let mut now = self.now.lock().unwrap();
        loop {
            match *now {
                Some(address) => return address,
                None => now = self.changed.wait(now).unwrap(),
            }
        }
    }
}

/// One buyer with its merchant, and what was answered to them.
struct Buyer<'a> {
    number: usize,
    address: &'a Address,
    wire: Option<Wire>,
    settled: u64,
    refunded: u64,
    repeats: u64,
}

impl Buyer<'_> {
    /// Sends an envelope until it is answered, however often the node dies meanwhile.
    fn insist(&mut self, envelope: &Value) -> Value {
        let body = envelope.to_string();
        loop {
            let mut wire = match self.wire.take() {
                Some(wire) => wire,
                None => match Wire::connect(self.address.wait()) {
                    Ok(wire) => wire,
                    Err(_) => continue,
                },
            };
            // A connection that ended tells nothing about the envelope: it is sent again, under the same key.
            let Ok(answer) = wire.post("/vcp", body.as_bytes()) else {
                continue;
            };
            self.wire = Some(wire);
            let told = answer.json();
            match (answer.status, told["code"].as_str()) {
                (200, _) => {
                    self.repeats += u64::from(answer.is_replayed());
                    return told;
                }
                (409, Some("idempotency_in_flight")) | (503, _) => {}
                _ => panic!("{envelope}: {told}"),
            }
        }
    }

    fn say(
        &mut self,
        session: &str,
        name: &str,
        (from, to, kind): (&str, &str, &str),
        reply: Option<&str>,
        payload: &Value,
    ) -> Value {
        self.insist(&envelope(session, name, (from, to, kind), reply, payload))
    }

    /// One deal, with all that may follow.
    fn deal(&mut self, number: u64) {
        let session = format!("b{}n{number}", self.number);
        let session = session.as_str();
        let (negotiation, pricing) = ("buyer:negotiation", "merchant:pricing");
        let (authorization, support) = ("buyer:authorization", "merchant:support");
        self.mandate(session);
        let offer_id = format!("off_{session}");
        let offer = json!({"offer_id": offer_id, "merchant_id": "m_keys", "sku_id": "sku_quiet", "qty": 1,
            "unit_price": 11_900, "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [],
            "expires_at": "2026-05-20T00:00:00Z"});
        let proposes = (pricing, negotiation, "commerce.propose_offer");
        self.say(session, "offer", proposes, None, &offer);
        let accepts = (negotiation, "platform:aggregator", "commerce.accept_offer");
        let offered = format!("{session}-offer");
        let told = self.say(
            session,
            "accept",
            accepts,
            Some(&offered),
            &json!({"offer_id": offer_id}),
        );
        let cert = told["emitted"][1]["action"]["payload"]["cert_id"].clone();
        let cert = json!({ "cert_id": cert });
        let approves = (
            "consumer:persona",
            authorization,
            "delegate.approve_purchase",
        );
        self.say(session, "approve", approves, None, &cert);
        let settles = (authorization, "platform:psp", "platform.settle_payment");
        let told = self.say(session, "settle", settles, None, &cert);
        self.settled += 1;
        let tx = told["state_diff"]["tx_id"].clone();
        let order = told["emitted"][0]["action"]["payload"]["order_id"].clone();
        if number.is_multiple_of(3) {
            return self.quarrel(session, &tx);
        }
        let dispatches = ("merchant:fulfillment", authorization, "commerce.dispatch");
        self.say(
            session,
            "dispatch",
            dispatches,
            None,
            &json!({"order_id": order}),
        );
        if number % 3 == 1 {
            return;
        }
        let returns = (authorization, support, "commerce.request_return");
        let wish = json!({"tx_id": tx, "reason": "too loud"});
        self.say(session, "return", returns, None, &wish);
        let asked = format!("{session}-return");
        let back = chancery_core::ids::object_id(chancery_core::ids::ObjectKind::Return, &asked);
        let consent = json!({"return_id": back, "decision": "approve", "refund_amount": 11_900, "restock": true});
        let responds = (support, authorization, "commerce.respond_return");
        self.say(session, "respond", responds, Some(&asked), &consent);
        self.refunded += 1;
    }

    fn mandate(&mut self, session: &str) {
        let mandate = mandate(session, self.number);
        let hands = (
            "consumer:persona",
            "buyer:intent",
            "delegate.create_purchase_mandate",
        );
        self.say(session, "mandate", hands, None, &mandate);
    }

    /// A dispute of its own session, ruled for the buyer.
    fn quarrel(&mut self, deal: &str, tx: &Value) {
        let session = format!("{deal}d");
        let opens = (
            "buyer:authorization",
            "platform:adjudicator",
            "platform.open_dispute",
        );
        let claim = json!({"tx_id": tx, "reason": "never came"});
        let told = self.say(&session, "open", opens, None, &claim);
        let dispute = &told["emitted"][0]["action"]["payload"]["dispute_id"];
        let ruling = json!({"dispute_id": dispute, "ruling": "refund_full", "reputation_delta": 0,
            "evidence": [format!("{deal}-settle")], "rationale": "the log says so"});
        let rules = (
            "platform:adjudicator",
            "buyer:authorization",
            "platform.rule_dispute",
        );
        self.say(&session, "rule", rules, None, &ruling);
        self.refunded += 1;
    }
}

/// The rows of a table, page by page.
pub fn rows(wire: &mut Wire, table: &str) -> serde_json::Map<String, Value> {
    let (mut rows, mut after) = (serde_json::Map::new(), String::new());
    loop {
        let page = wire.get(&format!("/vcp/world/{table}?after={}", segment(&after)));
        let mut page = page.unwrap().ok();
        rows.append(page["rows"].as_object_mut().unwrap());
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return rows,
        }
    }
}

/// The rows that the log and its seed give.
fn replayed(place: &Place) -> MapRows {
    let seed = Arc::new(Seed::parse(place.read("world.json").as_bytes()).unwrap());
    let suite = Chancery::with_seed(seed);
    let mut replayer = Replayer::new(suite.clone(), MapRows::default()).unwrap();
    for line in place.run(&["log", "export"]).exits(0).text().lines() {
        let keys = replayer.keyring().clone();
        let line = Bytes::copy_from_slice(line.as_bytes());
        replayer.take(prepare(&suite, line, &keys));
    }
    let (report, rows) = replayer.finish();
    assert_eq!(report.divergence, None);
    rows
}

/// What a storm came to.
#[derive(Clone, Copy, Default)]
struct Told {
    kills: u64,
    settled: u64,
    refunded: u64,
    repeats: u64,
}

/// One buyer's deals until it is over.
fn deals(number: usize, address: &Address, over: &AtomicBool) -> Told {
    let mut buyer = Buyer {
        number,
        address,
        wire: None,
        settled: 0,
        refunded: 0,
        repeats: 0,
    };
    let mut deals = 0;
    while !over.load(Ordering::SeqCst) {
        buyer.deal(deals);
        deals += 1;
    }
    Told {
        kills: 0,
        settled: buyer.settled,
        refunded: buyer.refunded,
        repeats: buyer.repeats,
    }
}

/// Deals and kills for so long; gives the last node.
fn storm(place: &Place, seconds: u64) -> (Told, Served) {
    let (address, over) = (Address::default(), AtomicBool::new(false));
    let mut random = Random::new();
    std::thread::scope(|scope| {
        let buyer = |number| {
            let (address, over) = (&address, &over);
            scope.spawn(move || deals(number, address, over))
        };
        let buyers: Vec<_> = (0..BUYERS).map(buyer).collect();
        let started = Instant::now();
        let mut told = Told::default();
        let mut node = place.serve();
        address.set(Some(node.address));
        while started.elapsed() < Duration::from_secs(seconds) {
            // The moment itself is what is random here: nothing is awaited.
            std::thread::sleep(Duration::from_micros(random.between(200_000, 2_000_000)));
            address.set(None);
            node.kill();
            told.kills += 1;
            node = place.serve();
            address.set(Some(node.address));
        }
        over.store(true, Ordering::SeqCst);
        for buyer in buyers {
            let one = buyer.join().unwrap();
            told.settled += one.settled;
            told.refunded += one.refunded;
            told.repeats += one.repeats;
        }
        (told, node)
    })
}

#[test]
fn deals_go_on_through_kills_and_the_ledger_is_what_the_log_gives() {
    // VC-SET-3, VC-IDEM-1, VC-IDEM-8, VC-PIPE-2, VC-RPL-1, CH-NET-3, VC-HTTP-7
    weather(Place::new(), SECONDS);
}

#[test]
fn deals_go_on_through_kills_also_on_postgresql() {
    // VC-SET-3, VC-IDEM-1, CH-NET-3, CH-JRN-5
    let server = PostgresServer::start();
    weather(Place::new().on(&server, "storm"), SECONDS / 3);
}

/// A storm over a node, and what must hold afterwards.
fn weather(place: Place, seconds: u64) {
    let seconds = std::env::var("CHANCERY_STORM_S").map_or(seconds, |seconds| {
        seconds.parse().expect("CHANCERY_STORM_S is a number")
    });
    let place = place
        .with("CHANCERY_LISTEN", "127.0.0.1:0")
        .with("CHANCERY_DATA", "data")
        .with("CHANCERY_DEV", "true")
        .with("CHANCERY_SEGMENT_BYTES", "4194304")
        .with("CHANCERY_INBOX_DEPTH", "100000000")
        .with("CHANCERY_VIBE_WORLD", "world.json");
    place.write("world.json", world().to_string());
    let (told, last) = storm(&place, seconds);
    let Told {
        kills,
        settled,
        refunded,
        repeats,
    } = told;
    let ledger = last.wire().get("/vcp/world/ledger").unwrap();
    let orders = rows(&mut last.wire(), "orders").len() as u64;
    last.stop_well();
    println!(
        "{kills} kills, {settled} deals settled, {refunded} refunded, {repeats} answered again"
    );
    assert!(settled > 0 && kills > 0);
    assert_eq!(orders, settled);
    let replayed = replayed(&place);
    let given = table(&replayed, Table::Ledger, &Reader::Psp)
        .unwrap()
        .unwrap();
    // The node tells a page; the ledger is one.
    let given = [b"{\"next\":null,", &given[1..]].concat();
    assert_eq!(
        ledger.body, given,
        "the ledger is the replayed one, byte for byte"
    );
    let balance = &ledger.ok()["rows"]["acc_keys"]["balance"];
    assert_eq!(*balance, json!((settled - refunded) * 11_900));
    place.run(&["log", "verify"]).exits(0);
    place.run(&["log", "replay"]).exits(0);
}
