//! How a stopped child goes on (VX-RUN-5, VX-RUN-6).

use chancery_core::admin::RunState::{Paused, Running, Suspended};
use chancery_core::protocol::Door;
use serde_json::{Value, json};

use crate::stage::{Stage, agent, constraints, escalation, seconds, share};

const PARENT: &str = "agent://a.example/parent";
const CHILD: &str = "agent://b.example/child";

fn child() -> Stage {
    let mut stage = Stage::default();
    stage.host(CHILD, agent(Some(PARENT), &[]));
    stage
}

fn escalates(stage: &mut Stage, severity: &str) -> String {
    let id = stage.send(CHILD, PARENT, "escalation", escalation(severity, "x"));
    stage.leaving.clear();
    stage.wait(seconds(1));
    id
}

fn resume(value: Value) -> Value {
    constraints("merge", &[("x-vcp-resume", value)])
}

fn ack(of: &str, state: &str) -> Value {
    json!({
        "severity": "critical",
        "reason": format!("ACK:{of};state={state}"),
        "context": "📍💻",
        "requires_ack": false,
    })
}

// VX-RUN-6, VX-CP-10
#[test]
fn a_named_escalation_is_closed_alone_and_the_last_one_resumes() {
    let mut stage = child();
    let first = escalates(&mut stage, "emergency");
    let second = escalates(&mut stage, "critical");
    let named = |id: &str| resume(json!({"resume": true, "escalation_id": id}));
    stage.told(PARENT, CHILD, "constraint_propagate", named(&first));
    assert_eq!(
        (stage.state(CHILD), stage.open(CHILD)),
        (Paused, vec![second.clone()])
    );
    stage.told(
        PARENT,
        CHILD,
        "constraint_propagate",
        resume(json!({"resume": false})),
    );
    assert_eq!(stage.state(CHILD), Paused);
    stage.told(PARENT, CHILD, "constraint_propagate", named(&second));
    assert_eq!(stage.state(CHILD), Running);
    assert!(stage.open(CHILD).is_empty());
    // The control entry is nobody's constraint.
    assert!(
        stage
            .scan(&chancery_value_context::rules::constraints_prefix(CHILD))
            .is_empty()
    );
    assert_eq!(stage.events_named("resumed"), 1);
}

// VX-RUN-6, VX-CS-5
#[test]
fn only_what_the_parent_says_to_the_child_itself_counts() {
    let mut stage = child();
    let mut record = agent(Some(PARENT), &[]);
    record.peers = vec!["peer".to_owned()];
    stage.host(CHILD, record);
    escalates(&mut stage, "emergency");
    stage.told(
        PARENT,
        "broadcast",
        "constraint_propagate",
        resume(json!({"resume": true})),
    );
    stage.told(PARENT, "broadcast", "context_share", share("🎭➖"));
    stage.told("peer", CHILD, "context_share", share("🎭➖"));
    for context in ["🎭💼", "🎭➖|🔶🚨", "🎭➖|🌡️🔥", "📍🏡"] {
        stage.told(PARENT, CHILD, "context_share", share(context));
    }
    let greeting = stage.envelope(PARENT, CHILD, "context_share", share("🎭➖"));
    stage
        .receive_by(&greeting, Door::WebSocket { greeting: true })
        .unwrap();
    stage.wait(seconds(3_600));
    assert_eq!(stage.state(CHILD), Suspended);
    stage.told(PARENT, CHILD, "context_share", share("🎭➖|📍🏡"));
    assert_eq!(stage.state(CHILD), Running);
}

// VX-RUN-6
#[test]
fn what_was_said_before_the_escalation_does_not_resume() {
    let mut stage = child();
    let early = stage.envelope(
        PARENT,
        CHILD,
        "constraint_propagate",
        resume(json!({"resume": true})),
    );
    stage.wait(seconds(1));
    escalates(&mut stage, "emergency");
    stage.receive(&early).unwrap();
    assert_eq!(stage.state(CHILD), Suspended);
}

// VX-RUN-6
#[test]
fn an_acknowledgement_tells_what_the_parent_did() {
    let mut stage = child();
    let id = escalates(&mut stage, "critical");
    stage.told(PARENT, CHILD, "escalation", ack(&id, "running"));
    assert_eq!(stage.state(CHILD), Running);
    let id = escalates(&mut stage, "emergency");
    stage.told(PARENT, CHILD, "escalation", ack(&id, "running"));
    assert_eq!(stage.state(CHILD), Suspended);
    let mut stage = child();
    let id = escalates(&mut stage, "warning");
    stage.told(PARENT, CHILD, "escalation", ack(&id, "paused"));
    assert_eq!(stage.state(CHILD), Paused);
    stage.told(PARENT, CHILD, "escalation", ack(&id, "suspended"));
    assert_eq!(
        (stage.state(CHILD), stage.open(CHILD)),
        (Suspended, vec![id])
    );
    stage.wait(seconds(1));
    stage.told(PARENT, CHILD, "context_share", share("🎭➖"));
    assert_eq!(stage.state(CHILD), Running);
}

// VX-RUN-6, VX-ORD-1
#[test]
fn an_acknowledgement_that_a_resume_overtook_stops_nobody() {
    let mut stage = child();
    let id = escalates(&mut stage, "emergency");
    let late = stage.envelope(PARENT, CHILD, "escalation", ack(&id, "suspended"));
    stage.wait(seconds(1));
    stage.told(PARENT, CHILD, "context_share", share("🎭➖"));
    assert_eq!(stage.state(CHILD), Running);
    stage.receive(&late).unwrap();
    assert_eq!(stage.state(CHILD), Running);
}

// VX-RUN-6, VX-ACK-7
#[test]
fn closing_an_escalation_closes_what_repeats_it() {
    let mut stage = child();
    let first = stage.send(CHILD, PARENT, "escalation", escalation("emergency", "x"));
    stage.deliver(PARENT);
    stage.wait(seconds(6));
    let again = stage.leaving[0].envelope["message_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(stage.open(CHILD).len(), 2);
    for named in [first, again] {
        let mut stage = child();
        let first = stage.send(CHILD, PARENT, "escalation", escalation("emergency", "x"));
        stage.deliver(PARENT);
        stage.wait(seconds(6));
        let again = stage.leaving[0].envelope["message_id"]
            .as_str()
            .unwrap()
            .to_owned();
        let named = if named == first { first } else { again };
        let value = json!({"resume": true, "escalation_id": named});
        stage.told(PARENT, CHILD, "constraint_propagate", resume(value));
        assert_eq!(stage.state(CHILD), Running);
        assert!(stage.open(CHILD).is_empty());
    }
}

// VX-RUN-6
#[test]
fn a_parent_stamps_its_resume_no_earlier_than_the_escalation_of_a_child_whose_clock_is_ahead() {
    let mut stage = Stage::default();
    stage.host(PARENT, agent(None, &[CHILD]));
    let mut envelope = stage.envelope(CHILD, PARENT, "escalation", escalation("emergency", "x"));
    let stamp =
        chancery_core::time::parse_value_context(envelope["timestamp"].as_str().unwrap()).unwrap();
    let ahead = stamp.saturating_add(seconds(20));
    let text = chancery_core::time::format_millis(ahead)
        .as_str()
        .replace('Z', "4567Z");
    envelope["timestamp"] = text.clone().into();
    stage.receive(&envelope).unwrap();
    assert_eq!(stage.view(PARENT, CHILD), Suspended);
    stage.send(
        PARENT,
        CHILD,
        "constraint_propagate",
        resume(json!({"resume": true})),
    );
    let sent = &stage.log.last().unwrap().envelope;
    let sent =
        chancery_core::time::parse_value_context(sent["timestamp"].as_str().unwrap()).unwrap();
    assert!(sent >= chancery_core::time::parse_value_context(&text).unwrap());
    assert_eq!(stage.view(PARENT, CHILD), Running);
}

// VX-ACK-7, VX-RUN-4
#[test]
fn an_ancestor_that_was_turned_to_holds_nobody_for_ever() {
    const ROOT: &str = "agent://b.example/root";
    let mut stage = Stage::default();
    let mut record = agent(Some(PARENT), &[]);
    record.escalation_path = vec![ROOT.to_owned()];
    stage.host(CHILD, record);
    stage.host(ROOT, agent(None, &[PARENT]));
    stage.send(CHILD, PARENT, "escalation", escalation("emergency", "x"));
    stage.deliver(PARENT);
    stage.wait(seconds(6));
    let climbed = stage.log.iter().find(|line| line.to() == ROOT).unwrap();
    assert!(climbed.reason().starts_with("UNACKED:"));
    let acknowledged = format!("ACK:{}", climbed.id());
    let ack = stage.log.iter().find(|line| line.from() == ROOT).unwrap();
    // It says nothing of a state: only the parent holds the child, and only the parent can let it go on.
    assert_eq!(ack.reason(), acknowledged);
    assert_eq!(stage.state(CHILD), Suspended);
    stage.told(
        PARENT,
        CHILD,
        "constraint_propagate",
        resume(json!({"resume": true})),
    );
    assert_eq!(stage.state(CHILD), Running);
    let envelope = stage.envelope(CHILD, ROOT, "context_share", share("📍🏡"));
    stage.receive(&envelope).unwrap();
}
