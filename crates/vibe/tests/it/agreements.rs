//! Agreements and what stays private around them: one small story for each sentence.

use chancery_vibe::settings::Settings;
use chancery_vibe::world::hash::state_hash;
use serde_json::{Value, json};

use crate::promises::{goal, settled};
use crate::support::{
    ACCEPT_OFFER, ACCEPT_OFFER_BY_NEGOTIATION, APPROVE_PURCHASE, CREATE_PURCHASE_MANDATE, DISPATCH,
    Desk, OPEN_DISPUTE, PROPOSE_OFFER, PROPOSE_OFFER_BY_NEGOTIATION, REQUEST_OFFER,
    RULE_DISPUTE_BY_ADJUDICATOR, SEARCH, SET_BUSINESS_GOAL, SETTLE_PAYMENT, SUBMIT_EVIDENCE, Way,
    agreed, mandate, noon, offer,
};

const REJECT_PURCHASE: Way = Way(
    "consumer:persona",
    "buyer:authorization",
    "delegate.reject_purchase",
);
const COUNTER: Way = Way(
    "buyer:negotiation",
    "merchant:pricing",
    "commerce.counter_offer",
);
const REJECT_OFFER: Way = Way(
    "buyer:negotiation",
    "merchant:pricing",
    "commerce.reject_offer",
);
const AGREE: Way = Way(
    "buyer:negotiation",
    "merchant:pricing",
    "commerce.accept_offer",
);
const GIVE_BACK: Way = Way(
    "buyer:authorization",
    "merchant:support",
    "commerce.request_return",
);
const ASK: Way = Way(
    "platform:adjudicator",
    "buyer:authorization",
    "platform.request_evidence",
);

/// The budget of the mandates of these tests.
const BUDGET: u64 = 91_357;

#[test]
fn accepting_moves_no_money_and_needs_an_open_offer_of_the_other_side() {
    // VC-ACT-commerce.accept_offer-1, VC-ACT-commerce.accept_offer-2, VC-ACT-commerce.reject_offer-1
    let mut desk = Desk::new(Settings::default());
    desk.yes(
        CREATE_PURCHASE_MANDATE,
        "x",
        None,
        mandate("m", "c1", "a_c1", 0),
    );
    let before = state_hash(desk.host.rows());
    let propose =
        |desk: &mut Desk, id: &str| desk.yes(PROPOSE_OFFER, "x", None, offer(id, "m1", 10_000, 1));
    let of = |id: &str| json!({"offer_id": id});
    let (first, second, third) = (
        propose(&mut desk, "o1"),
        propose(&mut desk, "o2"),
        propose(&mut desk, "o3"),
    );
    assert_eq!(
        desk.no(AGREE, "x", Some(&first), of("none")),
        "offer_not_found"
    );
    assert_eq!(
        desk.no(ACCEPT_OFFER, "x", Some(&first), of("o1")),
        "own_offer"
    );
    assert_eq!(
        desk.no(AGREE, "x", Some(&second), of("o1")),
        "thread_mismatch"
    );
    assert_eq!(desk.no(AGREE, "x", None, of("o1")), "in_reply_to_required");
    desk.yes(AGREE, "x", Some(&first), of("o1"));
    assert_eq!(desk.no(AGREE, "x", Some(&first), of("o1")), "offer_closed");
    desk.yes(COUNTER, "x", Some(&second), offer("o4", "m1", 9_000, 1));
    assert_eq!(
        desk.no(AGREE, "x", Some(&second), of("o2")),
        "offer_superseded"
    );
    assert_eq!(
        desk.no(REJECT_OFFER, "x", Some(&second), of("o2")),
        "offer_superseded"
    );
    desk.yes(
        REJECT_OFFER,
        "x",
        Some(&third),
        json!({"offer_id": "o3", "reason": "too dear"}),
    );
    assert_eq!(
        desk.no(REJECT_OFFER, "x", Some(&third), of("o3")),
        "offer_closed"
    );
    assert_eq!(desk.no(AGREE, "x", Some(&third), of("o3")), "offer_closed");
    let mut brief = offer("o5", "m1", 10_000, 1);
    brief["expires_at"] = json!(noon(40));
    let brief = desk.yes(PROPOSE_OFFER, "x", None, brief);
    let late = json!({
        "protocol": "vcp", "version": "1.0", "msg_id": "late", "ts": noon(40), "from": "buyer:negotiation",
        "to": "merchant:pricing", "session_id": "x", "in_reply_to": brief, "idempotency_key": "late",
        "action": {"kind": "commerce.accept_offer", "payload": {"offer_id": "o5"}}
    });
    let refused: Value = serde_json::from_slice(&desk.post(&late).body).unwrap();
    assert_eq!(refused["code"], "offer_expired");
    assert_eq!(
        state_hash(desk.host.rows()),
        before,
        "money and stock are as they were"
    );
}

#[test]
fn the_mandate_carries_what_nobody_else_may_say() {
    // VC-PRIV-4, VC-PRIV-5
    let mut desk = Desk::new(Settings::default());
    desk.yes(SET_BUSINESS_GOAL, "shop", None, goal(true, None));
    desk.yes(
        CREATE_PURCHASE_MANDATE,
        "x",
        None,
        mandate("m", "c1", "a_c1", 0),
    );
    let bid = |price| offer(&format!("b{price}"), "m1", price, 1);
    assert_eq!(
        desk.no(PROPOSE_OFFER_BY_NEGOTIATION, "x", None, bid(BUDGET)),
        "private_utility_leak"
    );
    assert_eq!(
        desk.no(PROPOSE_OFFER, "x", None, bid(8_117)),
        "private_utility_leak"
    );
    // Each scan uses the sender's own store: the other side's number is a number like any other.
    desk.yes(PROPOSE_OFFER, "x", None, bid(BUDGET));
    desk.yes(PROPOSE_OFFER_BY_NEGOTIATION, "x", None, bid(8_117));
}

#[test]
fn a_certificate_binds_one_mandate_to_one_offer_and_is_used_once() {
    // VC-OBJ-MatchCertificate-1, VC-OBJ-MatchCertificate-4, VC-SET-6
    let mut desk = Desk::new(Settings::default());
    let cert = agreed(&mut desk, "x", "c1", "a_c1", "m1", 2, 30_000);
    let issued = desk.log().into_iter().find_map(|line| {
        let payload = &line["envelope"]["action"]["payload"];
        (payload["cert_id"] == cert.as_str() && payload.get("checks").is_some())
            .then(|| payload.clone())
    });
    let issued = issued.unwrap();
    assert_eq!(
        (&issued["mandate_id"], &issued["offer_id"]),
        (&json!("man-x"), &json!("off-x"))
    );
    assert_eq!(
        (&issued["total"], &issued["policy_version"]),
        (&json!(20_000), &json!("verify-1"))
    );
    let before: Vec<i64> = ["a_c1", "a_m1", "a_c2", "a_m2"]
        .map(|id| desk.balance(id))
        .into();
    desk.yes(SETTLE_PAYMENT, "x", None, json!({"cert_id": cert}));
    // The money goes from the buyer to the merchant at once; there is no account between them.
    let after: Vec<i64> = ["a_c1", "a_m1", "a_c2", "a_m2"]
        .map(|id| desk.balance(id))
        .into();
    let moved: Vec<i64> = after
        .iter()
        .zip(&before)
        .map(|(after, before)| after - before)
        .collect();
    assert_eq!(moved, [-20_000, 20_000, 0, 0]);
    for way in [SETTLE_PAYMENT, APPROVE_PURCHASE] {
        assert_eq!(
            desk.no(way, "x", None, json!({"cert_id": cert})),
            "cert_consumed"
        );
    }
    let reject = json!({"cert_id": cert, "reason": "late"});
    assert_eq!(desk.no(REJECT_PURCHASE, "x", None, reject), "cert_consumed");
}

#[test]
fn a_counter_answers_an_offer_of_the_same_merchant() {
    // VC-CLR-11
    let mut desk = Desk::new(Settings::default());
    desk.yes(SET_BUSINESS_GOAL, "shop", None, goal(true, None));
    desk.yes(
        CREATE_PURCHASE_MANDATE,
        "x",
        None,
        mandate("m", "c1", "a_c1", 0),
    );
    let asked = desk.yes(
        REQUEST_OFFER,
        "x",
        None,
        json!({"merchant_id": "m1", "sku_id": "s1"}),
    );
    let proposed = desk.yes(PROPOSE_OFFER, "x", None, offer("o1", "m1", 10_000, 1));
    let counter = |id: &str, merchant: &str| offer(id, merchant, 9_000, 1);
    assert_eq!(
        desk.no(COUNTER, "x", Some(&asked), counter("o2", "m1")),
        "thread_mismatch"
    );
    assert_eq!(
        desk.no(COUNTER, "x", Some(&proposed), counter("o2", "m2")),
        "substitute_not_allowed"
    );
    // `can_negotiate` of the goal is for the merchant's own agent.
    let countered = desk.yes(COUNTER, "x", Some(&proposed), counter("o2", "m1"));
    let back = Way(
        "merchant:pricing",
        "buyer:negotiation",
        "commerce.counter_offer",
    );
    desk.yes(back, "x", Some(&countered), counter("o3", "m1"));
}

#[test]
fn an_offer_is_asked_for_by_two_identifiers() {
    // VC-ACT-commerce.request_offer-1, VC-ENV-4: what is no identifier is of the wrong form, and not unknown.
    let mut desk = Desk::new(Settings::default());
    desk.yes(SEARCH, "x", None, json!({"query": "q"}));
    let ids = json!({"merchant_id": "m1", "sku_id": "s1"});
    for name in ["merchant_id", "sku_id"] {
        for wrong in [json!(""), json!("m 1"), json!("x".repeat(129)), Value::Null] {
            let mut asked = ids.clone();
            asked[name] = wrong;
            assert_eq!(
                desk.no(REQUEST_OFFER, "x", None, asked),
                "malformed_payload",
                "{name}"
            );
        }
        let mut unknown = ids.clone();
        unknown[name] = json!("nobody");
        assert_eq!(
            desk.no(REQUEST_OFFER, "x", None, unknown),
            "sku_not_found",
            "{name}"
        );
    }
    desk.yes(REQUEST_OFFER, "x", None, ids);
}

#[test]
fn an_item_is_refundable_when_catalog_and_goal_say_so() {
    // VC-CLR-13
    for (refundable, expected) in [(true, None), (false, Some("not_refundable"))] {
        let mut desk = Desk::new(Settings::default());
        desk.yes(SET_BUSINESS_GOAL, "shop", None, goal(refundable, None));
        let (tx, order) = settled(&mut desk, "x");
        desk.yes(DISPATCH, "x", None, json!({"order_id": order}));
        let wish = json!({"tx_id": tx, "reason": "too loud"});
        let (_, answer) = desk.send(GIVE_BACK, "x", None, wish);
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["code"].as_str(), expected);
    }
}

#[test]
fn what_is_private_stays_so_when_a_dispute_is_opened() {
    // VC-PRIV-1, VC-PRIV-3, VC-CLR-16: its session is new, and its store is that of the order's session.
    let mut desk = Desk::new(Settings::default());
    let (tx, _) = settled(&mut desk, "x");
    // Of two buyers each keeps its own secrets: 91,357 is the budget of both here, 73,331 of the other alone.
    let mut other = mandate("m-y", "c2", "a_c2", 0);
    other["hard_constraints"]["budget"] = json!(73_331);
    desk.yes(CREATE_PURCHASE_MANDATE, "y", None, other);
    let leaks = [
        json!({"tx_id": tx, "reason": "I had 91357 to spend"}),
        json!({"tx_id": tx, "reason": "I had 913.57"}),
        json!({"tx_id": tx, "reason": "late", "evidence": ["91357"]}),
        json!({"tx_id": tx, "reason": "late", "evidence": ["e-1", "limit-91357"]}),
        json!({"tx_id": tx, "reason": "late", "requested": "refund_full", "x_limit": 91_357}),
        json!({"tx_id": tx, "reason": "late", "x_913.57": true}),
    ];
    for leak in leaks {
        let told = leak.to_string();
        assert_eq!(
            desk.no(OPEN_DISPUTE, "d", None, leak),
            "private_utility_leak",
            "{told}"
        );
    }
    // A session that does not come about has no store, and an order that is not there has none either.
    let nowhere = json!({"tx_id": "tx_none", "reason": "I had 91357 to spend"});
    assert_eq!(desk.no(OPEN_DISPUTE, "d", None, nowhere), "order_not_found");
    let fine = json!({"tx_id": tx, "reason": "others paid 73331, not 91357000"});
    desk.yes(OPEN_DISPUTE, "d", None, fine);
}

#[test]
fn what_is_private_stays_so_in_a_dispute_and_after_its_goal() {
    // VC-CLR-16, VC-GEN-3
    let mut desk = Desk::new(Settings::default());
    let (tx, _) = settled(&mut desk, "x");
    let told = json!({"tx_id": tx, "reason": "late", "evidence": ["what I remember"]});
    assert_eq!(desk.no(OPEN_DISPUTE, "d", None, told), "malformed_payload");
    let unknown = json!({"tx_id": tx, "reason": "late", "evidence": ["e-none"]});
    assert_eq!(
        desk.no(OPEN_DISPUTE, "d", None, unknown),
        "evidence_not_found"
    );
    let opened = desk.told(
        OPEN_DISPUTE,
        "d",
        None,
        json!({"tx_id": tx, "reason": "late"}),
    );
    let dispute = opened["emitted"][0]["action"]["payload"]["dispute_id"].clone();
    let asked = desk.yes(
        ASK,
        "d",
        None,
        json!({"dispute_id": dispute, "question": "why?"}),
    );
    for leak in [
        "I had 91357 to spend",
        "I had 913.57",
        "at most USD 913.57!",
        "91 357",
    ] {
        let payload = json!({"dispute_id": dispute, "evidence": ["e-1"], "statement": leak});
        assert_eq!(
            desk.no(SUBMIT_EVIDENCE, "d", Some(&asked), payload),
            "private_utility_leak",
            "{leak}"
        );
    }
    // Grouping takes the longest match: this is one number, and another one.
    let payload =
        json!({"dispute_id": dispute, "evidence": ["e-1"], "statement": "not 91 357 000.00"});
    desk.yes(SUBMIT_EVIDENCE, "d", Some(&asked), payload);
    let bare =
        json!({"dispute_id": dispute, "ruling": "deny", "evidence": [], "rationale": "I recall"});
    assert_eq!(
        desk.no(RULE_DISPUTE_BY_ADJUDICATOR, "d", None, bare),
        "malformed_payload"
    );

    let mut desk = Desk::new(Settings::default());
    desk.yes(SET_BUSINESS_GOAL, "shop", None, goal(true, Some(2)));
    desk.yes(SEARCH, "y", None, json!({"query": "q"}));
    assert_eq!(
        desk.no(PROPOSE_OFFER, "y", None, offer("o1", "m1", 8_117, 1)),
        "private_utility_leak"
    );
    // Lapsed, it binds no price any more.
    let low = desk.yes(PROPOSE_OFFER, "y", None, offer("o2", "m1", 5_000, 1));
    desk.yes(
        ACCEPT_OFFER_BY_NEGOTIATION,
        "y",
        Some(&low),
        json!({"offer_id": "o2"}),
    );
}
