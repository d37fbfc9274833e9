//! The projection to AP2 and back: nothing is lost, amounts are exact.

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::{ReadRules, read};
use chancery_vibe::ap2::{export, export_payment, import, import_payment};
use proptest::prelude::*;
use serde_json::{Value, json};

type Project = fn(&chancery_core::json::Value<'_>) -> Result<Vec<u8>, chancery_vibe::ap2::Ap2Fault>;

fn through(project: Project, text: &[u8]) -> Result<Vec<u8>, String> {
    let value = read(text, &ReadRules::OWN).unwrap();
    project(&value).map_err(|fault| fault.to_string())
}

fn canonical(value: &Value) -> Vec<u8> {
    let text = value.to_string();
    to_bytes(
        &read(text.as_bytes(), &ReadRules::OWN).unwrap(),
        Dialect::Vibe,
    )
}

fn mandate() -> Value {
    json!({
        "mandate_id": "man_1",
        "ap2_intent_mandate": {"goal": "a quiet keyboard", "merchants": ["m_keys"], "skus": null,
            "requires_refundability": true, "intent_expiry": "2026-06-01T00:00:00Z"},
        "ap2_cart_mandate": {"id": "cart_1", "user_cart_confirmation_required": true,
            "payment_request": {"details": {"id": "d1",
                "display_items": [{"label": "keyboard", "amount": {"currency": "USD", "value": 11_905}}],
                "total": {"label": "total", "amount": {"currency": "USD", "value": 11_905}}}},
            "cart_expiry": "2026-06-01T00:00:00Z", "merchant_name": "Keys"},
        "authority": {"can_buy_without_confirmation": false, "max_spend_without_confirmation": 0,
            "can_negotiate": true, "can_accept_substitutes": false,
            "can_share_with_merchant": [], "must_not_share_with_merchant": ["budget"]},
        "hard_constraints": {"budget": 40_000},
    })
}

// VC-AP2-1
#[test]
fn a_mandate_has_the_names_and_decimals_of_ap2() {
    let text = through(export, &canonical(&mandate())).unwrap();
    let ap2: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        ap2["intent_mandate"],
        json!({"natural_language_description": "a quiet keyboard", "merchants": ["m_keys"], "skus": null,
            "requires_refundability": true, "intent_expiry": "2026-06-01T00:00:00Z",
            "user_cart_confirmation_required": true})
    );
    let details = &ap2["cart_mandate"]["contents"]["payment_request"]["details"];
    assert_eq!(
        details["total"]["amount"],
        json!({"currency": "USD", "value": 119.05})
    );
    assert_eq!(
        details["display_items"][0]["amount"]["value"],
        json!(119.05)
    );
    assert_eq!(ap2["vcp"]["hard_constraints"]["budget"], 40_000);
    assert_eq!(through(import, &text).unwrap(), canonical(&mandate()));
}

// VC-AP2-1
#[test]
fn a_payment_has_the_names_and_decimals_of_ap2() {
    let payment = json!({"payment_mandate_id": "pay_1", "payment_details_id": "cert_1",
        "payment_details_total": {"currency": "KWD", "amount": 1_005}, "merchant_agent": "m_keys",
        "timestamp": "2026-05-15T12:00:00Z"});
    let text = through(export_payment, &canonical(&payment)).unwrap();
    let ap2: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        ap2["payment_details_total"],
        json!({"label": "Total", "amount": {"currency": "KWD", "value": 1.005}})
    );
    assert_eq!(through(import_payment, &text).unwrap(), canonical(&payment));
}

// VC-AP2-1, VC-MON-5
#[test]
fn an_amount_that_the_currency_cannot_express_is_refused() {
    let with = |currency: &str, value: &str| {
        let text = format!(
            "{{\"payment_details_total\":{{\"amount\":{{\"currency\":\"{currency}\",\"value\":{value}}}}}}}"
        );
        through(import_payment, text.as_bytes())
    };
    for (currency, value, minor) in [
        ("USD", "119", "11900"),
        ("USD", "119.5", "11950"),
        ("USD", "119.500", "11950"),
        ("USD", "90071992547409.91", "9007199254740991"),
        ("JPY", "500", "500"),
        ("KWD", "0.005", "5"),
    ] {
        let text = with(currency, value).unwrap();
        let wanted = format!("\"amount\":{minor}");
        assert!(
            String::from_utf8(text).unwrap().contains(&wanted),
            "{value} {currency}"
        );
    }
    for (currency, value) in [
        ("USD", "1.005"),
        ("USD", "-1"),
        ("USD", "1e2"),
        ("USD", "\"1\""),
        ("JPY", "1.5"),
        ("USD", "90071992547409.92"),
    ] {
        let fault = with(currency, value).unwrap_err();
        assert!(
            fault.starts_with("$.payment_details_total.amount.value: "),
            "{fault}"
        );
    }
    // AP2 says nothing of budget and authority.
    let bare = b"{\"intent_mandate\":{\"natural_language_description\":\"x\"}}";
    assert_eq!(through(import, bare).unwrap_err(), "$.vcp: an object");
}

fn ids() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        prop::collection::vec("[a-z][a-z0-9_.:-]{0,12}", 0..4).prop_map(|ids| json!(ids)),
    ]
}

fn carts() -> impl Strategy<Value = Value> {
    let money = (
        prop::sample::select(vec!["USD", "JPY", "KWD", "EUR"]),
        0..=(1_u64 << 53) - 1,
    );
    let money = money.prop_map(|(currency, value)| json!({"currency": currency, "value": value}));
    let item = ("\\PC{0,12}", money.clone())
        .prop_map(|(label, amount)| json!({"label": label, "amount": amount}));
    let cart = (
        prop::collection::vec(item.clone(), 0..4),
        item,
        any::<bool>(),
    )
        .prop_map(|(items, total, confirm)| {
            json!({"id": "c", "user_cart_confirmation_required": confirm,
            "payment_request": {"details": {"id": "d", "display_items": items, "total": total}},
            "cart_expiry": "2026-06-01T00:00:00Z", "merchant_name": "m"})
        });
    prop_oneof![Just(Value::Null), cart]
}

prop_compose! {
    fn mandates()(
        goal in "\\PC{1,40}", merchants in ids(), skus in ids(), refundable in any::<bool>(), alone in any::<bool>(),
        ceiling in 0..=(1_u64 << 53) - 1, budget in 1..=(1_u64 << 53) - 1, cart in carts(),
        leave in any::<[bool; 4]>(), extra in "\\PC{0,12}",
    ) -> Value {
        let mut mandate = mandate();
        mandate["ap2_intent_mandate"] = json!({"goal": goal, "intent_expiry": "2026-06-01T00:00:00.5+02:00"});
        let intent = mandate["ap2_intent_mandate"].as_object_mut().unwrap();
        for (name, value, left) in [("merchants", merchants, leave[0]), ("skus", skus, leave[1]),
            ("requires_refundability", json!(refundable), leave[2]), ("x_own", json!(extra), leave[3])] {
            if !left {
                intent.insert(name.to_owned(), value);
            }
        }
        mandate["authority"]["can_buy_without_confirmation"] = json!(alone);
        mandate["authority"]["max_spend_without_confirmation"] = json!(ceiling);
        mandate["hard_constraints"]["budget"] = json!(budget);
        mandate["ap2_cart_mandate"] = cart;
        mandate["x_unknown"] = json!({"amount": 3, "list": [1, 2.5, extra]});
        mandate
    }
}

proptest! {
    // VC-AP2-1
    #[test]
    fn export_import_export_gives_the_same_bytes(mandate in mandates()) {
        let text = canonical(&mandate);
        let once = through(export, &text).unwrap();
        let back = through(import, &once).unwrap();
        prop_assert_eq!(String::from_utf8_lossy(&back), String::from_utf8_lossy(&text));
        prop_assert_eq!(through(export, &back).unwrap(), once);
    }
}
