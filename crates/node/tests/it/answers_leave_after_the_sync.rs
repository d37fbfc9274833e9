//! No answer leaves before everything decided up to it is durable; a commit that fails is final (CH-JRN-2).

use std::sync::Arc;

use chancery_node::{GateLimits, Overloaded};
use chancery_store::{Memory, Store};
use chancery_testkit::{TestAnswer, TestSuite};

use crate::support::{Awaited, Setup, assert_log_gives, free, started, until};

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_arrives_before_the_commit_returns() {
    // CH-JRN-2: also no refusal or duplicate that was decided after a pending batch.
    let (rig, held) = Setup::default().held(Arc::new(Memory::new()));
    held.hold(0);
    let mut accepted = rig.say("n-1", "ann", "bob", "note", None);
    started(&mut accepted).await;
    held.begun(1).await;
    let mut duplicate = rig.say("n-1", "ann", "bob", "note", None);
    let mut refused = rig.say("r-1", "ann", "bob", "refuse", None);
    started(&mut duplicate).await;
    started(&mut refused).await;
    // The duplicate was found while the line it repeats is not durable.
    held.looked_up(1).await;
    for waiting in [&mut accepted, &mut duplicate, &mut refused] {
        started(waiting).await;
    }
    assert_eq!(rig.store().head().seq, 0);
    assert!(rig.inbox("bob", 0).is_empty());
    held.open();
    assert_eq!(accepted.await.unwrap().seq, Some(1));
    let duplicate = duplicate.await.unwrap().result.unwrap();
    assert_eq!(duplicate, TestAnswer::Duplicate { seq: 1 });
    assert_eq!(refused.await.unwrap().result.unwrap_err().code, "refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_batch_is_made_durable_the_next_is_decided() {
    let (rig, held) = Setup::default().held(Arc::new(Memory::new()));
    held.hold(0);
    let mut answers = vec![rig.say("n-0", "ann", "bob", "chain", Some("1"))];
    started(&mut answers[0]).await;
    held.begun(1).await;
    answers.push(rig.say("n-1", "ann", "bob", "chain", Some("2")));
    started(&mut answers[1]).await;
    // It is decided on what the first one left, which is not durable yet.
    held.looked_up(2).await;
    for n in 3..=10 {
        let mut answer = rig.say(
            &format!("n-{n}"),
            "ann",
            "bob",
            "chain",
            Some(&n.to_string()),
        );
        started(&mut answer).await;
        answers.push(answer);
    }
    held.open();
    for (answer, seq) in answers.into_iter().zip(1..) {
        assert_eq!(answer.await.unwrap().seq, Some(seq));
    }
    assert_eq!(held.begun(3).await, [1, 1, 8]);
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_more_than_the_limit_is_told_to_come_again() {
    // CH-LIM-2
    const REQUESTS: usize = 32;
    let setup = Setup {
        gate_limits: GateLimits {
            requests: REQUESTS,
            urgent_requests: 1,
            ..GateLimits::default()
        },
        ..Setup::default()
    };
    let (rig, held) = setup.held(Arc::new(Memory::new()));
    held.hold(0);
    let mut answers = Vec::new();
    for n in 0..REQUESTS {
        let mut answer = rig.say(&format!("n-{n}"), "ann", "bob", "note", None);
        started(&mut answer).await;
        answers.push(answer);
    }
    let one_more = rig.say("n-x", "ann", "bob", "note", None).await;
    assert_eq!(one_more.unwrap_err(), Overloaded);
    // Urgent ones have a budget of their own, and it is bounded too.
    let mut urgent = rig.say("u-1", "ann", "bob", "urgent", None);
    started(&mut urgent).await;
    let one_more = rig.say("u-2", "ann", "bob", "urgent", None).await;
    assert_eq!(one_more.unwrap_err(), Overloaded);
    held.open();
    for answer in answers.into_iter().chain([urgent]) {
        answer.await.unwrap().result.unwrap();
    }
    assert_eq!(rig.store().head().seq, REQUESTS as u64 + 1);
    assert_eq!(rig.node.gate().free_permits(), REQUESTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_fails_is_final() {
    // CH-JRN-2
    let (rig, held) = Setup::default().held(Arc::new(Memory::new()));
    rig.said("n-1", "ann", "bob", "note", None).await;
    held.hold(0);
    let mut sent = rig.say("s-1", "ann", "far", "send", None);
    started(&mut sent).await;
    held.begun(2).await;
    let mut after = rig.say("n-2", "ann", "bob", "note", None);
    started(&mut after).await;
    held.looked_up(3).await;
    let mut queued = rig.say("n-3", "ann", "bob", "note", None);
    started(&mut queued).await;
    held.fail();
    rig.node.gate().failed().await;
    assert!(rig.node.gate().has_failed());
    // A disk that works again changes nothing.
    held.open();
    assert_eq!(
        rig.say("n-4", "ann", "bob", "note", None)
            .await
            .unwrap_err(),
        Overloaded
    );
    assert_eq!(
        rig.node
            .submit(chancery_testkit::inputs::host_act("ann", None))
            .await
            .unwrap_err(),
        Overloaded
    );
    rig.node.stop().await.unwrap();
    for waiting in [&mut sent, &mut after, &mut queued] {
        started(waiting).await;
    }
    assert!(rig.carrier.made().is_empty());
    assert_eq!(rig.store().head().seq, 1);
    assert_eq!(held.begun(2).await.len(), 2);
    until(|| rig.node.outbox_len() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_answers_what_was_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, held) = Setup::default().held(Arc::new(Setup::default().open(dir.path())));
    held.hold(0);
    let answers: Vec<_> = (0..50)
        .map(|n| tokio::spawn(rig.say(&format!("n-{n}"), "ann", "bob", "note", None)))
        .collect();
    held.begun(1).await;
    until(|| rig.node.gate().free_permits() == GateLimits::default().requests - 50).await;
    let node = Arc::clone(&rig.node);
    let stopping = tokio::spawn(async move { node.stop().await });
    held.open();
    stopping.await.unwrap().unwrap();
    let mut accepted = 0;
    for answer in answers {
        if let Ok(decided) = answer.await.unwrap() {
            decided.result.unwrap();
            accepted += 1;
        }
    }
    drop(rig);
    drop(held);
    free(dir.path()).await;
    let store = Setup::default().open(dir.path());
    assert_eq!(store.head().seq, accepted);
    assert!(accepted >= 1);
}
