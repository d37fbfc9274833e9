//! Many writers claim one number of a chain at once, each over another binding: one of them has it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::a2a::{message, verified};
use crate::kept::fresh;
use crate::support::{Running, Setup, answer};
use crate::vacant_call::{Caller, bob};

/// Writers that claim each number.
const WRITERS: usize = 16;
/// Numbers, unless the environment says how many.
const ROUNDS: usize = 1_000;
/// The same in PostgreSQL.
const ROUNDS_POSTGRES: usize = 50;

fn rounds(name: &str, usual: usize) -> usize {
    let asked = std::env::var(name).ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Sends a call over one of four bindings; gives the signed answer of one that was accepted, or the code of its refusal.
async fn send(node: &Running, writer: usize, body: Vec<u8>) -> Result<Value, Value> {
    let sent = match writer % 4 {
        0 => node.post("/a2a/message/send", body),
        1 => {
            let params = json!({"message": message(&body)});
            let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
            node.post("/a2a", rpc.to_string())
                .header("a2a-version", "1.0")
        }
        2 => {
            let body = json!({"message": message(&body)});
            node.post("/a2a/v1/message:send", body.to_string())
        }
        _ => {
            let envelope: Value = serde_json::from_slice(&body).unwrap();
            let params = json!({"name": "vacant_call", "arguments": {"envelope": envelope}});
            let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            node.post("/mcp", rpc.to_string())
        }
    };
    let (_, mut told) = answer(sent.send().await.unwrap()).await;
    let (said, refused) = match writer % 4 {
        0 | 1 => ("/result/message", "/error/data/0/reason"),
        2 => ("/message", "/error/details/0/reason"),
        _ => (
            "/result/structuredContent/message",
            "/result/structuredContent/code",
        ),
    };
    match told.pointer_mut(said) {
        Some(message) => Ok(message.take()),
        None => Err(told.pointer(refused).cloned().unwrap_or(told)),
    }
}

// VA-REP-4, VA-MCP-4, VA-A2A-4, VA-SRV-15
#[tokio::test(flavor = "multi_thread")]
async fn of_many_writers_over_all_bindings_one_has_each_number() {
    let rounds = rounds("CHANCERY_RACE_ROUNDS", ROUNDS);
    one_has_each_number(Setup::with_vacant(), rounds).await;
}

// VA-REP-4, VA-REP-10, CH-JRN-5, CH-JRN-11
#[tokio::test(flavor = "multi_thread")]
async fn of_many_writers_one_has_each_number_also_in_postgresql() {
    let setup = Setup {
        store: fresh("numbers"),
        ..Setup::with_vacant()
    };
    let rounds = rounds("CHANCERY_RACE_ROUNDS_POSTGRES", ROUNDS_POSTGRES);
    one_has_each_number(setup, rounds).await;
}

async fn one_has_each_number(setup: Setup, rounds: usize) {
    let node = Arc::new(setup.start().await);
    let mut caller = Caller::new([1; 32], bob());
    let mut by_binding = [0_usize; 4];
    for round in 1..=rounds {
        let calls = (0..WRITERS).map(|writer| (writer, caller.call(&format!("writer {writer}"))));
        let racing: Vec<_> = calls
            .map(|(writer, (body, hash))| {
                let node = Arc::clone(&node);
                tokio::spawn(async move { (writer, hash, send(&node, writer, body).await) })
            })
            .collect();
        let mut accepted = Vec::new();
        for ended in racing {
            match ended.await.unwrap() {
                (writer, hash, Ok(message)) => accepted.push((writer, hash, message)),
                // Whoever lost a race is behind, or the chain went another way.
                (_, _, Err(code)) => assert_eq!(code, "REPLAY_DETECTED", "round {round}"),
            }
        }
        assert_eq!(accepted.len(), 1, "round {round}");
        let (writer, hash, message) = accepted.pop().unwrap();
        assert_eq!(verified(&message).sequence_no, round as u64);
        by_binding[writer % 4] += 1;
        caller.accepted(hash);
    }
    println!(
        "{rounds} numbers, {WRITERS} writers each: won over HTTP {}, A2A {}, HTTP+JSON {}, MCP {}",
        by_binding[0], by_binding[1], by_binding[2], by_binding[3]
    );
    Arc::into_inner(node).unwrap().stop().await;
}
