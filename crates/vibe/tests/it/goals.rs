//! A merchant's goals: what their answers tell, and whose session they are in.

use chancery_vibe::settings::Settings;
use chancery_vibe::world::read::{Reader, session};
use serde_json::{Value, json};

use crate::support::{Desk, SET_BUSINESS_GOAL};

fn goal(id: &str, merchant: &str, skus: &[&str], floor: u64) -> Value {
    json!({
        "offer_mandate_id": id, "merchant_id": merchant, "goal": "sell", "skus": skus,
        "pricing": {"list_price": 50_000, "floor_price": floor, "floor_currency": "USD"},
        "permitted_claims": [], "fulfillment": {"methods": ["courier"]},
    })
}

/// Sets a goal; gives what its answer says of the mandate.
fn told(desk: &mut Desk, session: &str, goal: Value) -> Value {
    let id = goal["offer_mandate_id"].clone();
    let body = desk.told(SET_BUSINESS_GOAL, session, None, goal);
    let ops = body["state_diff"]["ops"].as_array().unwrap().iter();
    let mut ops = ops.filter(|op| op["table"] == "mandates" && op["key"] == id);
    let op = ops.next().unwrap().clone();
    assert!(ops.next().is_none());
    assert!(!op.to_string().contains("8117"), "the floor is private");
    op
}

#[test]
fn a_later_goal_under_the_same_name_tells_what_it_replaces() {
    // VC-OBJ-TransactionStateDiff-2, VC-ACT-delegate.set_business_goal-2
    let mut desk = Desk::new(Settings::default());
    let seen = |merchant: &str, skus: &[&str]| json!({"floor_price": "[private]", "merchant_id": merchant, "skus": skus});
    let first = told(&mut desk, "g", goal("om", "m1", &["s1", "s2"], 8_117));
    assert_eq!(
        (&first["op"], &first["before"], &first["after"]),
        (&json!("insert"), &Value::Null, &seen("m1", &["s1", "s2"]))
    );
    let again = told(&mut desk, "g", goal("om", "m1", &["s1"], 9_000));
    assert_eq!(
        (&again["op"], &again["before"], &again["after"]),
        (
            &json!("update"),
            &seen("m1", &["s1", "s2"]),
            &seen("m1", &["s1"])
        )
    );
    // Another name is another mandate, and so is another merchant's.
    for (id, merchant) in [("om-2", "m1"), ("om", "m2")] {
        let other = told(&mut desk, "g2", goal(id, merchant, &["s1"], 9_000));
        assert_eq!(
            (&other["op"], &other["before"]),
            (&json!("insert"), &Value::Null)
        );
    }
}

#[test]
fn a_merchants_session_stays_with_the_merchant_that_opened_it() {
    // VC-SM-1, VC-HTTP-5: without tokens nobody is refused for whom it speaks (VC-ADR-8).
    let mut desk = Desk::new(Settings::default());
    desk.yes(SET_BUSINESS_GOAL, "g", None, goal("om-1", "m1", &["s1"], 1));
    desk.yes(SET_BUSINESS_GOAL, "g", None, goal("om-2", "m2", &["s1"], 1));
    let seen = |merchant: &str| {
        let reader = Reader::merchant(merchant);
        session(desk.host.rows(), "g", &reader).unwrap().is_some()
    };
    assert_eq!((seen("m1"), seen("m2")), (true, false));
}
