//! `chancery doctor` where the journal is in PostgreSQL and deliveries are handed out over a bus: each fault that is planted
//! there is found, with its place and what to do.

use std::time::Duration;

use chancery_core::time::format_millis;
use chancery_testkit::nats_server::{Build, NatsServer};
use chancery_testkit::postgres_server::PostgresServer;

use crate::doctored::{findings, is_well, only, record};
use crate::served::{SENDER, now, world};
use crate::support::Place;

/// A place whose node recorded something in a database and was stopped; a key of it ends in a month.
fn recorded(server: &PostgresServer) -> Place {
    let place = Place::for_dev_node().on(server, "doctored");
    let mut world = world();
    let ends = now().saturating_add(Duration::from_secs(30 * 86_400));
    world["trust"]["trust_anchors"][SENDER]["keys"][0]["valid_until"] =
        format_millis(ends).as_str().into();
    place.write("world.json", world.to_string());
    record(&place, &[]);
    place
}

/// Lets a server go by a setting, and waits until it does.
fn set(server: &PostgresServer, setting: &str, value: &str) {
    server.execute(&format!("ALTER SYSTEM SET {setting} = {value}"));
    server.execute("SELECT pg_reload_conf()");
    let asked = format!("SELECT current_setting('{setting}')");
    crate::agh_house::until("the server has read it", || {
        (server.answer(&asked) == value).then_some(())
    });
}

// CH-JRN-5, CH-JRN-7, VX-KEY-3
#[test]
fn what_is_wrong_in_a_database_is_found() {
    let mut server = PostgresServer::durable();
    // A node that never ran is well, and looking begins nothing.
    is_well(&Place::for_dev_node().on(&server, "doctored"), &[]);
    let tables = "SELECT count(*) FROM pg_namespace WHERE nspname = 'chancery'";
    assert_eq!(server.answer(tables), "0");

    let place = recorded(&server);
    is_well(&place, &[]);
    let [check, at, what, next] = only(&place, &["--expiry-days", "60"]);
    assert_eq!((&*check, &*at), ("keys", SENDER));
    assert!(
        what.contains("k-01 ends at") && next.contains("chancery key rotate"),
        "{what}"
    );

    for setting in ["full_page_writes", "synchronous_commit"] {
        set(&server, setting, "off");
        let [check, at, what, next] = only(&place, &[]);
        assert_eq!(check, "store");
        assert!(at.starts_with("postgres://"), "{at}");
        assert!(
            what.contains(&format!("{setting} = off")) && next.contains("forgets"),
            "{what} {next}"
        );
        set(&server, setting, "on");
    }
    is_well(&place, &[]);

    let other = "convert_to(replace(convert_from(text, 'UTF8'), '\"seq\":2', '\"seq\":7'), 'UTF8')";
    server.execute("CREATE TABLE kept AS SELECT * FROM chancery.line");
    server.execute(&format!(
        "UPDATE chancery.line SET text = {other} WHERE seq = 2"
    ));
    let found = findings(&place, &[]);
    assert!(found.iter().any(|it| it["check"] == "log"), "{found:?}");
    assert!(
        found[0]["next"]
            .as_str()
            .unwrap()
            .contains("restore the log from a copy"),
        "{found:?}"
    );
    server.execute(
        "UPDATE chancery.line SET text = kept.text FROM kept WHERE chancery.line.seq = kept.seq",
    );
    is_well(&place, &[]);

    server.kill();
    let [check, _, what, next] = only(&place, &[]);
    assert_eq!(check, "store");
    assert!(
        what.contains("cannot be reached") && next.contains("start PostgreSQL"),
        "{what} {next}"
    );
}

// CH-JRN-2, CH-JRN-5
#[test]
fn a_server_that_does_not_sync_is_found() {
    let server = PostgresServer::of_its_own();
    assert_eq!(server.answer("SELECT current_setting('fsync')"), "off");
    let [check, at, what, next] = only(&recorded(&server), &[]);
    assert_eq!(check, "store");
    assert!(at.starts_with("postgres://"), "{at}");
    assert!(
        what.contains("fsync = off") && next.contains("forgets"),
        "{what} {next}"
    );
}

// CH-JRN-5
#[test]
fn tables_of_another_version_are_found_and_left_alone() {
    let server = PostgresServer::durable();
    let place = recorded(&server);
    server.execute("UPDATE chancery.schema SET version = version + 1");
    let [check, _, what, next] = only(&place, &[]);
    assert_eq!(check, "store");
    assert!(
        what.contains("newer version") && next.contains("or a later one"),
        "{what} {next}"
    );
    server.execute("UPDATE chancery.schema SET version = version - 2");
    let [_, _, what, _] = only(&place, &[]);
    assert!(what.contains("this program writes"), "{what}");
    server.execute("UPDATE chancery.schema SET version = version + 1");
    is_well(&place, &[]);
}

// CH-JRN-14
#[test]
fn a_clock_behind_a_database_is_found() {
    let server = PostgresServer::durable();
    let place = Place::for_dev_node().on(&server, "ahead");
    let node = place.serve_with(&["--clock", "offset:+3600s"]);
    let ahead = now().saturating_add(Duration::from_secs(3_600));
    let sent = crate::served::share_at(crate::served::HOSTED[0], ahead);
    node.wire().share(&sent.bytes).unwrap().ok();
    node.stop_well();
    let [check, _, what, _] = only(&place, &[]);
    assert_eq!(check, "clock");
    assert!(
        what.contains("behind the last decision on the log"),
        "{what}"
    );
}

// CH-JRN-5
#[test]
fn a_bus_that_is_not_there_or_keeps_no_streams_is_found() {
    let server = PostgresServer::durable();
    let place = || Place::for_dev_node().on(&server, "handed-out");
    let mut broker = NatsServer::start(Build::Debian, "jetstream { store_dir: streams }");
    let with_streams = place().with("CHANCERY_BUS", &broker.url());
    is_well(&with_streams, &[]);
    broker.kill();
    let [check, at, what, next] = only(&with_streams, &[]);
    assert_eq!((&*check, &*at), ("bus", &*broker.url()));
    assert!(
        what.contains("not reached") && next.contains("JetStream"),
        "{what} {next}"
    );

    let broker = NatsServer::start(Build::Debian, "");
    let without = place().with("CHANCERY_BUS", &broker.url());
    let [check, _, what, _] = only(&without, &[]);
    assert_eq!(check, "bus");
    assert!(what.contains("JetStream"), "{what}");
}
