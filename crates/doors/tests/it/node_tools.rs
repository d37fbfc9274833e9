//! The node's own tools: each behind the scope of the path that it stands for, whatever the token.

use std::sync::Arc;

use chancery_doors::http::{LogDesk, node_tools};
use serde_json::{Value, json};

use crate::support::{KITCHEN, Running, Setup, answer};
use crate::vacant_call;

/// Says that it was asked.
struct Desk;

impl LogDesk for Desk {
    fn verify(&self) -> Result<Value, String> {
        Ok(json!({"passed": true}))
    }

    fn explain(&self, id: &str) -> Result<Value, String> {
        match id {
            "1" => Ok(json!({"accepted": []})),
            _ => Err("it is not there".to_owned()),
        }
    }
}

async fn node(dev: bool) -> Running {
    Setup {
        dev,
        options: |options| options.log_desk = Some(Arc::new(Desk)),
        ..Setup::with_vacant()
    }
    .start()
    .await
}

async fn ask(node: &Running, token: Option<&str>, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let mut request = node
        .post("/mcp/node", body.to_string())
        .header("mcp-protocol-version", "2025-11-25");
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let (status, told) = answer(request.send().await.unwrap()).await;
    assert_eq!(status, 200, "{told}");
    told["result"].clone()
}

async fn listed(node: &Running, token: Option<&str>) -> Vec<String> {
    let told = ask(node, token, "tools/list", json!({})).await;
    let tools = told["tools"].as_array().unwrap();
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    tools.iter().map(name).collect()
}

async fn used(node: &Running, token: Option<&str>, name: &str) -> Value {
    let params = json!({"name": name, "arguments": arguments(name)});
    ask(node, token, "tools/call", params).await
}

/// What each tool is asked, as the kitchen where it sends.
fn arguments(name: &str) -> Value {
    match name {
        "log_explain" => json!({"id": "1"}),
        "send_value_context" => json!({
            "sender": KITCHEN, "recipient": "broadcast", "type": "context_share",
            "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/a@1.0.0"},
        }),
        "send_vacant" => json!({"from": KITCHEN, "to": vacant_call::bob(), "text": "hi"}),
        "send_agh" => json!({
            "from": KITCHEN, "channel": "builders", "kind": "say", "body": {"text": "hi"},
        }),
        _ => json!({}),
    }
}

/// The scopes that a tool can be used with: those of the path it stands for (CH-ID-2).
fn enough(tool: &str) -> &'static [&'static str] {
    match tool {
        "log_tail" | "log_explain" | "log_verify" => &["read:log", "admin"],
        "send_value_context" | "send_vacant" | "send_agh" => &["send:*", "send:KITCHEN"],
        "send_vibe" => &["approve"],
        other => panic!("{other} has no row here"),
    }
}

// CH-ID-2, CH-NET-4: every tool with every scope.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_sees_and_uses_the_tools_of_its_scopes_alone() {
    let node = node(false).await;
    let scopes = [
        "read:log",
        "admin",
        "approve",
        "send:*",
        "send:KITCHEN",
        "read:inbox:*",
        "read:state:*",
    ];
    for scope in scopes {
        let held = vec![scope.replace("KITCHEN", KITCHEN)];
        let token = node.office.issue_token("tester", held).await.unwrap().1;
        let seen = listed(&node, Some(&token)).await;
        for tool in node_tools() {
            let is_enough = enough(tool.name).contains(&scope);
            let name = format!("{} with {scope}", tool.name);
            assert_eq!(
                seen.iter().any(|seen| seen == tool.name),
                is_enough,
                "{name}"
            );
            let told = used(&node, Some(&token), tool.name).await;
            let refused = told["structuredContent"]["status"] == 403;
            assert_eq!(refused, !is_enough, "{name}: {told}");
        }
    }
    node.stop().await;
}

// CH-ID-2: a scope for one agent does not speak as another.
#[tokio::test(flavor = "multi_thread")]
async fn a_scope_for_another_agent_sends_nothing() {
    let node = node(false).await;
    let other = vec!["send:agent://home.local/other".to_owned()];
    let token = node.office.issue_token("tester", other).await.unwrap().1;
    for tool in ["send_value_context", "send_vacant", "send_agh"] {
        let told = used(&node, Some(&token), tool).await;
        assert_eq!(told["isError"], true, "{tool}");
        assert_eq!(told["structuredContent"]["status"], 403, "{tool}: {told}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_dev_all_tools_are_there_and_tell_what_the_paths_tell() {
    let node = node(true).await;
    let names: Vec<_> = node_tools().iter().map(|tool| tool.name).collect();
    assert_eq!(listed(&node, None).await, names);
    let sent = used(&node, None, "send_value_context").await;
    assert_eq!(sent["isError"], false, "{sent}");
    let log = node.get("/log?limit=1000").send().await.unwrap();
    let log = log.text().await.unwrap();
    let lines: Vec<_> = log.lines().collect();
    let tail = |arguments: Value| {
        let params = json!({"name": "log_tail", "arguments": arguments});
        ask(&node, None, "tools/call", params)
    };
    // The last, the last of a protocol, and on from one: byte for byte as GET /log.
    let told = tail(json!({"limit": 2})).await["structuredContent"].clone();
    assert_eq!(told["lines"], json!(lines[lines.len() - 2..]));
    assert_eq!(told["next"], lines.len() + 1);
    let told = tail(json!({"limit": 3, "protocol": "node"})).await["structuredContent"].clone();
    let of_node: Vec<_> = lines
        .iter()
        .filter(|line| line.contains(r#""protocol":"node""#))
        .collect();
    assert_eq!(told["lines"], json!(of_node[of_node.len() - 3..]));
    let told = tail(json!({"from": 2, "limit": 1})).await["structuredContent"].clone();
    assert_eq!(
        (&told["lines"], &told["next"]),
        (&json!([lines[1]]), &json!(3))
    );
    for wrong in [
        json!({"limit": "x"}),
        json!({"protocol": "morse"}),
        json!({"from": -1}),
    ] {
        assert_eq!(tail(wrong.clone()).await["isError"], true, "{wrong}");
    }
    let verified = used(&node, None, "log_verify").await;
    assert_eq!(verified["structuredContent"], json!({"passed": true}));
    let missing = json!({"name": "log_explain", "arguments": {"id": "2"}});
    let missing = ask(&node, None, "tools/call", missing).await;
    assert_eq!(missing["structuredContent"]["error"], "it is not there");
    node.stop().await;
}
