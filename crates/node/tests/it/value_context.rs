//! Value-context through the office, in the world of the vectors.

use std::sync::Arc;

use chancery_core::admin::{Act, RunState};
use chancery_core::line::ProtocolName;
use chancery_journal::line::parse;
use chancery_node::SoftLimits;
use chancery_node::suite::{AllSettings, Chancery};
use chancery_value_context::Answer;
use chancery_value_context::agent::AgentRecord;

use crate::support::bureau::{
    Bureau, CHILD, KITCHEN, MONITOR, PARENT, inbox, of_monitor, vectors, world,
};
use crate::support::{assert_log_gives, until, verbs};

async fn office(dir: &tempfile::TempDir) -> Bureau {
    Bureau::open(dir.path(), SoftLimits::default()).await
}

fn record_of(agent: &str) -> serde_json::Value {
    let agents = world().agents;
    let agent = agents.iter().find(|one| one.id.as_str() == agent).unwrap();
    serde_json::to_value(AgentRecord::of(agent)).unwrap()
}

async fn set_run_state(bureau: &Bureau, agent: &str, state: RunState) {
    let act = Act::Agent {
        protocol: ProtocolName::ValueContext,
        id: agent.to_owned(),
        record: Some(record_of(agent)),
        run_state: Some(state),
    };
    bureau.office.act(act).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_become_lines_once() {
    // CH-JRN-1, CH-JRN-12
    let dir = tempfile::tempdir().unwrap();
    let bureau = Bureau::open_as_left(dir.path(), SoftLimits::default());
    let settings = AllSettings::default();
    let world = world();
    let office = &bureau.office;
    assert!(office.reconcile_settings(&settings).await.unwrap());
    let written = office.reconcile_world(&world).await.unwrap();
    assert_eq!(written, world.keys.len() + world.agents.len());
    let kinds = verbs(&**bureau.store());
    assert_eq!(kinds[0], "config");
    assert!(
        kinds[1..].is_sorted_by(|a, b| a >= b),
        "keys, then agents: {kinds:?}"
    );
    assert!(!office.reconcile_settings(&settings).await.unwrap());
    assert_eq!(office.reconcile_world(&world).await.unwrap(), 0);
    bureau.stop().await;
    let bureau = Bureau::open_as_left(dir.path(), SoftLimits::default());
    assert!(!bureau.office.reconcile_settings(&settings).await.unwrap());
    assert_eq!(bureau.office.reconcile_world(&world).await.unwrap(), 0);
    let changed = AllSettings {
        value_context: chancery_value_context::settings::Settings {
            dedupe_window_s: 400,
            ..Default::default()
        },
        ..Default::default()
    };
    assert!(bureau.office.reconcile_settings(&changed).await.unwrap());
    assert_eq!(*bureau.office.gate().settings(), changed);
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_share_is_accepted_once() {
    // VX-DUP-1, VX-DUP-5
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let example = &vectors("signed_messages.json")["vectors"][0];
    let text = example["message_text"].as_str().unwrap().to_owned();
    let accepted = bureau.receive(text.clone()).await.unwrap();
    assert!(matches!(accepted, Answer::Accepted(_)), "{accepted:?}");
    let head = bureau.store().head();
    assert_eq!(bureau.inbox(KITCHEN), [head.seq]);
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
    let bureau = office(&dir).await;
    let again = bureau.receive(text.clone()).await.unwrap();
    assert!(matches!(again, Answer::Duplicate(_)), "{again:?}");
    let forged = text.replace("\"energy\": 7", "\"energy\": 8");
    let refusal = bureau.receive(forged).await.unwrap_err();
    assert_eq!((refusal.code, refusal.status), ("signature_invalid", 401));
    assert_eq!(bureau.store().head(), head);
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_send_acts_once_also_over_a_restart() {
    // CH-JRN-10
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let to_hosted = bureau.send(CHILD, PARENT, Some("key-1")).await.unwrap();
    let to_remote = bureau.send(PARENT, MONITOR, Some("key-1")).await.unwrap();
    assert_ne!(to_hosted.message_id, to_remote.message_id);
    assert!(matches!(to_remote.answer, Answer::Accepted(_)));
    let head = bureau.store().head();
    assert_eq!(bureau.inbox(PARENT), [head.seq - 1]);
    let made = bureau.carrier.made_at_least(1).await;
    assert_eq!(made[0].to, MONITOR);
    let line = parse(&bureau.store().lines(head.seq, 1).unwrap()[0]).unwrap();
    assert_eq!(line.envelope, made[0].envelope);
    assert_eq!(line.meta_text("idempotency").as_deref(), Some("key-1"));
    until(|| bureau.office.outbox_len() == 0).await;
    let again = bureau.send(PARENT, MONITOR, Some("key-1")).await.unwrap();
    assert_eq!(again.message_id, to_remote.message_id);
    bureau.stop().await;
    let bureau = office(&dir).await;
    for (from, to, before) in [(CHILD, PARENT, &to_hosted), (PARENT, MONITOR, &to_remote)] {
        let again = bureau.send(from, to, Some("key-1")).await.unwrap();
        assert!(matches!(again.answer, Answer::SentBefore(_)));
        assert_eq!(again.message_id, before.message_id);
    }
    assert_eq!(bureau.store().head(), head);
    assert!(bureau.carrier.made().is_empty());
    // What comes back over a door is a duplicate (CH-JRN-10).
    let line = parse(&bureau.store().lines(head.seq - 1, 1).unwrap()[0]).unwrap();
    let back = bureau.receive(line.envelope).await.unwrap();
    assert!(matches!(back, Answer::Duplicate(_)), "{back:?}");
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_agent_sends_nothing() {
    // VX-RUN-1, VX-RUN-4, VX-RUN-5
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    set_run_state(&bureau, CHILD, RunState::Suspended).await;
    let head = bureau.store().head();
    bureau.stop().await;
    let bureau = office(&dir).await;
    let refusal = bureau.send(CHILD, PARENT, None).await.unwrap_err();
    assert_eq!((refusal.code, refusal.status), ("sender_suspended", 423));
    let stranger = bureau.send(MONITOR, PARENT, None).await.unwrap_err();
    assert_eq!(stranger.status, 404);
    assert_eq!(bureau.store().head(), head);
    let state = bureau.office.value_context_state(CHILD).unwrap().unwrap();
    assert_eq!(state["run_state"], "suspended");
    let state = bureau.office.value_context_state(PARENT).unwrap().unwrap();
    assert_eq!(state["children"][CHILD], "suspended");
    assert_eq!(bureau.office.value_context_state(MONITOR).unwrap(), None);
    set_run_state(&bureau, CHILD, RunState::Running).await;
    bureau.send(CHILD, PARENT, None).await.unwrap();
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_reaches_those_who_know_the_sender() {
    // VX-BC-1, VX-BC-2, VX-BC-3
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    bureau.send(PARENT, "broadcast", None).await.unwrap();
    let sent = bureau.store().head().seq;
    assert_eq!(bureau.inbox(CHILD), [sent]);
    assert!(bureau.inbox(KITCHEN).is_empty());
    let made = bureau.carrier.made_at_least(3).await;
    let mut recipients: Vec<_> = made.iter().map(|made| made.to.as_str()).collect();
    recipients.sort_unstable();
    let elsewhere = [
        MONITOR,
        "agent://orchestrator.prod/child-003",
        "agent://orchestrator.prod/root-000",
    ];
    assert_eq!(recipients, elsewhere);
    assert!(made.iter().all(|one| one.envelope == made[0].envelope));
    until(|| bureau.office.outbox_len() == 0).await;
    bureau.receive(of_monitor(1, "broadcast")).await.unwrap();
    for agent in [PARENT, CHILD, KITCHEN] {
        assert_eq!(bureau.inbox(agent).last(), Some(&(sent + 1)), "{agent}");
    }
    let again = bureau.receive(of_monitor(1, "broadcast")).await.unwrap();
    assert!(matches!(again, Answer::Duplicate(_)));
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_to_many_is_decided_when_none_of_their_rows_is_in_memory() {
    // CH-LIM-1: three rows a listener; also when the crash comes before the index has it (CH-JRN-2).
    const LISTENERS: usize = 150;
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let acts = (0..LISTENERS).map(|n| {
        let record = AgentRecord {
            peers: vec![MONITOR.to_owned()],
            ..AgentRecord::default()
        };
        let act = Act::Agent {
            protocol: ProtocolName::ValueContext,
            id: format!("agent://many.local/listener-{n}"),
            record: Some(serde_json::to_value(record).unwrap()),
            run_state: None,
        };
        let office = Arc::clone(&bureau.office);
        tokio::spawn(async move { office.act(act).await })
    });
    for act in acts.collect::<Vec<_>>() {
        act.await.unwrap().unwrap();
    }
    bureau.receive(of_monitor(1, "broadcast")).await.unwrap();
    bureau.stop().await;
    for number in 2..5 {
        let bureau = office(&dir).await;
        bureau
            .receive(of_monitor(number, "broadcast"))
            .await
            .unwrap();
        assert!(!bureau.office.gate().has_failed());
        let last = format!("agent://many.local/listener-{}", LISTENERS - 1);
        assert_eq!(bureau.inbox(&last).len() as u64, number);
        bureau.crash().await;
    }
    let bureau = office(&dir).await;
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_inbox_refuses_until_it_is_acknowledged() {
    // CH-LIM-3
    const DEPTH: u64 = 5;
    let dir = tempfile::tempdir().unwrap();
    let limits = SoftLimits {
        inbox_depth: DEPTH,
        ..SoftLimits::default()
    };
    let bureau = Arc::new(Bureau::open(dir.path(), limits).await);
    for (round, room) in [DEPTH, 2, 0, 1].into_iter().enumerate() {
        let sends: Vec<_> = (0..64)
            .map(|_| {
                let bureau = Arc::clone(&bureau);
                tokio::spawn(async move { bureau.send(CHILD, PARENT, None).await })
            })
            .collect();
        let mut accepted = 0;
        for send in sends {
            match send.await.unwrap() {
                Ok(_) => accepted += 1,
                Err(refusal) => {
                    assert_eq!((refusal.code, refusal.status), ("overloaded", 503));
                    assert!(refusal.retry_after_s.is_some());
                }
            }
        }
        assert_eq!(accepted, room, "round {round}");
        let inboxes = bureau.office.inboxes();
        assert_eq!(inboxes.depth(&inbox(PARENT)).unwrap(), DEPTH);
        let next = [2, 0, 1, 0][round];
        let cursor = inboxes.cursor(&inbox(PARENT)).unwrap();
        let unread = inboxes.read(&inbox(PARENT), cursor, next).unwrap();
        if let Some(last) = unread.last() {
            inboxes.acknowledge(&inbox(PARENT), last.seq).unwrap();
        }
    }
    // Another agent's inbox has room.
    bureau.send(PARENT, CHILD, None).await.unwrap();
    assert_log_gives(&Chancery::default(), &**bureau.store());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_until_it_is_revoked() {
    // CH-ID-1, CH-ID-2
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let scopes = vec![
        "read:log".to_owned(),
        "admin".to_owned(),
        "admin".to_owned(),
    ];
    let (record, token) = bureau.office.issue_token("ops", scopes).await.unwrap();
    assert_eq!(record.scopes, ["admin", "read:log"]);
    bureau.stop().await;
    let bureau = office(&dir).await;
    let office = &bureau.office;
    assert_eq!(office.bearer_at_hand(&token), None, "nobody showed it yet");
    assert_eq!(office.bearer(&token).unwrap().as_deref(), Some(&record));
    assert_eq!(office.bearer_at_hand(&token).as_deref(), Some(&record));
    assert_eq!(office.tokens().unwrap(), std::slice::from_ref(&record));
    let (id, _) = token.split_once('.').unwrap();
    for wrong in [
        "",
        "cht_",
        &format!("{id}."),
        &format!("{token}A"),
        &token[1..],
        &token.to_uppercase(),
    ] {
        assert_eq!(office.bearer(wrong).unwrap(), None, "{wrong:?}");
    }
    assert!(office.revoke_token(&record.id).await.unwrap());
    assert!(!office.revoke_token("no-such-token").await.unwrap());
    assert_eq!(office.bearer_at_hand(&token), None, "a change is followed");
    assert_eq!(office.bearer(&token).unwrap(), None);
    assert!(office.tokens().unwrap()[0].revoked);
    // Neither the token nor its hash is on the log (CH-JRN-1).
    let hash = chancery_core::digest::Sha256Digest::of(token.as_bytes());
    let hash = chancery_core::digest::hex::encode(&hash.0);
    let (_, secret) = token.split_once('.').unwrap();
    for line in bureau.store().lines(1, usize::MAX).unwrap() {
        let line = String::from_utf8(line.to_vec()).unwrap();
        assert!(!line.contains(secret) && !line.contains(&hash));
    }
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}
