//! Agents that live in a served node: configured, killed in the middle of turns, and a market of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use chancery_testkit::postgres_server::PostgresServer;
use serde_json::{Value, json};

use crate::agh_house::until;
use crate::kill::Random;
use crate::market::world;
use crate::served::Served;
use crate::support::Place;
use crate::wire::{Wire, segment};

/// Rounds of an ordinary run; `CHANCERY_KILL_ROUNDS` asks for another number.
const ROUNDS: usize = 12;
/// Clients that ask at once.
const CLIENTS: usize = 2;
/// Questions of one session.
const QUESTIONS: usize = 100;

const CONFIG: &str = "\
listen = \"127.0.0.1:0\"
data = \"data\"
dev = true
[vibe]
world = \"world.json\"
[[vibe.agent]]
name = \"keys\"
address = \"merchant\"
merchant_id = \"m_keys\"
behaviour = \"script:script.json\"
";

/// Keeps what it was asked last, and answers.
fn script() -> Value {
    json!([[
        {"decision": "memory_update", "key": "last", "value": "$inbound.msg_id", "type": "string"},
        {"decision": "emit_envelope", "to": "$inbound.from", "in_reply_to": "$inbound.msg_id",
         "idempotency_key": null, "action": {"kind": "commerce.respond_inquiry", "payload": {"answer": "yes"}}},
    ]])
}

fn place() -> Place {
    let place = Place::new();
    place.write("world.json", world().to_string());
    place.write("script.json", script().to_string());
    place.write("chancery.toml", CONFIG);
    place
}

pub fn mandate(session: &str) -> Value {
    json!({
        "protocol": "vcp", "version": "1.0", "msg_id": format!("mandate-{session}"),
        "ts": "2026-05-15T12:00:00Z", "from": "consumer:persona", "to": "buyer:intent", "session_id": session,
        "idempotency_key": format!("mandate-{session}"),
        "action": {"kind": "delegate.create_purchase_mandate", "payload": {
            "mandate_id": format!("mandate-{session}"), "consumer_id": format!("c_{session}"),
            "ap2_intent_mandate": {"goal": "keyboard", "intent_expiry": "2027-05-15T12:00:00Z",
                "requires_refundability": false},
            "authority": {"can_buy_without_confirmation": false, "max_spend_without_confirmation": 0,
                "can_negotiate": true, "can_accept_substitutes": false, "can_share_with_merchant": [],
                "must_not_share_with_merchant": []},
            "hard_constraints": {"budget": 47_113}}},
    })
}

pub fn question(session: &str, number: usize) -> Value {
    json!({
        "protocol": "vcp", "version": "1.0", "msg_id": format!("q-{session}-{number}"),
        "ts": "2026-05-15T12:00:00Z", "from": "buyer:negotiation", "to": "merchant:support",
        "session_id": session,
        "action": {"kind": "commerce.request_offer", "payload": {
            "merchant_id": "m_keys", "sku_id": "sku_quiet", "inquiry": "is it quiet?"}},
    })
}

fn post(wire: &mut Wire, envelope: &Value) {
    wire.post("/vcp", envelope.to_string().as_bytes())
        .unwrap()
        .ok();
}

/// Asks until the node dies, in one session after the other: an agent takes a bounded number of turns in each. Tells of each
/// question that was taken.
fn ask_until_it_dies(address: SocketAddr, client: &str, over: &AtomicBool, asked: &Sender<()>) {
    let Ok(mut wire) = Wire::connect(address) else {
        return;
    };
    for number in 0.. {
        let session = format!("{client}-{}", number / QUESTIONS);
        let mut next = vec![question(&session, number)];
        if number % QUESTIONS == 0 {
            next.insert(0, mandate(&session));
        }
        for envelope in next {
            let answer = wire.post("/vcp", envelope.to_string().as_bytes());
            match answer {
                Ok(answer) => drop(answer.ok()),
                Err(error) => {
                    assert!(over.load(Ordering::SeqCst), "before the kill: {error}");
                    return;
                }
            }
        }
        // After the first nobody listens.
        let _ = asked.send(());
    }
}

fn asked_and_killed(node: Served, round: usize, moment: Duration) {
    let over = AtomicBool::new(false);
    let address = node.address;
    let (told, asked) = channel();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (over, told) = (&over, told.clone());
            scope.spawn(move || {
                ask_until_it_dies(address, &format!("s{round}-{client}"), over, &told);
            });
        }
        drop(told);
        asked.recv().expect("a question is taken");
        // From then on the moment itself is what is random here: nothing is awaited.
        std::thread::sleep(moment);
        over.store(true, Ordering::SeqCst);
        node.kill();
    });
}

/// Asks one thing more, and waits for its answer: envelopes get their turns in order, so all before it had theirs.
fn wait_for_all(node: &Served) {
    let mut wire = node.wire();
    post(&mut wire, &mandate("last"));
    post(&mut wire, &question("last", 0));
    let inbox = segment("buyer:negotiation");
    let path = format!("/inbox/vibe/{inbox}?session_id=last&wait=20");
    // On a busy machine all turns before it take longer than one request may wait.
    until("the last one is answered", || {
        let entries = wire.get(&path).unwrap().ok();
        let count = entries["entries"].as_array().unwrap().len();
        assert!(count <= 1, "{entries}");
        (count == 1).then_some(())
    });
}

/// `kill -9` in the middle of turns: no envelope is answered twice, none is forgotten (CH-NET-3, CH-JRN-15, CH-JRN-16).
#[test]
fn a_kill_in_the_middle_of_turns_repeats_and_forgets_nothing() {
    let rounds = std::env::var("CHANCERY_KILL_ROUNDS").map_or(ROUNDS, |rounds| {
        rounds.parse().expect("CHANCERY_KILL_ROUNDS is a number")
    });
    killed_in_the_middle(&place(), rounds);
}

/// The same on PostgreSQL, where whoever starts again has to wait for the lease of the one that was killed.
// CH-JRN-5
#[test]
fn a_kill_in_the_middle_of_turns_repeats_and_forgets_nothing_on_postgresql() {
    killed_in_the_middle(&place().on(PostgresServer::shared(), "turns"), 3);
}

fn killed_in_the_middle(place: &Place, rounds: usize) {
    let mut random = Random::new();
    let (mut kills, mut cut_off) = (0, 0);
    // Where turns are quicker than kills there are some more.
    while kills < rounds || cut_off == 0 && kills < rounds * 4 {
        let node = place.serve();
        let moment = Duration::from_micros(random.between(60_000, 250_000));
        asked_and_killed(node, kills, moment);
        kills += 1;
        let (asked, answered) = turns_of(place);
        cut_off += usize::from(asked.len() > answered.len());
    }
    let node = place.serve();
    wait_for_all(&node);
    node.stop_well();
    let (asked, answered) = turns_of(place);
    println!(
        "{} questions, {kills} kills, {cut_off} of them before all had their turn",
        asked.len()
    );
    assert!(cut_off > 0, "no kill fell into a turn");
    assert_eq!(asked, answered.keys().copied().collect::<Vec<_>>());
    let twice: Vec<_> = answered.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    place.run(&["log", "verify"]).exits(0);
    place.run(&["log", "replay"]).exits(0);
}

/// The lines that ask, and how often each was answered.
fn turns_of(place: &Place) -> (Vec<u64>, BTreeMap<u64, usize>) {
    let lines = place.log_lines();
    let (mut asked, mut answered) = (Vec::new(), BTreeMap::new());
    // The last line of a killed node may be torn.
    for line in lines
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        if line["envelope"]["action"]["kind"] == "commerce.request_offer" {
            asked.push(line["meta"]["seq"].as_u64().unwrap());
        }
        if let Some(seq) = line["meta"]["answers"].as_u64() {
            *answered.entry(seq).or_default() += 1;
        }
    }
    (asked, answered)
}

/// `[[vibe.agent]]`: what cannot be is told with its place, and nothing starts (CH-CFG-1).
#[test]
fn an_agent_that_cannot_be_is_refused_at_the_start() {
    let cases = [
        (
            "merchant_id = \"m_keys\"",
            "consumer_id = \"c1\"",
            "merchant_id",
        ),
        (
            "address = \"merchant\"",
            "address = \"merchant:owner\"",
            "person",
        ),
        ("address = \"merchant\"", "address = \"seller\"", "address"),
        ("script:script.json", "script:none.json", "none.json"),
        ("script:script.json", "telepathy", "echo"),
        ("name = \"keys\"", "nam = \"keys\"", "name"),
        (
            "dev = true\n[vibe]",
            "dev = true\n[vibe]\nsigned = true\nclock = \"wall\"",
            "sign",
        ),
    ];
    for (from, to, says) in cases {
        let place = place();
        assert!(CONFIG.contains(from), "{from}");
        place.write("chancery.toml", CONFIG.replace(from, to));
        let told = place.refuses_to_serve(&[]).exits(2);
        assert!(told.err.contains(says), "{to}: {}", told.err);
    }
}

/// `chancery agent suspend --protocol vibe` stops a hosted agent, and `resume` lets it go on (CH-ID-5).
#[test]
fn an_operator_stops_a_hosted_agent() {
    let place = place();
    let node = place.serve();
    let url = format!("http://{}", node.address);
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("CHANCERY_URL", &url);
        crate::support::Ran::from(command.output().unwrap()).exits(0)
    };
    let shown = run(&["agent", "list", "--json"]).text();
    assert!(shown.contains("m_keys"), "{shown}");
    run(&["agent", "suspend", "keys", "--protocol", "vibe"]);
    let mut wire = node.wire();
    post(&mut wire, &mandate("s1"));
    post(&mut wire, &question("s1", 0));
    let inbox = format!("/inbox/vibe/{}?session_id=s1", segment("buyer:negotiation"));
    let entries = wire.get(&inbox).unwrap().ok();
    assert_eq!(entries["entries"], json!([]));
    run(&["agent", "resume", "keys", "--protocol", "vibe"]);
    let entries = wire.get(&format!("{inbox}&wait=60")).unwrap().ok();
    assert_eq!(entries["entries"].as_array().unwrap().len(), 1);
    // Its record says so as soon as the turn has ended, which is a moment after its envelope is out.
    loop {
        let shown = run(&["agent", "show", "keys", "--protocol", "vibe", "--json"]).text();
        if shown.contains("\"outcome\":\"emitted\"") {
            break;
        }
    }
    let metrics = wire.get("/metrics").unwrap().text();
    assert!(metrics.contains("chancery_agent_turns_total"), "{metrics}");
    node.stop_well();
}

/// `chancery market`: the same seed gives the same log, whatever the number of threads, and the log replays.
#[test]
fn a_market_is_reproducible() {
    let place = Place::new();
    let held = |dir: &str, threads: &str, seed: &str| {
        let sizes = [
            "market",
            "--buyers",
            "6",
            "--merchants",
            "4",
            "--deals",
            "40",
        ];
        let rest = [
            "--seed",
            seed,
            "--keep",
            dir,
            "--threads",
            threads,
            "--json",
        ];
        place.run(&[&sizes[..], &rest].concat()).exits(0).json()
    };
    let report = held("one", "1", "3");
    assert_eq!(report["deals"], 40);
    assert_eq!(
        (&report["below_floor"], &report["above_budget"]),
        (&json!(0), &json!(0))
    );
    held("two", "4", "3");
    held("other", "1", "4");
    let log = |dir: &str| place.read(&format!("{dir}/audit.jsonl"));
    assert!(log("one") == log("two"));
    assert!(log("one") != log("other"));
    place.run(&["log", "verify", "one"]).exits(0);
    place.run(&["log", "replay", "one"]).exits(0);
    // A directory that is there is left alone.
    place.run(&["market", "--keep", "one"]).exits(2);
    let shown = place
        .run(&["market", "--deals", "5", "--seed", "3"])
        .exits(0);
    assert!(shown.text().contains("settled"), "{}", shown.text());
}
