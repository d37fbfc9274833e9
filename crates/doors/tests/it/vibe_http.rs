//! What vibe's door adds to its rules: reads by visibility, inboxes, people at the gate, completing, keys in flight.

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
        token("nobody", &[], None, None),
        gate,
    ]
}

async fn guarded() -> Served {
    let mut market = market();
    market.tokens = Some(tokens());
    market.start(Arc::new(Memory::new())).await
}

async fn get(node: &Served, who: &str, path: &str) -> (u16, Value) {
    let request = node.get(path).bearer_auth(format!("tok_{who}"));
    answer(request.send().await.unwrap()).await
}

async fn post(node: &Served, who: &str, path: &str, body: &Value) -> (u16, Value) {
    let request = node.post(path, body.to_string());
    let request = request.bearer_auth(format!("tok_{who}"));
    answer(request.send().await.unwrap()).await
}

// VC-WLD-2, VC-WLD-3, VC-HTTP-5
#[tokio::test(flavor = "multi_thread")]
async fn a_table_shows_each_caller_its_part() {
    let node = guarded().await;
    // Per caller: catalog, inventory, ledger, reputation, orders. None is 404.
    let expected: [(&str, [Option<usize>; 5]); 7] = [
        ("ada", [Some(2), None, Some(1), Some(2), Some(0)]),
        ("bob", [Some(2), None, Some(1), Some(2), Some(0)]),
        ("keys", [Some(2), Some(1), Some(1), Some(2), Some(0)]),
        ("other", [Some(2), Some(1), Some(1), Some(2), Some(0)]),
        ("psp", [Some(2), Some(2), Some(4), Some(2), Some(0)]),
        ("ranks", [Some(2), Some(2), None, Some(2), Some(0)]),
        ("nobody", [None, None, None, None, None]),
    ];
    for (who, counts) in expected {
        for (table, count) in ["catalog", "inventory", "ledger", "reputation", "orders"]
            .iter()
            .zip(counts)
        {
            let (status, body) = get(&node, who, &format!("/vcp/world/{table}")).await;
            match count {
                Some(count) => {
                    assert_eq!(status, 200, "{who} {table}: {body}");
                    assert_eq!(body["table"], *table);
                    assert_eq!(
                        body["rows"].as_object().unwrap().len(),
                        count,
                        "{who} {table}"
                    );
                }
                None => assert_eq!(status, 404, "{who} {table}"),
            }
        }
    }
    assert_eq!(get(&node, "psp", "/vcp/world/secrets").await.0, 404);
    node.stop().await;
}

// VC-HTTP-5, VC-WLD-3, CH-LIM-1
#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_told_page_by_page() {
    let node = guarded().await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/vcp/world/catalog?limit=1&after={after}");
        let (status, page) = get(&node, "psp", &path).await;
        assert_eq!(status, 200, "{page}");
        let rows = page["rows"].as_object().unwrap();
        assert!(rows.len() <= 1);
        seen.extend(rows.keys().cloned());
        match page["next"].as_str() {
            Some(next) => after = next.replace('/', "%2F"),
            None => break,
        }
    }
    assert_eq!(seen, ["m_keys/sku_quiet", "m_other/sku_loud"]);
    // What a caller may not see is passed over, not shown as a gap.
    let (_, page) = get(&node, "keys", "/vcp/world/inventory?limit=5").await;
    let own: Vec<&String> = page["rows"].as_object().unwrap().keys().collect();
    assert_eq!(own, ["m_keys/sku_quiet"]);
    assert_eq!(page["next"], Value::Null);
    node.stop().await;
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
                assert!(!body.to_string().contains("47113"), "{body}");
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
            assert!(!body.to_string().contains("47113"), "{body}");
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

/// A node with a mandate of Ada's and an offer to her.
async fn with_an_offer() -> Served {
    let node = guarded().await;
    assert_eq!(
        post(&node, "ada", "/vcp", &mandate("s1", "c_ada", "acc_ada"))
            .await
            .0,
        200
    );
    assert_eq!(
        post(&node, "keys", "/vcp", &offer("s1", 11_900)).await.0,
        200
    );
    node
}

// VC-ADR-9, VC-HTTP-5
#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_holds_what_is_addressed_to_its_owner() {
    let node = with_an_offer().await;
    for (who, path, seen) in [
        ("ada", "/inbox/vibe/buyer%3Anegotiation", Some(1)),
        (
            "ada",
            "/inbox/vibe/buyer%3Anegotiation?session_id=s1",
            Some(1),
        ),
        (
            "ada",
            "/inbox/vibe/buyer%3Anegotiation?session_id=s2",
            Some(0),
        ),
        ("ada", "/inbox/vibe/buyer%3Aintent", Some(1)),
        // Another's session does not make it one's own.
        (
            "bob",
            "/inbox/vibe/buyer%3Anegotiation?session_id=s1",
            Some(0),
        ),
        (
            "keys",
            "/inbox/vibe/buyer%3Anegotiation?session_id=s1",
            None,
        ),
        (
            "keys",
            "/inbox/vibe/merchant%3Apricing?merchant_id=m_other",
            Some(0),
        ),
        (
            "nobody",
            "/inbox/vibe/buyer%3Anegotiation?session_id=s1",
            None,
        ),
        ("ada", "/inbox/vibe/nowhere", None),
    ] {
        let (status, body) = get(&node, who, path).await;
        match seen {
            Some(count) => {
                assert_eq!(status, 200, "{who} {path}: {body}");
                assert_eq!(
                    body["entries"].as_array().unwrap().len(),
                    count,
                    "{who} {path}: {body}"
                );
            }
            None => assert_eq!(status, 404, "{who} {path}: {body}"),
        }
    }
    node.stop().await;
}

// VC-ADR-9, VC-HTTP-5
#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_is_paged_streamed_and_acknowledged() {
    let node = with_an_offer().await;
    let own = "/vcp/inbox?address=buyer:negotiation&session_id=s1&after_seq=0";
    let (_, body) = get(&node, "ada", own).await;
    assert_eq!(body["entries"][0]["envelope"]["msg_id"], "s1-offer");
    assert_eq!(body["next_seq"], body["entries"][0]["meta"]["seq"]);
    let mut stream = node
        .get("/inbox/vibe/buyer%3Anegotiation")
        .bearer_auth("tok_ada")
        .header("accept", "text/event-stream")
        .send()
        .await
        .unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut events = String::new();
    while !events.contains("s1-offer") {
        events.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert!(events.contains("event: envelope\nid: "), "{events}");
    drop(stream);
    let through = body["next_seq"].clone();
    let ack = post(
        &node,
        "ada",
        "/inbox/vibe/buyer%3Anegotiation/ack",
        &json!({"through": through}),
    )
    .await;
    assert_eq!(ack, (200, json!({"through": through})));
    let (_, body) = get(&node, "ada", "/inbox/vibe/buyer%3Anegotiation").await;
    assert_eq!(body["entries"], json!([]));
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

// VC-ENV-18, VC-PIPE-1, VC-HTTP-6, CH-CFG-4
#[tokio::test(flavor = "multi_thread")]
async fn the_transport_is_checked_in_its_order() {
    let node = guarded().await;
    let large = vec![b' '; 262_145];
    let post = |kind: &str, body: Vec<u8>| {
        let request = node.client.post(format!("{}/vcp", node.base));
        request.header("content-type", kind).body(body)
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

// VC-PRIV-1, VC-HTTP-8, VC-OBJ-TransactionStateDiff-2
#[tokio::test(flavor = "multi_thread")]
async fn no_read_shows_what_is_private() {
    let node = dev().await;
    let is_private = |text: &str| {
        ["47113", "471.13", "8317", "83.17"]
            .iter()
            .any(|form| text.contains(form))
    };
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
    assert!(!is_private(&told), "{told}");
    let told = node.must(&mandate("s0", "c_ada", "acc_ada")).await;
    assert!(!is_private(&told.to_string()), "{told}");
    let cert = node.certified("s1", "c_ada", "acc_ada").await;
    node.approve("s1", &cert).await;
    let settled = node.must(&settle("s1", &cert)).await;
    assert!(!is_private(&settled.to_string()), "{settled}");
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
        assert!(!is_private(&text), "{path}: {text}");
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
    assert!(!is_private(&events), "{events}");
    node.stop().await;
}
