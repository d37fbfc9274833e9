//! A log that is not as it was written, and a clock that is not as it was (CH-JRN-4, CH-JRN-14): what the program
//! does at its start.

use std::time::Duration;

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::Sha256Digest;
use chancery_core::json::{ReadRules, read};
use chancery_core::time::format_millis;
use serde_json::{Value, json};

use crate::served::{HOSTED, Served, Share, now, share, share_at};
use crate::support::Place;

const LOG: &str = "data/audit.jsonl";
const HOUR: Duration = Duration::from_secs(3600);

/// A place whose node recorded some shares and was stopped.
fn recorded() -> (Place, Vec<Share>) {
    let place = Place::for_dev_node();
    let node = place.serve();
    let shares: Vec<Share> = (0..6).map(|_| share(HOSTED[0])).collect();
    for share in &shares {
        assert_eq!(answer(&node, share)["status"], "accepted");
    }
    node.stop_well();
    (place, shares)
}

fn answer(node: &Served, share: &Share) -> Value {
    node.wire().share(&share.bytes).unwrap().json()
}

/// The log as text without its end being read as lines.
fn log(place: &Place) -> Vec<u8> {
    std::fs::read(place.path(LOG)).unwrap()
}

fn joined(lines: &[String]) -> String {
    lines
        .iter()
        .flat_map(|line| [line.as_str(), "\n"])
        .collect()
}

/// Starts on a log with something behind its end: that is cut off with a warning, and the node goes on.
fn is_cut_back(place: &Place, shares: &[Share], whole: &[u8], behind: &[u8]) {
    place.write(LOG, [whole, behind].concat());
    let node = place.serve();
    let told = node.stderr();
    assert!(told.contains("WARN") && told.contains("cut"), "{told}");
    assert_eq!(log(place), whole, "cut back to the last whole unit");
    for share in shares {
        assert_eq!(answer(&node, share)["status"], "duplicate");
    }
    assert_eq!(answer(&node, &share(HOSTED[0]))["status"], "accepted");
    assert_eq!(node.inbox(HOSTED[0]).len(), shares.len() + 1);
    node.stop_well();
    place.run(&["log", "verify", "data"]).exits(0);
    place.run(&["log", "replay", "data"]).exits(0);
}

/// A line that would follow the last one and says that its unit goes on.
fn first_of_a_unit(last: &str) -> Vec<u8> {
    let mut line: Value = serde_json::from_str(last).unwrap();
    line["meta"]["seq"] = json!(line["meta"]["seq"].as_u64().unwrap() + 1);
    line["meta"]["prev"] = json!(Sha256Digest::of(last.as_bytes()).hex());
    line["meta"]["more"] = json!(true);
    let text = line.to_string();
    let line = read(text.as_bytes(), &ReadRules::VALUE_CONTEXT).unwrap();
    to_bytes(&line, Dialect::Vibe)
}

#[test]
fn a_torn_last_line_is_cut_off() {
    // CH-JRN-4
    for behind in [&b"{\"envelope\":{\"vcp_mess"[..], b"{\"envelope\":}\n"] {
        let (place, shares) = recorded();
        let whole = log(&place);
        is_cut_back(&place, &shares, &whole, behind);
    }
}

#[test]
fn a_torn_unit_is_cut_off_from_its_first_line() {
    // CH-JRN-4
    for rest in [&b""[..], b"{\"envelope\":{\"vcp"] {
        let (place, shares) = recorded();
        let whole = log(&place);
        let mut behind = first_of_a_unit(place.log_lines().last().unwrap());
        behind.push(b'\n');
        behind.extend_from_slice(rest);
        is_cut_back(&place, &shares, &whole, &behind);
    }
}

/// Starts on lines that are damaged before their end: exit 3, file and line named, nothing touched; with the index
/// and without.
fn is_refused(place: &Place, lines: &[String], number: usize) {
    place.write(LOG, joined(lines));
    for with_index in [true, false] {
        if !with_index {
            std::fs::remove_file(place.path("data/index.db")).unwrap();
        }
        let refused = place.refuses_to_serve(&[]).exits(3);
        let named = format!("audit.jsonl, line {number}");
        assert!(refused.err.contains(&named), "{named}: {}", refused.err);
        assert_eq!(
            log(place),
            joined(lines).as_bytes(),
            "a damaged log is left alone"
        );
    }
}

#[test]
fn a_flipped_byte_in_the_middle_stops_the_start() {
    // CH-JRN-4: the line after it does not follow any more, and the message names both.
    let (place, shares) = recorded();
    let mut lines = place.log_lines();
    let at = lines
        .iter()
        .position(|line| line.contains(&shares[2].id))
        .unwrap();
    let flipped = flip_last_digit(&shares[2].id);
    lines[at] = lines[at].replace(&shares[2].id, &flipped);
    is_refused(&place, &lines, at + 2);
    let refused = place.refuses_to_serve(&[]).exits(3);
    assert!(
        refused.err.contains(&format!("line {}", at + 1)),
        "{}",
        refused.err
    );
}

fn flip_last_digit(id: &str) -> String {
    let (head, last) = id.split_at(id.len() - 1);
    format!("{head}{}", if last == "0" { "1" } else { "0" })
}

#[test]
fn a_deleted_line_stops_the_start() {
    // CH-JRN-4
    let (place, _) = recorded();
    let mut lines = place.log_lines();
    let at = lines.len() - 3;
    lines.remove(at);
    is_refused(&place, &lines, at + 1);
}

#[test]
fn a_swapped_pair_stops_the_start() {
    // CH-JRN-4
    let (place, _) = recorded();
    let mut lines = place.log_lines();
    let at = lines.len() - 4;
    lines.swap(at, at + 1);
    is_refused(&place, &lines, at + 1);
}

#[test]
fn an_index_ahead_of_the_log_stops_the_start_until_it_is_deleted_knowingly() {
    // CH-JRN-4
    let (place, shares) = recorded();
    let mut lines = place.log_lines();
    let missing = lines.len();
    lines.pop();
    place.write(LOG, joined(&lines));
    let refused = place.refuses_to_serve(&[]).exits(3);
    for word in [
        format!("lines {missing} to {missing}"),
        "Restore".into(),
        "index.db".into(),
    ] {
        assert!(refused.err.contains(&word), "{word}: {}", refused.err);
    }
    assert_eq!(log(&place), joined(&lines).as_bytes());
    std::fs::remove_file(place.path("data/index.db")).unwrap();
    let node = place.serve();
    assert_eq!(answer(&node, &shares[4])["status"], "duplicate");
    assert_eq!(
        answer(&node, &shares[5])["status"],
        "accepted",
        "it was lost with its line"
    );
    node.stop_well();
}

#[test]
fn a_clock_set_back_by_an_hour_lets_no_duplicate_in() {
    // CH-JRN-14, VX-DUP-1, VX-RPL-1
    let place = Place::for_dev_node();
    let (then, later) = (now(), now().saturating_add(HOUR));
    let node = place.serve_with(&["--clock", &Place::fixed(then)]);
    let first = share_at(HOSTED[0], then);
    assert_eq!(answer(&node, &first)["status"], "accepted");
    let body = json!({"now": format_millis(later).as_str()}).to_string();
    let set = node.wire().post("/dev/clock", body.as_bytes()).unwrap();
    assert_eq!(set.status, 204);
    // An hour on, the first is forgotten: only its age keeps it out now.
    let second = share_at(HOSTED[0], later);
    assert_eq!(answer(&node, &second)["status"], "accepted");
    node.stop_well();
    let before = log(&place);
    // This machine's clock is an hour behind the journal: by it the first share is fresh again.
    let refused = place.refuses_to_serve(&[]).exits(2);
    assert!(refused.err.contains("clock"), "{}", refused.err);
    assert_eq!(log(&place), before);
    let node = place.serve_with(&["--clock", &Place::fixed(later)]);
    assert_eq!(answer(&node, &first)["error"]["code"], "timestamp_stale");
    assert_eq!(answer(&node, &second)["status"], "duplicate");
    node.stop_well();
    assert_eq!(log(&place), before);
}

#[test]
fn a_clock_a_little_behind_is_held_at_the_journals_time() {
    // CH-JRN-14
    let place = Place::for_dev_node();
    let ahead = now().saturating_add(Duration::from_secs(30));
    let node = place.serve_with(&["--clock", &Place::fixed(ahead)]);
    let first = share_at(HOSTED[0], ahead);
    assert_eq!(answer(&node, &first)["status"], "accepted");
    node.stop_well();
    let node = place.serve();
    assert_eq!(answer(&node, &first)["status"], "duplicate");
    assert_eq!(answer(&node, &share(HOSTED[0]))["status"], "accepted");
    node.stop_well();
    let lines = place.log_lines();
    let time = |line: &String| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["meta"]["eval_ts"].as_str().unwrap().to_owned()
    };
    let [.., before, after] = &lines[..] else {
        panic!("two shares are on record")
    };
    assert!(time(after) >= time(before), "decision times never go back");
}
