//! A catalog that grows after the start: `chancery world apply`.

use std::time::Instant;

use serde_json::{Value, json};

use crate::market::{MarketNode, envelope};
use crate::wire::Wire;

/// SKUs of an ordinary run; `CHANCERY_APPLY_SKUS` asks for another number.
const SKUS: usize = 3_000;

/// Searches that are timed.
const SEARCHES: usize = 200;

/// Looks for listings one by one over one connection, and tells how long an answer took.
fn searches(node: &MarketNode, skus: usize) {
    let address = node.url.strip_prefix("http://").unwrap();
    let mut wire = Wire::connect(address.parse().unwrap()).unwrap();
    let mut times = Vec::new();
    for number in 0..SEARCHES {
        let wanted = number * (skus - 1) / (SEARCHES - 1);
        let mut search = envelope(
            "s",
            &format!("search{number}"),
            "buyer:discovery",
            "platform:aggregator",
            "commerce.search",
            json!({"query": format!("keyboard {wanted}")}),
        );
        search["idempotency_key"] = Value::Null;
        let sent = Instant::now();
        let found = wire.post("/vcp", search.to_string().as_bytes()).unwrap();
        times.push(sent.elapsed());
        let found = found.ok();
        let first = &found["emitted"][0]["action"]["payload"]["candidates"][0];
        assert_eq!(first["sku_id"], format!("sku_{wanted:06}"));
    }
    times.sort_unstable();
    println!(
        "a search over {skus} SKUs, durable: p50 {:?}, p99 {:?}",
        times[SEARCHES / 2],
        times[SEARCHES * 99 / 100]
    );
}

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
    searches(&node, skus);
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
