//! Every path of the table against every kind of caller. Made from the table: a new path is judged without a new test.

use chancery_core::line::ProtocolName;
use chancery_doors::http::{Need, Route, Rule, routes};
use reqwest::{Method, Response};
use serde_json::json;

use crate::support::{KITCHEN, Running, Setup, answer, share};
use crate::vacant_call;

const ALL_SCOPES: [&str; 6] = [
    "send:",
    "read:log",
    "read:inbox:",
    "read:state:",
    "approve",
    "admin",
];

/// The scopes that a need can be met by.
fn meeting(need: Need) -> &'static [&'static str] {
    match need {
        Need::ReadLog | Need::ReadMetrics => &["read:log", "admin"],
        Need::ReadInbox => &["read:inbox:", "admin"],
        Need::ReadState => &["read:state:", "admin"],
        Need::Send => &["send:"],
        Need::Admin => &["admin"],
        // Any token; what each tool needs is in node_tools.rs.
        Need::Tools => &ALL_SCOPES,
    }
}

async fn token(node: &Running, scopes: Vec<String>) -> String {
    node.office.issue_token("tester", scopes).await.unwrap().1
}

fn path(route: &Route) -> String {
    let path = filled(route);
    match route.path {
        "/agh/ws" => format!("{path}?channel=builders&peer=worker.x"),
        _ => path,
    }
}

fn filled(route: &Route) -> String {
    route.filled(|name| match name {
        "agent" => KITCHEN.to_owned(),
        "channel" => "builders".to_owned(),
        "peer" => "worker.x".to_owned(),
        "protocol" => "value-context".to_owned(),
        "table" => "catalog".to_owned(),
        "seq" => "1".to_owned(),
        "vacant" => "bob".to_owned(),
        "id" if route.path.starts_with("/v1/") => vacant_call::bob().hex(),
        _ => "none".to_owned(),
    })
}

fn body(route: &Route) -> Vec<u8> {
    match route.path {
        "/.well-known/vcp/messages" => share(1),
        "/send/value-context" => json!({
            "sender": KITCHEN, "recipient": "broadcast", "type": "context_share",
            "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/a@1.0.0"},
        })
        .to_string()
        .into_bytes(),
        "/agh" | "/send/agh" => json!({
            "from": "worker.x", "channel": "builders", "kind": "say", "body": {"text": "hi"},
        })
        .to_string()
        .into_bytes(),
        "/send/vacant" => json!({"from": KITCHEN, "to": vacant_call::bob(), "text": "hi"})
            .to_string()
            .into_bytes(),
        path if path.ends_with("/a2a/message/send") => vacant_call::first_of_a_stranger(),
        path if path.contains("/mcp") => json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            .to_string()
            .into_bytes(),
        _ => Vec::new(),
    }
}

/// The agent that a path is about, as a scope names it.
fn agent(route: &Route) -> &'static str {
    match route.path {
        "/state/agh/{channel}" => "builders",
        path if path.contains("/agh") => "builders/worker.x",
        _ => KITCHEN,
    }
}

/// Whether errors below a path have the shape of vacant.
fn is_vacant(path: &str) -> bool {
    let is_below = |root: &&str| {
        path.strip_prefix(*root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    [
        "/a2a",
        "/agents",
        "/mcp",
        "/card",
        "/health",
        "/v1",
        "/send/vacant",
    ]
    .iter()
    .any(is_below)
        || path.ends_with("/agent-card.json")
}

async fn call(
    node: &Running,
    route: &Route,
    token: Option<&str>,
    header: Option<(&str, &str)>,
) -> Response {
    let mut request = node
        .client
        .request(route.method.clone(), node.url(&path(route)))
        .header("content-type", "application/json")
        .body(body(route));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    request.send().await.unwrap()
}

fn is_let_in(status: u16) -> bool {
    !matches!(status, 401 | 403 | 405)
}

// CH-NET-4, CH-ID-2
#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_only_open_paths_answer() {
    let node = Setup {
        dev: false,
        ..Setup::with_vacant()
    }
    .start()
    .await;
    for route in routes() {
        let response = call(&node, route, None, None).await;
        let status = response.status().as_u16();
        let name = format!("{} {}: {status}", route.method, route.path);
        match route.rule {
            // A plain request is let in and told to upgrade.
            Rule::Signed(_) if route.path == "/vcp/ws" => assert_eq!(status, 426, "{name}"),
            // Vibe asks for its token after the form of the request (VC-PIPE-1).
            Rule::Signed(ProtocolName::Vibe) | Rule::Principal(_) => {
                assert_eq!(status, 401, "{name}");
                assert_eq!(response.headers()["www-authenticate"], "Bearer", "{name}");
                assert_eq!(
                    answer(response).await.1["code"],
                    "unauthenticated",
                    "{name}"
                );
            }
            // A task that is not there is told in its own words.
            Rule::Signed(_) if route.path.contains("/a2a/v1/") => {
                assert!(is_let_in(status), "{name}");
            }
            Rule::Public | Rule::Signed(_) => assert_eq!(status, 200, "{name}"),
            Rule::DevOnly => assert_eq!(status, 404, "{name}"),
            Rule::Token(_) => {
                assert_eq!(status, 401, "{name}");
                assert_eq!(response.headers()["www-authenticate"], "Bearer", "{name}");
                assert_eq!(
                    response.headers()["content-type"],
                    "application/problem+json",
                    "{name}"
                );
            }
        }
    }
    node.stop().await;
}

// CH-NET-4, CH-ID-1, CH-ID-2
#[tokio::test(flavor = "multi_thread")]
async fn a_token_with_every_other_scope_is_not_enough() {
    let node = Setup {
        dev: false,
        ..Setup::with_vacant()
    }
    .start()
    .await;
    let mut judged = 0;
    for route in routes() {
        let Rule::Token(need) = route.rule else {
            continue;
        };
        if need == Need::Tools {
            continue;
        }
        let others = ALL_SCOPES
            .iter()
            .filter(|scope| !meeting(need).contains(scope));
        let mut scopes: Vec<String> = others
            .map(|scope| match scope.ends_with(':') {
                true => format!("{scope}*"),
                false => (*scope).to_owned(),
            })
            .collect();
        // A scope for another agent does not help either.
        let of_agent = meeting(need).iter().filter(|scope| scope.ends_with(':'));
        scopes.extend(of_agent.map(|scope| format!("{scope}agent://home.local/other")));
        let token = token(&node, scopes).await;
        let response = call(&node, route, Some(&token), None).await;
        let name = format!("{} {}", route.method, route.path);
        assert_eq!(response.status().as_u16(), 403, "{name}");
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json",
            "{name}"
        );
        let challenge = response.headers()["www-authenticate"].to_str().unwrap();
        let named = challenge.split("scope=\"").nth(1).expect(&name);
        let is_named = |scope: &&&str| named.starts_with(**scope);
        assert!(
            meeting(need).iter().find(is_named).is_some(),
            "{name}: {challenge}"
        );
        let (_, problem) = answer(response).await;
        assert_eq!(problem["status"], 403, "{name}");
        judged += 1;
    }
    assert!(judged >= 19, "only {judged} paths need a token");
    node.stop().await;
}

// CH-NET-4, CH-ID-2
#[tokio::test(flavor = "multi_thread")]
async fn a_token_with_the_right_scope_is_enough() {
    let node = Setup {
        dev: false,
        ..Setup::with_vacant()
    }
    .start()
    .await;
    for route in routes() {
        let Rule::Token(need) = route.rule else {
            continue;
        };
        for scope in meeting(need) {
            let named = match scope.ends_with(':') {
                true => vec![format!("{scope}{}", agent(route)), format!("{scope}*")],
                false => vec![(*scope).to_owned()],
            };
            for scope in named {
                let token = token(&node, vec![scope.clone()]).await;
                let status = call(&node, route, Some(&token), None)
                    .await
                    .status()
                    .as_u16();
                assert!(
                    is_let_in(status),
                    "{} {} with {scope}: {status}",
                    route.method,
                    route.path
                );
            }
        }
    }
    node.stop().await;
}

// CH-ID-1
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_or_invented_token_is_none() {
    let node = Setup {
        dev: false,
        ..Setup::with_vacant()
    }
    .start()
    .await;
    let (record, token) = node
        .office
        .issue_token("tester", vec!["admin".into()])
        .await
        .unwrap();
    assert_eq!(
        node.get("/log")
            .bearer_auth(&token)
            .send()
            .await
            .unwrap()
            .status(),
        200
    );
    let mut forged = token.clone();
    let last = if forged.pop() == Some('A') { 'B' } else { 'A' };
    forged.push(last);
    for wrong in [forged.as_str(), "cht_0.x", "", "x"] {
        let response = node.get("/log").bearer_auth(wrong).send().await.unwrap();
        assert_eq!(response.status(), 401, "{wrong}");
    }
    assert!(node.office.revoke_token(&record.id).await.unwrap());
    let response = node.get("/log").bearer_auth(&token).send().await.unwrap();
    assert_eq!(response.status(), 401);
    assert_eq!(
        response.headers()["www-authenticate"],
        "Bearer error=\"invalid_token\""
    );
    node.stop().await;
}

// CH-NET-4
#[tokio::test(flavor = "multi_thread")]
async fn in_dev_everybody_is_let_in_but_not_foreign_pages() {
    let node = Setup::with_vacant().start().await;
    for route in routes() {
        let name = format!("{} {}", route.method, route.path);
        let status = call(&node, route, None, None).await.status().as_u16();
        assert!(is_let_in(status), "{name}: {status}");
        for header in [
            ("host", "evil.example"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
        ] {
            let status = call(&node, route, None, Some(header))
                .await
                .status()
                .as_u16();
            assert_eq!(status, 403, "{name} with {header:?}");
        }
    }
    node.stop().await;
}

// CH-NET-1
#[tokio::test(flavor = "multi_thread")]
async fn other_methods_get_405_with_allow_in_the_shape_of_the_path() {
    let node = Setup::with_vacant().start().await;
    for route in routes() {
        let mut patched = route.clone();
        patched.method = Method::PATCH;
        let response = call(&node, &patched, None, None).await;
        let name = format!("PATCH {}", route.path);
        assert_eq!(response.status().as_u16(), 405, "{name}");
        let allow = response.headers()["allow"].to_str().unwrap().to_owned();
        assert!(
            allow
                .split(", ")
                .any(|method| method == route.method.as_str()),
            "{name}: {allow}"
        );
        let is_vibe = ["/vcp", "/send/vibe", "/inbox/vibe", "/state/vibe"]
            .iter()
            .any(|root| route.path.starts_with(root) && route.path != "/vcp/ws");
        let (_, body) = answer(response).await;
        let is_protocol = matches!(route.rule, Rule::Signed(_) | Rule::Token(Need::Send));
        if is_vibe {
            assert_eq!(body["code"], "method_not_allowed", "{name}");
        } else if is_vacant(route.path) {
            let reason = &body["error"]["data"][0]["reason"];
            assert_eq!(reason, "METHOD_NOT_ALLOWED", "{name}");
        } else if matches!(route.path, "/agh" | "/agh/ws" | "/send/agh") {
            assert_eq!(body["verdict"], "reject", "{name}");
        } else if is_protocol {
            assert_eq!(body["error"]["code"], "method_not_allowed", "{name}");
        } else {
            assert_eq!(body["status"], 405, "{name}");
        }
    }
    node.stop().await;
}

// CH-NET-1, VX-HTTP-2
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_gets_404_in_the_shape_of_the_path() {
    let node = Setup::with_vacant().start().await;
    for path in [
        "/.well-known/vcp/messages/",
        "/.well-known/vcp/other",
        "/send/value-context/",
        "/vcp/ws/",
    ] {
        let (status, body) = answer(node.get(path).send().await.unwrap()).await;
        assert_eq!(
            (status, &body["error"]["code"]),
            (404, &json!("not_found")),
            "{path}"
        );
        assert_eq!(body["message_id"], json!(null), "{path}");
    }
    for path in ["/", "/log/", "/send/other", "/log/0", "/log/x"] {
        let response = node.get(path).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 404, "{path}");
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json",
            "{path}"
        );
    }
    node.stop().await;
}
