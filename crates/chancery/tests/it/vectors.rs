//! `chancery conform --vectors`: nothing is passed over.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Place, workspace};

fn copied() -> Place {
    let place = Place::new();
    for entry in fs::read_dir(workspace().join("vectors/value-context")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        place.write(&format!("v/value-context/{name}"), fs::read(&path).unwrap());
    }
    place
}

fn change(place: &Place, file: &str, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_str(&place.read(file)).unwrap();
    change(&mut value);
    place.write(file, value.to_string());
}

const UUID7: &str = "v/value-context/uuid7.json";

#[test]
fn known_suites_pass_by_either_name() {
    // CH-CLI-2
    let place = copied();
    let cases = |text: &str| text.split(' ').next().unwrap().parse::<u64>().unwrap();
    let ran = place
        .run(&["conform", "--vectors", "v", "--only", "canonicalization"])
        .exits(0)
        .text();
    assert!(ran.ends_with(" passed, 0 failed, 0 skipped\n"), "{ran}");
    let both = "value-context/canonicalization,uuid7";
    let more = place
        .run(&["conform", "--vectors", "v", "--only", both])
        .exits(0)
        .text();
    assert_eq!(cases(&ran), 37);
    assert_eq!(cases(&more), 40);
}

#[test]
fn every_value_context_vector_passes() {
    // CH-CLI-2, VX-TST-1
    let place = copied();
    let ran = place
        .run(&["conform", "--vectors", "v/value-context"])
        .exits(0)
        .text();
    assert_eq!(ran, "327 passed, 0 failed, 0 skipped\n");
}

/// How many cases the files of a folder have: a transcript is one, and so is a row of a table.
fn cases_in(folder: &Path) -> usize {
    let mut cases = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let rows = ["transcripts", "cases"].map(|name| file[name].as_array());
        let rows = rows.into_iter().flatten().map(Vec::len).sum::<usize>();
        assert!(rows > 0, "{}", path.display());
        cases += rows;
    }
    cases
}

#[test]
fn every_vibe_vector_and_every_transcript_of_our_own_passes() {
    // CH-CLI-2: the numbers are those of the files.
    for folder in ["vectors/vibe", "crates/vibe/tests/transcripts"] {
        let folder = workspace().join(folder);
        let cases = cases_in(&folder);
        let place = Place::new();
        let conform = ["conform", "--vectors", folder.to_str().unwrap()];
        let json = [&conform[..], &["--json"]].concat();
        let ran = place.run(&json).exits(0).json();
        assert_eq!((&ran["failed"], &ran["skipped"]), (&0.into(), &0.into()));
        assert!(ran["passed"].as_u64().unwrap() >= cases as u64, "{ran}");
        let ran = place.run(&conform).exits(0).text();
        assert!(ran.ends_with(" passed, 0 failed, 0 skipped\n"), "{ran}");
    }
}

#[test]
fn a_planted_fault_fails_by_its_id() {
    // CH-CLI-2
    let place = copied();
    change(&place, UUID7, |file| {
        file["vectors"][0]["rand_a_hex"] = "fff".into()
    });
    let id = {
        let file: Value = serde_json::from_str(&place.read(UUID7)).unwrap();
        file["vectors"][0]["id"].as_str().unwrap().to_owned()
    };
    let arguments = ["conform", "--vectors", "v", "--only", "uuid7"];
    let ran = place.run(&arguments).exits(1).text();
    assert!(
        ran.contains(&format!("value-context/uuid7.json: {id}: ")),
        "{ran}"
    );
    assert!(ran.ends_with("2 passed, 1 failed, 0 skipped\n"), "{ran}");
    let told = place
        .run(&[&arguments[..], &["--json"]].concat())
        .exits(1)
        .json();
    assert_eq!(
        (&told["passed"], &told["failed"], &told["skipped"]),
        (&2.into(), &1.into(), &0.into())
    );
    assert_eq!(told["failures"][0]["id"], id);
}

#[test]
fn what_no_runner_knows_is_a_failure() {
    // CH-CLI-2: a file, a case or a member.
    let only = ["conform", "--vectors", "v", "--only", "uuid7"];
    let place = copied();
    change(&place, UUID7, |file| {
        file["vectors"][1]["surprise"] = true.into()
    });
    assert!(place.run(&only).exits(1).text().contains("surprise"));
    let place = copied();
    change(&place, UUID7, |file| file["surprise"] = true.into());
    place.run(&only).exits(1);
    let place = Place::new();
    place.write(
        "v/a.json",
        "{\"suite\":\"value-context/surprise\",\"vectors\":[]}",
    );
    place.write("v/b.json", "{\"title\":\"Surprises\"}");
    place.write("v/c.json", "[]");
    place.write("v/d.json", "{");
    let ran = place.run(&["conform", "--vectors", "v"]).exits(1).text();
    assert!(ran.ends_with("0 passed, 4 failed, 0 skipped\n"), "{ran}");
}

#[test]
fn a_suite_that_is_not_there_is_no_pass() {
    let place = copied();
    let ran = place
        .run(&["conform", "--vectors", "v", "--only", "uuid8"])
        .exits(2);
    assert!(
        ran.err.contains("uuid8") && ran.err.contains("value-context/uuid7"),
        "{}",
        ran.err
    );
    place.run(&["conform", "--vectors", "nowhere"]).exits(2);
}
