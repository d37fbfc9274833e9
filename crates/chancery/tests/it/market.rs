//! A node that serves vibe, started as people start it, and one deal on it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use chancery_testkit::process::spawn;
use serde_json::{Value, json};

use crate::support::{Place, Ran};

/// What the buyer keeps to itself, and the merchant: no output may hold them.
pub const BUDGET: u64 = 47_113;
pub const FLOOR: u64 = 8_317;

/// Whether a text holds a private value in any usual way of writing it.
pub fn holds_private(text: &str) -> bool {
    let text = without_random(text);
    let forms = |value: u64| {
        [
            value.to_string(),
            format!("{}.{:02}", value / 100, value % 100),
        ]
    };
    [BUDGET, FLOOR]
        .into_iter()
        .flat_map(forms)
        .any(|form| text.contains(&form))
}

/// A text without its identifiers, its digests and the ports of this machine: by chance they hold any digits.
pub fn without_random(text: &str) -> String {
    const HOST: &str = "127.0.0.1:";
    let mut parts = text.split(HOST);
    let mut portless = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        portless.push_str(HOST);
        portless.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    let ends = |c: char| !c.is_ascii_hexdigit() && c != '-';
    let words = portless.split_inclusive(ends);
    let told = words.map(|word| match word.trim_end_matches(ends) {
        // No price is so long.
        random if random.len() >= 16 => &word[random.len()..],
        _ => word,
    });
    told.collect()
}

#[test]
fn what_is_private_is_found_beside_what_is_random() {
    // VC-PRIV-1
    let random = r#"cert_3b0a47113ca74694 at 127.0.0.1:48317, {"id": "01a18317-1bab-7113-8317-5edaa9347113"}"#;
    assert!(!holds_private(random), "{}", without_random(random));
    for leak in ["47113", "471.13", "8317", "USD 83.17", "-8317"] {
        for text in [
            leak.to_owned(),
            format!("{random}{leak}"),
            format!("{{\"digest\":\"{}\",\"limit\":{leak}}}", "ab".repeat(32)),
            format!("127.0.0.1:48317/{leak} at 2026-05-15T12:00:00Z"),
        ] {
            assert!(holds_private(&text), "{text}");
        }
    }
}

/// A node in development over a small world.
pub struct MarketNode {
    pub place: Place,
    pub url: String,
    child: Child,
}

pub fn world() -> Value {
    json!({
        "seed_id": "w1", "currency": "USD", "policy": {},
        "merchants": [{"merchant_id": "m_keys", "name": "Keys", "account_id": "acc_keys"}],
        "catalog": [{"merchant_id": "m_keys", "sku_id": "sku_quiet", "title": "Quiet keyboard", "attributes": [],
            "list_price": 12_900, "eta_days": 2, "refundable": true}],
        "inventory": [{"merchant_id": "m_keys", "sku_id": "sku_quiet", "on_hand": 10, "reserved": 0}],
        "ledger": [
            {"account_id": "acc_ada", "owner": "c_ada", "currency": "USD", "balance": 1_000_000},
            {"account_id": "acc_keys", "owner": "m_keys", "currency": "USD", "balance": 0},
        ],
        "reputation": [{"merchant_id": "m_keys", "score": 550}],
    })
}

impl MarketNode {
    pub fn start() -> Self {
        Self::start_with("", &[])
    }

    /// The same with more configuration, and the files that it names.
    pub fn start_with(more: &str, files: &[(&str, &str)]) -> Self {
        let place = Place::new();
        place.write("world.json", world().to_string());
        for (name, text) in files {
            place.write(name, text);
        }
        let config = "listen = \"127.0.0.1:0\"\ndev = true\nclock = \"fixed:2026-05-15T12:00:00Z\"\n[vibe]\nworld = \"world.json\"\n";
        place.write("chancery.toml", [config, more].concat());
        let (child, url) = serve(&place);
        Self { place, url, child }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.url.trim_start_matches("http://").parse().unwrap()
    }

    /// Ends the node.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends the node and starts it again.
    pub fn restart(&mut self) {
        self.stop();
        (self.child, self.url) = serve(&self.place);
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.place.command(arguments);
        command.env("CHANCERY_URL", &self.url);
        Ran::from(command.stdin(Stdio::null()).output().unwrap())
    }

    /// Sends an envelope that must be accepted, and gives the answer.
    pub fn say(&self, envelope: &Value) -> Value {
        self.sent(envelope).exits(0).json()
    }

    pub fn sent(&self, envelope: &Value) -> Ran {
        self.place.write("envelope.json", envelope.to_string());
        self.run(&["send", "vibe", "envelope.json", "--json"])
    }

    /// A session in which a purchase mandate was handed over.
    pub fn opened(&self, session: &str, alone_below: u64) {
        self.say(&mandate(session, alone_below));
    }

    /// A session with a certificate that waits for its person; gives the certificate.
    pub fn certified(&self, session: &str, alone_below: u64) -> String {
        self.opened(session, alone_below);
        self.say(&envelope(
            session,
            "search",
            "buyer:discovery",
            "platform:aggregator",
            "commerce.search",
            json!({"query": "quiet keyboard"}),
        ));
        certificate(&self.agreed(session))
    }

    /// An offer and its acceptance, in a session that was opened; gives the answer to the acceptance.
    pub fn agreed(&self, session: &str) -> Value {
        self.say(&envelope(session, "offer", "merchant:pricing", "buyer:negotiation",
            "commerce.propose_offer", json!({
            "offer_id": format!("off_{session}"), "merchant_id": "m_keys", "sku_id": "sku_quiet", "qty": 1,
            "unit_price": 11_900, "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [],
            "expires_at": "2026-05-20T00:00:00Z",
        })));
        let mut accept = envelope(
            session,
            "accept",
            "buyer:negotiation",
            "platform:aggregator",
            "commerce.accept_offer",
            json!({"offer_id": format!("off_{session}")}),
        );
        accept["in_reply_to"] = json!(format!("{session}-offer"));
        self.say(&accept)
    }

    pub fn settle(&self, session: &str, cert: &str) -> Value {
        self.say(&envelope(
            session,
            "settle",
            "buyer:authorization",
            "platform:psp",
            "platform.settle_payment",
            json!({"cert_id": cert}),
        ))
    }

    /// The merchant's goal, with its floor.
    pub fn goal(&self) {
        self.say(&envelope("shop", "goal", "merchant:owner", "merchant:pricing", "delegate.set_business_goal", json!({
            "offer_mandate_id": "om_1", "merchant_id": "m_keys", "goal": "sell", "skus": ["sku_quiet"],
            "pricing": {"list_price": 12_900, "floor_price": FLOOR, "floor_currency": "USD"},
            "permitted_claims": [], "fulfillment": {"methods": ["courier"]},
        })));
    }
}

pub fn serve(place: &Place) -> (Child, String) {
    let mut command = place.command(&["serve"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = spawn(command).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let started: Value = serde_json::from_str(&line).unwrap();
    (
        child,
        format!("http://{}", started["http"].as_str().unwrap()),
    )
}

/// The certificate that the runtime made of an acceptance.
pub fn certificate(answer: &Value) -> String {
    let made = answer["emitted"].as_array().unwrap();
    let cert = made
        .iter()
        .find_map(|one| one["action"]["payload"]["cert_id"].as_str());
    cert.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

impl Drop for MarketNode {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A purchase mandate as it is handed over.
pub fn mandate(session: &str, alone_below: u64) -> Value {
    envelope(
        session,
        "mandate",
        "consumer:persona",
        "buyer:intent",
        "delegate.create_purchase_mandate",
        json!({
            "mandate_id": format!("man_{session}"), "consumer_id": "c_ada",
            "ap2_intent_mandate": {"goal": "a quiet keyboard", "merchants": null, "skus": null,
                "requires_refundability": true, "intent_expiry": "2026-06-01T00:00:00Z"},
            "ap2_cart_mandate": null,
            "authority": {"can_buy_without_confirmation": alone_below > 0,
                "max_spend_without_confirmation": alone_below,
                "can_negotiate": true, "can_accept_substitutes": false,
                "can_share_with_merchant": [], "must_not_share_with_merchant": []},
            "hard_constraints": {"budget": BUDGET, "must_have": []},
            "payment_instrument": {"type": "account", "account_id": "acc_ada"},
        }),
    )
}

pub fn envelope(
    session: &str,
    name: &str,
    from: &str,
    to: &str,
    kind: &str,
    payload: Value,
) -> Value {
    json!({
        "protocol": "vcp", "version": "1.0", "msg_id": format!("{session}-{name}"), "ts": "2026-05-15T12:00:00Z",
        "from": from, "to": to, "session_id": session, "in_reply_to": null,
        "idempotency_key": format!("k-{session}-{name}"), "signature": null,
        "action": {"kind": kind, "payload": payload},
    })
}
