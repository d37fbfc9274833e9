//! The pipeline of section 3 in the model's words, and what the platform sends by itself (VC-PLAT-1).

use serde_json::{Value, json};

use super::state::{Bound, Code, Envelope, Known, Model, Outcome, Session, child, object, phase};
use super::table::{ANSWERS, Row};

/// Seconds for which a key stays bound (VC-IDEM-7).
const RETENTION_S: u64 = 86_400;

/// What an action did: the kinds of the world envelopes that it caused.
pub type Caused = Result<Vec<&'static str>, Code>;

/// Every number of a value.
fn numbers<'v>(value: &'v Value, found: &mut Vec<&'v serde_json::Number>) {
    match value {
        Value::Number(number) => found.push(number),
        Value::Array(items) => items.iter().for_each(|item| numbers(item, found)),
        Value::Object(members) => members.values().for_each(|member| numbers(member, found)),
        _ => {}
    }
}

impl Model {
    /// Says what comes of an envelope, and lets it.
    pub fn judge(&mut self, envelope: &Envelope) -> Outcome {
        self.admit(envelope).unwrap_or_else(Outcome::Refused)
    }

    fn admit(&mut self, envelope: &Envelope) -> Result<Outcome, Code> {
        let row = Row::of(envelope.kind).ok_or("unknown_action")?;
        if !row.allows(envelope.from, envelope.to) {
            return Err("partition_denied");
        }
        if row.runtime {
            return Err("outside_transaction");
        }
        if row.mutation && envelope.key.is_none() {
            return Err("idempotency_key_required");
        }
        let session = self.sessions.get(&envelope.session);
        let at = session.map_or(envelope.ts, |session| session.clock.max(envelope.ts));
        let key = (row.mutation, envelope.key.clone());
        let scope = match key {
            (true, Some(key)) => Some((envelope.from, key)),
            _ => None,
        };
        if let Some(bound) = scope.as_ref().and_then(|scope| self.keys.get(scope))
            && at.saturating_sub(bound.at) <= RETENTION_S
        {
            return match bound.envelope.same_request(envelope) {
                true => Ok(Outcome::Replayed(bound.number)),
                false => Err("idempotency_conflict"),
            };
        }
        if self.known.contains_key(&envelope.id) {
            return Err("duplicate_msg_id");
        }
        check_payload(row, envelope)?;
        self.check_private(envelope)?;
        let mut session = self.enter(envelope, at)?;
        let (emitted, follow_up_error) = self.carry_out(&mut session, envelope, at)?;
        session.clock = at;
        self.sessions.insert(envelope.session.clone(), session);
        if let Some(scope) = scope {
            let bound = Bound {
                envelope: envelope.clone(),
                at,
                number: self.accepted,
            };
            self.keys.insert(scope, bound);
        }
        self.accepted += 1;
        Ok(Outcome::Accepted {
            emitted,
            follow_up_error,
        })
    }

    /// Section 6, as far as the model's envelopes go: they hold private values as numbers or not at all.
    fn check_private(&self, envelope: &Envelope) -> Result<(), Code> {
        let own: Vec<u64> = if envelope.is_buyers() {
            // VC-CLR-16: a dispute has the store of the session that its order came from, from its first envelope on.
            let order = match envelope.kind {
                "platform.open_dispute" => self.transactions.get(envelope.text("tx_id")),
                _ => None,
            };
            let origin = order.map(|order| &self.orders[order].session);
            let session = match self.sessions.get(&envelope.session) {
                None => origin.and_then(|origin| self.sessions.get(origin)),
                known => known,
            };
            session.map_or_else(Vec::new, |session| session.private.clone())
        } else if envelope.from.starts_with("merchant") && !envelope.kind.starts_with("delegate") {
            let merchant = self.merchant_of(envelope);
            let goals = self.goals.iter();
            let own = goals.filter(|((of, _), _)| merchant.as_ref().is_none_or(|own| own == of));
            own.map(|(_, goal)| goal.floor).collect()
        } else {
            Vec::new()
        };
        let mut said = Vec::new();
        numbers(&envelope.payload, &mut said);
        let leaks = said
            .iter()
            .filter_map(|number| number.as_u64())
            .any(|number| own.contains(&number));
        if leaks {
            Err("private_utility_leak")
        } else {
            Ok(())
        }
    }

    /// The merchant that a payload is about (VC-ADR-9); none where nothing tells.
    fn merchant_of(&self, envelope: &Envelope) -> Option<String> {
        let named = envelope.payload["merchant_id"].as_str().map(str::to_owned);
        let offer = self.offers.get(envelope.text("offer_id"));
        let back = self.returns.get(envelope.text("return_id"));
        let order = back.map_or(envelope.text("order_id"), |back| &back.order);
        let order = self
            .orders
            .get(order)
            .map(|order| order.text("merchant_id"));
        let dispute = self.disputes.get(envelope.text("dispute_id"));
        named
            .or(offer.map(|offer| offer.merchant.clone()))
            .or(order)
            .or(dispute.map(|dispute| dispute.merchant.clone()))
    }

    /// Step 14: the session, and what is answered.
    fn enter(&self, envelope: &Envelope, at: u64) -> Result<Session, Code> {
        let opens = match envelope.kind {
            "delegate.create_purchase_mandate" | "commerce.search" => Some("buyer_journey"),
            "delegate.set_business_goal" => Some("merchant"),
            "platform.open_dispute" => Some("dispute"),
            _ => None,
        };
        let negotiates = [
            "commerce.request_offer",
            "commerce.propose_offer",
            "commerce.counter_offer",
            "commerce.accept_offer",
            "commerce.reject_offer",
        ];
        let session = match (self.sessions.get(&envelope.session), opens) {
            (None, None) => return Err("session_not_found"),
            (None, Some(kind)) => Session {
                kind,
                phase: phase("browsing"),
                clock: at,
                consumer: None,
                mandate: None,
                private: Vec::new(),
                offers: Vec::new(),
                certs: Vec::new(),
                orders: Vec::new(),
            },
            (Some(_), Some("dispute")) => return Err("session_exists"),
            (Some(session), Some(kind)) if session.kind != kind => return Err("session_exists"),
            (Some(session), None)
                if negotiates.contains(&envelope.kind) && session.kind != "buyer_journey" =>
            {
                return Err("session_not_found");
            }
            (Some(session), _) => session.clone(),
        };
        if envelope.kind == "platform.open_dispute" && envelope.reply.is_some() {
            return Err("malformed_payload");
        }
        match &envelope.reply {
            None if ANSWERS.contains(&envelope.kind) => Err("in_reply_to_required"),
            None => Ok(session),
            Some(id) => match self.known.get(id) {
                Some(known) if known.session == envelope.session => Ok(session),
                _ => Err("in_reply_to_not_found"),
            },
        }
    }

    /// The envelope that is answered.
    pub fn replied(&self, envelope: &Envelope) -> Option<&Known> {
        self.known.get(envelope.reply.as_ref()?)
    }

    /// An envelope with all that follows: the kinds of it, and why the platform stopped.
    fn carry_out(
        &mut self,
        session: &mut Session,
        envelope: &Envelope,
        at: u64,
    ) -> Result<(Vec<&'static str>, Option<Code>), Code> {
        let mut emitted = self.perform(session, envelope, at)?;
        if !self.auto {
            return Ok((emitted, None));
        }
        let mut next = emitted.len() + 1;
        // Claims that are verified by hand are certified by hand as well.
        let mut due = match envelope.kind {
            "platform.verify_claims" => None,
            _ => self.follow_up(session, envelope, &child(&envelope.id, next), at),
        };
        while let Some(made) = due {
            let made = match made {
                Ok(made) => made,
                Err(code) => return Ok((emitted, Some(code))),
            };
            match self.perform(session, &made, at) {
                Ok(caused) => {
                    emitted.push(made.kind);
                    emitted.extend(caused);
                }
                Err(code) => return Ok((emitted, Some(code))),
            }
            next += 1;
            due = self.follow_up(session, &made, &child(&envelope.id, next), at);
            if let Some(Ok(made)) = &mut due {
                made.reply = Some(envelope.id.clone());
            }
        }
        Ok((emitted, None))
    }

    /// What the platform sends after an envelope, under an identifier.
    fn follow_up(
        &self,
        session: &Session,
        after: &Envelope,
        id: &str,
        at: u64,
    ) -> Option<Result<Envelope, Code>> {
        let (aggregator, buyer) = ("platform:aggregator", "buyer:authorization");
        let (way, payload) = match after.kind {
            "commerce.search" => {
                let way = [aggregator, "buyer:discovery", "platform.rank_offers"];
                (way, json!({"query_msg_id": after.id}))
            }
            "commerce.accept_offer" if after.to == aggregator => {
                let way = [aggregator, buyer, "platform.verify_claims"];
                (way, self.verdict_on(after.text("offer_id"), at))
            }
            "platform.verify_claims" => {
                let offer_id = after.text("offer_id");
                if self.offers[offer_id].verification != "passed" {
                    return None;
                }
                let written = self.attestation(session, offer_id, &object("cert", id), at);
                let way = [aggregator, buyer, "platform.create_match_certificate"];
                match written {
                    Ok(payload) => (way, payload),
                    Err(code) => return Some(Err(code)),
                }
            }
            "platform.create_match_certificate" | "delegate.approve_purchase" => {
                let way = ["platform:psp", buyer, "platform.authorize_payment"];
                (way, self.payment_due(after.text("cert_id"))?)
            }
            "commerce.respond_return" if after.text("decision") == "approve" => {
                let way = ["platform:psp", buyer, "platform.refund_payment"];
                (way, self.refund_due(after.text("return_id")))
            }
            _ => return None,
        };
        let [from, to, kind] = way;
        Some(Ok(Envelope {
            id: id.to_owned(),
            ts: after.ts,
            from,
            to,
            session: after.session.clone(),
            reply: Some(after.id.clone()),
            key: Some(id.to_owned()),
            kind,
            payload,
        }))
    }

    /// What is asked of the account that the mandate names, once the gate is satisfied.
    fn payment_due(&self, cert_id: &str) -> Option<Value> {
        if !self.gate(cert_id) {
            return None;
        }
        let mandate = &self.mandates[&self.certs[cert_id].mandate];
        let account = mandate.payload["payment_instrument"]["account_id"].as_str()?;
        Some(self.payment(cert_id, account))
    }

    /// What an approved return promised.
    fn refund_due(&self, return_id: &str) -> Value {
        let row = &self.returns[return_id];
        json!({"tx_id": self.orders[&row.order].text("tx_id"), "amount": row.amount,
            "basis": {"return_id": return_id}})
    }

    /// One envelope: its action, and that it is known from now on with what it caused.
    fn perform(&mut self, session: &mut Session, envelope: &Envelope, at: u64) -> Caused {
        let caused = self.act(session, envelope, at)?;
        let thread = match envelope.kind {
            "commerce.propose_offer" => Some(envelope.id.clone()),
            _ => self
                .replied(envelope)
                .and_then(|known| known.thread.clone()),
        };
        let carries = ["commerce.propose_offer", "commerce.counter_offer"];
        let known = Known {
            session: envelope.session.clone(),
            kind: envelope.kind,
            to: envelope.to,
            thread,
            offer: carries
                .contains(&envelope.kind)
                .then(|| envelope.text("offer_id").to_owned()),
            asks: envelope.payload.get("inquiry").is_some(),
        };
        for (index, kind) in caused.iter().enumerate() {
            let caused = Known {
                kind,
                to: "world",
                offer: None,
                asks: false,
                ..known.clone()
            };
            self.known.insert(child(&envelope.id, index + 1), caused);
        }
        self.known.insert(envelope.id.clone(), known);
        Ok(caused)
    }

    fn act(&mut self, session: &mut Session, envelope: &Envelope, at: u64) -> Caused {
        match envelope.kind {
            "delegate.create_purchase_mandate" => self.create_mandate(session, envelope, at),
            "delegate.approve_purchase" => self.approve(session, envelope, at),
            "delegate.reject_purchase" => self.reject_purchase(envelope, at),
            "delegate.set_business_goal" => self.set_goal(session, envelope),
            "commerce.search" => Ok(Vec::new()),
            "commerce.request_offer" => self.listed(envelope).map(|()| Vec::new()),
            "commerce.propose_offer" => self.propose(session, envelope, at),
            "commerce.counter_offer" => self.counter(session, envelope, at),
            "commerce.accept_offer" => self.accept(session, envelope, at),
            "commerce.reject_offer" => self.reject_offer(envelope, at),
            "commerce.create_cart" => self.create_cart(session, envelope),
            "commerce.respond_inquiry" => self.respond_inquiry(envelope),
            "commerce.dispatch" => self.dispatch(session, envelope),
            "commerce.request_return" => self.request_return(envelope, at),
            "commerce.respond_return" => self.respond_return(envelope),
            "platform.rank_offers" => self.rank(envelope),
            "platform.verify_claims" => self.verify(envelope, at),
            "platform.create_match_certificate" => self.certify(session, envelope, at),
            "platform.authorize_payment" => self.authorize(session, envelope, at),
            "platform.settle_payment" => self.settle(session, envelope, at),
            "platform.refund_payment" => self.refund(session, envelope),
            "platform.open_dispute" => self.open_dispute(session, envelope),
            "platform.request_evidence" => self.request_evidence(envelope),
            "platform.submit_evidence" => self.submit_evidence(envelope),
            "platform.rule_dispute" => self.rule(session, envelope),
            "world.update_reputation" => self.update_reputation(envelope),
            other => panic!("{other} is not carried out by itself"),
        }
    }
}

/// Step 12: the money scan, then the members (VC-CLR-5). The model puts fractions into money alone.
fn check_payload(row: &Row, envelope: &Envelope) -> Result<(), Code> {
    let mut said = Vec::new();
    numbers(&envelope.payload, &mut said);
    if said.iter().any(|number| number.is_f64()) {
        return Err("money_not_integer");
    }
    let payload = &envelope.payload;
    if row.needs.iter().any(|name| payload.get(name).is_none()) {
        return Err("malformed_payload");
    }
    let claims = payload.get("claims").and_then(Value::as_array);
    let is_bid = envelope.is_buyers() && claims.is_some_and(|claims| !claims.is_empty());
    let has_amount = payload.get("refund_amount").is_some();
    let fits = match (
        envelope.kind,
        envelope.text("decision"),
        envelope.text("ruling"),
    ) {
        ("commerce.respond_return", "approve", _) | (_, _, "refund_partial") => has_amount,
        ("commerce.respond_return", ..) | (_, _, "deny") => !has_amount,
        ("platform.refund_payment", ..) => payload["amount"] != 0,
        _ => true,
    };
    if is_bid || !fits {
        Err("malformed_payload")
    } else {
        Ok(())
    }
}
