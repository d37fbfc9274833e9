//! The official clients of A2A and MCP against a node: each signs its calls and verifies the answers on its own side.
//!
//! `cargo xtask setup` installs them, in the versions of the lock files beside the scripts.

use std::path::Path;
use std::process::{Command, Stdio};

use chancery_testkit::official_clients::installed;

use crate::support::{Running, Setup};

#[path = "../../examples/a2a_fixture.rs"]
#[allow(dead_code, reason = "the example has a main of its own")]
mod a2a_fixture;

async fn node() -> Running {
    let node = Setup::with_vacant().start().await;
    // Its card has to name where it really is.
    let vacants = node.vacants.as_ref().unwrap();
    vacants.reconcile(&node.url("")).await.unwrap();
    node
}

async fn runs(mut command: Command) {
    command.stdin(Stdio::null());
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    let output = ran.unwrap().unwrap();
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{said}\n{complained}");
    print!("{said}");
}

fn python(environment: &str, script: &str) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let mut command = Command::new(installed(environment).join("bin/python"));
    command
        .arg("-B")
        .arg(scripts.join(script))
        .env_remove("http_proxy")
        .env("NO_PROXY", "127.0.0.1");
    command
}

fn javascript(script: &str) -> Command {
    let folder = installed("npm");
    let mut command = Command::new(folder.join("node_modules/.bin/node"));
    command.arg(folder.join(script));
    command
}

// VA-A2A-13, VA-A2A-2, VA-A2A-6, VA-A2A-8
#[tokio::test(flavor = "multi_thread")]
async fn a2a_sdk_of_the_1_series() {
    let node = node().await;
    let mut command = python("a2a-1", "a2a_1.py");
    command.arg(node.url(""));
    runs(command).await;
    node.stop().await;
}

// VA-A2A-13, VA-A2A-2, VA-A2A-6, VA-A2A-8
#[tokio::test(flavor = "multi_thread")]
async fn a2a_sdk_of_the_0_3_series() {
    let node = node().await;
    let mut command = python("a2a-0.3", "a2a_0_3.py");
    command.arg(node.url(""));
    runs(command).await;
    node.stop().await;
}

// VA-A2A-2, VA-A2A-6
#[tokio::test(flavor = "multi_thread")]
async fn a2a_sdk_for_javascript() {
    let node = node().await;
    let mut command = javascript("a2a_js.mjs");
    command.arg(node.url(""));
    runs(command).await;
    node.stop().await;
}

// VA-MCP-1, VA-MCP-2, VA-MCP-9
#[tokio::test(flavor = "multi_thread")]
async fn mcp_of_the_1_series() {
    let node = node().await;
    let mut command = python("mcp-1", "mcp_1.py");
    command.arg(node.url("/mcp"));
    runs(command).await;
    node.stop().await;
}

// VA-MCP-1, VA-MCP-2, VA-MCP-10
#[tokio::test(flavor = "multi_thread")]
async fn mcp_of_the_2_series() {
    let node = node().await;
    let mut command = python("mcp-2", "mcp_2.py");
    command.arg(node.url("/agents/bob/mcp"));
    runs(command).await;
    node.stop().await;
}

// VA-MCP-1, VA-MCP-2, VA-MCP-9
#[tokio::test(flavor = "multi_thread")]
async fn mcp_sdk_for_javascript() {
    let node = node().await;
    let mut command = javascript("mcp_js.mjs");
    command.arg(node.url("/mcp"));
    runs(command).await;
    node.stop().await;
}

// VA-A2A-1: the same A2A module with an agent that has tasks, turns, lists and push configurations.
#[tokio::test(flavor = "multi_thread")]
async fn a2a_sdk_reads_every_answer_of_the_fixture() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(a2a_fixture::serve(listener));
    let mut command = python("a2a-1", "a2a_fixture.py");
    command.arg(base);
    runs(command).await;
    serving.abort();
}
