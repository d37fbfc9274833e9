//! Buyers on scarce stock, each with a mandate that buys once and two certificates for it, settled at the same time.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::clients::{Client, Fleet, Sent};
use crate::vibe_storm;

/// Buyers at once.
pub const BUYERS: usize = 3;
/// How long a buyer waits for the others before it buys without them.
const MEETING: Duration = Duration::from_secs(3);

/// How many of a round's goods there are: fewer than want them.
pub const fn stock(round: usize) -> u64 {
    round as u64 % 2 + 1
}

pub fn sku(round: usize) -> String {
    format!("sku_{round}")
}

/// The world of the storm with goods of its own for each round.
pub fn world(rounds: usize) -> Value {
    let mut world = vibe_storm::world();
    for table in ["catalog", "inventory"] {
        let rows = world[table].as_array_mut().unwrap();
        let model = rows[0].clone();
        for round in 0..rounds {
            let mut row = model.clone();
            row["sku_id"] = json!(sku(round));
            if table == "inventory" {
                row["on_hand"] = json!(stock(round));
            }
            rows.push(row);
        }
    }
    world
}

/// What buyers were told, round by round.
pub struct Sales {
    rounds: Mutex<Vec<Round>>,
    met: Condvar,
}

#[derive(Clone, Copy, Default)]
pub struct Round {
    /// Buyers that came with certificates.
    pub ready: u64,
    /// Buyers that were told that they bought.
    pub bought: u64,
    /// Buyers that know whether they bought.
    pub done: u64,
}

impl Sales {
    pub fn new(rounds: usize) -> Self {
        Self {
            rounds: Mutex::new(vec![Round::default(); rounds]),
            met: Condvar::new(),
        }
    }

    /// Waits for the other buyers of a round.
    fn meet(&self, round: usize) {
        let mut rounds = self.rounds.lock().unwrap();
        rounds[round].ready += 1;
        self.met.notify_all();
        let all = |rounds: &mut Vec<Round>| rounds[round].ready < BUYERS as u64;
        drop(self.met.wait_timeout_while(rounds, MEETING, all).unwrap());
    }

    fn done(&self, round: usize, bought: u64) {
        let mut rounds = self.rounds.lock().unwrap();
        rounds[round].bought += bought;
        rounds[round].done += 1;
    }

    pub fn told(self) -> Vec<Round> {
        self.rounds.into_inner().unwrap()
    }
}

/// Buys, round after round, until it is over or everything is sold.
pub fn buy(fleet: &Fleet, buyer: usize, seed: u64, sales: &Sales) {
    let client = |n: usize| Client::new(fleet, buyer + n, seed + n as u64);
    let mut hands = [client(0), client(1)];
    let rounds = sales.rounds.lock().unwrap().len();
    for round in 0..rounds {
        if fleet.is_over() {
            return;
        }
        let session = format!("d{round}b{buyer}");
        let certs = prepare(&mut hands[0], &session, &sku(round), buyer);
        sales.meet(round);
        let Some(certs) = certs else { continue };
        let settles = (
            "buyer:authorization",
            "platform:psp",
            "platform.settle_payment",
        );
        // Both at once, at two nodes: a mandate buys once (VC-OBJ-PurchaseMandate-2).
        let bought: u64 = std::thread::scope(|scope| {
            let both = hands.iter_mut().zip(&certs).zip(["settle-1", "settle-2"]);
            let both = both.map(|((hand, cert), name)| {
                let wish = vibe_storm::envelope(&session, name, settles, None, cert);
                scope.spawn(move || u64::from(insist(hand, &wish).is_ok()))
            });
            let both: Vec<_> = both.collect();
            both.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert!(bought <= 1, "{session} has spent its mandate twice");
        sales.done(round, bought);
    }
}

/// Takes a session to two approved certificates under one mandate; none when the goods are sold already.
fn prepare(client: &mut Client<'_>, session: &str, sku: &str, buyer: usize) -> Option<[Value; 2]> {
    let must = |client: &mut Client<'_>, name: &str, way, reply: Option<&str>, payload: &Value| {
        let envelope = vibe_storm::envelope(session, name, way, reply, payload);
        insist(client, &envelope).unwrap_or_else(|told| panic!("{envelope}: {told}"))
    };
    let hands = (
        "consumer:persona",
        "buyer:intent",
        "delegate.create_purchase_mandate",
    );
    let mandate = vibe_storm::mandate(session, buyer);
    must(client, "mandate", hands, None, &mandate);
    let mut certs = Vec::new();
    for n in 1..=2 {
        let (offer, accept) = (format!("offer-{n}"), format!("accept-{n}"));
        let proposes = (
            "merchant:pricing",
            "buyer:negotiation",
            "commerce.propose_offer",
        );
        let proposal = json!({"offer_id": format!("off_{session}_{n}"), "merchant_id": "m_keys", "sku_id": sku, "qty": 1,
            "unit_price": 11_900, "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [],
            "expires_at": "2026-05-20T00:00:00Z"});
        must(client, &offer, proposes, None, &proposal);
        let accepts = (
            "buyer:negotiation",
            "platform:aggregator",
            "commerce.accept_offer",
        );
        let reply = format!("{session}-{offer}");
        let yes = json!({"offer_id": proposal["offer_id"]});
        let told = must(client, &accept, accepts, Some(&reply), &yes);
        let emitted = told["emitted"].as_array().unwrap();
        let cert = emitted
            .iter()
            .find_map(|one| one["action"]["payload"]["cert_id"].as_str());
        certs.push(json!({ "cert_id": cert? }));
    }
    for (n, cert) in (1..).zip(&certs) {
        let approves = (
            "consumer:persona",
            "buyer:authorization",
            "delegate.approve_purchase",
        );
        must(client, &format!("approve-{n}"), approves, None, cert);
    }
    certs.try_into().ok()
}

/// Sends an envelope until it is answered for good: what was accepted, or why it was not.
fn insist(client: &mut Client<'_>, envelope: &Value) -> Result<Value, Value> {
    let (body, id) = (envelope.to_string(), envelope["msg_id"].as_str().unwrap());
    loop {
        let (Sent::Told(answer), _) = client.send("/vcp", body.as_bytes(), id) else {
            continue;
        };
        let told = answer.json();
        match (answer.status, told["code"].as_str()) {
            (200, _) => return Ok(told),
            (409, Some("idempotency_in_flight")) => {}
            (
                409,
                Some(
                    "insufficient_inventory"
                    | "mandate_consumed"
                    | "cert_consumed"
                    | "session_settled"
                    | "offer_closed",
                ),
            ) => return Err(told),
            _ => panic!("{envelope}: {told}"),
        }
    }
}
