//! Seeds, and changes of the world after the start.

use chancery_core::rows::Rows as _;
use chancery_vibe::settings::Settings;
use chancery_vibe::world::change::{Act, Change, Stock};
use chancery_vibe::world::hash::{state_hash, world_hash};
use chancery_vibe::world::rows::{CatalogRow, LedgerRow, Merchant, Table};
use chancery_vibe::world::seed::Seed;
use serde_json::{Value, json};

use crate::replay::{lines, replay};
use crate::support::{Desk, SEARCH, SETTLE_PAYMENT, agreed, seed, world};

#[test]
fn a_seed_with_a_fault_is_refused_with_its_path() {
    // VC-WLD-1, VC-REP-2
    type Break = fn(&mut Value);
    let faults: [(&str, Break); 16] = [
        ("$.currency", |w| w["currency"] = json!("usd")),
        ("$.seed_id", |w| w["seed_id"] = json!(1)),
        ("$.merchants[0].account_id", |w| {
            w["merchants"][0]["account_id"] = json!("nowhere")
        }),
        ("$.merchants[1]", |w| {
            w["merchants"][1]["merchant_id"] = json!("m1")
        }),
        ("$.catalog[0].merchant_id", |w| {
            w["catalog"][0]["merchant_id"] = json!("m9")
        }),
        ("$.catalog[0].list_price", |w| {
            w["catalog"][0]["list_price"] = json!(440.5)
        }),
        ("$.catalog[1].attributes", |w| {
            w["catalog"][1]["attributes"] = json!("x")
        }),
        ("$.inventory[0].sku_id", |w| {
            w["inventory"][0]["sku_id"] = json!("s9")
        }),
        ("$.inventory[0].reserved", |w| {
            w["inventory"][0]["reserved"] = json!(6)
        }),
        ("$.inventory[1].on_hand", |w| {
            w["inventory"][1]["on_hand"] = json!(-1)
        }),
        ("$.ledger[2].balance", |w| {
            w["ledger"][2]["balance"] = json!(1.0)
        }),
        ("$.ledger[3]", |w| {
            w["ledger"][3]["account_id"] = json!("a_c1")
        }),
        ("$.reputation[0].merchant_id", |w| {
            w["reputation"][0]["merchant_id"] = json!("m9")
        }),
        ("$.reputation[0].score", |w| {
            w["reputation"][0]["score"] = json!(1001)
        }),
        ("$.policy.cert_ttl", |w| w["policy"]["cert_ttl"] = json!(1)),
        (
            "$.keys[0].jwk",
            |w| w["keys"] = json!([{"kid": "k", "jwk": {"kty": "EC", "crv": "P-256", "x": "A", "y": "B"}, "addresses": []}]),
        ),
    ];
    assert!(Seed::parse(&serde_json::to_vec(&world()).unwrap()).is_ok());
    for (path, fault) in faults {
        let mut broken = world();
        fault(&mut broken);
        let found = Seed::parse(&serde_json::to_vec(&broken).unwrap()).unwrap_err();
        assert_eq!(found.path, path, "{found}");
    }
    assert!(Seed::parse(b"{\"seed_id\":\"a\",\"seed_id\":\"b\"}").is_err());
}

#[test]
fn every_merchant_has_a_score() {
    // VC-CLR-1, VC-REP-2
    let rows = seed(&world()).rows();
    let scores = rows.scan(&Table::Reputation.prefix()).unwrap();
    let text: Vec<String> = scores
        .iter()
        .map(|(_, row)| String::from_utf8_lossy(row).into_owned())
        .collect();
    assert_eq!(
        text,
        [
            r#"{"merchant_id":"m1","score":700}"#,
            r#"{"merchant_id":"m2","score":500}"#
        ]
    );
}

fn change() -> Change {
    Change {
        merchants: vec![Merchant {
            merchant_id: "m3".to_owned(),
            name: "Three".to_owned(),
            account_id: "a_m3".to_owned(),
        }],
        catalog: vec![
            CatalogRow {
                merchant_id: "m3".to_owned(),
                sku_id: "s1".to_owned(),
                title: "Silent Keyboard".to_owned(),
                attributes: Vec::new(),
                list_price: 20_000,
                eta_days: 1,
                refundable: true,
            },
            CatalogRow {
                merchant_id: "m2".to_owned(),
                sku_id: "s1".to_owned(),
                title: "Loud Typewriter".to_owned(),
                attributes: vec!["painted".to_owned()],
                list_price: 31_000,
                eta_days: 4,
                refundable: true,
            },
        ],
        inventory: vec![Stock {
            merchant_id: "m3".to_owned(),
            sku_id: "s1".to_owned(),
            on_hand: 7,
        }],
        ledger: vec![LedgerRow {
            account_id: "a_m3".to_owned(),
            owner: "m3".to_owned(),
            currency: "EUR".to_owned(),
            balance: 0,
        }],
    }
}

fn candidates(desk: &mut Desk, query: &str) -> Vec<(String, u64, bool)> {
    let (_, reply) = desk.send(SEARCH, "q", None, json!({"query": query}));
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    let list = body["emitted"][0]["action"]["payload"]["candidates"]
        .as_array()
        .unwrap()
        .clone();
    list.iter()
        .map(|one| {
            let item = format!(
                "{}/{}",
                one["merchant_id"].as_str().unwrap(),
                one["sku_id"].as_str().unwrap()
            );
            (
                item,
                one["score"].as_u64().unwrap(),
                one["in_stock"].as_bool().unwrap(),
            )
        })
        .collect()
}

#[test]
fn a_change_is_searched_hashed_and_replayed() {
    // CH-JRN-1, VC-WLD-4, VC-ACT-platform.rank_offers-2, VC-RPL-2
    let mut desk = Desk::new(Settings::default());
    let found = |item: &str, score, in_stock| (item.to_owned(), score, in_stock);
    assert_eq!(
        candidates(&mut desk, "keyboard"),
        [found("m2/s1", 1, true), found("m1/s1", 1, true)]
    );
    let before = world_hash(desk.host.rows()).unwrap();
    desk.host.change(Act::World(change())).unwrap();
    assert_ne!(world_hash(desk.host.rows()).unwrap(), before);
    assert_eq!(
        candidates(&mut desk, "Silent KEYBOARD"),
        [found("m3/s1", 2, true), found("m1/s1", 1, true)]
    );
    assert_eq!(
        candidates(&mut desk, "typewriter"),
        [found("m2/s1", 1, true)]
    );
    let cert = agreed(&mut desk, "x", "c1", "a_c1", "m1", 1, 20_000);
    desk.yes(SETTLE_PAYMENT, "x", None, json!({"cert_id": cert}));
    let (report, rows) = replay(&lines(desk.host.units()), &seed(&world()));
    assert_eq!(report.divergence, None);
    assert_eq!(state_hash(&rows), state_hash(desk.host.rows()));
    assert_eq!(world_hash(&rows), world_hash(desk.host.rows()));
}

#[test]
fn a_change_that_would_break_the_world_is_refused() {
    // VC-ACT-world-4, CH-LIM-1
    let mut desk = Desk::new(Settings::default());
    let cert = agreed(&mut desk, "x", "c1", "a_c1", "m1", 3, 40_000);
    desk.yes(SETTLE_PAYMENT, "x", None, json!({"cert_id": cert}));
    let units = desk.host.units().len();
    let stock = |on_hand| Change {
        inventory: vec![Stock {
            merchant_id: "m1".to_owned(),
            sku_id: "s1".to_owned(),
            on_hand,
        }],
        ..Change::default()
    };
    let account = LedgerRow {
        account_id: "a_c1".to_owned(),
        owner: "c2".to_owned(),
        currency: "USD".to_owned(),
        balance: 0,
    };
    let refused = [
        Change::default(),
        stock(2),
        Change {
            merchants: change().merchants,
            ..Change::default()
        },
        Change {
            catalog: vec![change().catalog[0].clone()],
            ..Change::default()
        },
        Change {
            inventory: change().inventory,
            ..Change::default()
        },
        Change {
            ledger: vec![account; 1],
            ..Change::default()
        },
        Change {
            inventory: vec![stock(9).inventory[0].clone(); 1_001],
            ..Change::default()
        },
    ];
    for change in refused {
        let refusal = desk.host.change(Act::World(change)).unwrap_err();
        assert_eq!(refusal.code, "world_change_refused");
    }
    assert_eq!(desk.host.units().len(), units, "a refusal leaves no line");
    desk.host.change(Act::World(stock(3))).unwrap();
}
