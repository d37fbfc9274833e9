//! Servers that are there already (`CHANCERY_TEST_POSTGRES`, `CHANCERY_TEST_NATS`): tests use them, and leave nothing in them,
//! however they end.

use std::process::{Command, Output, Stdio};

use chancery_testkit::nats_server::{Build, NatsServer};
use chancery_testkit::postgres_server::PostgresServer;

use crate::agh_house::until;
use crate::served::{HOSTED, share};
use crate::support::Place;

/// Set for the process that is to use servers that are given: whether it is to end in the middle.
const ENDS: &str = "CHANCERY_TEST_GIVEN_ENDS";
/// The databases of tests.
const DATABASES: &str = "SELECT count(*) FROM pg_database WHERE datname LIKE 'chancery\\_test\\_%'";

/// Runs the test below with servers that are given.
fn run(postgres: &PostgresServer, nats: &NatsServer, place: &Place, ends: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "given_servers::uses_what_is_given",
            "--nocapture",
        ])
        .env(ENDS, ends)
        .env("CHANCERY_TEST_POSTGRES", postgres.url())
        .env("CHANCERY_TEST_NATS", nats.url())
        // Whoever uses a broker that is given says so there.
        .env("TMPDIR", place.path("."))
        .stderr(Stdio::inherit())
        .output()
        .unwrap()
}

#[test]
fn servers_that_are_given_are_used_and_nothing_is_left_in_them() {
    let postgres = PostgresServer::of_its_own();
    let nats = NatsServer::of_its_own(Build::Debian, "");
    let place = Place::new();
    // The second has to get its turn although the first has ended in the middle.
    for (ends, is_well) in [("in the middle", false), ("well", true)] {
        let ended = run(&postgres, &nats, &place, ends);
        let told = String::from_utf8(ended.stdout).unwrap();
        assert_eq!(ended.status.success(), is_well, "{told}");
        assert!(told.contains("databases of tests: 1\n"), "{told}");
        until("its database is gone", || {
            (postgres.answer(DATABASES) == "0").then_some(())
        });
    }
}

/// The process that uses them. Run by itself it has nothing to do.
#[test]
fn uses_what_is_given() {
    let Ok(ends) = std::env::var(ENDS) else {
        return;
    };
    let given = |name: &str| std::env::var(name).unwrap();
    let postgres = PostgresServer::start();
    let nats = NatsServer::start(Build::Debian, "");
    assert_eq!(nats.url(), given("CHANCERY_TEST_NATS"));
    // Another database of the same server.
    let server = |url: &str| url.rsplit_once('/').unwrap().0.to_owned();
    assert_eq!(
        server(postgres.url()),
        server(&given("CHANCERY_TEST_POSTGRES"))
    );
    assert_ne!(postgres.url(), given("CHANCERY_TEST_POSTGRES"));
    println!("databases of tests: {}", postgres.answer(DATABASES));
    let place = Place::for_dev_node().on(&postgres, "given");
    let node = place.serve();
    node.wire().share(&share(HOSTED[0]).bytes).unwrap().ok();
    if ends == "well" {
        return node.stop_well();
    }
    std::process::abort();
}
