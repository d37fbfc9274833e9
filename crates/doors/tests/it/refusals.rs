//! Every row of the table of refusals that can be reached over HTTP (VX-ERR-2): status, headers and body.

use std::time::Duration;

use chancery_core::admin::{Act, RunState, agent_key};
use chancery_core::line::ProtocolName;
use chancery_doors::http::HttpLimits;
use chancery_node::SoftLimits;
use chancery_value_context::message::Kind;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::support::{
    CHILD, LIVING_ROOM, MESSAGES, PARENT, Running, Setup, answer, envelope, head, message_id, raw,
    share, signed,
};

async fn post(node: &Running, body: impl Into<reqwest::Body>) -> (u16, HeaderMap, Value) {
    let response = node.post(MESSAGES, body).send().await.unwrap();
    let headers = response.headers().clone();
    let (status, body) = answer(response).await;
    (status, headers, body)
}

/// A refused body has exactly these members, and its table row's status and `retryable`.
fn check(
    found: &(u16, HeaderMap, Value),
    status: u16,
    code: &str,
    retryable: bool,
    id: Option<String>,
) {
    let (found_status, headers, body) = found;
    assert_eq!(*found_status, status, "{code}: {body}");
    assert_eq!(
        headers["content-type"], "application/json; charset=utf-8",
        "{code}"
    );
    assert_eq!(body["status"], "rejected", "{code}");
    assert_eq!(body["message_id"], json!(id), "{code}");
    let error = body["error"].as_object().unwrap();
    assert_eq!(error["code"], code);
    assert_eq!(error["retryable"], retryable, "{code}");
    let message = error["message"].as_str().unwrap();
    assert!(
        !message.is_empty() && message.chars().count() <= 200,
        "{code}"
    );
    let mut allowed = vec!["code", "message", "path", "retryable"];
    if code == "signature_invalid" {
        allowed.extend(["would_verify_as", "first_difference_at"]);
    }
    assert!(
        error
            .keys()
            .all(|member| allowed.contains(&member.as_str())),
        "{code}: {body}"
    );
    assert_eq!(body.as_object().unwrap().len(), 3, "{code}");
    assert_eq!(
        headers.contains_key("www-authenticate"),
        status == 401,
        "{code}"
    );
    assert_eq!(
        headers.contains_key("retry-after"),
        matches!(status, 429 | 503),
        "{code}"
    );
}

fn altered(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut message = envelope(1);
    change(&mut message);
    signed(&message)
}

/// A node that lets one address fail as often as it likes.
async fn unlimited() -> Running {
    let limits = HttpLimits {
        failures_per_s: u32::MAX,
        ..HttpLimits::default()
    };
    Setup {
        limits,
        ..Setup::default()
    }
    .start()
    .await
}

// VX-ERR-2
#[tokio::test(flavor = "multi_thread")]
async fn what_a_message_can_get_wrong() {
    let node = unlimited().await;
    let id = || Some(message_id(1));
    check(&post(&node, "{").await, 400, "malformed_json", false, None);
    let body = altered(|message| message["priority"] = json!(1));
    let found = post(&node, body).await;
    check(&found, 400, "schema_invalid", false, id());
    assert_eq!(found.2["error"]["path"], "/priority");
    let body = altered(|message| message["vcp_message"] = json!("2.0"));
    check(
        &post(&node, body).await,
        400,
        "unsupported_version",
        false,
        id(),
    );
    let body = altered(|message| message["payload"]["context"] = json!("T:morning|S:home"));
    check(
        &post(&node, body).await,
        400,
        "context_invalid",
        false,
        id(),
    );
    let body = altered(|message| message["timestamp"] = json!("2026-02-15T10:28:29Z"));
    check(
        &post(&node, body).await,
        400,
        "timestamp_stale",
        false,
        id(),
    );
    let body = altered(|message| message["timestamp"] = json!("2026-02-15T10:34:01Z"));
    check(
        &post(&node, body).await,
        400,
        "timestamp_future",
        true,
        id(),
    );
    node.stop().await;
}

// VX-ERR-2, VX-ERR-3
#[tokio::test(flavor = "multi_thread")]
async fn what_a_sender_can_get_wrong() {
    let node = unlimited().await;
    let id = || Some(message_id(1));
    check(
        &post(&node, envelope(1).to_string()).await,
        401,
        "signature_missing",
        false,
        id(),
    );
    let body = String::from_utf8(share(1))
        .unwrap()
        .replace("family.safe", "family.sage");
    let found = post(&node, body).await;
    check(&found, 401, "signature_invalid", false, id());
    assert_eq!(found.1["www-authenticate"], "VCP-Ed25519");
    let mut message: Value = serde_json::from_slice(&share(1)).unwrap();
    message["sender"] = json!("agent://home.local/stranger");
    check(
        &post(&node, message.to_string()).await,
        403,
        "sender_unknown",
        false,
        id(),
    );
    let body = altered(|message| message["recipient"] = json!("agent://home.local/nobody"));
    check(
        &post(&node, body).await,
        404,
        "recipient_unknown",
        false,
        id(),
    );
    node.stop().await;
}

// VX-ERR-2
#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_is_switched_off_is_refused() {
    let mut setup = Setup::default();
    setup.settings.value_context.disabled_types = vec![Kind::ContextShare];
    let node = setup.start().await;
    let found = post(&node, share(1)).await;
    check(&found, 501, "type_disabled", false, Some(message_id(1)));
    node.stop().await;
}

// VX-ERR-2, VX-HTTP-3, VX-ENV-7
#[tokio::test(flavor = "multi_thread")]
async fn what_a_request_can_get_wrong() {
    let node = Setup {
        limits: HttpLimits {
            body_timeout: Duration::from_millis(200),
            ..HttpLimits::default()
        },
        ..Setup::default()
    }
    .start()
    .await;
    let found = post(&node, vec![b' '; 65_537]).await;
    check(&found, 413, "payload_too_large", false, None);
    for (name, value) in [
        ("content-type", "text/plain"),
        ("content-type", "application/json; charset=latin1"),
        ("content-encoding", "gzip"),
    ] {
        let mut request = node.client.post(node.url(MESSAGES)).body(share(1));
        if name != "content-type" {
            request = request.header("content-type", "application/json");
        }
        let response = request.header(name, value).send().await.unwrap();
        let headers = response.headers().clone();
        let (status, body) = answer(response).await;
        check(
            &(status, headers, body),
            415,
            "unsupported_media_type",
            false,
            None,
        );
    }
    let response = node
        .client
        .post(node.url(MESSAGES))
        .body(share(1))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 415);
    let response = node.get(MESSAGES).send().await.unwrap();
    assert_eq!(response.headers()["allow"], "POST");
    let headers = response.headers().clone();
    let (status, body) = answer(response).await;
    check(
        &(status, headers, body),
        405,
        "method_not_allowed",
        false,
        None,
    );
    // A body that never comes.
    let answer = raw(node.address, head("POST", MESSAGES, 10).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(
        (&body["error"]["code"], &body["error"]["retryable"]),
        (&json!("timeout"), &json!(true))
    );
    node.stop().await;
}

// VX-ERR-4
#[tokio::test(flavor = "multi_thread")]
async fn an_address_with_too_many_failures_is_not_read_any_more() {
    let limits = HttpLimits {
        failures_per_s: 3,
        ..HttpLimits::default()
    };
    let node = Setup {
        limits,
        ..Setup::default()
    }
    .start()
    .await;
    // Failures after the signature do not count: who sent them is known.
    let elsewhere = altered(|message| message["recipient"] = json!("agent://home.local/nobody"));
    for _ in 0..10 {
        assert_eq!(post(&node, elsewhere.clone()).await.0, 404);
    }
    let mut limited = None;
    for _ in 0..100 {
        let found = post(&node, "{").await;
        if found.0 == 429 {
            limited = Some(found);
            break;
        }
    }
    check(
        &limited.expect("a limit is reached"),
        429,
        "rate_limited",
        true,
        None,
    );
    // A second later it is read again.
    let accepted = async {
        while post(&node, share(1)).await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), accepted)
        .await
        .unwrap();
    node.stop().await;
}

// VX-ERR-2: rate_limited and overloaded by the rules' guards
#[tokio::test(flavor = "multi_thread")]
async fn a_sender_beyond_its_rate_and_a_full_inbox_are_told_to_try_again() {
    let slow = SoftLimits {
        rate_per_sender: 1,
        ..SoftLimits::default()
    };
    let node = Setup {
        soft_limits: slow,
        ..Setup::default()
    }
    .start()
    .await;
    let mut limited = None;
    for number in 1..100 {
        let found = post(&node, share(number)).await;
        if found.0 != 200 {
            limited = Some((number, found));
            break;
        }
    }
    let (number, found) = limited.expect("a limit is reached");
    check(&found, 429, "rate_limited", true, Some(message_id(number)));
    node.stop().await;

    let full = SoftLimits {
        inbox_depth: 1,
        ..SoftLimits::default()
    };
    let node = Setup {
        soft_limits: full,
        ..Setup::default()
    }
    .start()
    .await;
    assert_eq!(post(&node, share(1)).await.0, 200);
    check(
        &post(&node, share(2)).await,
        503,
        "overloaded",
        true,
        Some(message_id(2)),
    );
    node.stop().await;
}

// VX-RUN-4, VX-KEY-5
#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_child_and_a_withdrawn_key_are_refused() {
    let node = Setup::default().start().await;
    let key = agent_key(ProtocolName::ValueContext, CHILD);
    let record = node.office.row::<Value>(&key).unwrap();
    let run_state = Some(RunState::Suspended);
    let protocol = ProtocolName::ValueContext;
    node.office
        .act(Act::Agent {
            protocol,
            id: CHILD.into(),
            record,
            run_state,
        })
        .await
        .unwrap();
    let body = altered(|message| {
        message["sender"] = json!(CHILD);
        message["recipient"] = json!(PARENT);
    });
    check(
        &post(&node, body).await,
        423,
        "sender_suspended",
        false,
        Some(message_id(1)),
    );
    assert_eq!(post(&node, share(2)).await.0, 200);

    let keys = answer(node.get("/admin/keys").send().await.unwrap())
        .await
        .1;
    let id = keys["keys"]
        .as_array()
        .unwrap()
        .iter()
        .find(|key| key["owner"] == LIVING_ROOM)
        .unwrap()["id"]
        .clone();
    let body = json!({"owner": LIVING_ROOM, "id": id, "state": "compromised"}).to_string();
    assert_eq!(
        node.post("/admin/keys/state", body)
            .send()
            .await
            .unwrap()
            .status(),
        200
    );
    check(
        &post(&node, share(3)).await,
        401,
        "key_not_valid",
        false,
        Some(message_id(3)),
    );
    node.stop().await;
}

// VX-ERR-2: the message of an error never repeats a value of the message
#[tokio::test(flavor = "multi_thread")]
async fn an_error_repeats_nothing_of_the_message() {
    let node = Setup::default().start().await;
    let body = altered(|message| message["payload"]["context"] = json!("canary-4711"));
    let text = node
        .post(MESSAGES, body)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(
        text.contains("context_invalid") && !text.contains("canary"),
        "{text}"
    );
    let body =
        altered(|message| message["payload"]["personal_state"] = json!({"cognitive": "canary"}));
    let text = node
        .post(MESSAGES, body)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(
        text.contains("schema_invalid") && !text.contains("canary"),
        "{text}"
    );
    node.stop().await;
}
