//! Many buyers on the last units, over HTTP, on a durable store.

use serde_json::{Value, json};

use crate::support::{answer, temporary};
use crate::vibe_support::{Market, settle, world};

const BUYERS: usize = 64;

fn rounds() -> usize {
    let given = std::env::var("CHANCERY_RACE_ROUNDS").ok();
    given.and_then(|rounds| rounds.parse().ok()).unwrap_or(200)
}

/// A world in which every round has a stock of its own, one to five units.
fn stocked(rounds: usize) -> Value {
    let mut world = world();
    for table in ["catalog", "inventory"] {
        let rows = world[table].as_array_mut().unwrap();
        let model = rows[0].clone();
        for round in 0..rounds {
            let mut row = model.clone();
            row["sku_id"] = json!(format!("sku_{round}"));
            if table == "inventory" {
                row["on_hand"] = json!(stock(round));
            }
            rows.push(row);
        }
    }
    world["ledger"][0]["balance"] = json!(1_000_000_000_000_i64);
    world
}

const fn stock(round: usize) -> u64 {
    round as u64 % 5 + 1
}

// VC-SET-5, VC-SET-1, VC-ACT-world-4
#[tokio::test(flavor = "multi_thread")]
async fn the_last_units_are_sold_once() {
    let rounds = rounds();
    let (_kept, dir) = temporary();
    let market = Market::over(stocked(rounds).to_string().as_bytes());
    let store = market.embedded(&dir);
    let node = market.start(store).await;
    let mut sold = 0;
    for round in 0..rounds {
        let sku = format!("sku_{round}");
        let mut certs = Vec::new();
        for buyer in 0..BUYERS {
            let session = format!("r{round}b{buyer}");
            let cert = node.certified_for(&session, "c_ada", "acc_ada", &sku).await;
            node.approve(&session, &cert).await;
            certs.push((session, cert));
        }
        let racing = certs.iter().map(|(session, cert)| {
            let request = node.post("/vcp", settle(session, cert).to_string());
            tokio::spawn(async move { answer(request.send().await.unwrap()).await })
        });
        let mut winners = 0;
        for answered in racing.collect::<Vec<_>>() {
            let (status, body) = answered.await.unwrap();
            if status == 200 {
                winners += 1;
            } else {
                assert_eq!(
                    (status, &body["code"]),
                    (409, &json!("insufficient_inventory")),
                    "{body}"
                );
            }
        }
        assert_eq!(winners, stock(round), "round {round}");
        sold += winners;
    }
    let inventory = node.read("/vcp/world/inventory").await;
    for round in 0..rounds {
        let row = &inventory["rows"][format!("m_keys/sku_{round}")];
        assert_eq!(
            (&row["on_hand"], &row["reserved"]),
            (&json!(stock(round)), &json!(stock(round)))
        );
    }
    let orders = node.read("/vcp/world/orders").await;
    assert_eq!(orders["rows"].as_object().unwrap().len() as u64, sold);
    let ledger = node.read("/vcp/world/ledger").await;
    assert_eq!(ledger["rows"]["acc_keys"]["balance"], json!(sold * 11_900));
    println!("{rounds} rounds of {BUYERS} buyers: {sold} units sold");
    node.stop().await;
}
