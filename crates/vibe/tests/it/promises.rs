//! Sentences of the specification that no table shows: one small story each.

use chancery_vibe::action::Action;
use chancery_vibe::address::Address;
use chancery_vibe::partition::TABLE;
use chancery_vibe::settings::Settings;
use chancery_vibe::world::hash::state_hash;
use chancery_vibe::world::read::{self, Reader};
use chancery_vibe::world::rows::Table;
use serde_json::{Value, json};

use crate::support::{
    APPROVE_PURCHASE, CREATE_PURCHASE_MANDATE, DISPATCH, Desk, PROPOSE_OFFER, SEARCH,
    SET_BUSINESS_GOAL, SETTLE_PAYMENT, Way, agreed, mandate, noon, offer,
};

const REJECT_PURCHASE: Way = Way(
    "consumer:persona",
    "buyer:authorization",
    "delegate.reject_purchase",
);

/// The budget of the mandates of these tests.
const BUDGET: u64 = 91_357;

pub fn goal(refundable: bool, valid_until: Option<u64>) -> Value {
    json!({
        "offer_mandate_id": "g", "merchant_id": "m1", "goal": "sell", "skus": ["s1"],
        "pricing": {"list_price": 44_000, "floor_price": 8_117, "floor_currency": "USD"},
        "permitted_claims": ["silent"], "negotiation": {"can_negotiate": false},
        "fulfillment": {"methods": ["courier"]}, "returns": {"refundable": refundable},
        "valid_until": valid_until.map(noon),
    })
}

/// A deal that is settled; gives the transaction and the order.
pub fn settled(desk: &mut Desk, session: &str) -> (Value, Value) {
    let cert = agreed(desk, session, "c1", "a_c1", "m1", 1, 20_000);
    let body = desk.told(SETTLE_PAYMENT, session, None, json!({"cert_id": cert}));
    let order = body["emitted"][0]["action"]["payload"]["order_id"].clone();
    (body["state_diff"]["tx_id"].clone(), order)
}

#[test]
fn the_world_has_seven_tables() {
    // VC-GEN-2
    let names: Vec<&str> = Table::ALL.iter().map(|table| table.as_str()).collect();
    let mut expected = [
        "catalog",
        "inventory",
        "ledger",
        "reputation",
        "orders",
        "disputes",
        "rulings",
    ];
    let mut names = names;
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn thirteen_roles_and_two_people_have_addresses() {
    // VC-ADR-1, VC-ADR-3
    let all = [
        "buyer:intent",
        "buyer:discovery",
        "buyer:negotiation",
        "buyer:authorization",
        "merchant:catalog",
        "merchant:retrieval",
        "merchant:pricing",
        "merchant:fulfillment",
        "merchant:support",
        "platform:aggregator",
        "platform:psp",
        "platform:reputation",
        "platform:adjudicator",
        "consumer:persona",
        "merchant:owner",
    ];
    for address in all {
        assert!(Address::sender(address).is_ok(), "{address}");
        assert!(Address::receiver(address).is_ok(), "{address}");
    }
    // The side is what counts; another side's role is none.
    for wrong in [
        "buyer:pricing",
        "merchant:psp",
        "platform:owner",
        "consumer:intent",
    ] {
        assert!(Address::sender(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_payload_is_an_object() {
    // VC-ENV-14
    let mut desk = Desk::new(Settings::default());
    for payload in [json!([]), json!("x"), Value::Null, json!(1), json!(true)] {
        assert_eq!(desk.no(SEARCH, "x", None, payload), "malformed_envelope");
    }
}

#[test]
fn writes_of_the_world_are_envelopes_of_the_platform() {
    // VC-ACT-world-1
    let senders = [
        "buyer",
        "merchant",
        "merchant:owner",
        "consumer:persona",
        "merchant:1",
    ];
    let world = Address::receiver("world").unwrap();
    for action in Action::ALL {
        if !action.kind().starts_with("world.") {
            continue;
        }
        for sender in senders {
            let from = Address::sender(sender).unwrap();
            assert!(
                TABLE.check(*action, from, world).is_err(),
                "{sender} {}",
                action.kind()
            );
        }
    }
    let mut desk = Desk::new(Settings::default());
    settled(&mut desk, "x");
    let log = desk.log();
    let writes = log.iter().filter(|line| line["envelope"]["to"] == "world");
    let mut count = 0;
    for line in writes {
        assert!(
            line["envelope"]["from"]
                .as_str()
                .unwrap()
                .starts_with("platform:")
        );
        assert_eq!(line["meta"]["route_decision"], "apply_world");
        count += 1;
    }
    assert_eq!(count, 3);
}

#[test]
fn people_may_add_a_note_and_must_give_a_reason() {
    // VC-ACT-delegate.approve_purchase-1, VC-ACT-delegate.reject_purchase-1
    let mut desk = Desk::new(Settings::default());
    let cert = agreed(&mut desk, "x", "c1", "a_c1", "m1", 1, 0);
    let no = |desk: &mut Desk, way, payload| desk.no(way, "x", None, payload);
    assert_eq!(
        no(&mut desk, APPROVE_PURCHASE, json!({})),
        "malformed_payload"
    );
    let note = json!({"cert_id": cert, "note": 1});
    assert_eq!(no(&mut desk, APPROVE_PURCHASE, note), "malformed_payload");
    for reason in [json!(null), json!(""), json!("é".repeat(2_001))] {
        let payload = json!({"cert_id": cert, "reason": reason});
        assert_eq!(no(&mut desk, REJECT_PURCHASE, payload), "malformed_payload");
    }
    let note = json!({"cert_id": cert, "note": "for the office"});
    desk.yes(APPROVE_PURCHASE, "x", None, note);
    let reason = json!({"cert_id": cert, "reason": "é".repeat(2_000)});
    desk.yes(REJECT_PURCHASE, "x", None, reason);
}

#[test]
fn a_later_goal_takes_the_place_of_an_earlier_one() {
    // VC-ACT-delegate.set_business_goal-1, VC-ACT-delegate.set_business_goal-2
    let mut desk = Desk::new(Settings::default());
    desk.yes(SET_BUSINESS_GOAL, "shop", None, goal(true, None));
    let shop = read::session(desk.host.rows(), "shop", &Reader::Psp)
        .unwrap()
        .unwrap();
    let shop: Value = serde_json::from_slice(&shop).unwrap();
    assert_eq!(shop["kind"], "merchant");
    let cert = agreed(&mut desk, "x", "c1", "a_c1", "m1", 1, 20_000);
    desk.yes(SEARCH, "y", None, json!({"query": "q"}));
    let low = offer("low", "m1", 8_000, 1);
    assert_eq!(
        desk.no(PROPOSE_OFFER, "y", None, low.clone()),
        "offer_outside_mandate"
    );
    let mut higher = goal(true, None);
    higher["pricing"]["floor_price"] = json!(11_117);
    desk.yes(SET_BUSINESS_GOAL, "shop", None, higher);
    let between = offer("between", "m1", 10_000, 1);
    assert_eq!(
        desk.no(PROPOSE_OFFER, "y", None, between),
        "offer_outside_mandate"
    );
    // What was certified under the earlier one, at 10,000, settles.
    desk.yes(SETTLE_PAYMENT, "x", None, json!({"cert_id": cert}));
}

#[test]
fn a_search_opens_a_session_and_changes_nothing() {
    // VC-ACT-commerce.search-2, VC-ACT-commerce.search-3, VC-AUD-3
    let mut desk = Desk::new(Settings::default());
    let before = state_hash(desk.host.rows());
    let body = desk.told(SEARCH, "x", None, json!({"query": "keyboard"}));
    assert_eq!(body["state_diff"], Value::Null);
    assert_eq!(state_hash(desk.host.rows()), before);
    let candidates = &body["emitted"][0]["action"]["payload"]["candidates"];
    for candidate in candidates.as_array().unwrap() {
        assert!(candidate.get("on_hand").is_none() && candidate["in_stock"].is_boolean());
    }
    desk.yes(
        CREATE_PURCHASE_MANDATE,
        "x",
        None,
        mandate("m", "c1", "a_c1", 0),
    );
    let search = |price: u64| json!({"query": "keyboard", "constraints": {"max_price": price}});
    assert_eq!(
        desk.no(SEARCH, "x", None, search(BUDGET)),
        "private_utility_leak"
    );
    desk.yes(SEARCH, "x", None, search(BUDGET + 1));
    // A line says which diff it applied; one that applied none says so.
    for line in desk
        .log()
        .iter()
        .filter(|line| line["meta"]["protocol"] == "vibe")
    {
        let kind = line["envelope"]["action"]["kind"].as_str().unwrap();
        let id = line["envelope"]["msg_id"].as_str().unwrap();
        let expected = match kind {
            "delegate.create_purchase_mandate" => json!(format!("sd_{id}")),
            _ => Value::Null,
        };
        assert_eq!(line["meta"]["applied_state_diff_id"], expected, "{kind}");
    }
}

#[test]
fn a_batch_shares_the_diff_of_its_cause() {
    // VC-AUD-3, VC-CLR-18, VC-OBJ-TransactionStateDiff-1, VC-ACT-platform.settle_payment-4
    let mut desk = Desk::new(Settings::default());
    let cert = agreed(&mut desk, "x", "c1", "a_c1", "m1", 1, 20_000);
    let (settle, answer) = desk.send(SETTLE_PAYMENT, "x", None, json!({"cert_id": cert}));
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    let diff = &body["state_diff"];
    assert_eq!(diff["diff_id"], format!("sd_{settle}"));
    // Settling is the payment role's doing, whoever asked; everything else is its sender's.
    assert_eq!(diff["actor"], "platform:psp");
    assert_eq!(
        diff["invariants"]["idempotency"],
        json!({"from": "buyer:authorization", "key": format!("k-{settle}")})
    );
    assert_eq!(diff["invariants"]["atomic"], true);
    let log = desk.log();
    for line in &log[log.len() - 4..] {
        assert_eq!(
            line["meta"]["applied_state_diff_id"],
            format!("sd_{settle}")
        );
    }
    let tables: Vec<&str> = diff["ops"]
        .as_array()
        .unwrap()
        .iter()
        .map(|op| op["table"].as_str().unwrap())
        .collect();
    for table in [
        "orders",
        "inventory",
        "ledger",
        "certs",
        "offers",
        "mandates",
    ] {
        assert!(tables.contains(&table), "{table}: {tables:?}");
    }
    let order = body["emitted"][0]["action"]["payload"]["order_id"].clone();
    let shipped = desk.told(DISPATCH, "x", None, json!({"order_id": order}));
    assert_eq!(shipped["state_diff"]["actor"], "merchant:fulfillment");
    assert_eq!(shipped["state_diff"]["tx_id"], diff["tx_id"]);
}

#[test]
fn a_repeat_gives_the_same_diff_and_another_sender_has_another_key() {
    // VC-OBJ-TransactionStateDiff-1, VC-AP2-3
    let mut desk = Desk::new(Settings::default());
    desk.yes(
        CREATE_PURCHASE_MANDATE,
        "x",
        None,
        mandate("m", "c1", "a_c1", 0),
    );
    let envelope = |id: &str, from: &str, to: &str, offer_id: &str| {
        json!({
            "protocol": "vcp", "version": "1.0", "msg_id": id, "ts": noon(9), "from": from, "to": to, "session_id": "x",
            "idempotency_key": "k".repeat(255), "action": {"kind": "commerce.propose_offer",
                "payload": offer(offer_id, "m1", 10_000, 1)}
        })
    };
    let first = desk.post(&envelope(
        "a",
        "merchant:pricing",
        "buyer:negotiation",
        "o1",
    ));
    let again = desk.post(&envelope(
        "b",
        "merchant:pricing",
        "buyer:negotiation",
        "o1",
    ));
    assert_eq!((again.status, again.replayed), (200, true));
    assert_eq!(again.body, first.body);
    let diff: Value = serde_json::from_slice(&again.body).unwrap();
    assert_eq!(diff["state_diff"]["diff_id"], "sd_a");
    let other = desk.post(&envelope(
        "c",
        "merchant:pricing",
        "buyer:negotiation",
        "o2",
    ));
    assert_eq!(other.status, 422);
    let buyer = desk.post(&envelope(
        "d",
        "buyer:negotiation",
        "merchant:pricing",
        "o2",
    ));
    assert_eq!((buyer.status, buyer.replayed), (200, false));
}

#[test]
fn an_offer_repeats_its_key_truly_and_claims_things_once() {
    // VC-ACT-commerce.propose_offer-2, VC-OBJ-GroundedOffer-2, VC-OBJ-1
    let mut desk = Desk::new(Settings::default());
    desk.yes(SEARCH, "x", None, json!({"query": "q"}));
    let mut copied = offer("o1", "m1", 10_000, 1);
    copied["idempotency_key"] = json!("another");
    assert_eq!(
        desk.no(PROPOSE_OFFER, "x", None, copied),
        "malformed_payload"
    );
    let mut copied = offer("o0", "m1", 10_000, 1);
    copied["idempotency_key"] = json!("k-e-3");
    assert_eq!(desk.yes(PROPOSE_OFFER, "x", None, copied), "e-3");
    let mut twice = offer("o1", "m1", 10_000, 1);
    twice["claims"] = json!(["silent", "silent"]);
    assert_eq!(
        desk.no(PROPOSE_OFFER, "x", None, twice),
        "malformed_payload"
    );
    // A field that nobody knows stays on the record as it came.
    let mut more = offer("o1", "m1", 10_000, 1);
    more["x_colour"] = json!({"b": [1, null]});
    desk.yes(PROPOSE_OFFER, "x", None, more);
    let last = desk.log().pop().unwrap();
    assert_eq!(
        last["envelope"]["action"]["payload"]["x_colour"],
        json!({"b": [1, null]})
    );
}
