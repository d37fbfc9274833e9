//! `chancery log explain` of deals that do not simply go well: haggled over, refused, given back, disputed.

use std::collections::BTreeSet;

use chancery_core::ids::{ObjectKind, object_id};
use serde_json::{Value, json};

use crate::market::{MarketNode, certificate, envelope, holds_private};

const PERSON: [&str; 2] = ["consumer:persona", "buyer:authorization"];
const BUYER_BIDS: [&str; 2] = ["buyer:negotiation", "merchant:pricing"];
const SELLER_BIDS: [&str; 2] = ["merchant:pricing", "buyer:negotiation"];
const SHIPS: [&str; 2] = ["merchant:fulfillment", "buyer:authorization"];
const GIVES_BACK: [&str; 2] = ["buyer:authorization", "merchant:support"];
const TAKES_BACK: [&str; 2] = ["merchant:support", "buyer:authorization"];
const COMPLAINS: [&str; 2] = ["buyer:authorization", "platform:adjudicator"];
const JUDGES: [&str; 2] = ["platform:adjudicator", "buyer:authorization"];

/// A session of a node. Each envelope is named for its session and what it is there.
struct Talk<'n>(&'n MarketNode, &'static str);

impl Talk<'_> {
    fn say(&self, name: &str, [from, to]: [&str; 2], kind: &str, payload: Value) -> Value {
        self.0.say(&envelope(self.1, name, from, to, kind, payload))
    }

    fn answer(&self, asked: &str, name: &str, way: [&str; 2], kind: &str, payload: Value) -> Value {
        let mut answer = envelope(self.1, name, way[0], way[1], kind, payload);
        answer["in_reply_to"] = json!(format!("{}-{asked}", self.1));
        self.0.say(&answer)
    }

    /// Settles what was certified; gives the order and the transaction.
    fn settled(&self, cert: &str) -> [String; 2] {
        let told = self.0.settle(self.1, cert);
        let order = &told["emitted"][0]["action"]["payload"]["order_id"];
        [order, &told["state_diff"]["tx_id"]].map(|id| id.as_str().unwrap().to_owned())
    }

    /// Sends an order off, and asks to give it back; gives the name of the return.
    fn sent_there_and_wanted_back(&self, order: &str, tx: &str) -> String {
        self.say(
            "ship",
            SHIPS,
            "commerce.dispatch",
            json!({"order_id": order}),
        );
        let wish = json!({"tx_id": tx, "reason": "too loud"});
        self.say("back", GIVES_BACK, "commerce.request_return", wish);
        object_id(ObjectKind::Return, &format!("{}-back", self.1))
    }
}

fn offer(id: &str, price: u64) -> Value {
    json!({"offer_id": id, "merchant_id": "m_keys", "sku_id": "sku_quiet", "qty": 1, "unit_price": price,
        "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [], "expires_at": "2026-05-20T00:00:00Z"})
}

/// Haggled over in two rounds, another offer refused, bought, sent, and not taken back; gives order, transaction and return.
fn haggled(talk: &Talk<'_>) -> [String; 3] {
    talk.0.opened(talk.1, 0);
    let (propose, counter) = ("commerce.propose_offer", "commerce.counter_offer");
    talk.say("first", SELLER_BIDS, propose, offer("off_1", 12_500));
    talk.answer("first", "bid", BUYER_BIDS, counter, offer("off_2", 11_000));
    talk.answer("bid", "last", SELLER_BIDS, counter, offer("off_3", 11_900));
    talk.say("other", SELLER_BIDS, propose, offer("off_4", 12_900));
    let no = json!({"offer_id": "off_4", "reason": "too dear"});
    talk.answer("other", "no", BUYER_BIDS, "commerce.reject_offer", no);
    let asks = ["buyer:negotiation", "platform:aggregator"];
    let yes = json!({"offer_id": "off_3"});
    let cert = certificate(&talk.answer("last", "yes", asks, "commerce.accept_offer", yes));
    // What a person says to its own agent may hold what nobody else may know (VC-PRIV-4).
    let word = json!({"cert_id": cert, "note": "of the 471.13 that I have"});
    talk.say("approve", PERSON, "delegate.approve_purchase", word);
    let [order, tx] = talk.settled(&cert);
    let back = talk.sent_there_and_wanted_back(&order, &tx);
    let denial = json!({"return_id": back, "decision": "deny", "reason": "it was opened"});
    talk.answer(
        "back",
        "denied",
        TAKES_BACK,
        "commerce.respond_return",
        denial,
    );
    [order, tx, back]
}

/// A dispute with evidence and a ruling that gives a part back; gives its name.
fn disputed(talk: &Talk<'_>, tx: &str) -> String {
    let claim = json!({"tx_id": tx, "reason": "it is too loud"});
    let told = talk.say("open", COMPLAINS, "platform.open_dispute", claim);
    let dispute = &told["emitted"][0]["action"]["payload"]["dispute_id"];
    let question = json!({"dispute_id": dispute, "question": "how loud?"});
    talk.say("ask", JUDGES, "platform.request_evidence", question);
    let evidence =
        json!({"dispute_id": dispute, "evidence": ["s1-last"], "statement": "it was called quiet"});
    talk.answer(
        "ask",
        "show",
        COMPLAINS,
        "platform.submit_evidence",
        evidence,
    );
    let ruling = json!({"dispute_id": dispute, "ruling": "refund_partial", "refund_amount": 5_000,
        "evidence": ["d1-show"], "rationale": "it was worth less than the 471.13"});
    talk.say("rule", JUDGES, "platform.rule_dispute", ruling);
    dispute.as_str().unwrap().to_owned()
}

/// Bought, sent, given back for a part of the price; gives order, transaction and return.
fn given_back(talk: &Talk<'_>) -> [String; 3] {
    let cert = talk.0.certified(talk.1, 0);
    talk.say(
        "approve",
        PERSON,
        "delegate.approve_purchase",
        json!({"cert_id": cert}),
    );
    let [order, tx] = talk.settled(&cert);
    let back = talk.sent_there_and_wanted_back(&order, &tx);
    let consent =
        json!({"return_id": back, "decision": "approve", "refund_amount": 6_000, "restock": true});
    talk.answer(
        "back",
        "fine",
        TAKES_BACK,
        "commerce.respond_return",
        consent,
    );
    [order, tx, back]
}

/// Explains a deal to people and to machines: none of it is private, and these parts are in it, in this order.
fn is_told(node: &MarketNode, session: &str, parts: &[String]) {
    let explain = ["log", "explain", session, "chancery-data"];
    let text = node.place.run(&explain).exits(0).text();
    assert!(!holds_private(&text), "{text}");
    let mut rest = &text[..];
    for part in parts {
        let (_, behind) = rest
            .split_once(&part[..])
            .unwrap_or_else(|| panic!("{part}: {text}"));
        rest = behind;
    }
    let json = node.place.run(&[&explain[..], &["--json"]].concat());
    let json = json.exits(0).text();
    assert!(!holds_private(&json), "{json}");
}

#[test]
fn a_haggled_deal_and_its_dispute_are_told_without_what_is_private() {
    // VC-PRIV-1, VC-PRIV-4, VC-HTTP-8, VC-DSP-2, CH-CLI-2, CH-CLI-3
    let node = MarketNode::start();
    node.goal();
    let [order, tx, back] = haggled(&Talk(&node, "s1"));
    let dispute = disputed(&Talk(&node, "d1"), &tx);
    let bid = |word: &str, price: u64, id: &str| {
        format!("{word} 1 × sku_quiet of m_keys at {price} each, as {id}")
    };
    let deal = [
        "hands over purchase mandate man_s1 (its limits are private)".to_owned(),
        bid(
            "merchant:pricing → buyer:negotiation offers",
            12_500,
            "off_1",
        ),
        bid(
            "buyer:negotiation → merchant:pricing counters:",
            11_000,
            "off_2",
        ),
        bid(
            "merchant:pricing → buyer:negotiation counters:",
            11_900,
            "off_3",
        ),
        bid("offers", 12_900, "off_4"),
        "buyer:negotiation → merchant:pricing rejects off_4".to_owned(),
        "accepts off_3".to_owned(),
        "certifies off_3".to_owned(),
        "approves cert_".to_owned(),
        "authorizes 119.00 USD".to_owned(),
        "settles cert_".to_owned(),
        format!("moved: order {order} over 1 units"),
        format!("merchant:fulfillment → buyer:authorization sends {order} off"),
        "moved: stock of m_keys/sku_quiet: on hand -1, reserved -1".to_owned(),
        format!("moved: order {order} is shipped"),
        format!("wants to give {tx} back"),
        format!("moved: order {order} is return_requested"),
        format!("denies return {back}"),
        format!("moved: order {order} is shipped"),
    ];
    is_told(&node, "s1", &deal);
    let quarrel = [
        format!("buyer:authorization → platform:adjudicator disputes {tx}"),
        format!("moved: dispute {dispute} is open"),
        format!("asks for evidence in {dispute}"),
        format!("moved: dispute {dispute} is evidence_requested"),
        format!("submits s1-last in {dispute}"),
        format!("moved: dispute {dispute} is open"),
        format!("rules refund_partial in {dispute}"),
        "moved: ruling rul_".to_owned(),
        ": refund_partial".to_owned(),
        "moved: money: acc_keys -5000, acc_ada +5000".to_owned(),
        format!("moved: order {order} is partially_refunded"),
        // VC-ACT-platform.rule_dispute-2: what a partial refund costs.
        "moved: reputation of m_keys -50".to_owned(),
    ];
    is_told(&node, "d1", &quarrel);
    is_told_with_the_deal(&node, &deal, &quarrel);
    by_their_own_names(&node);
}

/// The dispute d1 is told with the deal of s1 that it is about, line by line as both stand on the log.
fn is_told_with_the_deal(node: &MarketNode, deal: &[String], quarrel: &[String]) {
    let elsewhere = |part: &String| match part.ends_with('_') {
        true => part.clone(),
        false => format!("{part} (in session d1)"),
    };
    let quarrel: Vec<String> = quarrel.iter().map(elsewhere).collect();
    is_told(node, "s1", &[deal, &quarrel].concat());
    let steps = |session: &str| -> Vec<(u64, String)> {
        let explain = ["log", "explain", session, "chancery-data", "--json"];
        let told = node.place.run(&explain).exits(0).json();
        let step = |step: &Value| {
            let session = step["session_id"].as_str().unwrap().to_owned();
            (step["seq"].as_u64().unwrap(), session)
        };
        told["deal"].as_array().unwrap().iter().map(step).collect()
    };
    let both = steps("s1");
    assert!(both.is_sorted(), "{both:?}");
    let (of_dispute, of_deal): (Vec<_>, Vec<_>) =
        both.into_iter().partition(|(_, session)| session == "d1");
    assert_eq!(of_dispute, steps("d1"));
    assert!(of_deal.iter().all(|(_, session)| session == "s1"));
    // Another dispute about another purchase is not.
    let other = Talk(node, "s3");
    let cert = node.certified("s3", 20_000);
    let [_, tx] = other.settled(&cert);
    disputed(&Talk(node, "d3"), &tx);
    assert!(steps("s1").iter().all(|(_, session)| session != "d3"));
    assert!(steps("s3").iter().any(|(_, session)| session == "d3"));
}

/// Each kind of envelope on the log, explained by the name of one.
fn by_their_own_names(node: &MarketNode) {
    let log = node.place.read("chancery-data/audit.jsonl");
    let mut kinds = BTreeSet::new();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let envelope = &line["envelope"];
        let Some(kind) = envelope["action"]["kind"].as_str() else {
            continue;
        };
        if kinds.insert(kind.to_owned()) {
            let named = envelope["msg_id"].as_str().unwrap();
            let explain = ["log", "explain", named, "chancery-data"];
            let text = node.place.run(&explain).exits(0).text();
            assert!(!holds_private(&text), "{kind}: {text}");
        }
    }
    for kind in [
        "commerce.counter_offer",
        "commerce.reject_offer",
        "commerce.dispatch",
        "commerce.request_return",
        "platform.open_dispute",
        "platform.submit_evidence",
        "platform.rule_dispute",
        "world.record_ruling",
    ] {
        assert!(kinds.contains(kind), "{kind}");
    }
}

#[test]
fn a_return_and_a_no_are_told_without_what_is_private() {
    // VC-PRIV-1, VC-PRIV-4, VC-HTTP-8, CH-CLI-2, CH-CLI-3
    let node = MarketNode::start();
    node.goal();
    let [order, tx, back] = given_back(&Talk(&node, "s1"));
    let deal = [
        format!("moved: order {order} is return_requested"),
        format!("approves return {back}: 6000 back"),
        format!("moved: order {order} is return_approved"),
        format!("refunds 6000 of {tx}"),
        "acc_keys -6000".to_owned(),
        format!("moved: order {order} is partially_refunded"),
        "moved: stock of m_keys/sku_quiet: on hand +1, reserved +0".to_owned(),
    ];
    is_told(&node, "s1", &deal);
    let refused = Talk(&node, "s2");
    let cert = node.certified("s2", 0);
    let word = json!({"cert_id": cert, "reason": "I have no more than 471.13"});
    refused.say("reject", PERSON, "delegate.reject_purchase", word);
    is_told(
        &node,
        "s2",
        &[
            format!("certifies off_s2 as {cert}"),
            format!("rejects {cert}"),
        ],
    );
}
