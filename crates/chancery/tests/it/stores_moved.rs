//! `chancery store`: a journal moved there and back, backed up under load, restored and checked.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chancery_core::digest::hex;
use chancery_core::rows::RowKey;
use chancery_testkit::postgres_server::PostgresServer;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::agh_house::until;
use crate::connections::SetAtEnd;
use crate::on_postgres::{is_whole, recorded};
use crate::served::{HOSTED, Served, share};
use crate::support::Place;
use crate::watched::{lines_at, shown_when_it_lasts, watched};
use crate::wire::Wire;

/// How often something is made that a busy machine may have done before it was seen.
const ATTEMPTS: usize = 8;

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

/// As many lines as are moved in several parts.
fn fill_well(place: &Place) {
    let node = place.serve();
    under_load(&node, |acknowledged| {
        until("there are enough", || {
            (acknowledged.lock().unwrap().len() > 3_000).then_some(())
        });
    });
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

/// How many lines have arrived in PostgreSQL. Before the first there are no tables.
fn lines_in(server: &PostgresServer) -> usize {
    let counted = server.attempt("SELECT count(*) FROM chancery.line");
    counted.map_or(0, |count| count.parse().unwrap())
}

/// Brings a journal somewhere, killed as soon as a part of it is there, until it is done. Gives how many lines were there
/// after each kill.
fn killed_half_way(place: &Place, migrate: &[&str], arrived: impl Fn() -> usize) -> Vec<usize> {
    let mut after_kills = Vec::new();
    loop {
        let before = after_kills.last().copied().unwrap_or_default();
        let mut child = place
            .command(migrate)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let ended = until("more of it has arrived, or it is done", || {
            match child.try_wait().unwrap() {
                Some(status) => Some(Some(status)),
                None => (arrived() > before).then_some(None),
            }
        });
        if let Some(status) = ended {
            assert!(status.success());
            return after_kills;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        after_kills.push(arrived());
    }
}

/// Makes a move that is killed, to one place after the other, until it was cut off half-way: on a busy machine it may be
/// over before its first part is seen.
fn cut_off_half_way(what: &str, total: usize, mut moved: impl FnMut(usize) -> Vec<usize>) {
    for attempt in 0..ATTEMPTS {
        let after_kills = moved(attempt);
        println!("{what}: of {total} lines there were {after_kills:?} after kills");
        if after_kills.iter().any(|lines| (1..total).contains(lines)) {
            return;
        }
    }
    panic!("{what}: it was never cut off half-way");
}

#[test]
fn a_migration_that_was_cut_off_goes_on_and_another_log_is_refused() {
    // CH-JRN-5, CH-JRN-8
    let mut server = PostgresServer::start();
    let place = Place::for_dev_node();
    fill_well(&place);
    let lines = place.run(&["log", "export"]).exits(0).text();
    let total = lines.lines().count();
    cut_off_half_way("to PostgreSQL", total, |attempt| {
        if attempt > 0 {
            server = PostgresServer::start();
        }
        let there = ["store", "migrate", "--from", "data", "--to", server.url()];
        let after_kills = killed_half_way(&place, &there, || lines_in(&server));
        let moved = Place::for_dev_node().on(&server, "main");
        assert_eq!(moved.run(&["log", "export"]).exits(0).text(), lines);
        after_kills
    });
    cut_off_half_way("to files", total, |attempt| {
        let to = format!("back-{attempt}");
        let back = ["store", "migrate", "--from", server.url(), "--to", &to];
        let log = place.path(&format!("{to}/audit.jsonl"));
        let after_kills = killed_half_way(&place, &back, || lines_at(&log));
        assert_eq!(place.run(&["log", "export", &to]).exits(0).text(), lines);
        after_kills
    });

    let other = Place::for_dev_node();
    fill(&other, 5);
    let there = ["store", "migrate", "--from", "data", "--to", server.url()];
    let told = other.run(&there).exits(2);
    assert!(
        told.err.contains("the store that it goes to"),
        "{}",
        told.err
    );
}

#[test]
fn a_journal_that_a_node_has_is_not_moved() {
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "main");
    let node = place.serve();
    let from = ["store", "migrate", "--from", server.url(), "--to", "taken"];
    until("the node has the duties", || {
        let held = server.answer("SELECT count(*) FROM chancery.duty");
        (held == "1").then_some(())
    });
    let told = place.run(&from).exits(2);
    assert!(
        told.err.contains("a node runs on the journal main"),
        "{}",
        told.err
    );
    assert!(!place.path("taken").exists(), "nothing is written");
    let to = ["store", "migrate", "--from", "data", "--to", server.url()];
    let files = Place::for_dev_node();
    fill(&files, 8);
    let told = files.run(&to).exits(2);
    assert!(told.err.contains("a node runs on"), "{}", told.err);
    node.stop_well();
    place.run(&from).exits(0);
}

#[test]
fn whoever_waits_for_a_journal_to_be_moved_sees_how_far_it_is() {
    // CH-CLI-1: "progress bar on anything longer than a second"
    let place = Place::for_dev_node();
    fill_well(&place);
    let mut server = PostgresServer::start();
    shown_when_it_lasts("lines moved", |attempt| {
        if attempt > 0 {
            server = PostgresServer::start();
        }
        let there = ["store", "migrate", "--from", "data", "--to", server.url()];
        watched(&place, &there, || lines_in(&server))
    });
    shown_when_it_lasts("lines moved", |attempt| {
        let to = format!("back-{attempt}");
        let back = ["store", "migrate", "--from", server.url(), "--to", &to];
        let log = place.path(&format!("{to}/audit.jsonl"));
        watched(&place, &back, || lines_at(&log))
    });
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

/// Senders that leave a node no pause.
const FULL_LOAD: usize = 16;

/// Does something while a node is under load, with the identifiers that were acknowledged so far.
fn under_load<T>(node: &Served, work: impl FnOnce(&Mutex<Vec<String>>) -> T) -> T {
    under_load_of(HOSTED.len(), node, work)
}

/// The same with so many senders.
fn under_load_of<T>(
    senders: usize,
    node: &Served,
    work: impl FnOnce(&Mutex<Vec<String>>) -> T,
) -> T {
    let (address, over) = (node.address, AtomicBool::new(false));
    let acknowledged: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for agent in HOSTED.into_iter().cycle().take(senders) {
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
        // Also when the work fails.
        let _over = SetAtEnd(&over);
        while acknowledged.lock().unwrap().len() < 400 {
            std::thread::yield_now();
        }
        work(&acknowledged)
    })
}

/// Backs a node up while it is under load; the backup, restored elsewhere, is whole and holds what was acknowledged.
fn backed_up_under_load(place: &Place, elsewhere: &Place) {
    let node = place.serve();
    let (before, told) = under_load_of(FULL_LOAD, &node, |acknowledged| {
        let before = acknowledged.lock().unwrap().clone();
        let into = elsewhere.path("backup");
        let backup = ["store", "backup", into.to_str().unwrap(), "--json"];
        (before, place.run(&backup).exits(0))
    });
    elsewhere
        .run(&["store", "restore", "backup", "--json"])
        .exits(0);
    let lines = is_whole(elsewhere);
    assert_eq!(told.json()["lines"].as_u64(), Some(lines.len() as u64));
    let checked = elsewhere.run(&["store", "check", "--json"]).exits(0).json();
    assert_eq!(checked["passed"], true, "{checked}");
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
    node.stop_well();
    elsewhere.serve().stop_well();
}

/// Checks a store while its node is under load: nothing is found, until somebody puts a row there.
fn checked_under_load(place: &Place, plant: impl FnOnce(&RowKey)) {
    let node = place.serve();
    let check = ["store", "check", "--json"];
    under_load(&node, |acknowledged| {
        let count = || acknowledged.lock().unwrap().len() as u64;
        let (mut compared, mut rounds) = (0, 0);
        // An index is written a while after the first lines.
        while rounds < 3 || compared == 0 {
            rounds += 1;
            let before = count();
            let checked = place.run(&check).exits(0).json();
            assert_eq!(checked["passed"], true, "{checked}");
            let lines = checked["log"]["lines"].as_u64().unwrap();
            assert!(lines > before, "all that was acknowledged is checked");
            // The index may be behind the log; what it has is compared.
            compared = checked["lines"].as_u64().unwrap();
            let rows = checked["rows"].as_u64().unwrap();
            println!(
                "{lines} lines checked, {rows} rows of line {compared} compared, {} more came meanwhile",
                count() - before
            );
            assert!(count() > before, "the node goes on meanwhile");
        }
        let planted = RowKey::text("planted", &["nobody"]);
        plant(&planted);
        let checked = place.run(&check).exits(1).json();
        assert_eq!(checked["other_rows"], json!([format!("{planted:?}")]));
    });
    node.stop_well();
}

#[test]
fn a_check_of_files_under_load_finds_what_is_wrong_and_nothing_else() {
    // CH-NET-5, CH-JRN-2: small segments, so that files are renamed while they are read.
    let place = Place::for_dev_node().with("CHANCERY_SEGMENT_BYTES", "65536");
    checked_under_load(&place, |key| {
        let index = Connection::open(place.path("data/index.db")).unwrap();
        // The node writes, too.
        index.busy_timeout(Duration::from_secs(60)).unwrap();
        let sql = "INSERT INTO rows (key, value) VALUES (?1, x'00')";
        index.execute(sql, [key.as_bytes()]).unwrap();
    });
}

#[test]
fn a_check_of_postgresql_under_load_finds_what_is_wrong_and_nothing_else() {
    // CH-JRN-5
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "checked");
    checked_under_load(&place, |key| {
        let key = hex::encode(key.as_bytes());
        server.execute(&format!(
            "INSERT INTO chancery.state SELECT id, '\\x{key}', '\\x00' FROM chancery.journal"
        ));
    });
}

#[test]
fn a_check_of_files_without_an_index_says_so() {
    let place = Place::for_dev_node();
    fill(&place, 8);
    let whole = place.run(&["store", "check"]).exits(0).text();
    assert!(whole.contains(" rows compared with"), "{whole}");
    std::fs::remove_file(place.path("data/index.db")).unwrap();
    let told = place.run(&["store", "check"]).exits(0).text();
    assert!(told.contains("no index of this version"), "{told}");
    // An index of another log is no index of this one.
    place.serve().stop_well();
    let other = Place::for_dev_node();
    fill(&other, 8);
    std::fs::copy(other.path("data/index.db"), place.path("data/index.db")).unwrap();
    let told = place.run(&["store", "check"]).exits(3);
    assert!(told.err.contains("not on the log"), "{}", told.err);
}

#[test]
fn a_backup_under_load_holds_what_was_acknowledged_before() {
    // CH-JRN-2: small segments, so that files are renamed while they are read.
    let place = Place::for_dev_node().with("CHANCERY_SEGMENT_BYTES", "65536");
    backed_up_under_load(&place, &Place::for_dev_node());
}

#[test]
fn a_backup_of_postgresql_under_load_holds_what_was_acknowledged_before() {
    // CH-JRN-5
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "loaded");
    backed_up_under_load(&place, &Place::for_dev_node().on(&server, "restored"));
}

#[test]
fn a_backup_of_either_store_is_restored_in_the_other() {
    // CH-JRN-2, CH-JRN-5
    let server = PostgresServer::start();
    let files = Place::for_dev_node;
    backed_up_under_load(&files(), &files().on(&server, "restored"));
    backed_up_under_load(&files().on(&server, "loaded"), &files());
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
    let server = PostgresServer::start();
    for (name, text) in [("changed", changed), ("cut", cut)] {
        assert_ne!(text, log);
        place.write("backup/audit.jsonl", text);
        let from = place.path("backup");
        let restore = ["store", "restore", from.to_str().unwrap()];
        let refuses = |target: &Place| {
            let told = target.run(&restore).exits(3);
            let says = told.err.contains("not the log that was backed up");
            assert!(says, "{name}: {}", told.err);
        };
        let files = Place::for_dev_node();
        refuses(&files);
        assert!(
            !files.path("data/audit.jsonl").exists(),
            "nothing is written"
        );
        refuses(&Place::for_dev_node().on(&server, name));
        assert_eq!(lines_in(&server), 0, "{name}: nothing is written");
    }
}
