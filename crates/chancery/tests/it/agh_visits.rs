//! Peers that no node hosts, a bridge between the revisions, and tasks: a node as people start it.

use std::process::{Child, Stdio};

use chancery_testkit::nats_server::{Build, NatsServer};
use chancery_testkit::postgres_server::PostgresServer;
use serde_json::{Value, json};

use crate::agh_house::{AghNode, CHANNEL, WORKSPACE, until};
use crate::support::{Place, Ran};
use crate::wire::Wire;

const WORKER: &str = "patch-worker.session-19";
const VISITOR: &str = "visitor.session-7";

fn run(node: &AghNode, arguments: &[&str]) -> Ran {
    let mut command = node.place.command(&[&["agh"], arguments].concat());
    command.env("CHANCERY_URL", &node.url);
    Ran::from(command.stdin(Stdio::null()).output().unwrap())
}

fn echoing(mode: &str, nats: &str) -> AghNode {
    echoing_in(Place::new(), mode, nats)
}

fn echoing_in(place: Place, mode: &str, nats: &str) -> AghNode {
    AghNode::start_in(place, mode, nats, &[WORKER], "behaviour = \"echo\"\n")
}

/// Everything that `chancery agh` does, with this way of speaking.
fn visits(node: &AghNode, way: &[&str], workspace: &[&str]) {
    // A node may not have noticed yet that the visit before is over.
    let go = |arguments: &[&str]| {
        until("the visit before is over", || {
            let ran = run(node, &[arguments, way, workspace].concat());
            (!ran.err.contains("answered 409")).then_some(ran)
        })
    };
    let from = ["--from", VISITOR];
    let ask = ["direct", CHANNEL, WORKER, "Run it.", "--wait", "5"];
    // Work is handed over, taken on and ended while the visitor waits.
    let done = until("the worker is known", || {
        let ran = go(&[&ask[..], &from[..]].concat());
        ran.text().contains("completed").then_some(ran)
    });
    let text = done.exits(0).text();
    assert!(text.contains("echo: Run it."), "{text}");
    until("the worker answers", || {
        let ask = ["whois", CHANNEL, "test.run", "--json"];
        let answers = go(&[&ask[..], &from[..]].concat()).exits(0).json();
        (answers["answers"][0]["peer_id"] == WORKER).then_some(())
    });
    go(&[&["say", CHANNEL, "Hello."][..], &from[..]].concat()).exits(0);
    let peers = go(&["peers", CHANNEL]).exits(0).text();
    assert!(peers.contains(WORKER), "{peers}");
    let stays = ["join", CHANNEL, VISITOR, "--can", "look", "--seconds", "0"];
    let joined = go(&stays).exits(0).text();
    assert!(joined.starts_with("joined  "), "{joined}");
    // Whoever is gone can neither report nor cancel what is over.
    let late = [&["cancel", CHANNEL, WORKER, "work_none"][..], &from[..]].concat();
    match way {
        ["--ws"] => assert!(go(&late).exits(1).err.contains("not_found")),
        _ => {
            go(&late).exits(0);
        }
    }
}

fn replays(node: &mut AghNode) {
    node.kill();
    node.place.run(&["log", "verify"]).exits(0);
    node.place.run(&["log", "replay"]).exits(0);
}

// CH-CLI-2, AG-CON-1, AG-SND-1, AG-TRC-3: through the WebSocket door, in each revision; and the log gives it all again.
#[test]
fn a_visitor_through_the_door_of_a_node() {
    visits_and_replays(echoing("dual", ""));
}

// CH-JRN-5: the same with the journal in PostgreSQL.
#[test]
fn a_visitor_through_the_door_of_a_node_on_postgresql() {
    let place = Place::new().on(PostgresServer::shared(), "visits");
    visits_and_replays(echoing_in(place, "dual", ""));
}

fn visits_and_replays(mut node: AghNode) {
    visits(&node, &["--ws"], &[]);
    visits(&node, &["--ws"], &["--workspace", WORKSPACE]);
    replays(&mut node);
}

// CH-CLI-2, AG-NAT-4, AG-NAT-5, AG-WHO-5: through a broker, where nobody speaks for it.
#[test]
fn a_visitor_through_a_broker() {
    let server = NatsServer::start(Build::Newest, "");
    let url = server.url();
    let mut node = echoing("dual", &url);
    visits(&node, &["--nats", &url], &[]);
    visits(&node, &["--nats", &url], &["--workspace", WORKSPACE]);
    let none = run(&node, &["interactions", CHANNEL, "--nats", &url]).exits(2);
    assert!(none.err.contains("--url"), "{}", none.err);
    let watched = run(&node, &["watch", CHANNEL, "--seconds", "0", "--nats", &url]);
    watched.exits(0);
    // Two visitors without any node find each other.
    let joined = [
        "agh", "join", "quiet", "one.x", "--can", "sing", "--nats", &url,
    ];
    let mut one = node
        .place
        .command(&joined)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("one visitor sees the other", || {
        let ask = [
            "whois", "quiet", "sing", "--from", "two.x", "--json", "--nats", &url,
        ];
        let answers = run(&node, &ask).exits(0).json();
        (answers["answers"][0]["peer_id"] == "one.x").then_some(())
    });
    let _ = one.kill();
    let _ = one.wait();
    replays(&mut node);
}

/// A node with a configuration of its own.
struct Own {
    place: Place,
    child: Child,
    url: String,
}

impl Own {
    fn start(agh: &str) -> Self {
        let place = Place::new();
        let text =
            format!("listen = \"127.0.0.1:0\"\ndev = true\n[agh]\nrevision = \"dual\"\n{agh}");
        place.write("chancery.toml", text);
        let (child, url) = crate::market::serve(&place);
        Self { place, child, url }
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let address = self.url.trim_start_matches("http://").parse().unwrap();
        let mut wire = Wire::connect(address).unwrap();
        wire.post(path, body.to_string().as_bytes()).unwrap().json()
    }

    fn get(&self, path: &str) -> Value {
        let address = self.url.trim_start_matches("http://").parse().unwrap();
        Wire::connect(address).unwrap().get(path).unwrap().ok()
    }

    fn inbox(&self, path: &str) -> Vec<Value> {
        let page = self.get(&format!("/inbox/agh/{path}"));
        let entries = page["entries"].as_array().unwrap().iter();
        entries.map(|entry| entry["envelope"].clone()).collect()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const BRIDGED: &str = r#"
[agh.bridge]
peer = "ferry.bridge"
channel_a = "builders"
workspace_id = "ws_alpha"
channel_b = "makers"
[[agh.peer]]
id = "alice.a"
channel = "builders"
[[agh.peer]]
id = "bob.b"
channel = "makers"
workspace_id = "ws_alpha"
behaviour = "echo"
[[agh.peer]]
id = "carol.b"
channel = "makers"
workspace_id = "ws_alpha"
"#;

// AG-B-46
#[test]
fn work_and_talk_cross_the_bridge_and_come_back_once() {
    let mut node = Own::start(BRIDGED);
    // An interaction whose name is none of a work: it is another on the far side, and its own again on the way back.
    let ask = json!({
        "from": "alice.a", "channel": "builders", "kind": "direct", "to": "ferry.bridge",
        "interaction_id": "int 1", "body": {"text": "do it"}, "ext": {"agh.bridge_to": "bob.b"},
    });
    let sent = node.post("/send/agh", &ask);
    assert_eq!(sent["verdict"], "accept", "{sent}");
    let heard = until("the end of the work", || {
        let heard = node.inbox("builders/alice.a");
        (heard.len() >= 2).then_some(heard)
    });
    assert_eq!(
        heard[0]["body"],
        json!({"for_id": sent["id"], "status": "accepted"})
    );
    assert_eq!(heard[1]["body"]["message"], "echo: do it");
    for report in &heard {
        assert_eq!(
            (&report["from"], &report["interaction_id"]),
            (&json!("ferry.bridge"), &json!("int 1"))
        );
    }
    let state = node.get("/state/agh/builders");
    assert_eq!(state["interactions"][0]["state"], "completed");
    // Work for nobody ends at the bridge.
    let mut lost = ask.clone();
    lost["interaction_id"] = json!("int 2");
    lost["ext"] = json!({});
    node.post("/send/agh", &lost);
    let heard = until("a refusal", || {
        node.inbox("builders/alice.a").get(2).cloned()
    });
    assert_eq!(heard["body"]["reason_code"], "not_found");
    // Talk crosses, once, in both directions.
    node.post("/send/agh", &json!({"from": "alice.a", "channel": "builders", "kind": "say", "body": {"text": "from a"}}));
    node.post(
        "/send/agh",
        &json!({
            "from": "carol.b", "workspace_id": "ws_alpha", "channel": "makers", "kind": "say",
            "surface": "thread", "thread_id": "thread_talk", "body": {"text": "from b"},
        }),
    );
    let at_carol = until("talk in b", || {
        node.inbox("makers/carol.b?workspace=ws_alpha").pop()
    });
    assert_eq!(
        (&at_carol["body"]["text"], &at_carol["thread_id"]),
        (&json!("from a"), &json!("thread_legacy_builders"))
    );
    until("talk in a", || {
        let last = node.inbox("builders/alice.a").pop()?;
        (last["body"]["text"] == "from b").then_some(())
    });
    repeats_nothing(&mut node);
}

/// A restart repeats none of it, and the log gives it all again.
fn repeats_nothing(node: &mut Own) {
    let _ = node.child.kill();
    let _ = node.child.wait();
    let before = node.place.read("chancery-data/audit.jsonl").lines().count();
    (node.child, node.url) = crate::market::serve(&node.place);
    node.post("/send/agh", &json!({"from": "alice.a", "channel": "builders", "kind": "say", "body": {"text": "again"}}));
    until("talk after the restart", || {
        let last = node.inbox("makers/carol.b?workspace=ws_alpha").pop()?;
        (last["body"]["text"] == "again").then_some(())
    });
    let _ = node.child.kill();
    let _ = node.child.wait();
    let after = node.place.read("chancery-data/audit.jsonl").lines().count();
    assert_eq!(after, before + 2, "one line of alice, one of the bridge");
    node.place.run(&["log", "replay", "chancery-data"]).exits(0);
}

const TASKS: &str = r#"
[agh.tasks]
keeper = "keeper.tasks"
writers = ["trusted.x"]
[[agh.peer]]
id = "keeper.tasks"
channel = "builders"
"#;

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

// AG-SEC-4, AG-CARD-12, AG-AUD-2
#[test]
fn tasks_are_written_by_whom_this_node_knows() {
    let node = Own::start(TASKS);
    let envelope = |id: &str, from: &str, members: Value| {
        let mut envelope = json!({
            "protocol": "agh-network/v0", "id": id, "channel": "builders", "from": from, "to": null,
            "ts": now(), "proof": null,
        });
        for (name, value) in members.as_object().unwrap() {
            envelope[name] = value.clone();
        }
        envelope
    };
    let write = |id: &str, from: &str, task: Value| {
        let task = json!({
            "kind": "direct", "to": "keeper.tasks", "interaction_id": format!("task-{id}"),
            "body": {"text": "to do"}, "ext": {"agh.task": task},
        });
        let told = node.post("/agh", &envelope(id, from, task));
        told["error"].as_str().unwrap_or_default().to_owned()
    };
    let task = json!({"request_id": "r1"});
    assert_eq!(write("1", "trusted.x", task.clone()), "peer_not_found");
    for peer in ["trusted.x", "stranger.x"] {
        let card = json!({
            "peer_id": peer, "profiles_supported": [], "capabilities": ["task.write"],
            "artifacts_supported": [], "trust_modes_supported": [],
        });
        let greeting = json!({"kind": "greet", "body": {"peer_card": card}});
        node.post("/agh", &envelope(&format!("g-{peer}"), peer, greeting));
    }
    assert_eq!(write("2", "stranger.x", task.clone()), "capability_denied");
    assert_eq!(
        write(
            "3",
            "trusted.x",
            json!({"request_id": "r", "channel": "other"})
        ),
        "channel_mismatch"
    );
    assert_eq!(write("4", "trusted.x", task), "");
    let kept = node.inbox("builders/keeper.tasks");
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0]["interaction_id"], "task-4");
    // Refusals are audited, by their name and without bodies.
    let audit = until("the audit is written", || {
        let audit =
            std::fs::read_to_string(node.place.path("chancery-data/rejections.jsonl")).ok()?;
        audit.contains("channel_mismatch").then_some(audit)
    });
    assert!(audit.contains("capability_denied") && audit.contains("peer_not_found"));
    assert!(!audit.contains("to do"));
}
