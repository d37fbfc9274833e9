//! Key files: a secret that only its owner reads, a public half in the form of a trust file.

use std::os::unix::fs::PermissionsExt as _;

use chancery_core::keys::ed25519::{decode_public_key, parse_secret};
use chancery_value_context::trust::parse_trust;

use crate::support::Place;

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_new_key_goes_into_a_trust_file() {
    // CH-CLI-2, VX-KEY-1, VX-KEY-2, VX-KEY-8
    let place = Place::new();
    let agent = "agent://home.local/parent";
    let made = place
        .run(&["key", "new", "parent.key", "--agent", agent])
        .exits(0);
    assert_eq!(mode(&place.path("parent.key")), 0o600);
    let secret = place.read("parent.key");
    assert_eq!(secret.trim_end().len(), 64);
    assert!(!made.text().contains(secret.trim_end()));
    let records = parse_trust(&made.out).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].owner, agent);
    let public = parse_secret(&secret).unwrap().verifying_key();
    assert_eq!(records[0].public, public.as_bytes());
    let shown = place
        .run(&["key", "show", "parent.key", "--agent", agent])
        .exits(0);
    assert_eq!(shown.text(), made.text());
}

#[test]
fn one_entry_for_machines() {
    let place = Place::new();
    let made = place
        .run(&["key", "new", "a.key", "--id", "k-07", "--json"])
        .exits(0)
        .json();
    assert_eq!(made["id"], "k-07");
    assert_eq!(made["state"], "active");
    decode_public_key(made["public_key"].as_str().unwrap()).unwrap();
}

#[test]
fn a_key_is_never_overwritten() {
    let place = Place::new();
    place.run(&["key", "new", "a.key"]).exits(0);
    let before = place.read("a.key");
    let ran = place.run(&["key", "new", "a.key"]).exits(2);
    assert!(ran.err.contains("a.key"), "{}", ran.err);
    assert_eq!(place.read("a.key"), before);
}

#[test]
fn a_secret_that_others_may_read_is_refused() {
    // VX-KEY-8
    let place = Place::new();
    place.run(&["key", "new", "a.key"]).exits(0);
    let path = place.path("a.key");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = place.run(&["key", "show", "a.key"]).exits(2);
    assert!(ran.err.contains("chmod 600"), "{}", ran.err);
    assert!(!ran.err.contains(place.read("a.key").trim_end()));
}

#[test]
fn a_file_that_is_no_key_is_named_and_not_repeated() {
    let place = Place::new();
    let path = place.write("a.key", "not-a-key-but-secret");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let ran = place.run(&["key", "show", "a.key"]).exits(2);
    assert!(ran.err.contains("a.key"));
    assert!(!ran.err.contains("not-a-key-but-secret"), "{}", ran.err);
}
