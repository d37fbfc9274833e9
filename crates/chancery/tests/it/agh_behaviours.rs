//! Behaviours that answer for AGH peers of a served node.

use chancery_testkit::postgres_server::PostgresServer;
use serde_json::{Value, json};

use crate::agh_house::until;
use crate::behaviours::{Service, checked};
use crate::support::Place;
use crate::wire::Wire;

/// A folder whose node hosts ann, who has an inbox, and bob with that behaviour.
fn folder(behaviour: &str, more: &str) -> Place {
    let folder = Place::new()
        .with("CHANCERY_LISTEN", "127.0.0.1:0")
        .with("CHANCERY_DATA", "data")
        .with("CHANCERY_DEV", "true");
    let peer = |id: &str, rest: &str| {
        format!("[[agh.peer]]\nid = \"{id}\"\nchannel = \"builders\"\n{rest}")
    };
    let bob = peer("bob", &format!("behaviour = '{behaviour}'\n{more}"));
    folder.write("chancery.toml", peer("ann", "") + &bob);
    folder
}

/// Hands work to bob.
fn direct(wire: &mut Wire, work: &str, text: &str) {
    let body = json!({
        "kind": "direct", "channel": "builders", "from": "ann", "to": "bob",
        "interaction_id": work, "body": {"text": text},
    });
    let body = body.to_string();
    wire.post("/send/agh", body.as_bytes()).unwrap().ok();
}

/// The states that a piece of work went through, as ann was told, once it has ended.
fn told(wire: &mut Wire, work: &str) -> Vec<Value> {
    until("the work has ended", || {
        let page = wire.get("/inbox/agh/builders/ann?after=0&limit=100");
        let page = page.unwrap().ok();
        let entries = page["entries"].as_array().unwrap().iter();
        let own = entries.filter(|entry| entry["envelope"]["interaction_id"] == work);
        let told: Vec<Value> = own.map(|entry| entry["envelope"].clone()).collect();
        let has_ended = told.iter().any(|envelope| envelope["kind"] == "trace");
        has_ended.then_some(told)
    })
}

fn end(told: &[Value]) -> (&str, &str) {
    assert_eq!(told[0]["kind"], "receipt");
    assert_eq!(told[0]["body"]["status"], "accepted");
    assert_eq!(told.len(), 2, "{told:?}");
    let body = &told[1]["body"];
    (
        body["state"].as_str().unwrap(),
        body["message"].as_str().unwrap(),
    )
}

// CH-CFG-1, CH-CFG-3, AG-LIF-1
#[test]
fn a_script_works_for_a_peer() {
    works_by_a_script(&folder("script:script.json", ""));
}

// CH-CFG-1, CH-JRN-5
#[test]
fn a_script_works_for_a_peer_also_on_postgresql() {
    let server = PostgresServer::shared();
    works_by_a_script(&folder("script:script.json", "").on(server, "scripted"));
}

fn works_by_a_script(folder: &Place) {
    let script = json!({"turns": [
        {"when": {"protocol": "agh", "from": "ann", "text": "how are you?"}, "outputs": ["well"]},
        {"when": {"text": "silence"}, "outputs": []},
        {"outputs": [{"text": "$inbound.text"}]},
    ]});
    folder.write("script.json", script.to_string());
    let node = folder.serve();
    let mut wire = node.wire();
    for (work, text) in [
        ("int-1", "how are you?"),
        ("int-2", "silence"),
        ("int-3", "hello"),
    ] {
        direct(&mut wire, work, text);
    }
    assert_eq!(end(&told(&mut wire, "int-1")), ("completed", "well"));
    assert_eq!(end(&told(&mut wire, "int-2")), ("failed", "failed"));
    assert_eq!(end(&told(&mut wire, "int-3")), ("completed", "hello"));
    node.stop_well();
    checked(folder);
}

// CH-CFG-1: the key signs what the service is asked, also without the trust profile.
#[test]
fn a_web_service_works_for_a_peer() {
    let service = Service::start(|body| {
        let message = body["context"]["inbound"]["message"].as_str()?;
        let (_, rest) = message.split_once("preview=\"")?;
        let (preview, _) = rest.split_once('"')?;
        let answer = json!({"text": format!("heard {preview}")});
        Some(("application/json", answer.to_string()))
    });
    let folder = folder(&format!("http:{}/ask", service.url), "key = \"bob.key\"\n");
    folder.run(&["vacant", "init", "bob.key"]).exits(0);
    let node = folder.serve();
    let mut wire = node.wire();
    direct(&mut wire, "int-1", "hello");
    assert_eq!(end(&told(&mut wire, "int-1")), ("completed", "heard hello"));
    let (head, body) = service.asked.recv().unwrap();
    assert!(head.contains("signature-input: sig1="), "{head}");
    let inbound = &body["context"]["inbound"];
    assert_eq!(
        (&inbound["protocol"], &inbound["from"], &inbound["to"]),
        (&json!("agh"), &json!("ann"), &json!("bob"))
    );
    // AG-DLV-5: whoever thinks for a peer is told whose words they are, and gets them apart from the operator's.
    assert_eq!(inbound.get("text"), None);
    let message = inbound["message"].as_str().unwrap();
    assert!(message.starts_with("<agh_message trust=\"untrusted\" id=\""));
    assert!(
        !body["context"]["instructions"]
            .to_string()
            .contains("hello")
    );
    node.stop_well();
    checked(&folder);
}

/// `kill -9` while a web service thinks: the work has failed, and the service is not asked twice.
// CH-JRN-16
#[test]
fn a_kill_while_a_service_thinks_ends_the_work() {
    let service = Service::start(|_| None);
    let folder = folder(&format!("http:{}", service.url), "key = \"bob.key\"\n");
    folder.run(&["vacant", "init", "bob.key"]).exits(0);
    let node = folder.serve();
    direct(&mut node.wire(), "int-1", "think");
    let (_, asked) = service.asked.recv().unwrap();
    let message = asked["context"]["inbound"]["message"].as_str().unwrap();
    assert!(message.contains("preview=\"think\""), "{message}");
    node.kill();
    let node = folder.serve();
    assert_eq!(
        end(&told(&mut node.wire(), "int-1")),
        ("failed", "interrupted")
    );
    assert!(service.asked.try_recv().is_err(), "nobody asked again");
    node.stop_well();
    checked(&folder);
}

// CH-CFG-1
#[test]
fn a_peers_behaviour_that_cannot_be_is_refused_at_the_start() {
    for (behaviour, says) in [
        ("telepathy", "mcp:URL or command"),
        ("model:small", "[model.small]"),
        ("mcp:http://127.0.0.1:1/mcp", "tool"),
        ("http:http://127.0.0.1:1/", "key"),
        ("script:none.json", "none.json"),
    ] {
        let refused = folder(behaviour, "").run(&["serve"]).exits(2);
        assert!(refused.err.contains("peer bob"), "{}", refused.err);
        assert!(refused.err.contains(says), "{}", refused.err);
    }
}

// AG-AUD-4: the timeline of a channel is read out of the log, by whoever has it.
#[test]
fn what_was_said_in_a_channel_is_told_in_its_order() {
    let folder = folder("echo", "");
    let node = folder.serve();
    let mut wire = node.wire();
    direct(&mut wire, "int-1", "one \u{1b}[31m");
    assert_eq!(end(&told(&mut wire, "int-1")).0, "completed");
    // AG-OBS-1: totals per kind. All three were sent by peers that live here, to peers that live here.
    let metrics = wire.get("/metrics").unwrap().text();
    for kind in ["direct", "receipt", "trace"] {
        for direction in ["sent", "delivered"] {
            let labels = format!("{{direction=\"{direction}\",kind=\"{kind}\"}}");
            let count = format!("chancery_agh_envelopes_total{labels} 1");
            assert!(metrics.contains(&count), "{count}: {metrics}");
        }
    }
    node.stop_well();
    let timeline = ["log", "timeline", "builders", "data"];
    let entries = folder
        .run(&[&timeline[..], &["--json"]].concat())
        .exits(0)
        .text();
    let entries: Vec<Value> = entries
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&Value> = entries.iter().map(|entry| &entry["kind"]).collect();
    assert_eq!(kinds, ["direct", "receipt", "trace"]);
    for entry in &entries {
        assert_eq!(entry["channel"], "builders");
        assert_eq!(entry["direction"], "sent");
        assert_eq!(entry["interaction_id"], "int-1");
        assert!(
            entry["id"].is_string() && entry["timestamp"].is_string() && entry["body"].is_object()
        );
    }
    assert_eq!(
        (&entries[0]["from"], &entries[0]["to"]),
        (&json!("ann"), &json!("bob"))
    );
    assert_eq!(entries[0]["preview"], "one \u{1b}[31m");
    assert_eq!(entries[1]["reply_to"], entries[0]["id"]);
    // For people nothing of it speaks to the terminal.
    let table = folder.run(&timeline).exits(0).text();
    assert!(
        table.contains("one \\u{1b}[31m") && !table.contains('\u{1b}'),
        "{table}"
    );
    let last = folder
        .run(&[&timeline[..], &["--limit", "1", "--json"]].concat())
        .exits(0);
    assert_eq!(last.json()["kind"], "trace");
    let other = folder
        .run(&["log", "timeline", "elsewhere", "data", "--json"])
        .exits(0);
    assert_eq!(other.text(), "");
}
