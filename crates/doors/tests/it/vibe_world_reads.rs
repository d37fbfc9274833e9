//! The world's tables over HTTP: each caller its part, page by page.

use serde_json::{Value, json};

use crate::vibe_http::{get, guarded, post};
use crate::vibe_support::{Served, accept, approve, envelope, mandate, offer_of, settle};

/// Ada buys a keyboard of one merchant and Bob one of the other; both dispute it and are ruled on.
async fn with_two_deals() -> Served {
    let node = guarded().await;
    for (who, seller, sku) in [("ada", "keys", "sku_quiet"), ("bob", "other", "sku_loud")] {
        let cert = certified(&node, who, seller, sku).await;
        say(&node, who, &approve(who, &cert)).await;
        let settled = say(&node, who, &settle(who, &cert)).await;
        disputed(&node, who, &settled["state_diff"]["tx_id"]).await;
    }
    node
}

/// Sends what must be accepted with somebody's token.
async fn say(node: &Served, who: &str, envelope: &Value) -> Value {
    let (status, body) = post(node, who, "/vcp", envelope).await;
    assert_eq!(status, 200, "{who} {envelope}: {body}");
    body
}

/// Takes a session named for its buyer to a certificate.
async fn certified(node: &Served, who: &str, seller: &str, sku: &str) -> String {
    let mandate = mandate(who, &format!("c_{who}"), &format!("acc_{who}"));
    say(node, who, &mandate).await;
    let mut offer = offer_of(who, sku);
    offer["action"]["payload"]["merchant_id"] = json!(format!("m_{seller}"));
    say(node, seller, &offer).await;
    let told = say(node, who, &accept(who)).await;
    let mut made = told["emitted"].as_array().unwrap().iter();
    let cert = made.find_map(|made| made["action"]["payload"]["cert_id"].as_str());
    cert.unwrap_or_else(|| panic!("{told}")).to_owned()
}

/// Opens a dispute about a deal and rules it, for the merchant.
async fn disputed(node: &Served, who: &str, tx: &Value) {
    let session = format!("d-{who}");
    let (buyer, judge) = ("buyer:authorization", "platform:adjudicator");
    let send = |name: &str, way: [&str; 2], verb: &str, payload: Value| {
        let id = format!("{session}-{name}");
        envelope(
            &id,
            &session,
            way[0],
            way[1],
            &format!("platform.{verb}"),
            payload,
        )
    };
    let claim = json!({"tx_id": tx, "reason": "late"});
    let open = send("open", [buyer, judge], "open_dispute", claim);
    let told = say(node, who, &open).await;
    let dispute = &told["emitted"][0]["action"]["payload"]["dispute_id"];
    let ruling = json!({"dispute_id": dispute, "ruling": "deny", "evidence": [format!("{who}-settle")],
        "rationale": "the log says so"});
    let rule = send("rule", [judge, buyer], "rule_dispute", ruling);
    say(node, "judge", &rule).await;
}

const TABLES: [&str; 7] = [
    "catalog",
    "inventory",
    "ledger",
    "reputation",
    "orders",
    "disputes",
    "rulings",
];

// VC-WLD-2, VC-WLD-3, VC-HTTP-5
#[tokio::test(flavor = "multi_thread")]
async fn a_table_shows_each_caller_its_part() {
    let node = with_two_deals().await;
    let (all, one, two, none) = (Some(2), Some(1), Some(2), Some(0));
    // Per caller, and of orders, disputes and rulings alike: the world has two of each, and four accounts. None is 404.
    let expected: [(&str, [Option<usize>; 5]); 12] = [
        ("ada", [all, None, one, all, one]),
        ("bob", [all, None, one, all, one]),
        ("keys", [all, one, one, all, one]),
        ("other", [all, one, one, all, one]),
        ("psp", [all, all, Some(4), all, all]),
        ("ranks", [all, all, None, all, all]),
        ("judge", [all, all, None, all, all]),
        ("nobody", [None; 5]),
        // On a side and for nobody: what is for all, and nothing of its own.
        ("buys", [all, None, none, all, none]),
        ("sells", [all, none, none, all, none]),
        // On both sides: of one deal, and of one deal each.
        ("trades", [all, one, two, all, one]),
        ("crosses", [all, one, two, all, two]),
    ];
    for (who, [catalog, inventory, ledger, reputation, deals]) in expected {
        let counts = [catalog, inventory, ledger, reputation, deals, deals, deals];
        for (table, count) in TABLES.into_iter().zip(counts) {
            let (status, body) = get(&node, who, &format!("/vcp/world/{table}")).await;
            match count {
                Some(count) => {
                    assert_eq!(status, 200, "{who} {table}: {body}");
                    assert_eq!(body["table"], table);
                    let rows = body["rows"].as_object().unwrap().len();
                    assert_eq!(rows, count, "{who} {table}");
                }
                None => assert_eq!(status, 404, "{who} {table}"),
            }
        }
    }
    assert_eq!(get(&node, "psp", "/vcp/world/secrets").await.0, 404);
    node.stop().await;
}

/// The only row of a table that a caller sees.
async fn only_row(node: &Served, who: &str, table: &str) -> Value {
    let (status, body) = get(node, who, &format!("/vcp/world/{table}")).await;
    assert_eq!(status, 200, "{who} {table}: {body}");
    let rows: Vec<&Value> = body["rows"].as_object().unwrap().values().collect();
    assert_eq!(rows.len(), 1, "{who} {table}: {body}");
    rows[0].clone()
}

// VC-WLD-3, VC-CLR-1
#[tokio::test(flavor = "multi_thread")]
async fn the_part_of_buyer_and_merchant_is_their_own_deal() {
    let node = with_two_deals().await;
    let price = 11_900;
    for (buyer, seller, sku) in [("ada", "keys", "sku_quiet"), ("bob", "other", "sku_loud")] {
        let consumer = format!("c_{buyer}");
        for who in [buyer, seller] {
            let order = only_row(&node, who, "orders").await;
            assert_eq!(order["buyer_account"], format!("acc_{buyer}"), "{who}");
            assert_eq!(order["merchant_id"], format!("m_{seller}"), "{who}");
            assert_eq!(
                (&order["sku_id"], &order["total"]),
                (&json!(sku), &json!(price))
            );
            assert_eq!(order["state"], "paid");
            let dispute = only_row(&node, who, "disputes").await;
            assert_eq!(dispute["order_id"], order["order_id"], "{who}");
            assert_eq!(
                (&dispute["opened_by"], &dispute["state"]),
                (&json!(consumer), &json!("ruled"))
            );
            let ruling = only_row(&node, who, "rulings").await;
            assert_eq!(ruling["dispute_id"], dispute["dispute_id"], "{who}");
            assert_eq!(ruling["ruling"], "deny");
        }
        let account = only_row(&node, buyer, "ledger").await;
        assert_eq!(
            (&account["owner"], &account["balance"]),
            (&json!(consumer), &json!(1_000_000 - price))
        );
        let account = only_row(&node, seller, "ledger").await;
        assert_eq!(account["balance"], price);
        let stock = only_row(&node, seller, "inventory").await;
        assert_eq!(
            (&stock["sku_id"], &stock["reserved"]),
            (&json!(sku), &json!(1))
        );
    }
    node.stop().await;
}

// VC-HTTP-5, VC-WLD-3, CH-LIM-1
#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_told_page_by_page() {
    let node = guarded().await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/vcp/world/catalog?limit=1&after={after}");
        let (status, page) = get(&node, "psp", &path).await;
        assert_eq!(status, 200, "{page}");
        let rows = page["rows"].as_object().unwrap();
        assert!(rows.len() <= 1);
        seen.extend(rows.keys().cloned());
        match page["next"].as_str() {
            Some(next) => after = next.replace('/', "%2F"),
            None => break,
        }
    }
    assert_eq!(seen, ["m_keys/sku_quiet", "m_other/sku_loud"]);
    // What a caller may not see is passed over, not shown as a gap.
    let (_, page) = get(&node, "keys", "/vcp/world/inventory?limit=5").await;
    let own: Vec<&String> = page["rows"].as_object().unwrap().keys().collect();
    assert_eq!(own, ["m_keys/sku_quiet"]);
    assert_eq!(page["next"], Value::Null);
    node.stop().await;
}
