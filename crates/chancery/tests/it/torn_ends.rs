//! A log whose last line a power cut left half written: nothing acknowledged is missing, and a start mends it.

use std::fs::OpenOptions;
use std::io::Write as _;

use serde_json::Value;

use crate::doctored::{findings, only, private, record};
use crate::support::Place;

const LOG: &str = "data/audit.jsonl";

fn recorded() -> Place {
    let place = Place::for_dev_node();
    record(&place, &[]);
    place
}

fn append(place: &Place, text: &[u8]) {
    let log = OpenOptions::new().append(true).open(place.path(LOG));
    log.unwrap().write_all(text).unwrap();
}

// CH-JRN-4, CH-CLI-3
#[test]
fn a_torn_last_line_is_left_to_the_next_start() {
    for torn in ["{\"envelope\":{\"vcp_mess", "{\"envelope\":}\n"] {
        let place = recorded();
        append(&place, torn.as_bytes());
        let [check, at, _, next] = only(&place, &[]);
        assert_eq!(check, "log");
        assert!(at.contains("audit.jsonl:"), "{at}");
        assert!(
            next.contains("start the node") && !next.contains("restore"),
            "{next}"
        );
        let verified = place.run(&["log", "verify", "data"]).exits(1).text();
        assert!(verified.contains("start the node"), "{verified}");
        // As it says.
        place.serve().stop_well();
        place.run(&["doctor"]).exits(0);
        place.run(&["log", "verify", "data"]).exits(0);
    }
}

// CH-JRN-4
#[test]
fn a_whole_line_without_its_end_is_torn_too() {
    let place = recorded();
    let index = std::fs::read(place.path("data/index.db")).unwrap();
    record(&place, &[]);
    let text = place.read(LOG);
    private(&place, LOG, text.trim_end().as_bytes());
    // The index has that line: it was acknowledged, and what is missing is more than a start may cut off.
    let found = findings(&place, &[]);
    let of_log: Vec<&Value> = found.iter().filter(|it| it["check"] == "log").collect();
    assert!(
        of_log[0]["next"].as_str().unwrap().contains("restore"),
        "{found:?}"
    );
    private(&place, "data/index.db", &index);
    let found = findings(&place, &[]);
    let of_log: Vec<&Value> = found.iter().filter(|it| it["check"] == "log").collect();
    assert!(
        of_log[0]["next"]
            .as_str()
            .unwrap()
            .contains("start the node"),
        "{found:?}"
    );
}

// CH-JRN-4, CH-JRN-7
#[test]
fn damage_before_the_end_is_not_left_to_a_start() {
    let place = recorded();
    let mut lines = place.log_lines();
    lines[1] = lines[1].replace("\"seq\":2", "\"seq\":7");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    private(&place, LOG, (text + "{\"envel").as_bytes());
    let found = findings(&place, &[]);
    let next = |it: &Value| it["next"].as_str().unwrap().to_owned();
    assert!(
        found.iter().all(|it| !next(it).contains("cuts off")),
        "{found:?}"
    );
    let verified = place.run(&["log", "verify", "data"]).exits(1).text();
    assert!(!verified.contains("start the node"), "{verified}");
}

// CH-JRN-7, VC-RPL-2
#[test]
fn an_empty_file_is_no_good_log() {
    let place = Place::new();
    place.write("empty.jsonl", "");
    let refused = place.run(&["log", "verify", "empty.jsonl"]).exits(3);
    assert!(
        refused.err.contains("empty.jsonl") && refused.out.is_empty(),
        "{}",
        refused.err
    );
    place.run_with_input(&["log", "verify", "-"], b"").exits(3);
}
