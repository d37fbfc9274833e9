//! `chancery log replay --with-policy`: which decisions would have been others, by which rule, and what rests on them.

use std::process::Stdio;
use std::time::{Duration, Instant};

use chancery_bench::write_deals;
use serde_json::{Value, json};

use crate::market::{MarketNode, envelope};
use crate::support::Place;
use crate::wire::{Wire, segment};

/// A decision that would differ: its message, how, the rules that make it differ; none of them for a consequence.
pub type Differs = (String, String, Vec<String>);

pub fn differs(id: &str, would: &str, rules: &[&str]) -> Differs {
    let rules = rules.iter().map(|rule| (*rule).to_owned()).collect();
    (id.to_owned(), would.to_owned(), rules)
}

/// Judges the log of a node under another policy: the exit and what differs.
pub fn judged(node: &MarketNode, policy: &str, more: &[&str]) -> (i32, Vec<Differs>) {
    node.place.write("policy.toml", policy);
    let mut arguments = vec!["log", "replay", "chancery-data"];
    arguments.extend(["--with-policy", "policy.toml", "--json"]);
    arguments.extend(more);
    let ran = node.place.run(&arguments);
    let told = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| line[name].as_str().unwrap();
        // A line of administration has no name but its kind.
        let name = line["msg_id"].as_str().unwrap_or(text("kind"));
        let rules = line["rules"].as_array().unwrap().iter();
        let rules: Vec<&str> = rules.map(|rule| rule.as_str().unwrap()).collect();
        assert_eq!(line["consequence"], rules.is_empty(), "{line}");
        assert_eq!(line["recorded"], "accepted");
        differs(name, text("would"), &rules)
    };
    (ran.code, ran.text().lines().map(told).collect())
}

/// A row of the permission table.
pub fn row(action: &str, from: &str, to: &str, allow: bool) -> String {
    format!(
        "[[partition]]\naction = \"{action}\"\nfrom = \"{from}\"\nto = \"{to}\"\nallow = {allow}\n"
    )
}

/// A row of the permission table that denies an action to everybody.
pub fn denied(action: &str) -> String {
    row(action, "*", "*", false)
}

/// Without a cascade and with one.
pub const WAYS: [&[&str]; 2] = [&[], &["--cascade"]];

#[test]
fn another_policy_is_judged_against_the_record() {
    // VC-RPL-2, VC-PART-5, VC-GATE-3, VC-OBJ-MatchCertificate-3, VC-ACT-platform.rank_offers-1
    let node = MarketNode::start();
    let cert = node.certified("s1", 20_000);
    node.settle("s1", &cert);
    let judge = |policy: &str, more: &[&str]| judged(&node, policy, more);
    // Nothing that was decided hangs on these.
    for same in [
        "max_spend_without_confirmation = 11901",
        "min_reputation = 550",
        "ranking_version = \"rank-1\"",
        &denied("commerce.dispatch"),
    ] {
        for way in WAYS {
            assert_eq!(judge(same, way), (0, vec![]), "{same}");
        }
    }
    // The certificate's total is 11,900: at that ceiling a person has to say yes (VC-GATE-3), each time it is tested.
    let ceiling = "max_spend_without_confirmation = 11900";
    let alone = "accepted without platform.authorize_payment";
    let asked = vec![
        differs("s1-accept", alone, &[ceiling]),
        differs("s1-settle", "refused: approval_required", &[ceiling]),
    ];
    for way in WAYS {
        assert_eq!(judge(ceiling, way), (1, asked.clone()));
    }
    // The merchant has 550: without a certificate there is nothing to settle.
    let score = "min_reputation = 551";
    let uncertified = "accepted without platform.create_match_certificate, without platform.authorize_payment (verification_failed)";
    let mut fallen = vec![differs("s1-accept", uncertified, &[score])];
    assert_eq!(judge(score, &[]), (1, fallen.clone()));
    fallen.push(differs("s1-settle", "refused: cert_not_found", &[]));
    assert_eq!(judge(score, &["--cascade"]), (1, fallen));
    // A ranking says under which policy it was made; nothing rests on it.
    let ranking = "ranking_version = \"rank-2\"";
    let another = "accepted with another platform.rank_offers";
    for way in WAYS {
        let ranked = differs("s1-search", another, &["ranking_version = rank-2"]);
        assert_eq!(judge(ranking, way), (1, vec![ranked]));
    }
    // Of two changes each is named where it alone makes the difference.
    let both = judge(&format!("{ceiling}\n{score}"), &[]).1;
    assert_eq!(both[0].2, [ceiling, score]);
    assert_eq!(both[1].2, [ceiling]);
}

#[test]
fn a_denied_action_falls_alone_or_with_what_rests_on_it() {
    // VC-RPL-2, VC-PART-5, CH-CLI-1
    let node = MarketNode::start();
    let cert = node.certified("s1", 20_000);
    node.settle("s1", &cert);
    let policy = "[[partition]]\naction = \"commerce.propose_offer\"\nfrom = \"merchant:pricing\"\nto = \"*\"\nallow = false";
    let rule = "partition: deny commerce.propose_offer from merchant:pricing to *";
    let mut fallen = vec![differs("s1-offer", "refused: partition_denied", &[rule])];
    assert_eq!(judged(&node, policy, &[]), (1, fallen.clone()));
    // With a cascade what rests on the offer falls with it.
    fallen.push(differs("s1-accept", "refused: in_reply_to_not_found", &[]));
    fallen.push(differs("s1-settle", "refused: cert_not_found", &[]));
    assert_eq!(judged(&node, policy, &["--cascade"]), (1, fallen));
}

#[test]
fn people_are_told_the_same() {
    // CH-CLI-1, CH-CLI-3
    let node = MarketNode::start();
    let cert = node.certified("s1", 20_000);
    node.settle("s1", &cert);
    let rule = "partition: deny commerce.propose_offer from * to *";
    let judge = |policy: &str, more: &[&str]| {
        node.place.write("policy.toml", policy);
        let replay = ["log", "replay", "chancery-data", "--with-policy"];
        let replay = [&replay[..], &["policy.toml"], more].concat();
        node.place.run(&replay)
    };
    let told = judge(&denied("commerce.propose_offer"), &["--cascade"]);
    let told = told.exits(1).text();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 7, "{told}");
    for (at, end) in [
        (0, "propose_offer s1-offer: refused: partition_denied"),
        (2, "accept_offer s1-accept: refused: in_reply_to_not_found"),
        (4, "settle_payment s1-settle: refused: cert_not_found"),
    ] {
        let is_it = lines[at].starts_with("line ") && lines[at].ends_with(end);
        assert!(is_it, "{told}");
    }
    assert_eq!(lines[1].trim(), format!("by {rule}"));
    for at in [3, 5] {
        assert_eq!(lines[at].trim(), "a consequence of what differs before");
    }
    assert_eq!(lines[6], "3 decisions would differ");
    let same = judge(&denied("commerce.dispatch"), &[]).exits(0).text();
    assert_eq!(same, "no decision would differ\n");
    judge("colour = 1", &[]).exits(2);
}

/// Sends off what was settled, in the name of that address.
pub fn dispatched(node: &MarketNode, from: &str, settled: &Value) {
    let order = &settled["emitted"][0]["action"]["payload"]["order_id"];
    let (to, kind) = ("buyer:authorization", "commerce.dispatch");
    node.say(&envelope(
        "s1",
        "ship",
        from,
        to,
        kind,
        json!({"order_id": order}),
    ));
}

#[test]
fn an_operators_line_that_the_other_world_refuses_is_told() {
    // VC-RPL-2, CH-JRN-1: a change of the world is decided on what the policy left.
    let node = MarketNode::start();
    let cert = node.certified("s1", 20_000);
    let settled = node.settle("s1", &cert);
    dispatched(&node, "merchant:fulfillment", &settled);
    // What was sent off is not reserved any more, so there may be none left.
    let empty =
        json!({"inventory": [{"merchant_id": "m_keys", "sku_id": "sku_quiet", "on_hand": 0}]});
    node.place.write("empty.json", empty.to_string());
    let applied = node.run(&["world", "apply", "empty.json", "--json"]);
    let line = applied.exits(0).json()["last"].clone();
    node.opened("s2", 0);
    assert!(!node.agreed("s2")["follow_up_error"].is_null());
    let policy = denied("commerce.dispatch");
    let rule = "partition: deny commerce.dispatch from * to *";
    let mut fallen = vec![differs("s1-ship", "refused: partition_denied", &[rule])];
    assert_eq!(judged(&node, &policy, &[]), (1, fallen.clone()));
    fallen.push(differs("world", "refused: world_change_refused", &[]));
    let certified = "accepted with platform.create_match_certificate";
    fallen.push(differs("s2-accept", certified, &[]));
    assert_eq!(judged(&node, &policy, &["--cascade"]), (1, fallen));
    let replay = [
        "log",
        "replay",
        "chancery-data",
        "--cascade",
        "--with-policy",
        "policy.toml",
    ];
    let told = node.place.run(&replay).exits(1).text();
    let line = format!(
        "line {line} world: refused: world_change_refused\n  a consequence of what differs before\n"
    );
    assert!(told.contains(&line), "{told}");
    assert!(told.ends_with("3 decisions would differ\n"), "{told}");
}

/// A merchant's agent that lives in the node: asked for an offer, it makes one.
fn seller() -> MarketNode {
    let offer = json!({
        "offer_id": "off_1", "merchant_id": "m_keys", "sku_id": "sku_quiet", "qty": 1, "unit_price": 11_900,
        "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [], "expires_at": "2026-05-20T00:00:00Z",
    });
    let script = json!([[{"decision": "emit_envelope", "to": "buyer:negotiation", "in_reply_to": null,
        "idempotency_key": "k-off_1", "action": {"kind": "commerce.propose_offer", "payload": offer}}]]);
    let agent = "[[vibe.agent]]\nname = \"keys\"\naddress = \"merchant\"\nmerchant_id = \"m_keys\"\nbehaviour = \"script:script.json\"\n";
    MarketNode::start_with(agent, &[("script.json", &script.to_string())])
}

/// Asks the seller, waits for its offer and accepts it; gives the name of its envelope.
fn asked_and_agreed(node: &MarketNode) -> String {
    let way = ["buyer:negotiation", "merchant:support"];
    let question = json!({"merchant_id": "m_keys", "sku_id": "sku_quiet"});
    let mut search = envelope(
        "s1",
        "search",
        "buyer:discovery",
        "platform:aggregator",
        "commerce.search",
        json!({"query": "quiet keyboard"}),
    );
    search["idempotency_key"] = Value::Null;
    node.say(&search);
    node.say(&envelope(
        "s1",
        "ask",
        way[0],
        way[1],
        "commerce.request_offer",
        question,
    ));
    let mut wire = Wire::connect(node.address()).unwrap();
    let inbox = segment("buyer:negotiation");
    let entries = wire
        .get(&format!("/inbox/vibe/{inbox}?session_id=s1&wait=60"))
        .unwrap()
        .ok();
    let entry = &entries["entries"][0];
    assert_eq!(entry["meta"]["origin"], "agent");
    let offered = entry["envelope"]["msg_id"].as_str().unwrap().to_owned();
    let mut accept = envelope(
        "s1",
        "accept",
        "buyer:negotiation",
        "merchant:pricing",
        "commerce.accept_offer",
        json!({"offer_id": "off_1"}),
    );
    accept["in_reply_to"] = json!(offered);
    node.say(&accept);
    offered
}

#[test]
fn what_an_agent_in_the_node_said_is_judged_like_what_came_from_outside() {
    // CH-JRN-1, VC-RPL-2
    let node = seller();
    let offered = asked_and_agreed(&node);
    // What changes nothing changes nothing, also in the world that is folded beside the record.
    for way in WAYS {
        assert_eq!(
            judged(&node, &denied("commerce.dispatch"), way),
            (0, vec![])
        );
    }
    let rule = "partition: deny commerce.propose_offer from * to *";
    let mut fallen = vec![differs(&offered, "refused: partition_denied", &[rule])];
    let policy = denied("commerce.propose_offer");
    assert_eq!(judged(&node, &policy, &[]), (1, fallen.clone()));
    let rests = differs("s1-accept", "refused: in_reply_to_not_found", &[]);
    fallen.push(rests.clone());
    assert_eq!(judged(&node, &policy, &["--cascade"]), (1, fallen));
    // And the other way: without the session there is nothing that the agent could have said.
    let rule = "partition: deny commerce.search from * to *";
    let mut fallen = vec![differs("s1-search", "refused: partition_denied", &[rule])];
    let policy = denied("commerce.search");
    assert_eq!(judged(&node, &policy, &[]), (1, fallen.clone()));
    for msg_id in ["s1-ask", &offered, "s1-accept"] {
        fallen.push(differs(msg_id, "refused: session_not_found", &[]));
    }
    assert_eq!(judged(&node, &policy, &["--cascade"]), (1, fallen));
}

/// Lines of an ordinary run; `CHANCERY_WHAT_IF_LINES` asks for another number.
const LINES: u64 = 2_000;

/// From so many lines on each judgement has a time to be made in, where the program is built for use.
const MANY_LINES: u64 = 1_000_000;
const MANY_WITHIN: Duration = Duration::from_secs(60);

fn lines_wanted() -> u64 {
    std::env::var("CHANCERY_WHAT_IF_LINES").map_or(LINES, |lines| {
        lines.parse().expect("CHANCERY_WHAT_IF_LINES is a number")
    })
}

pub const REPLAY: [&str; 6] = [
    "log",
    "replay",
    "audit.jsonl",
    "--world",
    "world.json",
    "--json",
];

#[test]
fn many_deals_are_judged_alone_and_with_what_rests_on_them() {
    // VC-RPL-2, VC-OBJ-MatchCertificate-3, VC-REP-2
    let place = Place::new();
    let log = write_deals(&place.path("."), lines_wanted()).unwrap();
    // The merchant has no score in the seed, so it has 500. Without a certificate there is nothing to approve or to settle.
    for (policy, falling) in [
        ("min_reputation = 500", [0, 0]),
        ("min_reputation = 501", [1, 3]),
    ] {
        place.write("policy.toml", policy);
        for (way, falling) in WAYS.into_iter().zip(falling) {
            let judge = [&REPLAY[..], &["--with-policy", "policy.toml"], way].concat();
            let started = Instant::now();
            let ran = place.run(&judge).exits(i32::from(falling > 0));
            let took = started.elapsed();
            let told = ran.out.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(told, falling * log.deals, "{policy} {way:?}");
            println!(
                "{} lines under {policy} {way:?}: {:.1} s",
                log.lines,
                took.as_secs_f64()
            );
            if log.lines >= MANY_LINES && !cfg!(debug_assertions) {
                assert!(took < MANY_WITHIN, "{policy} {way:?}: {took:?}");
            }
        }
    }
}

/// The most memory that a process has held so far; nothing of one that has ended.
fn peak_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    peak.map_or(0, |peak| peak.parse().unwrap())
}

/// What a replay may hold, however long its log is: the rows of 256 MiB of lines are about 200 MB.
const REPLAY_AT_MOST_MB: u64 = 400;

#[test]
fn a_log_of_many_deals_replays() {
    // CH-JRN-7, VC-RPL-1
    for lines in [lines_wanted() / 10, lines_wanted()] {
        let place = Place::new();
        let log = write_deals(&place.path("."), lines).unwrap();
        let started = Instant::now();
        let replay = place.command(&REPLAY).stdout(Stdio::piped()).spawn();
        let mut replay = replay.unwrap();
        let mut peak = 0;
        // No event tells the peak, and with the process it is gone.
        while replay.try_wait().unwrap().is_none() {
            peak = peak.max(peak_kib(replay.id()));
            std::thread::sleep(Duration::from_millis(5));
        }
        let took = started.elapsed().as_secs_f64();
        let ran = replay.wait_with_output().unwrap();
        assert!(ran.status.success());
        let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(
            (&told["identical"], &told["lines"]),
            (&json!(true), &json!(log.lines))
        );
        let peak_mb = peak / 1_024;
        println!(
            "{} lines replayed in {took:.1} s, at most {peak_mb} MB",
            log.lines
        );
        assert!(peak_mb <= REPLAY_AT_MOST_MB, "{peak_mb} MB");
    }
}
