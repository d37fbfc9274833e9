//! `chancery demo`: needs nothing, names every step, and its log holds.

use chancery_testkit::process::bound;
use chancery_testkit::terminal::OnTerminal;
use serde_json::Value;

use crate::market::without_random;
use crate::support::Place;

#[test]
fn it_needs_nothing_and_leaves_nothing() {
    // CH-CLI-2, VA-REP-3, VA-SRV-12, VA-ENV-8, AG-LIF-2, AG-WHO-3, VX-RUN-2, VX-RUN-4, VX-RUN-6
    let place = Place::new();
    std::fs::create_dir(place.path("tmp")).unwrap();
    let temporary = place.path("tmp").to_str().unwrap().to_owned();
    let place = place.with("TMPDIR", &temporary);
    let text = place.run(&["demo"]).exits(0).text();
    for part in [
        "duplicate",
        "signature_invalid",
        "423 sender_suspended",
        "the child is paused",
        "the child is suspended",
        "the child is running",
        "sha256 ",
        "identical",
        "403 private_utility_leak",
        "409 approval_required",
        "four checks hold",
        "refunded in full",
        "echo: two",
        "409 REPLAY_DETECTED, with the answer",
        "409 CHAIN_FORK",
        "401 ENVELOPE_SIGNATURE",
        "a chain each way",
        "patch-worker.session-19 can run tests",
        "work_tests is completed",
        "interaction_closed",
        "work_docs is canceled",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    tells_nothing_private(&text);
    assert!(!text.contains('\u{1b}'), "no colour on a pipe: {text}");
    assert_eq!(std::fs::read_dir(place.path("tmp")).unwrap().count(), 0);
}

/// VC-PRIV-1: what the buyer and the merchant of the story keep to themselves.
fn tells_nothing_private(text: &str) {
    let told = without_random(text);
    for private in ["45000", "450.00", "10500", "105.00"] {
        assert!(!told.contains(private), "{private}: {text}");
    }
}

/// What a run shows without colour, and without what differs from run to run: titles and steps, and how many lines of
/// evidence each has.
fn shape(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => drop(rest.by_ref().find(char::is_ascii_alphabetic)),
            '\r' => {}
            c => plain.push(c),
        }
    }
    let shown = |line: &str| match line.starts_with("        ") {
        true => "evidence".to_owned(),
        false => line.to_owned(),
    };
    plain.lines().map(shown).collect()
}

// CH-CLI-1: colour where a person looks, and nothing else differs.
#[test]
fn on_a_terminal_it_is_the_same_story_in_colour() {
    let place = Place::new();
    let piped = place.run(&["demo"]).exits(0).text();
    let mut demo = std::process::Command::new(env!("CARGO_BIN_EXE_chancery"));
    demo.arg("demo")
        .current_dir(place.path("."))
        .env_remove("NO_COLOR");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHANCERY_")) {
        demo.env_remove(name);
    }
    let told = OnTerminal::start(bound(&demo)).unwrap().finish();
    let (status, text) = told.unwrap();
    assert!(status.success(), "{text}");
    assert!(text.contains("\u{1b}["), "no colour: {text}");
    assert_eq!(shape(&text), shape(&piped));
    assert!(!piped.contains('\u{1b}'));
}

#[test]
fn for_machines_it_tells_nothing_private_either() {
    // VC-PRIV-1, VC-HTTP-8, CH-CLI-1
    let text = Place::new().run(&["demo", "--json"]).exits(0).text();
    let steps = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line.to_string()
    });
    let steps: Vec<String> = steps.collect();
    let leaks = |text: &String| text.contains("private_utility_leak");
    assert!(steps.iter().any(leaks), "{text}");
    tells_nothing_private(&text);
}

#[test]
fn it_needs_no_root_certificates_either() {
    // CH-CLI-2
    let place = Place::new();
    let place = place
        .with("SSL_CERT_FILE", "/nowhere")
        .with("SSL_CERT_DIR", "/nowhere");
    place.run(&["demo"]).exits(0);
}

#[test]
fn what_it_keeps_verifies_and_replays() {
    // CH-CLI-2, CH-JRN-7
    let place = Place::new();
    let text = place
        .run(&["demo", "--keep", "node", "--json"])
        .exits(0)
        .text();
    let steps: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(steps.len() >= 10);
    for (index, step) in steps.iter().enumerate() {
        assert_eq!(step["step"], index + 1);
        assert_eq!(step["ok"], true, "{step}");
    }
    let verified = place
        .run(&["log", "verify", "node/chancery-data", "--json"])
        .exits(0)
        .json();
    assert_eq!(verified["passed"], true);
    let evidence = &steps[steps.len() - 2]["evidence"];
    assert_eq!(evidence["lines"], verified["lines"]);
    place.run(&["log", "replay", "node/chancery-data"]).exits(0);
    // The hash that a step showed is that of the line.
    let share = &steps[1]["evidence"];
    let log = place.read("node/chancery-data/audit.jsonl");
    let at = usize::try_from(share["seq"].as_u64().unwrap()).unwrap();
    let line = log.lines().nth(at - 1).unwrap();
    let hash = chancery_core::digest::Sha256Digest::of(line.as_bytes()).hex();
    assert_eq!(share["line_sha256"], hash);
    // A directory that is there is not written into.
    let ran = place.run(&["demo", "--keep", "node"]).exits(2);
    assert!(ran.err.contains("node is there already"), "{}", ran.err);
}
