//! A catalog that grows after the start: `chancery world apply`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::market::{MarketNode, envelope};
use crate::watched::{lines_at, shown_when_it_lasts, watched};
use crate::wire::Wire;

/// SKUs of an ordinary run; `CHANCERY_APPLY_SKUS` asks for another number.
const SKUS: usize = 3_000;

/// From so many SKUs on the change has a time to be on record in, where the program is built for use.
const MANY_SKUS: usize = 100_000;
const MANY_WITHIN: Duration = Duration::from_secs(30);

/// Searches that are timed.
const SEARCHES: usize = 200;

/// A catalog of so many listings, with a stock of each.
fn catalog(name: &str, skus: usize) -> String {
    let listing = |number: usize| {
        json!({"merchant_id": "m_keys", "sku_id": format!("{name}_{number:06}"), "title": format!("Keyboard {number}"),
            "attributes": ["new"], "list_price": 1_000 + number, "eta_days": 2, "refundable": true})
    };
    let stock = |number: usize| json!({"merchant_id": "m_keys", "sku_id": format!("{name}_{number:06}"), "on_hand": 3});
    let change = json!({
        "catalog": (0..skus).map(listing).collect::<Vec<Value>>(),
        "inventory": (0..skus).map(stock).collect::<Vec<Value>>(),
    });
    change.to_string()
}

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
    node.place.write("catalog.json", catalog("sku", skus));
    let started = Instant::now();
    let told = node
        .run(&["world", "apply", "catalog.json", "--json"])
        .exits(0)
        .json();
    let took = started.elapsed();
    println!(
        "{skus} SKUs with their stock on record in {:.1} s",
        took.as_secs_f64()
    );
    // A bound for the long run on a built program, far above what it takes; an ordinary run measures nothing.
    if skus >= MANY_SKUS && !cfg!(debug_assertions) {
        assert!(took < MANY_WITHIN, "{took:?}");
    }
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

#[test]
fn whoever_waits_for_a_catalog_to_be_applied_sees_how_far_it_is() {
    // CH-CLI-1: "progress bar on anything longer than a second"
    let node = MarketNode::start();
    let log = node.place.path("chancery-data/audit.jsonl");
    shown_when_it_lasts("entries on record", |attempt| {
        let file = format!("catalog-{attempt}.json");
        node.place
            .write(&file, catalog(&format!("more{attempt}"), SKUS));
        let before = lines_at(&log);
        let apply = ["world", "apply", &file, "--url", &node.url];
        watched(&node.place, &apply, || lines_at(&log) - before)
    });
    // Where nobody looks there is none.
    let ran = node.run(&["world", "apply", "catalog-0.json"]).exits(0);
    assert_eq!(ran.err, "");
}

/// A listing whose title has so many characters.
fn titled(sku: &str, characters: usize) -> Value {
    json!({"merchant_id": "m_keys", "sku_id": sku, "title": "x".repeat(characters), "attributes": [],
        "list_price": 1_000, "eta_days": 2, "refundable": true})
}

#[test]
fn long_titles_are_applied_in_parts_that_the_node_takes() {
    // CH-JRN-1, CH-CLI-1: 1,000 entries of 4.5 KB are more than a request may have.
    let node = MarketNode::start();
    let listings = (0..1_001).map(|number| titled(&format!("long_{number:04}"), 4_500));
    let change = json!({"catalog": listings.collect::<Vec<Value>>()});
    node.place.write("long.json", change.to_string());
    let told = node.run(&["world", "apply", "long.json", "--json"]);
    let told = told.exits(0).json();
    assert_eq!(
        (&told["entries"], &told["lines"]),
        (&json!(1_001), &json!(2))
    );
}

#[test]
fn an_entry_that_no_part_can_hold_is_named_before_anything_is_sent() {
    // CH-CLI-1, CH-CLI-3
    let node = MarketNode::start();
    let change = json!({
        "ledger": [{"account_id": "acc_new", "owner": "c_new", "currency": "USD", "balance": 1}],
        "catalog": [titled("sku_short", 10), titled("sku_huge", 5 << 20)],
    });
    node.place.write("huge.json", change.to_string());
    let before = node.run(&["world", "hash"]).exits(0).text();
    let refused = node.run(&["world", "apply", "huge.json"]).exits(2);
    assert!(refused.err.contains("m_keys/sku_huge"), "{}", refused.err);
    assert_eq!(node.run(&["world", "hash"]).exits(0).text(), before);
}
