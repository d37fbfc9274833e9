//! A node over a world of vibe, with its door open.

use std::path::Path;
use std::sync::Arc;

use chancery_core::admin::TokenRecord;
use chancery_core::digest::Sha256Digest;
use chancery_core::protocol::Suite as _;
use chancery_core::time::Time;
use chancery_doors::http::{ServeOptions, Server, serve};
use chancery_node::suite::{AllSettings, Chancery};
use chancery_node::{
    Clock, Entropy, GateLimits, NoCarrier, Node, Office, Options, SideLogs, SoftLimits, Vault,
};
use chancery_store::{Embedded, Options as StoreOptions, Store, recover};
use chancery_vibe::settings::Settings;
use chancery_vibe::world::seed::Seed;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::support::{answer, client};

/// Two merchants, two buyers with money, ten keyboards.
pub fn world() -> Value {
    json!({
        "seed_id": "w1", "currency": "USD",
        "policy": {"verification_version": "verify-1", "ranking_version": "rank-1", "min_reputation": 0,
                   "cert_ttl_s": 900, "auth_ttl_s": 900, "freshness_window_s": 300},
        "merchants": [
            {"merchant_id": "m_keys", "name": "Keys", "account_id": "acc_keys"},
            {"merchant_id": "m_other", "name": "Other", "account_id": "acc_other"},
        ],
        "catalog": [
            {"merchant_id": "m_keys", "sku_id": "sku_quiet", "title": "Quiet keyboard", "attributes": ["quiet"],
             "list_price": 12900, "eta_days": 2, "refundable": true},
            {"merchant_id": "m_other", "sku_id": "sku_loud", "title": "Loud keyboard", "attributes": [],
             "list_price": 9900, "eta_days": 3, "refundable": true},
        ],
        "inventory": [
            {"merchant_id": "m_keys", "sku_id": "sku_quiet", "on_hand": 10, "reserved": 0},
            {"merchant_id": "m_other", "sku_id": "sku_loud", "on_hand": 5, "reserved": 0},
        ],
        "ledger": [
            {"account_id": "acc_ada", "owner": "c_ada", "currency": "USD", "balance": 1_000_000},
            {"account_id": "acc_bob", "owner": "c_bob", "currency": "USD", "balance": 1_000_000},
            {"account_id": "acc_keys", "owner": "m_keys", "currency": "USD", "balance": 0},
            {"account_id": "acc_other", "owner": "m_other", "currency": "USD", "balance": 0},
        ],
        "reputation": [{"merchant_id": "m_keys", "score": 800}],
    })
}

/// How such a node is made.
pub struct Market {
    pub seed: Arc<Seed>,
    pub settings: Settings,
    pub clock: Clock,
    /// With tokens the node is no development node.
    pub tokens: Option<Vec<(String, TokenRecord)>>,
}

impl Market {
    /// A development node over a world.
    pub fn over(world: &[u8]) -> Self {
        Self {
            seed: Arc::new(Seed::parse(world).unwrap()),
            settings: Settings::default(),
            clock: Clock::fixed(Time::UNIX_EPOCH),
            tokens: None,
        }
    }

    /// The protocols over its world.
    pub fn suite(&self) -> Chancery {
        Chancery::with_seed(Arc::clone(&self.seed))
    }

    /// An embedded store in a directory, its tail decided again.
    pub fn embedded(&self, dir: &Path) -> Arc<dyn Store> {
        self.recovered(dir).0
    }

    /// The same, and how many lines were decided again.
    pub fn recovered(&self, dir: &Path) -> (Arc<dyn Store>, u64) {
        let suite = self.suite();
        let options = StoreOptions {
            windows: suite.windows(),
            ..StoreOptions::new(dir)
        };
        let (store, tail) = Embedded::open(&options).unwrap();
        let recovered = recover(&suite, &store, &tail).unwrap();
        (Arc::new(store), recovered.lines)
    }

    /// Starts it over an open store.
    pub async fn start(self, store: Arc<dyn Store>) -> Served {
        self.start_within(store, GateLimits::default()).await
    }

    /// The same with a gate of this size.
    pub async fn start_within(self, store: Arc<dyn Store>, gate_limits: GateLimits) -> Served {
        let options = Options {
            suite: Arc::new(self.suite()),
            store,
            vault: Arc::new(Vault::new()),
            clock: self.clock,
            entropy: Entropy::System,
            gate_limits,
            soft_limits: SoftLimits::default(),
            carrier: Arc::new(NoCarrier),
            side_logs: SideLogs::default(),
            hands: chancery_node::Hands::Own,
            spans: None,
        };
        let office: Arc<Office> = Arc::new(Node::start(options).unwrap());
        let settings = AllSettings {
            vibe: self.seed.in_settings(self.settings),
            ..AllSettings::default()
        };
        office.reconcile_settings(&settings).await.unwrap();
        let dev = self.tokens.is_none();
        for (token, record) in self.tokens.into_iter().flatten() {
            let hash = Sha256Digest::of(token.as_bytes());
            office.adopt_token(record, hash).await.unwrap();
        }
        let serving = ServeOptions {
            dev,
            ..ServeOptions::new("127.0.0.1:0".parse().unwrap())
        };
        let server = serve(Arc::clone(&office), serving).unwrap();
        let base = format!("http://{}", server.listening().address);
        Served {
            office,
            server,
            base,
            client: client(),
        }
    }
}

/// A token for some addresses.
pub fn token(
    name: &str,
    addresses: &[&str],
    consumer: Option<&str>,
    merchant: Option<&str>,
) -> (String, TokenRecord) {
    let record = TokenRecord {
        id: format!("t-{name}"),
        principal: name.to_owned(),
        scopes: Vec::new(),
        addresses: addresses.iter().map(ToString::to_string).collect(),
        consumer_id: consumer.map(str::to_owned),
        merchant_id: merchant.map(str::to_owned),
        agent: None,
        revoked: false,
    };
    (format!("tok_{name}"), record)
}

/// A served node.
pub struct Served {
    pub office: Arc<Office>,
    pub server: Server,
    pub base: String,
    pub client: Client,
}

impl Served {
    pub fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.base))
    }

    pub fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> RequestBuilder {
        let request = self.client.post(format!("{}{path}", self.base));
        request
            .header("content-type", "application/json")
            .body(body)
    }

    /// Sends an envelope as a development caller.
    pub async fn say(&self, envelope: &Value) -> (u16, Value) {
        answer(self.said(envelope).await).await
    }

    pub async fn said(&self, envelope: &Value) -> Response {
        let request = self.post("/vcp", envelope.to_string());
        request.send().await.unwrap()
    }

    /// Sends one that must be accepted.
    pub async fn must(&self, envelope: &Value) -> Value {
        let (status, body) = self.say(envelope).await;
        assert_eq!(status, 200, "{envelope}: {body}");
        body
    }

    /// Reads a path that must be there.
    pub async fn read(&self, path: &str) -> Value {
        let (status, body) = answer(self.get(path).send().await.unwrap()).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub async fn stop(self) {
        self.server.stop().await;
        self.office.stop().await.unwrap();
    }
}

/// An envelope with a key of its own.
pub fn envelope(
    id: &str,
    session: &str,
    from: &str,
    to: &str,
    kind: &str,
    payload: Value,
) -> Value {
    json!({
        "protocol": "vcp", "version": "1.0", "msg_id": id, "ts": "2026-05-15T12:00:00Z", "from": from, "to": to,
        "session_id": session, "in_reply_to": null, "idempotency_key": format!("k-{id}"), "signature": null,
        "action": {"kind": kind, "payload": payload},
    })
}

/// The same as an answer to another.
pub fn reply(mut envelope: Value, to: &str) -> Value {
    envelope["in_reply_to"] = json!(to);
    envelope
}

/// What a buyer hands to its agent: it may spend 50,000 at most, and nothing without a word.
pub fn mandate(session: &str, consumer: &str, account: &str) -> Value {
    let payload = json!({
        "mandate_id": format!("man_{session}"), "consumer_id": consumer,
        "ap2_intent_mandate": {"goal": "a quiet keyboard", "merchants": null, "skus": null,
            "requires_refundability": true, "intent_expiry": "2026-06-01T00:00:00Z"},
        "ap2_cart_mandate": null,
        "authority": {"can_buy_without_confirmation": false, "max_spend_without_confirmation": 0,
            "can_negotiate": true, "can_accept_substitutes": false,
            "can_share_with_merchant": [], "must_not_share_with_merchant": ["budget"]},
        "hard_constraints": {"budget": 47_113, "must_have": []},
        "payment_instrument": {"type": "account", "account_id": account},
    });
    let id = format!("{session}-mandate");
    envelope(
        &id,
        session,
        "consumer:persona",
        "buyer:intent",
        "delegate.create_purchase_mandate",
        payload,
    )
}

/// A merchant's offer of one keyboard.
pub fn offer(session: &str, price: u64) -> Value {
    let payload = json!({
        "offer_id": format!("off_{session}"), "merchant_id": "m_keys", "sku_id": "sku_quiet", "qty": 1,
        "unit_price": price, "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [],
        "expires_at": "2026-05-20T00:00:00Z",
    });
    let id = format!("{session}-offer");
    envelope(
        &id,
        session,
        "merchant:pricing",
        "buyer:negotiation",
        "commerce.propose_offer",
        payload,
    )
}

/// The same of another sku at 11,900.
pub fn offer_of(session: &str, sku: &str) -> Value {
    let mut offer = offer(session, 11_900);
    offer["action"]["payload"]["sku_id"] = json!(sku);
    offer
}

/// The buyer's yes to it, with the wish to have it verified.
pub fn accept(session: &str) -> Value {
    let accept = envelope(
        &format!("{session}-accept"),
        session,
        "buyer:negotiation",
        "platform:aggregator",
        "commerce.accept_offer",
        json!({"offer_id": format!("off_{session}")}),
    );
    reply(accept, &format!("{session}-offer"))
}

/// The principal's yes to a certificate.
pub fn approve(session: &str, cert: &str) -> Value {
    envelope(
        &format!("{session}-approve"),
        session,
        "consumer:persona",
        "buyer:authorization",
        "delegate.approve_purchase",
        json!({"cert_id": cert}),
    )
}

impl Served {
    /// Takes a session to a certificate that waits for its principal, and gives its name.
    pub async fn certified(&self, session: &str, consumer: &str, account: &str) -> String {
        self.certified_for(session, consumer, account, "sku_quiet")
            .await
    }

    /// The same for a sku.
    pub async fn certified_for(
        &self,
        session: &str,
        consumer: &str,
        account: &str,
        sku: &str,
    ) -> String {
        self.must(&mandate(session, consumer, account)).await;
        self.must(&offer_of(session, sku)).await;
        let body = self.must(&accept(session)).await;
        assert_eq!(body["follow_up_error"], Value::Null, "{body}");
        let cert = body["emitted"]
            .as_array()
            .unwrap()
            .iter()
            .find(|made| made["action"]["kind"] == "platform.create_match_certificate")
            .unwrap();
        cert["action"]["payload"]["cert_id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The principal's yes.
    pub async fn approve(&self, session: &str, cert: &str) {
        self.must(&approve(session, cert)).await;
    }
}

/// The buyer's request to settle.
pub fn settle(session: &str, cert: &str) -> Value {
    envelope(
        &format!("{session}-settle"),
        session,
        "buyer:authorization",
        "platform:psp",
        "platform.settle_payment",
        json!({"cert_id": cert}),
    )
}
