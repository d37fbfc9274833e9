//! What was settled in PostgreSQL is settled in the files that it is moved to, whatever becomes of their index.

use std::net::TcpListener;

use chancery_testkit::postgres_server::PostgresServer;

use crate::agh_house::until;
use crate::two_nodes_duties::{PATIENCE, listen, place};
use crate::two_nodes_sockets::speak;

#[test]
fn what_was_delivered_from_postgresql_is_not_delivered_from_files_again() {
    // CH-JRN-2, CH-JRN-5, CH-JRN-15
    let server = PostgresServer::start();
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", elsewhere.local_addr().unwrap());
    let messages = listen(elsewhere);
    let moved = place(&server, "settled", &address);
    let node = moved.serve();
    let first = speak(&node);
    assert_eq!(messages.recv_timeout(PATIENCE).unwrap(), first);
    until("it is settled", || {
        let figures = node.wire().get("/metrics").unwrap().text();
        let mut lines = figures.lines();
        lines.any(|line| line == "chancery_outbox 0").then_some(())
    });
    node.stop_well();
    let files = ["store", "migrate", "--journal", "settled", "--from"];
    let there = [&files[..], &[server.url(), "--to", "back"]].concat();
    moved.run(&there).exits(0);
    // The index is rebuilt from the log, which has every delivery.
    for file in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(moved.path("back").join(file));
    }
    assert!(!moved.path("back/index.db").exists());
    let moved = moved.with("CHANCERY_STORE", "embedded");
    let node = moved.serve_with(&["--data", "back"]);
    // Of one sender to one recipient the older one would come first.
    let second = speak(&node);
    assert_eq!(messages.recv_timeout(PATIENCE).unwrap(), second);
    node.stop_well();
    assert!(messages.try_recv().is_err(), "it was delivered again");
}
