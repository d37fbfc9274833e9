//! Vacants that something outside the rules answers for: it may hang, fail, flood and panic, and stalls nobody.

use std::sync::Arc;
use std::time::Duration;

use chancery_node::respond::{Answering, NoWords, Question, Respond, Responder};
use chancery_node::vacants::{Behaviour, OnRestart};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};

use crate::kept::Kept;
use crate::support::{BOB_SEED, Running, Setup, answer, vacant};
use crate::vacant_call::{Caller, bob};

const PATH: &str = "/a2a/message/send";

/// Does what the text says.
struct Moody {
    go_on: Arc<Notify>,
    asked: mpsc::UnboundedSender<Question>,
    is_pure: bool,
}

impl Respond for Moody {
    fn respond(&self, question: Question) -> Answering<'_> {
        let _ = self.asked.send(question.clone());
        Box::pin(async move {
            match question.text.as_str() {
                "hang" => std::future::pending().await,
                "wait" => self.go_on.notified().await,
                "fail" => return Err(NoWords("no_idea")),
                "flood" => return Ok("x".repeat((1 << 20) + 1)),
                "panic" => panic!("on purpose"),
                _ => {}
            }
            Ok(format!("said: {}", question.text))
        })
    }

    fn is_pure(&self) -> bool {
        self.is_pure
    }
}

struct House {
    node: Running,
    go_on: Arc<Notify>,
    asked: mpsc::UnboundedReceiver<Question>,
}

struct Kind {
    at_once: usize,
    is_pure: bool,
    on_restart: OnRestart,
}

const KIND: Kind = Kind {
    at_once: 8,
    is_pure: false,
    on_restart: OnRestart::Close,
};

async fn house(setup: Setup, kind: Kind) -> House {
    let (go_on, (tell, asked)) = (Arc::new(Notify::new()), mpsc::unbounded_channel());
    let moody = Moody {
        go_on: Arc::clone(&go_on),
        asked: tell,
        is_pure: kind.is_pure,
    };
    let responder = Responder::new(Arc::new(moody), kind.at_once);
    let mut bob = vacant("bob", BOB_SEED, Behaviour::Asks(responder));
    bob.0.on_restart = kind.on_restart;
    let carol = vacant("carol", [8; 32], Behaviour::Echo);
    let node = Setup {
        vacants: vec![bob, carol],
        ..setup
    };
    House {
        node: node.start().await,
        go_on,
        asked,
    }
}

impl House {
    async fn call(&self, body: Vec<u8>) -> (u16, Value) {
        answer(self.node.post(PATH, body).send().await.unwrap()).await
    }

    /// Makes a call that is accepted, and gives the status and the words or the reason.
    async fn asks(&self, caller: &mut Caller, text: &str) -> (u16, String) {
        let (body, hash) = caller.call(text);
        let (status, told) = self.call(body).await;
        caller.accepted(hash);
        (status, words(&told))
    }

    /// The lines of the log that hold this.
    fn lines(&self, with: &str) -> usize {
        let lines = self.node.office.gate().store().lines(1, usize::MAX);
        let lines = lines.unwrap();
        let texts = lines.iter().map(|line| String::from_utf8_lossy(line));
        texts.filter(|line| line.contains(with)).count()
    }
}

fn words(told: &Value) -> String {
    let said = &told["result"]["message"]["parts"][0]["text"];
    let reason = &told["error"]["data"][0]["reason"];
    said.as_str()
        .or(reason.as_str())
        .unwrap_or_default()
        .to_owned()
}

// CH-JRN-16, VA-SRV-9, VA-SRV-8, VA-REP-11
#[tokio::test(flavor = "multi_thread")]
async fn words_become_a_signed_answer() {
    let mut house = house(Setup::default(), KIND).await;
    let mut caller = Caller::new([1; 32], bob());
    let told = house.asks(&mut caller, "hello").await;
    assert_eq!(told, (200, "said: hello".to_owned()));
    let question = house.asked.recv().await.unwrap();
    assert_eq!(question.agent, "bob");
    assert_eq!(question.address, bob().hex());
    assert_eq!(question.from, caller.id().hex());
    // The line that it answers is on the log before it is asked.
    let line = house.node.office.gate().store().lines(question.seq, 1);
    let line: Value = serde_json::from_slice(&line.unwrap()[0]).unwrap();
    assert_eq!(line["envelope"]["parts"][0]["text"], "hello");
    house.node.stop().await;
}

// VA-SRV-9: the turn ends in time, its caller goes on, and the vacants beside it do not notice.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_hangs_ends_and_stalls_nobody() {
    let setup = Setup {
        behaviour_timeout: Duration::from_secs(3),
        ..Setup::default()
    };
    let kind = Kind { at_once: 1, ..KIND };
    let mut house = house(setup, kind).await;
    let mut caller = Caller::new([1; 32], bob());
    let (body, hash) = caller.call("hang");
    let hanging = tokio::spawn(house.node.post(PATH, body).send());
    house.asked.recv().await.unwrap();
    let carol = house
        .node
        .vacants
        .as_ref()
        .unwrap()
        .find("carol")
        .unwrap()
        .id;
    let (other, _) = Caller::new([2; 32], carol).call("hi");
    let path = "/agents/carol/a2a/message/send";
    let beside = answer(house.node.post(path, other).send().await.unwrap()).await;
    assert_eq!((beside.0, words(&beside.1).as_str()), (200, "echo: hi"));
    let (status, told) = answer(hanging.await.unwrap().unwrap()).await;
    assert_eq!((status, words(&told).as_str()), (504, "BEHAVIOUR_TIMEOUT"));
    assert_eq!(house.lines("\"behaviour_timeout\""), 1);
    caller.accepted(hash);
    // Its place is free again, and the chain has gone on.
    let next = house.asks(&mut caller, "and now?").await;
    assert_eq!(next, (200, "said: and now?".to_owned()));
    house.node.stop().await;
}

// VA-SRV-9
#[tokio::test(flavor = "multi_thread")]
async fn one_that_fails_floods_or_panics_leaves_a_failed_line() {
    let house = house(Setup::default(), KIND).await;
    let mut caller = Caller::new([1; 32], bob());
    for (count, text) in ["fail", "flood", "panic"].iter().enumerate() {
        let told = house.asks(&mut caller, text).await;
        assert_eq!(told, (500, "BEHAVIOUR_FAILED".to_owned()), "{text}");
        assert_eq!(house.lines("\"behaviour_failed\""), count + 1);
    }
    let told = house.asks(&mut caller, "well?").await;
    assert_eq!(told, (200, "said: well?".to_owned()));
    let metrics = house.node.get("/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    for code in ["no_idea", "panicked"] {
        let counted = format!("chancery_agent_faults_total{{agent=\"bob\",code=\"{code}\"}} 1");
        assert!(metrics.contains(&counted), "{metrics}");
    }
    house.node.stop().await;
}

// CH-LIM-1, CH-LIM-2: what there is no place for is not accepted, and may come again.
#[tokio::test(flavor = "multi_thread")]
async fn more_calls_than_have_a_place_are_told_to_try_again() {
    let kind = Kind { at_once: 1, ..KIND };
    let mut house = house(Setup::default(), kind).await;
    let (first, second) = (Caller::new([1; 32], bob()), Caller::new([2; 32], bob()));
    let waiting = tokio::spawn(house.node.post(PATH, first.call("wait").0).send());
    house.asked.recv().await.unwrap();
    let (body, _) = second.call("me too");
    let (status, told) = house.call(body.clone()).await;
    assert_eq!((status, words(&told).as_str()), (503, "OVERLOADED"));
    house.go_on.notify_one();
    let (status, _) = answer(waiting.await.unwrap().unwrap()).await;
    assert_eq!(status, 200);
    let (status, told) = house.call(body).await;
    assert_eq!((status, words(&told).as_str()), (200, "said: me too"));
    house.node.stop().await;
}

// CH-ID-5: whoever is suspended while its behaviour works says nothing.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_suspended_meanwhile_says_nothing() {
    let mut house = house(Setup::default(), KIND).await;
    let mut caller = Caller::new([1; 32], bob());
    let (body, hash) = caller.call("wait");
    let waiting = tokio::spawn(house.node.post(PATH, body).send());
    house.asked.recv().await.unwrap();
    let path = "/admin/agents/vacant/bob";
    let suspend = house.node.post(&format!("{path}/suspend"), "");
    assert_eq!(suspend.send().await.unwrap().status(), 200);
    house.go_on.notify_one();
    let (status, told) = answer(waiting.await.unwrap().unwrap()).await;
    assert_eq!((status, words(&told).as_str()), (500, "BEHAVIOUR_FAILED"));
    assert_eq!(house.lines("said: wait"), 0);
    caller.accepted(hash);
    let (status, _) = house.call(caller.call("hello").0).await;
    assert_eq!(status, 423);
    let resume = house.node.post(&format!("{path}/resume"), "");
    assert_eq!(resume.send().await.unwrap().status(), 200);
    let told = house.asks(&mut caller, "hello").await;
    assert_eq!(told, (200, "said: hello".to_owned()));
    house.node.stop().await;
}

// CH-JRN-16: a stop between acceptance and answer: what is pure or told to runs again, once; the rest is closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_asks_again_only_where_that_does_no_harm() {
    asked_again(Kept::on_files).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_asks_again_only_where_that_does_no_harm_also_in_postgresql() {
    asked_again(Kept::in_postgresql).await;
}

async fn asked_again(kept: fn() -> Kept) {
    let cases = [
        (false, OnRestart::Close, None),
        (true, OnRestart::Close, Some("said: wait")),
        (false, OnRestart::Rerun, Some("said: wait")),
    ];
    for (is_pure, on_restart, wanted) in cases {
        let kept = kept();
        let kind = || Kind {
            is_pure,
            on_restart,
            ..KIND
        };
        let setup = || Setup {
            store: kept.open(),
            ..Setup::default()
        };
        let mut before = house(setup(), kind()).await;
        let (body, _) = Caller::new([1; 32], bob()).call("wait");
        let waiting = tokio::spawn(before.node.post(PATH, body.clone()).send());
        before.asked.recv().await.unwrap();
        waiting.abort();
        before.node.stop().await;
        // Its behaviour is ended with it, and lets go of the store.
        assert!(before.asked.recv().await.is_none());
        let mut after = house(setup(), kind()).await;
        if wanted.is_some() {
            after.asked.recv().await.unwrap();
            after.go_on.notify_one();
        }
        // Whoever asks again is told the answer as soon as it is there.
        let lost = loop {
            let (status, told) = after.call(body.clone()).await;
            assert_eq!(status, 409);
            let said = told["error"]["response"]["parts"][0]["text"].as_str();
            match (wanted, said) {
                (Some(_), None) => tokio::task::yield_now().await,
                (_, said) => break said.map(str::to_owned),
            }
        };
        assert_eq!(lost.as_deref(), wanted);
        assert_eq!(
            after.lines("\"interrupted\""),
            usize::from(wanted.is_none())
        );
        assert_eq!(after.lines("said: wait"), usize::from(wanted.is_some()));
        after.node.stop().await;
    }
}

// VA-SRV-17, CH-NET-3: whoever was let in gets the answer, and nobody else is let in.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_a_call_that_is_under_way_finish() {
    let mut house = house(Setup::default(), KIND).await;
    let (body, _) = Caller::new([1; 32], bob()).call("wait");
    let under_way = tokio::spawn(house.node.post(PATH, body).send());
    house.asked.recv().await.unwrap();
    let Running {
        server,
        office,
        address,
        ..
    } = house.node;
    let stopping = tokio::spawn(server.stop());
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!stopping.is_finished());
    house.go_on.notify_one();
    let (status, told) = answer(under_way.await.unwrap().unwrap()).await;
    assert_eq!((status, words(&told)), (200, "said: wait".to_owned()));
    stopping.await.unwrap();
    office.stop().await.unwrap();
}
