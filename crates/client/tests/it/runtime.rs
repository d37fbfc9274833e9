//! What an agent may do in which state, and what a parent can say, by both ways to a node.

use std::time::Duration;

use chancery_client::{
    Asked, Error, Incoming, Mode, Outcome, Payload, Remote, RunState, Severity, Verdict,
};
use serde_json::json;

use crate::support::{ABSENT, By, CHILD, GRANDPARENT, ORPHAN, PARENT, Stage};

const fn asked(severity: Severity) -> Asked<'static> {
    Asked {
        severity,
        reason: "a matter",
        blocked_action: Some("go on"),
    }
}

fn held(result: Result<impl std::fmt::Debug, Error>) -> RunState {
    match result.unwrap_err() {
        Error::Held(state) => state,
        other => panic!("{other}"),
    }
}

/// The next escalation that is no acknowledgement.
async fn escalation(agent: &mut chancery_client::Agent) -> Incoming {
    loop {
        let incoming = agent.next().await.unwrap();
        if let Payload::Escalation(escalation) = &incoming.payload
            && !escalation.is_acknowledgement()
        {
            return incoming;
        }
    }
}

// VX-RUN-1, VX-RUN-2, VX-RUN-3, VX-RUN-6
async fn an_emergency_stops_everything_until_the_parent_resumes(by: By) {
    let stage = Stage::set(by).await;
    let (child, parent) = (stage.agent(CHILD), stage.agent(PARENT));
    let operation = child.begin_operation().await.unwrap();
    child.emit(&operation).await.unwrap();
    child.share(PARENT, "📍🏡").await.unwrap();
    let escalated = child.escalate(PARENT, asked(Severity::Emergency)).await;
    let outcome = escalated.unwrap().outcome().await.unwrap();
    assert_eq!(outcome, Outcome::Acknowledged(Some(RunState::Suspended)));
    assert_eq!(held(child.emit(&operation).await), RunState::Suspended);
    child.end_operation(operation);
    assert_eq!(held(child.begin_operation().await), RunState::Suspended);
    match child.share(PARENT, "📍🏡").await.unwrap_err() {
        Error::Refused(refused) => assert_eq!(refused.code, "sender_suspended"),
        other => panic!("{other}"),
    }
    let state = parent.state().await.unwrap();
    assert_eq!(state.children[CHILD], RunState::Suspended);
    // The parent's own emergency is on its way up: it is resumed first (VX-RUN-8).
    stage.agent(GRANDPARENT).resume(PARENT).await.unwrap();
    parent.resume(CHILD).await.unwrap();
    child.until_running().await.unwrap();
    let operation = child.begin_operation().await.unwrap();
    child.end_operation(operation);
    child.share(PARENT, "📍🏡").await.unwrap();
    stage.node.stop().await.unwrap();
}

// VX-RUN-3, VX-RUN-7, VX-CP-4
async fn a_critical_is_resolved_under_a_constraint(by: By) {
    let stage = Stage::set(by).await;
    let (child, mut parent) = (stage.agent(CHILD), stage.agent(PARENT));
    let operation = child.begin_operation().await.unwrap();
    let escalated = child.escalate(PARENT, asked(Severity::Critical)).await;
    let outcome = escalated.unwrap().outcome().await.unwrap();
    assert!(matches!(outcome, Outcome::Acknowledged(_)), "{outcome:?}");
    // What has begun may end, nothing new begins.
    child.emit(&operation).await.unwrap();
    child.end_operation(operation);
    assert_eq!(held(child.begin_operation().await), RunState::Paused);
    let incoming = escalation(&mut parent).await;
    assert_eq!(incoming.sender, CHILD);
    let limit = ("token_limit".to_owned(), json!(100));
    let verdict = Verdict::Resolve(vec![limit]);
    parent.answer(&incoming, verdict).await.unwrap();
    parent.acknowledge(&incoming).await.unwrap();
    child.until_running().await.unwrap();
    let state = child.state().await.unwrap();
    assert_eq!(
        state.constraints,
        [json!({"type": "token_limit", "value": 100})]
    );
    stage.node.stop().await.unwrap();
}

// VX-RUN-7, VX-RUN-8
async fn a_critical_is_held_and_then_passed_on(by: By) {
    let stage = Stage::set(by).await;
    let (child, mut parent) = (stage.agent(CHILD), stage.agent(PARENT));
    let held = child.escalate(PARENT, asked(Severity::Critical)).await;
    let held = held.unwrap().message_id;
    let first = child.escalate(PARENT, asked(Severity::Critical)).await;
    let first = first.unwrap().message_id;
    let incoming = escalation(&mut parent).await;
    assert_eq!(incoming.message_id, held);
    parent.answer(&incoming, Verdict::Hold).await.unwrap();
    assert_eq!(child.state().await.unwrap().run_state, RunState::Paused);
    // It is judged: there is nothing more to say about it but that it is resolved.
    match parent.answer(&incoming, Verdict::Escalate).await {
        Err(Error::Refused(refused)) => assert_eq!(refused.code, "not_found"),
        other => panic!("{other:?}"),
    }
    let incoming = escalation(&mut parent).await;
    assert_eq!(incoming.message_id, first);
    parent.answer(&incoming, Verdict::Escalate).await.unwrap();
    let forwarded = escalation(&mut stage.agent(GRANDPARENT)).await;
    assert_eq!(forwarded.sender, PARENT);
    let Payload::Escalation(forwarded) = forwarded.payload else {
        panic!("an escalation");
    };
    assert_eq!(*forwarded.reason, *format!("FWD:{first} {CHILD}: a matter"));
    assert_eq!(forwarded.blocked_action.as_deref(), Some("go on"));
    // A constraint alone lets nobody go on.
    let limit = ("token_limit".to_owned(), json!(7));
    let sent = parent.propagate(CHILD, &[limit], Mode::Override).await;
    sent.unwrap();
    assert_eq!(child.state().await.unwrap().run_state, RunState::Paused);
    stage.node.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn by_the_process() {
    an_emergency_stops_everything_until_the_parent_resumes(By::TheProcess).await;
    a_critical_is_resolved_under_a_constraint(By::TheProcess).await;
    a_critical_is_held_and_then_passed_on(By::TheProcess).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_http() {
    an_emergency_stops_everything_until_the_parent_resumes(By::Http).await;
    a_critical_is_resolved_under_a_constraint(By::Http).await;
    a_critical_is_held_and_then_passed_on(By::Http).await;
}

// VX-ACK-6
#[tokio::test(flavor = "multi_thread")]
async fn nobody_hears_it() {
    let stage = Stage::set(By::TheProcess).await;
    let orphan = stage.agent(ORPHAN);
    let escalated = orphan.escalate(ABSENT, asked(Severity::Critical)).await;
    let wait = Duration::from_millis(300);
    let outcome = escalated.unwrap().outcome_within(wait).await.unwrap();
    assert_eq!(outcome, Outcome::Unacknowledged);
    assert_eq!(held(orphan.begin_operation().await), RunState::Paused);
}

// An entry is shown again until it is acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_remembers_what_is_done() {
    for by in [By::TheProcess, By::Http] {
        let stage = Stage::set(by).await;
        let child = stage.agent(CHILD);
        let ids = [
            child.share(PARENT, "📍🏡").await.unwrap(),
            child.share(PARENT, "📍🏢").await.unwrap(),
        ];
        let mut parent = stage.agent(PARENT);
        let first = parent.next().await.unwrap();
        assert_eq!(first.message_id, ids[0]);
        assert_eq!(parent.next().await.unwrap().message_id, ids[1]);
        let again = stage.agent(PARENT).next().await.unwrap();
        assert_eq!(again.message_id, ids[0]);
        parent.acknowledge(&first).await.unwrap();
        let later = stage.agent(PARENT).next().await.unwrap();
        assert_eq!(later.message_id, ids[1]);
        stage.node.stop().await.unwrap();
    }
}

// CH-ID-3, VX-HTTP-5
#[test]
fn a_token_goes_to_no_other_machine_in_the_open() {
    for bad in ["http://agents.example", "ftp://localhost", "nowhere"] {
        let error = Remote::new(bad, Some("cht_1.secret")).unwrap_err();
        assert!(matches!(error, Error::Given(_)), "{bad}");
        assert!(!error.to_string().contains("secret"));
    }
    for good in [
        "https://agents.example",
        "http://[::1]:8700",
        "http://localhost:1",
    ] {
        let node = Remote::new(good, Some("cht_1.secret")).unwrap();
        assert!(!format!("{node:?}").contains("secret"));
    }
}
