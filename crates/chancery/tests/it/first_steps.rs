//! `chancery init`: a configuration, a node key, an admin token.

use std::os::unix::fs::PermissionsExt as _;

use chancery::config::{Config, Sources, table};
use chancery_core::digest::Sha256Digest;
use chancery_core::keys::base64::decode_url_array;
use chancery_core::keys::ed25519::parse_secret;

use crate::support::Place;

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn init_writes_a_whole_node() {
    // CH-CLI-2, CH-CFG-1, CH-JRN-9
    let place = Place::new();
    let told = place.run(&["init", "node", "--json"]).exits(0).json();
    assert_eq!(mode(&place.path("node/chancery-data")), 0o700);
    assert_eq!(mode(&place.path("node/chancery-data/node.key")), 0o600);
    assert_eq!(
        mode(&place.path("node/chancery-data/tokens.init.json")),
        0o600
    );
    parse_secret(&place.read("node/chancery-data/node.key")).unwrap();
    assert!(told["public_key"].as_str().unwrap().starts_with("base64:"));
    place
        .run(&["--config", "node/chancery.toml", "config", "check"])
        .exits(0);
}

#[test]
fn the_data_of_a_node_may_be_elsewhere() {
    // CH-CLI-2: the first token is where the node looks for it, from wherever it is started.
    let place = Place::new();
    let token = place
        .run(&["init", "etc", "--data", "state", "--json"])
        .exits(0)
        .json();
    assert!(place.path("state/node.key").exists());
    assert!(!place.path("etc/chancery-data").exists());
    let config = place.path("etc/chancery.toml");
    let config = config.to_str().unwrap();
    place.write("away/empty", "");
    let mut serve = place.command(&["serve", "--config", config, "--listen", "127.0.0.1:0"]);
    serve.current_dir(place.path("away"));
    let node = place.start(serve);
    assert!(place.path("state/audit.jsonl").exists());
    let token = token["admin_token"].as_str().unwrap();
    let asked = node.wire().with_token(token).get("/metrics");
    assert_eq!(asked.unwrap().status, 200);
    node.stop_well();
}

#[test]
fn only_the_hash_of_the_token_is_kept() {
    // CH-ID-1
    let place = Place::new();
    let told = place.run(&["init", "--json"]).exits(0).json();
    let token = told["admin_token"].as_str().unwrap();
    let kept = place.read("chancery-data/tokens.init.json");
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    let (id, secret) = token.strip_prefix("cht_").unwrap().split_once('.').unwrap();
    assert_eq!(secret.len(), 43);
    decode_url_array::<32>(secret).unwrap();
    let expected = serde_json::json!({
        "id": id,
        "principal": "admin",
        "scopes": ["admin"],
        "sha256": Sha256Digest::of(token.as_bytes()).hex(),
    });
    assert_eq!(kept, expected);
    for file in [
        "chancery-data/tokens.init.json",
        "chancery-data/node.key",
        "chancery.toml",
    ] {
        assert!(!place.read(file).contains(secret), "{file}");
    }
}

#[test]
fn init_never_overwrites() {
    // CH-CLI-2
    let place = Place::new();
    place.run(&["init", "node"]).exits(0);
    let files = [
        "node/chancery.toml",
        "node/chancery-data/node.key",
        "node/chancery-data/tokens.init.json",
    ];
    let before: Vec<String> = files.iter().map(|file| place.read(file)).collect();
    let ran = place.run(&["init", "node"]).exits(2);
    assert!(ran.err.contains("chancery.toml"), "{}", ran.err);
    std::fs::remove_file(place.path("node/chancery.toml")).unwrap();
    let ran = place.run(&["init", "node"]).exits(2);
    assert!(ran.err.contains("node.key"), "{}", ran.err);
    assert!(!place.path("node/chancery.toml").exists());
    let after: Vec<String> = files[1..].iter().map(|file| place.read(file)).collect();
    assert_eq!(after, before[1..]);
}

#[test]
fn the_file_holds_every_key_at_its_default() {
    // CH-CFG-1
    let place = Place::new();
    place.run(&["init"]).exits(0);
    let text = place.read("chancery.toml");
    for key in table::KEYS {
        let (_, name) = key.parts();
        let entry = format!("# {}\n{name} = {}\n", key.comment, key.default);
        assert!(text.contains(&entry), "{}", key.name);
    }
    let of_file = Sources {
        file: Some(place.path("chancery.toml")),
        ..Sources::default()
    };
    let mut config = Config::load(&of_file).unwrap();
    assert_eq!(config.data, place.path("chancery-data"));
    config.data = "chancery-data".into();
    // The directory of this test has no chancery.toml.
    assert_eq!(config, Config::load(&Sources::default()).unwrap());
}
