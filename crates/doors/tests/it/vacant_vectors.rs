//! The `serve` vectors against a live node: each case gets a fresh one.

use std::sync::Arc;

use chancery_core::digest::hex;
use chancery_core::keys::ed25519::SigningKey;
use chancery_node::vacants::Behaviour;
use chancery_store::{Memory, Store};
use chancery_vacant::dispatch::check_response;
use chancery_vacant::id::VacantId;
use chancery_vacant::payload::Profile;
use chancery_vacant::state::State;
use chancery_vacant::wire::read_json;
use serde_json::{Value, json};

use crate::kept::fresh;
use crate::support::{Running, Setup, vacant};

const BASE: &str = include_str!("../../../../vectors/vacant/serve_base.json");
const SELF_EVALUATION: &str = include_str!("../../../../vectors/vacant/serve_selfeval.json");
const PATH: &str = "/a2a/message/send";

// VA-SRV-1, VA-SRV-2, VA-SRV-3, VA-SRV-4, VA-SRV-5, VA-SRV-6, VA-WIRE-10, VA-RSP-1
#[tokio::test(flavor = "multi_thread")]
async fn base() {
    run(BASE, Profile::Base, |_| Arc::new(Memory::new())).await;
}

// VA-SRV-1, VA-REP-4, CH-JRN-5
#[tokio::test(flavor = "multi_thread")]
async fn base_on_postgresql() {
    let store = |case| fresh(&format!("base-{case}"));
    run(BASE, Profile::Base, store).await;
}

// VA-MSG-6, VA-MSG-7, VA-MSG-8
#[tokio::test(flavor = "multi_thread")]
async fn self_evaluation() {
    let memory = |_| Arc::new(Memory::new()) as Arc<dyn Store>;
    run(SELF_EVALUATION, Profile::SelfEval, memory).await;
}

// VA-MSG-6, CH-JRN-5
#[tokio::test(flavor = "multi_thread")]
async fn self_evaluation_on_postgresql() {
    let store = |case| fresh(&format!("self-evaluation-{case}"));
    run(SELF_EVALUATION, Profile::SelfEval, store).await;
}

async fn run(text: &str, profile: Profile, store: impl Fn(usize) -> Arc<dyn Store>) {
    let file: Value = serde_json::from_str(text).unwrap();
    let seed: [u8; 32] = hex::decode_array(file["server_seed_hex"].as_str().unwrap()).unwrap();
    let server = VacantId::of(&SigningKey::from_seed(&seed));
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() >= 38);
    for (number, case) in cases.iter().enumerate() {
        let mut hosted = vacant("server", seed, Behaviour::Echo);
        hosted.0.first_state = State::parse(case["state"].as_str().unwrap()).unwrap();
        let node = Setup {
            vacants: vec![hosted],
            store: store(number),
            ..Setup::default()
        };
        let node = node.start().await;
        for (index, request) in case["requests"].as_array().unwrap().iter().enumerate() {
            let name = format!("{} request {index}", case["id"]);
            exchange(&node, request, profile, &server, &name).await;
        }
        node.stop().await;
    }
}

async fn exchange(node: &Running, request: &Value, profile: Profile, at: &VacantId, name: &str) {
    let body = match request["raw_hex"].as_str() {
        Some(raw) => hex::decode(raw).unwrap(),
        None => request["body"].to_string().into_bytes(),
    };
    let mut post = node.client.post(node.url(PATH)).body(body);
    let headers = request.get("headers").cloned();
    let headers = headers.unwrap_or_else(|| json!({"content-type": "application/json"}));
    for (header, value) in headers.as_object().unwrap() {
        post = post.header(header, value.as_str().unwrap());
    }
    let response = post.send().await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.bytes().await.unwrap();
    assert_eq!(status, request["expect_status"], "{name}");
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    if status != 200 {
        // VA-SRV-10
        assert_eq!(body["jsonrpc"], "2.0", "{name}");
        assert!(
            body["detail"].is_string() && body["error"]["code"].is_i64(),
            "{name}"
        );
        assert_eq!(
            body["error"]["data"][0]["domain"], "urn:vacant:v1",
            "{name}"
        );
        return;
    }
    let Some(expected) = request.get("expect_response") else {
        return;
    };
    assert_eq!(body["id"], expected["id"], "{name}");
    let to = VacantId::from_hex(expected["to"].as_str().unwrap()).unwrap();
    let read = read_json(&bytes, 1 << 20).unwrap();
    let (envelope, verified) = check_response(&read, at, &to).unwrap();
    assert_eq!(verified.profile, profile, "{name}");
    assert_eq!(envelope.sequence_no, expected["sequence_no"], "{name}");
    assert_eq!(json!(envelope.payload.parts), expected["texts"], "{name}");
    assert_eq!(envelope.payload.role.as_str(), expected["role"], "{name}");
}
