//! Every verb of the tests' own protocol through the real gate, on disk and in memory.

use std::sync::Arc;

use chancery_core::admin::RunState;
use chancery_core::keys::KeyState;
use chancery_core::line::Origin;
use chancery_core::protocol::Input;
use chancery_core::rows::Lookup;
use chancery_core::rows::RowKey;
use chancery_journal::line::parse;
use chancery_node::{Entropy, SoftLimits};
use chancery_store::Memory;
use chancery_testkit::TestAct;
use chancery_testkit::inputs::{
    host_act, key_act, key_of, outgoing, run_state_act, signed, unsigned,
};
use chancery_testkit::{TestAnswer, TestInput, TestSuite};

use crate::support::{Awaited, Setup, assert_log_gives, rows_of, started, verbs};

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_four_lines_is_one_unit() {
    // CH-JRN-4
    let dir = tempfile::tempdir().unwrap();
    for rig in [
        Setup::default().on_disk(dir.path()),
        Setup::default().in_memory(),
    ] {
        assert_eq!(rig.said("b-1", "ann", "bob", "batch", None).await, 1);
        assert_eq!(rig.said("n-1", "ann", "bob", "note", None).await, 5);
        let lines = rig.store().lines(1, 10).unwrap();
        let more: Vec<bool> = lines.iter().map(|line| parse(line).unwrap().more).collect();
        assert_eq!(more, [true, true, true, false, false]);
        assert_eq!(
            verbs(&**rig.store()),
            ["batch", "part", "part", "part", "note"]
        );
        assert_eq!(rig.inbox("bob", 0), [1, 2, 3, 4, 5]);
        assert_log_gives(&TestSuite::default(), &**rig.store());
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_goes_back_to_its_sender() {
    let rig = Setup::default().in_memory();
    let seq = rig.said("f-1", "ann", "bob", "follow", None).await;
    let follow_up = parse(&rig.store().lines(seq + 1, 1).unwrap()[0]).unwrap();
    assert_eq!(follow_up.origin, Origin::Runtime);
    assert_eq!(rig.inbox("ann", 0), [seq + 1]);
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_steps_of_a_chain_exactly_one_wins_each_number() {
    const NUMBERS: usize = 10;
    const SUBMITTERS: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    let rig = Arc::new(Setup::default().on_disk(dir.path()));
    for number in 1..=NUMBERS {
        let value = number.to_string();
        let tasks: Vec<_> = (0..SUBMITTERS)
            .map(|submitter| {
                let id = format!("c-{number}-{submitter}");
                tokio::spawn(rig.say(&id, "ann", "bob", "chain", Some(&value)))
            })
            .collect();
        let mut winners = 0;
        for task in tasks {
            match task.await.unwrap().unwrap().result {
                Ok(_) => winners += 1,
                Err(refusal) => assert_eq!(refusal.code, "out_of_turn"),
            }
        }
        assert_eq!(winners, 1, "number {number}");
    }
    assert_eq!(rig.store().head().seq, NUMBERS as u64);
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_not_loaded_is_fetched_and_decided() {
    // About three times what the cache may hold, so that rows leave it. A node that starts on an index with rows in it
    // has none of them in memory.
    const THINGS: usize = 2_000;
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup {
        row_cache_bytes: chancery_store::LEAST_CACHE_BYTES,
        ..Setup::default()
    };
    let name = |thing: usize| format!("{thing:0>1500}");
    let key = |thing: usize| RowKey::text("test-thing", &[&name(thing)]);
    for round in 1..=3_u64 {
        let rig = setup.on_disk(dir.path());
        let is_unloaded = |thing: &usize| rig.store().peek(&key(*thing)) == Lookup::NotLoaded;
        let unloaded = (0..THINGS).filter(is_unloaded).count();
        assert_eq!(unloaded, if round == 1 { 0 } else { THINGS });
        let tasks: Vec<_> = (0..THINGS)
            .map(|thing| {
                let id = format!("l-{round}-{thing}");
                tokio::spawn(rig.say(&id, "ann", "bob", "lookup", Some(&name(thing))))
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap().result.unwrap();
        }
        rig.stop().await;
    }
    let rig = setup.on_disk(dir.path());
    let keys: Vec<RowKey> = (0..THINGS).map(key).collect();
    let counts = rig.store().load(&keys).unwrap();
    assert!(counts.iter().all(|count| count.as_deref() == Some(b"3")));
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_is_made_again_makes_the_same_identifiers() {
    // CH-JRN-3: under others it would look for another row that is not loaded, again and again.
    let dir = tempfile::tempdir().unwrap();
    for (round, entropy) in [Entropy::System, Entropy::Seed(7)].into_iter().enumerate() {
        let setup = Setup {
            entropy,
            ..Setup::default()
        };
        let rig = setup.on_disk(dir.path());
        rig.said(&format!("n-{round}"), "ann", "bob", "name", None)
            .await;
        rig.stop().await;
        let rig = setup.on_disk(dir.path());
        for number in 2..10 {
            let id = format!("n-{round}-{number}");
            rig.said(&id, "ann", "bob", "name", None).await;
        }
        assert_log_gives(&TestSuite::default(), &**rig.store());
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_whose_rows_are_being_fetched_is_answered_by_a_stop() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Setup::default().on_disk(dir.path());
    rig.said("l-1", "ann", "bob", "lookup", Some("thing")).await;
    rig.stop().await;
    let rig = Setup::default().on_disk(dir.path());
    let mut answer = rig.say("l-2", "ann", "bob", "lookup", Some("thing"));
    // Nothing of it is in memory after a start: it is fetched before it is decided, and parked in between.
    started(&mut answer).await;
    let node = Arc::clone(&rig.node);
    let (answered, stopped) = tokio::join!(answer, async move { node.stop().await });
    stopped.unwrap();
    if let Ok(decided) = answered {
        assert_eq!(decided.seq, Some(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_sender_is_refused_and_heard_again_when_it_runs() {
    // CH-ID-5
    let rig = Setup::default().in_memory();
    rig.act(host_act("ann", None)).await;
    rig.act(run_state_act("ann", None, RunState::Suspended))
        .await;
    let refusal = rig.refused("n-1", "ann", "bob", "note", None).await;
    assert_eq!((refusal.code, refusal.status), ("suspended", 423));
    let sent = rig.node.submit(outgoing("ann", "bob", "note", None)).await;
    assert_eq!(sent.unwrap().result.unwrap_err().status, 423);
    rig.act(run_state_act("ann", None, RunState::Running)).await;
    rig.said("n-1", "ann", "bob", "note", None).await;
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_soft_guard_refuses_and_leaves_no_trace() {
    // CH-LIM-1, CH-JRN-13
    let setup = Setup {
        soft_limits: SoftLimits {
            rate_per_sender: 1,
            ..SoftLimits::default()
        },
        ..Setup::default()
    };
    let rig = setup.in_memory();
    rig.said("g-0", "ann", "bob", "guarded", None).await;
    let mut accepted = 1;
    let mut refused = Vec::new();
    for attempt in 1..20 {
        let id = format!("g-{attempt}");
        let decided = rig.say(&id, "ann", "bob", "guarded", None).await.unwrap();
        match decided.result {
            Ok(_) => accepted += 1,
            Err(refusal) => refused.push(refusal),
        }
    }
    assert!(!refused.is_empty());
    assert!(refused.iter().all(|refusal| {
        (refusal.code, refusal.status, refusal.retry_after_s) == ("too_fast", 429, Some(1))
    }));
    // Another sender has a rate of its own.
    rig.said("g-1", "cyd", "bob", "guarded", None).await;
    assert_eq!(rig.store().head().seq, accepted + 1);
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whisper_is_sent_and_not_recorded() {
    // CH-JRN-13
    let rig = Setup::default().in_memory();
    let decided = rig.say("w-1", "ann", "bob", "whisper", None).await.unwrap();
    assert_eq!(decided.result.unwrap(), TestAnswer::Nothing);
    assert_eq!(rig.carrier.whispered(1).await[0].to, "bob");
    // A refusal may whisper too.
    rig.refused("r-1", "ann", "bob", "refuse", Some("aloud"))
        .await;
    assert_eq!(rig.carrier.whispered(2).await[1].to, "ann");
    assert_eq!(rig.store().head().seq, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_leaves_no_trace() {
    // VX-DUP-4: also its identifier is free again.
    let dir = tempfile::tempdir().unwrap();
    for rig in [
        Setup::default().on_disk(dir.path()),
        Setup::default().in_memory(),
    ] {
        rig.said("n-1", "ann", "bob", "note", None).await;
        let before = (rig.store().head(), rows_of(&**rig.store()));
        for verb in ["refuse", "no_such_verb", "cancel"] {
            rig.refused("r-1", "ann", "bob", verb, None).await;
        }
        assert_eq!((rig.store().head(), rows_of(&**rig.store())), before);
        assert_eq!(rig.said("r-1", "ann", "bob", "note", None).await, 2);
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_answered_with_its_first_line() {
    // VX-DUP-5: of concurrent copies one is accepted.
    let dir = tempfile::tempdir().unwrap();
    let rig = Arc::new(Setup::default().on_disk(dir.path()));
    let copies: Vec<_> = (0..100)
        .map(|_| tokio::spawn(rig.say("n-1", "ann", "bob", "note", None)))
        .collect();
    let mut accepted = 0;
    for copy in copies {
        match copy.await.unwrap().unwrap().result.unwrap() {
            TestAnswer::Accepted { .. } => accepted += 1,
            answer => assert_eq!(answer, TestAnswer::Duplicate { seq: 1 }),
        }
    }
    assert_eq!((accepted, rig.store().head().seq), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_signed_is_sealed_and_checked() {
    // CH-JRN-10
    let setup = Setup::default();
    setup.vault.hold("ann", key_of("ann"));
    let rig = setup.in_memory();
    rig.act(key_act("ann", "k-1", &key_of("ann"), KeyState::Active))
        .await;
    rig.act(host_act("ann", Some("k-1"))).await;
    for _ in 0..20 {
        rig.act(outgoing("ann", "bob", "note", None)).await;
    }
    // More than the committer seals on one thread, in one batch.
    let many: Vec<_> = (0..100)
        .map(|_| {
            let node = Arc::clone(&rig.node);
            tokio::spawn(async move { node.submit(outgoing("ann", "bob", "note", None)).await })
        })
        .collect();
    for one in many {
        one.await.unwrap().unwrap().result.unwrap();
    }
    rig.receive(signed(
        &key_of("ann"),
        &unsigned("n-1", "ann", "bob", "note", None),
    ))
    .await
    .unwrap()
    .result
    .unwrap();
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_world_act_of_a_protocol_is_a_node_line() {
    let rig = Setup::default().in_memory();
    let act = TestAct::World {
        name: "thing".to_owned(),
        count: 41,
    };
    rig.act(TestInput::Test(Input::Act(act))).await;
    rig.said("l-1", "ann", "bob", "lookup", Some("thing")).await;
    let key = RowKey::text("test-thing", &["thing"]);
    assert_eq!(
        rig.store().load(&[key]).unwrap()[0].as_deref(),
        Some(&b"42"[..])
    );
    assert_eq!(verbs(&**rig.store()), ["world", "lookup"]);
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(flavor = "multi_thread")]
async fn urgent_inputs_overtake() {
    let (rig, held) = Setup::default().held(Arc::new(Memory::new()));
    held.hold(0);
    let mut first = rig.say("n-1", "ann", "bob", "note", None);
    started(&mut first).await;
    held.begun(1).await;
    let mut second = rig.say("n-2", "ann", "bob", "note", None);
    started(&mut second).await;
    // The second is decided; its batch waits until the first is durable. From here on inputs queue.
    held.looked_up(2).await;
    let mut queued = Vec::new();
    for n in 3..8 {
        let mut normal = rig.say(&format!("n-{n}"), "ann", "bob", "note", None);
        started(&mut normal).await;
        queued.push(normal);
    }
    let mut urgent = rig.say("u-1", "ann", "bob", "urgent", None);
    started(&mut urgent).await;
    held.open();
    assert_eq!(urgent.await.unwrap().seq, Some(3));
    for (normal, seq) in queued.into_iter().zip(4..) {
        assert_eq!(normal.await.unwrap().seq, Some(seq));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn identifiers_follow_from_a_seed_and_never_come_again() {
    // CH-CFG-8, CH-JRN-3: also after refusals, and over a restart.
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup {
        entropy: chancery_node::Entropy::Seed(7),
        ..Setup::default()
    };
    let mut nonces = Vec::new();
    for run in 0..3 {
        let rig = setup.on_disk(dir.path());
        for n in 0..5 {
            rig.refused("r-1", "ann", "bob", "refuse", None).await;
            let id = format!("f-{run}-{n}");
            rig.said(&id, "ann", "bob", "follow", None).await;
        }
        rig.stop().await;
    }
    let rig = setup.on_disk(dir.path());
    for line in rig.store().lines(1, usize::MAX).unwrap() {
        nonces.extend(parse(&line).unwrap().meta_text("nonce"));
    }
    let all = nonces.len();
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!((all, nonces.len()), (15, 15));
}
