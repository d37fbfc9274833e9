//! Signed calls over the official A2A bindings: both versions, their errors, streams, and one chain with the native
//! path.

use chancery_vacant::envelope::Envelope;
use chancery_vacant::wire::{from_message, read_json};
use reqwest::Response;
use serde_json::{Value, json};

use crate::kept::Kept;
use crate::support::{Running, Setup, answer};
use crate::vacant_call::{Caller, bob};

/// The message of a caller's next call.
pub fn message(body: &[u8]) -> Value {
    let mut body: Value = serde_json::from_slice(body).unwrap();
    body["params"]["message"].take()
}

/// Posts a JSON-RPC request of a version.
pub async fn post(node: &Running, version: &str, method: &str, params: Value) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": "r-1", "method": method, "params": params});
    let request = node.post("/a2a", body.to_string());
    request.header("a2a-version", version).send().await.unwrap()
}

pub async fn rpc(node: &Running, version: &str, method: &str, params: Value) -> Value {
    let (status, body) = answer(post(node, version, method, params).await).await;
    assert_eq!(status, 200);
    assert_eq!(body["jsonrpc"], "2.0");
    assert_eq!(body["id"], "r-1", "{body}");
    body
}

/// The envelope of an answer, rebuilt from what was received and verified under bob's key.
pub fn verified(message: &Value) -> Envelope {
    let text = message.to_string();
    let value = read_json(text.as_bytes(), 1 << 20).unwrap();
    let envelope = from_message(&value).unwrap();
    envelope.verify_under(&bob()).unwrap();
    envelope
}

fn names(value: &Value) -> Vec<&str> {
    let mut names: Vec<_> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    names
}

/// The data of all events of a stream.
pub async fn events(response: Response) -> Vec<Value> {
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

// VA-A2A-1, VA-A2A-4, VA-A2A-6, VA-A2A-7
#[tokio::test(flavor = "multi_thread")]
async fn both_versions_answer_signed_calls_on_one_chain() {
    let node = Setup::with_vacant().start().await;
    let mut caller = Caller::new([1; 32], bob());
    let (body, hash) = caller.call("new");
    let response = post(
        &node,
        "1.0",
        "SendMessage",
        json!({"message": message(&body)}),
    )
    .await;
    assert_eq!(response.headers()["a2a-extensions"], "urn:vacant:v1");
    let (_, told) = answer(response).await;
    let said = &told["result"]["message"];
    // The official 1.x client refuses members that it does not know, and nulls.
    assert_eq!(
        names(said),
        [
            "contextId",
            "extensions",
            "messageId",
            "metadata",
            "parts",
            "role"
        ]
    );
    assert_eq!(said["parts"], json!([{"text": "echo: new"}]));
    assert_eq!(said["role"], "ROLE_AGENT");
    assert_eq!(said["extensions"], json!(["urn:vacant:v1"]));
    let envelope = verified(said);
    assert_eq!((envelope.sequence_no, envelope.to), (1, caller.id()));
    assert_eq!(
        envelope.payload.message_id.as_deref(),
        said["messageId"].as_str()
    );
    caller.accepted(hash);
    // An absent version is 0.3.
    let (body, hash) = caller.call("old");
    let (_, told) = answer(node.post("/a2a", body).send().await.unwrap()).await;
    let said = &told["result"];
    assert_eq!(said["kind"], "message");
    assert_eq!(said["role"], "agent");
    assert_eq!(
        said["parts"],
        json!([{"kind": "text", "text": "echo: old"}])
    );
    assert_eq!(verified(said).sequence_no, 2);
    caller.accepted(hash);
    // The native path goes on with the same chain.
    let (body, _) = caller.call("native");
    let path = "/a2a/message/send";
    let (status, _) = answer(node.post(path, body.clone()).send().await.unwrap()).await;
    assert_eq!(status, 200);
    let again = rpc(
        &node,
        "1.0",
        "SendMessage",
        json!({"message": message(&body)}),
    )
    .await;
    assert_eq!(again["error"]["code"], -31409);
    let info = &again["error"]["data"][0];
    assert_eq!(info["reason"], "REPLAY_DETECTED");
    assert_eq!(info["domain"], "urn:vacant:v1");
    assert_eq!(info["metadata"]["last_sequence_no"], "3");
    assert_eq!(verified(&again["error"]["response"]).sequence_no, 3);
    node.stop().await;
}

// VA-A2A-7: the conversation of the request is the conversation of the answer.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_belongs_to_the_conversation_of_its_call() {
    let node = Setup::with_vacant().start().await;
    let mut unsigned = json!({"messageId": "m", "contextId": "c-7", "role": "ROLE_USER",
        "parts": [{"text": "hi"}]});
    let caller = Caller::new([1; 32], bob());
    let body = caller.call_with("hi", Some("c-7".into()), Some("m".into()));
    unsigned["metadata"] = message(&body)["metadata"].clone();
    let told = rpc(&node, "1.0", "SendMessage", json!({"message": unsigned})).await;
    assert_eq!(told["result"]["message"]["contextId"], "c-7", "{told}");
    verified(&told["result"]["message"]);
    node.stop().await;
}

// VA-A2A-5, VA-A2A-9
#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_an_envelope_is_refused_unless_the_node_allows_it() {
    let plain = json!({"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}]});
    let node = Setup::with_vacant().start().await;
    // The header alone does not make an envelope.
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": plain}});
    let request = node
        .post("/a2a", body.to_string())
        .header("a2a-version", "1.0");
    let request = request.header("a2a-extensions", "urn:vacant:v1");
    let (status, refused) = answer(request.send().await.unwrap()).await;
    assert_eq!((status, &refused["error"]["code"]), (200, &json!(-32008)));
    assert_eq!(refused["error"]["data"][0]["reason"], "EXTENSION_REQUIRED");
    node.stop().await;
    let mut setup = Setup::with_vacant();
    setup.settings.vacant.require_envelope = false;
    let node = setup.start().await;
    let told = rpc(&node, "1.0", "SendMessage", json!({"message": plain})).await;
    let said = &told["result"]["message"];
    assert_eq!(said["parts"], json!([{"text": "echo: hi"}]));
    assert_eq!(said.get("metadata"), None);
    // No chain was touched, and a gone vacant hears nobody.
    let (_, state) = answer(node.get("/state/vacant/bob").send().await.unwrap()).await;
    assert_eq!(state["chains"], json!([]));
    let sink = json!({"set_state": {"name": "bob", "state": "SUNK"}}).to_string();
    answer(node.post("/admin/vacant", sink).send().await.unwrap()).await;
    let gone = rpc(&node, "1.0", "SendMessage", json!({"message": plain})).await;
    assert_eq!(gone["error"]["code"], -31410);
    node.stop().await;
}

/// Requests that are refused, each with its code.
fn wrong_requests(signed: &Value) -> Vec<(&'static str, &'static str, Value, i32)> {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut changed = signed.clone();
        change(&mut changed);
        json!({"message": changed})
    };
    let vacant = |message: &mut Value, name: &str, value: Value| {
        message["metadata"]["urn:vacant:v1"][name] = value;
    };
    vec![
        ("1.0", "message/send", json!({}), -32601),
        ("0.3", "SendMessage", json!({}), -32601),
        ("2.0", "SendMessage", json!({}), -32009),
        ("1.0", "SendMessage", json!({}), -32602),
        (
            "1.0",
            "SendMessage",
            with(&|m| vacant(m, "sequence_no", json!("1"))),
            -32602,
        ),
        (
            "1.0",
            "SendMessage",
            with(&|m| m["parts"][0] = json!({"raw": "aGk="})),
            -32005,
        ),
        (
            "1.0",
            "SendMessage",
            with(&|m| vacant(m, "to_vacant_id", json!("00".repeat(32)))),
            -31421,
        ),
        (
            "1.0",
            "SendMessage",
            with(&|m| m["parts"][0]["text"] = json!("other")),
            -31401,
        ),
        (
            "1.0",
            "SendMessage",
            with(&|m| m["taskId"] = json!("none")),
            -32001,
        ),
        ("1.0", "GetTask", json!({"id": "none"}), -32001),
        ("0.3", "tasks/get", json!({"id": "none"}), -32001),
        ("1.0", "CancelTask", json!({"id": "none"}), -32001),
        ("1.0", "SubscribeToTask", json!({"id": "none"}), -32001),
        ("1.0", "ListTasks", json!({}), -32004),
        (
            "1.0",
            "CreateTaskPushNotificationConfig",
            json!({"taskId": "t", "url": "https://x.example"}),
            -32003,
        ),
        (
            "0.3",
            "tasks/pushNotificationConfig/get",
            json!({"id": "t"}),
            -32003,
        ),
        ("1.0", "GetExtendedAgentCard", json!({}), -32007),
        (
            "0.3",
            "agent/getAuthenticatedExtendedCard",
            json!({}),
            -32007,
        ),
    ]
}

// VA-A2A-1, VA-A2A-9, VA-A2A-10
#[tokio::test(flavor = "multi_thread")]
async fn each_fault_has_its_code() {
    let node = Setup::with_vacant().start().await;
    let caller = Caller::new([1; 32], bob());
    let signed = message(&caller.call("hi").0);
    let cases = wrong_requests(&signed);
    for (version, method, params, code) in cases {
        let told = rpc(&node, version, method, params).await;
        assert_eq!(told["error"]["code"], code, "{version} {method}: {told}");
        let info = &told["error"]["data"][0];
        assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
    }
    // Nothing of all this touched a chain: the first call is still the first.
    let told = rpc(&node, "1.0", "SendMessage", json!({"message": signed})).await;
    assert_eq!(verified(&told["result"]["message"]).sequence_no, 1);
    node.stop().await;
}

// VA-A2A-9
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_frame_is_told_with_the_id_it_has() {
    let node = Setup::with_vacant().start().await;
    for (body, code, id) in [
        ("{", -32700, Value::Null),
        ("[]", -32600, Value::Null),
        (
            r#"{"jsonrpc":"1.0","id":7,"method":"SendMessage"}"#,
            -32600,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":{},"method":"SendMessage"}"#,
            -32600,
            Value::Null,
        ),
        (r#"{"jsonrpc":"2.0","id":"x"}"#, -32600, json!("x")),
    ] {
        let (status, told) = answer(node.post("/a2a", body).send().await.unwrap()).await;
        assert_eq!(
            (status, &told["error"]["code"]),
            (200, &json!(code)),
            "{body}"
        );
        assert_eq!(told["id"], id, "{body}");
    }
    node.stop().await;
}

// VA-A2A-8
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_one_event_with_the_message() {
    let node = Setup::with_vacant().start().await;
    let mut caller = Caller::new([1; 32], bob());
    let (body, hash) = caller.call("one");
    let params = json!({"message": message(&body)});
    let told = events(post(&node, "1.0", "SendStreamingMessage", params.clone()).await).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["id"], "r-1");
    verified(&told[0]["result"]["message"]);
    caller.accepted(hash);
    // The same again is an ordinary error.
    let again = rpc(&node, "1.0", "SendStreamingMessage", params).await;
    assert_eq!(again["error"]["code"], -31409);
    let (body, _) = caller.call("two");
    let params = json!({"message": message(&body)});
    let told = events(post(&node, "0.3", "message/stream", params).await).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["result"]["kind"], "message");
    verified(&told[0]["result"]);
    node.stop().await;
}

// VA-A2A-2, VA-A2A-4, VA-WIRE-5, CH-JRN-3, VA-REP-12
#[tokio::test(flavor = "multi_thread")]
async fn resources_answer_signed_calls_too_and_the_log_keeps_their_numbers() {
    resources(Kept::on_files()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_answer_signed_calls_too_and_the_log_keeps_their_numbers_also_in_postgresql() {
    resources(Kept::in_postgresql()).await;
}

async fn resources(kept: Kept) {
    let setup = Setup {
        store: kept.open(),
        ..Setup::with_vacant()
    };
    let node = setup.start().await;
    let card = node.get("/.well-known/agent-card.json").send().await;
    let (_, card) = answer(card.unwrap()).await;
    let resources = &card["supportedInterfaces"][2];
    assert_eq!(resources["protocolBinding"], "HTTP+JSON");
    assert_eq!(resources["url"], "http://node.example/a2a/v1");
    let mut caller = Caller::new([1; 32], bob());
    let (body, hash) = caller.call("one");
    // The official 1.x clients write numbers of metadata as doubles.
    let mut sent = message(&body);
    sent["metadata"]["urn:vacant:v1"]["sequence_no"] = json!(1.0);
    // What stands beside the message is not the message.
    let decoy = json!({"message": sent, "metadata": message(&body)["metadata"]}).to_string();
    let request = node.post("/a2a/v1/message:send", decoy);
    let response = request.header("a2a-version", "1.0").send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/a2a+json");
    let (status, told) = answer(response).await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(verified(&told["message"]).sequence_no, 1);
    caller.accepted(hash);
    node.stop().await;
    kept.lose_index();
    let setup = Setup {
        store: kept.open(),
        ..Setup::with_vacant()
    };
    let node = setup.start().await;
    let (body, _) = caller.call("two");
    let sent = json!({"message": message(&body)}).to_string();
    let path = "/agents/bob/a2a/v1/message:stream";
    let told = events(node.post(path, sent.clone()).send().await.unwrap()).await;
    assert_eq!(verified(&told[0]["message"]).sequence_no, 2);
    let again = node
        .post("/a2a/v1/message:send", sent)
        .send()
        .await
        .unwrap();
    let (status, again) = answer(again).await;
    assert_eq!(status, 409);
    assert_eq!(again["error"]["code"], 409);
    assert_eq!(again["error"]["details"][0]["reason"], "REPLAY_DETECTED");
    node.stop().await;
}

// VA-A2A-2, VA-A2A-9, VA-A2A-10
#[tokio::test(flavor = "multi_thread")]
async fn each_fault_of_a_resource_has_its_status() {
    let node = Setup::with_vacant().start().await;
    for (method, path, status, reason) in [
        ("GET", "/a2a/v1/tasks/none", 404, "TASK_NOT_FOUND"),
        ("POST", "/a2a/v1/tasks/none:cancel", 404, "TASK_NOT_FOUND"),
        ("GET", "/a2a/v1/tasks", 400, "UNSUPPORTED_OPERATION"),
        ("POST", "/a2a/v1/tasks/none:fly", 404, "METHOD_NOT_FOUND"),
        (
            "GET",
            "/a2a/v1/tasks/t/pushNotificationConfigs",
            400,
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
        ),
        (
            "GET",
            "/a2a/v1/extendedAgentCard",
            400,
            "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
        ),
    ] {
        let request = node.client.request(method.parse().unwrap(), node.url(path));
        let (found, told) = answer(request.send().await.unwrap()).await;
        assert_eq!(found, status, "{method} {path}: {told}");
        assert_eq!(
            told["error"]["details"][0]["reason"], reason,
            "{method} {path}"
        );
    }
    let request = node.get("/a2a/v1/tasks/none").header("a2a-version", "0.3");
    let (status, told) = answer(request.send().await.unwrap()).await;
    assert_eq!(
        (status, &told["error"]["details"][0]["reason"]),
        (400, &json!("VERSION_NOT_SUPPORTED"))
    );
    let plain =
        json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}});
    let request = node.post("/a2a/v1/message:send", plain.to_string());
    let (status, told) = answer(request.send().await.unwrap()).await;
    assert_eq!(status, 400);
    let details = &told["error"]["details"];
    assert_eq!(details[0]["reason"], "EXTENSION_SUPPORT_REQUIRED");
    assert_eq!(details[1]["reason"], "EXTENSION_REQUIRED");
    node.stop().await;
}
