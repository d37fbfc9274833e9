//! Administration of a running node: keys, agents, tokens, the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chancery_doors::http::Reloaded;
use chancery_node::Clock;
use serde_json::{Value, json};

use crate::support::{KITCHEN, LIVING_ROOM, Running, Setup, answer, encoded, inbox_of, share};

async fn post(node: &Running, path: &str, body: &Value) -> (u16, Value) {
    answer(node.post(path, body.to_string()).send().await.unwrap()).await
}

async fn get(node: &Running, path: &str) -> Value {
    let (status, body) = answer(node.get(path).send().await.unwrap()).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

// CH-JRN-1, VX-KEY-4
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_put_on_record_moved_and_listed() {
    let node = Setup::default().start().await;
    let owner = "agent://home.local/garden-agent";
    let public = chancery_core::keys::ed25519::SigningKey::from_seed(&[9; 32]).verifying_key();
    let public = format!(
        "base64:{}",
        chancery_core::keys::base64::encode(public.as_bytes())
    );
    let key = json!({
        "id": "k-1", "owner": owner, "algorithm": "ed25519", "public": public, "state": "pending",
        "valid_from": null, "valid_until": null,
    });
    let (status, body) = post(&node, "/admin/keys", &key).await;
    assert_eq!(status, 200, "{body}");
    let seq = body["seq"].as_u64().unwrap();
    let line = get(&node, &format!("/log/{seq}")).await;
    assert_eq!(
        (&line["envelope"]["kind"], &line["envelope"]["owner"]),
        (&json!("key"), &json!(owner))
    );
    let state = |state: &str| json!({"owner": owner, "id": "k-1", "state": state});
    assert_eq!(
        post(&node, "/admin/keys/state", &state("retired")).await.0,
        409
    );
    assert_eq!(
        post(&node, "/admin/keys/state", &state("active")).await.0,
        200
    );
    let keys = get(&node, &format!("/admin/keys?owner={}", encoded(owner))).await;
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
    assert_eq!(keys["keys"][0]["state"], "active");
    assert!(
        get(&node, "/admin/keys").await["keys"]
            .as_array()
            .unwrap()
            .len()
            > 7
    );
    assert_eq!(
        post(
            &node,
            "/admin/keys/state",
            &json!({"owner": owner, "id": "k-9", "state": "active"})
        )
        .await
        .0,
        404
    );
    let mut bad = key.clone();
    bad["owner"] = json!("");
    assert_eq!(post(&node, "/admin/keys", &bad).await.0, 400);
    bad = key.clone();
    bad["public"] = json!("base64:AAAA");
    assert!(matches!(
        post(&node, "/admin/keys", &bad).await.0,
        400 | 409
    ));
    node.stop().await;
}

// CH-JRN-1, CH-CFG-5
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_hosted_changed_and_removed() {
    let node = Setup::default().start().await;
    let id = "agent://home.local/garden-agent";
    let agent =
        json!({"protocol": "value-context", "id": id, "peers": [LIVING_ROOM], "context": "📍🌳"});
    assert_eq!(post(&node, "/admin/agents", &agent).await.0, 200);
    let path = format!("/admin/agents/value-context/{}", encoded(id));
    let shown = get(&node, &path).await;
    assert_eq!(
        (&shown["run_state"], &shown["record"]["peers"]),
        (&json!("running"), &json!([LIVING_ROOM]))
    );
    let listed = get(&node, "/admin/agents").await;
    assert_eq!(listed["agents"].as_array().unwrap().len(), 4);
    assert_eq!(get(&node, &inbox_of(id)).await["entries"], json!([]));
    // What the rules could not read never reaches them.
    for (member, value) in [
        ("protocol", json!("vibe")),
        ("peers", json!([id])),
        ("peers", json!("x")),
        ("context", json!("T:morning")),
        ("constitution_ref", json!("http://x")),
        ("key_file", json!("/etc/passwd")),
        ("id", json!("")),
        ("agent", json!("")),
    ] {
        let mut bad = agent.clone();
        bad[member] = value;
        let (status, body) = post(&node, "/admin/agents", &bad).await;
        assert_eq!(status, 400, "{member}: {body}");
    }
    let peer = json!({"protocol": "agh", "id": "worker.x", "channel": "builders", "agent": ""});
    assert_eq!(post(&node, "/admin/agents", &peer).await.0, 400);
    let suspended = node
        .post(&format!("{path}/suspend"), "")
        .send()
        .await
        .unwrap();
    assert_eq!(suspended.status(), 200);
    assert_eq!(get(&node, &path).await["run_state"], "suspended");
    let removed = node.client.delete(node.url(&path)).send().await.unwrap();
    assert_eq!(removed.status(), 200);
    for request in [
        node.get(&path),
        node.client.delete(node.url(&path)),
        node.post(&format!("{path}/resume"), ""),
    ] {
        assert_eq!(request.send().await.unwrap().status(), 404);
    }
    assert_eq!(node.share(share(1)).await.0, 200);
    node.stop().await;
}

// CH-ID-1, CH-ID-3
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_once_and_is_nowhere_else() {
    let node = Setup {
        dev: false,
        ..Setup::default()
    }
    .start()
    .await;
    let (_, admin) = node
        .office
        .issue_token("root", vec!["admin".into()])
        .await
        .unwrap();
    let asked =
        json!({"principal": "kitchen", "scopes": [format!("read:inbox:{KITCHEN}"), "read:log"]});
    let request = node
        .post("/admin/tokens", asked.to_string())
        .bearer_auth(&admin);
    let (status, issued) = answer(request.send().await.unwrap()).await;
    assert_eq!(status, 201);
    let token = issued["token"].as_str().unwrap();
    let secret = token.split_once('.').unwrap().1;
    for path in ["/admin/tokens", "/log", "/metrics"] {
        let text = node
            .get(path)
            .bearer_auth(&admin)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        assert!(!text.contains(secret), "{path}");
    }
    let read = || node.get(&inbox_of(KITCHEN)).bearer_auth(token);
    assert_eq!(read().send().await.unwrap().status(), 200);
    let revoke = format!("/admin/tokens/{}", issued["id"].as_str().unwrap());
    let revoke = node.client.delete(node.url(&revoke)).bearer_auth(&admin);
    assert_eq!(revoke.send().await.unwrap().status(), 204);
    assert_eq!(read().send().await.unwrap().status(), 401);
    for bad in [
        json!({"principal": "", "scopes": ["admin"]}),
        json!({"principal": "x", "scopes": []}),
        json!({"principal": "x", "scopes": ["root"]}),
        json!({"principal": "x", "scopes": ["admin"], "token": "mine"}),
    ] {
        let request = node
            .post("/admin/tokens", bad.to_string())
            .bearer_auth(&admin);
        assert_eq!(request.send().await.unwrap().status(), 400, "{bad}");
    }
    node.stop().await;
}

// interface section 2: POST /dev/clock; CH-CFG-7
#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_clock_is_set_in_dev_alone() {
    let node = Setup::default().start().await;
    let set = |now: &str| json!({ "now": now });
    assert_eq!(
        post(&node, "/dev/clock", &set("2026-02-15T11:33:30Z"))
            .await
            .0,
        204
    );
    assert_eq!(
        node.share(share(1)).await.1["error"]["code"],
        "timestamp_stale"
    );
    assert_eq!(
        post(&node, "/dev/clock", &set("2026-02-15T10:33:30Z"))
            .await
            .0,
        204
    );
    assert_eq!(node.share(share(1)).await.0, 200);
    assert_eq!(post(&node, "/dev/clock", &set("yesterday")).await.0, 400);
    node.stop().await;
    let node = Setup {
        clock: Clock::System,
        ..Setup::default()
    }
    .start()
    .await;
    assert_eq!(
        post(&node, "/dev/clock", &set("2026-02-15T11:33:30Z"))
            .await
            .0,
        404
    );
    node.stop().await;
}

// VX-HTTP-7, CH-NET-1
#[tokio::test(flavor = "multi_thread")]
async fn health_and_readiness_tell_nothing_else() {
    let node = Setup {
        dev: false,
        ..Setup::default()
    }
    .start()
    .await;
    let health = node.get("/healthz").send().await.unwrap();
    assert_eq!(health.text().await.unwrap(), "{\"status\":\"ok\"}");
    assert_eq!(get(&node, "/readyz").await, json!({"status": "ready"}));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_is_the_programs_business() {
    static RELOADS: AtomicUsize = AtomicUsize::new(0);
    let node = Setup::default().start().await;
    assert_eq!(post(&node, "/admin/reload", &json!({})).await.0, 404);
    node.stop().await;
    let node = Setup {
        options: |options| {
            options.reload = Some(Arc::new(|| {
                Box::pin(async {
                    match RELOADS.fetch_add(1, Ordering::Relaxed) {
                        0 => Reloaded::Read {
                            changed: vec![("rules", 2)],
                            needs_restart: vec!["listen".to_owned()],
                        },
                        _ => {
                            Reloaded::Refused("agents.json: /local_agents: must be an array".into())
                        }
                    }
                })
            }));
        },
        ..Setup::default()
    }
    .start()
    .await;
    assert_eq!(
        post(&node, "/admin/reload", &json!({})).await,
        (
            200,
            json!({"changed": [{"what": "rules", "lines": 2}], "needs_restart": ["listen"]})
        )
    );
    let (status, body) = post(&node, "/admin/reload", &json!({})).await;
    assert_eq!(
        (status, &body["detail"]),
        (409, &json!("agents.json: /local_agents: must be an array"))
    );
    node.stop().await;
}
