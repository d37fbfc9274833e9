//! Many buyers on the last units, over HTTP on a durable store and in process; and many that want one key.

use std::sync::Arc;

use bytes::Bytes;
use chancery_node::Office;
use chancery_store::{LEAST_CACHE_BYTES, Memory, Store};
use chancery_testkit::postgres_server::PostgresServer;
use serde_json::{Value, json};

use crate::kept::{journal, journal_with_cache};
use crate::support::{answer, temporary};
use crate::vibe_support::{Market, Served, accept, approve, mandate, offer_of, settle, world};

const BUYERS: usize = 64;

/// Whom the buyers buy for.
const CONSUMERS: usize = 8;
const BALANCE: u64 = 1_000_000_000_000;
const PRICE: u64 = 11_900;

/// The consumer of a buyer, and its account.
fn consumer(buyer: usize) -> (String, String) {
    let number = buyer % CONSUMERS;
    (format!("c_{number}"), format!("acc_{number}"))
}

/// How many units each consumer bought.
type Bought = [u64; CONSUMERS];

fn rounds(name: &str, usual: usize) -> usize {
    let given = std::env::var(name).ok();
    given
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(usual)
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
    let ledger = world["ledger"].as_array_mut().unwrap();
    ledger.extend((0..CONSUMERS).map(|number| {
        let (owner, account) = consumer(number);
        json!({"account_id": account, "owner": owner, "currency": "USD", "balance": BALANCE})
    }));
    world
}

const fn stock(round: usize) -> u64 {
    round as u64 % 5 + 1
}

// VC-SET-5, VC-SET-1, VC-ACT-world-4
#[tokio::test(flavor = "multi_thread")]
async fn the_last_units_are_sold_once() {
    let (_kept, dir) = temporary();
    let rounds = rounds("CHANCERY_RACE_ROUNDS", 200);
    last_units(rounds, |market| market.embedded(&dir)).await;
}

// VC-SET-5, VC-SET-1, CH-JRN-5
#[tokio::test(flavor = "multi_thread")]
async fn the_last_units_are_sold_once_also_in_postgresql() {
    let server = PostgresServer::start();
    let open = |market: &Market| journal(&server, "races", &market.suite());
    last_units(rounds("CHANCERY_RACE_ROUNDS_POSTGRES", 5), open).await;
}

/// The least that a configuration may give: what the buyers' decisions read does not fit in together, and is fetched again
/// and again.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_units_are_sold_once_also_where_their_rows_find_no_room_together() {
    let server = PostgresServer::start();
    let open =
        |market: &Market| journal_with_cache(&server, "races", &market.suite(), LEAST_CACHE_BYTES);
    last_units(rounds("CHANCERY_RACE_ROUNDS_POSTGRES", 2), open).await;
}

async fn last_units(rounds: usize, open: impl FnOnce(&Market) -> Arc<dyn Store>) {
    let market = Market::over(stocked(rounds).to_string().as_bytes());
    let store = open(&market);
    let node = market.start(store).await;
    let mut bought = Bought::default();
    for round in 0..rounds {
        let sku = format!("sku_{round}");
        let mut certs = Vec::new();
        for buyer in 0..BUYERS {
            let session = format!("r{round}b{buyer}");
            let (consumer, account) = consumer(buyer);
            let cert = node
                .certified_for(&session, &consumer, &account, &sku)
                .await;
            node.approve(&session, &cert).await;
            certs.push((session, cert));
        }
        let racing = certs.iter().map(|(session, cert)| {
            let request = node.post("/vcp", settle(session, cert).to_string());
            tokio::spawn(async move { answer(request.send().await.unwrap()).await })
        });
        let mut winners = 0;
        for (buyer, answered) in racing.collect::<Vec<_>>().into_iter().enumerate() {
            let (status, body) = answered.await.unwrap();
            if status == 200 {
                winners += 1;
                bought[buyer % CONSUMERS] += 1;
            } else {
                assert_eq!(
                    (status, &body["code"]),
                    (409, &json!("insufficient_inventory")),
                    "{body}"
                );
            }
        }
        assert_eq!(winners, stock(round), "round {round}");
    }
    is_on_record(&node, rounds, &bought).await;
    let sold: u64 = bought.iter().sum();
    println!("{rounds} rounds of {BUYERS} buyers: {sold} units sold");
    node.stop().await;
}

/// Reads the world back: every stock is reserved to its last unit, and who was told to have bought has an order for each
/// and has paid it, nobody else.
async fn is_on_record(node: &Served, rounds: usize, bought: &Bought) {
    let inventory = node.read("/vcp/world/inventory").await;
    for round in 0..rounds {
        let row = &inventory["rows"][format!("m_keys/sku_{round}")];
        assert_eq!(
            (&row["on_hand"], &row["reserved"]),
            (&json!(stock(round)), &json!(stock(round)))
        );
    }
    let (orders, ledger) = (
        node.read("/vcp/world/orders").await,
        node.read("/vcp/world/ledger").await,
    );
    let orders = orders["rows"].as_object().unwrap();
    for (number, units) in bought.iter().enumerate() {
        let (_, account) = consumer(number);
        let own = orders
            .values()
            .filter(|order| order["buyer_account"] == account);
        assert_eq!(own.count() as u64, *units, "{account}");
        let balance = &ledger["rows"][&account]["balance"];
        assert_eq!(*balance, json!(BALANCE - units * PRICE), "{account}");
    }
    let sold: u64 = bought.iter().sum();
    assert_eq!(orders.len() as u64, sold);
    let earned = &ledger["rows"]["acc_keys"]["balance"];
    assert_eq!(*earned, json!(sold * PRICE));
}

/// Rounds of one node: its rows stay in memory.
const ROUNDS_OF_A_NODE: usize = 100;

async fn say(office: &Office, envelope: &Value) -> Result<Value, &'static str> {
    let body = Bytes::from(envelope.to_string());
    let answered = office.receive_vibe(body, None, None).await;
    let answered = answered.map_err(|refusal| refusal.code)?;
    Ok(serde_json::from_slice(&answered.body).unwrap())
}

/// Takes a session of a buyer to a certificate that was approved, and gives the request to settle it.
async fn ready(office: &Office, session: &str, buyer: usize, sku: &str) -> Value {
    let (consumer, account) = consumer(buyer);
    say(office, &mandate(session, &consumer, &account))
        .await
        .unwrap();
    say(office, &offer_of(session, sku)).await.unwrap();
    let told = say(office, &accept(session)).await.unwrap();
    let made = told["emitted"].as_array().unwrap().iter();
    let mut certs = made.filter_map(|made| made["action"]["payload"]["cert_id"].as_str());
    let cert = certs.next().unwrap().to_owned();
    say(office, &approve(session, &cert)).await.unwrap();
    settle(session, &cert)
}

/// Races the buyers to the units of one round, and notes who had one.
async fn race(office: &Arc<Office>, round: usize, bought: &mut Bought) {
    let sku = format!("sku_{round}");
    let mut requests = Vec::new();
    for buyer in 0..BUYERS {
        let session = format!("r{round}b{buyer}");
        requests.push(ready(office, &session, buyer, &sku).await);
    }
    let racing = requests.into_iter().map(|request| {
        let office = Arc::clone(office);
        tokio::spawn(async move { say(&office, &request).await.map(|_| ()) })
    });
    let mut winners = 0;
    for (buyer, answered) in racing.collect::<Vec<_>>().into_iter().enumerate() {
        match answered.await.unwrap() {
            Ok(()) => {
                winners += 1;
                bought[buyer % CONSUMERS] += 1;
            }
            Err(code) => assert_eq!(code, "insufficient_inventory"),
        }
    }
    assert_eq!(winners, stock(round), "round {round}");
}

// VC-SET-5, VC-SET-1, VC-ACT-world-4
#[tokio::test(flavor = "multi_thread")]
async fn the_last_units_are_sold_once_in_process() {
    let mut left = rounds("CHANCERY_RACE_ROUNDS_IN_PROCESS", 20);
    let (mut all, mut sold) = (0, 0);
    while left > 0 {
        let rounds = left.min(ROUNDS_OF_A_NODE);
        let market = Market::over(stocked(rounds).to_string().as_bytes());
        let node = market.start(Arc::new(Memory::new())).await;
        let mut bought = Bought::default();
        for round in 0..rounds {
            race(&node.office, round, &mut bought).await;
        }
        is_on_record(&node, rounds, &bought).await;
        node.stop().await;
        sold += bought.iter().sum::<u64>();
        all += rounds;
        left -= rounds;
    }
    println!("{all} rounds of {BUYERS} buyers in process: {sold} units sold");
}

// VC-IDEM-1, VC-IDEM-4, VC-IDEM-6
#[tokio::test(flavor = "multi_thread")]
async fn a_key_stays_with_its_request_while_others_want_it() {
    key_races(|_| Arc::new(Memory::new()), 1, 200).await;
}

// VC-IDEM-1, VC-IDEM-4, VC-IDEM-6, CH-JRN-5
#[tokio::test(flavor = "multi_thread")]
async fn a_key_stays_with_its_request_also_in_postgresql() {
    let server = PostgresServer::start();
    let open = |market: &Market| journal(&server, "keys", &market.suite());
    key_races(open, rounds("CHANCERY_RACE_ROUNDS_POSTGRES", 50), 16).await;
}

/// In each round many want a key that is bound, half of them for what it is bound to.
async fn key_races(open: impl FnOnce(&Market) -> Arc<dyn Store>, rounds: usize, wanting: usize) {
    let market = Market::over(world().to_string().as_bytes());
    let store = open(&market);
    let node = market.start(store).await;
    for round in 0..rounds {
        let bound = mandate(&format!("s{round}"), "c_ada", "acc_ada");
        let first = node.must(&bound).await;
        let mut other = bound.clone();
        other["msg_id"] = json!(format!("another-{round}"));
        other["action"]["payload"]["hard_constraints"]["budget"] = json!(1);
        let both = (0..wanting).map(|number| {
            let is_bound = number % 2 == 0;
            let request = node.post("/vcp", if is_bound { &bound } else { &other }.to_string());
            tokio::spawn(async move { (is_bound, answer(request.send().await.unwrap()).await) })
        });
        let mut answers = 0;
        for answered in both.collect::<Vec<_>>() {
            let (is_bound, (status, body)) = answered.await.unwrap();
            match (is_bound, status) {
                (true, 200) => assert_eq!(body, first),
                (false, 422) => assert_eq!(body["code"], "idempotency_conflict"),
                _ => assert_eq!(
                    (status, &body["code"]),
                    (409, &json!("idempotency_in_flight"))
                ),
            }
            answers += usize::from(status != 409);
        }
        assert!(answers > 0, "round {round}");
    }
    node.stop().await;
}
