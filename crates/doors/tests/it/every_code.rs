//! Every code of the protocol's table, provoked over HTTP. The table is read from the type: a code that is added and
//! provoked nowhere does not compile here.

use std::time::Duration;

use chancery_core::admin::{Act, agent_key};
use chancery_core::line::ProtocolName;
use chancery_doors::http::HttpLimits;
use chancery_node::SoftLimits;
use chancery_value_context::code::Code;
use chancery_value_context::message::Kind;
use serde_json::{Value, json};

use crate::support::{
    CHILD, KITCHEN, LIVING_ROOM, MESSAGES, PARENT, Running, Setup, answer, embedded, envelope,
    head, raw, share, signed, temporary,
};

type Found = (u16, Value);

fn altered(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut message = envelope(1);
    change(&mut message);
    signed(&message)
}

/// A message of another type between two agents.
fn of_type(kind: &str, from: &str, to: &str, payload: Value) -> Vec<u8> {
    altered(|message| {
        message["type"] = json!(kind);
        message["sender"] = json!(from);
        message["recipient"] = json!(to);
        message["payload"] = payload;
    })
}

fn constraint(value: Value) -> Value {
    let source = "creed://creed.space/family.safe.guide@1.2.0";
    json!({
        "constraints": [{"type": "token_limit", "value": value, "source_constitution_ref": source}],
        "propagation_mode": "merge",
    })
}

async fn one(setup: Setup, body: impl Into<reqwest::Body>) -> Found {
    let node = setup.start().await;
    let found = node.share(body).await;
    node.stop().await;
    found
}

async fn plain(body: impl Into<reqwest::Body>) -> Found {
    one(Setup::default(), body).await
}

/// Posts until something else than 200 is answered.
async fn until_refused(setup: Setup) -> Found {
    let node = setup.start().await;
    let mut found = (200, Value::Null);
    for number in 1..200 {
        found = node.share(share(number)).await;
        if found.0 != 200 {
            break;
        }
    }
    node.stop().await;
    found
}

async fn provoke(code: Code) -> Found {
    let at = |stamp: &'static str| altered(move |message| message["timestamp"] = json!(stamp));
    match code {
        Code::MalformedJson => plain("{").await,
        Code::SchemaInvalid => plain(altered(|message| message["priority"] = json!(1))).await,
        Code::UnsupportedVersion => {
            plain(altered(|message| message["vcp_message"] = json!("2.0"))).await
        }
        Code::ContextInvalid => {
            plain(altered(|message| {
                message["payload"]["context"] = json!("T:morning")
            }))
            .await
        }
        Code::ConstraintInvalid => {
            let payload = constraint(json!(-1));
            plain(of_type("constraint_propagate", PARENT, CHILD, payload)).await
        }
        Code::TimestampStale => plain(at("2026-02-15T10:28:29Z")).await,
        Code::TimestampFuture => plain(at("2026-02-15T10:34:01Z")).await,
        Code::SignatureMissing => plain(envelope(1).to_string()).await,
        Code::SignatureInvalid => {
            let body = String::from_utf8(share(1)).unwrap();
            plain(body.replace("family.safe", "family.sage")).await
        }
        Code::KeyNotValid => key_not_valid().await,
        Code::SenderUnknown => {
            let mut message: Value = serde_json::from_slice(&share(1)).unwrap();
            message["sender"] = json!("agent://home.local/stranger");
            plain(message.to_string()).await
        }
        Code::NotAuthorized => {
            let payload = constraint(json!(1));
            plain(of_type("constraint_propagate", CHILD, PARENT, payload)).await
        }
        Code::RecipientUnknown => {
            plain(altered(|message| {
                message["recipient"] = json!("agent://home.local/nobody")
            }))
            .await
        }
        Code::SenderSuspended => sender_suspended().await,
        Code::TypeDisabled => {
            let mut setup = Setup::default();
            setup.settings.value_context.disabled_types = vec![Kind::ContextShare];
            one(setup, share(1)).await
        }
        Code::RateLimited => {
            let soft_limits = SoftLimits {
                rate_per_sender: 1,
                ..SoftLimits::default()
            };
            until_refused(Setup {
                soft_limits,
                ..Setup::default()
            })
            .await
        }
        Code::Overloaded => {
            let soft_limits = SoftLimits {
                inbox_depth: 1,
                ..SoftLimits::default()
            };
            until_refused(Setup {
                soft_limits,
                ..Setup::default()
            })
            .await
        }
        Code::PayloadTooLarge => plain(vec![b' '; 65_537]).await,
        Code::NotFound
        | Code::MethodNotAllowed
        | Code::UnsupportedMediaType
        | Code::Timeout
        | Code::Internal => by_request(code).await,
    }
}

/// What the request itself gets wrong, or the node.
async fn by_request(code: Code) -> Found {
    if code == Code::Internal {
        return internal().await;
    }
    let limits = HttpLimits {
        body_timeout: Duration::from_millis(200),
        ..HttpLimits::default()
    };
    let node = Setup {
        limits,
        ..Setup::default()
    }
    .start()
    .await;
    let found = match code {
        Code::NotFound => {
            let path = format!("{MESSAGES}/");
            answer(node.post(&path, share(1)).send().await.unwrap()).await
        }
        Code::MethodNotAllowed => answer(node.get(MESSAGES).send().await.unwrap()).await,
        Code::UnsupportedMediaType => {
            let request = node.client.post(node.url(MESSAGES)).body(share(1));
            answer(request.send().await.unwrap()).await
        }
        _ => {
            let text = raw(node.address, head("POST", MESSAGES, 10).as_bytes()).await;
            let status = text.split(' ').nth(1).unwrap().parse().unwrap();
            let body = text.split_once("\r\n\r\n").unwrap().1;
            (status, serde_json::from_str(body).unwrap())
        }
    };
    node.stop().await;
    found
}

async fn key_not_valid() -> Found {
    let node = Setup::default().start().await;
    let keys = node.office.gate().keyring();
    let key = keys.records(LIVING_ROOM).next().unwrap().clone();
    let withdrawn = chancery_core::keys::KeyRecord {
        state: chancery_core::keys::KeyState::Compromised,
        ..key
    };
    node.office.act(Act::Key(withdrawn)).await.unwrap();
    let found = node.share(share(1)).await;
    node.stop().await;
    found
}

/// A child whose emergency its parent holds against it.
async fn sender_suspended() -> Found {
    let node = Setup::default().start().await;
    let payload = json!({
        "severity": "emergency", "reason": "fire", "context": "📍💻", "requires_ack": true,
    });
    let accepted = node
        .share(of_type("escalation", CHILD, PARENT, payload))
        .await;
    assert_eq!(accepted.0, 200, "{accepted:?}");
    let mut next = envelope(2);
    next["sender"] = json!(CHILD);
    next["recipient"] = json!(PARENT);
    let found = node.share(signed(&next)).await;
    let known = node
        .office
        .row::<Value>(&agent_key(ProtocolName::ValueContext, CHILD));
    assert!(known.unwrap().is_some());
    node.stop().await;
    found
}

/// A node that cannot read its own log any more.
async fn internal() -> Found {
    let (dir, data) = temporary();
    let node = Setup {
        store: embedded(&data),
        ..Setup::default()
    }
    .start()
    .await;
    let send = |node: &Running| {
        let body = json!({
            "sender": KITCHEN,
            "recipient": KITCHEN,
            "type": "context_share",
            "payload": envelope(1)["payload"],
        });
        let request = node.post("/send/value-context", body.to_string());
        request.header("idempotency-key", "once").send()
    };
    let sent = answer(send(&node).await.unwrap()).await;
    assert_eq!(sent.0, 200, "{sent:?}");
    std::fs::OpenOptions::new()
        .write(true)
        .open(data.join("audit.jsonl"))
        .unwrap()
        .set_len(0)
        .unwrap();
    let found = answer(send(&node).await.unwrap()).await;
    drop(dir);
    found
}

// VX-ERR-2
#[tokio::test(flavor = "multi_thread")]
async fn each_code_of_the_table_is_provoked() {
    for code in Code::ALL {
        let (status, body) = provoke(code).await;
        assert_eq!(status, code.status(), "{code}: {body}");
        assert_eq!(body["error"]["code"], code.as_str(), "{body}");
        assert_eq!(body["error"]["retryable"], code.retryable(), "{code}");
        assert_eq!(body["status"], "rejected", "{code}");
    }
}
