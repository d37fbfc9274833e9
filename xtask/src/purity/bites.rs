//! Every entry of `clippy.toml` that guards the pure crates bites: a package with one offending line per entry is
//! given to clippy, and each line must be reported.

use super::FORBID;
use crate::{project, run};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What stands after the path to name a generic function, or to call one that cannot be named alone.
const METHODS: &[(&str, &str)] = &[
    ("std::time::SystemTime::now", ""),
    ("std::time::SystemTime::elapsed", ""),
    ("std::time::Instant::now", ""),
    ("std::time::Instant::elapsed", ""),
    ("jiff::Timestamp::now", ""),
    ("jiff::Zoned::now", ""),
    ("std::fs::canonicalize", "::<&str>"),
    ("std::fs::copy", "::<&str, &str>"),
    ("std::fs::create_dir", "::<&str>"),
    ("std::fs::create_dir_all", "::<&str>"),
    ("std::fs::exists", "::<&str>"),
    ("std::fs::hard_link", "::<&str, &str>"),
    ("std::fs::metadata", "::<&str>"),
    ("std::fs::read", "::<&str>"),
    ("std::fs::read_dir", "::<&str>"),
    ("std::fs::read_link", "::<&str>"),
    ("std::fs::read_to_string", "::<&str>"),
    ("std::fs::remove_dir", "::<&str>"),
    ("std::fs::remove_dir_all", "::<&str>"),
    ("std::fs::remove_file", "::<&str>"),
    ("std::fs::rename", "::<&str, &str>"),
    ("std::fs::set_permissions", "::<&str>"),
    ("std::fs::symlink_metadata", "::<&str>"),
    ("std::fs::write", "::<&str, &str>"),
    ("std::path::Path::canonicalize", ""),
    ("std::path::Path::exists", ""),
    ("std::path::Path::is_dir", ""),
    ("std::path::Path::is_file", ""),
    ("std::path::Path::is_symlink", ""),
    ("std::path::Path::metadata", ""),
    ("std::path::Path::read_dir", ""),
    ("std::path::Path::read_link", ""),
    ("std::path::Path::symlink_metadata", ""),
    ("std::path::Path::try_exists", ""),
    (
        "std::net::ToSocketAddrs::to_socket_addrs",
        "(\"localhost:1\")",
    ),
    ("std::io::stdin", ""),
    ("std::io::stdout", ""),
    ("std::io::stderr", ""),
    ("std::env::args", ""),
    ("std::env::args_os", ""),
    ("std::env::current_dir", ""),
    ("std::env::current_exe", ""),
    ("std::env::set_current_dir", "::<&str>"),
    ("std::env::set_var", "::<&str, &str>"),
    ("std::env::remove_var", "::<&str>"),
    ("std::env::temp_dir", ""),
    ("std::env::var", "::<&str>"),
    ("std::env::var_os", "::<&str>"),
    ("std::env::vars", ""),
    ("std::env::vars_os", ""),
    ("std::thread::available_parallelism", ""),
    ("std::thread::current", ""),
    ("std::thread::park", ""),
    ("std::thread::park_timeout", ""),
    ("std::thread::scope", "(|_| ())"),
    ("std::thread::sleep", ""),
    ("std::thread::spawn", "(|| ())"),
    ("std::thread::yield_now", ""),
    ("std::process::abort", ""),
    ("std::process::exit", ""),
    ("std::process::id", ""),
    ("std::hash::RandomState::new", ""),
    ("uuid::Uuid::new_v4", ""),
    ("uuid::Uuid::now_v7", ""),
];

/// Packages that the rules name, made small: the rule must bite on the path, whoever stands behind it.
const STAND_INS: &[(&str, &str)] = &[
    (
        "jiff",
        "pub struct Timestamp;\nimpl Timestamp { pub fn now() {} }\npub struct Zoned;\nimpl Zoned { pub fn now() {} }\n",
    ),
    (
        "uuid",
        "pub struct Uuid;\nimpl Uuid { pub fn new_v4() {}\npub fn now_v7() {} }\n",
    ),
];

#[test]
fn each_disallowed_call_and_type_is_reported_on_its_line() {
    let rules: toml::Table = std::fs::read_to_string(project::root().join("clippy.toml"))
        .unwrap()
        .parse()
        .unwrap();
    let methods = paths_of(&rules, "disallowed-methods");
    let known: BTreeSet<String> = METHODS.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(
        methods, known,
        "every disallowed method has its offending line here"
    );

    let folder = tempfile::tempdir().unwrap();
    let expected = write_offending_package(folder.path(), &paths_of(&rules, "disallowed-types"));
    let reported = clippy_lines(folder.path());
    let silent: Vec<&String> = expected
        .iter()
        .filter(|(line, _)| !reported.contains(line))
        .map(|(_, path)| path)
        .collect();
    assert!(silent.is_empty(), "clippy lets these pass: {silent:?}");
}

fn paths_of(rules: &toml::Table, list: &str) -> BTreeSet<String> {
    let entries = rules[list].as_array().unwrap().iter();
    entries
        .map(|entry| {
            entry
                .as_str()
                .unwrap_or_else(|| entry["path"].as_str().unwrap())
                .to_owned()
        })
        .collect()
}

/// Writes the package and says which rule each line offends.
fn write_offending_package(folder: &Path, types: &BTreeSet<String>) -> BTreeMap<u64, String> {
    let mut lines = vec!["#![allow(unused)]".to_owned()];
    lines.extend(FORBID.iter().map(|line| (*line).to_owned()));
    let mut expected = BTreeMap::new();
    for (number, (path, rest)) in METHODS.iter().enumerate() {
        lines.push(format!("pub fn m{number}() {{ let _ = {path}{rest}; }}"));
        expected.insert(lines.len() as u64, (*path).to_owned());
    }
    for (number, path) in types.iter().enumerate() {
        lines.push(format!("use {path} as T{number};"));
        expected.insert(lines.len() as u64, path.clone());
    }
    let package = |name: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n")
    };
    let mut manifest = package("offender") + "[workspace]\n[dependencies]\n";
    for (name, source) in STAND_INS {
        manifest += &format!("{name} = {{ path = \"{name}\" }}\n");
        write(&folder.join(name).join("Cargo.toml"), &package(name));
        write(&folder.join(name).join("src/lib.rs"), source);
    }
    write(&folder.join("Cargo.toml"), &manifest);
    write(&folder.join("src/lib.rs"), &(lines.join("\n") + "\n"));
    expected
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The lines of the package's `lib.rs` that the two lints report.
fn clippy_lines(folder: &Path) -> BTreeSet<u64> {
    let output = run::cargo(folder, &["clippy", "--offline", "--message-format", "json"])
        .env("CLIPPY_CONF_DIR", project::root())
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .output()
        .unwrap();
    let mut reported = BTreeSet::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        let code = message["message"]["code"]["code"]
            .as_str()
            .unwrap_or_default();
        if message["reason"] != "compiler-message" || message["message"]["level"] != "error" {
            continue;
        }
        let rendered = &message["message"]["rendered"];
        assert!(
            code.starts_with("clippy::disallowed_"),
            "the package itself is wrong: {rendered}"
        );
        let spans = message["message"]["spans"].as_array().unwrap();
        reported.extend(spans.iter().filter_map(|span| span["line_start"].as_u64()));
    }
    assert!(
        !reported.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    reported
}
