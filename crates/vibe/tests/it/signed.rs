//! A signed deal from the first search to the refund, with the platform in auto mode: who signs, and what is checked.

use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::{ReadRules, read};
use chancery_core::keys::jws;
use chancery_core::keys::p256::SigningKey;
use chancery_core::keys::{KeyRecord, KeyState};
use chancery_core::time::{Time, parse_vibe};
use chancery_vibe::conformance::{Host, Reply, Request};
use chancery_vibe::settings::{Clock, Platform, Settings};
use chancery_vibe::world::hash::world_hash;
use chancery_vibe::world::seed::Seed;
use serde_json::{Value, json};

use crate::replay::{lines, replay};
use crate::support::{
    ACCEPT_OFFER_BY_NEGOTIATION, APPROVE_PURCHASE, CREATE_PURCHASE_MANDATE, DISPATCH,
    PROPOSE_OFFER, SEARCH, SETTLE_PAYMENT, Way, mandate, noon, offer, seed, world,
};

/// Who signs with what: the name of the key, its scalar, its addresses.
const KEYS: [(&str, u8, &[&str]); 3] = [
    ("person", 11, &["consumer:persona"]),
    (
        "buyer",
        12,
        &[
            "buyer:discovery",
            "buyer:negotiation",
            "buyer:authorization",
        ],
    ),
    (
        "merchant",
        13,
        &[
            "merchant:pricing",
            "merchant:fulfillment",
            "merchant:support",
        ],
    ),
];

fn key(scalar: u8) -> SigningKey {
    SigningKey::from_scalar(&[scalar; 32]).unwrap()
}

fn signed_world() -> Seed {
    let pinned = KEYS.map(|(kid, scalar, addresses)| {
        let (x, y) = key(scalar).verifying_key().to_jwk();
        json!({"kid": kid, "jwk": {"kty": "EC", "crv": "P-256", "x": x, "y": y}, "addresses": addresses})
    });
    let mut world = world();
    world["keys"] = json!(pinned);
    seed(&world)
}

/// The signature of an envelope, as VC-SIG-2 writes it.
fn signature(envelope: &Value, kid: &str, key: &SigningKey) -> String {
    let text = envelope.to_string();
    let body = to_bytes(
        &read(text.as_bytes(), &ReadRules::OWN).unwrap(),
        Dialect::Vibe,
    );
    let header = format!("{{\"alg\":\"ES256\",\"kid\":\"{kid}\"}}");
    jws::sign(key, header.as_bytes(), &body)
}

/// A node whose clock stands still, and what it accepted from outside.
struct Signing {
    host: Host,
    sent: u64,
    accepted: Vec<Value>,
}

impl Signing {
    fn post(&mut self, envelope: &Value) -> Reply {
        let request = Request {
            body: Bytes::from(envelope.to_string()),
            ..Request::default()
        };
        let now: Time = parse_vibe("2026-05-15T12:01:00Z").unwrap();
        self.host.receive(&request, now)
    }

    /// Sends what must be accepted when it is signed, and is refused when it is not or by another's key.
    fn tell(&mut self, Way(from, to, kind): Way, reply: Option<&str>, payload: Value) -> Value {
        self.sent += 1;
        let id = format!("e-{}", self.sent);
        let mut envelope = json!({
            "protocol": "vcp", "version": "1.0", "msg_id": id, "ts": noon(self.sent), "from": from, "to": to,
            "session_id": "s", "in_reply_to": reply, "idempotency_key": format!("k-{id}"),
            "action": {"kind": kind, "payload": payload}
        });
        let unsigned = self.post(&envelope);
        assert_eq!((unsigned.status, unsigned.lines_added), (401, 0), "{kind}");
        for (kid, scalar, addresses) in KEYS {
            let signature = signature(&envelope, kid, &key(scalar));
            let mut signed = envelope.clone();
            signed["signature"] = json!(signature);
            if addresses.contains(&from) {
                envelope = signed;
                break;
            }
            let foreign = self.post(&signed);
            assert_eq!((foreign.status, foreign.lines_added), (401, 0), "{kind}");
        }
        let answer = self.post(&envelope);
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer.status, 200, "{kind}: {body}");
        self.accepted.push(envelope);
        body
    }

    /// The last accepted envelope's identifier.
    fn last(&self) -> String {
        format!("e-{}", self.sent)
    }
}

fn kinds(answer: &Value) -> Vec<&str> {
    let emitted = answer["emitted"].as_array().unwrap().iter();
    emitted
        .map(|made| made["action"]["kind"].as_str().unwrap())
        .collect()
}

/// A deal in which everything happens that the runtime does by itself.
fn deal() -> Signing {
    let settings = Settings {
        platform: Platform::Auto,
        clock: Clock::Wall,
        signed: true,
        ..Settings::default()
    };
    let mut node = Signing {
        host: Host::new(&signed_world(), settings, None).unwrap(),
        sent: 0,
        accepted: Vec::new(),
    };
    let found = node.tell(SEARCH, None, json!({"query": "quiet keyboard"}));
    assert_eq!(kinds(&found), ["platform.rank_offers"]);
    node.tell(
        CREATE_PURCHASE_MANDATE,
        None,
        mandate("man", "c1", "a_c1", 0),
    );
    node.tell(PROPOSE_OFFER, None, offer("off", "m1", 10_000, 1));
    let accept = json!({"offer_id": "off"});
    let proposed = node.last();
    let agreed = node.tell(ACCEPT_OFFER_BY_NEGOTIATION, Some(&proposed), accept);
    assert_eq!(
        kinds(&agreed),
        [
            "platform.verify_claims",
            "platform.create_match_certificate"
        ]
    );
    let cert_id = agreed["emitted"][1]["action"]["payload"]["cert_id"].clone();
    let cert = json!({ "cert_id": cert_id });
    let approved = node.tell(APPROVE_PURCHASE, None, cert.clone());
    assert_eq!(kinds(&approved), ["platform.authorize_payment"]);
    let settled = node.tell(SETTLE_PAYMENT, None, cert);
    assert_eq!(
        kinds(&settled),
        [
            "world.create_order",
            "world.reserve_inventory",
            "world.update_ledger"
        ]
    );
    give_back(&mut node, &settled);
    node
}

fn give_back(node: &mut Signing, settled: &Value) {
    let order = &settled["emitted"][0]["action"]["payload"]["order_id"];
    node.tell(DISPATCH, None, json!({ "order_id": order }));
    let wish = json!({"tx_id": settled["state_diff"]["tx_id"], "reason": "too loud"});
    let ask = Way(
        "buyer:authorization",
        "merchant:support",
        "commerce.request_return",
    );
    node.tell(ask, None, wish);
    let asked = node.last();
    let answer = Way(
        "merchant:support",
        "buyer:authorization",
        "commerce.respond_return",
    );
    let back = chancery_core::ids::object_id(chancery_core::ids::ObjectKind::Return, &asked);
    let consent =
        json!({"return_id": back, "decision": "approve", "refund_amount": 10_000, "restock": true});
    let refunded = node.tell(answer, Some(&asked), consent);
    assert_eq!(
        kinds(&refunded),
        [
            "world.update_order",
            "platform.refund_payment",
            "world.update_ledger",
            "world.update_order",
            "world.update_inventory"
        ]
    );
}

#[test]
fn those_outside_sign_and_the_runtime_does_not() {
    // VC-SIG-1, VC-SIG-2, VC-SIG-3, VC-SIG-4, VC-SIG-6, VC-AUD-1, VC-AUD-2, VC-PLAT-1, VC-PLAT-3, VC-RPL-1, VC-RPL-2
    let node = deal();
    let log = lines(node.host.units());
    let (mut outside, mut made) = (Vec::new(), 0);
    for line in &log {
        let line: Value = serde_json::from_slice(line).unwrap();
        if line["meta"]["protocol"] != "vibe" {
            continue;
        }
        let (envelope, signature) = (&line["envelope"], line.get("signature"));
        match line["meta"]["origin"].as_str().unwrap() {
            "external" => {
                assert_eq!(signature, Some(&envelope["signature"]));
                assert!(signature.is_some_and(Value::is_string), "{line}");
                outside.push(envelope.clone());
            }
            "runtime" => {
                assert_eq!(signature, None, "{line}");
                assert!(envelope["signature"].is_null(), "{line}");
                made += 1;
            }
            other => panic!("{other}: {line}"),
        }
    }
    assert_eq!(outside, node.accepted, "as they were sent");
    assert_eq!((outside.len(), made), (9, 15));
    let (report, rows) = replay(&log, &signed_world());
    assert_eq!(report.divergence, None);
    assert_eq!(report.replayed, log.len() as u64);
    assert_eq!(report.signatures, outside.len() as u64);
    assert_eq!(world_hash(&rows), world_hash(node.host.rows()));
}

/// A search by the buyer, signed.
fn signed_search(id: &str) -> Value {
    let mut envelope = json!({
        "protocol": "vcp", "version": "1.0", "msg_id": id, "ts": noon(30), "from": "buyer:discovery",
        "to": "platform:aggregator", "session_id": id, "in_reply_to": null, "idempotency_key": null,
        "action": {"kind": "commerce.search", "payload": {"query": "quiet keyboard"}}
    });
    let signature = signature(&envelope, "buyer", &key(12));
    envelope["signature"] = json!(signature);
    envelope
}

/// A record of the buyer's key, withdrawn.
fn withdrawn(owner: &str) -> KeyRecord {
    let records = signed_world().key_records();
    let mut record = records.into_iter().find(|record| record.owner == owner);
    record.as_mut().unwrap().state = KeyState::Compromised;
    record.unwrap()
}

#[test]
fn a_key_that_was_withdrawn_signs_nothing_any_more() {
    // VC-SIG-4, VC-RPL-1: as a whole, or for one address
    for owner in ["vibe/buyer", "vibe/buyer/buyer:discovery"] {
        let mut node = deal();
        node.host.record_key(withdrawn(owner)).unwrap();
        // On its way already: its signature was checked against the keys as they were.
        let late = node.post(&signed_search("late"));
        node.host.follow_keys().unwrap();
        let later = node.post(&signed_search("later"));
        for reply in [late, later] {
            let body: Value = serde_json::from_slice(&reply.body).unwrap();
            assert_eq!((reply.status, reply.lines_added), (401, 0), "{body}");
            assert_eq!(body["code"], "signature_invalid");
        }
        let log = lines(node.host.units());
        let (report, _) = replay(&log, &signed_world());
        assert_eq!(report.divergence, None);
        assert_eq!(report.signatures, 9, "those from before count");
    }
}

#[test]
fn a_key_that_lost_an_address_signs_for_its_others() {
    let mut node = deal();
    let of_negotiation = withdrawn("vibe/buyer/buyer:negotiation");
    node.host.record_key(of_negotiation).unwrap();
    node.host.follow_keys().unwrap();
    assert_eq!(node.post(&signed_search("search")).status, 200);
}
