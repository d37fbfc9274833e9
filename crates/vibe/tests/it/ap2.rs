//! The projection to AP2 and back: nothing is lost, amounts are exact.

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::{ReadRules, read};
use chancery_vibe::ap2::{export, export_payment, import, import_payment};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::property;

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

// VC-AP2-1
#[test]
fn what_only_ap2_has_a_name_for_is_refused_and_not_lost() {
    let text = through(export, &canonical(&mandate())).unwrap();
    let ap2: Value = serde_json::from_slice(&text).unwrap();
    for (parent, name, path) in [
        ("", "risk_data", "$.risk_data"),
        (
            "/intent_mandate",
            "prompt_playback",
            "$.intent_mandate.prompt_playback",
        ),
        (
            "/cart_mandate",
            "merchant_authorization",
            "$.cart_mandate.merchant_authorization",
        ),
    ] {
        let mut more = ap2.clone();
        more.pointer_mut(parent).unwrap()[name] = json!("x");
        let fault = through(import, &canonical(&more)).unwrap_err();
        assert!(fault.starts_with(&format!("{path}: ")), "{fault}");
    }
    let more = br#"{"payment_details_total":{"amount":{"currency":"USD","value":1,"tip":2},"label":"Total"}}"#;
    let fault = through(import_payment, more).unwrap_err();
    assert!(
        fault.starts_with("$.payment_details_total.amount.tip: "),
        "{fault}"
    );
}

fn ids() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        prop::collection::vec("[a-z][a-z0-9_.:-]{0,12}", 0..4).prop_map(|ids| json!(ids)),
    ]
}

fn texts() -> impl Strategy<Value = Value> {
    prop::collection::vec("\\PC{0,12}", 0..4).prop_map(|texts| json!(texts))
}

const SAFE: u64 = (1 << 53) - 1;

fn amounts() -> impl Strategy<Value = Value> + Clone {
    let currency = prop::sample::select(vec!["USD", "JPY", "KWD", "EUR"]);
    (currency, 0..=SAFE).prop_map(|(currency, value)| json!({"currency": currency, "value": value}))
}

/// Any JSON: what this protocol gives no meaning is kept as it is, also where it looks like money.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (any::<i32>(), 1_u32..1_000)
            .prop_map(|(over, under)| json!(f64::from(over) / f64::from(under))),
        "\\PC{0,12}".prop_map(Value::from),
        amounts().prop_map(|amount| json!({ "amount": amount })),
        (1_u32..1_000).prop_map(
            |half| json!({"amount": {"currency": "USD", "value": f64::from(half) / 2.0}})
        ),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            objects_of(inner),
        ]
    })
}

fn objects_of(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let members = prop::collection::btree_map("[a-z_]{1,8}|label|value|amount_", inner, 0..4);
    members.prop_map(|members| json!(members))
}

fn carts() -> impl Strategy<Value = Value> {
    let item = ("\\PC{0,12}", amounts())
        .prop_map(|(label, amount)| json!({"label": label, "amount": amount}));
    let words = prop::array::uniform4("\\PC{0,12}");
    let cart = (
        prop::collection::vec(item.clone(), 0..4),
        item,
        any::<bool>(),
        words,
        any::<bool>(),
    );
    let cart = cart.prop_map(
        |(items, total, confirm, [id, details, name, more], has_more)| {
            let mut cart = json!({"id": id, "user_cart_confirmation_required": confirm,
            "payment_request": {"details": {"id": details, "display_items": items, "total": total}},
            "cart_expiry": "2026-06-01T00:00:00.250-07:00", "merchant_name": name});
            if has_more {
                cart["x_more"] = json!([more, 2.5, {"label": more}]);
                cart["payment_request"]["details"]["total"]["x_more"] = json!(3);
            }
            cart
        },
    );
    prop_oneof![Just(Value::Null), cart]
}

prop_compose! {
    fn intents()(
        goal in "\\PC{1,40}", merchants in ids(), skus in ids(), refundable in any::<bool>(), extra in anything(),
        leave in any::<[bool; 4]>(),
    ) -> Value {
        let mut intent = json!({"goal": goal, "intent_expiry": "2026-06-01T00:00:00.5+02:00"});
        let given = [("merchants", merchants), ("skus", skus), ("requires_refundability", json!(refundable)), ("x_own", extra)];
        add(&mut intent, given, leave);
        intent
    }
}

/// Puts those members in that are not left out.
fn add<const N: usize>(object: &mut Value, members: [(&str, Value); N], leave: [bool; N]) {
    for ((name, value), is_left) in members.into_iter().zip(leave) {
        if !is_left {
            object[name] = value;
        }
    }
}

prop_compose! {
    fn authorities()(
        flags in any::<[bool; 3]>(), ceiling in 0..=SAFE, share in texts(), keep in texts(), extra in anything(),
        leave in any::<[bool; 1]>(),
    ) -> Value {
        let mut authority = json!({"can_buy_without_confirmation": flags[0], "can_negotiate": flags[1],
            "can_accept_substitutes": flags[2], "max_spend_without_confirmation": ceiling,
            "can_share_with_merchant": share, "must_not_share_with_merchant": keep});
        add(&mut authority, [("x_own", extra)], leave);
        authority
    }
}

prop_compose! {
    fn constraints()(
        budget in 1..=SAFE, currency in "[A-Z]{3}", days in 0_u32..4_000, must_have in texts(), score in 0..=1_000,
        extra in anything(), leave in any::<[bool; 5]>(),
    ) -> Value {
        let mut constraints = json!({"budget": budget});
        let given = [("currency", json!(currency)), ("delivery_days", json!(days)), ("must_have", must_have),
            ("min_reputation", json!(score)), ("x_own", extra)];
        add(&mut constraints, given, leave);
        constraints
    }
}

prop_compose! {
    fn mandates()(
        intent in intents(), authority in authorities(), constraints in constraints(), cart in carts(),
        ids in prop::array::uniform3("[a-z][a-z0-9_.:-]{0,12}"), kind in "\\PC{0,12}",
        soft in objects_of(anything()), taste in objects_of(anything()), extra in anything(), leave in any::<[bool; 6]>(),
    ) -> Value {
        let [mandate_id, consumer_id, account_id] = ids;
        let mut mandate = json!({"mandate_id": mandate_id, "ap2_intent_mandate": intent, "authority": authority,
            "hard_constraints": constraints});
        let given = [("consumer_id", json!(consumer_id)), ("ap2_cart_mandate", cart), ("soft_preferences", soft),
            ("taste", taste), ("payment_instrument", json!({"type": kind, "account_id": account_id})), ("x_own", extra)];
        add(&mut mandate, given, leave);
        mandate
    }
}

prop_compose! {
    fn payments()(
        ids in prop::array::uniform3("[a-z][a-z0-9_.:-]{0,12}"), amount in amounts(), hash in "[0-9a-f]{64}",
        // `Total` is what a total without a label is called on the other side.
        label in prop_oneof!["\\PC{0,12}", "Total {0,3}"], extra in anything(),
        leave in any::<[bool; 4]>(),
    ) -> Value {
        let [payment_mandate_id, payment_details_id, merchant_agent] = ids;
        let mut total = json!({"currency": amount["currency"], "amount": amount["value"]});
        add(&mut total, [("label", json!(label)), ("x_own", json!([2.5, "x"]))], [leave[0], leave[1]]);
        let mut payment = json!({"payment_mandate_id": payment_mandate_id, "payment_details_id": payment_details_id,
            "payment_details_total": total, "merchant_agent": merchant_agent, "timestamp": "2026-05-15T14:00:00.5+02:00"});
        add(&mut payment, [("cart_mandate_hash", json!(hash)), ("x_own", extra)], [leave[2], leave[3]]);
        payment
    }
}

proptest! {
    #![proptest_config(property(256))]

    // VC-AP2-1
    #[test]
    fn export_import_export_gives_the_same_bytes(mandate in mandates()) {
        let text = canonical(&mandate);
        let once = through(export, &text).unwrap();
        let back = through(import, &once).unwrap();
        prop_assert_eq!(String::from_utf8_lossy(&back), String::from_utf8_lossy(&text));
        prop_assert_eq!(through(export, &back).unwrap(), once.clone());
        // What AP2 has a name for is under that name.
        let ap2: Value = serde_json::from_slice(&once).unwrap();
        let (intent, own) = (&ap2["intent_mandate"], &mandate["ap2_intent_mandate"]);
        prop_assert_eq!(&intent["natural_language_description"], &own["goal"]);
        for name in ["merchants", "skus", "requires_refundability", "intent_expiry"] {
            prop_assert_eq!(intent.get(name), own.get(name), "{}", name);
        }
        let alone = mandate["authority"]["can_buy_without_confirmation"].as_bool().unwrap();
        prop_assert_eq!(&intent["user_cart_confirmation_required"], &json!(!alone));
        let has_cart = mandate.get("ap2_cart_mandate").is_some_and(Value::is_object);
        prop_assert_eq!(ap2.get("cart_mandate").is_some(), has_cart);
    }

    // VC-AP2-1
    #[test]
    fn a_payment_goes_to_ap2_and_back(payment in payments()) {
        let text = canonical(&payment);
        let once = through(export_payment, &text).unwrap();
        let ap2: Value = serde_json::from_slice(&once).unwrap();
        let amount = &ap2["payment_details_total"]["amount"];
        prop_assert_eq!(&amount["currency"], &payment["payment_details_total"]["currency"]);
        let back = through(import_payment, &once).unwrap();
        prop_assert_eq!(String::from_utf8_lossy(&back), String::from_utf8_lossy(&text));
        prop_assert_eq!(through(export_payment, &back).unwrap(), once);
    }
}
