//! 0 done, 1 the answer is no, 2 wrong usage or configuration, 3 damaged data (CH-CLI-1).

use crate::sample;
use crate::support::Place;

#[test]
fn four_codes_and_what_they_mean() {
    // CH-CLI-1
    let place = Place::new();
    place.write("good.json", "{}");
    place.write("bad.json", "{");
    place.write("noise.jsonl", "no\nlog\n");
    place.run(&["canon", "good.json"]).exits(0);
    place.run(&["canon", "bad.json"]).exits(1);
    place.run(&["canon", "missing.json"]).exits(2);
    place
        .run(&["canon", "--dialect", "latin", "good.json"])
        .exits(2);
    place.run(&["log", "verify", "noise.jsonl"]).exits(3);
}

#[test]
fn unknown_commands_and_no_command_are_wrong_usage() {
    // CH-CLI-1; a command that is not built does not exist.
    let place = Place::new();
    for command in ["approve", "console", "nonsense"] {
        let ran = place.run(&[command]).exits(2);
        assert!(ran.out.is_empty(), "{command}");
        assert!(ran.err.contains(command), "{}", ran.err);
    }
    place.run(&[]).exits(2);
    place.run(&["--version"]).exits(0);
}

#[test]
fn failures_say_what_and_what_next() {
    // CH-CLI-3
    let place = Place::new();
    let ran = place.run(&["log", "verify"]).exits(2);
    assert!(ran.err.contains("chancery-data"), "{}", ran.err);
    assert!(ran.err.contains("--config"), "{}", ran.err);
    let ran = place.run(&["log", "verify", "--json"]).exits(2);
    let told: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(told["exit"], 2);
    assert!(told["error"].as_str().unwrap().contains("chancery-data"));
    assert!(told["next"].is_string());
}

#[test]
fn no_colour_where_nobody_looks() {
    // CH-CLI-1: the output is a pipe here.
    let place = Place::new();
    place.write("audit.jsonl", sample::text(&sample::administration(2)));
    let ran = place.run(&["log", "verify", "audit.jsonl"]).exits(0);
    assert!(!ran.out.contains(&0x1b));
    let ran = place.run(&["--help"]).exits(0);
    assert!(!ran.out.contains(&0x1b));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    place.write("audit.jsonl", sample::text(&sample::administration(3_000)));
    let mut child = place
        .command(&["log", "export", "audit.jsonl"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
}
