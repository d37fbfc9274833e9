//! Whose word counts: tokens, principals, sessions of others, identifiers that are taken.

use chancery_core::admin::TokenRecord;
use chancery_core::ids::child_id;
use chancery_vibe::settings::Settings;
use serde_json::{Value, json};

use crate::support::{
    ACCEPT_OFFER, ACCEPT_OFFER_BY_NEGOTIATION, CREATE_PURCHASE_MANDATE, DISPATCH, Desk,
    OPEN_DISPUTE, PROPOSE_OFFER, PROPOSE_OFFER_BY_NEGOTIATION, REQUEST_OFFER, RESPOND_INQUIRY,
    RULE_DISPUTE, SEARCH, SET_BUSINESS_GOAL, SETTLE_PAYMENT, SETTLE_PAYMENT_BY_PSP,
    SUBMIT_EVIDENCE, Way, agreed, mandate, offer,
};

const COUNTER_OFFER: Way = Way(
    "merchant:pricing",
    "buyer:negotiation",
    "commerce.counter_offer",
);

fn token(
    name: &str,
    addresses: &[&str],
    consumer: Option<&str>,
    merchant: Option<&str>,
) -> (String, TokenRecord) {
    let record = TokenRecord {
        id: format!("t-{name}"),
        principal: name.to_owned(),
        scopes: Vec::new(),
        addresses: addresses.iter().map(|one| (*one).to_owned()).collect(),
        consumer_id: consumer.map(str::to_owned),
        merchant_id: merchant.map(str::to_owned),
        agent: None,
        revoked: false,
    };
    (name.to_owned(), record)
}

fn desk() -> Desk {
    let people = ["consumer:persona", "buyer"];
    Desk::with(
        Settings::default(),
        Some(vec![
            token("ann", &people, Some("c1"), None),
            token("bob", &people, Some("c2"), None),
            token("one", &["merchant", "merchant:owner"], None, Some("m1")),
            token("two", &["merchant", "merchant:owner"], None, Some("m2")),
        ]),
    )
}

fn as_(desk: &mut Desk, who: &'static str) {
    desk.token = Some(who);
}

fn code(
    desk: &mut Desk,
    who: &'static str,
    way: Way,
    session: &str,
    reply: Option<&str>,
    payload: Value,
) -> String {
    as_(desk, who);
    let (_, reply) = desk.send(way, session, reply, payload);
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    body["code"].as_str().unwrap_or("accepted").to_owned()
}

/// A goal of a merchant.
fn goal(merchant: &str) -> Value {
    json!({
        "offer_mandate_id": "om", "merchant_id": merchant, "goal": "g", "skus": ["s1"],
        "pricing": {"list_price": 2, "floor_price": 1, "floor_currency": "USD"}, "permitted_claims": [],
        "fulfillment": {"methods": []}
    })
}

#[test]
fn nobody_acts_for_another() {
    // VC-ADR-7, VC-ADR-8, VC-IDEM-2
    let mut desk = desk();
    as_(&mut desk, "ann");
    let own = mandate("man", "c1", "a_c1", 50_000);
    desk.yes(CREATE_PURCHASE_MANDATE, "x", None, own);
    let bid = offer("bid", "m1", 10_000, 1);
    let bid = desk.yes(PROPOSE_OFFER_BY_NEGOTIATION, "x", None, bid);
    let question = json!({"sku_id": "s1", "merchant_id": "m1", "inquiry": "is it loud?"});
    let asked = desk.yes(REQUEST_OFFER, "x", None, question);
    let (bid, asked) = (Some(bid.as_str()), Some(asked.as_str()));
    let foreign = mandate("man-y", "c2", "a_c2", 0);
    let accept = json!({"offer_id": "bid"});
    let answer = json!({"answer": "no"});
    let counter = |merchant: &str| offer("o2", merchant, 10_000, 1);
    let (other, fine) = ("identity_mismatch", "accepted");
    let attempts = [
        ("ann", CREATE_PURCHASE_MANDATE, "y", None, foreign, other),
        ("bob", SEARCH, "x", None, json!({"query": "q"}), other),
        (
            "two",
            PROPOSE_OFFER,
            "x",
            None,
            offer("o1", "m1", 1_000, 1),
            other,
        ),
        ("two", SET_BUSINESS_GOAL, "g", None, goal("m1"), other),
        ("two", ACCEPT_OFFER, "x", bid, accept.clone(), other),
        ("two", RESPOND_INQUIRY, "x", asked, answer.clone(), other),
        (
            "one",
            SETTLE_PAYMENT_BY_PSP,
            "x",
            None,
            json!({}),
            "sender_not_authorized",
        ),
        ("two", COUNTER_OFFER, "x", bid, counter("m2"), other),
        ("two", COUNTER_OFFER, "x", bid, counter("m1"), other),
        ("one", ACCEPT_OFFER, "x", bid, accept, fine),
        ("one", RESPOND_INQUIRY, "x", asked, answer, fine),
        ("one", SET_BUSINESS_GOAL, "g", None, goal("m1"), fine),
    ];
    for (index, (who, way, session, reply, payload, expected)) in attempts.into_iter().enumerate() {
        let found = code(&mut desk, who, way, session, reply, payload);
        assert_eq!(found, expected, "attempt {index}");
    }
}

#[test]
fn a_merchant_sets_no_goal_in_anothers_session() {
    // VC-ADR-8, VC-ACT-delegate.set_business_goal-1
    let mut desk = desk();
    let mut set = |who, session, merchant| {
        code(
            &mut desk,
            who,
            SET_BUSINESS_GOAL,
            session,
            None,
            goal(merchant),
        )
    };
    assert_eq!(set("one", "g", "m1"), "accepted");
    assert_eq!(set("two", "g", "m2"), "identity_mismatch");
    assert_eq!(set("two", "g2", "m2"), "accepted");
    assert_eq!(set("one", "g", "m1"), "accepted");
}

#[test]
fn an_order_of_another_is_none() {
    // VC-ADR-8, VC-ACT-platform.open_dispute-2, VC-ACT-commerce.dispatch-3
    let mut desk = desk();
    as_(&mut desk, "ann");
    desk.yes(
        CREATE_PURCHASE_MANDATE,
        "x",
        None,
        mandate("man", "c1", "a_c1", 50_000),
    );
    as_(&mut desk, "one");
    let proposed = desk.yes(PROPOSE_OFFER, "x", None, offer("o", "m1", 10_000, 1));
    as_(&mut desk, "ann");
    let (_, reply) = desk.send(
        ACCEPT_OFFER_BY_NEGOTIATION,
        "x",
        Some(&proposed),
        json!({"offer_id": "o"}),
    );
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    let cert = body["emitted"][1]["action"]["payload"]["cert_id"].clone();
    let (_, reply) = desk.send(SETTLE_PAYMENT, "x", None, json!({"cert_id": cert}));
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    let order = body["emitted"][0]["action"]["payload"]["order_id"].clone();
    let tx = body["state_diff"]["tx_id"].clone();
    let d = &mut desk;
    assert_eq!(
        code(d, "two", DISPATCH, "x", None, json!({"order_id": order})),
        "identity_mismatch"
    );
    let claim = json!({"tx_id": tx, "reason": "late"});
    assert_eq!(
        code(d, "bob", OPEN_DISPUTE, "d1", None, claim.clone()),
        "order_not_found"
    );
    assert_eq!(code(d, "ann", OPEN_DISPUTE, "d2", None, claim), "accepted");
    assert_eq!(
        code(
            d,
            "bob",
            SUBMIT_EVIDENCE,
            "d2",
            Some("e-1"),
            json!({"dispute_id": "dsp_x", "evidence": ["e-1"]})
        ),
        "in_reply_to_not_found"
    );
}

#[test]
fn a_stranger_does_not_learn_that_a_dispute_is_over() {
    // VC-PIPE-1 (identity before what an action asks), VC-ADR-8, VC-CLR-14
    let psp = token("judge", &["platform:adjudicator"], None, None);
    let merchants = ["one", "two"].map(|name| {
        let merchant = if name == "one" { "m1" } else { "m2" };
        token(name, &["merchant"], None, Some(merchant))
    });
    let ann = token("ann", &["consumer:persona", "buyer"], Some("c1"), None);
    let all = merchants.into_iter().chain([psp, ann]).collect();
    let mut desk = Desk::with(Settings::default(), Some(all));
    as_(&mut desk, "ann");
    let own = mandate("man", "c1", "a_c1", 50_000);
    desk.yes(CREATE_PURCHASE_MANDATE, "x", None, own);
    as_(&mut desk, "one");
    let proposed = desk.yes(PROPOSE_OFFER, "x", None, offer("o", "m1", 10_000, 1));
    as_(&mut desk, "ann");
    let accept = json!({"offer_id": "o"});
    let told = desk.told(ACCEPT_OFFER_BY_NEGOTIATION, "x", Some(&proposed), accept);
    let cert = told["emitted"][1]["action"]["payload"]["cert_id"].clone();
    let settled = desk.told(SETTLE_PAYMENT, "x", None, json!({"cert_id": cert}));
    let claim = json!({"tx_id": settled["state_diff"]["tx_id"], "reason": "late"});
    let opened = desk.told(OPEN_DISPUTE, "d", None, claim);
    let dispute = opened["emitted"][0]["action"]["payload"]["dispute_id"].clone();
    as_(&mut desk, "judge");
    let asks = Way(
        "platform:adjudicator",
        "merchant:support",
        "platform.request_evidence",
    );
    let question = json!({"dispute_id": dispute, "question": "what was sent?"});
    let asked = desk.yes(asks, "d", None, question);
    let answers = Way(
        "merchant:support",
        "platform:adjudicator",
        "platform.submit_evidence",
    );
    let evidence = json!({"dispute_id": dispute, "evidence": [proposed]});
    let asked = Some(asked.as_str());
    let submit = |desk: &mut Desk, who| code(desk, who, answers, "d", asked, evidence.clone());
    assert_eq!(submit(&mut desk, "two"), "identity_mismatch");
    as_(&mut desk, "judge");
    let ruling = json!({"dispute_id": dispute, "ruling": "deny", "rationale": "r", "evidence": ["e-1"],
        "reputation_delta": 0});
    desk.yes(RULE_DISPUTE, "d", None, ruling);
    assert_eq!(submit(&mut desk, "two"), "identity_mismatch");
    assert_eq!(submit(&mut desk, "one"), "dispute_closed");
}

#[test]
fn a_stranger_cannot_guess_what_is_private() {
    // VC-PRIV-1, VC-ADR-8: the scan uses the sender's own store, so its refusal says nothing about another's.
    let mut desk = desk();
    as_(&mut desk, "ann");
    let own = mandate("man", "c1", "a_c1", 50_000);
    desk.yes(CREATE_PURCHASE_MANDATE, "x", None, own);
    let proposed = offer("o", "m1", 10_000, 1);
    as_(&mut desk, "one");
    let proposed = desk.yes(PROPOSE_OFFER, "x", None, proposed);
    as_(&mut desk, "ann");
    let accept = json!({"offer_id": "o"});
    let told = desk.told(ACCEPT_OFFER_BY_NEGOTIATION, "x", Some(&proposed), accept);
    let cert = told["emitted"][1]["action"]["payload"]["cert_id"].clone();
    let settled = desk.told(SETTLE_PAYMENT, "x", None, json!({"cert_id": cert}));
    let tx = settled["state_diff"]["tx_id"].clone();
    let guess = |said: u64| json!({"tx_id": tx, "reason": format!("had {said} to spend")});
    let bid = |said: u64| offer("bid", "m1", said, 1);
    for said in [91_357, 91_358] {
        let found = code(&mut desk, "bob", OPEN_DISPUTE, "d", None, guess(said));
        assert_eq!(found, "order_not_found", "{said}");
        let way = PROPOSE_OFFER_BY_NEGOTIATION;
        let found = code(&mut desk, "bob", way, "x", None, bid(said));
        assert_eq!(found, "identity_mismatch", "{said}");
    }
    let leak = "private_utility_leak";
    assert_eq!(
        code(&mut desk, "ann", OPEN_DISPUTE, "d", None, guess(91_357)),
        leak
    );
    let way = PROPOSE_OFFER_BY_NEGOTIATION;
    assert_eq!(code(&mut desk, "ann", way, "x", None, bid(91_357)), leak);
}

#[test]
fn a_derived_identifier_that_is_taken_refuses_its_cause() {
    // VC-CLR-9, VC-CAN-6, VC-PIPE-3: the settlement is the fifth envelope, its second child is taken.
    let mut desk = Desk::new(Settings::default());
    let cert = agreed(&mut desk, "x", "c1", "a_c1", "m1", 1, 20_000);
    let taken = json!({
        "protocol": "vcp", "version": "1.0", "msg_id": child_id("settle", 2).to_string(), "ts": "2026-05-15T12:00:00Z",
        "from": "buyer:discovery", "to": "platform:aggregator", "session_id": "q", "in_reply_to": null,
        "idempotency_key": null, "action": {"kind": "commerce.search", "payload": {"query": "q"}}
    });
    assert_eq!(desk.post(&taken).status, 200);
    let settle = json!({
        "protocol": "vcp", "version": "1.0", "msg_id": "settle", "ts": "2026-05-15T12:01:00Z",
        "from": "buyer:authorization", "to": "platform:psp", "session_id": "x", "in_reply_to": null,
        "idempotency_key": "k", "action": {"kind": "platform.settle_payment", "payload": {"cert_id": cert}}
    });
    let rows = desk.host.rows().clone();
    let reply = desk.post(&settle);
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(
        (reply.status, body["code"].as_str()),
        (409, Some("duplicate_msg_id"))
    );
    assert_eq!(*desk.host.rows(), rows, "a refusal changes nothing");
    let mut other = settle;
    other["msg_id"] = json!("settle-2");
    assert_eq!(desk.post(&other).status, 200);
}
