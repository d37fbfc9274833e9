//! Trust files and world files.

use crate::support::{vector_file, vector_json, world};
use chancery_core::keys::KeyState;
use chancery_value_context::trust::parse_trust;
use chancery_value_context::world::World;
use serde_json::{Value, json};

// VX-KEY-1, CH-CFG-5
#[test]
fn the_world_of_the_vectors_is_read_whole() {
    let world = world();
    assert_eq!(world.keys.len(), 13);
    let retired = world.keys.iter().find(|key| key.id == "k-12").unwrap();
    assert_eq!(retired.state, KeyState::Retired);
    assert_eq!(retired.owner, "agent://orchestrator.prod/parent-001");
    assert_eq!(world.agents.len(), 3);
    let child = &world.agents[1];
    assert_eq!(child.id.as_str(), "agent://orchestrator.prod/child-007");
    let parent = child.parent.as_ref().unwrap();
    assert_eq!(parent.as_str(), "agent://orchestrator.prod/parent-001");
    assert_eq!(child.peers.len(), 2);
    assert_eq!(world.agents[2].parent, None);
    assert!(world.addresses.is_empty());
}

#[test]
fn optional_members_of_an_agent_are_read() {
    let mut file = vector_json("world.json");
    file["addresses"] = json!({"agent://a/b": "https://a/.well-known/vcp/messages"});
    let agent = &mut file["local_agents"][0];
    agent["context"] = "📍💻".into();
    agent["constitution_ref"] = "creed://creed.space/x@latest".into();
    agent["escalation_path"] = json!(["agent://orchestrator.prod/board"]);
    agent["operator_constraints"] = json!([{"type": "token_limit", "value": 10.0}]);
    agent["key_file"] = "parent.key".into();
    agent["agent"] = "parent".into();
    agent["colour"] = "blue".into();
    let world = World::parse(file.to_string().as_bytes()).unwrap();
    let agent = &world.agents[0];
    assert_eq!(agent.context.as_deref(), Some("📍💻"));
    assert_eq!(
        agent.constitution_ref.as_deref(),
        Some("creed://creed.space/x@latest")
    );
    assert_eq!(agent.escalation_path.len(), 1);
    assert_eq!(&*agent.operator_constraints[0].kind, "token_limit");
    assert_eq!(&*agent.operator_constraints[0].value, "10");
    assert_eq!(agent.key_file.as_deref(), Some("parent.key"));
    assert_eq!(agent.participant.as_deref(), Some("parent"));
    assert_eq!(world.addresses.len(), 1);
}

/// The pointer and words with which a changed world file is refused.
fn refusal(change: impl FnOnce(&mut Value)) -> (String, String) {
    let mut file = vector_json("world.json");
    change(&mut file);
    let fault = World::parse(file.to_string().as_bytes()).unwrap_err();
    (fault.path.to_pointer(), fault.reason.to_string())
}

const AGENT: &str = "agent://home.local/kitchen-agent";
const KEY: &str = "/trust/trust_anchors/agent:~1~1home.local~1kitchen-agent/keys/0";

fn key(file: &mut Value) -> &mut Value {
    &mut file["trust"]["trust_anchors"][AGENT]["keys"][0]
}

// VX-KEY-1, VX-KEY-2
#[test]
fn a_broken_key_is_refused_where_it_stands() {
    let at = |member: &str| format!("{KEY}/{member}");
    let case = |member: &'static str, value: Value| refusal(move |file| key(file)[member] = value);
    assert_eq!(
        case("algorithm", "rsa".into()),
        (at("algorithm"), "must be ed25519".into())
    );
    assert_eq!(case("valid_from", "2026".into()).0, at("valid_from"));
    assert_eq!(case("state", "lost".into()).0, at("state"));
    assert_eq!(case("id", "".into()).0, at("id"));
    assert_eq!(case("public_key", "hex:00".into()).0, at("public_key"));
    let pkcs8 = "base64:MC4CAQAwBQYDK2VwBCIEIAMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMD";
    let (path, reason) = case("public_key", pkcs8.into());
    assert_eq!(path, at("public_key"));
    assert!(reason.contains("private key"), "{reason}");
    let removed = refusal(|file| {
        key(file).as_object_mut().unwrap().remove("valid_until");
    });
    assert_eq!(removed, (at("valid_until"), "is missing".into()));
    assert_eq!(case("valid_until", "2020-01-01T00:00:00Z".into()).0, KEY);
}

// VX-KEY-2
#[test]
fn a_key_may_be_written_as_subject_public_key_info() {
    let mut file = vector_json("world.json")["trust"].clone();
    let spki = "ed25519:MCowBQYDK2VwAyEA7UkoxijRwsbq6QM4kFmVYSlZJzpcY/k2NsFGFKyHN9E=";
    let anchor = &mut file["trust_anchors"]["agent://home.local/living-room-agent"];
    anchor["keys"][0]["public_key"] = spki.into();
    let plain = parse_trust(vector_json("world.json")["trust"].to_string().as_bytes());
    assert_eq!(parse_trust(file.to_string().as_bytes()), plain);
}

// CH-CFG-5
#[test]
fn a_broken_agent_is_refused_where_it_stands() {
    let agent = |member: &'static str, value: Value| {
        refusal(move |file| file["local_agents"][2][member] = value).0
    };
    let at = |member: &str| format!("/local_agents/2/{member}");
    assert_eq!(agent("id", "broadcast".into()), at("id"));
    assert_eq!(
        agent("id", "agent://orchestrator.prod/child-007".into()),
        at("id")
    );
    assert_eq!(agent("parent", AGENT.into()), at("parent"));
    assert_eq!(agent("peers", json!(["a", "a"])), at("peers/1"));
    assert_eq!(agent("children", json!([AGENT])), at("children/0"));
    assert_eq!(agent("children", "a".into()), at("children"));
    assert_eq!(agent("context", "⏰".into()), at("context"));
    // CH-ID-5: whoever has no name would be one with everybody else who has none.
    assert_eq!(agent("agent", "".into()), at("agent"));
    assert_eq!(
        agent("constitution_ref", "creed://a".into()),
        at("constitution_ref")
    );
    assert_eq!(
        agent("operator_constraints", json!([{"type": "x"}])),
        at("operator_constraints/0/value")
    );
    let address = refusal(|file| file["addresses"] = json!({"a": "ftp://a"}));
    assert_eq!(address.0, "/addresses/a");
    let seed = refusal(|file| file["secret_seeds_hex"][AGENT] = "03".into());
    assert_eq!(seed.1, "must be 64 hex characters");
    assert!(!seed.1.contains("03"));
}

#[test]
fn a_file_that_is_no_json_or_has_a_name_twice_is_refused() {
    assert!(World::parse(b"{").is_err());
    assert!(World::parse(b"[]").is_err());
    let twice = vector_file("world.json").replacen("\"now\":", "\"trust\":", 1);
    let fault = World::parse(twice.as_bytes()).unwrap_err();
    assert!(fault.to_string().contains("twice"), "{fault}");
}

// VX-GEN-3, VX-CRD-7, VX-SCH-3: built from nothing that has a socket or a disk, and forbidden to use the standard
// library's, so nothing is fetched. `cargo xtask purity` says the same of what stands below these.
#[test]
fn this_crate_has_no_way_to_a_socket_or_a_disk() {
    const PURE: [&str; 7] = [
        "bytes",
        "chancery-core",
        "schemars",
        "serde",
        "serde_json",
        "thiserror",
        "unicode-normalization",
    ];
    let manifest = include_str!("../../Cargo.toml");
    let (_, rest) = manifest.split_once("[dependencies]\n").unwrap();
    let dependencies: Vec<&str> = rest
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ']).next())
        .filter(|name| !name.is_empty())
        .collect();
    assert_eq!(dependencies, PURE);
    let library = include_str!("../../src/lib.rs");
    for half in ["disallowed_methods", "disallowed_types"] {
        let forbids = format!("#![cfg_attr(not(test), forbid(clippy::{half}))]");
        assert!(library.contains(&forbids), "{forbids}");
    }
}
