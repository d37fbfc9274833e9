//! `kill -9` between the acceptance of a call and its answer.

use chancery_core::keys::ed25519::SigningKey;
use chancery_testkit::postgres_server::PostgresServer;
use chancery_vacant::envelope::EMPTY_PREV_HASH;
use chancery_vacant::id::VacantId;
use serde_json::{Value, json};

use crate::letters::{CALLS, Link, bob, letter, place_of_bob};
use crate::support::Place;
use crate::wire::Wire;

/// A place whose node hosts bob: his owner answers, and calls that a stop left open wait for it again.
fn place() -> Place {
    place_of_bob(
        "capability = \"answers letters\"\nbehaviour = \"inbox\"\non_restart = \"rerun\"\n",
    )
}

fn call(to: VacantId) -> Vec<u8> {
    let first = Link {
        number: 1,
        prev: EMPTY_PREV_HASH,
    };
    let key = SigningKey::from_seed(&[0x61; 32]);
    letter(&key, to, first, "one", "what is it?").0
}

/// The line of the call in bob's inbox.
fn waiting(wire: &mut Wire) -> Value {
    let page = wire.get("/inbox/vacant/bob?wait=20").unwrap().ok();
    assert_eq!(page["entries"].as_array().unwrap().len(), 1);
    page["entries"][0]["seq"].clone()
}

// CH-JRN-16, VA-SRV-12, VA-REP-12, CH-NET-3
#[test]
fn the_resend_gets_the_stored_answer_and_nothing_runs_twice() {
    killed_before_it_answers(&place());
}

// CH-JRN-16, VA-SRV-12, CH-JRN-5
#[test]
fn the_resend_gets_the_stored_answer_also_in_postgresql() {
    let server = PostgresServer::start();
    killed_before_it_answers(&place().on(&server, "letters"));
}

fn killed_before_it_answers(place: &Place) {
    let node = place.serve();
    let body = call(bob(&node));
    let (mut asking, sent) = (node.wire(), body.clone());
    let asked = std::thread::spawn(move || asking.post(CALLS, &sent).map(|told| told.status));
    // It is on record as soon as it is in the inbox; nobody has answered it.
    let seq = waiting(&mut node.wire());
    node.kill();
    assert!(
        asked.join().unwrap().is_err(),
        "a killed node answers nothing"
    );
    let node = place.serve();
    let mut wire = node.wire();
    assert_eq!(waiting(&mut wire), seq, "it waits again, once");
    let again = wire.post(CALLS, &body).unwrap();
    assert_eq!(again.status, 409);
    assert_eq!(again.json()["error"].get("response"), None);
    let says = json!({"from": "bob", "answers": seq, "text": "a letter"}).to_string();
    assert_eq!(
        wire.post("/send/vacant", says.as_bytes()).unwrap().status,
        200
    );
    let twice = wire.post("/send/vacant", says.as_bytes()).unwrap();
    assert_eq!(twice.status, 409, "a call has one outcome");
    node.kill();
    let node = place.serve();
    let again = node.wire().post(CALLS, &body).unwrap();
    assert_eq!(again.status, 409);
    let lost = &again.json()["error"]["response"];
    assert_eq!(lost["parts"][0]["text"], "a letter");
    assert_eq!(lost["metadata"]["urn:vacant:v1"]["sequence_no"], 1);
    let answers = place.log_lines();
    let answers = answers.iter().filter(|line| line.contains("a letter"));
    assert_eq!(answers.count(), 1);
    node.stop_well();
    place.run(&["log", "verify"]).exits(0);
    place.run(&["log", "replay"]).exits(0);
}
