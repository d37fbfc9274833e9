//! A catalog that grows after the start: `chancery world apply`.

use std::time::Instant;

use serde_json::{Value, json};

use crate::market::MarketNode;

/// SKUs of an ordinary run; `CHANCERY_APPLY_SKUS` asks for another number.
const SKUS: usize = 3_000;

#[test]
fn a_large_catalog_is_applied_searched_and_replayed() {
    // CH-JRN-1, VC-WLD-4, VC-RPL-2
    let skus = std::env::var("CHANCERY_APPLY_SKUS").map_or(SKUS, |skus| {
        skus.parse().expect("CHANCERY_APPLY_SKUS is a number")
    });
    let mut node = MarketNode::start();
    let listing = |number: usize| {
        json!({"merchant_id": "m_keys", "sku_id": format!("sku_{number:06}"), "title": format!("Keyboard {number}"),
            "attributes": ["new"], "list_price": 1_000 + number, "eta_days": 2, "refundable": true})
    };
    let stock = |number: usize| json!({"merchant_id": "m_keys", "sku_id": format!("sku_{number:06}"), "on_hand": 3});
    let change = json!({
        "catalog": (0..skus).map(listing).collect::<Vec<Value>>(),
        "inventory": (0..skus).map(stock).collect::<Vec<Value>>(),
    });
    node.place.write("catalog.json", change.to_string());
    let started = Instant::now();
    let told = node
        .run(&["world", "apply", "catalog.json", "--json"])
        .exits(0)
        .json();
    println!(
        "{skus} SKUs with their stock on record in {:.1} s",
        started.elapsed().as_secs_f64()
    );
    assert_eq!(told["entries"], json!(2 * skus));
    let mut search = crate::market::envelope(
        "s",
        "search",
        "buyer:discovery",
        "platform:aggregator",
        "commerce.search",
        json!({"query": format!("{}", skus - 1)}),
    );
    search["idempotency_key"] = Value::Null;
    let found = node.say(&search);
    let first = &found["emitted"][0]["action"]["payload"]["candidates"][0];
    assert_eq!(first["sku_id"], format!("sku_{:06}", skus - 1));
    let hash = node.run(&["world", "hash"]).exits(0).text();
    node.stop();
    let replayed = node
        .place
        .run(&["log", "replay", "chancery-data", "--json"])
        .exits(0)
        .json();
    assert_eq!(replayed["identical"], true);
    assert_eq!(replayed["state_hash"], hash.trim());
}
