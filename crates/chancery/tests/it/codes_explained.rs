//! `chancery explain` knows every code there is.

use std::collections::BTreeSet;
use std::path::Path;

use chancery_agh::fault::{ErrorName, Reason};
use chancery_core::protocol::Failure;
use chancery_value_context::code::Code as ValueContextCode;
use chancery_vibe::code::Code as VibeCode;
use serde_json::Value;

use crate::support::{Place, workspace};

fn all() -> Vec<Value> {
    let told = Place::new().run(&["explain", "--json"]).exits(0).json();
    told["codes"].as_array().unwrap().clone()
}

fn codes_of(group: &str) -> Vec<String> {
    let all = all().into_iter().filter(|guide| guide["group"] == group);
    all.map(|guide| guide["code"].as_str().unwrap().to_owned())
        .collect()
}

fn same(group: &str, codes: impl IntoIterator<Item = &'static str>) {
    let codes: Vec<&str> = codes.into_iter().collect();
    assert_eq!(codes_of(group), codes, "{group}");
}

// CH-CLI-3, VX-ERR-2, VC-ERR-1, AG-ERR-1, AG-B-48, AG-RSN-1, AG-B-11, CH-CLI-1
#[test]
fn every_code_of_the_types_is_there_and_no_other() {
    same(
        "value-context",
        ValueContextCode::ALL.map(ValueContextCode::as_str),
    );
    same("vibe", VibeCode::ALL.iter().map(|code| code.as_str()));
    same("agh", ErrorName::ALL.iter().map(|error| error.as_str()));
    let reasons = Reason::ALL.iter().map(|reason| reason.as_str());
    same("agh reasons on the wire", reasons);
    same("failed lines of the log", Failure::ALL.map(Failure::as_str));
    same("exit codes of the program", ["0", "1", "2", "3"]);
}

// A word on a line is the one that is explained.
#[test]
fn failures_are_explained_in_the_words_of_the_log() {
    for why in Failure::ALL {
        assert_eq!(serde_json::to_value(why).unwrap(), why.as_str());
    }
}

/// The codes that the sources hand to `Refusal::new` and its like as plain texts.
fn codes_in_sources() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    let mut folders = vec![workspace().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                let is_ours = !["tests", "testkit", "conformance", "benches"].contains(&&*name);
                folders.extend(is_ours.then_some(path));
            } else if name.ends_with(".rs") {
                codes.extend(codes_in(&path));
            }
        }
    }
    codes
}

fn codes_in(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let calls = ["Refusal::new(", "refuse(", "vacant_refusal("];
    let places = calls.iter().flat_map(|call| text.split(call).skip(1));
    let first = places.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
    let is_code =
        |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    first.filter(is_code).map(str::to_owned).collect()
}

// CH-CLI-3: some refusals are made of plain texts, where no type lists them.
#[test]
fn every_code_in_the_sources_is_there() {
    let in_sources = codes_in_sources();
    assert!(
        in_sources.contains("REGISTRY_NOT_ALLOWED"),
        "{in_sources:?}"
    );
    assert!(in_sources.contains("agent_unknown"), "{in_sources:?}");
    let known: BTreeSet<String> = all()
        .iter()
        .map(|guide| guide["code"].as_str().unwrap().to_owned())
        .collect();
    let unknown: Vec<&String> = in_sources.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

// CH-CLI-3
#[test]
fn every_code_says_when_and_what_next_under_a_requirement_that_exists() {
    let ids = std::fs::read_to_string(workspace().join("docs/spec/ids.txt")).unwrap();
    let ids: BTreeSet<&str> = ids.lines().collect();
    for guide in all() {
        let text = |member: &str| guide[member].as_str().unwrap().to_owned();
        assert!(text("when").len() > 4 && text("next").len() > 4, "{guide}");
        for id in text("requirement").split(", ") {
            assert!(ids.contains(id), "{guide}");
        }
    }
}

// CH-CLI-3
#[test]
fn one_code_is_explained_by_name_in_any_case_and_by_number() {
    let place = Place::new();
    let told = place.run(&["explain", "Sender_Suspended"]).exits(0).text();
    assert!(told.contains("sender_suspended  (value-context)"), "{told}");
    assert!(told.contains("sender_suspended  (agh)"), "{told}");
    assert!(told.contains("requirement  VX-RUN-4"), "{told}");
    assert!(told.contains("chancery agent resume"), "{told}");
    let told = place.run(&["explain", "-32001", "--json"]).exits(0).json();
    assert_eq!(told["codes"][0]["code"], "TASK_NOT_FOUND");
    let told = place.run(&["explain", "sender_suspnded"]).exits(1);
    assert!(
        told.err.contains("did you mean sender_suspended?"),
        "{}",
        told.err
    );
}

// CH-CLI-3
#[test]
fn the_page_is_what_the_program_writes() {
    let page = std::fs::read_to_string(workspace().join("docs/errors.md")).unwrap();
    let told = Place::new().run(&["explain", "--markdown"]).exits(0).text();
    assert!(page == told, "chancery explain --markdown > docs/errors.md");
}
