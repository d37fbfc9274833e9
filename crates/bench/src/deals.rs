//! Whole deals of vibe commerce: the world they happen in, and the envelopes of each.

use anyhow::Result;
use chancery_core::ids::{ObjectKind, child_id, object_id};
use chancery_vibe::world::seed::Seed;
use serde_json::{Value, json};

/// Envelopes of a deal: mandate, offer, acceptance, approval, settlement.
pub(crate) const STEPS: usize = 5;
pub(crate) const BUYERS: usize = 64;
const SKUS: usize = 1_000;

/// A world with enough stock and money for every deal of a benchmark.
pub(crate) fn seed() -> Result<Seed> {
    let parsed = Seed::parse(world().as_bytes());
    parsed.map_err(|fault| anyhow::anyhow!("the world of the benchmark: {fault}"))
}

/// The text of its seed.
pub(crate) fn world() -> String {
    let sku = |n: usize| format!("sku{n}");
    let listing = |n| {
        json!({"merchant_id": "m", "sku_id": sku(n), "title": "Quiet keyboard", "attributes": [], "list_price": 12_900,
            "eta_days": 2, "refundable": true})
    };
    let stock =
        |n| json!({"merchant_id": "m", "sku_id": sku(n), "on_hand": 1_000_000_000, "reserved": 0});
    let account = |n: usize| {
        json!({"account_id": format!("acc{n}"), "owner": format!("c{n}"), "currency": "USD",
            "balance": 1_000_000_000_000_i64})
    };
    let merchant = json!({"account_id": "accm", "owner": "m", "currency": "USD", "balance": 0});
    json!({
        "seed_id": "bench", "currency": "USD", "policy": {},
        "merchants": [{"merchant_id": "m", "name": "Keys", "account_id": "accm"}],
        "catalog": (0..SKUS).map(listing).collect::<Vec<_>>(),
        "inventory": (0..SKUS).map(stock).collect::<Vec<_>>(),
        "ledger": (0..BUYERS).map(account).chain([merchant]).collect::<Vec<_>>(),
    })
    .to_string()
}

fn envelope(id: &str, deal: usize, way: [&str; 3], reply: Option<&str>, payload: &Value) -> String {
    let [from, to, kind] = way;
    json!({
        "protocol": "vcp", "version": "1.0", "msg_id": id, "ts": "2026-05-15T12:00:00Z", "from": from, "to": to,
        "session_id": format!("s{deal}"), "in_reply_to": reply, "idempotency_key": format!("k{id}"), "signature": null,
        "action": {"kind": kind, "payload": payload},
    })
    .to_string()
}

/// The envelopes of one deal. What the node makes on the way has names that follow from theirs (VC-CAN-6, VC-CAN-7).
pub(crate) fn deal(n: usize) -> [String; STEPS] {
    let id = |step: &str| format!("d{n}{step}");
    let buyer = n % BUYERS;
    let mandate = json!({
        "mandate_id": format!("man{n}"), "consumer_id": format!("c{buyer}"),
        "ap2_intent_mandate": {"goal": "a quiet keyboard", "merchants": null, "skus": null,
            "requires_refundability": true, "intent_expiry": "2026-06-01T00:00:00Z"},
        "ap2_cart_mandate": null,
        "authority": {"can_buy_without_confirmation": false, "max_spend_without_confirmation": 0,
            "can_negotiate": true, "can_accept_substitutes": false, "can_share_with_merchant": [],
            "must_not_share_with_merchant": []},
        "hard_constraints": {"budget": 47_113, "must_have": []},
        "payment_instrument": {"type": "account", "account_id": format!("acc{buyer}")},
    });
    let offer_id = format!("off{n}");
    let offer = json!({"offer_id": offer_id, "merchant_id": "m", "sku_id": format!("sku{}", n % SKUS), "qty": 1,
        "unit_price": 11_900, "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [],
        "expires_at": "2026-05-20T00:00:00Z"});
    let (offered, accepted) = (id("o"), id("a"));
    // Behind the acceptance come the verification and the certificate.
    let certified = child_id(&accepted, 2).to_string();
    let cert = json!({"cert_id": object_id(ObjectKind::Cert, &certified)});
    let (person, authorization) = ("consumer:persona", "buyer:authorization");
    let (pricing, negotiation) = ("merchant:pricing", "buyer:negotiation");
    let mandates = [person, "buyer:intent", "delegate.create_purchase_mandate"];
    let proposes = [pricing, negotiation, "commerce.propose_offer"];
    let accepts = [negotiation, "platform:aggregator", "commerce.accept_offer"];
    let approves = [person, authorization, "delegate.approve_purchase"];
    let settles = [authorization, "platform:psp", "platform.settle_payment"];
    let agreed = json!({"offer_id": offer_id});
    [
        envelope(&id("m"), n, mandates, None, &mandate),
        envelope(&offered, n, proposes, None, &offer),
        envelope(&accepted, n, accepts, Some(&offered), &agreed),
        envelope(&id("y"), n, approves, None, &cert),
        envelope(&id("s"), n, settles, None, &cert),
    ]
}
