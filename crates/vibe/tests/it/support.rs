//! A node over a small world, and envelopes for it.

use bytes::Bytes;
use chancery_core::admin::TokenRecord;
use chancery_core::time::{Time, parse_vibe};
use chancery_vibe::conformance::{Host, Reply, Request};
use chancery_vibe::settings::Settings;
use chancery_vibe::world::read::{self, Reader};
use chancery_vibe::world::rows::Table;
use chancery_vibe::world::seed::Seed;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};

use crate::replay::lines;

/// How a property is run: that many cases, the same ones every time.
pub fn property(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(6),
        ..Config::default()
    }
}

/// A world with two merchants and three consumers.
pub fn world() -> Value {
    json!({
        "seed_id": "test", "currency": "USD",
        "policy": {"verification_version": "verify-1", "ranking_version": "rank-1", "min_reputation": 0,
                   "cert_ttl_s": 900, "auth_ttl_s": 900, "freshness_window_s": 300},
        "merchants": [
            {"merchant_id": "m1", "name": "One", "account_id": "a_m1"},
            {"merchant_id": "m2", "name": "Two", "account_id": "a_m2"}],
        "catalog": [
            {"merchant_id": "m1", "sku_id": "s1", "title": "Quiet Keyboard", "attributes": ["brushed"],
             "list_price": 44000, "eta_days": 2, "refundable": true},
            {"merchant_id": "m2", "sku_id": "s1", "title": "Loud Keyboard", "attributes": ["painted"],
             "list_price": 30000, "eta_days": 4, "refundable": true}],
        "inventory": [
            {"merchant_id": "m1", "sku_id": "s1", "on_hand": 5, "reserved": 0},
            {"merchant_id": "m2", "sku_id": "s1", "on_hand": 5, "reserved": 0}],
        "ledger": [
            {"account_id": "a_m1", "owner": "m1", "currency": "USD", "balance": 0},
            {"account_id": "a_m2", "owner": "m2", "currency": "USD", "balance": 0},
            {"account_id": "a_c1", "owner": "c1", "currency": "USD", "balance": 100_000},
            {"account_id": "a_c2", "owner": "c2", "currency": "USD", "balance": 100_000}],
        "reputation": [{"merchant_id": "m1", "score": 700}]
    })
}

/// A seed from its JSON.
pub fn seed(world: &Value) -> Seed {
    Seed::parse(&serde_json::to_vec(world).unwrap()).unwrap()
}

/// Who sends what to whom.
#[derive(Clone, Copy)]
pub struct Way(pub &'static str, pub &'static str, pub &'static str);

pub const ACCEPT_OFFER: Way = Way(
    "merchant:pricing",
    "buyer:negotiation",
    "commerce.accept_offer",
);
pub const ACCEPT_OFFER_BY_NEGOTIATION: Way = Way(
    "buyer:negotiation",
    "platform:aggregator",
    "commerce.accept_offer",
);
pub const APPROVE_PURCHASE: Way = Way(
    "consumer:persona",
    "buyer:authorization",
    "delegate.approve_purchase",
);
pub const CREATE_PURCHASE_MANDATE: Way = Way(
    "consumer:persona",
    "buyer:intent",
    "delegate.create_purchase_mandate",
);
pub const DISPATCH: Way = Way(
    "merchant:fulfillment",
    "buyer:authorization",
    "commerce.dispatch",
);
pub const OPEN_DISPUTE: Way = Way(
    "buyer:authorization",
    "platform:adjudicator",
    "platform.open_dispute",
);
pub const PROPOSE_OFFER: Way = Way(
    "merchant:pricing",
    "buyer:negotiation",
    "commerce.propose_offer",
);
pub const PROPOSE_OFFER_BY_NEGOTIATION: Way = Way(
    "buyer:negotiation",
    "merchant:pricing",
    "commerce.propose_offer",
);
pub const REQUEST_OFFER: Way = Way(
    "buyer:negotiation",
    "merchant:support",
    "commerce.request_offer",
);
pub const RESPOND_INQUIRY: Way = Way(
    "merchant:support",
    "buyer:negotiation",
    "commerce.respond_inquiry",
);
pub const RULE_DISPUTE: Way = Way(
    "platform:adjudicator",
    "merchant:support",
    "platform.rule_dispute",
);
pub const RULE_DISPUTE_BY_ADJUDICATOR: Way = Way(
    "platform:adjudicator",
    "buyer:authorization",
    "platform.rule_dispute",
);
pub const SEARCH: Way = Way("buyer:discovery", "platform:aggregator", "commerce.search");
pub const SETTLE_PAYMENT: Way = Way(
    "buyer:authorization",
    "platform:psp",
    "platform.settle_payment",
);
pub const SETTLE_PAYMENT_BY_PSP: Way = Way(
    "platform:psp",
    "buyer:authorization",
    "platform.settle_payment",
);
pub const SET_BUSINESS_GOAL: Way = Way(
    "merchant:owner",
    "merchant:pricing",
    "delegate.set_business_goal",
);
pub const SUBMIT_EVIDENCE: Way = Way(
    "buyer:authorization",
    "platform:adjudicator",
    "platform.submit_evidence",
);

/// A node, how many envelopes it was sent, and who sends.
pub struct Desk {
    /// The node.
    pub host: Host,
    sent: u64,
    /// The bearer token that is shown.
    pub token: Option<&'static str>,
}

/// The instant that is `seconds` after noon.
pub fn noon(seconds: u64) -> String {
    let at = parse_vibe("2026-05-15T12:00:00Z").unwrap();
    at.saturating_add(std::time::Duration::from_secs(seconds))
        .to_string()
}

/// How many seconds after noon a stamp is.
pub fn seconds(stamp: &Value) -> u64 {
    let noon = parse_vibe("2026-05-15T12:00:00Z").unwrap();
    let at = parse_vibe(stamp.as_str().unwrap()).unwrap();
    at.since(noon).unwrap().as_secs()
}

impl Desk {
    /// A node without tokens.
    pub fn new(settings: Settings) -> Self {
        Self::with(settings, None)
    }

    /// A node with tokens.
    pub fn with(settings: Settings, tokens: Option<Vec<(String, TokenRecord)>>) -> Self {
        let host = Host::new(&seed(&world()), settings, tokens).unwrap();
        Self::over(host)
    }

    /// A node without tokens over another world.
    pub fn of(seed: &Seed, settings: Settings) -> Self {
        Self::over(Host::new(seed, settings, None).unwrap())
    }

    fn over(host: Host) -> Self {
        Self {
            host,
            sent: 0,
            token: None,
        }
    }

    /// Sends an action; gives its `msg_id` and the answer.
    pub fn send(
        &mut self,
        Way(from, to, kind): Way,
        session: &str,
        reply: Option<&str>,
        payload: Value,
    ) -> (String, Reply) {
        self.sent += 1;
        let id = format!("e-{}", self.sent);
        let envelope = json!({
            "protocol": "vcp", "version": "1.0", "msg_id": id, "ts": noon(self.sent), "from": from, "to": to,
            "session_id": session, "in_reply_to": reply, "idempotency_key": format!("k-{id}"), "signature": null,
            "action": {"kind": kind, "payload": payload}
        });
        let reply = self.post(&envelope);
        (id, reply)
    }

    /// Sends an envelope as it is.
    pub fn post(&mut self, envelope: &Value) -> Reply {
        self.post_text(envelope.to_string())
    }

    /// Sends an envelope whose text matters.
    pub fn post_text(&mut self, envelope: String) -> Reply {
        let request = Request {
            body: Bytes::from(envelope),
            authorization: self.token.map(|token| format!("Bearer {token}")),
            ..Request::default()
        };
        self.host.receive(&request, Time::UNIX_EPOCH)
    }

    /// Sends what must be accepted; gives its `msg_id`.
    pub fn yes(
        &mut self,
        Way(from, to, kind): Way,
        session: &str,
        reply: Option<&str>,
        payload: Value,
    ) -> String {
        let (id, reply) = self.send(Way(from, to, kind), session, reply, payload);
        assert_eq!(
            reply.status,
            200,
            "{kind}: {}",
            String::from_utf8_lossy(&reply.body)
        );
        id
    }
}

/// A mandate of a consumer, which settles alone below `ceiling`.
pub fn mandate(id: &str, consumer: &str, account: &str, ceiling: u64) -> Value {
    json!({
        "mandate_id": id, "consumer_id": consumer,
        "ap2_intent_mandate": {"goal": "a keyboard", "merchants": null, "skus": null,
            "requires_refundability": false, "intent_expiry": "2026-06-15T12:00:00Z"},
        "ap2_cart_mandate": null,
        "authority": {"can_buy_without_confirmation": true, "max_spend_without_confirmation": ceiling,
            "can_negotiate": true, "can_accept_substitutes": false, "can_share_with_merchant": [],
            "must_not_share_with_merchant": []},
        "hard_constraints": {"budget": 91_357, "currency": "USD", "must_have": []},
        "payment_instrument": {"type": "card", "account_id": account}
    })
}

/// An offer.
pub fn offer(id: &str, merchant: &str, price: u64, qty: u64) -> Value {
    json!({
        "offer_id": id, "merchant_id": merchant, "sku_id": "s1", "qty": qty, "unit_price": price,
        "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [], "expires_at": "2026-05-15T18:00:00Z"
    })
}

/// A session in which an offer of 10,000 each is agreed, certified and, below the ceiling, authorized; in auto mode.
pub fn agreed(
    desk: &mut Desk,
    session: &str,
    consumer: &str,
    account: &str,
    merchant: &str,
    qty: u64,
    ceiling: u64,
) -> String {
    let mandate_id = format!("man-{session}");
    desk.yes(
        CREATE_PURCHASE_MANDATE,
        session,
        None,
        mandate(&mandate_id, consumer, account, ceiling),
    );
    let offer_id = format!("off-{session}");
    let proposed = desk.yes(
        PROPOSE_OFFER,
        session,
        None,
        offer(&offer_id, merchant, 10_000, qty),
    );
    let (_, reply) = desk.send(
        ACCEPT_OFFER_BY_NEGOTIATION,
        session,
        Some(&proposed),
        json!({"offer_id": offer_id}),
    );
    assert_eq!(
        reply.status,
        200,
        "{}",
        String::from_utf8_lossy(&reply.body)
    );
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    body["emitted"][1]["action"]["payload"]["cert_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

impl Desk {
    /// Sends what must be refused, and gives the code.
    pub fn no(&mut self, way: Way, session: &str, reply: Option<&str>, payload: Value) -> String {
        let (_, answer) = self.send(way, session, reply, payload);
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer.lines_added, 0);
        body["code"]
            .as_str()
            .unwrap_or_else(|| panic!("{body}"))
            .to_owned()
    }

    /// Sends what must be accepted, and gives the answer.
    pub fn told(&mut self, way: Way, session: &str, reply: Option<&str>, payload: Value) -> Value {
        let (_, answer) = self.send(way, session, reply, payload);
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer.status, 200, "{body}");
        body
    }

    /// What is on an account.
    pub fn balance(&self, account: &str) -> i64 {
        let text = read::table(self.host.rows(), Table::Ledger, &Reader::Psp).unwrap();
        let told: Value = serde_json::from_slice(&text.unwrap()).unwrap();
        told["rows"][account]["balance"].as_i64().unwrap()
    }

    /// The lines so far.
    pub fn log(&self) -> Vec<Value> {
        let lines = lines(self.host.units());
        let read = |line: &Bytes| serde_json::from_slice(line).unwrap();
        lines.iter().map(read).collect()
    }
}
