//! Task writes: who may hand work to the keeper of tasks, and in which words the others are refused (AG-SEC-4).

use bytes::Bytes;
use chancery_agh::body::State;
use chancery_agh::body::card::PeerCard;
use chancery_agh::lifecycle::Interaction;
use chancery_agh::message::Message;
use chancery_agh::settings::{Settings, Tasks};
use chancery_agh::task::{Known, is_write, judge};
use chancery_agh::trust::TrustState;
use serde_json::{Value, json};

use crate::support::{CHANNEL, OPS, WORKER, direct};

fn tasks() -> Tasks {
    Tasks {
        keeper: WORKER.to_owned(),
        writers: vec![OPS.to_owned()],
    }
}

fn card(capabilities: &[&str]) -> PeerCard {
    PeerCard {
        peer_id: OPS.to_owned(),
        display_name: None,
        profiles_supported: Vec::new(),
        capabilities: capabilities.iter().map(ToString::to_string).collect(),
        artifacts_supported: Vec::new(),
        trust_modes_supported: Vec::new(),
        ext: None,
    }
}

fn known() -> Known {
    Known {
        channel_is_joined: true,
        keeper_is_there: true,
        card: Some(card(&["task.write"])),
        task: None,
    }
}

fn task_of(initiator: &str, target: &str) -> Interaction {
    Interaction {
        initiator: initiator.to_owned(),
        target: target.to_owned(),
        state: State::Working,
        created: 0,
        updated: 0,
        last_id: String::new(),
        container: None,
        channel: None,
    }
}

fn write(task: Value) -> Message {
    let mut envelope = direct("m1", "task-1");
    envelope["ext"] = json!({"agh.task": task});
    decoded(&envelope)
}

fn decoded(envelope: &Value) -> Message {
    let bytes = Bytes::from(envelope.to_string());
    Message::decode(bytes, &Settings::default(), None).unwrap()
}

fn error(message: &Message, known: &Known) -> &'static str {
    let judged = judge(message, &tasks(), known);
    judged.err().map_or("", |fault| fault.error.as_str())
}

// AG-SEC-4, AG-CARD-12
#[test]
fn each_reason_has_its_name() {
    let good = write(json!({"request_id": "r1"}));
    assert_eq!(error(&good, &known()), "");
    assert_eq!(
        error(
            &write(json!({"request_id": "r1", "channel": CHANNEL})),
            &known()
        ),
        ""
    );
    assert_eq!(
        error(&write(json!({"request_id": "r1", "channel": ""})), &known()),
        ""
    );
    for wrong in [
        json!("x"),
        json!({}),
        json!({"request_id": 1}),
        json!({"request_id": "r", "channel": 1}),
    ] {
        assert_eq!(
            error(&write(wrong.clone()), &known()),
            "invalid_request",
            "{wrong}"
        );
    }
    assert_eq!(
        error(&decoded(&direct("m1", "t")), &known()),
        "invalid_request"
    );
    for wrong in [
        json!({"request_id": " "}),
        json!({"request_id": "r", "channel": "NO"}),
    ] {
        assert_eq!(
            error(&write(wrong.clone()), &known()),
            "validation_failed",
            "{wrong}"
        );
    }
    let other = write(json!({"request_id": "r1", "channel": "others"}));
    assert_eq!(error(&other, &known()), "channel_mismatch");
    let with = |change: fn(&mut Known)| {
        let mut known = known();
        change(&mut known);
        known
    };
    assert_eq!(
        error(&good, &with(|known| known.channel_is_joined = false)),
        "stale_channel"
    );
    assert_eq!(
        error(&good, &with(|known| known.keeper_is_there = false)),
        "task_ingress_unavailable"
    );
    assert_eq!(
        error(&good, &with(|known| known.card = None)),
        "peer_not_found"
    );
    assert_eq!(
        error(
            &good,
            &with(|known| known.card = Some(card(&["task.read"])))
        ),
        "capability_denied"
    );
}

// AG-SEC-4
#[test]
fn a_task_is_changed_by_whom_it_belongs_to() {
    let update = write(json!({"request_id": "r1", "update": true}));
    assert_eq!(error(&update, &known()), "task_not_found");
    let mut own = known();
    own.task = Some(task_of(OPS, WORKER));
    assert_eq!(error(&update, &own), "");
    own.task = Some(task_of("somebody.else", WORKER));
    assert_eq!(error(&update, &own), "permission_denied");
}

// AG-CARD-12: the card is a claim; a proof or this node's own list makes it count.
#[test]
fn a_claim_alone_writes_nothing() {
    let mut message = write(json!({"request_id": "r1"}));
    let nobody = Tasks {
        writers: Vec::new(),
        ..tasks()
    };
    let judged = |message: &Message| {
        let judged = judge(message, &nobody, &known());
        judged.err().map_or("", |fault| fault.error.as_str())
    };
    assert_eq!(judged(&message), "capability_denied");
    message.trust = TrustState::Verified {
        key_id: "sha256:00".to_owned(),
    };
    assert_eq!(judged(&message), "");
}

// AG-SEC-4
#[test]
fn only_work_for_the_keeper_is_a_task() {
    let good = write(json!({"request_id": "r1"}));
    assert!(is_write(&good, &tasks(), None));
    let elsewhere = Tasks {
        keeper: "somebody.else".to_owned(),
        ..tasks()
    };
    assert!(!is_write(&good, &elsewhere, None));
    // Work that the keeper handed over itself is reported about freely.
    assert!(!is_write(&good, &tasks(), Some(&task_of(WORKER, OPS))));
}
