//! The model and the rules are two readings of one specification, and stay so.

use std::path::Path;

/// What a model may take from the other tests: how stamps are written.
const SHARED: [&str; 2] = ["noon", "seconds"];

/// The lines by which a file of the model would know the rules: their crate, or tests that may use it.
fn leaks(source: &str) -> Vec<&str> {
    let is_leak = |line: &&str| {
        let code = line.split("//").next().unwrap();
        if code.contains("chancery_vibe") || code.contains("chancery_journal") {
            return true;
        }
        let Some(taken) = code.split("crate::").nth(1) else {
            return code.contains("super::super");
        };
        let names = taken.strip_prefix("support::").unwrap_or("*");
        let names = names
            .trim_start_matches('{')
            .trim_end_matches([';', '}', ' ']);
        names.split(',').any(|name| !SHARED.contains(&name.trim()))
    };
    source.lines().filter(is_leak).collect()
}

#[test]
fn what_would_tell_the_model_of_the_rules_is_found() {
    for line in [
        "use chancery_vibe::money::MAX;",
        "    let max = chancery_vibe::money::MAX;",
        "use chancery_journal::Fold;",
        "use crate::support::world;",
        "use crate::support::{noon, world};",
        "use crate::support::*;",
        "use crate::replay::lines;",
        "use crate::support::{",
        "use super::super::suite::VibeSuite;",
    ] {
        assert_eq!(leaks(line), [line]);
    }
    for line in [
        "use crate::support::noon;",
        "use crate::support::{noon, seconds};",
        "use super::state::Model;",
        "use chancery_core::digest::Sha256Digest;",
        "// what chancery_vibe does is nothing to the model",
    ] {
        assert_eq!(leaks(line), [""; 0]);
    }
}

#[test]
fn the_model_knows_nothing_of_the_rules() {
    // What the node does is compared with the specification, not with itself; `mod.rs` compares.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/model");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name != "mod.rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            assert_eq!(leaks(&source), [""; 0], "{}", path.display());
            files += 1;
        }
    }
    assert!(files >= 9, "{files} files of the model were read");
}
