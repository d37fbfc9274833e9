//! Every code of the table, provoked over HTTP and where it can be over WebSocket (VX-ERR-2).

use std::time::Duration;

use chancery_core::keys::ed25519::SigningKey;
use chancery_doors::http::HttpLimits;
use chancery_value_context::code::Code;
use chancery_value_context::message::Kind;
use futures_util::SinkExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{
    CHILD, KITCHEN, LIVING_ROOM, MESSAGES, PARENT, Running, Setup, answer, envelope, head, raw,
    sealed, share, signed, vector_json,
};
use crate::websockets::{connect, status, text};

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut envelope = envelope(7);
    change(&mut envelope);
    envelope
}

fn between(sender: &str, recipient: &str, kind: &str, payload: Value) -> Value {
    with(|envelope| {
        envelope["sender"] = json!(sender);
        envelope["recipient"] = json!(recipient);
        envelope["type"] = json!(kind);
        envelope["payload"] = payload;
    })
}

fn seed(name: &str) -> SigningKey {
    let world = vector_json("world.json");
    let seed = world["secret_seeds_hex"][name].as_str().unwrap();
    SigningKey::from_seed(&chancery_core::digest::hex::decode_array(seed).unwrap())
}

/// A node that gives this code because of how it is set up, and a body that others would take.
fn narrow(code: Code) -> (Setup, Vec<u8>) {
    let mut setup = Setup::default();
    match code {
        Code::RateLimited => setup.soft_limits.rate_per_sender = 1,
        Code::TypeDisabled => {
            setup.settings.value_context.disabled_types = vec![Kind::ContextShare];
        }
        _ => setup.gate_limits.requests = 0,
    }
    (setup, share(8))
}

/// A node that gives this code, and the body that it gives it for. None for what no body provokes.
async fn provoking(code: Code) -> Option<(Running, Vec<u8>)> {
    let plain = |body: Vec<u8>| (Setup::default(), body);
    let (setup, body) = match code {
        Code::MalformedJson => plain(b"{".to_vec()),
        Code::SchemaInvalid => plain(signed(&with(|envelope| envelope["payload"] = json!({})))),
        Code::UnsupportedVersion => plain(signed(&with(|envelope| {
            envelope["vcp_message"] = json!("1.1")
        }))),
        Code::ContextInvalid => plain(signed(&with(|envelope| {
            envelope["payload"]["context"] = json!("T:morning");
        }))),
        Code::ConstraintInvalid => plain(signed(&between(
            PARENT,
            CHILD,
            "constraint_propagate",
            json!({"constraints": [{"type": "token_limit", "value": "many",
                "source_constitution_ref": "creed://creed.space/a@1.0.0"}],
                "propagation_mode": "merge"}),
        ))),
        Code::TimestampStale => plain(signed(&with(|envelope| {
            envelope["timestamp"] = json!("2026-02-15T10:00:00Z");
        }))),
        Code::TimestampFuture => plain(signed(&with(|envelope| {
            envelope["timestamp"] = json!("2026-02-15T11:00:00Z");
        }))),
        Code::SignatureMissing => plain(envelope(7).to_string().into_bytes()),
        Code::SignatureInvalid => plain(sealed(&envelope(7), &seed(KITCHEN))),
        Code::KeyNotValid => {
            let retired = seed("agent://orchestrator.prod/parent-001#k-12 (retired)");
            let share = envelope(7)["payload"].clone();
            plain(sealed(
                &between(PARENT, CHILD, "context_share", share),
                &retired,
            ))
        }
        Code::SenderUnknown => {
            let stranger = with(|envelope| envelope["sender"] = json!("agent://a.example/x"));
            plain(sealed(&stranger, &seed("stranger (in no trust file)")))
        }
        Code::NotAuthorized => plain(signed(&between(
            LIVING_ROOM,
            KITCHEN,
            "escalation",
            json!({"severity": "info", "reason": "x", "context": "📍🏡", "requires_ack": false}),
        ))),
        Code::RecipientUnknown => plain(signed(&with(|envelope| {
            envelope["recipient"] = json!("nobody")
        }))),
        Code::PayloadTooLarge => plain(vec![b' '; 70_000]),
        Code::SenderSuspended => {
            let share = envelope(7)["payload"].clone();
            plain(signed(&between(CHILD, PARENT, "context_share", share)))
        }
        Code::RateLimited | Code::TypeDisabled | Code::Overloaded => narrow(code),
        // These are about requests, not bodies; `internal` is what nobody can provoke.
        Code::NotFound
        | Code::MethodNotAllowed
        | Code::Timeout
        | Code::UnsupportedMediaType
        | Code::Internal => return None,
    };
    let node = setup.start().await;
    match code {
        Code::SenderSuspended => suspend(&node, CHILD).await,
        Code::RateLimited => assert_eq!(node.share(share(7)).await.0, 200),
        _ => {}
    }
    Some((node, body))
}

async fn suspend(node: &Running, agent: &str) {
    let path = format!(
        "/admin/agents/value-context/{}",
        crate::support::encoded(agent)
    );
    let suspended = node.post(&format!("{path}/suspend"), "");
    assert_eq!(suspended.send().await.unwrap().status(), 200);
}

/// What a request that is no message in a body is answered.
async fn about_the_request(code: Code) -> Option<(u16, Value)> {
    let node = Setup {
        limits: HttpLimits {
            body_timeout: Duration::from_millis(50),
            ..HttpLimits::default()
        },
        ..Setup::default()
    }
    .start()
    .await;
    let sent =
        |request: reqwest::RequestBuilder| async { answer(request.send().await.unwrap()).await };
    let answered = match code {
        Code::NotFound => sent(node.post("/.well-known/vcp/messages/", share(1))).await,
        Code::MethodNotAllowed => sent(node.client.request(Method::GET, node.url(MESSAGES))).await,
        Code::UnsupportedMediaType => {
            let request = node.client.post(node.url(MESSAGES)).body(share(1));
            sent(request.header("content-type", "text/plain")).await
        }
        Code::Timeout => {
            let answer = raw(node.address, head("POST", MESSAGES, 100).as_bytes()).await;
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let status = head.split(' ').nth(1).unwrap().parse().unwrap();
            (status, serde_json::from_str(body).unwrap())
        }
        _ => return None,
    };
    node.stop().await;
    Some(answered)
}

// VX-ERR-2, VX-RCV-1, VX-WS-2, VX-WS-4
#[tokio::test(flavor = "multi_thread")]
async fn every_code_is_given_with_its_status() {
    for code in Code::ALL {
        let name = code.as_str();
        if let Some((node, body)) = provoking(code).await {
            let (got, answer) = node.share(body.clone()).await;
            assert_eq!(
                (got, &answer["error"]["code"]),
                (code.status(), &json!(name))
            );
            assert_eq!(answer["error"]["retryable"], code.retryable(), "{name}");
            // Over WebSocket these two end the connection instead.
            if !matches!(code, Code::MalformedJson | Code::PayloadTooLarge) {
                let mut socket = connect(&node, true).await;
                socket.send(text(&body)).await.unwrap();
                let answer = status(&mut socket).await;
                assert_eq!(answer["error"]["code"], name);
                socket.send(Message::Close(None)).await.unwrap();
            }
            node.stop().await;
        } else if let Some((got, answer)) = about_the_request(code).await {
            assert_eq!(
                (got, &answer["error"]["code"]),
                (code.status(), &json!(name))
            );
        } else {
            assert_eq!(code, Code::Internal);
        }
    }
}
