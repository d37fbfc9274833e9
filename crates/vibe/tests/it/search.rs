//! Ranking by the built-in policy: its order, its filters, and how much a search looks at.

use chancery_vibe::settings::Settings;
use serde_json::{Value, json};

use crate::support::{CREATE_PURCHASE_MANDATE, Desk, SEARCH, mandate, seed, world};

/// A world with these listings of each merchant: sku, title, attribute, price, stock.
fn shop(items: &[(&str, String, &str, &str, u64, u64)]) -> Desk {
    let mut world = world();
    let (mut catalog, mut inventory) = (Vec::new(), Vec::new());
    for (merchant, sku, title, attribute, price, stock) in items {
        catalog.push(json!({"merchant_id": merchant, "sku_id": sku, "title": title, "attributes": [attribute],
            "list_price": price, "eta_days": price % 10, "refundable": true}));
        inventory
            .push(json!({"merchant_id": merchant, "sku_id": sku, "on_hand": stock, "reserved": 0}));
    }
    world["catalog"] = json!(catalog);
    world["inventory"] = json!(inventory);
    Desk::of(&seed(&world), Settings::default())
}

fn found(desk: &mut Desk, session: &str, payload: Value) -> Vec<String> {
    let (_, reply) = desk.send(SEARCH, session, None, payload);
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    let candidates = body["emitted"][0]["action"]["payload"]["candidates"].clone();
    let candidates = candidates.as_array().unwrap();
    for (index, candidate) in candidates.iter().enumerate() {
        assert_eq!(candidate["rank"], index + 1);
    }
    let name = |one: &Value| {
        format!(
            "{}/{}",
            one["merchant_id"].as_str().unwrap(),
            one["sku_id"].as_str().unwrap()
        )
    };
    candidates.iter().map(name).collect()
}

fn item(
    merchant: &'static str,
    sku: &str,
    title: &'static str,
    price: u64,
    stock: u64,
) -> (&'static str, String, &'static str, &'static str, u64, u64) {
    (
        merchant,
        sku.to_owned(),
        title,
        "brushed steel",
        price,
        stock,
    )
}

#[test]
fn score_then_stock_then_price_then_reputation_then_name() {
    // VC-ACT-platform.rank_offers-2, VC-CLR-19; m1 has 700, m2 500.
    let mut desk = shop(&[
        item("m2", "a", "Red lamp", 500, 1),
        item("m1", "b", "red lamp", 500, 1),
        item("m1", "a", "RED LAMP", 500, 1),
        item("m1", "c", "red lamp, large", 100, 0),
        item("m2", "d", "red lamp red", 400, 2),
        item("m2", "e", "blue lamp", 1, 9),
        item("m2", "f", "redlamp", 1, 9),
        item("m2", "g", "chair of steel", 1, 9),
    ]);
    let order = ["m2/d", "m1/a", "m1/b", "m2/a", "m1/c", "m2/e"];
    assert_eq!(
        found(&mut desk, "q", json!({"query": "Red-LAMP! red"})),
        order
    );
    let three = found(
        &mut desk,
        "q",
        json!({"query": "red lamp", "constraints": {"limit": 3}}),
    );
    assert_eq!(three, order[..3]);
    assert_eq!(
        found(&mut desk, "q", json!({"query": "steel chair"}))[0],
        "m2/g"
    );
    assert!(found(&mut desk, "q", json!({"query": "unheard"})).is_empty());
}

#[test]
fn filters_leave_out_what_does_not_fit() {
    // VC-ACT-commerce.search-1, VC-ACT-platform.rank_offers-2; a price's last digit is the delivery time.
    let mut desk = shop(&[
        item("m1", "a", "lamp", 501, 1),
        item("m2", "b", "lamp", 403, 1),
        item("m2", "c", "lamp", 609, 1),
    ]);
    let mut with = |constraints: Value| {
        found(
            &mut desk,
            "q",
            json!({"query": "lamp", "constraints": constraints}),
        )
    };
    assert_eq!(with(json!({})), ["m2/b", "m1/a", "m2/c"]);
    assert_eq!(with(json!({"delivery_days": 3})), ["m2/b", "m1/a"]);
    assert_eq!(with(json!({"max_price": 501})), ["m2/b", "m1/a"]);
    assert_eq!(with(json!({"merchants": ["m2"]})), ["m2/b", "m2/c"]);
    assert_eq!(with(json!({"must_have": ["brushed steel"]})).len(), 3);
    assert!(with(json!({"must_have": ["brushed"]})).is_empty());
    let mut narrow = mandate("man", "c1", "a_c1", 0);
    narrow["ap2_intent_mandate"]["skus"] = json!(["a", "c"]);
    narrow["ap2_intent_mandate"]["merchants"] = json!(["m2"]);
    desk.yes(CREATE_PURCHASE_MANDATE, "x", None, narrow);
    assert_eq!(found(&mut desk, "x", json!({"query": "lamp"})), ["m2/c"]);
}

#[test]
fn a_search_examines_two_thousand_items_rarest_word_first() {
    // VC-ACT-platform.rank_offers-2: the cheapest lamp comes after two thousand others by name.
    let mut items: Vec<_> = (0..2_100_u64)
        .map(|n| item("m1", &format!("s{n:04}"), "lamp", 10_000 - n, 1))
        .collect();
    items.push(item("m1", "z", "rare lamp", 1, 1));
    let mut desk = shop(&items);
    let cheapest_of_first = found(
        &mut desk,
        "q",
        json!({"query": "lamp", "constraints": {"limit": 1}}),
    );
    assert_eq!(cheapest_of_first, ["m1/s1999"]);
    let first = found(
        &mut desk,
        "q",
        json!({"query": "lamp rare", "constraints": {"limit": 2}}),
    );
    // One of the two thousand was the rare one, so one less of the others was looked at.
    assert_eq!(first, ["m1/z", "m1/s1998"]);
}
