//! A deal of vibe as a timeline: who proposed what, which checks passed, what moved, and the disputes about it.
//!
//! Never shows what one side keeps to itself: of mandates and goals only that they are there, of a person's word only the
//! word, and no free text that the guard did not read.

use std::collections::BTreeSet;
use std::io::Write as _;

use chancery_core::line::{Line, ProtocolName};
use serde_json::{Value, json};

use super::render;
use crate::commands::gate::money;
use crate::exit::Failed;
use crate::terminal::{Terminal, plain};

fn envelope_of(line: &Line) -> Option<Value> {
    if line.protocol != ProtocolName::Vibe {
        return None;
    }
    serde_json::from_slice(&line.envelope).ok()
}

/// The session that a line belongs to.
pub(super) fn session_of(line: &Line) -> Option<String> {
    let envelope = envelope_of(line)?;
    Some(envelope.get("session_id")?.as_str()?.to_owned())
}

/// What belongs to a deal, by the lines so far: a session, and the disputes about what was bought in it. A dispute has a
/// session of its own, and names the transaction that it is about (VC-DSP-2).
pub(super) struct Deal {
    sessions: BTreeSet<String>,
    transactions: BTreeSet<String>,
}

impl Deal {
    pub(super) fn of(session: String) -> Self {
        Self {
            sessions: BTreeSet::from([session]),
            transactions: BTreeSet::new(),
        }
    }

    /// Whether the next line of the log belongs to it.
    pub(super) fn has(&mut self, line: &Line) -> bool {
        let Some(envelope) = envelope_of(line) else {
            return false;
        };
        let Some(session) = envelope["session_id"].as_str() else {
            return false;
        };
        let action = &envelope["action"];
        let transaction = action["payload"]["tx_id"].as_str();
        match (action["kind"].as_str(), transaction) {
            (Some("world.create_order"), Some(bought)) if self.sessions.contains(session) => {
                self.transactions.insert(bought.to_owned());
            }
            (Some("platform.open_dispute"), Some(about)) if self.transactions.contains(about) => {
                self.sessions.insert(session.to_owned());
            }
            _ => {}
        }
        self.sessions.contains(session)
    }
}

/// One step of a deal.
struct Step {
    seq: u64,
    time: String,
    session: String,
    who: String,
    words: String,
    passed: Vec<String>,
    moves: bool,
}

impl Step {
    fn of(line: &Line) -> Self {
        let envelope: Value = serde_json::from_slice(&line.envelope).unwrap_or_default();
        let text = |name: &str| envelope[name].as_str().unwrap_or("?").to_owned();
        let kind = envelope["action"]["kind"].as_str().unwrap_or("?");
        Self {
            seq: line.seq,
            time: render::time(line),
            session: text("session_id"),
            who: format!("{} → {}", text("from"), text("to")),
            words: words(kind, &envelope["action"]["payload"]),
            passed: passed(line, kind, &envelope["action"]["payload"]),
            moves: kind.starts_with("world."),
        }
    }
}

/// The checks that a line says it passed.
fn passed(line: &Line, kind: &str, payload: &Value) -> Vec<String> {
    if kind.starts_with("world.") {
        return Vec::new();
    }
    let mut checks = Vec::new();
    for (name, told) in [
        ("partition_check", "permission"),
        ("payload_check", "payload and private values"),
    ] {
        if line.meta_json(name) == Some("\"pass\"") {
            checks.push(told.to_owned());
        }
    }
    if let Some(found) = payload.get("checks").and_then(Value::as_object) {
        let held = found.iter().filter(|(_, held)| **held == Value::Bool(true));
        checks.extend(held.map(|(name, _)| name.replace('_', " ")));
    }
    checks
}

/// A step in words. What is not listed is told by its kind alone.
fn words(kind: &str, payload: &Value) -> String {
    let text = |name: &str| payload[name].as_str().unwrap_or("?").to_owned();
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let currency = payload["currency"].as_str().unwrap_or_default();
    let amount = |value: &Value| plain_money(number(value), currency);
    match kind {
        "delegate.create_purchase_mandate" => {
            format!(
                "hands over purchase mandate {} (its limits are private)",
                text("mandate_id")
            )
        }
        "delegate.set_business_goal" => {
            format!(
                "sets goal {} for {} (its floor is private)",
                text("offer_mandate_id"),
                list(&payload["skus"])
            )
        }
        "delegate.approve_purchase" => format!("approves {}", text("cert_id")),
        "delegate.reject_purchase" => format!("rejects {}", text("cert_id")),
        "commerce.search" => format!("looks for \"{}\"", text("query")),
        "commerce.request_offer" => format!("asks {} for {}", text("merchant_id"), text("sku_id")),
        "commerce.propose_offer" | "commerce.counter_offer" => {
            let word = if kind.ends_with("propose_offer") {
                "offers"
            } else {
                "counters:"
            };
            format!(
                "{word} {} × {} of {} at {} each, as {}",
                number(&payload["qty"]),
                text("sku_id"),
                text("merchant_id"),
                amount(&payload["unit_price"]),
                text("offer_id")
            )
        }
        "commerce.accept_offer" => format!("accepts {}", text("offer_id")),
        "commerce.reject_offer" => format!("rejects {}", text("offer_id")),
        "commerce.create_cart" => format!("makes cart {} of {}", text("cart_id"), text("offer_id")),
        "commerce.dispatch" => format!("sends {} off", text("order_id")),
        "commerce.request_return" => format!("wants to give {} back", text("tx_id")),
        "commerce.respond_return" => match payload.get("refund_amount") {
            Some(refund) => format!(
                "{} return {}: {} back",
                past(&text("decision")),
                text("return_id"),
                amount(refund)
            ),
            None => format!("{} return {}", past(&text("decision")), text("return_id")),
        },
        _ => words_of_platform(kind, payload),
    }
}

/// A step of the platform in words.
fn words_of_platform(kind: &str, payload: &Value) -> String {
    let text = |name: &str| payload[name].as_str().unwrap_or("?").to_owned();
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let currency = payload["currency"].as_str().unwrap_or_default();
    let amount = |value: &Value| plain_money(number(value), currency);
    match kind {
        "platform.rank_offers" => {
            let count = payload["candidates"].as_array().map_or(0, Vec::len);
            format!("ranks {count} candidates under {}", text("policy_version"))
        }
        "platform.verify_claims" => {
            let results = payload["results"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            let held = results.iter().filter(|one| one["grounded"] == true).count();
            format!(
                "verifies {}: {held} of {} claims hold",
                text("offer_id"),
                results.len()
            )
        }
        "platform.create_match_certificate" => {
            format!(
                "certifies {} as {}: {} in all",
                text("offer_id"),
                text("cert_id"),
                amount(&payload["total"])
            )
        }
        "platform.authorize_payment" => {
            let total = &payload["payment_mandate"]["payment_details_total"];
            let currency = total["currency"].as_str().unwrap_or_default();
            format!(
                "authorizes {} for {}",
                plain_money(number(&total["amount"]), currency),
                text("cert_id")
            )
        }
        "platform.settle_payment" => format!("settles {}", text("cert_id")),
        "platform.refund_payment" => format!(
            "refunds {} of {}",
            amount(&payload["amount"]),
            text("tx_id")
        ),
        "platform.open_dispute" => format!("disputes {}", text("tx_id")),
        "platform.request_evidence" => format!("asks for evidence in {}", text("dispute_id")),
        "platform.submit_evidence" => format!(
            "submits {} in {}",
            list(&payload["evidence"]),
            text("dispute_id")
        ),
        "platform.rule_dispute" => format!("rules {} in {}", text("ruling"), text("dispute_id")),
        _ => moved(kind, payload),
    }
}

/// What a write to the world moved.
fn moved(kind: &str, payload: &Value) -> String {
    let text = |name: &str| payload[name].as_str().unwrap_or("?").to_owned();
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    match kind {
        "world.create_order" => format!(
            "order {} over {} units",
            text("order_id"),
            number(&payload["qty"])
        ),
        "world.reserve_inventory" => {
            format!(
                "{} units of {}/{} reserved",
                number(&payload["qty"]),
                text("merchant_id"),
                text("sku_id")
            )
        }
        "world.update_ledger" => {
            let entries = payload["entries"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            let entries = entries.iter().map(|entry| {
                format!(
                    "{} {:+}",
                    entry["account_id"].as_str().unwrap_or("?"),
                    number(&entry["delta"])
                )
            });
            format!("money: {}", entries.collect::<Vec<_>>().join(", "))
        }
        "world.update_inventory" => format!(
            "stock of {}/{}: on hand {:+}, reserved {:+}",
            text("merchant_id"),
            text("sku_id"),
            number(&payload["on_hand_delta"]),
            number(&payload["reserved_delta"])
        ),
        "world.update_order" => format!("order {} is {}", text("order_id"), text("state")),
        "world.record_dispute" => format!("dispute {} is open", text("dispute_id")),
        "world.update_dispute" => format!("dispute {} is {}", text("dispute_id"), text("state")),
        "world.record_ruling" => format!("ruling {}: {}", text("ruling_id"), text("ruling")),
        "world.update_reputation" => {
            format!(
                "reputation of {} {:+}",
                text("subject"),
                number(&payload["delta"])
            )
        }
        other => other.to_owned(),
    }
}

fn past(decision: &str) -> &'static str {
    if decision == "approve" {
        "approves"
    } else {
        "denies"
    }
}

fn plain_money(minor: i64, currency: &str) -> String {
    match currency {
        "" => minor.to_string(),
        currency => money(minor.unsigned_abs(), currency),
    }
}

fn list(value: &Value) -> String {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Tells a deal to people.
pub(super) fn tell(session: &str, lines: &[Line], terminal: &mut Terminal) -> Result<(), Failed> {
    let title = terminal.bold(&format!("the deal of session {}", plain(session)));
    writeln!(terminal.out, "\n{title}")?;
    for step in lines.iter().map(Step::of) {
        let elsewhere = match step.session == session {
            true => String::new(),
            false => format!(" (in session {})", step.session),
        };
        let words = [step.words, elsewhere].concat();
        let words = plain(&words);
        if step.moves {
            writeln!(terminal.out, "  {:>6}    moved: {words}", step.seq)?;
            continue;
        }
        writeln!(
            terminal.out,
            "  {:>6}  {}  {} {words}",
            step.seq,
            step.time,
            plain(&step.who)
        )?;
        if !step.passed.is_empty() {
            let passed = format!("passed: {}", step.passed.join(", "));
            let passed = terminal.dim(&plain(&passed));
            writeln!(terminal.out, "          {passed}")?;
        }
    }
    Ok(())
}

/// The same for machines.
pub(super) fn as_json(lines: &[Line]) -> Vec<Value> {
    let step = |line| {
        let step = Step::of(line);
        json!({
            "seq": step.seq,
            "eval_ts": step.time,
            "session_id": step.session,
            "who": step.who,
            "words": step.words,
            "passed": step.passed,
            "moved": step.moves,
        })
    };
    lines.iter().map(step).collect()
}
