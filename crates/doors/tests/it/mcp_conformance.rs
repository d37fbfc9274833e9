//! The official MCP conformance suite against the fixture server, which stands on the same MCP module as a node.
//!
//! Every scenario that a revision requires of a server has to pass: there is no list of expected failures. What the
//! suite runs without scoring it (extensions, and what its own server cannot do yet) is told and counts for nothing.

use std::process::{Command, Stdio};

use chancery_testkit::official_clients::installed;

#[path = "../../examples/mcp_fixture.rs"]
#[allow(dead_code, reason = "the example has a main of its own")]
mod mcp_fixture;

async fn passes(revision: &str, required: usize) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = tokio::spawn(mcp_fixture::serve(listener));
    let modules = installed("npm").join("node_modules");
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(modules.join(".bin/node"));
    command
        .arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["server", "--url", &url, "--requirements", revision])
        .current_dir(scratch.path())
        .stdin(Stdio::null());
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    let output = ran.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    serving.abort();
    assert!(output.status.success(), "{said}\n{complained}");
    // The summary: first every scenario that ran, then those among them that do not count.
    let (ran, unscored) = said.split_once("Not scored").expect("the suite's summary");
    let lines = ran.lines().filter(|line| line.starts_with(['✓', '✗']));
    let is_unscored = |line: &str| {
        let name = line[3..].trim_start().split(':').next().unwrap_or_default();
        unscored
            .lines()
            .any(|line| line.contains(&format!(" {name} (")))
    };
    let counted: Vec<&str> = lines.filter(|line| !is_unscored(line)).collect();
    let failed: Vec<&&str> = counted
        .iter()
        .filter(|line| line.starts_with('✗'))
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(counted.len(), required, "{said}");
    println!("MCP {revision}: {required} required scenarios passed");
}

// VA-MCP-2, VA-MCP-9: the suite requires 30 scenarios of a server of this revision.
#[tokio::test(flavor = "multi_thread")]
async fn every_required_scenario_of_2025_11_25_passes() {
    passes("2025-11-25", 30).await;
}

// VA-MCP-2, VA-MCP-10: and 37 of one of this revision.
#[tokio::test(flavor = "multi_thread")]
async fn every_required_scenario_of_2026_07_28_passes() {
    passes("2026-07-28", 37).await;
}
