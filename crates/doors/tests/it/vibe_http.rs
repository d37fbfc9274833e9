//! What vibe's door adds to its rules: reads by visibility, people at the gate, completing, keys in flight.

use std::sync::Arc;

use chancery_core::admin::TokenRecord;
use chancery_store::Memory;
use serde_json::{Value, json};

use crate::support::{answer, temporary};
use crate::vibe_support::{Market, Served, envelope, mandate, offer, settle, token, world};

fn market() -> Market {
    Market::over(world().to_string().as_bytes())
}

async fn dev() -> Served {
    market().start(Arc::new(Memory::new())).await
}

fn tokens() -> Vec<(String, TokenRecord)> {
    let mut gate = token("clerk", &[], None, None);
    gate.1.scopes.push("approve".to_owned());
    vec![
        token("ada", &["consumer:persona", "buyer"], Some("c_ada"), None),
        token("bob", &["consumer:persona", "buyer"], Some("c_bob"), None),
        token(
            "keys",
            &["merchant", "merchant:owner"],
            None,
            Some("m_keys"),
        ),
        token("other", &["merchant"], None, Some("m_other")),
        token("psp", &["platform:psp"], None, None),
        token("ranks", &["platform:aggregator"], None, None),
        token("judge", &["platform:adjudicator"], None, None),
        token("nobody", &[], None, None),
        token("buys", &["buyer"], None, None),
        token("sells", &["merchant"], None, None),
        token(
            "trades",
            &["buyer", "merchant"],
            Some("c_ada"),
            Some("m_keys"),
        ),
        token(
            "crosses",
            &["buyer", "merchant"],
            Some("c_ada"),
            Some("m_other"),
        ),
        gate,
    ]
}

/// A node with those tokens.
pub async fn guarded() -> Served {
    let mut market = market();
    market.tokens = Some(tokens());
    market.start(Arc::new(Memory::new())).await
}

/// Asks for a path with somebody's token.
pub async fn get(node: &Served, who: &str, path: &str) -> (u16, Value) {
    let request = node.get(path).bearer_auth(format!("tok_{who}"));
    answer(request.send().await.unwrap()).await
}

/// Sends something to a path with somebody's token.
pub async fn post(node: &Served, who: &str, path: &str, body: &Value) -> (u16, Value) {
    let request = node.post(path, body.to_string());
    let request = request.bearer_auth(format!("tok_{who}"));
    answer(request.send().await.unwrap()).await
}

// VC-ADR-7, VC-ADR-8, VC-HTTP-5, VC-HTTP-6
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_its_owners_and_the_platforms() {
    let node = guarded().await;
    let opened = mandate("s1", "c_ada", "acc_ada");
    assert_eq!(
        post(&node, "keys", "/vcp", &opened).await.1["code"],
        "sender_not_authorized"
    );
    assert_eq!(
        post(&node, "bob", "/vcp", &opened).await.1["code"],
        "identity_mismatch"
    );
    let (status, body) = post(&node, "ada", "/vcp", &opened).await;
    assert_eq!(status, 200, "{body}");
    for path in ["/vcp/sessions/s1", "/state/vibe/s1"] {
        for (who, seen) in [
            ("ada", 200),
            ("bob", 404),
            ("keys", 404),
            ("psp", 200),
            ("ranks", 200),
            ("nobody", 404),
        ] {
            let (status, body) = get(&node, who, path).await;
            assert_eq!(status, seen, "{who} {path}: {body}");
            if seen == 200 {
                assert_eq!(body["kind"], "buyer_journey");
                assert_eq!(body["phase"], "mandated");
                assert_eq!(body["mandate_id"], "man_s1");
                assert!(!holds_private(&body.to_string()), "{body}");
            } else {
                assert_eq!(body["code"], "session_not_found", "{who}");
            }
        }
        let response = node.get(path).send().await.unwrap();
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        assert_eq!(answer(response).await.1["code"], "unauthenticated");
    }
    // The lines hold mandates: they are the platform's alone.
    assert_eq!(get(&node, "ada", "/vcp/audit").await.0, 404);
    let lines = node
        .get("/vcp/audit?from_seq=1")
        .bearer_auth("tok_ranks")
        .send()
        .await
        .unwrap();
    assert_eq!(lines.status(), 200);
    let text = lines.text().await.unwrap();
    assert_eq!(text.lines().count(), 1);
    assert!(text.contains("\"msg_id\":\"s1-mandate\""), "{text}");
    node.stop().await;
}

// VC-GATE-1, VC-GATE-5, CH-ID-2
#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_waits_for_its_principal_or_for_who_may_approve() {
    let node = guarded().await;
    let say = async |who: &str, envelope: Value| {
        let (status, body) = post(&node, who, "/vcp", &envelope).await;
        assert_eq!(status, 200, "{body}");
        body
    };
    say("ada", mandate("s1", "c_ada", "acc_ada")).await;
    say("keys", offer("s1", 11_900)).await;
    let mut accept = envelope(
        "s1-accept",
        "s1",
        "buyer:negotiation",
        "platform:aggregator",
        "commerce.accept_offer",
        json!({"offer_id": "off_s1"}),
    );
    accept["in_reply_to"] = json!("s1-offer");
    say("ada", accept).await;
    let mut cert = Value::Null;
    for (who, waiting) in [
        ("ada", 1),
        ("bob", 0),
        ("keys", 0),
        ("psp", 1),
        ("clerk", 1),
        ("nobody", 0),
    ] {
        let (status, body) = get(&node, who, "/vcp/approvals").await;
        assert_eq!(status, 200, "{who}");
        let approvals = body["approvals"].as_array().unwrap();
        assert_eq!(approvals.len(), waiting, "{who}: {body}");
        if waiting == 1 {
            assert_eq!(approvals[0]["session_id"], "s1");
            assert_eq!(approvals[0]["goal"], "a quiet keyboard");
            assert_eq!(approvals[0]["cert"]["total"], 11_900);
            assert!(!holds_private(&body.to_string()), "{body}");
            cert = approvals[0]["cert"]["cert_id"].clone();
        }
    }
    // The scope answers the gate and opens nothing else.
    let yes = |id: &str| {
        envelope(
            id,
            "s1",
            "consumer:persona",
            "buyer:authorization",
            "delegate.approve_purchase",
            json!({"cert_id": cert}),
        )
    };
    let other = mandate("s2", "c_bob", "acc_bob");
    assert_eq!(
        post(&node, "clerk", "/vcp", &other).await.1["code"],
        "sender_not_authorized"
    );
    assert_eq!(
        post(&node, "nobody", "/vcp", &yes("no")).await.1["code"],
        "sender_not_authorized"
    );
    let (status, body) = post(&node, "clerk", "/vcp", &yes("yes")).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        get(&node, "clerk", "/vcp/approvals").await.1["approvals"],
        json!([])
    );
    node.stop().await;
}

// VC-HTTP-5, VC-GEN-1
#[tokio::test(flavor = "multi_thread")]
async fn anybody_may_ask_whether_vibe_is_served() {
    let node = guarded().await;
    let (status, body) = answer(node.get("/vcp/health").send().await.unwrap()).await;
    let told = json!({"status": "ok", "protocol": "vcp", "version": "1.0", "configured": true});
    assert_eq!((status, body), (200, told));
    let posted = node.post("/vcp/health", "{}").send().await.unwrap();
    assert_eq!(posted.status(), 405);
    node.stop().await;
}

// VC-IDEM-4, VC-HTTP-3
#[tokio::test(flavor = "multi_thread")]
async fn the_node_completes_what_is_sent_through_it() {
    let node = dev().await;
    let mut envelope = mandate("s1", "c_ada", "acc_ada");
    let whole = node
        .post("/send/vibe", envelope.to_string())
        .send()
        .await
        .unwrap();
    let (status, body) = answer(whole).await;
    assert_eq!((status, &body["param"]), (400, &json!("$.msg_id")));
    let members = envelope.as_object_mut().unwrap();
    members.remove("msg_id");
    members.remove("ts");
    members.remove("idempotency_key");
    let send = || {
        node.post("/send/vibe", envelope.to_string())
            .header("idempotency-key", "once")
            .send()
    };
    let (status, first) = answer(send().await.unwrap()).await;
    assert_eq!(status, 200, "{first}");
    assert!(chancery_core::ids::is_uuid4(
        first["msg_id"].as_str().unwrap()
    ));
    let again = send().await.unwrap();
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(again.headers()["idempotency-key"], "once");
    assert_eq!(answer(again).await, (200, first));
    node.stop().await;
}

// VC-IDEM-6, VC-HTTP-7
#[tokio::test(flavor = "multi_thread")]
async fn of_many_with_one_key_one_runs_and_none_runs_twice() {
    let node = dev().await;
    let cert = node.certified("s1", "c_ada", "acc_ada").await;
    node.approve("s1", &cert).await;
    let before = node.office.gate().store().head().seq;
    let wanted = settle("s1", &cert);
    let all = (0..32).map(|number| {
        let mut own = wanted.clone();
        own["msg_id"] = json!(format!("try-{number}"));
        let request = node.post("/vcp", own.to_string());
        tokio::spawn(async move { answer(request.send().await.unwrap()).await })
    });
    let mut bodies = Vec::new();
    for answered in all.collect::<Vec<_>>() {
        let (status, body) = answered.await.unwrap();
        match status {
            200 => bodies.push(body),
            _ => assert_eq!(
                (status, &body["code"]),
                (409, &json!("idempotency_in_flight"))
            ),
        }
    }
    assert!(!bodies.is_empty());
    assert!(
        bodies.iter().all(|body| *body == bodies[0]),
        "one answer, byte for byte"
    );
    assert_eq!(node.office.gate().store().head().seq - before, 4);
    node.stop().await;
}

// VC-ENV-18, VC-PIPE-1, VC-HTTP-6
#[tokio::test(flavor = "multi_thread")]
async fn the_transport_is_checked_in_its_order() {
    let node = guarded().await;
    let large = vec![b' '; 262_145];
    let post = |kind: &str, body: Vec<u8>| {
        let request = node.client.post(format!("{}/vcp", node.base));
        request.header("content-type", kind).body(body)
    };
    let two_keys = |request: reqwest::RequestBuilder| {
        request
            .header("idempotency-key", "one")
            .header("idempotency-key", "two")
    };
    for (request, status, code) in [
        (node.get("/vcp"), 405, "method_not_allowed"),
        (
            post("text/plain", large.clone()),
            415,
            "unsupported_media_type",
        ),
        (post("application/json", large), 413, "too_large"),
        (
            post("application/json", b"{".to_vec()),
            401,
            "unauthenticated",
        ),
        (
            post("application/json", b"{".to_vec()).bearer_auth("tok_ada"),
            400,
            "malformed_json",
        ),
        // What is wrong with a header that is compared in step 3 comes no earlier.
        (
            two_keys(post("application/json", b"{".to_vec())),
            401,
            "unauthenticated",
        ),
        (
            two_keys(post("application/json", b"{".to_vec()).bearer_auth("tok_ada")),
            400,
            "malformed_json",
        ),
        (
            two_keys(node.post("/vcp", mandate("s", "c_ada", "acc_ada").to_string()))
                .bearer_auth("tok_ada"),
            400,
            "idempotency_key_mismatch",
        ),
        (node.get("/vcp/elsewhere"), 404, "not_found"),
    ] {
        let response = request.send().await.unwrap();
        if status == 405 {
            assert_eq!(response.headers()["allow"], "POST");
        }
        let (found, body) = answer(response).await;
        assert_eq!((found, &body["code"]), (status, &json!(code)), "{body}");
        assert_eq!(body["type"], "invalid_request");
    }
    node.stop().await;
}

// CH-CFG-4, VC-ERR-1, VC-HTTP-5
#[tokio::test(flavor = "multi_thread")]
async fn without_a_world_vibe_is_not_configured() {
    let without = crate::support::Setup {
        dev: true,
        ..crate::support::Setup::default()
    };
    let node = without.start().await;
    let (status, body) = answer(
        node.post("/vcp", mandate("s", "c", "a").to_string())
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(
        (status, &body["code"], &body["type"]),
        (503, &json!("not_configured"), &json!("service_unavailable"))
    );
    assert_eq!(
        answer(node.get("/vcp/world/catalog").send().await.unwrap())
            .await
            .1["code"],
        "not_configured"
    );
    assert_eq!(
        answer(node.get("/vcp/health").send().await.unwrap())
            .await
            .1["configured"],
        false
    );
    node.stop().await;
}

// CH-JRN-2, CH-JRN-12, VC-WLD-4, VC-IDEM-8
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_gone_is_made_again_from_log_and_seed() {
    let (_kept, dir) = temporary();
    let node = market().start(market().embedded(&dir)).await;
    let cert = node.certified("s1", "c_ada", "acc_ada").await;
    node.approve("s1", &cert).await;
    let settled = node.must(&settle("s1", &cert)).await;
    let listing = json!({"catalog": [{"merchant_id": "m_keys", "sku_id": "sku_new", "title": "New keyboard",
        "attributes": [], "list_price": 100, "eta_days": 1, "refundable": false}],
        "inventory": [{"merchant_id": "m_keys", "sku_id": "sku_new", "on_hand": 7}]});
    let (status, body) = answer(
        node.post("/admin/world", listing.to_string())
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(status, 200, "{body}");
    let mut tables = Vec::new();
    for table in ["catalog", "inventory", "ledger", "orders", "reputation"] {
        tables.push(node.read(&format!("/vcp/world/{table}")).await);
    }
    assert_eq!(tables[1]["rows"]["m_keys/sku_new"]["on_hand"], 7);
    assert_eq!(tables[1]["rows"]["m_keys/sku_quiet"]["reserved"], 1);
    node.stop().await;
    std::fs::remove_file(dir.join("index.db")).unwrap();
    let node = market().start(market().embedded(&dir)).await;
    for (table, before) in ["catalog", "inventory", "ledger", "orders", "reputation"]
        .iter()
        .zip(&tables)
    {
        assert_eq!(
            &node.read(&format!("/vcp/world/{table}")).await,
            before,
            "{table}"
        );
    }
    // The key is bound over the restart.
    let again = node.said(&settle("s1", &cert)).await;
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(answer(again).await, (200, settled));
    node.stop().await;
}

/// Whether a text holds what the buyer or the merchant keeps to itself. By chance identifiers, digests and ports hold
/// any digits: they are left out.
fn holds_private(text: &str) -> bool {
    const HOST: &str = "127.0.0.1:";
    let ends = |c: char| !c.is_ascii_hexdigit() && c != '-';
    let (mut told, mut behind_host) = (String::new(), false);
    for word in text.split_inclusive(ends) {
        let letters = word.trim_end_matches(ends);
        let is_port = behind_host && letters.chars().all(|c| c.is_ascii_digit());
        // No price is so long.
        told.push_str(match letters.len() >= 16 || is_port {
            true => &word[letters.len()..],
            false => word,
        });
        behind_host = told.ends_with(HOST);
    }
    ["47113", "471.13", "8317", "83.17"]
        .iter()
        .any(|form| told.contains(form))
}

/// The figures of a node without their values.
fn names_and_labels(metrics: &str) -> String {
    let figures = metrics.lines();
    let names = figures.map(|line| line.rsplit_once(' ').map_or(line, |(name, _)| name));
    names.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_private_is_found_beside_what_is_random() {
    // VC-PRIV-1
    let random = r#"cert_3b0a47113ca74694 at 127.0.0.1:48317, {"id": "01a18317-1bab-7113-8317-5edaa9347113"}"#;
    assert!(!holds_private(random));
    for leak in ["47113", "471.13", "8317", "USD 83.17", "-8317"] {
        for text in [leak.to_owned(), format!("{random}{leak}")] {
            assert!(holds_private(&text), "{text}");
        }
    }
    let counted = "bytes_total 8317\nlast_total{of=\"all\"} 47113";
    assert!(!holds_private(&names_and_labels(counted)));
    let labelled = names_and_labels("bytes_total{budget=\"47113\"} 1");
    assert!(holds_private(&labelled), "{labelled}");
}

// VC-PRIV-1, VC-HTTP-8, VC-OBJ-TransactionStateDiff-2
#[tokio::test(flavor = "multi_thread")]
async fn no_read_shows_what_is_private() {
    let node = dev().await;
    let goal = json!({
        "offer_mandate_id": "om_1", "merchant_id": "m_keys", "goal": "sell", "skus": ["sku_quiet"],
        "pricing": {"list_price": 12_900, "floor_price": 8_317, "floor_currency": "USD"},
        "permitted_claims": [], "fulfillment": {"methods": ["courier"]},
    });
    let goal = envelope(
        "goal",
        "shop",
        "merchant:owner",
        "merchant:pricing",
        "delegate.set_business_goal",
        goal,
    );
    // The answer to the goal is the owner's own and does not repeat the floor either.
    let told = node.must(&goal).await.to_string();
    assert!(!holds_private(&told), "{told}");
    let told = node.must(&mandate("s0", "c_ada", "acc_ada")).await;
    assert!(!holds_private(&told.to_string()), "{told}");
    let cert = node.certified("s1", "c_ada", "acc_ada").await;
    node.approve("s1", &cert).await;
    let settled = node.must(&settle("s1", &cert)).await;
    assert!(!holds_private(&settled.to_string()), "{settled}");
    for path in [
        "/vcp/sessions/s1",
        "/vcp/sessions/shop",
        "/state/vibe/s1",
        "/vcp/approvals",
        "/vcp/world/catalog",
        "/vcp/world/orders",
        "/vcp/world/ledger",
        "/metrics",
        // What goes to the other side, or to an agent's other roles. Only the mandate's own receiver has the mandate.
        "/inbox/vibe/buyer%3Anegotiation?session_id=s1",
        "/inbox/vibe/buyer%3Aauthorization?session_id=s1",
        "/inbox/vibe/buyer%3Adiscovery?session_id=s1",
        "/inbox/vibe/platform%3Aaggregator",
        "/inbox/vibe/platform%3Apsp",
        "/inbox/vibe/merchant%3Asupport?merchant_id=m_keys",
    ] {
        let response = node.get(path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let text = response.text().await.unwrap();
        let told = match path {
            // What other tests of this process count may be any number.
            "/metrics" => names_and_labels(&text),
            _ => text.clone(),
        };
        assert!(!holds_private(&told), "{path}: {text}");
    }
    let mut stream = node
        .get("/inbox/vibe/buyer%3Aauthorization?session_id=s1&after=0")
        .header("accept", "text/event-stream")
        .send()
        .await
        .unwrap();
    let mut events = String::new();
    while !events.contains("platform.authorize_payment") {
        events.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert!(!holds_private(&events), "{events}");
    node.stop().await;
}
