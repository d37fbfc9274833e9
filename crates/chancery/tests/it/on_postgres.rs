//! A node whose journal is in PostgreSQL (CH-JRN-5): what was answered stays, whoever is killed, and the commands that
//! read a log read it there.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chancery_testkit::postgres_server::PostgresServer;
use serde_json::Value;

use crate::kill::Random;
use crate::served::{ENDS_ITSELF, HOSTED, Share, share};
use crate::support::Place;
use crate::wire::Wire;

/// How often something is killed; `CHANCERY_PG_KILLS` asks for another number.
const KILLS: usize = 8;

/// The identifiers of the envelopes in a log, in order.
pub fn recorded(lines: &[String]) -> Vec<String> {
    let id = |line: &String| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["envelope"]["message_id"].as_str().map(str::to_owned)
    };
    lines.iter().filter_map(id).collect()
}

/// What lines, checks and rules must say of a log when nobody writes to it any more.
pub fn is_whole(place: &Place) -> Vec<String> {
    let lines = place.log_lines();
    for (number, line) in (1..).zip(&lines) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["meta"]["seq"].as_u64(), Some(number), "a gap");
    }
    place.run(&["log", "verify"]).exits(0);
    let replayed = place.run(&["log", "replay", "--json"]).exits(0).json();
    assert_eq!(replayed["identical"], true);
    lines
}

#[test]
fn what_a_node_answered_is_there_after_a_restart() {
    // CH-JRN-5, CH-JRN-7, CH-JRN-8
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "restarted");
    let node = place.serve();
    assert!(node.start_line.contains("\"durable\":true"));
    let shares: Vec<Share> = (0..20).map(|n| share(HOSTED[n % HOSTED.len()])).collect();
    for share in &shares {
        assert_eq!(
            node.wire().share(&share.bytes).unwrap().ok()["status"],
            "accepted"
        );
    }
    let inbox = node.inbox(HOSTED[0]);
    assert_eq!(inbox.len(), 5);
    node.stop_well();
    let node = place.serve();
    assert_eq!(node.inbox(HOSTED[0]), inbox);
    let again = node.wire().share(&shares[0].bytes).unwrap().ok();
    assert_eq!(again["status"], "duplicate");
    node.stop_well();
    let lines = is_whole(&place);
    assert_eq!(recorded(&lines).len(), 20);
    // The log elsewhere is the same log.
    place.write("export.jsonl", lines.join("\n") + "\n");
    place.run(&["log", "replay", "export.jsonl"]).exits(0);
    let last = place.run(&["log", "tail", "-n", "2", "--json"]).exits(0);
    assert_eq!(last.text().lines().count(), 2);
    let explained = place
        .run(&["log", "explain", &shares[3].id, "--json"])
        .exits(0);
    assert!(explained.text().contains(&shares[3].id));
    assert!(!place.path("data/audit.jsonl").exists(), "there is one log");
}

/// Sends until it is over; each envelope until it is answered, however often somebody dies meanwhile.
fn insist(agent: &str, address: &std::sync::Mutex<SocketAddr>, over: &AtomicBool) -> Vec<String> {
    let mut told = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let share = share(agent);
        loop {
            let at = *address.lock().unwrap();
            let answer = Wire::connect(at).and_then(|mut wire| wire.share(&share.bytes));
            if let Ok(answer) = answer
                && answer.status == 200
            {
                told.push(share.id);
                break;
            }
        }
    }
    told
}

#[test]
fn kills_of_the_node_and_of_postgresql_lose_nothing_and_repeat_nothing() {
    // CH-NET-3, CH-JRN-5, VX-DUP-1
    let kills = std::env::var("CHANCERY_PG_KILLS").map_or(KILLS, |kills| {
        kills.parse().expect("CHANCERY_PG_KILLS is a number")
    });
    let mut server = PostgresServer::of_its_own();
    let place = Place::for_dev_node()
        .on(&server, "killed")
        .with("CHANCERY_INBOX_DEPTH", "100000000");
    let mut node = place.serve();
    let (address, over) = (std::sync::Mutex::new(node.address), AtomicBool::new(false));
    let mut random = Random::new();
    let mut of_postgres = 0;
    let (acknowledged, node): (Vec<String>, _) = std::thread::scope(|scope| {
        let sender = |agent| {
            let (address, over) = (&address, &over);
            scope.spawn(move || insist(agent, address, over))
        };
        let senders: Vec<_> = HOSTED.into_iter().map(sender).collect();
        for kill in 0..kills {
            // The moment itself is what is random here: nothing is awaited.
            std::thread::sleep(Duration::from_micros(random.between(100_000, 500_000)));
            assert!(node.still_runs(), "{}", node.stderr());
            if kill % 2 == 0 {
                node.kill();
                node = place.serve();
                *address.lock().unwrap() = node.address;
            } else {
                server.kill();
                server.restart();
                of_postgres += 1;
            }
        }
        over.store(true, Ordering::SeqCst);
        let join = |sender: std::thread::ScopedJoinHandle<'_, _>| sender.join().unwrap();
        (senders.into_iter().flat_map(join).collect(), node)
    });
    assert!(!node.stderr().contains(ENDS_ITSELF), "{}", node.stderr());
    node.stop_well();
    let on_record = recorded(&is_whole(&place));
    let once: BTreeSet<&String> = on_record.iter().collect();
    println!(
        "{kills} kills, {of_postgres} of PostgreSQL; {} acknowledged, {} on record",
        acknowledged.len(),
        on_record.len()
    );
    assert_eq!(once.len(), on_record.len(), "nothing twice");
    assert!(acknowledged.iter().all(|id| once.contains(id)), "lost");
}

#[test]
fn a_database_that_cannot_be_used_is_told_and_its_password_is_not() {
    // CH-CLI-3, CH-ID-3
    let place = Place::for_dev_node().with("CHANCERY_STORE", "postgres://u:s3cret@127.0.0.1:1/d");
    let told = place.run(&["log", "verify"]).exits(2);
    assert!(
        told.err.contains("127.0.0.1:1 cannot be reached"),
        "{}",
        told.err
    );
    let shown = place.run(&["config", "show"]).exits(0);
    assert!(shown.text().contains("postgres://u@127.0.0.1:1/d"));
    for text in [told.err, shown.text()] {
        assert!(!text.contains("s3cret"), "{text}");
    }

    let server = PostgresServer::with_password("right");
    let wrong = server.url().replace("chancery@", "chancery:wr0ng@");
    let place = Place::for_dev_node().with("CHANCERY_STORE", &wrong);
    let told = place.refuses_to_serve(&[]).exits(2);
    assert!(
        told.err.contains("does not let chancery in"),
        "{}",
        told.err
    );
    assert!(!told.err.contains("wr0ng"), "{}", told.err);

    let place = Place::for_dev_node()
        .on(&server, "locked")
        .with("CHANCERY_STORE_PASSWORD_FILE", "pg.password");
    let file = place.write("pg.password", "right\n");
    let told = place.refuses_to_serve(&[]).exits(2);
    assert!(told.err.contains("others may read it"), "{}", told.err);
    std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    place.run(&["log", "verify"]).exits(2);
    place.serve().stop_well();
    place.run(&["log", "verify"]).exits(0);
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    // CH-JRN-5: migrations never run backwards.
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "newer");
    place.serve().stop_well();
    server.execute("UPDATE chancery.schema SET version = 1000");
    let told = place.refuses_to_serve(&[]).exits(2);
    assert!(told.err.contains("newer version (1000"), "{}", told.err);
}

#[test]
fn a_node_with_other_rule_settings_does_not_start_until_they_are_applied() {
    // CH-JRN-5
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "settings");
    let first = place.serve();
    let place = place.with("CHANCERY_VALUE_CONTEXT_DEDUPE_WINDOW_S", "400");
    let told = place.refuses_to_serve(&["--data", "other"]).exits(2);
    assert!(
        told.err.contains("value_context.dedupe_window_s"),
        "{}",
        told.err
    );
    assert!(
        !told.err.contains("value_context.max_bytes"),
        "{}",
        told.err
    );
    let changed = place.run(&["config", "apply", "--json"]).exits(0).json();
    assert_eq!(changed["changed"][0], "value_context.dedupe_window_s");
    place.serve_with(&["--data", "other"]).stop_well();
    first.stop_well();
    is_whole(&place);
}
