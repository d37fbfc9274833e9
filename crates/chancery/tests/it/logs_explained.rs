//! `chancery log explain`.

use crate::sample;
use crate::support::Place;

fn place() -> Place {
    let place = Place::new();
    place.write("data/audit.jsonl", sample::text(&sample::conversation(2)));
    place.write(
        "data/rejections.jsonl",
        "{\"at\":\"2026-02-15T10:33:30Z\",\"protocol\":\"value-context\",\"code\":\"signature_invalid\",\"check\":\"signature\",\
         \"requirement\":\"VX-SIG-6\",\"path\":\"$.signature\",\"message_id\":\"refused-1\"}\n\
         {\"torn",
    );
    place.write(
        "data/events.jsonl",
        "{\"event\":\"duplicate\",\"protocol\":\"test\",\"message_id\":\"n-1-0\"}\n",
    );
    place
}

#[test]
fn an_accepted_envelope() {
    // CH-CLI-2
    let words = place()
        .run(&["log", "explain", "n-1-0", "data"])
        .exits(0)
        .text();
    assert!(words.contains("accepted as line"), "{words}");
    assert!(words.contains("note ann → bob n-1-0"), "{words}");
    assert!(words.contains("signature: holds under key k-1"), "{words}");
    assert!(words.contains("it came from outside"), "{words}");
    assert!(words.contains("duplicate (test)"), "{words}");
    // The program has no rules of the tests' own protocol.
    assert!(words.contains("what it changed is not known"), "{words}");
    assert!(!words.contains("hello"), "{words}");
}

#[test]
fn what_it_caused() {
    // CH-CLI-2: a batch has three more lines.
    let told = place()
        .run(&["log", "explain", "b-1", "data", "--json"])
        .exits(0)
        .json();
    let accepted = &told["accepted"][0];
    assert_eq!(accepted["unit"].as_array().unwrap().len(), 4);
    let words = place()
        .run(&["log", "explain", "b-1", "data"])
        .exits(0)
        .text();
    assert!(words.contains("in one unit:"), "{words}");
    assert_eq!(words.matches(" runtime ").count(), 3, "{words}");
}

#[test]
fn a_line_by_its_number() {
    let told = place()
        .run(&["log", "explain", "1", "data", "--json"])
        .exits(0)
        .json();
    assert_eq!(told["accepted"][0]["kind"], "config");
    let rows: Vec<_> = told["accepted"][0]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["row"].as_str().unwrap())
        .collect();
    assert_eq!(rows, ["config/test", "config-digests"]);
}

#[test]
fn a_refused_envelope() {
    // CH-CLI-3: the failing check, the offending path, the requirement id and what to do next.
    let words = place()
        .run(&["log", "explain", "refused-1", "data"])
        .exits(1)
        .text();
    for part in [
        "refused",
        "signature_invalid",
        "failed check: signature",
        "VX-SIG-6",
        "$.signature",
        "next: Sign the RFC 8785 form",
    ] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn one_that_nobody_knows() {
    let ran = place().run(&["log", "explain", "nobody", "data"]).exits(1);
    assert!(ran.err.contains("nobody"), "{}", ran.err);
}
