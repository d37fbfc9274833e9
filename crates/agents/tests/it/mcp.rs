//! A tool of an MCP server as a behaviour: the official servers of both series, one over stdio and one over HTTP.
//!
//! `cargo xtask setup` installs them, in the versions of their lock files.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use chancery_agents::behaviour::mcp::{McpSubstrate, Place, SubstrateRequest};
use chancery_agents::behaviour::{Behaviour, Words, http};
use chancery_agents::host::Hosted;
use chancery_core::line::ProtocolName;
use chancery_node::respond::{NoWords, Question, Respond as _};
use chancery_testkit::installed::official_client;
use chancery_testkit::process::bound;
use serde_json::{Value, json};

use crate::desk::merchant;
use crate::hosted::{House, post, question};

fn server(name: &str) -> PathBuf {
    let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
    servers.join(name)
}

/// A server of the 1.x series, which the substrate starts.
fn over_stdio() -> McpSubstrate {
    let (python, script) = (
        official_client("mcp-1").join("bin/python"),
        server("mcp_1.py"),
    );
    let line = format!("stdio:{} -B \"{}\"", python.display(), script.display());
    let place = Place::parse(&line).unwrap();
    McpSubstrate::new(place, "infer", http::client().unwrap())
}

/// A server of the 2.x series, which runs by itself.
struct Web {
    child: Child,
    port: u16,
}

impl Web {
    fn start() -> Self {
        let mut python = Command::new(official_client("mcp-2").join("bin/python"));
        python.arg("-B").arg(server("mcp_2.py"));
        let mut child = bound(&python)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut port).unwrap();
        Self {
            port: port.trim().parse().unwrap(),
            child,
        }
    }

    fn substrate(&self) -> McpSubstrate {
        let place = Place::parse(&format!("http://127.0.0.1:{}/mcp", self.port)).unwrap();
        McpSubstrate::new(place, "infer", http::client().unwrap())
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn asked(text: &str) -> SubstrateRequest {
    SubstrateRequest {
        system_prompt: "You answer.".to_owned(),
        user_prompt: format!("## inbound\n{}", json!({"text": text})),
        tools: vec!["calculator".to_owned()],
        metadata: serde_json::Map::from_iter([("agent".to_owned(), json!("bob"))]),
    }
}

/// The process that gave an answer.
fn process(text: &str) -> u32 {
    let number = text.rsplit(' ').next().unwrap().trim_end_matches(')');
    number.parse().unwrap()
}

// VA-SUB-1, VA-SUB-2, VA-SUB-3, VA-SUB-4: one that is greeted with `initialize`.
#[tokio::test]
async fn a_server_of_the_1_series_answers_over_stdio() {
    let substrate = over_stdio();
    assert!(substrate.name().starts_with("mcp:stdio:"));
    assert!(substrate.name().ends_with(":infer"));
    let answer = substrate.infer(asked("hello")).await.unwrap();
    assert!(
        answer.text.starts_with("2025-11-25: hello (bob, 1 tools, "),
        "{}",
        answer.text
    );
    assert_eq!(answer.model_id, "infer");
    assert!(answer.usage.is_empty());
    assert!(
        answer.proof["server_url"]
            .as_str()
            .unwrap()
            .contains("mcp_1.py")
    );
    // The connection is kept: the same process answers again.
    let again = substrate.infer(asked("again")).await.unwrap();
    assert_eq!(process(&answer.text), process(&again.text));
}

// VA-SUB-2, VA-SUB-3, VA-SUB-4: one of the newest revision.
#[tokio::test]
async fn a_server_of_the_2_series_answers_over_http() {
    let server = Web::start();
    let substrate = server.substrate();
    let url = format!("http://127.0.0.1:{}/mcp", server.port);
    assert_eq!(substrate.name(), format!("mcp:{url}:infer"));
    let answer = substrate.infer(asked("hello")).await.unwrap();
    assert!(
        answer.text.starts_with("2026-07-28: hello (bob, 1 tools, "),
        "{}",
        answer.text
    );
    assert_eq!(Value::Object(answer.proof), json!({ "server_url": url }));
}

// VA-SUB-4, VA-SUB-6: errors, floods and silence of either are no text; the next question is answered.
#[tokio::test]
async fn what_is_no_answer_is_told_as_such() {
    let server = Web::start();
    for substrate in [over_stdio(), server.substrate()] {
        let substrate = substrate.with_timeout(Duration::from_secs(20));
        assert_eq!(substrate.infer(asked("fail")).await, Err("mcp_error"));
        assert_eq!(substrate.infer(asked("flood")).await, Err("mcp_answer"));
        let answer = substrate.infer(asked("hello")).await.unwrap();
        assert!(answer.text.contains(": hello ("), "{}", answer.text);
        let substrate = substrate.with_timeout(Duration::from_millis(300));
        assert_eq!(substrate.infer(asked("hang")).await, Err("mcp_timeout"));
        let substrate = substrate.with_timeout(Duration::from_secs(20));
        let answer = substrate.infer(asked("hello")).await.unwrap();
        assert!(answer.text.contains(": hello ("), "{}", answer.text);
    }
}

// VA-SUB-6: a child that died is started once more; one that dies again has failed.
#[tokio::test]
async fn a_dead_child_is_started_once_more() {
    let substrate = over_stdio();
    let first = substrate.infer(asked("hello")).await.unwrap();
    let killed = Command::new("kill")
        .args(["-9", &process(&first.text).to_string()])
        .status();
    assert!(killed.unwrap().success());
    let second = substrate.infer(asked("hello")).await.unwrap();
    assert_ne!(process(&first.text), process(&second.text));
    assert_eq!(substrate.infer(asked("die")).await, Err("mcp_failed"));
    assert!(substrate.infer(asked("hello")).await.is_ok());
}

/// Whoever lets go of a substrate ends its child.
#[tokio::test]
async fn a_child_ends_with_its_substrate() {
    let substrate = over_stdio();
    let answer = substrate.infer(asked("hello")).await.unwrap();
    let process = format!("/proc/{}/stat", process(&answer.text));
    assert!(Path::new(&process).exists());
    drop(substrate);
    // It is gone, or waits to be collected.
    let is_over = || {
        let stat = std::fs::read_to_string(&process);
        stat.map_or(true, |stat| stat.contains(") Z "))
    };
    while !is_over() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A server that is not there, and a program that is none, are failures and nothing more.
#[tokio::test]
async fn a_server_that_is_not_there_has_failed() {
    for place in ["http://127.0.0.1:9/mcp", "stdio:/no/such/program", "true"] {
        let place = Place::parse(place).unwrap();
        let substrate = McpSubstrate::new(place, "infer", http::client().unwrap());
        assert_eq!(substrate.infer(asked("hello")).await, Err("mcp_failed"));
    }
}

// VA-SUB-5: what a server says is an answer in words for a vacant.
#[tokio::test]
async fn a_vacant_is_answered_for_in_words() {
    let words = Words::elsewhere(Arc::new(over_stdio()), "Be brief.");
    let question = |text: &str| Question {
        protocol: ProtocolName::Vacant,
        seq: 7,
        agent: "bob".to_owned(),
        address: "b0b".to_owned(),
        from: "ada".to_owned(),
        marked: None,
        text: text.to_owned(),
    };
    let said = words.respond(question("hello")).await.unwrap();
    assert!(
        said.starts_with("2025-11-25: hello (bob, 0 tools"),
        "{said}"
    );
    let failed = words.respond(question("fail")).await;
    assert_eq!(failed, Err(NoWords("mcp_error")));
    assert!(!words.is_pure());
}

// VC-TURN-11: and a decision for an agent of vibe.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_vibe_decides_by_a_tool() {
    let server = Web::start();
    let hosted = Hosted {
        agent: merchant("keys", "m1"),
        behaviour: Behaviour::Elsewhere(Arc::new(server.substrate())),
    };
    let house = House::new(vec![hosted]).await;
    post(&house.office, question("m1", "s1"), 10).await;
    // The goal has a turn too, without a word.
    house.turns(2).await;
    let record = house.record("keys");
    assert_eq!(record["outcome"], "emitted", "{record}");
    assert_eq!(house.outcomes("keys"), ["emitted", "no_reply"]);
    house.agents.stop().await;
}
