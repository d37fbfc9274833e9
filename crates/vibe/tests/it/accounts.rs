//! Whose money it is: what a consumer has, what a merchant owes, and what is held.

use chancery_core::ids::{ObjectKind, object_id};
use chancery_vibe::settings::Settings;
use serde_json::{Value, json};

use crate::support::{
    DISPATCH, Desk, OPEN_DISPUTE, RULE_DISPUTE, SEARCH, SETTLE_PAYMENT, Way, agreed, noon, seed,
    world,
};

const AUTHORIZE: Way = Way(
    "platform:psp",
    "buyer:authorization",
    "platform.authorize_payment",
);
const REQUEST_RETURN: Way = Way(
    "buyer:authorization",
    "merchant:support",
    "commerce.request_return",
);
const RESPOND_RETURN: Way = Way(
    "merchant:support",
    "buyer:authorization",
    "commerce.respond_return",
);
const REJECT: Way = Way(
    "consumer:persona",
    "buyer:authorization",
    "delegate.reject_purchase",
);

/// A world in which accounts are owned by whom their rows name, whatever the merchants are called.
fn owned(owners: &[(&str, &str)]) -> Value {
    let mut world = world();
    for account in world["ledger"].as_array_mut().unwrap() {
        let named = owners.iter().find(|(id, _)| account["account_id"] == *id);
        if let Some((_, owner)) = named {
            account["owner"] = json!(owner);
        }
    }
    world
}

/// A settled purchase of 10,000 from a merchant that owes more, whose account is owned by another name; the answer.
fn bought_of_a_debtor() -> (Desk, Value) {
    let mut world = owned(&[("a_m1", "one_gmbh")]);
    world["ledger"][0]["balance"] = json!(-50_000);
    let mut desk = Desk::of(&seed(&world), Settings::default());
    let cert = agreed(&mut desk, "x", "c1", "a_c1", "m1", 1, 20_000);
    let settled = desk.told(SETTLE_PAYMENT, "x", None, json!({"cert_id": cert}));
    assert_eq!(
        (desk.balance("a_m1"), desk.balance("a_c1")),
        (-40_000, 90_000)
    );
    (desk, settled)
}

#[test]
fn a_ruling_takes_from_a_merchant_what_it_does_not_have() {
    // VC-ACT-world-4, VC-WLD-1: whoever owns its account
    let (mut desk, settled) = bought_of_a_debtor();
    let opened =
        json!({"tx_id": settled["state_diff"]["tx_id"], "reason": "broken", "evidence": []});
    let opened = desk.told(OPEN_DISPUTE, "d", None, opened);
    let dispute = &opened["emitted"][0]["action"]["payload"]["dispute_id"];
    let ruling = json!({"dispute_id": dispute, "ruling": "refund_full", "rationale": "it is", "evidence": ["e-1"],
        "reputation_delta": 0});
    desk.yes(RULE_DISPUTE, "d", None, ruling);
    assert_eq!(
        (desk.balance("a_m1"), desk.balance("a_c1")),
        (-50_000, 100_000)
    );
}

#[test]
fn a_merchant_gives_back_what_it_does_not_have() {
    // VC-ACT-world-4, VC-ACT-platform.refund_payment-1
    let (mut desk, settled) = bought_of_a_debtor();
    let order = &settled["emitted"][0]["action"]["payload"]["order_id"];
    desk.yes(DISPATCH, "x", None, json!({ "order_id": order }));
    let wish = json!({"tx_id": settled["state_diff"]["tx_id"], "reason": "too loud"});
    let asked = desk.yes(REQUEST_RETURN, "x", None, wish);
    let consent = json!({"return_id": object_id(ObjectKind::Return, &asked), "decision": "approve",
        "refund_amount": 10_000, "restock": false});
    let told = desk.told(RESPOND_RETURN, "x", Some(&asked), consent);
    assert_eq!(told["follow_up_error"], Value::Null);
    assert_eq!(
        (desk.balance("a_m1"), desk.balance("a_c1")),
        (-50_000, 100_000)
    );
}

/// Sends an action at so many seconds after noon; the status and the body.
fn at(
    desk: &mut Desk,
    seconds: u64,
    Way(from, to, kind): Way,
    session: &str,
    payload: &Value,
) -> (u16, Value) {
    let id = format!("at-{seconds}-{session}-{}", kind.replace('.', "-"));
    let reply = desk.post(&json!({
        "protocol": "vcp", "version": "1.0", "msg_id": id, "ts": noon(seconds), "from": from, "to": to,
        "session_id": session, "in_reply_to": null, "idempotency_key": format!("k-{id}"), "signature": null,
        "action": {"kind": kind, "payload": payload}
    }));
    (reply.status, serde_json::from_slice(&reply.body).unwrap())
}

/// The payment that a certificate over so much asks for.
fn payment(cert: &str, account: &str, amount: u64) -> Value {
    json!({"cert_id": cert, "payment_instrument": {"type": "card", "account_id": account},
        "payment_mandate": {"payment_mandate_id": "pay", "payment_details_id": cert,
            "payment_details_total": {"currency": "USD", "amount": amount}, "merchant_agent": "m1",
            "timestamp": noon(0)}})
}

/// A world in which an authorization ends long before its certificate.
fn short_lived() -> Value {
    let mut world = world();
    world["policy"]["auth_ttl_s"] = json!(60);
    world["ledger"][2]["balance"] = json!(10_000);
    world
}

#[test]
fn a_buyer_whose_name_is_a_merchants_as_well_pays_no_more_than_it_has() {
    // VC-ACT-world-4, VC-CLR-17: what one session held has lapsed for another, whose clock is ahead
    let mut world = short_lived();
    world["ledger"][2]["owner"] = json!("m2");
    let mut desk = Desk::of(&seed(&world), Settings::default());
    let held = agreed(&mut desk, "x", "m2", "a_c1", "m1", 1, 20_000);
    let (status, _) = at(&mut desk, 120, SEARCH, "y", &json!({"query": "keyboard"}));
    assert_eq!(status, 200);
    let paid = agreed(&mut desk, "y", "m2", "a_c1", "m1", 1, 20_000);
    let settle = |cert: &str| json!({ "cert_id": cert });
    let (status, body) = at(&mut desk, 121, SETTLE_PAYMENT, "y", &settle(&paid));
    assert_eq!(status, 200, "{body}");
    let (status, body) = at(&mut desk, 30, SETTLE_PAYMENT, "x", &settle(&held));
    assert_eq!(
        (status, &body["code"]),
        (409, &json!("invariant_violation"))
    );
    assert_eq!(desk.balance("a_c1"), 0);
}

#[test]
fn money_that_was_held_twice_for_a_purchase_is_given_back_twice() {
    // VC-ACT-delegate.reject_purchase-2, VC-SET-4, VC-CLR-17
    for (ends_by, reason) in [(REJECT, Some("too dear")), (SETTLE_PAYMENT, None)] {
        let mut desk = Desk::of(&seed(&short_lived()), Settings::default());
        let cert = agreed(&mut desk, "x", "c1", "a_c1", "m1", 1, 20_000);
        // The first authorization has lapsed, by this session's clock.
        let again = payment(&cert, "a_c1", 10_000);
        let (status, body) = at(&mut desk, 120, AUTHORIZE, "x", &again);
        assert_eq!(status, 200, "{body}");
        let mut over = json!({ "cert_id": cert });
        if let Some(reason) = reason {
            over["reason"] = json!(reason);
        }
        let (status, body) = at(&mut desk, 121, ends_by, "x", &over);
        assert_eq!(status, 200, "{body}");
        let holds = chancery_vibe::state::key::holds("a_c1");
        let left = chancery_core::rows::Rows::get(desk.host.rows(), &holds);
        assert_eq!(left, chancery_core::rows::Lookup::Absent);
    }
}
