//! What is sent after a settlement, in a dispute, and what nobody would think of.

use serde_json::json;

use super::compose::{AGGREGATOR, AUTHORIZATION, NEGOTIATION, PRICING, PSP, SUPPORT};
use super::dice::Dice;
use super::state::{Envelope, Known, Model, Order};
use super::table::TABLE;

const ADJUDICATOR: &str = "platform:adjudicator";

impl Model {
    /// What comes after a settlement.
    pub fn after(&mut self, dice: &mut Dice<'_>) -> Envelope {
        let open = self.orders.iter().filter(|(_, order)| !order.is_final());
        let Some((id, order)) = dice.recent(open) else {
            return self.deal(dice);
        };
        let (id, order) = (id.clone(), order.clone());
        let back = self.returns.iter().rev().find(|(_, row)| row.order == id);
        let back = back.map(|(id, row)| (id.clone(), row.amount));
        match (order.state(), back) {
            ("paid", _) if dice.chance(80) => self.shipping(dice, &order),
            ("shipped", _) if dice.chance(75) => self.give_it_back(&order),
            ("return_requested", Some((back, _))) => self.respond(dice, &order, &back),
            ("return_approved", Some((back, amount))) => {
                let amount = if dice.chance(90) { amount } else { amount + 10 };
                let payload = json!({"tx_id": order.text("tx_id"), "amount": amount, "basis": {"return_id": back}});
                self.envelope(
                    (PSP, AUTHORIZATION, "platform.refund_payment"),
                    &order.session,
                    None,
                    payload,
                )
            }
            _ => self.complain(dice, &order),
        }
    }

    fn shipping(&mut self, dice: &mut Dice<'_>, order: &Order) -> Envelope {
        let mut payload = json!({"order_id": order.text("order_id")});
        if dice.chance(20) {
            payload["qty"] = json!(1 + dice.below(3));
        }
        let way = ("merchant:fulfillment", AUTHORIZATION, "commerce.dispatch");
        self.envelope(way, &order.session, None, payload)
    }

    fn give_it_back(&mut self, order: &Order) -> Envelope {
        let payload = json!({"tx_id": order.text("tx_id"), "reason": "too loud"});
        let way = (AUTHORIZATION, SUPPORT, "commerce.request_return");
        self.envelope(way, &order.session, None, payload)
    }

    fn respond(&mut self, dice: &mut Dice<'_>, order: &Order, back: &str) -> Envelope {
        let payload = if dice.chance(70) {
            let left = order.left();
            let amount = dice.of(&[left, left, left / 2, left + 10]);
            json!({"return_id": back, "decision": "approve", "refund_amount": amount, "restock": dice.chance(50)})
        } else {
            json!({"return_id": back, "decision": "deny"})
        };
        let here = |(_, known): &(&String, &Known)| {
            known.kind == "commerce.request_return" && known.session == order.session
        };
        let asked = self.known.iter().rev().find(here).map(|(id, _)| id.clone());
        let way = (SUPPORT, AUTHORIZATION, "commerce.respond_return");
        self.envelope(way, &order.session, asked.as_deref(), payload)
    }

    fn complain(&mut self, dice: &mut Dice<'_>, order: &Order) -> Envelope {
        let session = if dice.chance(95) {
            self.fresh("d")
        } else {
            dice.key(&self.sessions)
        };
        let mut payload = json!({"tx_id": order.text("tx_id"), "reason": "broken"});
        if dice.chance(50) {
            payload["evidence"] = json!([dice.key(&self.known)]);
        }
        if dice.chance(20) {
            // Now and then what was to be kept: as a member that the table does not name (VC-ENV-16).
            payload["x_limit"] = json!(dice.of(&[91_353, 60_003, 200_003, 44_444]));
        }
        let way = (AUTHORIZATION, ADJUDICATOR, "platform.open_dispute");
        self.envelope(way, &session, None, payload)
    }

    /// The next step of a dispute.
    pub fn quarrel(&mut self, dice: &mut Dice<'_>) -> Envelope {
        let open = self
            .disputes
            .iter()
            .filter(|(_, dispute)| dispute.row["state"] != "ruled");
        let Some((id, dispute)) = dice.recent(open) else {
            return self.after(dice);
        };
        let (id, dispute) = (id.clone(), dispute.clone());
        let evidence = json!([dice.key(&self.known)]);
        if let Some(asked) = dispute.unanswered.first().filter(|_| dice.chance(60)) {
            let side = if self.known[asked].to == SUPPORT {
                SUPPORT
            } else {
                AUTHORIZATION
            };
            let payload = json!({"dispute_id": id, "evidence": evidence});
            let way = (side, ADJUDICATOR, "platform.submit_evidence");
            return self.envelope(way, &dispute.session, Some(asked), payload);
        }
        let side = dice.of(&[SUPPORT, AUTHORIZATION]);
        if dice.chance(45) {
            let payload = json!({"dispute_id": id, "question": "where is it?"});
            let way = (ADJUDICATOR, side, "platform.request_evidence");
            return self.envelope(way, &dispute.session, None, payload);
        }
        let left = self.orders[&dispute.order].left();
        let mut payload = dice.of(&[
            json!({"ruling": "deny"}),
            json!({"ruling": "refund_full"}),
            json!({"ruling": "refund_full", "refund_amount": left}),
            json!({"ruling": "refund_full", "refund_amount": left + 10}),
            json!({"ruling": "refund_partial", "refund_amount": left / 2}),
            json!({"ruling": "refund_partial", "refund_amount": left}),
        ]);
        payload["dispute_id"] = json!(id);
        payload["evidence"] = evidence;
        payload["rationale"] = json!("seen");
        if dice.chance(30) {
            payload["reputation_delta"] = json!(dice.of(&[-300_i64, 0, 25]));
        }
        self.envelope(
            (ADJUDICATOR, side, "platform.rule_dispute"),
            &dispute.session,
            None,
            payload,
        )
    }

    /// Any action on anything.
    pub fn anything(&mut self, dice: &mut Dice<'_>) -> Envelope {
        let session = dice.key(&self.sessions);
        let (offer, cert) = (dice.key(&self.offers), dice.key(&self.certs));
        let at = dice.below(self.orders.len());
        let order = self.orders.values().nth(at).cloned();
        match dice.below(16) {
            0 => self.claims(dice, &session, &offer),
            1 => self.certificate(dice, &session, &offer),
            2 => self.authorization(dice, &session, &cert),
            3 => self.cart(dice, &session, &offer),
            4 => self.mandate(dice, &session),
            5 => self.begin(dice, &session),
            6 => {
                let way = dice.of(&[
                    (NEGOTIATION, PRICING),
                    (PRICING, NEGOTIATION),
                    (NEGOTIATION, AGGREGATOR),
                ]);
                let own = self.offers.get(&offer).map(|offer| offer.session.clone());
                self.accept_by(way.0, way.1, &own.unwrap_or(session), &offer)
            }
            7 => {
                let of = self.certs.get(&cert).map(|cert| cert.session.clone());
                let payload = json!({"cert_id": cert});
                let way = (AUTHORIZATION, PSP, "platform.settle_payment");
                self.envelope(way, &of.unwrap_or(session), None, payload)
            }
            8 => match self.offers.get(&offer).cloned() {
                Some(old) => {
                    let way = (NEGOTIATION, PRICING, "commerce.counter_offer");
                    self.offer(dice, way, &old.session.clone(), Some(&old))
                }
                None => self.open(dice),
            },
            9..=12 => match order {
                None => self.open(dice),
                Some(order) => match dice.below(4) {
                    0 => self.shipping(dice, &order),
                    1 => self.give_it_back(&order),
                    2 => {
                        let back = dice.key(&self.returns);
                        self.respond(dice, &order, &back)
                    }
                    _ => self.complain(dice, &order),
                },
            },
            13 => {
                let payload = json!({"dispute_id": dice.key(&self.disputes), "question": "why?"});
                let way = (ADJUDICATOR, SUPPORT, "platform.request_evidence");
                self.envelope(way, &session, None, payload)
            }
            14 => {
                // Whoever sends a write of the world by itself is refused.
                let row = &TABLE[dice.below(TABLE.len())];
                let (from, to) = row.ways[0];
                self.envelope((from, to[0], row.kind), &session, None, json!({}))
            }
            _ => self.envelope(
                (NEGOTIATION, PRICING, "commerce.haggle"),
                &session,
                None,
                json!({}),
            ),
        }
    }
}
