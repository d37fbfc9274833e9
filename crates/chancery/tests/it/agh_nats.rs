//! Two nodes and a raw client on one real broker, in both revisions: from hello to the end of work, with all that
//! can go wrong on the way.

use chancery_agh::conversation::direct_id;
use chancery_testkit::nats_server::{Build, NatsServer};
use chancery_testkit::postgres_server::PostgresServer;
use serde_json::{Value, json};

use crate::agh_house::{AghNode, CHANNEL, RawPeer, Rev, WORKSPACE, until};
use crate::support::Place;

const WORKER: &str = "patch-worker.session-19";
const PLANNER: &str = "planner.session-7";
const TWIN: &str = "twin.session-1";
const RAW: &str = "raw-peer.session-42";

#[test]
fn revision_a_on_debians_broker() {
    play("a", Build::Debian, [Place::new(), Place::new()]);
}

#[test]
fn revision_a_on_the_newest_broker() {
    play("a", Build::Newest, [Place::new(), Place::new()]);
}

#[test]
fn revision_b_on_debians_broker() {
    play("b", Build::Debian, [Place::new(), Place::new()]);
}

#[test]
fn revision_b_on_the_newest_broker() {
    play("b", Build::Newest, [Place::new(), Place::new()]);
}

#[test]
fn both_revisions_on_debians_broker() {
    play("dual", Build::Debian, [Place::new(), Place::new()]);
}

#[test]
fn both_revisions_on_the_newest_broker() {
    play("dual", Build::Newest, [Place::new(), Place::new()]);
}

#[test]
fn both_revisions_with_journals_in_postgresql() {
    // CH-JRN-5
    let server = PostgresServer::start();
    let places = ["one", "other"].map(|journal| Place::new().on(&server, journal));
    play("dual", Build::Debian, places);
}

/// Everything that happens on one broker.
struct Stage {
    server: NatsServer,
    /// Hosts the worker and a twin.
    one: AghNode,
    /// Hosts the planner and the other twin.
    other: AghNode,
    raw: RawPeer,
}

fn play(mode: &str, build: Build, [one, other]: [Place; 2]) {
    let server = NatsServer::start(build, "max_payload: 2097152");
    let raw = RawPeer::join(&server.url(), RAW);
    let mut stage = Stage {
        one: AghNode::start_in(one, mode, &server.url(), &[WORKER, TWIN], ""),
        other: AghNode::start_in(other, mode, &server.url(), &[PLANNER, TWIN], ""),
        raw,
        server,
    };
    for rev in Rev::of_mode(mode) {
        stage.find_each_other(*rev);
        stage.delegate_to_the_end(*rev);
        stage.delegate_between_the_nodes(*rev);
        stage.cancel(*rev);
        stage.send_what_is_wrong(*rev);
        stage.reach_both_twins(*rev);
        stage.lose_the_broker(*rev);
        stage.lose_the_node(*rev);
    }
    let Stage {
        mut one, mut other, ..
    } = stage;
    for node in [&mut one, &mut other] {
        node.kill();
        node.place.run(&["log", "verify"]).exits(0);
        node.place.run(&["log", "replay"]).exits(0);
    }
}

/// What a hosted peer sends: the room's name is its own business.
fn of_peer(from: &str, mut envelope: Value) -> Value {
    envelope["from"] = from.into();
    if envelope.get("direct_id").is_some() {
        let to = envelope["to"].as_str().unwrap();
        envelope["direct_id"] = direct_id(WORKSPACE, CHANNEL, from, to).into();
    }
    envelope
}

impl Stage {
    fn greet(&mut self, rev: Rev) {
        self.raw.greet(rev, RAW);
    }

    /// AG-GRT-2, AG-PRS-1, AG-WHO-3, AG-WHO-4, AG-NAT-8
    fn find_each_other(&mut self, rev: Rev) {
        self.one.knows(rev, PLANNER);
        self.other.knows(rev, WORKER);
        self.greet(rev);
        self.one.knows(rev, RAW);
        self.other.knows(rev, RAW);
        let mut question = rev.base("whois");
        question["body"] = json!({"type": "request", "query": WORKER});
        let asked = self.raw.send(question.clone());
        let answer = self
            .raw
            .hears(json!({"kind": "whois", "reply_to": asked["id"]}));
        assert_eq!(answer["from"], WORKER);
        assert_eq!(
            answer["body"]["peer_card"]["capabilities"],
            json!(["test.run"])
        );
        question["to"] = PLANNER.into();
        let replied = self.raw.ask(question);
        assert_eq!(
            (&replied["from"], &replied["to"]),
            (&json!(PLANNER), &json!(RAW))
        );
    }

    /// AG-LIF-2, AG-LIF-7, AG-RCT-2, AG-B-21, AG-B-22
    fn delegate_to_the_end(&mut self, rev: Rev) {
        let name = "work_done";
        let asked = self.raw.send(rev.request(WORKER, name));
        self.one.received(rev, WORKER, &asked["id"]);
        self.one.has_work(rev, name, "submitted");
        let receipt = json!({"for_id": asked["id"], "status": "accepted"});
        let steps = [
            ("receipt", receipt, "working"),
            (
                "trace",
                json!({"state": "needs_input", "message": "which?"}),
                "needs_input",
            ),
            ("trace", json!({"state": "working"}), "working"),
            (
                "trace",
                json!({"state": "completed", "result": {"passed": 3}}),
                "completed",
            ),
        ];
        for (kind, body, state) in steps {
            let report = rev.about_work(kind, RAW, name, body.clone());
            self.one.send(&of_peer(WORKER, report)).ok();
            let heard = self
                .raw
                .hears(json!({"kind": kind, "from": WORKER, "body": body}));
            assert_eq!(heard[rev.work_member()], name);
            self.one.has_work(rev, name, state);
        }
        // Late: the work is over.
        let late = self.raw.send(rev.request(WORKER, name));
        let refused = json!({"kind": "receipt", "reply_to": late["id"]});
        assert_eq!(self.raw.hears(refused)["body"]["reason_code"], rev.closed());
    }

    fn delegate_between_the_nodes(&mut self, rev: Rev) {
        let name = "work_between";
        let sent = self
            .other
            .send_when_up(&of_peer(PLANNER, rev.request(WORKER, name)));
        self.one.received(rev, WORKER, &sent["id"]);
        let done = rev.about_work("trace", PLANNER, name, json!({"state": "completed"}));
        let done = self.one.send(&of_peer(WORKER, done)).ok();
        self.other.received(rev, PLANNER, &done["id"]);
        self.one.has_work(rev, name, "completed");
        self.other.has_work(rev, name, "completed");
    }

    /// AG-LIF-6, AG-LIF-7, AG-LIF-10
    fn cancel(&mut self, rev: Rev) {
        let name = "work_canceled";
        let asked = self.raw.send(rev.request(WORKER, name));
        self.one.received(rev, WORKER, &asked["id"]);
        let body = json!({"for_id": asked["id"], "status": "canceled"});
        let canceled = self
            .raw
            .send(rev.about_work("receipt", WORKER, name, body.clone()));
        self.one.received(rev, WORKER, &canceled["id"]);
        self.one.has_work(rev, name, "canceled");
        let late = rev.about_work("trace", RAW, name, json!({"state": "completed"}));
        let refused = self.one.send(&of_peer(WORKER, late));
        assert_eq!(refused.json()["error"], rev.closed());
        // Again: nothing more happens, and nobody is told.
        self.raw.send(rev.about_work("receipt", WORKER, name, body));
    }

    /// AG-DUP-1, AG-FRS-2, AG-JSON-1, AG-JSON-6, AG-RCT-2, AG-RCT-3
    fn send_what_is_wrong(&mut self, rev: Rev) {
        let name = "work_wrong";
        let asked = self.raw.send(rev.request(WORKER, name));
        self.one.received(rev, WORKER, &asked["id"]);
        self.raw.send(asked.clone());
        let told = json!({"kind": "receipt", "reply_to": asked["id"]});
        assert_eq!(self.raw.hears(told)["body"]["status"], "duplicate");
        let mut expired = rev.request(WORKER, "work_expired");
        expired["expires_at"] = 1.into();
        let expired = self.raw.send(expired);
        let told = json!({"kind": "receipt", "reply_to": expired["id"]});
        assert_eq!(self.raw.hears(told)["body"]["status"], "expired");
        let mut malformed = rev.request(WORKER, "work_malformed");
        malformed["body"] = json!({"text": 7});
        let malformed = self.raw.send(malformed);
        let told = json!({"kind": "receipt", "reply_to": malformed["id"]});
        assert_eq!(self.raw.hears(told)["body"]["reason_code"], "malformed");
        let subject = match rev {
            Rev::A => format!("agh.network.v0.{CHANNEL}.broadcast"),
            Rev::B => format!("agh.network.v0.{WORKSPACE}.{CHANNEL}.broadcast"),
        };
        self.raw.bytes(&subject, "{not json", 0);
        self.raw.bytes(&subject, "{}", 1_048_577);
        // None of it is work, and the node goes on.
        let after = self.raw.send(rev.request(WORKER, "work_after"));
        self.one.received(rev, WORKER, &after["id"]);
        let ids: Vec<Value> = self
            .one
            .inbox(rev, WORKER)
            .iter()
            .map(|e| e["id"].clone())
            .collect();
        assert_eq!(ids.iter().filter(|id| **id == asked["id"]).count(), 1);
        assert!(!ids.contains(&expired["id"]) && !ids.contains(&malformed["id"]));
    }

    /// AG-PRS-3: two nodes host one Peer ID, and each of them takes what is directed to it.
    fn reach_both_twins(&mut self, rev: Rev) {
        let asked = self.raw.send(rev.request(TWIN, "work_twins"));
        for node in [&self.one, &self.other] {
            node.received(rev, TWIN, &asked["id"]);
        }
        let done = rev.about_work("trace", RAW, "work_twins", json!({"state": "completed"}));
        for node in [&self.one, &self.other] {
            node.send(&of_peer(TWIN, done.clone())).ok();
            let told = json!({"kind": "trace", "from": TWIN, "body": {"state": "completed"}});
            self.raw.hears(told);
        }
    }

    /// AG-NAT-6, CH-JRN-11: the broker goes away in the middle of work, and comes back.
    fn lose_the_broker(&mut self, rev: Rev) {
        let name = "work_over_a_lost_broker";
        let asked = self.raw.send(rev.request(WORKER, name));
        self.one.received(rev, WORKER, &asked["id"]);
        self.server.kill();
        let done = rev.about_work("trace", RAW, name, json!({"state": "completed"}));
        let done = of_peer(WORKER, done);
        let mut say = rev.base("say");
        say["body"] = json!({"text": "anybody?"});
        if rev == Rev::B {
            say["surface"] = "thread".into();
            say["thread_id"] = "thread_all".into();
        }
        until("callers are told", || {
            let told = self.one.send(&of_peer(WORKER, say.clone()));
            (told.status == 503).then(|| assert_eq!(told.json()["error"], "busy"))
        });
        self.server.restart();
        // It greets again without being asked.
        self.raw.hears(json!({"kind": "greet", "from": WORKER}));
        self.greet(rev);
        self.one.send_when_up(&done);
        self.raw
            .hears(json!({"kind": "trace", "from": WORKER, rev.work_member(): name}));
        self.one.has_work(rev, name, "completed");
    }

    /// CH-NET-3, CH-JRN-13: the node is killed in the middle of work, and comes back.
    fn lose_the_node(&mut self, rev: Rev) {
        let name = "work_over_a_killed_node";
        let asked = self.raw.send(rev.request(WORKER, name));
        self.one.received(rev, WORKER, &asked["id"]);
        self.one.kill_and_restart();
        self.one.has_work(rev, name, "submitted");
        self.greet(rev);
        let done = rev.about_work("trace", RAW, name, json!({"state": "completed"}));
        until("the raw peer is known again", || {
            self.greet(rev);
            let told = self.one.send(&of_peer(WORKER, done.clone()));
            (told.status == 200).then_some(())
        });
        self.raw
            .hears(json!({"kind": "trace", "from": WORKER, rev.work_member(): name}));
        self.raw.send(asked.clone());
        let told = json!({"kind": "receipt", "reply_to": asked["id"]});
        assert_eq!(self.raw.hears(told)["body"]["status"], "duplicate");
    }
}

// CH-CFG-3, AG-LIF-2, AG-SND-3, AG-RCT-7
#[test]
fn a_peer_that_echoes_takes_work_on_and_ends_it() {
    let server = NatsServer::start(Build::Debian, "");
    let mut raw = RawPeer::join(&server.url(), RAW);
    let mut node = AghNode::start_with("dual", &server.url(), &[WORKER], "behaviour = \"echo\"\n");
    for rev in [Rev::A, Rev::B] {
        raw.greet_node(rev, RAW, &node);
        let asked = raw.send(rev.request(WORKER, "work_echo"));
        let receipt = raw.hears(json!({"kind": "receipt", "reply_to": asked["id"]}));
        assert_eq!(
            receipt["body"],
            json!({"for_id": asked["id"], "status": "accepted"})
        );
        let trace = raw.hears(json!({"kind": "trace", "reply_to": asked["id"]}));
        assert_eq!(
            trace["body"],
            json!({"state": "completed", "message": "echo: run the tests"})
        );
        node.has_work(rev, "work_echo", "completed");
    }
    // After a kill nothing is said twice.
    node.kill_and_restart();
    raw.greet_node(Rev::A, RAW, &node);
    let asked = raw.send(Rev::A.request(WORKER, "work_again"));
    let next = raw.hears(json!({"kind": "receipt", "from": WORKER}));
    assert_eq!(next["reply_to"], asked["id"]);
}
