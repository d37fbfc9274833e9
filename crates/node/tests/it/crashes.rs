//! Random inputs from many tasks, random crashes: the state is always the fold of the log.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use chancery_core::admin::RunState;
use chancery_core::line::{Origin, ProtocolName, Seq};
use chancery_journal::line::parse;
use chancery_testkit::inputs::{host_act, outgoing, run_state_act};
use chancery_testkit::{TestAnswer, TestInput, TestMessage, TestSuite};
use proptest::prelude::*;

use crate::restarts::delete_index;
use crate::support::{Rig, Setup, Step, assert_log_gives};

/// One thing that is submitted.
#[derive(Clone, Debug)]
enum Doing {
    Say {
        id: u8,
        from: u8,
        to: u8,
        verb: &'static str,
        value: u8,
    },
    Send {
        agent: u8,
        to: u8,
        verb: &'static str,
    },
    Suspend {
        agent: u8,
        on: bool,
    },
    Acknowledge {
        agent: u8,
        through: u8,
    },
}

/// How a run ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Stop,
    /// The node is dropped with inputs under way.
    Drop,
    /// The log is copied while inputs are under way, and goes on alone.
    CopyOfTheLog,
    DropAndDeleteIndex,
}

const VERBS: [&str; 12] = [
    "note", "urgent", "batch", "follow", "chain", "lookup", "name", "send", "later", "cancel",
    "refuse", "whisper",
];

fn doing() -> impl Strategy<Value = Doing> {
    let verb = proptest::sample::select(&VERBS[..]);
    let say = (0..40_u8, 0..3_u8, 0..3_u8, verb.clone(), 0..6_u8).prop_map(
        |(id, from, to, verb, value)| Doing::Say {
            id,
            from,
            to,
            verb,
            value,
        },
    );
    let send =
        (0..3_u8, 0..3_u8, verb).prop_map(|(agent, to, verb)| Doing::Send { agent, to, verb });
    let suspend = (0..3_u8, any::<bool>()).prop_map(|(agent, on)| Doing::Suspend { agent, on });
    let acknowledge =
        (0..3_u8, any::<u8>()).prop_map(|(agent, through)| Doing::Acknowledge { agent, through });
    prop_oneof![8 => say, 3 => send, 1 => suspend, 1 => acknowledge]
}

fn run() -> impl Strategy<Value = (Vec<Doing>, usize, End)> {
    let end = prop_oneof![
        Just(End::Stop),
        Just(End::Drop),
        Just(End::CopyOfTheLog),
        Just(End::DropAndDeleteIndex)
    ];
    (proptest::collection::vec(doing(), 1..60), 0..60_usize, end)
}

fn name(agent: u8) -> &'static str {
    ["ann", "bob", "cyd"][usize::from(agent)]
}

/// The line of each sender's identifier.
type Lines = HashMap<(u8, u8), Seq>;
/// What was acknowledged.
type Acknowledged = Arc<Mutex<Lines>>;

async fn carry_out(rig: Arc<Rig>, doing: Doing, acknowledged: Acknowledged) {
    match doing {
        Doing::Say {
            id,
            from,
            to,
            verb,
            value,
        } => {
            let value = value.to_string();
            let answer = rig.say(&format!("m-{id}"), name(from), name(to), verb, Some(&value));
            let Ok(decided) = answer.await else { return };
            if let Ok(TestAnswer::Accepted { seq, .. }) = decided.result {
                let before = acknowledged.lock().unwrap().insert((from, id), seq);
                assert_eq!(before, None, "m-{id} of {from} was accepted twice");
            }
        }
        Doing::Send { agent, to, verb } => {
            submit(&rig, outgoing(name(agent), name(to), verb, Some("1"))).await;
        }
        Doing::Suspend { agent, on } => {
            let state = if on {
                RunState::Suspended
            } else {
                RunState::Running
            };
            submit(&rig, run_state_act(name(agent), None, state)).await;
        }
        Doing::Acknowledge { agent, through } => {
            let inbox = crate::support::inbox_of(name(agent));
            // The store may be closed by now.
            let _ = rig.node.inboxes().acknowledge(&inbox, u64::from(through));
        }
    }
}

async fn submit(rig: &Rig, input: TestInput) {
    // Refused or closing: both are answers.
    let _ = rig.node.submit(input).await;
}

/// Carries a run out; the node ends while tasks are under way, as soon as `until` of them are done.
async fn carry_out_all(
    dir: &Path,
    doings: Vec<Doing>,
    until: usize,
    end: End,
    acknowledged: &Acknowledged,
) -> Option<tempfile::TempDir> {
    let setup = Setup::default();
    setup.carrier.script("bob", vec![Step::Fail; 6]);
    let rig = Arc::new(setup.on_disk(dir));
    for agent in 0..3 {
        submit(&rig, host_act(name(agent), None)).await;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for doing in doings {
        tasks.spawn(carry_out(Arc::clone(&rig), doing, Arc::clone(acknowledged)));
    }
    for _ in 0..until {
        let Some(done) = tasks.join_next().await else {
            break;
        };
        done.unwrap();
    }
    let copy = match end {
        End::Stop => {
            rig.node.stop().await.unwrap();
            None
        }
        End::CopyOfTheLog => Some(copy_log(dir, acknowledged)),
        End::Drop | End::DropAndDeleteIndex => None,
    };
    tasks.shutdown().await;
    if let Ok(rig) = Arc::try_unwrap(rig) {
        rig.crash().await;
    } else {
        panic!("all tasks have ended");
    }
    if matches!(end, End::DropAndDeleteIndex) {
        delete_index(dir);
    }
    copy.map(|(copy, promised)| {
        // Nothing that was acknowledged after the copy is promised by it.
        *acknowledged.lock().unwrap() = promised;
        copy
    })
}

/// The log as a machine that loses its power now would leave it, or with more at its end.
fn copy_log(dir: &Path, acknowledged: &Acknowledged) -> (tempfile::TempDir, Lines) {
    let copy = tempfile::tempdir().unwrap();
    let promised = acknowledged.lock().unwrap().clone();
    std::fs::copy(dir.join("audit.jsonl"), copy.path().join("audit.jsonl")).unwrap();
    (copy, promised)
}

/// Every acknowledged envelope is on the log, once, at its line.
fn assert_kept(dir: &Path, acknowledged: &Acknowledged) {
    let store = Setup::default().open(dir);
    assert_log_gives(&TestSuite::default(), &store);
    let mut on_log = HashMap::new();
    for line in chancery_store::Store::lines(&store, 1, usize::MAX).unwrap() {
        let line = parse(&line).unwrap();
        if line.protocol == ProtocolName::Test && line.origin == Origin::External {
            let message = TestMessage::decode(&line.envelope).unwrap();
            let before = on_log.insert((message.from, message.id), line.seq);
            assert_eq!(before, None, "line {}", line.seq);
        }
    }
    for ((from, id), seq) in acknowledged.lock().unwrap().iter() {
        let key = (name(*from).to_owned(), format!("m-{id}"));
        assert_eq!(on_log.get(&key), Some(seq), "{key:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    // CH-JRN-2, CH-JRN-4, CH-NET-3
    #[test]
    fn the_state_is_the_fold_of_the_log(runs in proptest::collection::vec(run(), 1..5)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .enable_all()
            .build()
            .unwrap();
        let mut dir = tempfile::tempdir().unwrap();
        let acknowledged = Acknowledged::default();
        for (doings, until, end) in runs {
            let running = carry_out_all(dir.path(), doings, until, end, &acknowledged);
            if let Some(copy) = runtime.block_on(running) {
                dir = copy;
            }
            assert_kept(dir.path(), &acknowledged);
        }
    }
}
