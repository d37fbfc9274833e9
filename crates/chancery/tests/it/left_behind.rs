//! Nothing that tests start is left running, however a test ends.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use chancery_testkit::nats_server::{Build, NatsServer};
use chancery_testkit::postgres_server::PostgresServer;
use chancery_testkit::process::is_running;

use crate::agh_house::{AghNode, until};
use crate::support::Place;

/// Set for the process that is to end in the middle of a test.
const ENDS: &str = "CHANCERY_TEST_ENDS_IN_THE_MIDDLE";

#[test]
fn nothing_is_left_running_after_a_test_that_was_ended() {
    let place = Place::new();
    // The directories of that process are left; PostgreSQL's user has to reach its own.
    let open = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(place.path("."), open).unwrap();
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "left_behind::ends_in_the_middle", "--nocapture"])
        .env(ENDS, "")
        .env("TMPDIR", place.path("."))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(!ended.status.success());
    let told = String::from_utf8(ended.stdout).unwrap();
    // What a test writes may come behind its name.
    let started = told.lines().find_map(|line| line.split_once("started: "));
    let (_, started) = started.unwrap_or_else(|| panic!("{told}"));
    let started: Vec<u32> = started.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(started.len(), 4);
    println!("started and ended: {started:?}");
    until("all that it started is gone", || {
        let left = started.iter().any(|pid| is_running(*pid));
        (!left).then_some(())
    });
}

/// The process that is ended. Run by itself it has nothing to do.
#[test]
fn ends_in_the_middle() {
    if std::env::var_os(ENDS).is_none() {
        return;
    }
    let postgres = PostgresServer::of_its_own();
    let nats = NatsServer::of_its_own(Build::Debian, "");
    let place = Place::for_dev_node();
    let node = place.serve();
    let house = AghNode::start("dual", "", &["worker.session-1"]);
    let pids = [postgres.pid(), nats.pid(), node.pid(), house.pid()];
    let pids = pids.map(|pid| {
        assert!(is_running(pid));
        pid.to_string()
    });
    println!("started: {}", pids.join(" "));
    std::process::abort();
}
