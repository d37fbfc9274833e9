//! The vibe story: a deal with a counter-offer, a leak that is refused, a person's yes, settlement, dispatch and return; then
//! a dispute.

use std::time::Duration;

use chancery_core::time::format_audit;
use chancery_node::Clock;
use serde_json::{Value, json};

use super::{Playbill, Shown, Step};
use crate::client::NodeClient;
use crate::commands::gate::money;
use crate::exit::Failed;

/// The most the buyer would pay, in cents: the story never shows it.
const BUDGET: u64 = 45_000;
/// The least the merchant would take.
const FLOOR: u64 = 10_500;
const LISTED: u64 = 12_900;
const AGREED: u64 = 11_900;

/// The world of the story: one merchant, one buyer.
pub(super) fn world() -> Value {
    json!({
        "seed_id": "demo", "currency": "USD", "policy": {},
        "merchants": [{"merchant_id": "m_keys", "name": "Keys & Co", "account_id": "acc_keys"}],
        "catalog": [{"merchant_id": "m_keys", "sku_id": "sku_quiet", "title": "Quiet keyboard",
            "attributes": ["wireless"], "list_price": LISTED, "eta_days": 2, "refundable": true}],
        "inventory": [{"merchant_id": "m_keys", "sku_id": "sku_quiet", "on_hand": 2, "reserved": 0}],
        "ledger": [
            {"account_id": "acc_ada", "owner": "c_ada", "currency": "USD", "balance": 100_000},
            {"account_id": "acc_keys", "owner": "m_keys", "currency": "USD", "balance": 0},
        ],
        "reputation": [{"merchant_id": "m_keys", "score": 800}],
    })
}

/// One session of the story.
struct Deal<'n> {
    node: &'n NodeClient,
    session: &'static str,
    said: u32,
}

/// An answer, or the code of a refusal.
type Said = Result<Value, String>;

impl Deal<'_> {
    /// Says something; `reply` names the envelope it answers.
    async fn say(
        &mut self,
        from: &str,
        to: &str,
        kind: &str,
        payload: Value,
        reply: Option<&str>,
    ) -> Result<Said, String> {
        self.said += 1;
        let envelope = json!({
            "protocol": "vcp", "version": "1.0", "from": from, "to": to, "session_id": self.session,
            "in_reply_to": reply, "idempotency_key": format!("{}-{}", self.session, self.said), "signature": null,
            "action": {"kind": kind, "payload": payload},
        });
        let answered = self
            .node
            .post(&["send", "vibe"], envelope.to_string())
            .await;
        let answered = answered.map_err(|failure| failure.what)?;
        let body: Value = answered.value().map_err(|failure| failure.what)?;
        Ok(match answered.is_yes() {
            true => Ok(body),
            false => Err(body["code"].as_str().unwrap_or("?").to_owned()),
        })
    }

    /// Says something that must be accepted.
    async fn must(
        &mut self,
        from: &str,
        to: &str,
        kind: &str,
        payload: Value,
        reply: Option<&str>,
    ) -> Result<Value, String> {
        let said = self.say(from, to, kind, payload, reply).await?;
        said.map_err(|code| format!("{kind} was refused: {code}"))
    }

    fn offer(&self, id: &str, price: u64) -> Value {
        json!({
            "offer_id": format!("{}_{id}", self.session), "merchant_id": "m_keys", "sku_id": "sku_quiet", "qty": 1,
            "unit_price": price, "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [],
            "expires_at": later(3_600),
        })
    }

    async fn mandate(&mut self) -> Result<Value, String> {
        let payload = json!({
            "mandate_id": format!("man_{}", self.session), "consumer_id": "c_ada",
            "ap2_intent_mandate": {"goal": "a quiet keyboard", "merchants": null, "skus": null,
                "requires_refundability": true, "intent_expiry": later(86_400)},
            "ap2_cart_mandate": null,
            "authority": {"can_buy_without_confirmation": false, "max_spend_without_confirmation": 0,
                "can_negotiate": true, "can_accept_substitutes": false,
                "can_share_with_merchant": [], "must_not_share_with_merchant": []},
            "hard_constraints": {"budget": BUDGET, "must_have": []},
            "payment_instrument": {"type": "account", "account_id": "acc_ada"},
        });
        self.must(
            "consumer:persona",
            "buyer:intent",
            "delegate.create_purchase_mandate",
            payload,
            None,
        )
        .await
    }

    /// The buyer asks the platform to verify an offer; gives the certificate.
    async fn certify(&mut self, offer: &str, reply: &str) -> Result<String, String> {
        let payload = json!({"offer_id": offer});
        let body = self
            .must(
                "buyer:negotiation",
                "platform:aggregator",
                "commerce.accept_offer",
                payload,
                Some(reply),
            )
            .await?;
        let made = body["emitted"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let cert = made
            .iter()
            .find_map(|one| one["action"]["payload"]["cert_id"].as_str());
        cert.map(str::to_owned)
            .ok_or_else(|| format!("no certificate was made: {}", body["follow_up_error"]))
    }

    async fn approve(&mut self, cert: &str) -> Result<Value, String> {
        let payload = json!({"cert_id": cert});
        self.must(
            "consumer:persona",
            "buyer:authorization",
            "delegate.approve_purchase",
            payload,
            None,
        )
        .await
    }

    async fn settle(&mut self, cert: &str) -> Result<Value, String> {
        let payload = json!({"cert_id": cert});
        self.must(
            "buyer:authorization",
            "platform:psp",
            "platform.settle_payment",
            payload,
            None,
        )
        .await
    }
}

fn later(seconds: u64) -> String {
    let at = Clock::System
        .now()
        .saturating_add(Duration::from_secs(seconds));
    format_audit(at).as_str().to_owned()
}

fn id_of(body: &Value) -> String {
    body["msg_id"].as_str().unwrap_or_default().to_owned()
}

fn on_record(body: &Value, words: String) -> Shown {
    let seq = body["seq"].as_u64().unwrap_or_default();
    Shown::new()
        .line(format!("line {seq}: {words}"))
        .with("seq", seq)
}

/// Plays the deal and the dispute.
pub(super) async fn act(node: &NodeClient, playbill: &mut Playbill<'_>) -> Result<(), Failed> {
    let mut deal = Deal {
        node,
        session: "deal",
        said: 0,
    };
    let step = mandated(&mut deal).await;
    playbill.show(
        "a person hands a mandate to its agent, a merchant a goal",
        step,
    )?;
    let mut offered = String::new();
    let step = offer(&mut deal, &mut offered).await;
    playbill.show("the agent searches, the merchant offers", step)?;
    let step = leak(&mut deal, &offered).await;
    playbill.show("the agent would name its budget: refused", step)?;
    let mut cert = String::new();
    let step = agree(&mut deal, &offered, &mut cert).await;
    playbill.show(
        "it counters instead, the merchant accepts, the platform certifies",
        step,
    )?;
    let step = paid(&mut deal, &cert).await;
    playbill.show(
        "the purchase waits for its person, who says yes; then it settles",
        step,
    )?;
    let step = returned(&mut deal).await;
    playbill.show("it is dispatched, given back and refunded", step)?;
    let step = disputed(node).await;
    playbill.show("a second deal is disputed and ruled", step)
}

async fn mandated(deal: &mut Deal<'_>) -> Step {
    let body = deal.mandate().await?;
    let mut shop = Deal {
        node: deal.node,
        session: "shop",
        said: 0,
    };
    let goal = json!({
        "offer_mandate_id": "om_1", "merchant_id": "m_keys", "goal": "sell keyboards", "skus": ["sku_quiet"],
        "pricing": {"list_price": LISTED, "floor_price": FLOOR, "floor_currency": "USD"},
        "permitted_claims": [], "fulfillment": {"methods": ["courier"]},
    });
    let goal = shop
        .must(
            "merchant:owner",
            "merchant:pricing",
            "delegate.set_business_goal",
            goal,
            None,
        )
        .await?;
    Ok(on_record(
        &body,
        "the mandate; its budget stays with the buyer".to_owned(),
    )
    .line(format!(
        "line {}: the goal; its floor stays with the merchant",
        goal["seq"]
    )))
}

async fn offer(deal: &mut Deal<'_>, offered: &mut String) -> Step {
    let query = json!({"query": "quiet keyboard"});
    let found = deal
        .must(
            "buyer:discovery",
            "platform:aggregator",
            "commerce.search",
            query,
            None,
        )
        .await?;
    let ranked = found["emitted"][0]["action"]["payload"]["candidates"]
        .as_array()
        .map_or(0, Vec::len);
    if ranked != 1 {
        return Err(format!("{ranked} candidates were ranked"));
    }
    let first = deal.offer("first", LISTED);
    let body = deal
        .must(
            "merchant:pricing",
            "buyer:negotiation",
            "commerce.propose_offer",
            first,
            None,
        )
        .await?;
    *offered = id_of(&body);
    Ok(on_record(
        &body,
        format!("1 keyboard at {}", money(LISTED, "USD")),
    ))
}

async fn leak(deal: &mut Deal<'_>, offered: &str) -> Step {
    let counter = deal.offer("leak", BUDGET);
    match deal
        .say(
            "buyer:negotiation",
            "merchant:pricing",
            "commerce.counter_offer",
            counter,
            Some(offered),
        )
        .await?
    {
        Err(code) if code == "private_utility_leak" => Ok(Shown::new()
            .line(format!("403 {code}; nothing is on record"))
            .with("code", code)),
        Err(code) => Err(format!("it was refused otherwise: {code}")),
        Ok(_) => Err("it was accepted".to_owned()),
    }
}

async fn agree(deal: &mut Deal<'_>, offered: &str, cert: &mut String) -> Step {
    let counter = deal.offer("counter", AGREED);
    let countered = deal
        .must(
            "buyer:negotiation",
            "merchant:pricing",
            "commerce.counter_offer",
            counter,
            Some(offered),
        )
        .await?;
    let countered = id_of(&countered);
    let payload = json!({"offer_id": "deal_counter"});
    let body = deal
        .must(
            "merchant:pricing",
            "buyer:negotiation",
            "commerce.accept_offer",
            payload,
            Some(&countered),
        )
        .await?;
    *cert = deal.certify("deal_counter", &countered).await?;
    Ok(
        on_record(&body, format!("agreed at {}", money(AGREED, "USD")))
            .line(format!("{cert}: four checks hold"))
            .with("cert_id", cert.clone()),
    )
}

async fn paid(deal: &mut Deal<'_>, cert: &str) -> Step {
    let early = json!({"cert_id": cert});
    let refused = deal
        .say(
            "buyer:authorization",
            "platform:psp",
            "platform.settle_payment",
            early,
            None,
        )
        .await?;
    if refused != Err("approval_required".to_owned()) {
        return Err("it settled without its person".to_owned());
    }
    deal.approve(cert).await?;
    let body = deal.settle(cert).await?;
    let diff = &body["state_diff"];
    let moved = diff["ledger_deltas"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let sum: i64 = moved
        .iter()
        .filter_map(|entry| entry["delta"].as_i64())
        .sum();
    if moved.len() != 2 || sum != 0 {
        return Err("the ledger does not sum to zero".to_owned());
    }
    Ok(on_record(
        &body,
        "order, stock and money in one unit of four lines".to_owned(),
    )
    .line(format!(
        "before the yes: 409 approval_required; then {} moved",
        money(AGREED, "USD")
    ))
    .with("diff_id", diff["diff_id"].clone()))
}

/// A row of a table of the world.
async fn rows(node: &NodeClient, table: &str) -> Result<Value, String> {
    let answered = node
        .get(&["vcp", "world", table])
        .await
        .map_err(|failure| failure.what)?;
    let mut body: Value = answered.value().map_err(|failure| failure.what)?;
    Ok(body["rows"].take())
}

/// The order of a state.
async fn order(node: &NodeClient, state: &str) -> Result<Value, String> {
    let rows = rows(node, "orders").await?;
    let found = rows
        .as_object()
        .and_then(|rows| rows.values().find(|row| row["state"] == state));
    found.cloned().ok_or_else(|| format!("no order is {state}"))
}

async fn returned(deal: &mut Deal<'_>) -> Step {
    let paid = order(deal.node, "paid").await?;
    let payload = json!({"order_id": paid["order_id"], "carrier": "courier"});
    deal.must(
        "merchant:fulfillment",
        "buyer:authorization",
        "commerce.dispatch",
        payload,
        None,
    )
    .await?;
    let payload = json!({"tx_id": paid["tx_id"], "reason": "louder than it says"});
    let asked = deal
        .must(
            "buyer:authorization",
            "merchant:support",
            "commerce.request_return",
            payload,
            None,
        )
        .await?;
    let return_id =
        chancery_core::ids::object_id(chancery_core::ids::ObjectKind::Return, &id_of(&asked));
    let payload = json!({"return_id": return_id, "decision": "approve", "refund_amount": AGREED, "restock": true});
    let body = deal
        .must(
            "merchant:support",
            "buyer:authorization",
            "commerce.respond_return",
            payload,
            Some(&id_of(&asked)),
        )
        .await?;
    order(deal.node, "refunded").await?;
    let balance = rows(deal.node, "ledger").await?["acc_ada"]["balance"].as_u64();
    if balance != Some(100_000) {
        return Err(format!("the buyer has {balance:?}"));
    }
    Ok(on_record(
        &body,
        format!(
            "{} came back; the keyboard is in stock again",
            money(AGREED, "USD")
        ),
    ))
}

/// A second deal, paid and not dispatched; gives the settlement.
async fn paid_again(node: &NodeClient) -> Result<Value, String> {
    let mut second = Deal {
        node,
        session: "second",
        said: 0,
    };
    second.mandate().await?;
    let offer = second.offer("only", AGREED);
    let offered = second
        .must(
            "merchant:pricing",
            "buyer:negotiation",
            "commerce.propose_offer",
            offer,
            None,
        )
        .await?;
    let cert = second.certify("second_only", &id_of(&offered)).await?;
    second.approve(&cert).await?;
    second.settle(&cert).await
}

async fn disputed(node: &NodeClient) -> Step {
    let settled = paid_again(node).await?;
    let mut dispute = Deal {
        node,
        session: "dispute",
        said: 0,
    };
    let tx_id = order(node, "paid").await?["tx_id"].clone();
    let payload = json!({"tx_id": tx_id, "reason": "it never came", "evidence": [id_of(&settled)]});
    let opened = dispute
        .must(
            "buyer:authorization",
            "platform:adjudicator",
            "platform.open_dispute",
            payload,
            None,
        )
        .await?;
    let dispute_id =
        chancery_core::ids::object_id(chancery_core::ids::ObjectKind::Dispute, &id_of(&opened));
    let payload = json!({"dispute_id": dispute_id, "question": "was it dispatched?"});
    let asked = dispute
        .must(
            "platform:adjudicator",
            "merchant:support",
            "platform.request_evidence",
            payload,
            None,
        )
        .await?;
    let payload = json!({"dispute_id": dispute_id, "evidence": [id_of(&settled)]});
    dispute
        .must(
            "merchant:support",
            "platform:adjudicator",
            "platform.submit_evidence",
            payload,
            Some(&id_of(&asked)),
        )
        .await?;
    let payload = json!({"dispute_id": dispute_id, "ruling": "refund_full", "evidence": [id_of(&settled)],
        "rationale": "no dispatch is on record"});
    let body = dispute
        .must(
            "platform:adjudicator",
            "buyer:authorization",
            "platform.rule_dispute",
            payload,
            None,
        )
        .await?;
    let score = rows(node, "reputation").await?["m_keys"]["score"].as_i64();
    if score != Some(700) {
        return Err(format!("the merchant's reputation is {score:?}"));
    }
    Ok(on_record(
        &body,
        "refunded in full; the merchant's reputation fell from 800 to 700".to_owned(),
    )
    .with("dispute_id", dispute_id))
}
