//! `chancery vacant` and `chancery mcp` against the real binary: a caller that has nothing but a key file.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::served::Served;
use crate::support::Place;

/// A place whose node hosts bob, who says what he hears.
fn place() -> Place {
    let place = Place::new()
        .with("CHANCERY_LISTEN", "127.0.0.1:0")
        .with("CHANCERY_DATA", "data")
        .with("CHANCERY_DEV", "true");
    place.run(&["vacant", "init", "bob.key"]).exits(0);
    let agent = "[[vacant.agent]]\nname = \"bob\"\nseed = \"bob.key\"\nstate = \"ACTIVE\"\n\
                 capability = \"echoes what it hears\"\nbehaviour = \"echo\"\n";
    place.write("chancery.toml", agent);
    place
}

fn url(node: &Served) -> String {
    format!("http://{}", node.address)
}

// VA-REP-8, VA-REP-12, VA-REP-13, VA-CLI-2, VA-DSP-5, VA-DSP-6, VA-DSP-10, VA-DSP-11, VA-REG-7, VA-A2A-12, VA-ID-10
#[test]
fn a_caller_with_a_key_file_calls_verifies_and_finds() {
    let place = place();
    let made = place.run(&["vacant", "init", "ada.key", "--json"]).exits(0);
    let ada = made.json()["vacant_id"].clone();
    assert_eq!(ada.as_str().unwrap().len(), 64);
    place.run(&["vacant", "init", "ada.key"]).exits(2);
    let node = place.serve();
    let url = url(&node);
    let node_address = node.address.to_string();
    let call = |target: &str, text: &str| {
        place.run(&["vacant", "call", target, "--key", "ada.key", "--text", text])
    };
    assert_eq!(call(&url, "one").exits(0).text(), "echo: one\n");
    let agent_card = format!("{url}/.well-known/agent-card.json");
    assert_eq!(call(&agent_card, "two").exits(0).text(), "echo: two\n");
    let chains: Value = serde_json::from_str(&place.read("ada.key.chains")).unwrap();
    let (bob, both) = chains.as_object().unwrap().iter().next().unwrap();
    assert_eq!(both["request"]["last_seq"], 2);
    assert_eq!(both["response"]["last_seq"], 2);
    // A caller that has forgotten its chain is told so, and nothing is accepted twice.
    let kept = place.read("ada.key.chains");
    place.write("ada.key.chains", "{}");
    let refused = call(&url, "again").exits(1);
    assert!(refused.err.contains("REPLAY_DETECTED"), "{}", refused.err);
    assert!(refused.err.contains("go on after"), "{}", refused.err);
    // CH-CLI-3
    let told = "  requirement  VA-REP-3\n  next         ";
    assert!(refused.err.contains(told), "{}", refused.err);
    place.write("ada.key.chains", kept);
    assert_eq!(call(&url, "three").exits(0).text(), "echo: three\n");
    let found = place
        .run(&["vacant", "search", &url, "echoes", "--json"])
        .exits(0);
    assert_eq!(found.json()["vacant_id"], json!(bob));
    place.run(&["vacant", "search", &url, "flies"]).exits(1);
    // A node that runs keeps its index to itself.
    place.run(&["vacant", "prune", "data"]).exits(2);
    node.stop_well();
    // Three calls and three answers: the newest of each direction stays, and the chains go on.
    let pruned = place.run(&["vacant", "prune", "data", "--json"]).exits(0);
    assert_eq!(pruned.json()["dropped"], 4);
    let pruned = place.run(&["vacant", "prune", "data", "--json"]).exits(0);
    assert_eq!(pruned.json()["dropped"], 0);
    let listen = node_address;
    let node = place.serve_with(&["--listen", &listen]);
    assert_eq!(call(&url, "four").exits(0).text(), "echo: four\n");
    node.stop_well();
    place.run(&["log", "verify", "data"]).exits(0);
    place.run(&["log", "replay", "data"]).exits(0);
}

/// A registry that names one card, and counts what it is asked.
fn registry(card_hex: String) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut first = String::new();
            stream.read_line(&mut first).unwrap();
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).unwrap();
            }
            let body = json!({"matches": [{"capability_card_blob_hex": card_hex}]}).to_string();
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length:";
            write!(stream.get_mut(), "{head} {}\r\n\r\n{body}", body.len()).unwrap();
            if tell.send(first).is_err() {
                return;
            }
        }
    });
    (url, asked)
}

// VA-DSP-1, VA-DSP-2, VA-DSP-7, VA-DSP-8: the registry is asked once, and the call does not go through it.
#[test]
fn a_capability_is_called_at_the_vacant_that_a_registry_names() {
    let place = place();
    place.run(&["vacant", "init", "ada.key"]).exits(0);
    let node = place.serve();
    let card = node.wire().get("/card").unwrap().ok();
    let blob = card["capability_card_blob_hex"].as_str().unwrap();
    let (registry, asked) = registry(blob.to_owned());
    let call = |more: &[&str]| {
        let mut arguments = vec![
            "vacant", "call", &registry, "--key", "ada.key", "--text", "hi",
        ];
        arguments.extend(["--capability", "echoes"]);
        arguments.extend(more);
        place.run(&arguments)
    };
    // Somebody else named an address of this machine: that is for the user to allow.
    let refused = call(&[]).exits(1);
    assert!(refused.err.contains("--allow-private"), "{}", refused.err);
    let told = call(&["--allow-private", "--json"]).exits(0).json();
    assert_eq!(told["vacant_id"], card["vacant_id"]);
    assert_eq!(told["text"], "echo: hi");
    let heard: Vec<String> = asked.try_iter().collect();
    let search = "POST /v1/query_capability?capability=echoes&limit=20 HTTP/1.1\r\n";
    assert_eq!(
        heard,
        [search, search],
        "one search a call, and nothing else"
    );

    // A hosted vacant asks the node's own registry.
    let says = |capability: &str| {
        let body = json!({"from": "bob", "capability": capability, "text": "me?"}).to_string();
        node.wire().post("/send/vacant", body.as_bytes()).unwrap()
    };
    let told = says("echoes").ok();
    assert_eq!(told["result"]["message"]["parts"][0]["text"], "echo: me?");
    assert_eq!(says("flies").status, 404);
    node.stop_well();
    place.run(&["log", "replay", "data"]).exits(0);
}

// VA-CLI-1, VA-CLI-3
#[test]
fn a_vacant_is_served_from_a_home_that_it_makes_itself() {
    let place = Place::new();
    place.run(&["vacant", "init", "ada.key"]).exits(0);
    let arguments = ["vacant", "serve", "--name", "dan", "--port", "0"];
    let serve = |more: &[&str]| {
        let mut command = place.command(&[&arguments, more].concat());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        (child, serde_json::from_str::<Value>(&line).unwrap())
    };
    let stop = |mut child: std::process::Child| {
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
    };
    let (child, told) = serve(&[]);
    assert_eq!(
        (&told["name"], &told["host"]),
        (&json!("dan"), &json!("127.0.0.1"))
    );
    assert_eq!(told["mcp"], false);
    let endpoint = format!("http://127.0.0.1:{}/a2a/message/send", told["port"]);
    assert_eq!(told["endpoint"], json!(endpoint));
    let call = |endpoint: &str, text: &str| {
        let arguments = [
            "vacant", "call", endpoint, "--key", "ada.key", "--text", text,
        ];
        place.run(&arguments).exits(0).text()
    };
    assert_eq!(call(&endpoint, "one"), "echo: one\n");
    stop(child);
    // It is the same vacant, and knows its chains: the number 1 is used up.
    let (child, again) = serve(&[]);
    assert_eq!(again["vacant_id"], told["vacant_id"]);
    let endpoint = format!("http://127.0.0.1:{}/a2a/message/send", again["port"]);
    assert_eq!(call(&endpoint, "two"), "echo: two\n");
    stop(child);
    place.run(&["log", "verify", "dan.vacant/data"]).exits(0);
    // In memory it forgets them, and says so to whoever goes on where it was.
    let (child, forgot) = serve(&["--store", "memory"]);
    let endpoint = format!("http://127.0.0.1:{}/a2a/message/send", forgot["port"]);
    let refused = place.run(&[
        "vacant", "call", &endpoint, "--key", "ada.key", "--text", "x",
    ]);
    assert!(refused.exits(1).err.contains("REPLAY_DETECTED"));
    stop(child);
    // Beyond this machine only when that is said.
    let open = ["--host", "0.0.0.0", "--store", "memory"];
    place.run(&[&arguments[..], &open].concat()).exits(2);
}

// VA-CLI-2, VA-CARD-3
#[test]
fn what_was_signed_is_told_from_what_was_changed() {
    let place = place();
    place.run(&["vacant", "init", "ada.key"]).exits(0);
    let arguments = [
        "vacant",
        "card",
        "--key",
        "ada.key",
        "--capability",
        "proves theorems",
    ];
    let card = place.run(&arguments).exits(0).text();
    place.write("card.json", &card);
    let told = place
        .run(&["vacant", "verify", "card.json", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&told["kind"], &told["capability"]),
        (&json!("card"), &json!("proves theorems"))
    );
    place.write("card.json", card.replace("proves", "doubts"));
    let refused = place.run(&["vacant", "verify", "card.json"]).exits(1);
    assert!(refused.err.contains("ENVELOPE_SIGNATURE"));
    let vectors = crate::support::workspace().join("vectors/vacant/envelopes_base.json");
    let vectors: Value = serde_json::from_slice(&std::fs::read(vectors).unwrap()).unwrap();
    let case = &vectors["cases"][0];
    place.write("body.json", case["jsonrpc"].to_string());
    let told = place
        .run(&["vacant", "verify", "body.json", "--json"])
        .exits(0)
        .json();
    assert_eq!(told["profile"], "base");
    assert_eq!(told["hash"], case["hash_hex"]);
    place.write("nothing.json", "{}");
    let refused = place.run(&["vacant", "verify", "nothing.json"]).exits(1);
    assert!(refused.err.contains("ENVELOPE_FORMAT"));
}

/// Opens a session over stdio, lists the tools and asks who it is; gives the three answers. Closing the input ends it.
fn session(place: &Place, arguments: &[&str]) -> [Value; 3] {
    let mut command = place.command(arguments);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut ask = |method: &str, params: Value| -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(input, "{body}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{method}: {error}: {line}"))
    };
    let opened = ask(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }),
    );
    let listed = ask("tools/list", json!({}));
    let described = ask(
        "tools/call",
        json!({"name": "vacant_describe", "arguments": {}}),
    );
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "nothing but answers is written");
    assert!(child.wait().unwrap().success());
    [opened, listed, described]
}

fn check([opened, listed, described]: &[Value; 3]) {
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25");
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["vacant_call", "vacant_describe"]);
    let described = &described["result"]["structuredContent"];
    assert_eq!(described["capability_text"], "echoes what it hears");
}

// CH-NET-5, VA-MCP-2
#[test]
fn mcp_over_stdio_goes_through_the_running_node_or_opens_the_store_itself() {
    let place = place();
    // Nobody serves: the command opens the store, and ends with its input.
    check(&session(&place, &["mcp"]));
    let node = place.serve();
    let url = url(&node);
    check(&session(&place, &["mcp", "--url", &url, "--agent", "bob"]));
    let [_, _, unknown] = session(&place, &["mcp", "--url", &url, "--agent", "eve"]);
    assert_eq!(unknown["result"]["isError"], true);
    node.stop_well();
}
