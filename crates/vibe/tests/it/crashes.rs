//! What a crash leaves: a unit is on the log whole or not at all, and a resend finds it done once.

use bytes::Bytes;
use chancery_core::ids::{ObjectKind, object_id};
use chancery_core::rows::MapRows;
use chancery_journal::{Fold, Head, InMemory, Recorded, Units, Verifier, prepare};
use chancery_vibe::conformance::{Host, Reply, Request};
use chancery_vibe::settings::{Platform, Settings};
use chancery_vibe::world::hash::world_hash;
use serde_json::{Value, json};

use crate::replay::{lines, replay, tell};
use crate::suite::VibeSuite;
use crate::support::{
    ACCEPT_OFFER_BY_NEGOTIATION, CREATE_PURCHASE_MANDATE, DISPATCH, Desk, OPEN_DISPUTE,
    PROPOSE_OFFER, RULE_DISPUTE, SETTLE_PAYMENT, Way, agreed, mandate, offer, seed, world,
};

/// What a start finds: rows, and how far the log reaches.
#[derive(Clone, PartialEq)]
struct Found {
    rows: MapRows,
    head: Head,
}

/// A node that has nothing on its log.
fn nothing() -> Found {
    Found {
        rows: seed(&world()).rows(),
        head: Head::EMPTY,
    }
}

/// What a start finds after `from` in more of the log: whole units, as recovery folds them.
fn recover(from: &Found, text: &[u8]) -> Found {
    let backing = InMemory {
        rows: from.rows.clone(),
        ..InMemory::default()
    };
    let mut fold = Fold::new(VibeSuite, backing, from.head, true).unwrap();
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
    let head = fold.head();
    Found {
        rows: fold.into_backing().rows,
        head,
    }
}

fn log_of(host: &Host) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines(host.units()) {
        text.extend_from_slice(&line);
        text.push(b'\n');
    }
    text
}

/// The node that a start finds after the log of another one; both begin with the world of the tests.
pub fn restarted(host: &Host) -> Host {
    let found = recover(&nothing(), &log_of(host));
    Host::resume(found.rows, host.settings().clone(), found.head.seq).unwrap()
}

/// Hands a body to a node.
pub fn post(host: &mut Host, body: &Bytes) -> Reply {
    let request = Request {
        body: body.clone(),
        ..Request::default()
    };
    host.receive(&request, chancery_core::time::Time::UNIX_EPOCH)
}

/// The bytes of an envelope.
pub fn envelope(
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

    fn dispute_and_refund(&mut self, cert: &str) {
        let (tx, _) = self.settle("s3", "z", cert);
        let claim = json!({"tx_id": tx, "reason": "never came"});
        let opened = self.tell("o3", OPEN_DISPUTE, "e", Value::Null, &claim);
        let dispute = &opened["emitted"][0]["action"]["payload"]["dispute_id"];
        let ruling = json!({"dispute_id": dispute, "ruling": "refund_full", "evidence": ["s3"], "rationale": "r"});
        self.tell("r3", RULE_DISPUTE, "e", Value::Null, &ruling);
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
    let refunded = agreed(&mut desk, "z", "c1", "a_c1", "m2", 2, 30_000);
    let mut story = Story {
        host: desk.host,
        sent: Vec::new(),
    };
    story.dispute_and_dispatch(&kept);
    story.dispatch_and_return(&given_back);
    story.dispute_and_refund(&refunded);
    story
}

/// The same up to a refund that the platform sends by hand.
fn story_by_hand() -> Story {
    let settings = Settings {
        platform: Platform::Manual,
        ..Settings::default()
    };
    let mut desk = Desk::new(settings);
    desk.yes(
        CREATE_PURCHASE_MANDATE,
        "x",
        None,
        mandate("man", "c1", "a_c1", 20_000),
    );
    let proposed = desk.yes(PROPOSE_OFFER, "x", None, offer("off", "m1", 10_000, 1));
    let accept = json!({"offer_id": "off"});
    desk.yes(ACCEPT_OFFER_BY_NEGOTIATION, "x", Some(&proposed), accept);
    let mut story = Story {
        host: desk.host,
        sent: Vec::new(),
    };
    let platform = |from, kind| Way(from, "buyer:authorization", kind);
    let verify = platform("platform:aggregator", "platform.verify_claims");
    let verified = json!({"offer_id": "off", "policy_version": "verify-1", "results": []});
    story.tell("v", verify, "x", Value::Null, &verified);
    let certify = platform("platform:aggregator", "platform.create_match_certificate");
    let cert = json!({"cert_id": "cert", "mandate_id": "man", "offer_id": "off", "merchant_id": "m1", "sku_id": "s1",
        "qty": 1, "unit_price": 10_000, "total": 10_000, "currency": "USD", "checks": {"constraint_fit": true,
        "claim_grounding": true, "inventory_availability": true, "reputation_threshold": true},
        "policy_version": "verify-1", "issued_at": "2026-05-15T12:10:00Z", "expires_at": "2026-05-15T12:25:00Z"});
    story.tell("c", certify, "x", Value::Null, &cert);
    let authorize = platform("platform:psp", "platform.authorize_payment");
    let payment = json!({"cert_id": "cert", "payment_instrument": {"type": "card", "account_id": "a_c1"},
        "payment_mandate": {"payment_mandate_id": "p", "payment_details_id": "cert", "merchant_agent": "m1",
        "payment_details_total": {"currency": "USD", "amount": 10_000}, "timestamp": "2026-05-15T12:10:00Z"}});
    story.tell("a", authorize, "x", Value::Null, &payment);
    story.sent.clear();
    let (tx, order) = story.settle("s", "x", "cert");
    story.tell(
        "d",
        DISPATCH,
        "x",
        Value::Null,
        &json!({ "order_id": order }),
    );
    let wish = json!({"tx_id": tx, "reason": "too loud"});
    story.tell("q", GIVE_BACK, "x", Value::Null, &wish);
    let back = object_id(ObjectKind::Return, "q");
    let consent =
        json!({"return_id": back, "decision": "approve", "refund_amount": 4_000, "restock": true});
    story.tell("p", RESPOND, "x", json!("q"), &consent);
    let refund = platform("platform:psp", "platform.refund_payment");
    let paid = json!({"tx_id": tx, "amount": 4_000, "basis": {"return_id": back}});
    story.tell("f", refund, "x", Value::Null, &paid);
    story
}

/// Verifies and replays a log, which must be in order.
fn check_log(text: &[u8]) {
    let lines: Vec<Bytes> = text
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| Bytes::copy_from_slice(line.strip_suffix(b"\n").unwrap()))
        .collect();
    let mut verifier = Verifier::new(VibeSuite);
    for line in &lines {
        let keys = verifier.keyring().clone();
        verifier.take(prepare(&VibeSuite, line.clone(), &keys));
    }
    let report = verifier.finish(None);
    assert!(report.passed(), "{:?}", report.findings);
    let (report, _) = replay(&lines, &seed(&world()));
    assert_eq!(report.divergence, None);
    assert_eq!(report.replayed, lines.len() as u64);
}

#[test]
fn a_log_cut_at_any_byte_of_a_unit_holds_it_once_or_not_at_all() {
    // VC-SET-1, VC-SET-2, VC-SET-3, VC-IDEM-8, VC-AUD-5, CH-JRN-4, VC-GEN-5
    for story in [story(), story_by_hand()] {
        cut_everywhere(&story);
    }
}

fn cut_everywhere(Story { host, sent }: &Story) {
    let text = log_of(host);
    let (mut cuts, mut resent) = (0, 0);
    let mut before = recover(&nothing(), &text[..sent[0].2]);
    for (index, (body, reply, start)) in sent.iter().enumerate() {
        let end = sent.get(index + 1).map_or(text.len(), |(_, _, next)| *next);
        let whole = recover(&before, &text[*start..end]);
        assert!(whole.rows != before.rows && whole.head.seq > before.head.seq + 1);
        check_log(&text[..*start]);
        check_log(&text[..end]);
        let mut resend = |found: &Found, is_there: bool| {
            let lines = found.head.seq;
            let rows = found.rows.clone();
            let mut again = Host::resume(rows, host.settings().clone(), lines).unwrap();
            let answer = post(&mut again, body);
            assert_eq!(answer.status, 200);
            assert_eq!(answer.replayed, is_there);
            assert_eq!(answer.body, reply.body, "the answer is the same either way");
            assert_eq!(world_hash(again.rows()), world_hash(&whole.rows));
            resent += 1;
        };
        resend(&whole, true);
        // A start finds the node as it was before at every cut, so one resend shows what all would.
        resend(&before, false);
        for cut in *start..end {
            let found = recover(&before, &text[*start..cut]);
            assert!(found == before, "cut at byte {cut}");
            cuts += 1;
        }
        before = whole;
    }
    tell(&format!(
        "{cuts} cuts of {} units, {resent} resends",
        sent.len()
    ));
    assert!(cuts > 1_000);
}
