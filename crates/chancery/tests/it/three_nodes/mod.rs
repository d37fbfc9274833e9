//! Three nodes on one journal while nodes are killed and paused, and PostgreSQL and the broker are restarted (CH-JRN-5): clients
//! at all of them, and what they were told held against the log.
//!
//! `CHANCERY_CHAOS_S` sets how many seconds it takes, `CHANCERY_CHAOS_SEED` repeats the faults of a run.

mod chains;
mod clients;
mod deals;
mod faults;
mod once;
mod pushes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use chancery_testkit::postgres_server::PostgresServer;
use serde_json::Value;

use crate::kill::Random;
use crate::letters::{bob, place_of_bob};
use crate::on_postgres::is_whole;
use crate::served::{ENDS_ITSELF, Served};
use crate::support::Place;
use crate::two_nodes_bus::{broker, bus_is_up};
use crate::vibe_storm;
use chains::{Chain, Chains};
use clients::{Book, Client, Fleet, Ids, NODES};
use deals::{BUYERS, Round, Sales, sku, stock};
use faults::{Plan, Servers};
use once::{Once, Rounds};
use pushes::Pushes;

/// Seconds of an ordinary run.
const SECONDS: u64 = 90;
/// Rounds of buyers that there are goods for, each second.
const ROUNDS_A_SECOND: u64 = 20;
/// A run in which less went on proves nothing. In one that is shorter than usual all nodes are paused at once.
const ACKNOWLEDGED_A_SECOND: u64 = 10;

fn given(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
    )
}

/// What clients did, beside what is on the log.
#[derive(Default)]
struct Books {
    shares: Book<Once>,
    keys: Book<Once>,
    chains: Book<Chain>,
}

#[test]
fn three_nodes_keep_one_order_through_kills_pauses_and_restarts() {
    // CH-JRN-5, CH-JRN-15, CH-NET-3, VX-DUP-1, VC-IDEM-1, VC-SET-5, VC-OBJ-PurchaseMandate-2, VA-REP-4, VA-REP-10, VA-SRV-11
    let seconds = given("CHANCERY_CHAOS_S").unwrap_or(SECONDS);
    let seed = given("CHANCERY_CHAOS_SEED").unwrap_or_else(Random::seed);
    println!("three nodes for {seconds} s, CHANCERY_CHAOS_SEED={seed}");
    let plan = Plan::drawn(seed, seconds);
    let rounds = usize::try_from(seconds * ROUNDS_A_SECOND).unwrap();
    let mut servers = Servers {
        postgres: PostgresServer::of_its_own(),
        nats: broker(),
    };
    let pushes = Pushes::begin();
    let place = place(&servers, rounds, &pushes);
    let nodes: [Served; NODES] = std::array::from_fn(|number| faults::start(&place, number));
    nodes.iter().for_each(bus_is_up);
    let (fleet, books, sales) = (Fleet::new(), Books::default(), Sales::new(rounds));
    for (number, node) in nodes.iter().enumerate() {
        fleet.set(number, Some(node.address));
    }
    let chains = Chains::new(bob(&nodes[0]));
    let (nodes, counted) = std::thread::scope(|scope| {
        let (fleet, books, chains, sales, pushes) = (&fleet, &books, &chains, &sales, &pushes);
        scope.spawn(move || use_them(fleet, seed, books, chains, sales, pushes));
        // Also when something is wrong: clients must not go on for ever.
        let befallen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let begun = Instant::now();
            let befallen = faults::befall(&plan, &place, &mut servers, fleet, nodes);
            // Peace until the time is over.
            std::thread::sleep(Duration::from_secs(seconds).saturating_sub(begun.elapsed()));
            befallen
        }));
        fleet.end();
        befallen.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    pushes.all_arrived();
    let tables = ["orders", "inventory"].map(|table| vibe_storm::rows(&mut nodes[0].wire(), table));
    for mut node in nodes {
        assert!(node.still_runs(), "{}", node.stderr());
        // Those that were killed wrote there as well.
        assert!(!node.stderr().contains(ENDS_ITSELF), "{}", node.stderr());
        node.stop_well();
    }
    println!(
        "{} kills of nodes, {} pauses, {} restarts of PostgreSQL, {} of nats-server",
        counted.kills, counted.pauses, counted.postgres, counted.nats
    );
    assert!(counted.kills >= 5 && counted.pauses >= 3);
    assert!(counted.postgres >= 1 && counted.nats >= 1);
    let lines = is_whole(&place);
    let ids = fleet.ids();
    as_on_the_log(&lines, &ids);
    // In a short run everything may have been answered.
    assert!(
        !ids.unknown.is_empty() || seconds < faults::LONG_S,
        "no fault fell into a request"
    );
    let acknowledged = ids.acknowledged.len() as u64;
    assert!(
        acknowledged >= seconds * ACKNOWLEDGED_A_SECOND || seconds < SECONDS,
        "{acknowledged} acknowledged"
    );
    chains_are_whole(&lines);
    let [orders, inventory] = &tables;
    nothing_is_oversold(orders, inventory, &sales.told());
    let ((ids, sends), (keys, binds)) = (books.shares.judge(&Once), books.keys.judge(&Once));
    let (chains, claims) = books.chains.judge(&Chain);
    println!(
        "linearizable: {ids} message identifiers ({sends} operations), {keys} keys ({binds}), {chains} chains ({claims})"
    );
}

/// A place whose nodes host agents of all four protocols.
fn place(servers: &Servers, rounds: usize, pushes: &Pushes) -> Place {
    let about = "capability = \"echoes\"\nbehaviour = \"echo\"\n\
                 [[agh.peer]]\nid = \"worker.session-1\"\nchannel = \"works\"\n";
    let place = place_of_bob(about)
        .on(&servers.postgres, "chaos")
        .with("CHANCERY_AGH_NATS", &servers.nats.url())
        .with("CHANCERY_BUS", &servers.nats.url())
        .with("CHANCERY_INBOX_DEPTH", "100000000")
        .with("CHANCERY_VALUE_CONTEXT_WORLD", "world.json")
        .with("CHANCERY_VIBE_WORLD", "market.json");
    place.write("world.json", pushes.world().to_string());
    place.write("market.json", deals::world(rounds).to_string());
    place
}

/// Clients at all nodes, until it is over.
fn use_them(
    fleet: &Fleet,
    seed: u64,
    books: &Books,
    chains: &Chains,
    sales: &Sales,
    pushes: &Pushes,
) {
    let (shares, keys) = (Rounds::new(), Rounds::new());
    let mut seeds = Random::from_seed(seed);
    let mut seed = || seeds.between(0, u64::MAX);
    std::thread::scope(|scope| {
        let (shares, keys) = (&shares, &keys);
        for node in 0..NODES {
            let mut client = || Client::new(fleet, node, seed());
            let (sends, binds, claims, says) = (client(), client(), client(), client());
            scope.spawn(move || once::send_shares(sends, shares, &books.shares));
            scope.spawn(move || once::bind_keys(binds, keys, &books.keys));
            scope.spawn(move || pushes::push(says, pushes));
            let name = format!("claim{node}");
            scope.spawn(move || chains::claim(claims, &name, chains, &books.chains));
        }
        for buyer in 0..BUYERS {
            let seed = seed();
            scope.spawn(move || deals::buy(fleet, buyer, seed, sales));
        }
    });
}

fn parsed(lines: &[String]) -> impl Iterator<Item = Value> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap())
}

/// What identifies an envelope that came from outside: the identifiers that clients noted.
fn identity(line: &Value) -> Option<&str> {
    let envelope = &line["envelope"];
    if line["meta"]["origin"] != "external" {
        return None;
    }
    match line["meta"]["protocol"].as_str()? {
        "value-context" => envelope["message_id"].as_str(),
        "vibe" => envelope["msg_id"].as_str(),
        "vacant" => envelope["metadata"]["urn:vacant:v1"]["idempotency_key"].as_str(),
        _ => None,
    }
}

/// Every acknowledged envelope is on the log once, every other that was sent once or never, and nothing else.
fn as_on_the_log(lines: &[String], ids: &Ids) {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for line in parsed(lines) {
        if let Some(id) = identity(&line) {
            *times.entry(id.to_owned()).or_default() += 1;
        }
    }
    let lost: Vec<_> = ids
        .acknowledged
        .iter()
        .filter(|id| !times.contains_key(*id))
        .collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "more than once: {twice:?}");
    let untold = |id: &&String| !ids.acknowledged.contains(*id) && !ids.unknown.contains(*id);
    let strange: Vec<_> = times.keys().filter(untold).collect();
    assert!(strange.is_empty(), "nobody can have sent: {strange:?}");
    let unknown: BTreeSet<_> = ids.unknown.difference(&ids.acknowledged).collect();
    let found = unknown.iter().filter(|id| times.contains_key(**id));
    println!(
        "{} acknowledged; {} sent without an answer, {} of them never answered later: {} on the log, {} not",
        ids.acknowledged.len(),
        ids.unknown.len(),
        unknown.len(),
        found.clone().count(),
        unknown.len() - found.count(),
    );
}

/// On each chain the numbers follow each other, and no two envelopes follow the same one.
fn chains_are_whole(lines: &[String]) {
    let mut chains: BTreeMap<(String, String), (u64, BTreeSet<String>)> = BTreeMap::new();
    for line in parsed(lines).filter(|line| line["meta"]["protocol"] == "vacant") {
        let place = &line["envelope"]["metadata"]["urn:vacant:v1"];
        let text = |name: &str| place[name].as_str().unwrap().to_owned();
        let pair = (text("from_vacant_id"), text("to_vacant_id"));
        let (last, followed) = chains.entry(pair).or_default();
        *last += 1;
        assert_eq!(place["sequence_no"].as_u64(), Some(*last), "{line}");
        assert!(
            followed.insert(text("prev_envelope_hash")),
            "a fork: {line}"
        );
    }
    let calls: u64 = chains.values().map(|(last, _)| last).sum();
    println!("{} chains with {calls} envelopes", chains.len());
    assert!(calls > 0);
}

type Table = serde_json::Map<String, Value>;

/// Of each round's goods no more are sold than there were, all of them where enough wanted them, and no mandate bought twice.
fn nothing_is_oversold(orders: &Table, inventory: &Table, told: &[Round]) {
    let mut sold: BTreeMap<&str, u64> = BTreeMap::new();
    let mut mandates = BTreeSet::new();
    for order in orders.values() {
        *sold.entry(order["sku_id"].as_str().unwrap()).or_default() += 1;
        let mandate = order["mandate_id"].as_str().unwrap();
        assert!(mandates.insert(mandate), "{mandate} was spent twice");
    }
    let (mut rounds, mut units) = (0, 0);
    for (round, told) in told.iter().enumerate().filter(|(_, told)| told.done > 0) {
        let sku = sku(round);
        let sold = sold.get(sku.as_str()).copied().unwrap_or(0);
        let row = &inventory[&format!("m_keys/{sku}")];
        assert_eq!(row["on_hand"], stock(round), "{sku}");
        assert_eq!(row["reserved"], sold, "{sku}");
        assert!(sold <= stock(round), "{sku}: {sold} sold");
        assert_eq!(told.bought, sold, "{sku}: buyers were told otherwise");
        assert_eq!(sold, stock(round).min(told.done), "{sku}: some were left");
        rounds += 1;
        units += sold;
    }
    println!("{rounds} rounds of {BUYERS} buyers on scarce goods: {units} sold");
    assert!(rounds > 0);
}
