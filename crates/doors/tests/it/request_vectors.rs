//! The request vectors against a live server whose clock stands at the world's `now` (VX-TST-1).

use std::sync::Arc;

use chancery_store::{Memory, Store};
use serde_json::{Value, json};

use crate::kept::fresh;
use crate::support::{MESSAGES, Setup, answer, vector_json};

fn body(case: &Value) -> Vec<u8> {
    if let Some(hex) = case.get("body_hex") {
        return chancery_core::digest::hex::decode(hex.as_str().unwrap()).unwrap();
    }
    let mut body = case["body"].as_str().unwrap().as_bytes().to_vec();
    if let Some(length) = case.get("pad_to_bytes") {
        body.resize(length.as_u64().unwrap() as usize, b' ');
    }
    body
}

// VX-TST-1, VX-ERR-1, VX-ERR-2, VX-ERR-3, VX-RCV-1
#[tokio::test(flavor = "multi_thread")]
async fn every_case_gets_its_status_code_and_path() {
    judge_all(|_| Arc::new(Memory::new())).await;
}

// VX-TST-1, CH-JRN-5
#[tokio::test(flavor = "multi_thread")]
async fn every_case_gets_its_status_code_and_path_also_on_postgresql() {
    judge_all(|case| fresh(&format!("requests-{case}"))).await;
}

/// Each case has a journal of its own.
async fn judge_all(store: impl Fn(usize) -> Arc<dyn Store>) {
    let file = vector_json("requests.json");
    let mut judged = 0;
    for case in file["vectors"].as_array().unwrap() {
        let body = body(case);
        let id = case["id"].as_str().unwrap();
        let setup = Setup {
            store: store(judged),
            ..Setup::default()
        };
        let node = setup.start().await;
        let sent_id = serde_json::from_slice::<Value>(&body)
            .ok()
            .and_then(|body| {
                let id = body.get("message_id")?.as_str()?.to_owned();
                chancery_core::ids::is_uuid7(&id).then_some(id)
            });
        let response = node.post(MESSAGES, body).send().await.unwrap();
        let headers = response.headers().clone();
        let (status, body) = answer(response).await;
        let expected = &case["expect"];
        assert_eq!(status, expected["http_status"], "{id}: {body}");
        assert_eq!(
            headers["content-type"], "application/json; charset=utf-8",
            "{id}"
        );
        if status == 200 {
            assert_eq!(
                body,
                json!({"status": expected["code"], "message_id": sent_id}),
                "{id}"
            );
        } else {
            assert_eq!(body["status"], "rejected", "{id}");
            assert_eq!(body["error"]["code"], expected["code"], "{id}");
            assert_eq!(body["error"].get("path"), expected.get("path"), "{id}");
            if !matches!(
                expected["code"].as_str(),
                Some("malformed_json" | "payload_too_large")
            ) {
                assert_eq!(body["message_id"], json!(sent_id), "{id}");
            }
        }
        if status == 401 {
            assert_eq!(headers["www-authenticate"], "VCP-Ed25519", "{id}");
        }
        node.stop().await;
        judged += 1;
    }
    assert_eq!(judged, file["vectors"].as_array().unwrap().len());
}
