//! Dispatch, returns, refunds, disputes and reputation (sections 5.2 to 5.4, 16), in the model's words.

use serde_json::{Value, json};

use super::deal::texts;
use super::judge::Caused;
use super::state::{Code, Dispute, Envelope, Model, Order, Return, Session, object};

const UPDATE_LEDGER: &str = "world.update_ledger";
const UPDATE_ORDER: &str = "world.update_order";
const UPDATE_INVENTORY: &str = "world.update_inventory";

impl Model {
    fn order_of(&self, tx_id: &str) -> Result<&Order, Code> {
        let id = self.transactions.get(tx_id).ok_or("order_not_found")?;
        Ok(&self.orders[id])
    }

    fn set_state(&mut self, order_id: &str, state: &str) {
        self.orders.get_mut(order_id).unwrap().row["state"] = json!(state);
    }

    pub fn dispatch(&mut self, session: &mut Session, envelope: &Envelope) -> Caused {
        let id = envelope.text("order_id");
        let order = self
            .orders
            .get(id)
            .filter(|order| order.session == envelope.session);
        let order = order.ok_or("order_not_found")?;
        if order.dispute.is_some() {
            return Err("dispute_open");
        }
        if order.state() != "paid" {
            return Err("invalid_order_state");
        }
        let qty = order.number("qty");
        let named = envelope.payload.get("qty").and_then(Value::as_u64);
        if named.is_some_and(|named| named != qty) {
            return Err("partial_dispatch_unsupported");
        }
        let stock = self.world.stock.get_mut(&order.item()).unwrap();
        *stock = (stock.0 - qty, stock.1 - qty);
        self.set_state(id, "shipped");
        session.reach("fulfilled");
        Ok(vec![UPDATE_INVENTORY, UPDATE_ORDER])
    }

    pub fn request_return(&mut self, envelope: &Envelope, at: u64) -> Caused {
        let order = self.order_of(envelope.text("tx_id"))?;
        if order.session != envelope.session {
            return Err("order_not_found");
        }
        if order.state() != "shipped" {
            return Err("invalid_order_state");
        }
        let (merchant, sku) = order.item();
        let goal = self.goal(&merchant, &sku, at);
        let listed = self.world.catalog[&(merchant, sku)].1;
        if !listed || goal.is_some_and(|goal| !goal.refundable) {
            return Err("not_refundable");
        }
        if order.dispute.is_some() {
            return Err("dispute_open");
        }
        let order_id = order.text("order_id");
        let row = Return {
            order: order_id.clone(),
            session: envelope.session.clone(),
            state: "requested",
            amount: 0,
            restock: false,
        };
        self.returns.insert(object("return", &envelope.id), row);
        self.set_state(&order_id, "return_requested");
        Ok(vec![UPDATE_ORDER])
    }

    pub fn respond_return(&mut self, envelope: &Envelope) -> Caused {
        let id = envelope.text("return_id");
        let row = self
            .returns
            .get(id)
            .filter(|row| row.session == envelope.session);
        let mut row = row.cloned().ok_or("return_not_found")?;
        let order = &self.orders[&row.order];
        if row.state != "requested" || order.state() != "return_requested" {
            return Err("invalid_order_state");
        }
        if order.dispute.is_some() {
            return Err("dispute_open");
        }
        let next = if envelope.text("decision") == "approve" {
            let amount = envelope.payload["refund_amount"].as_u64().unwrap();
            if amount < 1 || amount > order.left() {
                return Err("refund_exceeds_total");
            }
            row.state = "approved";
            row.amount = amount;
            row.restock = envelope.payload["restock"] == true;
            "return_approved"
        } else {
            row.state = "denied";
            "shipped"
        };
        self.set_state(&row.order.clone(), next);
        self.returns.insert(id.to_owned(), row);
        Ok(vec![UPDATE_ORDER])
    }

    pub fn refund(&mut self, session: &mut Session, envelope: &Envelope) -> Caused {
        let order = self.order_of(envelope.text("tx_id"))?.clone();
        if order.session != envelope.session {
            return Err("order_not_found");
        }
        let order_id = order.text("order_id");
        let return_id = envelope.payload["basis"]["return_id"].as_str().unwrap();
        let amount = envelope.payload["amount"].as_u64().unwrap();
        let row = self.returns.get(return_id);
        let row = row.filter(|row| row.order == order_id && row.state == "approved");
        let row = row.filter(|row| row.amount == amount);
        // VC-SM-3: a refund leads on from return_approved alone; while a dispute is open that is the answer.
        let row = row.filter(|_| order.state() == "return_approved" || order.dispute.is_some());
        let row = row.cloned().ok_or("refund_not_authorized")?;
        if order.dispute.is_some() {
            return Err("dispute_open");
        }
        let is_whole = amount == order.left();
        let state = if is_whole {
            "refunded"
        } else {
            "partially_refunded"
        };
        self.give_back(&order, amount, state);
        self.returns.get_mut(return_id).unwrap().state = "paid";
        if is_whole {
            session.reach("closed");
        }
        let mut caused = vec![UPDATE_LEDGER, UPDATE_ORDER];
        if row.restock {
            self.world.stock.get_mut(&order.item()).unwrap().0 += order.number("qty");
            caused.push(UPDATE_INVENTORY);
        }
        Ok(caused)
    }

    fn give_back(&mut self, order: &Order, amount: u64, state: &str) {
        let (from, to) = (order.text("merchant_account"), order.text("buyer_account"));
        self.move_money(&from, &to, amount);
        let row = &mut self.orders.get_mut(&order.text("order_id")).unwrap().row;
        row["state"] = json!(state);
        row["refunded_total"] = json!(order.number("refunded_total") + amount);
    }

    fn check_evidence(&self, list: &Value) -> Result<Vec<String>, Code> {
        let evidence = texts(list);
        match evidence.iter().all(|id| self.known.contains_key(id)) {
            true => Ok(evidence),
            false => Err("evidence_not_found"),
        }
    }

    pub fn open_dispute(&mut self, session: &mut Session, envelope: &Envelope) -> Caused {
        let order = self.order_of(envelope.text("tx_id"))?.clone();
        if order.is_final() {
            return Err("invalid_order_state");
        }
        if order.dispute.is_some() {
            return Err("dispute_exists");
        }
        self.check_evidence(&envelope.payload["evidence"])?;
        let id = object("dispute", &envelope.id);
        let order_id = order.text("order_id");
        let row = json!({"dispute_id": id, "order_id": order_id, "tx_id": envelope.text("tx_id"),
            "opened_by": order.consumer, "reason": envelope.text("reason"), "state": "open", "evidence": []});
        let dispute = Dispute {
            session: envelope.session.clone(),
            merchant: order.text("merchant_id"),
            order: order_id.clone(),
            unanswered: Vec::new(),
            row,
        };
        self.disputes.insert(id.clone(), dispute);
        self.orders.get_mut(&order_id).unwrap().dispute = Some(id);
        session.private = self.sessions[&order.session].private.clone();
        session.consumer = Some(order.consumer);
        Ok(vec!["world.record_dispute"])
    }

    /// A dispute of the session that is not ruled.
    fn dispute_here(&self, envelope: &Envelope) -> Result<Dispute, Code> {
        let dispute = self.disputes.get(envelope.text("dispute_id"));
        let dispute = dispute.filter(|dispute| dispute.session == envelope.session);
        let dispute = dispute.ok_or("dispute_not_found")?;
        match dispute.row["state"] == "ruled" {
            true => Err("dispute_closed"),
            false => Ok(dispute.clone()),
        }
    }

    fn update_dispute(&mut self, envelope: &Envelope, mut dispute: Dispute) -> Caused {
        let waits = !dispute.unanswered.is_empty();
        dispute.row["state"] = json!(if waits { "evidence_requested" } else { "open" });
        self.disputes
            .insert(envelope.text("dispute_id").to_owned(), dispute);
        Ok(vec!["world.update_dispute"])
    }

    pub fn request_evidence(&mut self, envelope: &Envelope) -> Caused {
        let mut dispute = self.dispute_here(envelope)?;
        dispute.unanswered.push(envelope.id.clone());
        self.update_dispute(envelope, dispute)
    }

    pub fn submit_evidence(&mut self, envelope: &Envelope) -> Caused {
        let mut dispute = self.dispute_here(envelope)?;
        let side = |address: &str| address.split(':').next().unwrap().to_owned();
        let asked = self.replied(envelope).is_some_and(|known| {
            known.kind == "platform.request_evidence" && side(known.to) == side(envelope.from)
        });
        if !asked {
            return Err("thread_mismatch");
        }
        let evidence = self.check_evidence(&envelope.payload["evidence"])?;
        let known = dispute.row["evidence"].as_array_mut().unwrap();
        known.extend(evidence.into_iter().map(Value::from));
        dispute
            .unanswered
            .retain(|id| Some(id) != envelope.reply.as_ref());
        self.update_dispute(envelope, dispute)
    }

    pub fn rule(&mut self, session: &mut Session, envelope: &Envelope) -> Caused {
        let dispute = self.dispute_here(envelope)?;
        let order = self.orders[&dispute.order].clone();
        let named = envelope
            .payload
            .get("refund_amount")
            .and_then(Value::as_u64);
        let (amount, state, delta) = match envelope.text("ruling") {
            "deny" => (0, "", 0),
            "refund_full" if named.is_some_and(|named| named != order.left()) => {
                return Err("amount_mismatch");
            }
            "refund_full" => (order.left(), "refunded", -100),
            _ => match named.unwrap() {
                named if named < 1 || named >= order.left() => return Err("refund_exceeds_total"),
                named => (named, "partially_refunded", -50),
            },
        };
        self.check_evidence(&envelope.payload["evidence"])?;
        let delta = envelope
            .payload
            .get("reputation_delta")
            .map_or(delta, |delta| delta.as_i64().unwrap());
        let ruling = object("ruling", &envelope.id);
        let id = envelope.text("dispute_id");
        let row = json!({"ruling_id": ruling, "dispute_id": id, "ruling": envelope.text("ruling"), "refund_amount": amount});
        self.world.rulings.insert(ruling, row);
        self.disputes.get_mut(id).unwrap().row["state"] = json!("ruled");
        self.orders.get_mut(&dispute.order).unwrap().dispute = None;
        let mut caused = vec!["world.record_ruling"];
        if !state.is_empty() {
            self.give_back(&order, amount, state);
            caused.extend([UPDATE_LEDGER, UPDATE_ORDER]);
            if order.state() == "paid" {
                self.world.stock.get_mut(&order.item()).unwrap().1 -= order.number("qty");
                caused.push(UPDATE_INVENTORY);
            }
        }
        if delta != 0 {
            self.move_score(&dispute.merchant, delta);
            caused.push("world.update_reputation");
        }
        session.reach("closed");
        Ok(caused)
    }

    fn move_score(&mut self, merchant: &str, delta: i64) {
        let score = self.world.reputation.get_mut(merchant).unwrap();
        *score = (*score + delta).clamp(0, 1_000);
    }

    pub fn update_reputation(&mut self, envelope: &Envelope) -> Caused {
        let subject = envelope.text("subject");
        if !self.world.reputation.contains_key(subject) {
            return Err("malformed_payload");
        }
        self.check_evidence(&envelope.payload["evidence"])?;
        self.move_score(subject, envelope.payload["delta"].as_i64().unwrap());
        Ok(Vec::new())
    }
}
