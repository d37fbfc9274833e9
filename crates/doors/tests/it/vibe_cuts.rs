//! A log that ends anywhere within a unit: the node starts, and what was under way is done once or not at all.

use std::path::Path;

use bytes::Bytes;
use chancery_core::ids::{ObjectKind, object_id};
use chancery_core::rows::MapRows;
use chancery_journal::{Replayer, Verifier, prepare};
use chancery_node::VibeAnswered;
use chancery_node::suite::Chancery;
use serde_json::{Value, json};

use crate::support::temporary;
use crate::vibe_support::{
    Market, Served, accept, approve, envelope, mandate, offer_of, reply, settle, world,
};

/// An envelope, its answer, and the bytes of the log that its unit is.
struct Sent {
    body: Bytes,
    answer: VibeAnswered,
    from: usize,
    to: usize,
}

struct Story<'d> {
    node: Served,
    dir: &'d Path,
    sent: Vec<Sent>,
}

impl Story<'_> {
    fn log(&self) -> Vec<u8> {
        std::fs::read(self.dir.join("audit.jsonl")).unwrap()
    }

    async fn say(&mut self, envelope: Value) -> Value {
        let body = Bytes::from(envelope.to_string());
        let from = self.log().len();
        let answer = self
            .node
            .office
            .receive_vibe(body.clone(), None, None)
            .await;
        let answer = answer.unwrap_or_else(|refusal| panic!("{envelope}: {refusal}"));
        let told = serde_json::from_slice(&answer.body).unwrap();
        let to = self.log().len();
        self.sent.push(Sent {
            body,
            answer,
            from,
            to,
        });
        told
    }

    /// A deal up to its settlement; gives what the settlement was answered.
    async fn settled(&mut self, session: &str, consumer: &str, account: &str) -> Value {
        self.say(mandate(session, consumer, account)).await;
        self.say(offer_of(session, "sku_quiet")).await;
        let told = self.say(accept(session)).await;
        let cert = told["emitted"][1]["action"]["payload"]["cert_id"]
            .as_str()
            .unwrap();
        self.say(approve(session, cert)).await;
        self.say(settle(session, cert)).await
    }

    async fn returned(&mut self) {
        let told = self.settled("x", "c_ada", "acc_ada").await;
        let (merchant, buyer) = ("merchant:fulfillment", "buyer:authorization");
        let order = json!({"order_id": told["emitted"][0]["action"]["payload"]["order_id"]});
        self.say(envelope(
            "ship",
            "x",
            merchant,
            buyer,
            "commerce.dispatch",
            order,
        ))
        .await;
        let support = "merchant:support";
        let wish = json!({"tx_id": told["state_diff"]["tx_id"], "reason": "too loud"});
        self.say(envelope(
            "back",
            "x",
            buyer,
            support,
            "commerce.request_return",
            wish,
        ))
        .await;
        let back = object_id(ObjectKind::Return, "back");
        let consent = json!({"return_id": back, "decision": "approve", "refund_amount": 5_000, "restock": true});
        let consent = envelope(
            "fine",
            "x",
            support,
            buyer,
            "commerce.respond_return",
            consent,
        );
        self.say(reply(consent, "back")).await;
    }

    async fn ruled(&mut self) {
        let told = self.settled("y", "c_bob", "acc_bob").await;
        let (buyer, judge) = ("buyer:authorization", "platform:adjudicator");
        let claim = json!({"tx_id": told["state_diff"]["tx_id"], "reason": "never came"});
        let told = self
            .say(envelope(
                "open",
                "d",
                buyer,
                judge,
                "platform.open_dispute",
                claim,
            ))
            .await;
        let dispute = &told["emitted"][0]["action"]["payload"]["dispute_id"];
        let question = json!({"dispute_id": dispute, "question": "where is it?"});
        self.say(envelope(
            "ask",
            "d",
            judge,
            buyer,
            "platform.request_evidence",
            question,
        ))
        .await;
        let evidence = json!({"dispute_id": dispute, "evidence": ["y-settle"]});
        let evidence = envelope(
            "show",
            "d",
            buyer,
            judge,
            "platform.submit_evidence",
            evidence,
        );
        self.say(reply(evidence, "ask")).await;
        let ruling = json!({"dispute_id": dispute, "ruling": "refund_full", "evidence": ["show"], "rationale": "r"});
        self.say(envelope(
            "rule",
            "d",
            judge,
            buyer,
            "platform.rule_dispute",
            ruling,
        ))
        .await;
    }
}

fn market() -> Market {
    Market::over(world().to_string().as_bytes())
}

/// Verifies and replays a log, which must be in order.
fn check_log(text: &[u8]) {
    let suite = Chancery::with_seed(market().seed);
    let mut verifier = Verifier::new(suite.clone());
    let mut replayer = Replayer::new(suite.clone(), MapRows::default()).unwrap();
    let lines = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    for line in lines.map(Bytes::copy_from_slice) {
        let keys = verifier.keyring().clone();
        verifier.take(prepare(&suite, line.clone(), &keys));
        let keys = replayer.keyring().clone();
        replayer.take(prepare(&suite, line, &keys));
    }
    let verified = verifier.finish(None);
    assert!(verified.passed(), "{:?}", verified.findings);
    assert_eq!(replayer.finish().0.divergence, None);
}

fn lines_in(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The index that a node leaves which was stopped in order at the end of a log.
async fn index_of(log: &[u8]) -> Vec<u8> {
    let (_kept, dir) = temporary();
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("audit.jsonl"), log).unwrap();
    let market = market();
    let store = market.embedded(&dir);
    market.start(store).await.stop().await;
    for left in ["index.db-wal", "index.db-shm"] {
        assert!(!dir.join(left).exists(), "the index is in one file");
    }
    std::fs::read(dir.join("index.db")).unwrap()
}

/// Starts a node on the beginning of a log, with an index of an earlier part of it or without one, and sends what its last
/// unit was.
async fn start_and_send_again(text: &[u8], index: Option<&[u8]>, sent: &Sent, whole: &[u8]) {
    let (_kept, dir) = temporary();
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("audit.jsonl"), text).unwrap();
    if let Some(index) = index {
        std::fs::write(dir.join("index.db"), index).unwrap();
    }
    let market = market();
    let (store, again) = market.recovered(&dir);
    let is_there = text.len() >= sent.to;
    let indexed = index.map_or(0, |_| sent.from);
    let known = if is_there { sent.to } else { sent.from };
    assert_eq!(
        again,
        lines_in(&whole[indexed..known]),
        "cut at byte {}",
        text.len()
    );
    let node = market.start(store).await;
    let answer = node
        .office
        .receive_vibe(sent.body.clone(), None, None)
        .await
        .unwrap();
    assert_eq!(answer.replayed, is_there, "cut at byte {}", text.len());
    assert_eq!(answer.body, sent.answer.body, "cut at byte {}", text.len());
    node.stop().await;
    // Done once: the log is the one that was never cut.
    let log = std::fs::read(dir.join("audit.jsonl")).unwrap();
    assert!(log == whole, "cut at byte {}", text.len());
}

// VC-SET-1, VC-SET-3, VC-IDEM-8, VC-AUD-5, CH-JRN-2, CH-JRN-4
#[tokio::test(flavor = "multi_thread")]
async fn a_unit_is_done_once_or_not_at_all_wherever_the_log_ends() {
    // Every so many bytes, and at each end of a line; `CHANCERY_CUT_STRIDE=1` is every byte.
    let stride = std::env::var("CHANCERY_CUT_STRIDE").map_or(197, |stride| {
        stride.parse().expect("CHANCERY_CUT_STRIDE is a number")
    });
    let (_kept, dir) = temporary();
    let market = market();
    let store = market.embedded(&dir);
    let mut story = Story {
        node: market.start(store).await,
        dir: &dir,
        sent: Vec::new(),
    };
    story.returned().await;
    story.ruled().await;
    let text = story.log();
    let Story { node, sent, .. } = story;
    node.stop().await;
    let (mut cuts, mut kept) = (0, 0);
    for sent in &sent {
        let whole = &text[..sent.to];
        check_log(whole);
        let index = index_of(&text[..sent.from]).await;
        for cut in sent.from..=sent.to {
            let ends_line = cut == sent.to || text[cut - 1] == b'\n';
            if ends_line || cut % stride == 0 {
                // Every other start has the index of before the unit, as after a power cut; the others make it anew.
                let index = (cuts % 2 == 0).then_some(&index[..]);
                start_and_send_again(&text[..cut], index, sent, whole).await;
                cuts += 1;
                kept += usize::from(index.is_some());
            }
        }
    }
    println!(
        "{cuts} cuts of {} units on the durable store, {kept} with an index",
        sent.len()
    );
}
