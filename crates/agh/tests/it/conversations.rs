//! Revision B: workspaces, threads, rooms and work.

use chancery_agh::answer::Verdict;
use chancery_agh::conformance::host::Host;
use chancery_agh::conversation::direct_id;
use chancery_agh::rules::{Conversation, conversation_key};
use chancery_agh::settings::Settings;
use serde_json::{Value, json};

use crate::support::{CHANNEL, OPS, WORKER, emitted, envelope, error, receive, send};

const WORKSPACE: &str = "ws_alpha";

fn host() -> Host {
    let mut host = Host::new(Settings::default()).keeping_units();
    host.host_named(Some(WORKSPACE), CHANNEL, WORKER).unwrap();
    host.host_named(None, CHANNEL, WORKER).unwrap();
    host
}

fn said(id: &str, members: Value) -> Value {
    let mut said = envelope(
        id,
        json!({
            "kind": "say", "workspace_id": WORKSPACE, "surface": "thread", "thread_id": "thread_abc",
            "body": {"text": "x"},
        }),
    );
    for (name, value) in members.as_object().unwrap() {
        said[name] = value.clone();
    }
    said
}

fn conversation(host: &Host, container: &str) -> Conversation {
    let key = conversation_key(WORKSPACE, CHANNEL, container);
    serde_json::from_slice(host.rows().find(&key).unwrap()).unwrap()
}

// AG-B-21, AG-B-22, AG-B-23, AG-B-28, AG-B-10
#[test]
fn a_thread_knows_its_messages_participants_and_open_work() {
    let mut host = host();
    assert_eq!(
        receive(&mut host, &said("m1", json!({}))).deliver_to,
        [WORKER]
    );
    let asked = said("m2", json!({"to": WORKER, "work_id": "work_1"}));
    assert_eq!(receive(&mut host, &asked).deliver_to, [WORKER]);
    let thread = conversation(&host, "thread_abc");
    assert_eq!((thread.message_count, thread.open_work), (2, 1));
    assert_eq!(thread.participants, [OPS, WORKER]);
    let done =
        json!({"kind": "trace", "to": WORKER, "work_id": "work_1", "body": {"state": "canceled"}});
    assert_eq!(
        receive(&mut host, &said("m3", done)).verdict,
        Verdict::Accept
    );
    assert_eq!(conversation(&host, "thread_abc").open_work, 0);
    // Every kind is refused after the end; only what asks is told so.
    for (id, kind, body, receipts) in [
        ("m4", "trace", json!({"state": "working"}), 0),
        ("m5", "say", json!({"text": "x"}), 1),
    ] {
        let late = said(
            id,
            json!({"kind": kind, "to": WORKER, "work_id": "work_1", "body": body}),
        );
        let outcome = receive(&mut host, &late);
        assert_eq!(error(&outcome), "work_closed");
        assert_eq!(emitted(&outcome).len(), receipts);
        for receipt in emitted(&outcome) {
            assert_eq!(receipt["workspace_id"], WORKSPACE);
            assert_eq!(receipt["thread_id"], "thread_abc");
            assert_eq!(receipt["work_id"], "work_1");
            assert_eq!(receipt["body"]["reason_code"], "work_closed");
        }
    }
}

// AG-B-23
#[test]
fn talk_without_work_opens_none_and_a_room_needs_work_of_its_own() {
    let mut host = host();
    let talk = receive(&mut host, &said("m1", json!({"to": WORKER})));
    assert_eq!((error(&talk), talk.step, talk.state), ("", None, None));
    assert_eq!(talk.deliver_to, [WORKER]);
    assert_eq!(conversation(&host, "thread_abc").open_work, 0);
    let asked = said("m2", json!({"to": WORKER, "work_id": "work_1"}));
    assert_eq!(error(&receive(&mut host, &asked)), "");
    // The same two go on in their room.
    let room = direct_id(WORKSPACE, CHANNEL, OPS, WORKER).unwrap();
    let in_room = |id: &str, work: &str| {
        let mut said = said(
            id,
            json!({"to": WORKER, "surface": "direct", "direct_id": room, "work_id": work}),
        );
        said.as_object_mut().unwrap().remove("thread_id");
        said
    };
    let crossing = receive(&mut host, &in_room("m3", "work_1"));
    assert_eq!(error(&crossing), "work_container_mismatch");
    assert_eq!(error(&receive(&mut host, &in_room("m4", "work_2"))), "");
    for container in ["thread_abc", &*room] {
        assert_eq!(conversation(&host, container).open_work, 1, "{container}");
    }
}

// AG-B-4
#[test]
fn a_conversation_has_the_container_of_its_surface_and_no_other() {
    let mut host = host();
    let room = direct_id(WORKSPACE, CHANNEL, OPS, WORKER).unwrap();
    for (kind, body) in [
        ("say", json!({"text": "x"})),
        ("receipt", json!({"for_id": "m", "status": "accepted"})),
        ("trace", json!({"state": "working"})),
    ] {
        for surface in ["thread", "direct"] {
            let both = said(
                &format!("{kind}-{surface}"),
                json!({"kind": kind, "to": WORKER, "work_id": "work_1", "surface": surface, "direct_id": room,
                    "body": body}),
            );
            let outcome = receive(&mut host, &both);
            assert_eq!(error(&outcome), "container_conflict", "{kind} {surface}");
        }
    }
}

// AG-B-7, AG-B-9
#[test]
fn a_room_is_that_of_its_two_members() {
    let mut host = host();
    let room = direct_id(WORKSPACE, CHANNEL, OPS, WORKER).unwrap();
    assert_eq!(
        direct_id(WORKSPACE, CHANNEL, WORKER, OPS).as_ref(),
        Some(&room)
    );
    assert_eq!(direct_id(WORKSPACE, CHANNEL, OPS, OPS), None);
    let in_room = |id: &str, room: &str| {
        let mut said = said(
            id,
            json!({"to": WORKER, "surface": "direct", "direct_id": room}),
        );
        said.as_object_mut().unwrap().remove("thread_id");
        said
    };
    assert_eq!(
        receive(&mut host, &in_room("m1", &room)).deliver_to,
        [WORKER]
    );
    let other = direct_id("ws_beta", CHANNEL, OPS, WORKER).unwrap();
    assert_eq!(
        error(&receive(&mut host, &in_room("m2", &other))),
        "direct_room_mismatch"
    );
    assert_eq!(conversation(&host, &room).surface, "direct");
}

// AG-B-43, AG-B-25
#[test]
fn the_two_revisions_never_meet() {
    let mut host = host();
    let in_a = envelope(
        "m",
        json!({"kind": "direct", "to": WORKER, "interaction_id": "work_1", "body": {"text": "x"}}),
    );
    assert_eq!(error(&receive(&mut host, &in_a)), "");
    // The same identifier, sender and work in the other revision is another envelope and another work.
    let in_b = said("m", json!({"to": WORKER, "work_id": "work_1"}));
    assert_eq!(error(&receive(&mut host, &in_b)), "");
    let elsewhere = said(
        "n",
        json!({"to": WORKER, "work_id": "work_1", "workspace_id": "ws_beta"}),
    );
    assert_eq!(error(&receive(&mut host, &elsewhere)), "not_target");
    assert!(host.interaction(None, CHANNEL, "work_1").is_some());
    assert!(
        host.interaction(Some(WORKSPACE), CHANNEL, "work_1")
            .is_some()
    );
}

// AG-B-41, AG-B-4, AG-B-20, AG-VAL-3
#[test]
fn faults_of_a_conversation_rank_after_freshness_and_before_the_body() {
    let mut host = host();
    let mut mixed = said("m1", json!({"interaction_id": "i"}));
    assert_eq!(error(&receive(&mut host, &mixed)), "mixed_revision");
    mixed.as_object_mut().unwrap().remove("interaction_id");
    mixed["surface"] = "lobby".into();
    mixed["body"] = json!({});
    let outcome = receive(&mut host, &mixed);
    let fault = outcome.fault.as_ref().unwrap();
    assert_eq!(
        (fault.error.as_str(), fault.reason().as_str()),
        ("invalid_surface", "invalid_surface")
    );
    assert_eq!(outcome.ended_at(), 4);
    mixed["expires_at"] = 1.into();
    assert_eq!(error(&receive(&mut host, &mixed)), "expired");
    let bad_body = receive(&mut host, &said("m2", json!({"body": {}})));
    assert_eq!((error(&bad_body), bad_body.ended_at()), ("invalid_body", 5));
    let bare = receive(
        &mut host,
        &said("m3", json!({"surface": null, "thread_id": null})),
    );
    assert_eq!(error(&bare), "surface_required");
}

// AG-B-8
#[test]
fn a_sender_is_stricter_than_a_receiver() {
    let mut host = host();
    host.host_named(Some(WORKSPACE), CHANNEL, OPS).unwrap();
    let with_work = |work: &str| {
        json!({
            "from": WORKER, "channel": CHANNEL, "workspace_id": WORKSPACE, "kind": "say", "to": OPS,
            "surface": "thread", "thread_id": "thread_abc", "work_id": work, "body": {"text": "x"},
        })
    };
    assert_eq!(
        send(&mut host, &with_work("job 7")).unwrap_err(),
        "invalid_work_id"
    );
    assert!(send(&mut host, &with_work("work_7")).is_ok());
    let tolerated = said("m1", json!({"to": WORKER, "work_id": "job 7"}));
    assert_eq!(error(&receive(&mut host, &tolerated)), "");
}
