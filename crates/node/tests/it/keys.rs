//! Keys while the node runs: rotation under way, short-lived keys, keys that leave their file.

use std::time::Duration;

use chancery_core::admin::Act;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::keys::{KeyRecord, KeySource, KeyState};
use chancery_core::protocol::{Caller, Door, Input, Protocol as _};
use chancery_core::refusal::Refusal;
use chancery_node::SoftLimits;
use chancery_node::suite::{AnyInput, Chancery};
use chancery_value_context::world::World;
use serde_json::json;

use crate::support::assert_log_gives;
use crate::support::bureau::{Bureau, CHILD, KITCHEN, MONITOR, PARENT, of_monitor, vectors, world};

async fn office(dir: &tempfile::TempDir) -> Bureau {
    Bureau::open(dir.path(), SoftLimits::default()).await
}

fn key_of_monitor() -> KeyRecord {
    let keys = world().keys.into_iter();
    let mut of_monitor = keys.filter(|key| key.owner == MONITOR && key.state == KeyState::Active);
    of_monitor.next().unwrap()
}

async fn set(bureau: &Bureau, key: KeyRecord) {
    bureau.office.act(Act::Key(key)).await.unwrap();
}

/// A message that was proven under the keys of now, held back from its decision.
fn proven(bureau: &Bureau, number: u64) -> AnyInput {
    let gate = bureau.office.gate();
    let protocol = gate.suite().value_context();
    let settings = gate.settings();
    let message = protocol
        .decode(
            of_monitor(number, CHILD),
            Door::Http,
            &settings.value_context,
        )
        .unwrap();
    let authentic = protocol.authenticate(
        message,
        Door::Http,
        &Caller::default(),
        &gate.keyring(),
        &settings.value_context,
        gate.clock().now(),
    );
    AnyInput::ValueContext(Input::Envelope(authentic.unwrap()))
}

async fn decided(bureau: &Bureau, input: AnyInput) -> Result<(), Refusal> {
    bureau.office.submit(input).await.unwrap().result.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_rotated_between_receipt_and_decision_still_counts() {
    // VX-KEY-3, VX-KEY-4
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let old = key_of_monitor();
    let under_way = proven(&bureau, 1);
    let state = KeyState::Rotating;
    set(
        &bureau,
        KeyRecord {
            state,
            ..old.clone()
        },
    )
    .await;
    decided(&bureau, under_way).await.unwrap();
    // What comes later under the old key counts too, until it is retired.
    bureau.receive(of_monitor(2, CHILD)).await.unwrap();
    let under_way = proven(&bureau, 3);
    let state = KeyState::Retired;
    set(&bureau, KeyRecord { state, ..old }).await;
    let refusal = decided(&bureau, under_way).await.unwrap_err();
    assert_eq!(refusal.code, "key_not_valid");
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_withdrawn_or_removed_between_receipt_and_decision_does_not_count() {
    // VX-KEY-4
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let key = key_of_monitor();
    let removed = true;
    let under_way = proven(&bureau, 1);
    set(
        &bureau,
        KeyRecord {
            removed,
            ..key.clone()
        },
    )
    .await;
    let refusal = decided(&bureau, under_way).await.unwrap_err();
    assert_eq!(refusal.code, "key_not_valid");
    let refusal = bureau.receive(of_monitor(2, CHILD)).await.unwrap_err();
    assert_eq!(refusal.code, "sender_unknown");
    set(&bureau, key.clone()).await;
    bureau.receive(of_monitor(2, CHILD)).await.unwrap();

    let under_way = proven(&bureau, 3);
    let state = KeyState::Compromised;
    set(
        &bureau,
        KeyRecord {
            state,
            ..key.clone()
        },
    )
    .await;
    let refusal = decided(&bureau, under_way).await.unwrap_err();
    assert_eq!(refusal.code, "key_not_valid");
    // It must not come back by leaving the record first.
    let act = Act::Key(KeyRecord { removed, ..key });
    let refusal = bureau.office.act(act).await.unwrap_err();
    assert_eq!(refusal.code, "key_not_allowed");
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_valid_raises_an_alert() {
    // VX-KEY-5, VX-AUD-3
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let state = KeyState::Compromised;
    let key = key_of_monitor();
    set(&bureau, KeyRecord { state, ..key }).await;
    let refusal = bureau.receive(of_monitor(1, CHILD)).await.unwrap_err();
    assert_eq!(refusal.code, "key_not_valid");
    bureau.stop().await;
    let events = std::fs::read_to_string(dir.path().join("events.jsonl")).unwrap();
    let event: serde_json::Value = serde_json::from_str(events.trim_end()).unwrap();
    assert_eq!(event["event"], "key_alert");
    assert_eq!(event["message_id"], "019502a4-7e5c-7000-8000-000000000001");
    assert!(!events.contains("agent://"), "{events}");
}

// VX-KEY-3, VX-KEY-5, CH-JRN-7: the node signs in nobody's name under a key that does not count any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_hosted_agent_signs_nothing_under_a_key_that_was_withdrawn() {
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let keys = world().keys.into_iter();
    let mut of_parent = keys.filter(|key| key.owner == PARENT && key.state == KeyState::Active);
    let key = of_parent.next().unwrap();
    bureau.send(PARENT, MONITOR, None).await.unwrap();

    let state = KeyState::Compromised;
    let withdrawn = KeyRecord {
        state,
        ..key.clone()
    };
    set(&bureau, withdrawn).await;
    for to in [MONITOR, CHILD] {
        let refusal = bureau.send(PARENT, to, None).await.unwrap_err();
        assert_eq!(refusal.code, "key_not_valid");
        assert_eq!(refusal.path.as_deref(), Some("/sender"));
    }
    // What its runtime answers to somebody here stays in the house, unsigned.
    let escalation =
        json!({"severity": "emergency", "reason": "fire", "context": "📍💻", "requires_ack": true});
    let body =
        json!({"sender": CHILD, "recipient": PARENT, "type": "escalation", "payload": escalation});
    let body = body.to_string();
    let before = bureau.inbox(CHILD).len();
    let sent = bureau.office.send_value_context(body.as_bytes(), None);
    sent.await.unwrap();
    let acknowledged = bureau.inbox(CHILD);
    assert_eq!(acknowledged.len(), before + 1);
    let lines = bureau.store().lines(*acknowledged.last().unwrap(), 1);
    let line: serde_json::Value = serde_json::from_slice(&lines.unwrap()[0]).unwrap();
    assert_eq!(line["envelope"]["sender"], PARENT);
    assert_eq!(line["envelope"].get("signature"), None);

    // Another key, held and on record in either order, counts again.
    let secret = SigningKey::from_seed(&[79; 32]);
    let public = secret.verifying_key().as_bytes().to_vec();
    bureau.office.gate().vault().hold(PARENT, secret);
    let next = KeyRecord {
        id: "k-next".to_owned(),
        public,
        ..key
    };
    set(&bureau, next).await;
    bureau.send(PARENT, MONITOR, None).await.unwrap();
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spawned_agent_has_a_key_for_a_while() {
    // VX-KEY-6
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let now = bureau.office.gate().clock().now();
    let after = |seconds: u64| now.saturating_add(Duration::from_secs(seconds));
    let day = 24 * 60 * 60;
    let public = SigningKey::from_seed(&[77; 32]).verifying_key();
    let registered = bureau
        .office
        .register_key(KITCHEN, *public.as_bytes(), Some(after(2 * day)))
        .await;
    let id = registered.unwrap().1;
    let keys = bureau.office.gate().keyring();
    let on_record = keys.get(KITCHEN, &id).unwrap();
    assert_eq!(on_record.source, KeySource::Spawn);
    assert!(on_record.usable_at(now) && on_record.usable_at(after(day)));
    assert!(!on_record.usable_at(after(day + 1)));

    // It leaves with its agent; the key that an operator or a file gave stays.
    let others = keys.records(KITCHEN).count() - 1;
    let protocol = chancery_core::line::ProtocolName::ValueContext;
    let ended = bureau.office.end_agent(protocol, KITCHEN.to_owned()).await;
    ended.unwrap();
    let keys = bureau.office.gate().keyring();
    assert_eq!(keys.get(KITCHEN, &id), None);
    assert_eq!(keys.records(KITCHEN).count(), others);
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

/// The world of the vectors, changed.
fn changed(change: impl FnOnce(&mut serde_json::Value)) -> World {
    let mut file = vectors("world.json");
    change(&mut file);
    World::parse(file.to_string().as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leaves_the_file_leaves_the_record() {
    // VX-KEY-7, CH-JRN-1
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let by_hand = KeyRecord {
        id: "by-hand".to_owned(),
        public: SigningKey::from_seed(&[78; 32])
            .verifying_key()
            .as_bytes()
            .to_vec(),
        source: KeySource::Operator,
        ..key_of_monitor()
    };
    set(&bureau, by_hand).await;
    let without = changed(|file| {
        let anchors = file["trust"]["trust_anchors"].as_object_mut().unwrap();
        anchors.remove(MONITOR).unwrap();
        let agents = file["local_agents"].as_array_mut().unwrap();
        agents.retain(|agent| agent["id"] != KITCHEN);
    });
    let of_file = key_of_monitor().id;
    bureau.office.reconcile_world(&without).await.unwrap();
    let keys = bureau.office.gate().keyring();
    assert_eq!(keys.get(MONITOR, &of_file), None);
    assert!(keys.get(MONITOR, "by-hand").is_some());
    assert_eq!(bureau.office.value_context_state(KITCHEN).unwrap(), None);
    assert_eq!(bureau.office.reconcile_world(&without).await.unwrap(), 0);
    // And is back with it.
    bureau.office.reconcile_world(&world()).await.unwrap();
    bureau.receive(of_monitor(1, CHILD)).await.unwrap();
    assert!(
        bureau
            .office
            .value_context_state(KITCHEN)
            .unwrap()
            .is_some()
    );
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_the_record_does_not_allow_changes_nothing() {
    // VX-KEY-4, VX-KEY-7
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let head = bureau.store().head();
    // One key would come (its name sorts first), another would go back in its life.
    let bad = changed(|file| {
        let anchors = file["trust"]["trust_anchors"].as_object_mut().unwrap();
        let keys = anchors[MONITOR]["keys"].as_array_mut().unwrap();
        let mut new = keys[0].clone();
        let seed = SigningKey::from_seed(&[79; 32]);
        let public = chancery_core::keys::ed25519::encode_public_key(&seed.verifying_key());
        new["id"] = "a-new-one".into();
        new["public_key"] = public.into();
        keys[0]["state"] = "pending".into();
        keys.push(new);
    });
    bureau.office.reconcile_world(&bad).await.unwrap_err();
    assert_eq!(bureau.store().head(), head);
    bureau.stop().await;
}
