//! The list of metrics is whole: what the sources count is on it, with its labels, and nothing else is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::support::{Place, workspace};

/// The text literals of a macro call, up to its closing parenthesis; none of the names or labels holds one.
fn literals(call: &str) -> Vec<&str> {
    let call = call.split(')').next().unwrap_or_default();
    call.split('"').skip(1).step_by(2).collect()
}

/// Each metric that a file counts, with the names of its labels.
fn counted_in(text: &str, into: &mut BTreeMap<String, BTreeSet<String>>) {
    for kind in ["counter!(", "gauge!(", "histogram!("] {
        for call in text.split(kind).skip(1) {
            let call = call.split(".increment(").next().unwrap_or_default();
            let Some(name) = literals(call).first().map(|name| (*name).to_owned()) else {
                continue;
            };
            let labels = call.split("=>").filter_map(|part| {
                let label = part.trim_end().strip_suffix('"')?;
                label.rsplit('"').next().map(str::to_owned)
            });
            into.entry(name).or_default().extend(labels);
        }
    }
}

fn sources(folder: &Path, into: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            counted_in(&std::fs::read_to_string(&path).unwrap(), into);
        }
    }
}

fn listed() -> BTreeMap<String, BTreeSet<String>> {
    let list = Place::new()
        .run(&["schema", "metrics", "--json"])
        .exits(0)
        .json();
    let of = |figure: &Value| {
        let labels = figure["labels"].as_array().unwrap().iter();
        let labels = labels.map(|label| label.as_str().unwrap().to_owned());
        (
            figure["name"].as_str().unwrap().to_owned(),
            labels.collect(),
        )
    };
    list.as_array().unwrap().iter().map(of).collect()
}

// CH-LIM-1
#[test]
fn every_metric_of_the_sources_and_of_a_running_node_is_listed() {
    let mut counted = BTreeMap::new();
    for entry in std::fs::read_dir(workspace().join("crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut counted);
    }
    assert!(counted.len() > 10, "{counted:?}");
    let listed = listed();
    for (name, labels) in &counted {
        assert_eq!(listed.get(name), Some(labels), "{name}");
    }
    let node = Place::for_dev_node().serve();
    let shown = node.wire().get("/metrics").unwrap().text();
    let typed = shown
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let shown: BTreeSet<String> = typed
        .filter_map(|line| line.split(' ').next().map(str::to_owned))
        .collect();
    let counted: BTreeSet<String> = counted.into_keys().collect();
    let all: BTreeSet<String> = listed.into_keys().collect();
    assert_eq!(shown.difference(&all).next(), None);
    let nowhere = all
        .iter()
        .find(|name| !shown.contains(*name) && !counted.contains(*name));
    assert_eq!(nowhere, None);
    node.stop_well();
}

#[test]
fn the_page_is_what_the_program_says() {
    let page = std::fs::read_to_string(workspace().join("docs/metrics.md")).unwrap();
    let said = Place::new()
        .run(&["schema", "metrics", "--markdown"])
        .exits(0)
        .text();
    assert!(
        page == said,
        "chancery schema metrics --markdown > docs/metrics.md"
    );
}
