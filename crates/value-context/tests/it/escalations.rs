//! Escalations: what a receiver owes, what a sender enters, who is told when nobody answers (section 14).

use chancery_core::admin::RunState::{Paused, Running, Suspended};
use chancery_core::line::Origin;
use chancery_value_context::Answer;
use serde_json::json;

use crate::stage::{Stage, agent, constraints, escalation, millis, seconds, share};

const ROOT: &str = "agent://a.example/root";
const PARENT: &str = "agent://a.example/parent";
const CHILD: &str = "agent://b.example/child";
const OTHER: &str = "agent://b.example/other";

/// A parent whose child and own parent are elsewhere.
fn parent() -> Stage {
    let mut stage = Stage::default();
    let mut record = agent(Some(ROOT), &[CHILD]);
    record.context = Some("⏰🌅|📍🏢".to_owned());
    stage.host(PARENT, record);
    stage
}

/// A child whose ancestors are elsewhere.
fn child() -> Stage {
    let mut stage = Stage::default();
    let mut record = agent(Some(PARENT), &[]);
    record.escalation_path = vec![ROOT.to_owned()];
    stage.host(CHILD, record);
    stage
}

fn ack(of: &str, more: &str) -> serde_json::Value {
    json!({
        "severity": "emergency",
        "reason": format!("ACK:{of}{more}"),
        "context": "📍💻",
        "requires_ack": false,
    })
}

// VX-ACK-1, VX-ACK-2, VX-ACK-5, VX-RUN-4, VX-RUN-8, VX-AUD-2, VX-AUD-3
#[test]
fn an_emergency_suspends_is_acknowledged_forwarded_and_audited_in_one_unit() {
    let mut stage = parent();
    let before = stage.log.len();
    let id = stage.told(CHILD, PARENT, "escalation", escalation("emergency", "fire"));
    assert_eq!(stage.view(PARENT, CHILD), Suspended);
    let [received, answer, forward] = stage.since(before) else {
        panic!("{:?}", stage.since(before));
    };
    assert_eq!(received.origin, Origin::External);
    assert_eq!(
        (answer.origin, answer.from(), answer.to()),
        (Origin::Runtime, PARENT, CHILD)
    );
    let payload = &answer.envelope["payload"];
    assert_eq!(payload["reason"], format!("ACK:{id};state=suspended"));
    assert_eq!(payload["severity"], "emergency");
    assert_eq!(payload["requires_ack"], false);
    assert_eq!(payload["context"], "⏰🌅|📍🏢");
    assert_eq!((forward.from(), forward.to()), (PARENT, ROOT));
    assert_eq!(forward.reason(), format!("FWD:{id} {CHILD}: fire"));
    assert_eq!(forward.envelope["payload"]["requires_ack"], true);
    assert_ne!(forward.id(), id);
    // The forwarder's own state is its parent's business.
    assert_eq!(stage.state(PARENT), Running);
    assert!(stage.leaving.iter().all(|leaving| leaving.delivery.exempt));
    let audited: serde_json::Value = serde_json::from_slice(&stage.audits[0].envelope).unwrap();
    assert_eq!(audited["message_id"], id);
    assert_eq!(audited["payload"]["reason"], "fire");
    for event in ["ack_sent", "forwarded"] {
        assert_eq!(stage.events_named(event), 1, "{event}");
    }
    let later = stage.envelope(CHILD, PARENT, "context_share", share("📍🏡"));
    let refusal = stage.receive(&later).unwrap_err();
    assert_eq!((refusal.code, refusal.status), ("sender_suspended", 423));
    stage.told(
        CHILD,
        PARENT,
        "escalation",
        escalation("info", "still here"),
    );
    stage.told(CHILD, PARENT, "escalation", ack(&id, ""));
}

// VX-ACK-4, VX-DUP-1
#[test]
fn a_repeated_escalation_gets_the_same_acknowledgement_again() {
    let mut stage = parent();
    let envelope = stage.envelope(CHILD, PARENT, "escalation", escalation("critical", "x"));
    stage.receive(&envelope).unwrap();
    let ack = stage
        .log
        .iter()
        .find(|line| line.to() == CHILD)
        .unwrap()
        .seq;
    let lines = stage.log.len();
    stage.wait(seconds(40));
    let again = stage.receive(&envelope).unwrap();
    assert!(matches!(again, Answer::Duplicate(_)));
    assert_eq!(stage.log.len(), lines);
    let [(seq, delivery)] = stage.repeated.as_slice() else {
        panic!("{:?}", stage.repeated);
    };
    assert_eq!(
        (*seq, delivery.to.as_str(), delivery.exempt),
        (ack, CHILD, true)
    );
}

// VX-ACK-2, VX-ACK-3
#[test]
fn every_escalation_is_acknowledged_and_no_acknowledgement_is() {
    let mut stage = parent();
    for severity in ["info", "warning"] {
        let before = stage.log.len();
        let id = stage.told(CHILD, PARENT, "escalation", escalation(severity, "x"));
        assert_eq!(stage.log.len(), before + 2);
        assert_eq!(stage.log[before + 1].reason(), format!("ACK:{id}"));
        assert_eq!(
            stage.log[before + 1].envelope["payload"]["severity"],
            severity
        );
        let before = stage.log.len();
        stage.told(CHILD, PARENT, "escalation", ack(&id, ";state=suspended"));
        assert_eq!(stage.log.len(), before + 1);
    }
    assert_eq!(stage.view(PARENT, CHILD), Running);
    stage.settings.ack_unrequested = false;
    let before = stage.log.len();
    stage.told(CHILD, PARENT, "escalation", escalation("info", "x"));
    assert_eq!(stage.log.len(), before + 1);
    let mut asks = escalation("info", "x");
    asks["requires_ack"] = true.into();
    stage.told(CHILD, PARENT, "escalation", asks);
    assert_eq!(stage.log.len(), before + 3);
}

// VX-RUN-7, VX-RUN-8
#[test]
fn a_critical_that_is_not_answered_within_a_minute_goes_to_the_parent() {
    let mut stage = parent();
    let id = stage.told(CHILD, PARENT, "escalation", escalation("critical", "x"));
    assert_eq!(stage.view(PARENT, CHILD), Paused);
    let before = stage.log.len();
    stage.wait(millis(59_999));
    assert_eq!(stage.log.len(), before);
    stage.wait(millis(1));
    let [timer, forward] = stage.since(before) else {
        panic!("{:?}", stage.since(before));
    };
    assert_eq!(timer.envelope["kind"], "timer");
    assert_eq!(timer.envelope["timer"]["timer"], "evaluate");
    assert_eq!(forward.to(), ROOT);
    assert_eq!(forward.reason(), format!("FWD:{id} {CHILD}: x"));
    assert_eq!(forward.envelope["payload"]["severity"], "critical");
    // Without a parent the owner is told.
    let mut stage = Stage::default();
    stage.host(PARENT, agent(None, &[CHILD]));
    stage.told(CHILD, PARENT, "escalation", escalation("critical", "x"));
    stage.wait(seconds(60));
    assert_eq!(stage.audits.last().unwrap().name, "unresolved");
    assert_eq!(stage.events_named("unresolved"), 1);
}

// VX-RUN-7
#[test]
fn a_judgement_ends_the_wait() {
    let answers: [(&str, &str, serde_json::Value); 4] = [
        (
            CHILD,
            "constraint_propagate",
            constraints("merge", &[("token_limit", json!(5))]),
        ),
        (CHILD, "context_share", share("🎭➖")),
        (CHILD, "escalation", json!(null)),
        (ROOT, "escalation", json!(null)),
    ];
    for (to, kind, payload) in answers {
        let mut stage = parent();
        let id = stage.told(CHILD, PARENT, "escalation", escalation("critical", "x"));
        let payload = match (to, payload) {
            (CHILD, serde_json::Value::Null) => {
                let mut hold = ack(&id, ";state=paused");
                hold["severity"] = "critical".into();
                hold
            }
            (_, serde_json::Value::Null) => escalation("critical", &format!("FWD:{id} {CHILD}: x")),
            (_, payload) => payload,
        };
        stage.send(PARENT, to, kind, payload);
        // Passing a child's escalation on does not stop the one who passes it on.
        assert_eq!(stage.state(PARENT), Running);
        let resolved = kind != "escalation";
        assert_eq!(
            stage.view(PARENT, CHILD),
            if resolved { Running } else { Paused }
        );
        let before = stage.log.len();
        stage.leaving.clear();
        stage.wait(seconds(120));
        assert_eq!(stage.log.len(), before, "{to} {kind}");
    }
}

// VX-RUN-2, VX-RUN-3
#[test]
fn an_agent_that_sends_a_grave_escalation_stops_itself() {
    let mut stage = child();
    let critical = stage.send(CHILD, PARENT, "escalation", escalation("critical", "x"));
    assert_eq!(
        (stage.state(CHILD), stage.open(CHILD)),
        (Paused, vec![critical])
    );
    stage.send(CHILD, OTHER, "context_share", share("📍🏡"));
    stage.send(CHILD, PARENT, "escalation", escalation("emergency", "y"));
    assert_eq!(stage.state(CHILD), Suspended);
    for (to, kind, payload) in [
        (OTHER, "context_share", share("📍🏡")),
        ("broadcast", "context_share", share("📍🏡")),
        (
            OTHER,
            "constitution_announce",
            json!({"constitution_ref": "creed://a.example/b", "manifest_hash": format!("sha256:{}", "a".repeat(64))}),
        ),
    ] {
        let refusal = stage.try_send(CHILD, to, kind, payload).unwrap_err();
        assert_eq!((refusal.code, refusal.status), ("sender_suspended", 423));
    }
    stage.send(CHILD, PARENT, "escalation", escalation("info", "z"));
    let exempt = |kind: &str| {
        let of_kind = stage
            .leaving
            .iter()
            .filter(|leaving| leaving.envelope["type"] == kind);
        of_kind
            .map(|leaving| leaving.delivery.exempt)
            .collect::<Vec<_>>()
    };
    assert_eq!(exempt("context_share"), [false]);
    assert!(exempt("escalation").into_iter().all(|exempt| exempt));
    let mut stage = child();
    stage.settings.pause_on_critical = false;
    stage.send(CHILD, PARENT, "escalation", escalation("critical", "x"));
    assert_eq!(stage.state(CHILD), Running);
}

// VX-ACK-6, VX-ACK-7, VX-ID-5
#[test]
fn an_escalation_that_nobody_acknowledges_climbs_and_ends_at_the_operator() {
    let mut stage = child();
    let mut payload = escalation("emergency", "fire");
    payload["blocked_action"] = "cook".into();
    let first = stage.send(CHILD, PARENT, "escalation", payload);
    // The wait runs from the delivery, not from sending.
    stage.wait(seconds(3));
    for (recipient, next) in [(PARENT, Some(ROOT)), (ROOT, Some(PARENT)), (PARENT, None)] {
        let delivered = stage.deliver(recipient);
        assert_eq!(delivered.len(), 1, "{recipient}");
        let before = stage.log.len();
        stage.wait(millis(5_999));
        assert_eq!(stage.log.len(), before);
        stage.wait(millis(1));
        let lines = stage.since(before).to_vec();
        assert_eq!(lines[0].envelope["timer"]["timer"], "ack_missing");
        let Some(next) = next else {
            assert_eq!(lines.len(), 1);
            continue;
        };
        assert_eq!(lines[1].to(), next);
        assert_eq!(lines[1].reason(), format!("UNACKED:{first} fire"));
        assert_eq!(lines[1].envelope["payload"]["blocked_action"], "cook");
        assert_eq!(lines[1].envelope["payload"]["severity"], "emergency");
        assert_ne!(lines[1].id(), first);
    }
    assert_eq!(stage.events_named("ack_missing"), 3);
    assert_eq!(stage.events_named("operator_alert"), 1);
    assert_eq!(stage.audits.last().unwrap().name, "unacknowledged");
    // It stays suspended, for the first escalation alone.
    assert_eq!(
        (stage.state(CHILD), stage.open(CHILD)),
        (Suspended, vec![first])
    );
}

// VX-ACK-6
#[test]
fn an_acknowledgement_counts_from_whom_the_escalation_was_sent_to() {
    let mut stage = child();
    let id = stage.send(CHILD, PARENT, "escalation", escalation("emergency", "fire"));
    stage.deliver(PARENT);
    stage.wait(seconds(1));
    stage.told(OTHER, CHILD, "escalation", ack(&id, ";state=running"));
    assert_eq!(stage.events_named("ack_unmatched"), 1);
    stage.told(PARENT, CHILD, "escalation", ack(&id, " understood"));
    assert_eq!(stage.events_named("ack_received"), 1);
    let before = stage.log.len();
    stage.wait(seconds(60));
    assert_eq!(stage.log.len(), before);
    assert_eq!(stage.state(CHILD), Suspended);
    // A late one is recorded and stops nothing.
    let mut stage = child();
    let id = stage.send(CHILD, PARENT, "escalation", escalation("emergency", "fire"));
    stage.deliver(PARENT);
    stage.wait(seconds(7));
    let climbed = stage.leaving.len();
    assert_eq!(climbed, 1);
    stage.told(PARENT, CHILD, "escalation", ack(&id, ";state=suspended"));
    assert_eq!(stage.events_named("ack_received"), 1);
    assert_eq!(stage.leaving.len(), climbed);
    stage.deliver(ROOT);
    stage.wait(seconds(6));
    assert_eq!(stage.events_named("ack_missing"), 2);
}

// VX-RTY-6, VX-ACK-6
#[test]
fn an_escalation_that_cannot_be_delivered_is_unacknowledged_at_once() {
    let mut stage = child();
    let id = stage.send(CHILD, PARENT, "escalation", escalation("critical", "x"));
    let before = stage.log.len();
    stage.lose(PARENT);
    let lines = stage.since(before);
    assert_eq!(lines[0].envelope["kind"], "failed");
    assert_eq!(
        (lines[1].to(), lines[1].reason()),
        (ROOT, format!("UNACKED:{id} x").as_str())
    );
    assert_eq!(
        (lines[2].to(), &lines[2].envelope["payload"]["severity"]),
        (ROOT, &json!("warning"))
    );
    assert_eq!(lines.len(), 3);
    // Nothing follows from a failed share or from a failed warning.
    let mut stage = child();
    stage.send(CHILD, PARENT, "context_share", share("📍🏡"));
    stage.send(CHILD, PARENT, "escalation", escalation("warning", "x"));
    let before = stage.log.len();
    stage.lose(PARENT);
    assert_eq!(stage.log.len(), before + 2);
}

// VX-RTY-6
#[test]
fn constraints_that_cannot_be_delivered_are_told_to_the_parent() {
    let mut stage = parent();
    let id = stage.send(
        PARENT,
        CHILD,
        "constraint_propagate",
        constraints("merge", &[("token_limit", json!(5))]),
    );
    let before = stage.log.len();
    stage.lose(CHILD);
    let [_, warning] = stage.since(before) else {
        panic!("{:?}", stage.since(before));
    };
    assert_eq!((warning.from(), warning.to()), (PARENT, ROOT));
    assert!(warning.reason().contains(&id));
    assert_eq!(warning.envelope["payload"]["requires_ack"], false);
}

// CH-JRN-10, CH-ID-4, VX-RUN-8
#[test]
fn where_all_are_hosted_one_decision_has_the_effects_of_all() {
    let mut stage = Stage::default();
    stage.host(ROOT, agent(None, &[PARENT]));
    stage.host(PARENT, agent(Some(ROOT), &[CHILD]));
    stage.host(CHILD, agent(Some(PARENT), &[]));
    let before = stage.log.len();
    let id = stage.send(CHILD, PARENT, "escalation", escalation("emergency", "fire"));
    let lines: Vec<_> = stage
        .since(before)
        .iter()
        .map(|line| (line.from(), line.to()))
        .collect();
    assert_eq!(
        lines,
        [
            (CHILD, PARENT),
            (PARENT, CHILD),
            (PARENT, ROOT),
            (ROOT, PARENT)
        ]
    );
    assert!(stage.leaving.is_empty());
    assert_eq!(
        (stage.state(CHILD), stage.view(PARENT, CHILD)),
        (Suspended, Suspended)
    );
    // The forwarder is suspended by its own parent, and learns it from the acknowledgement.
    assert_eq!(
        (stage.state(PARENT), stage.view(ROOT, PARENT)),
        (Suspended, Suspended)
    );
    // The chain is resumed from the top.
    let resume = |id: Option<&str>| {
        let value = match id {
            Some(id) => json!({"resume": true, "escalation_id": id}),
            None => json!({"resume": true}),
        };
        constraints("merge", &[("x-vcp-resume", value)])
    };
    let refusal = stage
        .try_send(PARENT, CHILD, "constraint_propagate", resume(Some(&id)))
        .unwrap_err();
    assert_eq!(refusal.code, "sender_suspended");
    stage.wait(seconds(1));
    stage.send(ROOT, PARENT, "constraint_propagate", resume(None));
    assert_eq!(
        (stage.state(PARENT), stage.view(ROOT, PARENT)),
        (Running, Running)
    );
    assert_eq!(stage.state(CHILD), Suspended);
    stage.send(PARENT, CHILD, "constraint_propagate", resume(Some(&id)));
    assert_eq!(
        (stage.state(CHILD), stage.view(PARENT, CHILD)),
        (Running, Running)
    );
    assert!(stage.open(CHILD).is_empty() && stage.open(PARENT).is_empty());
    let before = stage.log.len();
    stage.wait(seconds(3_600));
    assert_eq!(stage.log.len(), before);
}

// VX-RUN-8
#[test]
fn a_ring_of_parents_forwards_an_escalation_once_each() {
    let (a, b, c) = ("ring-a", "ring-b", "ring-c");
    let mut stage = Stage::default();
    stage.host(a, agent(Some(b), &[c]));
    stage.host(b, agent(Some(c), &[a]));
    stage.host(c, agent(Some(a), &[b]));
    let id = stage.send(a, b, "escalation", escalation("emergency", "fire"));
    let forwards: Vec<_> = stage
        .log
        .iter()
        .filter(|line| line.reason().starts_with("FWD:"))
        .map(|line| (line.from(), line.reason().to_owned()))
        .collect();
    let reason = format!("FWD:{id} {a}: fire");
    assert_eq!(
        forwards,
        [(b, reason.clone()), (c, reason.clone()), (a, reason)]
    );
}

// VX-RUN-3, VX-RUN-8
#[test]
fn a_suspended_agent_still_acknowledges_and_forwards_for_its_children() {
    let mut stage = parent();
    stage.send(PARENT, ROOT, "escalation", escalation("emergency", "own"));
    assert_eq!(stage.state(PARENT), Suspended);
    stage.leaving.clear();
    let id = stage.told(CHILD, PARENT, "escalation", escalation("emergency", "fire"));
    let leaving: Vec<_> = stage
        .leaving
        .iter()
        .map(|leaving| (leaving.delivery.to.as_str(), leaving.delivery.exempt))
        .collect();
    assert_eq!(leaving, [(CHILD, true), (ROOT, true)]);
    assert!(stage.log.last().unwrap().reason().contains(&id));
}

// VX-RUN-9
#[test]
fn more_than_ten_emergencies_in_a_minute_raise_an_alert() {
    let mut stage = parent();
    for count in 1..=11 {
        stage.told(CHILD, PARENT, "escalation", escalation("emergency", "fire"));
        assert_eq!(
            stage.events_named("emergency_alert"),
            usize::from(count > 10)
        );
        stage.wait(seconds(1));
    }
    stage.wait(seconds(61));
    stage.told(CHILD, PARENT, "escalation", escalation("emergency", "fire"));
    assert_eq!(stage.events_named("emergency_alert"), 1);
}

// VX-ES-4, VX-BC-3, VX-BC-4
#[test]
fn a_broadcast_escalation_creates_duties_for_the_parent_alone() {
    let mut stage = parent();
    let mut peer = agent(Some(ROOT), &[]);
    peer.peers = vec![CHILD.to_owned()];
    stage.host(OTHER, peer);
    let before = stage.log.len();
    let id = stage.told(
        CHILD,
        "broadcast",
        "escalation",
        escalation("emergency", "fire"),
    );
    let lines = stage.since(before);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[1].reason(), format!("ACK:{id};state=suspended"));
    assert_eq!((lines[1].from(), lines[2].from()), (PARENT, PARENT));
    assert_eq!(stage.view(OTHER, CHILD), Running);
    // Directed at somebody who is not its parent it is refused.
    let envelope = stage.envelope(CHILD, OTHER, "escalation", escalation("emergency", "fire"));
    assert_eq!(stage.receive(&envelope).unwrap_err().code, "not_authorized");
}

// VX-CTX-8
#[test]
fn a_cry_for_help_is_taken_whatever_its_context_says() {
    let mut stage = parent();
    let mut payload = escalation("emergency", "fire");
    payload["context"] = "T:morning|S:home".into();
    stage.told(CHILD, PARENT, "escalation", payload);
    let forward = stage.log.last().unwrap();
    assert_eq!(forward.envelope["payload"]["context"], "T:morning|S:home");
    assert_eq!(stage.events_named("context_opaque"), 1);
    assert_eq!(stage.view(PARENT, CHILD), Suspended);
}

// VX-V2-1
#[test]
fn a_peer_that_speaks_the_later_version_is_answered_in_it() {
    let mut stage = parent();
    let mut envelope = stage.envelope(CHILD, PARENT, "escalation", escalation("critical", "x"));
    envelope["vcp_message"] = "2.0".into();
    envelope["message_id"] = "9f0c2f0e-3f1b-4a57-9a55-0d7d2b1f8a11".into();
    assert_eq!(
        stage.receive(&envelope).unwrap_err().code,
        "unsupported_version"
    );
    stage.settings.accept_vcp_2_0 = true;
    stage.receive(&envelope).unwrap();
    let ack = stage.log.last().unwrap();
    assert_eq!(ack.envelope["vcp_message"], "2.0");
    assert_eq!(
        ack.reason(),
        "ACK:9f0c2f0e-3f1b-4a57-9a55-0d7d2b1f8a11;state=paused"
    );
}
