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

/// The texts inside a function that matches on every variant: the compiler sees to it that none is missing.
fn texts_of_match(file: &str, function: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(workspace().join(file)).unwrap();
    let (_, rest) = text.split_once(function).expect(function);
    let (body, _) = rest.split_once("\n    }\n").unwrap();
    assert!(
        !body.contains("_ =>"),
        "{function}: what falls under _ is not told"
    );
    let quoted = body.split('"').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

fn set(codes: Vec<String>) -> BTreeSet<String> {
    codes.into_iter().collect()
}

// CH-CLI-3, VA-ERR-1, VA-A2A-9
#[test]
fn every_error_of_vacant_and_of_a2a_is_there() {
    let errors = texts_of_match("crates/vacant/src/error.rs", "const fn code(&self)");
    assert!(errors.len() >= 16, "{errors:?}");
    let known = set(codes_of("vacant"));
    assert_eq!(
        errors.difference(&known).collect::<Vec<_>>(),
        [] as [&String; 0]
    );

    // Besides its reason each has a name of google.rpc, which is not told as a code.
    let of_rpc = [
        "NOT_FOUND",
        "FAILED_PRECONDITION",
        "UNIMPLEMENTED",
        "INVALID_ARGUMENT",
        "INTERNAL",
    ];
    let mut kinds = texts_of_match("crates/doors/src/a2a/fault.rs", "const fn row(self)");
    kinds.retain(|text| !of_rpc.contains(&text.as_str()));
    kinds.insert("EXTENSION_REQUIRED".to_owned());
    assert_eq!(set(codes_of("a2a")), kinds);
}

/// The sources below a folder, each with its text.
fn sources(folder: &str) -> Vec<String> {
    let (mut texts, mut folders) = (Vec::new(), vec![workspace().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                texts.push(std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    texts
}

// CH-CLI-3, VA-MCP-8: MCP's numbers are constants of a library; the names that our sources use are those that are told.
#[test]
fn every_error_of_mcp_that_is_used_is_there() {
    let mut used = BTreeSet::new();
    for text in sources("crates/doors/src/mcp") {
        for rest in text.split("ErrorCode::").skip(1) {
            let name = rest
                .split(|c: char| !c.is_ascii_uppercase() && c != '_')
                .next();
            used.insert(name.unwrap().to_owned());
        }
        for rest in text.split("ErrorData::").skip(1) {
            let name = rest.split(['(', ':', '<']).next().unwrap();
            used.extend((name != "new").then(|| name.to_ascii_uppercase()));
        }
    }
    assert!(
        used.contains("METHOD_NOT_FOUND") && used.len() >= 5,
        "{used:?}"
    );
    let known = set(codes_of("mcp"));
    assert_eq!(
        used.difference(&known).collect::<Vec<_>>(),
        [] as [&String; 0]
    );
}

// CH-CLI-3, VC-TURN-6, VC-TURN-12
#[test]
fn every_code_of_a_turn_and_of_a_behaviour_is_there() {
    let texts = [sources("crates/agents/src/behaviour"), {
        let turn = workspace().join("crates/agents/src/turn.rs");
        vec![std::fs::read_to_string(turn).unwrap()]
    }];
    let mut codes = BTreeSet::new();
    for text in texts.concat() {
        let constants = text.split("pub const ").skip(1);
        let values = constants.filter_map(|rest| rest.split(';').next()?.split_once(": &str = \""));
        codes.extend(values.map(|(_, value)| value.trim_end_matches('"').to_owned()));
        // None beside the constants.
        for call in ["for_good(\"", "again(\"", "NoWords(\"", "code: \""] {
            assert!(!text.contains(call), "{call}");
        }
    }
    assert!(codes.contains("undecodable_decision"), "{codes:?}");
    assert_eq!(set(codes_of("turns of agents")), codes);
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
