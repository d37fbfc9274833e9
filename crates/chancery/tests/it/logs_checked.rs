//! `chancery log verify` and `replay` on whole and damaged files (CH-JRN-7).

use std::collections::BTreeSet;

use bytes::Bytes;
use chancery_core::digest::Sha256Digest;

use crate::sample;
use crate::support::{Place, Ran};

fn place_of(lines: &[Bytes]) -> Place {
    let place = Place::new();
    place.write("data/audit.jsonl", sample::text(lines));
    place
}

fn verify(place: &Place) -> Ran {
    place.run(&["log", "verify", "data", "--json"])
}

fn replay(place: &Place) -> Ran {
    place.run(&["log", "replay", "data", "--json"])
}

#[test]
fn a_whole_log_passes_and_says_what_that_does_not_prove() {
    // CH-JRN-7
    let lines = sample::administration(5);
    let place = place_of(&lines);
    let told = verify(&place).exits(0).json();
    assert_eq!(told["passed"], true);
    assert_eq!(told["lines"], 7);
    assert_eq!(told["head"]["sha256"], Sha256Digest::of(&lines[6]).hex());
    assert!(!told["not_proven"].as_array().unwrap().is_empty());
    let words = place.run(&["log", "verify", "data"]).exits(0).text();
    assert!(
        words.contains("every check passed") && words.contains("A pass does not prove:"),
        "{words}"
    );
    let told = replay(&place).exits(0).json();
    assert_eq!(
        (&told["identical"], &told["replayed"]),
        (&true.into(), &7.into())
    );
}

#[test]
fn a_line_that_is_out_of_place_is_named_by_where_it_stands() {
    // CH-JRN-7
    let mut lines = sample::administration(5);
    lines.swap(2, 5);
    let told = verify(&place_of(&lines)).exits(1).json();
    let findings = told["findings"].as_array().unwrap();
    let named: BTreeSet<&str> = findings.iter().filter_map(|it| it["at"].as_str()).collect();
    // The two that changed places, and the one after each of them.
    let expected = [3, 4, 6, 7].map(|line| format!("data/audit.jsonl:{line}"));
    let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
    assert_eq!(named, expected, "{told}");
}

#[test]
fn segments_standard_input_and_exports_are_the_same_log() {
    // CH-JRN-2, CH-JRN-7, CH-JRN-8
    let lines = sample::administration(5);
    let place = Place::new();
    place.write(
        "data/audit-00000000000000000001.jsonl",
        sample::text(&lines[..3]),
    );
    place.write(
        "data/audit-00000000000000000004.jsonl",
        sample::text(&lines[3..4]),
    );
    place.write("data/audit.jsonl", sample::text(&lines[4..]));
    place.write("data/events.jsonl", "{}\n");
    assert_eq!(verify(&place).exits(0).json()["lines"], 7);
    replay(&place).exits(0);
    let exported = place.run(&["log", "export", "data"]).exits(0);
    assert_eq!(exported.out, sample::text(&lines));
    place
        .run_with_input(&["log", "verify", "-"], &exported.out)
        .exits(0);
    place
        .run_with_input(&["log", "replay", "-"], &exported.out)
        .exits(0);
}

#[test]
fn any_change_loss_or_reordering_shows() {
    // CH-JRN-3, CH-JRN-7
    let lines = sample::administration(5);
    let mut flipped = lines.clone();
    let edited = String::from_utf8(lines[3].to_vec())
        .unwrap()
        .replace("agent-2", "agent-9");
    flipped[3] = edited.into();
    let mut deleted = lines.clone();
    deleted.remove(3);
    let mut swapped = lines.clone();
    swapped.swap(3, 4);
    let spaced = String::from_utf8(lines[3].to_vec())
        .unwrap()
        .replacen(':', ": ", 1);
    let mut loose = lines.clone();
    loose[3] = spaced.into();
    let mut noise = lines.clone();
    noise[3] = Bytes::from_static(b"noise");
    for (what, damaged) in [
        ("flipped", flipped),
        ("deleted", deleted),
        ("swapped", swapped),
        ("loose", loose),
        ("noise", noise),
    ] {
        let place = place_of(&damaged);
        let told = verify(&place).exits(1).json();
        assert_eq!(told["passed"], false, "{what}");
        assert!(!told["not_proven"].as_array().unwrap().is_empty());
        let at = told["findings"][0]["at"].as_str().unwrap();
        let expected = if what == "flipped" {
            "data/audit.jsonl:5"
        } else {
            "data/audit.jsonl:4"
        };
        assert_eq!(at, expected, "{what}: {told}");
        assert_eq!(replay(&place).exits(1).json()["identical"], false, "{what}");
    }
}

#[test]
fn a_line_in_another_form_is_named_as_such() {
    // VC-RPL-3
    let mut lines = sample::administration(2);
    let spaced = String::from_utf8(lines[3].to_vec())
        .unwrap()
        .replacen(':', ": ", 1);
    lines[3] = spaced.into();
    let told = verify(&place_of(&lines)).exits(1).json();
    let check = told["findings"][0]["check"].as_str().unwrap();
    assert!(check.starts_with("non_canonical_entry"), "{check}");
}

#[test]
fn places_are_right_after_a_gap_and_in_a_second_segment() {
    // CH-JRN-7, CH-CLI-3
    let mut lines = sample::administration(9);
    lines.remove(2);
    let edited = String::from_utf8(lines[6].to_vec())
        .unwrap()
        .replace("active", "revoked");
    lines[6] = edited.into();
    let place = Place::new();
    place.write(
        "data/audit-00000000000000000001.jsonl",
        sample::text(&lines[..5]),
    );
    place.write("data/audit.jsonl", sample::text(&lines[5..]));
    let told = verify(&place).exits(1).json();
    let mut at: Vec<&str> = told["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["at"].as_str().unwrap())
        .collect();
    at.dedup();
    assert_eq!(
        at,
        [
            "data/audit-00000000000000000001.jsonl:3",
            "data/audit.jsonl:3"
        ],
        "{told}"
    );
}

#[test]
fn a_torn_end_is_no_pass() {
    // CH-JRN-4, CH-JRN-7
    let lines = sample::administration(3);
    for cut in [1, 20] {
        let mut text = sample::text(&lines);
        text.truncate(text.len() - cut);
        let place = Place::new();
        place.write("data/audit.jsonl", text);
        verify(&place).exits(1);
        replay(&place).exits(1);
    }
}

#[test]
fn a_cut_end_shows_when_the_head_is_known() {
    // CH-JRN-7
    let lines = sample::administration(3);
    let head = format!(
        "{}:{}",
        lines.len(),
        Sha256Digest::of(lines.last().unwrap()).hex()
    );
    place_of(&lines)
        .run(&["log", "verify", "data", "--head", &head])
        .exits(0);
    let cut = place_of(&lines[..lines.len() - 1]);
    verify(&cut).exits(0);
    cut.run(&["log", "verify", "data", "--head", &head])
        .exits(1);
    cut.run(&["log", "verify", "data", "--head", "7"]).exits(2);
}

#[test]
fn what_is_no_log_at_all() {
    // CH-JRN-7: 3 for verify; VC-RPL-2: unusable input is 2 for replay.
    let place = Place::new();
    place.write("data/audit.jsonl", "a diary\nof sorts\n");
    verify(&place).exits(3);
    replay(&place).exits(2);
    let long = vec![b'x'; 40 * 1024 * 1024];
    place.write("data/audit.jsonl", long);
    verify(&place).exits(3);
    place.run(&["log", "verify", "nowhere.jsonl"]).exits(2);
}

#[test]
fn an_empty_file_is_no_log() {
    // CH-JRN-7, VC-RPL-2: it lacks the configuration line, which every log begins with.
    let place = place_of(&[]);
    verify(&place).exits(3);
    replay(&place).exits(2);
    place.write("policy.toml", "min_reputation = 1");
    let judge = ["log", "replay", "data", "--with-policy", "policy.toml"];
    place.run(&judge).exits(2);
}

#[test]
fn a_protocol_that_this_build_cannot_check_is_no_pass() {
    // CH-JRN-7
    let place = place_of(&sample::conversation(1));
    let told = verify(&place).exits(1).json();
    assert_eq!(told["findings"][0]["at"], "data/audit.jsonl:4");
    assert_eq!(
        told["findings"][0]["check"],
        "this build cannot check lines of test"
    );
    let told = replay(&place).exits(1).json();
    assert_eq!(told["identical"], false);
}
