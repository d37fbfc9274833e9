//! Tasks on the A2A bindings: a call that is answered later, followed, withdrawn.

use chancery_node::vacants::Behaviour;
use serde_json::{Value, json};

use crate::a2a::{events, message, post, rpc, verified};
use crate::support::{BOB_SEED, Running, Setup, answer, vacant};
use crate::vacant_call::{Caller, bob};

/// A node whose vacants answer from their inbox.
async fn with_owner() -> Running {
    let setup = Setup {
        vacants: vec![
            vacant("bob", BOB_SEED, Behaviour::Inbox),
            vacant("carol", [8; 32], Behaviour::Inbox),
        ],
        ..Setup::default()
    };
    setup.start().await
}

fn immediate(body: &[u8]) -> Value {
    json!({"message": message(body), "configuration": {"returnImmediately": true}})
}

/// Answers the oldest call in bob's inbox that is not acknowledged.
async fn owner_says(node: &Running, text: &str) {
    let inbox = node.get("/inbox/vacant/bob?wait=20").send().await.unwrap();
    let (_, page) = answer(inbox).await;
    let seq = page["entries"][0]["seq"].clone();
    let says = json!({"from": "bob", "answers": seq, "text": text}).to_string();
    let (status, told) = answer(node.post("/send/vacant", says).send().await.unwrap()).await;
    assert_eq!(status, 200, "{told}");
    let ack = json!({"through": seq}).to_string();
    let acked = node
        .post("/inbox/vacant/bob/ack", ack)
        .send()
        .await
        .unwrap();
    assert!(acked.status().is_success());
}

// VA-A2A-10
#[tokio::test(flavor = "multi_thread")]
async fn a_task_works_until_its_owner_has_answered() {
    let node = with_owner().await;
    let caller = Caller::new([1; 32], bob());
    let (body, _) = caller.call("what is it?");
    let told = rpc(&node, "1.0", "SendMessage", immediate(&body)).await;
    let task = &told["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_WORKING");
    let id = task["id"].as_str().unwrap();
    let followed = post(&node, "1.0", "SubscribeToTask", json!({"id": id})).await;
    let followed_as_resource = node
        .post(&format!("/a2a/v1/tasks/{id}:subscribe"), "")
        .send()
        .await
        .unwrap();
    let old = rpc(&node, "0.3", "tasks/get", json!({"id": id})).await;
    assert_eq!(old["result"]["kind"], "task");
    assert_eq!(old["result"]["status"]["state"], "working");
    // It goes on with nothing, and belongs to bob alone.
    let (mut next, _) = caller.call("more");
    let mut more = message(&std::mem::take(&mut next));
    more["taskId"] = json!(id);
    let refused = rpc(&node, "1.0", "SendMessage", json!({"message": more})).await;
    assert_eq!(refused["error"]["code"], -32004);
    let elsewhere = node.get(&format!("/agents/carol/a2a/v1/tasks/{id}"));
    assert_eq!(elsewhere.send().await.unwrap().status().as_u16(), 404);
    owner_says(&node, "a letter").await;
    for (told, wrapped) in [
        (events(followed).await, true),
        (events(followed_as_resource).await, false),
    ] {
        let told: Vec<_> = told
            .iter()
            .map(|event| if wrapped { &event["result"] } else { event })
            .collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!(told[0]["task"]["status"]["state"], "TASK_STATE_WORKING");
        let artifact = &told[1]["artifactUpdate"]["artifact"];
        assert_eq!(artifact["parts"], json!([{"text": "a letter"}]));
        let status = &told[2]["statusUpdate"]["status"];
        assert_eq!(status["state"], "TASK_STATE_COMPLETED");
        verified(&status["message"]);
    }
    let done = rpc(&node, "1.0", "GetTask", json!({"id": id})).await;
    let done = &done["result"];
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(done["artifacts"].as_array().unwrap().len(), 1);
    assert_eq!(verified(&done["status"]["message"]).sequence_no, 1);
    for (method, code) in [("CancelTask", -32002), ("SubscribeToTask", -32004)] {
        let told = rpc(&node, "1.0", method, json!({"id": id})).await;
        assert_eq!(told["error"]["code"], code, "{method}");
    }
    // A message to a task that has ended (VA-A2A-11).
    let refused = rpc(&node, "1.0", "SendMessage", json!({"message": more})).await;
    assert_eq!(refused["error"]["code"], -32004);
    node.stop().await;
}

// VA-A2A-10, CH-JRN-16: a call that was withdrawn has its outcome, and the chain goes on behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_withdrawn_is_answered_no_more() {
    let node = with_owner().await;
    let mut caller = Caller::new([1; 32], bob());
    let (body, hash) = caller.call("never mind");
    let params = json!({"message": message(&body), "configuration": {"blocking": false}});
    let told = rpc(&node, "0.3", "message/send", params).await;
    assert_eq!(told["result"]["kind"], "task");
    let id = told["result"]["id"].clone();
    let told = rpc(&node, "0.3", "tasks/cancel", json!({"id": id})).await;
    assert_eq!(told["result"]["status"]["state"], "canceled", "{told}");
    let (_, page) = answer(node.get("/inbox/vacant/bob").send().await.unwrap()).await;
    let says = json!({"from": "bob", "answers": page["entries"][0]["seq"], "text": "too late"});
    let late = node.post("/send/vacant", says.to_string()).send().await;
    assert_eq!(late.unwrap().status().as_u16(), 409);
    let told = rpc(&node, "1.0", "CancelTask", json!({"id": id})).await;
    assert_eq!(told["error"]["code"], -32002);
    caller.accepted(hash);
    let (body, _) = caller.call("again");
    let told = rpc(&node, "1.0", "SendMessage", immediate(&body)).await;
    assert_eq!(
        told["result"]["task"]["status"]["state"],
        "TASK_STATE_WORKING"
    );
    node.stop().await;
}

// VA-A2A-10: an echo is done at once; the task tells it.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_an_echo_completes_by_itself() {
    let node = Setup::with_vacant().start().await;
    let (body, _) = Caller::new([1; 32], bob()).call("hi");
    let told = rpc(&node, "1.0", "SendMessage", immediate(&body)).await;
    let id = told["result"]["task"]["id"].clone();
    loop {
        let followed = post(&node, "1.0", "SubscribeToTask", json!({"id": id})).await;
        if followed.headers()["content-type"] != "text/event-stream" {
            break;
        }
        events(followed).await;
    }
    let done = rpc(&node, "1.0", "GetTask", json!({"id": id})).await;
    verified(&done["result"]["status"]["message"]);
    node.stop().await;
}
