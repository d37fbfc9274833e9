//! Hosted vacants over a real listener: lost answers, restarts, inboxes, cards and the registry.

use chancery_core::protocol::{Caller as From, Door, Input, Protocol};
use chancery_core::rows::RowKey;
use chancery_node::suite::AnyInput;
use chancery_node::vacants::Behaviour;
use chancery_vacant::card::CapabilityCard;
use chancery_vacant::native::read_request;
use serde_json::{Value, json};

use crate::kept::Kept;
use crate::support::{BOB_SEED, Running, Setup, answer, vacant};
use crate::vacant_call::{Caller, bob};

const PATH: &str = "/a2a/message/send";

async fn call(node: &Running, body: Vec<u8>) -> (u16, Value) {
    answer(node.post(PATH, body).send().await.unwrap()).await
}

// VA-SRV-11, VA-SRV-12
#[tokio::test(flavor = "multi_thread")]
async fn who_lost_an_answer_gets_it_again_and_the_behaviour_does_not_run_twice() {
    let node = Setup::with_vacant().start().await;
    let mut caller = Caller::new([1; 32], bob());
    let (body, hash) = caller.call("one");
    let (status, first) = call(&node, body.clone()).await;
    assert_eq!(status, 200);
    let (status, again) = call(&node, body.clone()).await;
    assert_eq!(status, 409);
    assert_eq!(again["error"]["response"], first["result"]["message"]);
    let info = &again["error"]["data"][0];
    assert_eq!(info["reason"], "REPLAY_DETECTED");
    assert_eq!(info["metadata"]["last_sequence_no"], "1");
    assert_eq!(info["metadata"]["chain_tip"], hash.hex());
    caller.accepted(hash);
    let (next, _) = caller.call("two");
    let (status, second) = call(&node, next).await;
    assert_eq!(status, 200);
    // One answer to each call: nothing ran in between.
    let vacant = &second["result"]["message"]["metadata"]["urn:vacant:v1"];
    assert_eq!(vacant["sequence_no"], 2);
    let (status, old) = call(&node, body).await;
    assert_eq!((status, old["error"].get("response")), (409, None));
    node.stop().await;
}

// VA-REP-12, VA-SRV-12, CH-JRN-16, CH-JRN-2
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_chains_and_the_last_answer_and_carries_open_calls_through() {
    restarted(Kept::on_files()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_chains_and_the_last_answer_and_carries_open_calls_through_also_in_postgresql()
 {
    restarted(Kept::in_postgresql()).await;
}

async fn restarted(kept: Kept) {
    let mut caller = Caller::new([1; 32], bob());
    let (first, hash) = caller.call("one");
    let node = Setup {
        store: kept.open(),
        ..Setup::with_vacant()
    };
    let node = node.start().await;
    let (status, answered) = call(&node, first.clone()).await;
    assert_eq!(status, 200);
    caller.accepted(hash);
    // A second call is accepted, and the node stops before its behaviour has run.
    let (second, hash) = caller.call("two");
    accept_only(&node, &second).await;
    node.stop().await;
    kept.lose_index();
    let node = Setup {
        store: kept.open(),
        ..Setup::with_vacant()
    };
    let node = node.start().await;
    let (status, again) = call(&node, second).await;
    assert_eq!(status, 409);
    let lost = &again["error"]["response"];
    assert_eq!(lost["parts"][0]["text"], "echo: two");
    let fields = &lost["metadata"]["urn:vacant:v1"];
    assert_eq!(fields["sequence_no"], 2);
    assert_ne!(fields["prev_envelope_hash"], "0".repeat(64));
    assert_eq!(
        answered["result"]["message"]["parts"][0]["text"],
        "echo: one"
    );
    caller.accepted(hash);
    let (third, _) = caller.call("three");
    assert_eq!(call(&node, third).await.0, 200);
    node.stop().await;
}

/// Puts a call on record and runs no behaviour, as a stop in between leaves it.
async fn accept_only(node: &Running, body: &[u8]) {
    let gate = node.office.gate();
    let settings = gate.settings();
    let message = read_request(&bytes::Bytes::copy_from_slice(body), &settings.vacant).1;
    let now = gate.clock().now();
    let authentic = gate.suite().vacant().authenticate(
        message.unwrap(),
        Door::Http,
        &From::default(),
        &gate.keyring(),
        &settings.vacant,
        now,
    );
    let input = AnyInput::Vacant(Input::Envelope(authentic.unwrap()));
    node.office.submit(input).await.unwrap().result.unwrap();
}

// VA-SRV-13, CH-ID-4, VA-SRV-4
#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_chain_reset_and_no_vacant_of_another_name() {
    let node = Setup::with_vacant().start().await;
    for path in ["/a2a/chain/reset", "/agents/nobody/a2a/message/send"] {
        let (status, body) = answer(node.post(path, "{}").send().await.unwrap()).await;
        assert_eq!(status, 404, "{path}");
        assert_eq!(body["error"]["data"][0]["reason"], "NOT_FOUND", "{path}");
    }
    let (body, _) = Caller::new([1; 32], bob()).call("hi");
    let path = "/agents/bob/a2a/message/send";
    let (status, _) = answer(node.post(path, body).send().await.unwrap()).await;
    assert_eq!(status, 200);
    node.stop().await;
}

// VA-SRV-14
#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_the_limit_is_too_large() {
    let node = Setup::with_vacant().start().await;
    let (status, body) = call(&node, vec![b' '; (1 << 20) + 1]).await;
    assert_eq!(status, 413);
    assert_eq!(body["error"]["data"][0]["reason"], "TOO_LARGE");
    node.stop().await;
}

// VA-SRV-16, VA-CARD-3, VA-A2A-2, VA-A2A-3, VA-STA-4
#[tokio::test(flavor = "multi_thread")]
async fn a_vacant_shows_its_card_and_its_state() {
    let node = Setup::with_vacant().start().await;
    let (status, card) = answer(node.get("/card").send().await.unwrap()).await;
    assert_eq!(status, 200);
    assert_eq!(card["endpoint"], "http://node.example/a2a/message/send");
    let blob =
        chancery_core::digest::hex::decode(card["capability_card_blob_hex"].as_str().unwrap());
    let signed = CapabilityCard::deserialize(&blob.unwrap()).unwrap();
    assert!(signed.verify() && signed.vacant_id == bob());
    let (_, health) = answer(node.get("/health").send().await.unwrap()).await;
    assert_eq!(
        health,
        json!({"vacant_id": bob(), "state": "ACTIVE", "name": "bob"})
    );
    let path = "/.well-known/agent-card.json";
    let response = node.get(path).send().await.unwrap();
    let tag = response.headers()["etag"].clone();
    assert_eq!(response.headers()["cache-control"], "max-age=300");
    let (_, agent) = answer(response).await;
    assert_eq!(agent["url"], "http://node.example/a2a");
    assert_eq!(agent["protocolVersion"], "0.3.0");
    assert_eq!(agent["supportedInterfaces"][0]["protocolVersion"], "1.0");
    assert_eq!(agent["skills"][0]["id"], "vacant_call");
    let extensions = &agent["capabilities"]["extensions"];
    assert_eq!(extensions[0]["uri"], "urn:vacant:v1");
    assert_eq!(extensions[1]["params"]["vacant_id"], bob().hex());
    let again = node.get(path).header("if-none-match", tag).send().await;
    assert_eq!(again.unwrap().status().as_u16(), 304);
    let sink = json!({"set_state": {"name": "bob", "state": "SUNK"}}).to_string();
    let (status, _) = answer(node.post("/admin/vacant", sink).send().await.unwrap()).await;
    assert_eq!(status, 200);
    assert_eq!(node.get(path).send().await.unwrap().status().as_u16(), 410);
    let (body, _) = Caller::new([1; 32], bob()).call("hi");
    let (status, gone) = call(&node, body).await;
    assert_eq!(status, 410);
    assert_eq!(gone["error"]["data"][0]["reason"], "TARGET_GONE");
    node.stop().await;
}

// CH-JRN-16, CH-JRN-10, VA-SRV-9
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_answers_from_the_inbox_once() {
    let node = Setup {
        vacants: vec![
            vacant("bob", BOB_SEED, Behaviour::Inbox),
            vacant("carol", [8; 32], Behaviour::Echo),
        ],
        ..Setup::default()
    };
    let node = node.start().await;
    let caller = Caller::new([1; 32], bob());
    let (body, _) = caller.call("what is it?");
    let waiting = tokio::spawn(node.post(PATH, body).send());
    let inbox = node.get("/inbox/vacant/bob?wait=20").send().await.unwrap();
    let (_, page) = answer(inbox).await;
    let entry = &page["entries"][0];
    assert_eq!(entry["envelope"]["parts"][0]["text"], "what is it?");
    let says = json!({"from": "bob", "answers": entry["seq"], "text": "a letter"}).to_string();
    let (status, _) = answer(
        node.post("/send/vacant", says.clone())
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(status, 200);
    let (status, told) = answer(waiting.await.unwrap().unwrap()).await;
    assert_eq!(status, 200);
    assert_eq!(told["result"]["message"]["parts"][0]["text"], "a letter");
    let (status, _) = answer(node.post("/send/vacant", says).send().await.unwrap()).await;
    assert_eq!(status, 409);
    // A vacant of this node calls another one: one line for both sides.
    let carol = node.vacants.as_ref().unwrap().find("carol").unwrap().id;
    let asks = json!({"from": "bob", "to": carol, "text": "and you?"}).to_string();
    let (status, told) = answer(node.post("/send/vacant", asks).send().await.unwrap()).await;
    assert_eq!(status, 200);
    assert_eq!(
        told["result"]["message"]["parts"][0]["text"],
        "echo: and you?"
    );
    let (_, state) = answer(node.get("/state/vacant/bob").send().await.unwrap()).await;
    assert_eq!(state["state"], "ACTIVE");
    assert_eq!(state["chains"].as_array().unwrap().len(), 4);
    node.stop().await;
}

// VA-REG-2, VA-REG-5, VA-REG-6, VA-STA-1, CH-ID-4
#[tokio::test(flavor = "multi_thread")]
async fn the_registry_finds_active_vacants_and_what_is_published() {
    let node = Setup::with_vacant().start().await;
    let key = chancery_core::keys::ed25519::SigningKey::from_seed(&[5; 32]);
    let id = chancery_vacant::id::VacantId::of(&key);
    let card = CapabilityCard::new(
        id,
        "100% translation",
        Some("https://x.example/a2a/message/send".into()),
    );
    let card = String::from_utf8(card.signed(&key).serialize()).unwrap();
    let publish = json!({"publish": {"card": card, "family": "small"}}).to_string();
    let (status, told) = answer(node.post("/admin/vacant", publish).send().await.unwrap()).await;
    assert_eq!(status, 200, "{told}");
    let path = "/v1/query_capability?capability=echoes&limit=5";
    let (_, found) = answer(node.post(path, "").send().await.unwrap()).await;
    assert_eq!(found["matches"].as_array().unwrap().len(), 1);
    assert_eq!(found["matches"][0]["vacant_id"], bob().hex());
    // Wildcard characters are literal.
    let (_, found) = answer(
        node.get("/v1/search_capability?q=%25%20tr")
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(found.as_array().unwrap().len(), 1);
    let path = "/v1/search_capability?q=x&include_local=true";
    assert_eq!(node.get(path).send().await.unwrap().status().as_u16(), 403);
    let path = format!("/v1/capability_card/{}", id.hex());
    let (_, one) = answer(node.get(&path).send().await.unwrap()).await;
    assert_eq!(one["base_model_family"], "small");
    assert_eq!(one["visibility"], "PUBLIC");
    let local = json!({"set_state": {"name": "bob", "state": "LOCAL"}}).to_string();
    answer(node.post("/admin/vacant", local).send().await.unwrap()).await;
    let path = format!("/v1/capability_card/{}", bob().hex());
    assert_eq!(node.get(&path).send().await.unwrap().status().as_u16(), 404);
    node.stop().await;
}

// VA-SRV-18: the ready application, and its paths inside a larger one.
#[tokio::test(flavor = "multi_thread")]
async fn the_paths_can_be_mounted_in_a_larger_application() {
    let node = Setup::with_vacant().start().await;
    let larger = axum::Router::new()
        .route("/own", axum::routing::get(|| async { "its own" }))
        .fallback_service(node.server.router());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, larger).await });
    let client = reqwest::Client::new();
    let own = client.get(format!("{base}/own")).send().await.unwrap();
    assert_eq!(own.text().await.unwrap(), "its own");
    let mut caller = Caller::new([1; 32], bob());
    let (body, hash) = caller.call("mounted");
    let post = |body| {
        let request = client.post(format!("{base}{PATH}")).body(body);
        request.header("content-type", "application/json").send()
    };
    let (status, told) = answer(post(body).await.unwrap()).await;
    assert_eq!(status, 200);
    let text = &told["result"]["message"]["parts"][0]["text"];
    assert_eq!(text, "echo: mounted");
    caller.accepted(hash);
    // It is the same vacant: its own listener knows the chain.
    let (body, _) = caller.call("home");
    assert_eq!(call(&node, body).await.0, 200);
    serving.abort();
    node.stop().await;
}

/// Bodies of up to 1 MiB, each wrong in another way.
fn shapes() -> Vec<Vec<u8>> {
    const BYTES: usize = 1 << 20;
    let filled = |open: &str, unit: &str, close: &str| {
        let times = (BYTES - open.len() - close.len()) / unit.len();
        format!("{open}{}{close}", unit.repeat(times)).into_bytes()
    };
    let parts = r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"parts":["#;
    vec![
        Vec::new(),
        vec![0; BYTES],
        vec![0xff; BYTES],
        filled("", "[", ""),
        filled("[", "[],", "[]]"),
        filled(r#"{"params":"#, "9", "}"),
        filled(r#"{"params":1e"#, "9", "}"),
        filled(r#"{"params":""#, r"\ud83d", r#""}"#),
        filled(r#"{"a":0"#, r#","a":0"#, "}"),
        filled(parts, r#"{"text":"a"},"#, r#"{"text":"a"}]}}}"#),
        filled(&format!(r#"{parts}{{"text":""#), "a", r#""}]}}}"#),
    ]
}

// VA-PERF-2, VA-SRV-14: each is refused while calls of a pair beside it are answered, and nothing of it stays.
#[tokio::test(flavor = "multi_thread")]
async fn no_shape_of_a_body_takes_the_node_down_or_stays() {
    let node = Setup::with_vacant().start().await;
    let mut caller = Caller::new([1; 32], bob());
    for body in shapes() {
        let lines = node.office.gate().store().head().seq;
        let rows = node
            .office
            .gate()
            .store()
            .scan(&RowKey::from_stored(""), None, usize::MAX);
        let rows = rows.unwrap().len();
        let start: Vec<u8> = body.iter().copied().take(80).collect();
        let (status, told) = call(&node, body).await;
        let start = String::from_utf8_lossy(&start).into_owned();
        assert!(matches!(status, 400 | 413), "{status} {told} {start}");
        assert_eq!(node.office.gate().store().head().seq, lines);
        let after = node
            .office
            .gate()
            .store()
            .scan(&RowKey::from_stored(""), None, usize::MAX);
        assert_eq!(after.unwrap().len(), rows);
        let (body, hash) = caller.call("still here?");
        assert_eq!(call(&node, body).await.0, 200);
        caller.accepted(hash);
    }
    node.stop().await;
}
