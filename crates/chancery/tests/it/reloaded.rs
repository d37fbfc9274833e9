//! A running node reads its files again, by command and by signal: what changed is told, and what counts only after a
//! restart; a file that is wrong changes nothing.

use chancery_core::digest::Sha256Digest;
use serde_json::{Value, json};

use crate::agh_house::until;
use crate::served::{HOSTED, Served, signal, world};
use crate::support::{Place, Ran};

/// Names a file that nobody watches: it is read again only for whoever asks.
const TOKENS: &str = "[vibe]\ntokens = \"tokens.toml\"\n";

fn place() -> Place {
    let place = Place::for_dev_node();
    place.write("tokens.toml", tokens(&["shop"]));
    place.write("chancery.toml", format!("inbox_depth = 1000\n{TOKENS}"));
    place
}

/// A file with a token for each of them.
fn tokens(principals: &[&str]) -> String {
    let token = |name: &&str| {
        let hash = Sha256Digest::of(name.as_bytes()).hex();
        format!("[[token]]\nhash = \"{hash}\"\nprincipal = \"{name}\"\n")
    };
    principals.iter().map(token).collect()
}

/// The lines of tokens: each adds one.
fn token_lines(place: &Place) -> usize {
    let lines = place.log_lines();
    let is_token = |line: &&String| line.contains("file/");
    lines.iter().filter(is_token).count()
}

fn reload(place: &Place, node: &Served, arguments: &[&str]) -> Ran {
    let url = format!("http://{}", node.address);
    place.run(&[&["reload", "--url", &url], arguments].concat())
}

/// The world with one agent more.
fn larger_world() -> Value {
    let mut world = world();
    let agents = world["local_agents"].as_array_mut().unwrap();
    agents.push(json!({"id": "agent://home.test/attic", "parent": null, "children": [], "peers": [HOSTED[0]]}));
    world
}

fn hosted(node: &Served) -> usize {
    let listed = node.wire().get("/admin/agents").unwrap().text();
    listed.matches("agent://home.test/attic").count()
}

// CH-JRN-1, VX-KEY-7
#[test]
fn a_command_tells_what_changed_and_what_needs_a_restart() {
    let place = place();
    let node = place.serve();
    let told = reload(&place, &node, &["--json"]).exits(0).json();
    assert_eq!(told, json!({"changed": [], "needs_restart": []}));
    place.write(
        "chancery.toml",
        format!(
            "inbox_depth = 2000\n[limits]\nwebsockets = 7\n{TOKENS}[[agh.peer]]\nid = \"ann\"\nchannel = \"builders\"\n"
        ),
    );
    place.write("world.json", larger_world().to_string());
    let told = reload(&place, &node, &[]).exits(0).text();
    // The file may have been seen by itself in the meantime: then it is on record already.
    assert!(told.contains("needs restart  inbox_depth\n"), "{told}");
    assert!(
        told.contains("needs restart  limits.websockets\n"),
        "{told}"
    );
    assert!(told.contains("needs restart  [agh.…]\n"), "{told}");
    assert_eq!(told.matches("needs restart").count(), 3, "{told}");
    assert!(hosted(&node) > 0);
    node.stop_well();
}

// CH-JRN-1, VX-KEY-7
#[test]
fn a_command_names_what_changed_and_in_how_many_lines() {
    let place = place();
    let node = place.serve();
    assert_eq!(token_lines(&place), 1);
    place.write("tokens.toml", tokens(&["press", "shop", "stand"]));
    let told = reload(&place, &node, &["--json"]).exits(0).json();
    let changed = json!([{"what": "tokens of vibe", "lines": 2}]);
    assert_eq!(told, json!({"changed": changed, "needs_restart": []}));
    assert_eq!(token_lines(&place), 3);
    place.write("tokens.toml", tokens(&["shop"]));
    let told = reload(&place, &node, &[]).exits(0).text();
    assert_eq!(told, "changed        tokens of vibe (2)\n");
    node.stop_well();
}

#[test]
fn a_file_that_is_wrong_is_named_and_changes_nothing() {
    let place = place();
    let node = place.serve();
    let lines = place.log_lines();
    place.write("chancery.toml", "inbox_dept = 2000\n");
    let refused = reload(&place, &node, &[]).exits(1).err;
    for part in ["nothing changed", "chancery.toml:1", "inbox_dept"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    place.write("chancery.toml", TOKENS);
    place.write("world.json", "{\"trust\": 7}");
    let refused = reload(&place, &node, &[]).exits(1).err;
    assert!(refused.contains("world.json"), "{refused}");
    assert_eq!(place.log_lines(), lines);
    node.stop_well();
}

// VX-KEY-7
#[test]
fn a_signal_does_the_same() {
    let place = place();
    let node = place.serve();
    assert_eq!(token_lines(&place), 1);
    place.write("tokens.toml", tokens(&["shop", "stand"]));
    signal("HUP", node.pid());
    until("the new token is on record", || {
        (token_lines(&place) == 2).then_some(())
    });
    node.stop_well();
}
