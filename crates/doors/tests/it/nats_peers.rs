//! Hosted peers on a broker: they join, greet, answer, work and leave.

use chancery_agh::subject;
use chancery_testkit::nats_server::{Build, NatsServer};
use serde_json::{Value, json};

use crate::nats_support::{
    CHANNEL, House, REMOTE, Raw, WORKER, direct, envelope, greeting, must, now, options, peer,
    report, until,
};
use crate::on_both_brokers;

on_both_brokers!(
    peers_join_greet_and_ask_who_is_there,
    a_question_is_answered_where_the_asker_listens,
    work_goes_from_direct_to_completed,
    what_is_late_repeated_expired_malformed_or_too_large_changes_nothing,
    two_nodes_find_each_other_and_cancel,
    two_nodes_with_one_peer_id_both_go_on,
    the_newer_revision_has_subjects_of_its_own,
    peers_that_come_and_go_join_and_leave,
);

// AG-NAT-1, AG-NAT-2, AG-NAT-3, AG-NAT-4, AG-NAT-5, AG-GRT-2, AG-GRT-3, AG-PRS-1, CH-JRN-13
async fn peers_join_greet_and_ask_who_is_there(build: Build) {
    let server = NatsServer::start(build, "");
    let mut raw = Raw::join(&server.url()).await;
    let house = House::open(&[peer(WORKER, None)], options(&server.url())).await;
    let broadcast = "agh.network.v0.builders.broadcast";
    let (subject, greet) = raw.hears("greet", WORKER).await;
    assert_eq!(subject, broadcast);
    assert_eq!(greet["to"], Value::Null);
    assert_eq!(greet["body"]["peer_card"]["peer_id"], WORKER);
    assert_eq!(greet["body"]["summary"], "Patch worker ready for test.run");
    let (subject, question) = raw.hears("whois", WORKER).await;
    assert_eq!(subject, broadcast);
    assert_eq!(question["body"], json!({"type": "request"}));
    // Its answer is a sign of life, and nothing more.
    let card = greeting(REMOTE)["body"]["peer_card"].clone();
    let answer = envelope(
        "answer",
        json!({"kind": "whois", "to": WORKER, "reply_to": question["id"],
            "body": {"type": "response", "peer_card": card}}),
    );
    let lines = house.office.gate().store().head().seq;
    raw.publish(&answer).await;
    until("presence", async || {
        house.standing(None, REMOTE) == "active"
    })
    .await;
    assert_eq!(house.office.gate().store().head().seq, lines);
    // They greet again without being asked.
    house.greet_every(1).await;
    raw.hears("greet", WORKER).await;
    house.stop().await;
}

// AG-NAT-8, AG-WHO-3, AG-WHO-4, AG-WHO-5
async fn a_question_is_answered_where_the_asker_listens(build: Build) {
    let server = NatsServer::start(build, "");
    let mut raw = Raw::join(&server.url()).await;
    let house = House::open(&[peer(WORKER, None)], options(&server.url())).await;
    raw.hears("greet", WORKER).await;
    let question = |id: &str| {
        envelope(
            id,
            json!({"kind": "whois", "trace_id": "t-1", "body": {"type": "request", "query": "test.run"}}),
        )
    };
    raw.publish(&question("q1")).await;
    let (subject, answer) = raw.hears("whois", WORKER).await;
    let (subject, answer) = match answer["body"]["type"] == "response" {
        true => (subject, answer),
        // The node's own question came first.
        false => raw.hears("whois", WORKER).await,
    };
    assert_eq!(subject, subject::direct(None, CHANNEL, REMOTE));
    assert_eq!(answer["to"], REMOTE);
    assert_eq!(answer["reply_to"], "q1");
    assert_eq!(answer["trace_id"], "t-1");
    // By request and reply as well; the envelope is the same, and the reply subject replaces nothing in it.
    let asked = raw.client.request(
        subject::broadcast(None, CHANNEL),
        question("q2").to_string().into(),
    );
    let replied = must("a reply", asked).await.unwrap();
    let replied: Value = serde_json::from_slice(&replied.payload).unwrap();
    assert_eq!(replied["reply_to"], "q2");
    let (_, published) = raw.hears("whois", WORKER).await;
    assert_eq!(published, replied);
    house.stop().await;
}

// AG-LIF-2, AG-LIF-10, AG-RCT-7, AG-SND-1, AG-NAT-7, AG-PRS-7
async fn work_goes_from_direct_to_completed(build: Build) {
    let server = NatsServer::start(build, "");
    let mut raw = Raw::join(&server.url()).await;
    let house = House::open(&[peer(WORKER, None)], options(&server.url())).await;
    raw.hears("greet", WORKER).await;
    raw.greet(&house).await;
    raw.publish(&direct("d1", "int_1")).await;
    assert_eq!(house.inbox(None, WORKER, 1).await[0]["id"], "d1");
    assert_eq!(house.interaction("int_1"), "submitted");
    let accepted = report(
        "receipt",
        "int_1",
        json!({"for_id": "d1", "status": "accepted"}),
    );
    house.send(accepted).await.unwrap();
    let own = subject::direct(None, CHANNEL, REMOTE);
    let (subject, receipt) = raw.hears("receipt", WORKER).await;
    assert_eq!(
        (subject.as_str(), &receipt["to"]),
        (own.as_str(), &json!(REMOTE))
    );
    assert_eq!(house.interaction("int_1"), "working");
    let done = report(
        "trace",
        "int_1",
        json!({"state": "completed", "message": "done"}),
    );
    house.send(done).await.unwrap();
    let (subject, trace) = raw.hears("trace", WORKER).await;
    assert_eq!(subject, own);
    assert_eq!(trace["body"]["state"], "completed");
    assert_eq!(house.interaction("int_1"), "completed");
    // What comes after the end is refused, and told (AG-RCT-2).
    raw.publish(&direct("d2", "int_1")).await;
    let (_, receipt) = raw.hears("receipt", WORKER).await;
    assert_eq!(receipt["body"]["reason_code"], "interaction_closed");
    // Nobody there, nothing published.
    let mut nobody = report("receipt", "int_1", json!({}));
    nobody["to"] = "nobody".into();
    nobody["kind"] = "direct".into();
    nobody["body"] = json!({"text": "x"});
    nobody["interaction_id"] = "int_2".into();
    assert_eq!(house.send(nobody).await.unwrap_err().code, "not_found");
    house.stop().await;
}

// AG-DUP-1, AG-DUP-5, AG-FRS-2, AG-FRS-4, AG-JSON-1, AG-JSON-6, AG-LIF-9, AG-RCT-2, AG-RTE-5
async fn what_is_late_repeated_expired_malformed_or_too_large_changes_nothing(build: Build) {
    let server = NatsServer::start(build, "max_payload: 2097152");
    let mut raw = Raw::join(&server.url()).await;
    let house = House::open(&[peer(WORKER, None)], options(&server.url())).await;
    raw.hears("greet", WORKER).await;
    raw.publish(&direct("d1", "int_1")).await;
    house.inbox(None, WORKER, 1).await;
    let lines = house.office.gate().store().head().seq;
    raw.publish(&direct("d1", "int_1")).await;
    let status = |receipt: Value| receipt["body"]["status"].as_str().unwrap().to_owned();
    assert_eq!(status(raw.hears("receipt", WORKER).await.1), "duplicate");
    let mut expired = direct("d2", "int_2");
    expired["expires_at"] = 1.into();
    raw.publish(&expired).await;
    assert_eq!(status(raw.hears("receipt", WORKER).await.1), "expired");
    let mut too_old = direct("d3", "int_2");
    too_old["ts"] = (now() - 301).into();
    raw.publish(&too_old).await;
    assert_eq!(status(raw.hears("receipt", WORKER).await.1), "expired");
    let own = subject::direct(None, CHANNEL, WORKER);
    raw.publish_bytes(own.clone(), "{not json").await;
    raw.publish_bytes(own.clone(), vec![b' '; 1_048_577]).await;
    // A trace of work that nobody opened is ignored, without a receipt.
    let late = json!({"kind": "trace", "to": WORKER, "interaction_id": "int_9", "body": {"state": "working"}});
    raw.publish(&envelope("t1", late)).await;
    // An envelope of the largest size is taken, also on a subject that is not its own: the envelope decides.
    let mut largest = direct("d4", "int_4");
    let rest = 1_048_576 - largest.to_string().len();
    largest["body"]["text"] = "x".repeat(rest + "do it".len()).into();
    assert_eq!(largest.to_string().len(), 1_048_576);
    raw.publish_bytes(subject::broadcast(None, CHANNEL), largest.to_string())
        .await;
    let taken = house.inbox(None, WORKER, 2).await;
    assert_eq!(taken.len(), 2);
    assert_eq!(taken[1]["id"], "d4");
    assert_eq!(house.office.gate().store().head().seq, lines + 1);
    house.stop().await;
}

// AG-PRS-2, AG-LIF-3, AG-LIF-6, AG-LIF-7
async fn two_nodes_find_each_other_and_cancel(build: Build) {
    let server = NatsServer::start(build, "");
    let one = House::open(&[peer(WORKER, None)], options(&server.url())).await;
    let other = House::open(&[peer(REMOTE, None)], options(&server.url())).await;
    let asks = json!({"from": REMOTE, "channel": CHANNEL, "kind": "direct", "to": WORKER,
        "interaction_id": "int_1", "body": {"text": "do it"}});
    other.send_when_up(asks).await;
    let asked = one.inbox(None, WORKER, 1).await;
    assert_eq!(asked[0]["from"], REMOTE);
    assert_eq!(one.standing(None, REMOTE), "active");
    assert_eq!(other.standing(None, WORKER), "active");
    let cancels = json!({"from": REMOTE, "channel": CHANNEL, "kind": "receipt", "to": WORKER,
        "interaction_id": "int_1", "body": {"for_id": asked[0]["id"], "status": "canceled"}});
    other.send(cancels).await.unwrap();
    one.inbox(None, WORKER, 2).await;
    for house in [&one, &other] {
        assert_eq!(house.interaction("int_1"), "canceled");
    }
    // A broadcast reaches the other node once, and comes back to nobody.
    let says = json!({"from": REMOTE, "channel": CHANNEL, "kind": "say", "body": {"text": "all"}});
    other.send(says).await.unwrap();
    let heard = one.inbox(None, WORKER, 3).await;
    assert_eq!((heard.len(), &heard[2]["kind"]), (3, &json!("say")));
    assert!(other.inbox(None, REMOTE, 0).await.is_empty());
    one.stop().await;
    other.stop().await;
}

// AG-PRS-3, AG-RTE-1
async fn two_nodes_with_one_peer_id_both_go_on(build: Build) {
    let server = NatsServer::start(build, "");
    let mut raw = Raw::join(&server.url()).await;
    let one = House::open(&[peer(WORKER, None)], options(&server.url())).await;
    let other = House::open(&[peer(WORKER, None)], options(&server.url())).await;
    for house in [&one, &other] {
        raw.greet(house).await;
        assert_eq!(house.standing(None, WORKER), "local");
    }
    raw.publish(&direct("d1", "int_1")).await;
    for house in [&one, &other] {
        house.inbox(None, WORKER, 1).await;
    }
    // The first to end it ends it for whoever hears of it; the other's own record stands until then.
    let done = report("trace", "int_1", json!({"state": "completed"}));
    one.send(done).await.unwrap();
    assert_eq!(
        raw.hears("trace", WORKER).await.1["body"]["state"],
        "completed"
    );
    let failed = report("trace", "int_1", json!({"state": "failed"}));
    other.send(failed).await.unwrap();
    assert_eq!(
        raw.hears("trace", WORKER).await.1["body"]["state"],
        "failed"
    );
    assert_eq!(one.interaction("int_1"), "completed");
    assert_eq!(other.interaction("int_1"), "failed");
    one.stop().await;
    other.stop().await;
}

// AG-B-24, AG-B-43, AG-B-44, AG-B-45, AG-B-9
async fn the_newer_revision_has_subjects_of_its_own(build: Build) {
    let server = NatsServer::start(build, "");
    let mut raw = Raw::join(&server.url()).await;
    let workspace = Some("ws_alpha");
    let peers = [peer(WORKER, None), peer(WORKER, workspace)];
    let house = House::open(&peers, options(&server.url())).await;
    let mut greeted = Vec::new();
    while greeted.len() < 2 {
        greeted.push(raw.hears("greet", WORKER).await.0);
    }
    greeted.sort();
    assert_eq!(
        greeted,
        [
            "agh.network.v0.builders.broadcast",
            "agh.network.v0.ws_alpha.builders.broadcast"
        ]
    );
    let room = chancery_agh::conversation::direct_id("ws_alpha", CHANNEL, REMOTE, WORKER);
    let say = envelope(
        "b1",
        json!({"kind": "say", "workspace_id": "ws_alpha", "surface": "direct", "direct_id": room,
            "to": WORKER, "work_id": "work_1", "body": {"text": "do it"}}),
    );
    raw.publish(&say).await;
    assert_eq!(house.inbox(workspace, WORKER, 1).await[0]["id"], "b1");
    assert!(house.inbox(None, WORKER, 0).await.is_empty());
    let question = envelope(
        "q1",
        json!({"kind": "whois", "workspace_id": "ws_alpha", "to": WORKER, "body": {"type": "request"}}),
    );
    raw.publish(&question).await;
    let (subject, answer) = must("an answer", async {
        loop {
            let (subject, said) = raw.hears("whois", WORKER).await;
            if said["body"]["type"] == "response" {
                return (subject, said);
            }
        }
    })
    .await;
    assert_eq!(subject, subject::direct(workspace, CHANNEL, REMOTE));
    assert_eq!(answer["workspace_id"], "ws_alpha");
    house.stop().await;
}

// AG-NAT-5, AG-GRT-2
async fn peers_that_come_and_go_join_and_leave(build: Build) {
    let server = NatsServer::start(build, "");
    let mut raw = Raw::join(&server.url()).await;
    let house = House::open(&[peer(WORKER, None)], options(&server.url())).await;
    raw.hears("greet", WORKER).await;
    let late = "late.comer";
    house
        .office
        .reconcile_peers(&[peer(late, None)])
        .await
        .unwrap();
    raw.hears("greet", late).await;
    let mut to_late = direct("d1", "int_1");
    to_late["to"] = late.into();
    raw.publish(&to_late).await;
    house.inbox(None, late, 1).await;
    let act = chancery_core::admin::Act::Agent {
        protocol: chancery_core::line::ProtocolName::Agh,
        id: chancery_agh::peer::address(None, CHANNEL, late),
        record: None,
        run_state: None,
    };
    house.office.act(act).await.unwrap();
    // Nobody listens to its subject any more: the broker itself says so.
    drop(raw);
    let alone = async_nats::connect(server.url()).await.unwrap();
    until("the subject is left", async || {
        let asked = alone.request(subject::direct(None, CHANNEL, late), "{}".into());
        let asked = tokio::time::timeout(std::time::Duration::from_millis(200), asked).await;
        let error = asked.ok().and_then(Result::err);
        error.is_some_and(|error| error.kind() == async_nats::RequestErrorKind::NoResponders)
    })
    .await;
    house.stop().await;
}
