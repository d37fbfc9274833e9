//! `chancery store`: a journal moved there and back, backed up under load, restored and checked.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use chancery_testkit::postgres_server::PostgresServer;
use serde_json::Value;

use crate::on_postgres::{is_whole, recorded};
use crate::served::{HOSTED, Served, share};
use crate::support::Place;
use crate::wire::Wire;

/// Shares on record, some of them acknowledged by their recipient.
fn fill(place: &Place, count: usize) {
    let node = place.serve();
    let mut wire = node.wire();
    for n in 0..count {
        wire.share(&share(HOSTED[n % HOSTED.len()]).bytes)
            .unwrap()
            .ok();
    }
    let seq = node.inbox(HOSTED[0])[1]["seq"].clone();
    let path = format!(
        "/inbox/value-context/{}/ack",
        crate::wire::segment(HOSTED[0])
    );
    let through = serde_json::json!({ "through": seq }).to_string();
    wire.post(&path, through.as_bytes()).unwrap().ok();
    node.stop_well();
}

/// What a node shows of the first agent: its state, what it has not acknowledged.
fn shown(node: &Served) -> (Value, Value) {
    let path = format!("/inbox/value-context/{}", crate::wire::segment(HOSTED[0]));
    let unread = node.wire().get(&path).unwrap().ok();
    (node.state(HOSTED[0]), unread)
}

#[test]
fn a_journal_is_the_same_there_and_back() {
    // CH-JRN-5, CH-JRN-8
    let server = PostgresServer::start();
    let place = Place::for_dev_node().with("CHANCERY_SEGMENT_BYTES", "16384");
    fill(&place, 200);
    let lines = place.run(&["log", "export"]).exits(0).text();
    let node = place.serve();
    let before = shown(&node);
    // A node has it open: nothing is moved under its feet.
    let there = ["store", "migrate", "--from", "data", "--to", server.url()];
    let told = place.run(&there).exits(2);
    assert!(told.err.contains("in use"), "{}", told.err);
    node.stop_well();
    let told = place
        .run(&[&there[..], &["--json"]].concat())
        .exits(0)
        .json();
    assert_eq!(told["lines"].as_u64(), Some(lines.lines().count() as u64));
    // Once more changes nothing.
    assert_eq!(
        place
            .run(&[&there[..], &["--json"]].concat())
            .exits(0)
            .json(),
        told
    );
    let back = ["store", "migrate", "--from", server.url(), "--to", "back"];
    place.run(&back).exits(0);
    assert_eq!(place.run(&["log", "export", "back"]).exits(0).text(), lines);

    let moved = Place::for_dev_node().on(&server, "main");
    let node = moved.serve();
    assert_eq!(shown(&node), before, "cursors moved with the log");
    node.stop_well();
    let node = place.serve_with(&["--data", "back"]);
    assert_eq!(shown(&node), before);
    node.stop_well();
    for place in [&place, &moved] {
        let checked = place.run(&["store", "check", "--json"]).exits(0).json();
        assert_eq!(checked["passed"], true, "{checked}");
        assert!(checked["rows"].as_u64() > Some(4), "{checked}");
    }
    is_whole(&moved);
}

#[test]
fn a_migration_that_was_cut_off_goes_on_and_another_log_is_refused() {
    let server = PostgresServer::start();
    let place = Place::for_dev_node();
    fill(&place, 600);
    let lines = place.run(&["log", "export"]).exits(0).text();
    let there = [
        "store",
        "migrate",
        "--from",
        "data",
        "--to",
        server.url(),
        "--json",
    ];
    let mut kills = 0;
    // Killed again and again, wherever it is, until it is done before the kill.
    loop {
        let mut child = place.command(&there).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(60 * (kills + 1)));
        if child
            .try_wait()
            .unwrap()
            .is_some_and(|status| status.success())
        {
            break;
        }
        let _ = child.kill();
        child.wait().unwrap();
        kills += 1;
    }
    println!("a migration was killed {kills} times");
    assert!(kills > 0);
    let moved = Place::for_dev_node().on(&server, "main");
    assert_eq!(moved.run(&["log", "export"]).exits(0).text(), lines);
    let other = Place::for_dev_node();
    fill(&other, 5);
    let told = other.run(&there).exits(2);
    assert!(
        told.err.contains("the store that it goes to"),
        "{}",
        told.err
    );
}

#[test]
fn a_row_that_the_rules_do_not_give_is_found() {
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "checked");
    fill(&place, 8);
    place.run(&["store", "check"]).exits(0);
    server
        .execute("DELETE FROM chancery.state WHERE ctid = (SELECT min(ctid) FROM chancery.state)");
    let checked = place.run(&["store", "check", "--json"]).exits(1).json();
    assert_eq!(checked["other_rows"].as_array().map(Vec::len), Some(1));
}

/// Backs a node up while it is under load; the backup, restored elsewhere, is whole and holds what was acknowledged.
fn backed_up_under_load(place: &Place, elsewhere: &Place) {
    let node = place.serve();
    let (address, over) = (node.address, AtomicBool::new(false));
    let acknowledged: std::sync::Mutex<Vec<String>> = std::sync::Mutex::default();
    std::thread::scope(|scope| {
        for agent in HOSTED {
            let (over, acknowledged) = (&over, &acknowledged);
            scope.spawn(move || {
                let mut wire = Wire::connect(address).unwrap();
                while !over.load(Ordering::SeqCst) {
                    let share = share(agent);
                    wire.share(&share.bytes).unwrap().ok();
                    acknowledged.lock().unwrap().push(share.id);
                }
            });
        }
        while acknowledged.lock().unwrap().len() < 400 {
            std::thread::yield_now();
        }
        let before = acknowledged.lock().unwrap().clone();
        let into = elsewhere.path("backup");
        let told = place
            .run(&["store", "backup", into.to_str().unwrap(), "--json"])
            .exits(0);
        over.store(true, Ordering::SeqCst);
        elsewhere
            .run(&["store", "restore", "backup", "--json"])
            .exits(0);
        let lines = is_whole(elsewhere);
        assert_eq!(told.json()["lines"].as_u64(), Some(lines.len() as u64));
        let held: BTreeSet<String> = recorded(&lines).into_iter().collect();
        println!(
            "{} acknowledged before, {} in the backup",
            before.len(),
            held.len()
        );
        assert!(
            before.iter().all(|id| held.contains(id)),
            "acknowledged before and not in it"
        );
    });
    node.stop_well();
    elsewhere.serve().stop_well();
}

#[test]
fn a_backup_under_load_holds_what_was_acknowledged_before() {
    // CH-JRN-2: small segments, so that files are renamed while they are read.
    let place = Place::for_dev_node().with("CHANCERY_SEGMENT_BYTES", "65536");
    backed_up_under_load(&place, &Place::for_dev_node());
}

#[test]
fn a_backup_of_postgresql_under_load_holds_what_was_acknowledged_before() {
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "loaded");
    backed_up_under_load(&place, &Place::for_dev_node().on(&server, "restored"));
}

#[test]
fn a_backup_whose_chain_does_not_hold_is_refused() {
    let place = Place::for_dev_node();
    fill(&place, 8);
    place.run(&["store", "backup", "backup"]).exits(0);
    let told = place.run(&["store", "backup", "backup"]).exits(2);
    assert!(told.err.contains("there already"), "{}", told.err);
    let log = place.read("backup/audit.jsonl");
    let changed = log.replacen("\"⏰🌅", "\"⏰🌇", 1);
    let cut: String = log
        .lines()
        .take(5)
        .map(|line| format!("{line}\n"))
        .collect();
    for (name, text) in [("changed", changed), ("cut", cut)] {
        assert_ne!(text, log);
        place.write("backup/audit.jsonl", text);
        let target = Place::for_dev_node();
        let from = place.path("backup");
        let told = target
            .run(&["store", "restore", from.to_str().unwrap()])
            .exits(3);
        assert!(
            told.err.contains("not the log that was backed up"),
            "{name}: {}",
            told.err
        );
        assert!(
            !target.path("data/audit.jsonl").exists(),
            "nothing is written"
        );
    }
}
