//! The node's own tools over MCP, used by official clients: over HTTP with a token, and over stdio through
//! `chancery mcp --node`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use chancery_testkit::installed::client_script;
use serde_json::{Value, json};

use crate::running_node::{LIVING_ROOM, RunningNode};
use crate::support::Place;

fn runs(mut command: Command) {
    let output = command.output().unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{complained}");
    print!("{said}");
}

fn make_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

// CH-NET-5, CH-ID-2, CH-NET-4
#[test]
fn official_clients_drive_a_node_over_http_and_over_stdio() {
    let node = RunningNode::start();
    let send = format!("send:{LIVING_ROOM}");
    let new = ["token", "new", "driver", "--scope", "read:log", "--scope"];
    let made = node.run(&[&new[..], &[&send, "--json"]].concat());
    let token = made.exits(0).json()["token"].as_str().unwrap().to_owned();
    let file = node.place.write("driver.token", &token);
    make_private(&file);
    let mut over_http = client_script("mcp-1", "mcp_1_node.py");
    over_http.arg(format!("{}/mcp/node", node.url));
    over_http.env("NODE_TOKEN", token);
    runs(over_http);
    for (environment, script) in [("mcp-1", "mcp_1_node.py"), ("mcp-2", "mcp_2_node.py")] {
        let mut over_stdio = client_script(environment, script);
        let program = env!("CARGO_BIN_EXE_chancery");
        over_stdio.args([program, "mcp", "--node", "--url", &node.url, "--token-file"]);
        over_stdio.arg(&file);
        runs(over_stdio);
    }
    drop(node);
}

// CH-NET-5
#[test]
fn who_may_open_the_store_needs_no_token() {
    let place = Place::for_node();
    let mut child = place
        .command(&["mcp", "--node"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let asked = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
            "name": "log_verify", "arguments": {},
        }}),
    ];
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut told = Vec::new();
    for body in asked {
        writeln!(input, "{body}").unwrap();
        if body.get("id").is_some() {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            told.push(serde_json::from_str::<Value>(&line).unwrap());
        }
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_eq!(told[1]["result"]["tools"].as_array().unwrap().len(), 7);
    assert_eq!(told[2]["result"]["structuredContent"]["passed"], true);
}
