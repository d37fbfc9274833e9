//! What a crash leaves: a unit is on the log whole or not at all, and a resend finds it done once.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use chancery_core::digest::Sha256;
use chancery_core::ids::{ObjectKind, object_id};
use chancery_core::rows::{MapRows, Rows as _};
use chancery_journal::{Fold, Head, InMemory, Recorded, Units, prepare};
use chancery_vibe::conformance::{Host, Reply, Request};
use chancery_vibe::settings::Settings;
use chancery_vibe::world::hash::world_hash;
use chancery_vibe::world::rows::Table;
use serde_json::{Value, json};

use crate::replay::{lines, tell};
use crate::suite::VibeSuite;
use crate::support::{
    DISPATCH, Desk, OPEN_DISPUTE, RULE_DISPUTE, SETTLE_PAYMENT, Way, agreed, seed, world,
};

/// The rows that whole units of a log leave, as recovery makes them, and the number of their lines.
fn recover(text: &[u8]) -> (MapRows, u64) {
    let backing = InMemory {
        rows: seed(&world()).rows(),
        ..InMemory::default()
    };
    let mut fold = Fold::new(VibeSuite, backing, Head::EMPTY, true).unwrap();
    let mut units = Units::default();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        // A last line without its newline is cut off (VC-AUD-5).
        let Some(line) = line.strip_suffix(b"\n") else {
            break;
        };
        let prepared = prepare(&VibeSuite, Bytes::copy_from_slice(line), fold.keyring());
        let reading = prepared.reading.unwrap();
        let more = reading.line.more;
        let recorded = Recorded {
            line: reading.line,
            canonical: reading.canonical,
            hash: prepared.hash,
        };
        if let Some(unit) = units.push(recorded, more).unwrap() {
            fold.apply(&unit).unwrap();
        }
    }
    let lines = fold.head().seq;
    (fold.into_backing().rows, lines)
}

fn log_of(host: &Host) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines(host.units()) {
        text.extend_from_slice(&line);
        text.push(b'\n');
    }
    text
}

fn post(host: &mut Host, body: &Bytes) -> Reply {
    let request = Request {
        body: body.clone(),
        ..Request::default()
    };
    host.receive(&request, chancery_core::time::Time::UNIX_EPOCH)
}

fn envelope(
    id: &str,
    Way(from, to, kind): Way,
    session: &str,
    reply: Value,
    payload: &Value,
) -> Bytes {
    let envelope = json!({
        "protocol": "vcp", "version": "1.0", "msg_id": id, "ts": "2026-05-15T12:10:00Z", "from": from, "to": to,
        "session_id": session, "in_reply_to": reply, "idempotency_key": format!("key-{id}"),
        "action": {"kind": kind, "payload": payload}
    });
    serde_json::to_vec(&envelope).unwrap().into()
}

const ASK: Way = Way(
    "platform:adjudicator",
    "merchant:support",
    "platform.request_evidence",
);
const SUBMIT: Way = Way(
    "merchant:support",
    "platform:adjudicator",
    "platform.submit_evidence",
);
const GIVE_BACK: Way = Way(
    "buyer:authorization",
    "merchant:support",
    "commerce.request_return",
);
const RESPOND: Way = Way(
    "merchant:support",
    "buyer:authorization",
    "commerce.respond_return",
);

/// Two deals with everything that writes the world, each envelope with its answer and where its unit begins.
struct Story {
    host: Host,
    sent: Vec<(Bytes, Reply, usize)>,
}

impl Story {
    fn tell(&mut self, id: &str, way: Way, session: &str, reply: Value, payload: &Value) -> Value {
        let body = envelope(id, way, session, reply, payload);
        let before = log_of(&self.host).len();
        let reply = post(&mut self.host, &body);
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{id}: {text}");
        self.sent.push((body, reply, before));
        serde_json::from_str(&text).unwrap()
    }

    /// Settles a certificate; gives the transaction and the order.
    fn settle(&mut self, id: &str, session: &str, cert: &str) -> (Value, Value) {
        let cert = json!({ "cert_id": cert });
        let settled = self.tell(id, SETTLE_PAYMENT, session, Value::Null, &cert);
        let order = &settled["emitted"][0]["action"]["payload"]["order_id"];
        (settled["state_diff"]["tx_id"].clone(), order.clone())
    }

    fn dispute_and_dispatch(&mut self, cert: &str) {
        let (tx, order) = self.settle("s1", "x", cert);
        let claim = json!({"tx_id": tx, "reason": "late", "evidence": ["s1"]});
        let opened = self.tell("o1", OPEN_DISPUTE, "d", Value::Null, &claim);
        let dispute = &opened["emitted"][0]["action"]["payload"]["dispute_id"];
        let question = json!({"dispute_id": dispute, "question": "where is it?"});
        self.tell("a1", ASK, "d", Value::Null, &question);
        let evidence = json!({"dispute_id": dispute, "evidence": ["s1"]});
        self.tell("e1", SUBMIT, "d", json!("a1"), &evidence);
        let ruling = json!({"dispute_id": dispute, "ruling": "deny", "reputation_delta": -5,
            "evidence": ["s1"], "rationale": "r"});
        self.tell("r1", RULE_DISPUTE, "d", Value::Null, &ruling);
        let order = json!({ "order_id": order });
        self.tell("d1", DISPATCH, "x", Value::Null, &order);
    }

    fn dispatch_and_return(&mut self, cert: &str) {
        let (tx, order) = self.settle("s2", "y", cert);
        let order = json!({ "order_id": order });
        self.tell("d2", DISPATCH, "y", Value::Null, &order);
        let wish = json!({"tx_id": tx, "reason": "too loud"});
        self.tell("q2", GIVE_BACK, "y", Value::Null, &wish);
        let consent = json!({"return_id": object_id(ObjectKind::Return, "q2"), "decision": "approve",
            "refund_amount": 10_000, "restock": true});
        self.tell("p2", RESPOND, "y", json!("q2"), &consent);
    }
}

fn story() -> Story {
    let mut desk = Desk::new(Settings::default());
    let kept = agreed(&mut desk, "x", "c1", "a_c1", "m1", 1, 20_000);
    let given_back = agreed(&mut desk, "y", "c2", "a_c2", "m2", 1, 20_000);
    let mut story = Story {
        host: desk.host,
        sent: Vec::new(),
    };
    story.dispute_and_dispatch(&kept);
    story.dispatch_and_return(&given_back);
    story
}

#[test]
fn a_log_cut_at_any_byte_of_a_unit_holds_it_once_or_not_at_all() {
    // VC-SET-1, VC-SET-2, VC-SET-3, VC-IDEM-8, VC-AUD-5, CH-JRN-4, VC-GEN-5
    let Story { host, sent } = story();
    let text = log_of(&host);
    let mut cuts = 0;
    for (index, (body, reply, start)) in sent.iter().enumerate() {
        let end = sent.get(index + 1).map_or(text.len(), |(_, _, next)| *next);
        let (before, _) = recover(&text[..*start]);
        // Every byte of the unit is a place to be cut at; the state can change at line ends only, so between them a few do.
        for cut in *start..=end {
            let at_line_end = cut == *start || text[cut - 1] == b'\n';
            if !at_line_end && cut % 97 != 0 && cut + 1 != end {
                continue;
            }
            let (rows, lines) = recover(&text[..cut]);
            let is_there = cut == end;
            assert_eq!(rows == before, !is_there, "cut at byte {cut}");
            let mut again = Host::resume(rows, host.settings().clone(), lines).unwrap();
            let answer = post(&mut again, body);
            assert_eq!(answer.status, 200);
            assert_eq!(answer.replayed, is_there);
            assert_eq!(answer.body, reply.body, "the answer is the same either way");
            let (whole, _) = recover(&text[..end]);
            assert_eq!(world_hash(again.rows()), world_hash(&whole));
            cuts += 1;
        }
    }
    tell(&format!("{cuts} cuts of {} units", sent.len()));
    assert!(cuts > 100);
}

/// One state of the search: what is committed, what is decided on top of it, and which answers were given.
#[derive(Clone)]
struct State {
    committed: MapRows,
    lines: u64,
    /// Decided and not synced: rows, lines, and whose request it was.
    pending: Option<(MapRows, u64, usize)>,
    acknowledged: [bool; 2],
}

impl State {
    fn id(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for rows in [
            Some(&self.committed),
            self.pending.as_ref().map(|(rows, ..)| rows),
        ] {
            for (key, row) in rows.into_iter().flat_map(MapRows::iter) {
                hash.update(key.as_bytes());
                hash.update(row);
            }
            hash.update(b"|");
        }
        let who = self.pending.as_ref().map_or(9, |(.., who)| *who as u8);
        hash.update(&[
            who,
            u8::from(self.acknowledged[0]),
            u8::from(self.acknowledged[1]),
        ]);
        hash.finish().0
    }
}

fn orders(rows: &MapRows) -> usize {
    rows.scan(&Table::Orders.prefix()).unwrap().len()
}

#[test]
fn two_sessions_never_share_the_last_unit_whatever_crashes() {
    // VC-SET-5, VC-IDEM-1, VC-IDEM-4, VC-PIPE-2, CH-NET-3
    let mut world = world();
    world["inventory"][0]["on_hand"] = json!(1);
    let mut desk = Desk::of(&seed(&world), Settings::default());
    let bodies = [("x", "c1", "a_c1"), ("y", "c2", "a_c2")].map(|(session, consumer, account)| {
        let cert = agreed(&mut desk, session, consumer, account, "m1", 1, 20_000);
        envelope(
            &format!("settle-{session}"),
            SETTLE_PAYMENT,
            session,
            Value::Null,
            &json!({"cert_id": cert}),
        )
    });
    let settings = desk.host.settings().clone();
    let start = State {
        committed: desk.host.rows().clone(),
        lines: lines(desk.host.units()).len() as u64,
        pending: None,
        acknowledged: [false; 2],
    };
    let mut seen = BTreeSet::from([start.id()]);
    let mut queue = VecDeque::from([start]);
    let mut winners = BTreeSet::new();
    while let Some(state) = queue.pop_front() {
        check(&state, &mut winners);
        for next in successors(&state, &bodies, &settings) {
            if seen.insert(next.id()) {
                queue.push_back(next);
            }
        }
    }
    tell(&format!(
        "{} states of two sessions and one unit of stock",
        seen.len()
    ));
    assert_eq!(winners.len(), 2, "either may win");
}

fn check(state: &State, winners: &mut BTreeSet<usize>) {
    assert!(orders(&state.committed) <= 1, "two settlements of one unit");
    let acknowledged = state.acknowledged.iter().filter(|one| **one).count();
    assert!(
        acknowledged <= orders(&state.committed),
        "an acknowledged settlement was lost"
    );
    winners.extend((0..2).filter(|who| state.acknowledged[*who]));
}

fn successors(state: &State, bodies: &[Bytes; 2], settings: &Settings) -> Vec<State> {
    let mut next = Vec::new();
    if let Some((rows, lines, who)) = &state.pending {
        let mut synced = state.clone();
        (synced.committed, synced.lines, synced.pending) = (rows.clone(), *lines, None);
        synced.acknowledged[*who] = true;
        let mut unheard = synced.clone();
        unheard.acknowledged = state.acknowledged;
        let mut crashed = state.clone();
        crashed.pending = None;
        next.extend([synced, unheard, crashed]);
        return next;
    }
    for (who, body) in bodies.iter().enumerate() {
        let mut host =
            Host::resume(state.committed.clone(), settings.clone(), state.lines).unwrap();
        let reply = post(&mut host, body);
        let mut after = state.clone();
        match (reply.status, reply.replayed) {
            (200, true) => after.acknowledged[who] = true,
            (200, false) => {
                let lines = state.lines + reply.lines_added as u64;
                after.pending = Some((host.rows().clone(), lines, who));
            }
            (status, _) => {
                assert_eq!(status, 409);
                assert_eq!(*host.rows(), state.committed, "a refusal changes nothing");
            }
        }
        next.push(after);
    }
    next
}
