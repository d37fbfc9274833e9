//! A vacant's two tools over MCP: both eras of the protocol, the same chains as every other path.

use chancery_vacant::state::State;
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::a2a::verified;
use crate::support::{Running, Setup, answer};
use crate::vacant_call::{Caller, bob};

const MODERN: &str = "2026-07-28";

fn request(node: &Running, body: &Value) -> RequestBuilder {
    node.post("/mcp", body.to_string())
        .header("accept", "application/json, text/event-stream")
}

fn body(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

async fn legacy(node: &Running, method: &str, params: Value) -> Value {
    let sent = request(node, &body(method, params)).header("mcp-protocol-version", "2025-11-25");
    let (status, told) = answer(sent.send().await.unwrap()).await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(told["id"], 7);
    told
}

fn modern(node: &Running, method: &str, mut params: Value) -> RequestBuilder {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().map(str::to_owned);
    let sent = request(node, &body(method, params))
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", method);
    match name {
        Some(name) => sent.header("mcp-name", name),
        None => sent,
    }
}

fn envelope(body: &[u8]) -> Value {
    json!({"name": "vacant_call", "arguments": {
        "envelope": serde_json::from_slice::<Value>(body).unwrap(),
    }})
}

// VA-MCP-9, VA-MCP-1, VA-MCP-3, VA-MCP-7, VA-MCP-2
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_older_era_opens_lists_and_describes() {
    let node = Setup::with_vacant().start().await;
    for (asked, told) in [
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-01-01", "2025-11-25"),
    ] {
        let params = json!({
            "protocolVersion": asked, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let response = request(&node, &body("initialize", params)).send().await;
        let response = response.unwrap();
        assert_eq!(response.headers().get("mcp-session-id"), None);
        let (_, opened) = answer(response).await;
        assert_eq!(opened["result"]["protocolVersion"], told, "{opened}");
        assert_eq!(opened["result"]["capabilities"], json!({"tools": {}}));
    }
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let accepted = request(&node, &note).send().await.unwrap();
    assert_eq!(accepted.status().as_u16(), 202);
    assert_eq!(legacy(&node, "ping", json!({})).await["result"], json!({}));
    let listed = legacy(&node, "tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["vacant_call", "vacant_describe"]);
    assert_eq!(tools[0]["title"], "Call this vacant");
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["envelope"]));
    assert_eq!(tools[1]["title"], "Describe this vacant");
    assert!(tools.iter().all(|tool| tool["outputSchema"].is_object()));
    // VA-MCP-6
    let told = legacy(&node, "tools/call", json!({"name": "vacant_describe"})).await;
    let found = &told["result"]["structuredContent"];
    assert_eq!(found["vacant_id"], bob().hex());
    assert_eq!(found["halo_version"], 1);
    assert_eq!(found["endpoint"], "http://node.example/a2a/message/send");
    for method in [reqwest::Method::GET, reqwest::Method::DELETE] {
        let response = node.client.request(method, node.url("/mcp")).send().await;
        assert_eq!(response.unwrap().status().as_u16(), 405);
    }
    node.stop().await;
}

// VA-MCP-4, VA-MCP-5
#[tokio::test(flavor = "multi_thread")]
async fn a_call_over_mcp_is_on_the_same_chain_as_all_others() {
    let node = Setup::with_vacant().start().await;
    let mut caller = Caller::new([1; 32], bob());
    let (first, hash) = caller.call("one");
    let told = legacy(&node, "tools/call", envelope(&first)).await;
    let result = &told["result"];
    assert_eq!(result["isError"], false, "{told}");
    let message = &result["structuredContent"]["message"];
    assert_eq!(
        message["parts"],
        json!([{"type": "text", "text": "echo: one"}])
    );
    assert_eq!(verified(message).sequence_no, 1);
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
    // Number 1 over MCP and number 1 over the native path cannot both be accepted.
    let native = node.post("/a2a/message/send", first.clone()).send().await;
    assert_eq!(native.unwrap().status().as_u16(), 409);
    let again = legacy(&node, "tools/call", envelope(&first)).await;
    let failure = &again["result"]["structuredContent"];
    assert_eq!(again["result"]["isError"], true);
    assert_eq!(failure["code"], "REPLAY_DETECTED");
    assert_eq!(failure["last_sequence_no"], "1");
    assert_eq!(failure["chain_tip"], hash.hex());
    assert_eq!(failure["response"], *message);
    caller.accepted(hash);
    let (second, _) = caller.call("two");
    let mut spoiled: Value = serde_json::from_slice(&second).unwrap();
    spoiled["params"]["message"]["parts"][0]["text"] = json!("other");
    let arguments = json!({"name": "vacant_call", "arguments": {"envelope": spoiled}});
    for (params, code) in [
        (arguments, "ENVELOPE_SIGNATURE"),
        (
            json!({"name": "vacant_call", "arguments": {}}),
            "ENVELOPE_FORMAT",
        ),
        (
            json!({"name": "vacant_call", "arguments": {"envelope": "x"}}),
            "ENVELOPE_FORMAT",
        ),
    ] {
        let told = legacy(&node, "tools/call", params).await;
        assert_eq!(told["result"]["isError"], true);
        assert_eq!(told["result"]["structuredContent"]["code"], code);
    }
    let told = legacy(&node, "tools/call", envelope(&second)).await;
    assert_eq!(told["result"]["isError"], false);
    node.stop().await;
}

// VA-MCP-10, VA-MCP-8
#[tokio::test(flavor = "multi_thread")]
async fn a_modern_client_needs_no_opening() {
    let node = Setup::with_vacant().start().await;
    let sent = modern(&node, "server/discover", json!({}))
        .send()
        .await
        .unwrap();
    let (status, found) = answer(sent).await;
    assert_eq!(status, 200, "{found}");
    let result = &found["result"];
    let versions = result["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!(MODERN)));
    assert_eq!(result["capabilities"], json!({"tools": {}}));
    assert!(result["instructions"].is_string() && result["ttlMs"].is_u64());
    let sent = modern(&node, "tools/list", json!({})).send().await.unwrap();
    let (_, listed) = answer(sent).await;
    let result = &listed["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(
        (&result["ttlMs"], &result["cacheScope"]),
        (&json!(300_000), &json!("public"))
    );
    assert_eq!(
        result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "chancery"
    );
    let (call, _) = Caller::new([1; 32], bob()).call("hi");
    let sent = modern(&node, "tools/call", envelope(&call))
        .send()
        .await
        .unwrap();
    let (_, told) = answer(sent).await;
    assert_eq!(told["result"]["resultType"], "complete");
    verified(&told["result"]["structuredContent"]["message"]);
    assert!(told["result"]["_meta"]["io.modelcontextprotocol/serverInfo"].is_object());
    // Unknown tools and methods, a wrong version, headers that say something else.
    let sent = modern(&node, "tools/call", json!({"name": "fly"}))
        .send()
        .await
        .unwrap();
    assert_eq!(answer(sent).await.1["error"]["code"], -32602);
    let (status, told) = answer(
        modern(&node, "prompts/list", json!({}))
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!((status, &told["error"]["code"]), (404, &json!(-32601)));
    let sent = modern(&node, "tools/list", json!({})).header("mcp-method", "tools/call");
    let (status, _) = answer(sent.send().await.unwrap()).await;
    assert_eq!(status, 400);
    let mut wrong = body("tools/list", json!({}));
    wrong["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2030-01-01",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let sent = request(&node, &wrong)
        .header("mcp-protocol-version", "2030-01-01")
        .header("mcp-method", "tools/list");
    let (status, told) = answer(sent.send().await.unwrap()).await;
    assert_eq!(
        (status, &told["error"]["code"]),
        (400, &json!(-32022)),
        "{told}"
    );
    assert!(told["error"]["data"]["supported"].is_array());
    node.stop().await;
}

// VA-MCP-8, VA-MCP-9, VA-MCP-11, VA-MCP-12
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_offered_is_refused() {
    let mut hosted = crate::support::vacant(
        "bob",
        crate::support::BOB_SEED,
        chancery_node::vacants::Behaviour::Echo,
    );
    hosted.0.first_state = State::Hibernating;
    let setup = Setup {
        dev: false,
        vacants: vec![hosted],
        ..Setup::default()
    };
    let node = setup.start().await;
    for method in [
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "completion/complete",
        "logging/setLevel",
        "fly",
    ] {
        let params = match method {
            "completion/complete" => json!({
                "ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"},
            }),
            "logging/setLevel" => json!({"level": "info"}),
            _ => json!({}),
        };
        let told = legacy(&node, method, params).await;
        assert_eq!(told["error"]["code"], -32601, "{method}: {told}");
    }
    let told = legacy(&node, "tools/call", json!({"name": "fly"})).await;
    assert_eq!(told["error"]["code"], -32602);
    let sent = request(&node, &json!([body("ping", json!({}))]))
        .send()
        .await
        .unwrap();
    assert_eq!(answer(sent).await.1["error"]["code"], -32600);
    // JSON without a method is no request, and told so in JSON.
    let sent = request(&node, &json!({"jsonrpc": "2.0", "id": "a", "params": {}}));
    let sent = sent.send().await.unwrap();
    assert_eq!(sent.status().as_u16(), 400);
    assert_eq!(answer(sent).await.1["error"]["code"], -32600);
    let sent = request(&node, &body("ping", json!({}))).header("origin", "https://evil.example");
    assert_eq!(sent.send().await.unwrap().status().as_u16(), 403);
    let sent = request(&node, &body("ping", json!({}))).header("origin", "http://localhost:3000");
    assert_eq!(sent.send().await.unwrap().status().as_u16(), 200);
    let sent =
        request(&node, &body("ping", json!({}))).header("mcp-protocol-version", "1999-01-01");
    assert_eq!(sent.send().await.unwrap().status().as_u16(), 400);
    for (accept, status) in [
        ("application/json", 200),
        ("text/event-stream", 200),
        ("text/html", 406),
    ] {
        let sent = node.post("/agents/bob/mcp", body("ping", json!({})).to_string());
        let sent = sent.header("accept", accept).send().await.unwrap();
        assert_eq!(sent.status().as_u16(), status, "{accept}");
    }
    // It is described in every state, and called in two of them.
    let told = legacy(&node, "tools/call", json!({"name": "vacant_describe"})).await;
    assert_eq!(told["result"]["isError"], false);
    let (call, _) = Caller::new([1; 32], bob()).call("hi");
    let told = legacy(&node, "tools/call", envelope(&call)).await;
    assert_eq!(told["result"]["structuredContent"]["code"], "TARGET_LOCKED");
    node.stop().await;
}
