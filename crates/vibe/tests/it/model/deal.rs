//! Mandates, goals and negotiation (sections 5.1 and 5.2), in the model's words.

use serde_json::Value;

use super::judge::Caused;
use super::state::{Code, Envelope, Goal, Mandate, Model, Offer, Session, phase};
use crate::support::seconds;

/// The strings of a list.
pub fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}

impl Model {
    pub fn create_mandate(
        &mut self,
        session: &mut Session,
        envelope: &Envelope,
        at: u64,
    ) -> Caused {
        let id = envelope.text("mandate_id");
        if session.mandate.is_some() {
            return Err("mandate_exists");
        }
        if self.mandates.contains_key(id) {
            return Err("duplicate_object");
        }
        let expiry = seconds(&envelope.payload["ap2_intent_mandate"]["intent_expiry"]);
        if expiry <= at {
            return Err("mandate_expired");
        }
        let named = envelope.payload["consumer_id"].as_str().map(str::to_owned);
        let known = session.consumer.take();
        let consumer = named.or(known);
        session.consumer = consumer.or(Some(["c_", &envelope.session].concat()));
        session.mandate = Some(id.to_owned());
        let budget = &envelope.payload["hard_constraints"]["budget"];
        session.private = vec![budget.as_u64().unwrap()];
        session.reach("mandated");
        let mandate = Mandate {
            consumed: false,
            payload: envelope.payload.clone(),
            expiry,
            cart: false,
        };
        self.mandates.insert(id.to_owned(), mandate);
        Ok(Vec::new())
    }

    pub fn set_goal(&mut self, session: &mut Session, envelope: &Envelope) -> Caused {
        let payload = &envelope.payload;
        let goal = Goal {
            floor: payload["pricing"]["floor_price"].as_u64().unwrap(),
            claims: texts(&payload["permitted_claims"]),
            rounds: payload["negotiation"]["max_rounds"].as_u64().unwrap_or(20),
            refundable: payload["returns"]["refundable"].as_bool().unwrap_or(true),
            until: payload.get("valid_until").map(seconds),
        };
        for sku in texts(&payload["skus"]) {
            let item = (envelope.text("merchant_id").to_owned(), sku);
            self.goals.insert(item, goal.clone());
        }
        session.reach("mandated");
        Ok(Vec::new())
    }

    /// The goal in force for an item.
    pub fn goal(&self, merchant: &str, sku: &str, at: u64) -> Option<&Goal> {
        let goal = self.goals.get(&(merchant.to_owned(), sku.to_owned()))?;
        goal.until.is_none_or(|until| at < until).then_some(goal)
    }

    pub fn listed(&self, envelope: &Envelope) -> Result<(), Code> {
        let item = (
            envelope.text("merchant_id").to_owned(),
            envelope.text("sku_id").to_owned(),
        );
        match self.world.catalog.contains_key(&item) {
            true => Ok(()),
            false => Err("sku_not_found"),
        }
    }

    pub fn respond_inquiry(&self, envelope: &Envelope) -> Caused {
        match self.replied(envelope) {
            Some(known) if known.kind == "commerce.request_offer" && known.asks => Ok(Vec::new()),
            _ => Err("thread_mismatch"),
        }
    }

    pub fn rank(&self, envelope: &Envelope) -> Caused {
        let is_search = self
            .replied(envelope)
            .is_some_and(|known| known.kind == "commerce.search");
        match is_search && envelope.reply.as_deref() == Some(envelope.text("query_msg_id")) {
            true => Ok(Vec::new()),
            false => Err("thread_mismatch"),
        }
    }

    fn check_proposal(&self, session: &Session, envelope: &Envelope, at: u64) -> Result<(), Code> {
        if session.phase >= phase("settled") {
            return Err("session_settled");
        }
        if self.offers.contains_key(envelope.text("offer_id")) {
            return Err("duplicate_object");
        }
        self.listed(envelope)?;
        if seconds(&envelope.payload["expires_at"]) <= at {
            return Err("offer_expired");
        }
        let price = envelope.payload["unit_price"].as_u64().unwrap();
        let (merchant, sku) = (envelope.text("merchant_id"), envelope.text("sku_id"));
        self.check_floor(envelope, merchant, sku, price, at)
    }

    fn check_floor(
        &self,
        envelope: &Envelope,
        merchant: &str,
        sku: &str,
        price: u64,
        at: u64,
    ) -> Result<(), Code> {
        let goal = self.goal(merchant, sku, at);
        match goal {
            Some(goal) if !envelope.is_buyers() && price < goal.floor => {
                Err("offer_outside_mandate")
            }
            _ => Ok(()),
        }
    }

    fn put_offer(&mut self, session: &mut Session, envelope: &Envelope, round: u64, thread: &str) {
        let payload = &envelope.payload;
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let (qty, price) = (number(&payload["qty"]), number(&payload["unit_price"]));
        let id = envelope.text("offer_id").to_owned();
        let offer = Offer {
            session: envelope.session.clone(),
            merchant: envelope.text("merchant_id").to_owned(),
            sku: envelope.text("sku_id").to_owned(),
            qty,
            price,
            eta: number(&payload["fulfillment"]["eta_days"]),
            total: qty * price + number(&payload["fulfillment"]["fee"]),
            claims: texts(&payload["claims"]),
            expires: seconds(&payload["expires_at"]),
            by_buyer: envelope.is_buyers(),
            state: "open",
            round,
            thread: thread.to_owned(),
            verification: "none",
            cert: None,
            carrier: envelope.id.clone(),
        };
        self.offers.insert(id.clone(), offer);
        session.offers.push(id);
        session.reach("negotiating");
    }

    pub fn propose(&mut self, session: &mut Session, envelope: &Envelope, at: u64) -> Caused {
        self.check_proposal(session, envelope, at)?;
        self.put_offer(session, envelope, 1, &envelope.id);
        Ok(Vec::new())
    }

    pub fn counter(&mut self, session: &mut Session, envelope: &Envelope, at: u64) -> Caused {
        let answered = self.replied(envelope).and_then(|known| known.offer.clone());
        let old_id = answered.ok_or("thread_mismatch")?;
        let old = self.offers[&old_id].clone();
        check_open(&old, at)?;
        if old.by_buyer == envelope.is_buyers() {
            return Err("own_offer");
        }
        let mandate = session
            .mandate
            .as_ref()
            .map(|id| &self.mandates[id].payload);
        let authority = mandate.map(|mandate| &mandate["authority"]);
        let may = |name: &str, default| {
            authority.map_or(default, |authority| authority[name].as_bool().unwrap())
        };
        let (merchant, sku) = (envelope.text("merchant_id"), envelope.text("sku_id"));
        if merchant != old.merchant || (sku != old.sku && !may("can_accept_substitutes", false)) {
            return Err("substitute_not_allowed");
        }
        self.check_proposal(session, envelope, at)?;
        if envelope.is_buyers() && !may("can_negotiate", true) {
            return Err("authority_exceeded");
        }
        let rounds = self.goal(merchant, sku, at).map_or(20, |goal| goal.rounds);
        if old.round + 1 > rounds {
            return Err("round_limit");
        }
        self.offers.get_mut(&old_id).unwrap().state = "superseded";
        self.put_offer(session, envelope, old.round + 1, &old.thread);
        Ok(Vec::new())
    }

    /// An offer of the session.
    pub fn offer_here(&self, envelope: &Envelope) -> Result<Offer, Code> {
        let offer = self.offers.get(envelope.text("offer_id"));
        let offer = offer.filter(|offer| offer.session == envelope.session);
        offer.cloned().ok_or("offer_not_found")
    }

    fn check_answer(&self, envelope: &Envelope, offer: &Offer, at: u64) -> Result<(), Code> {
        check_open(offer, at)?;
        if offer.by_buyer == envelope.is_buyers() {
            return Err("own_offer");
        }
        Ok(())
    }

    fn check_thread(&self, envelope: &Envelope, offer: &Offer) -> Result<(), Code> {
        let thread = self
            .replied(envelope)
            .and_then(|known| known.thread.as_ref());
        match thread == Some(&offer.thread) {
            true => Ok(()),
            false => Err("thread_mismatch"),
        }
    }

    pub fn accept(&mut self, session: &mut Session, envelope: &Envelope, at: u64) -> Caused {
        let offer = self.offer_here(envelope)?;
        let asks = envelope.to == "platform:aggregator";
        if asks && offer.verification != "none" {
            return Err("already_requested");
        }
        if !(asks && offer.state == "accepted") {
            self.check_answer(envelope, &offer, at)?;
        }
        self.check_thread(envelope, &offer)?;
        self.check_floor(envelope, &offer.merchant, &offer.sku, offer.price, at)?;
        let row = self.offers.get_mut(envelope.text("offer_id")).unwrap();
        row.state = "accepted";
        if asks {
            row.verification = "requested";
        }
        session.reach("agreed");
        Ok(Vec::new())
    }

    pub fn reject_offer(&mut self, envelope: &Envelope, at: u64) -> Caused {
        let offer = self.offer_here(envelope)?;
        self.check_answer(envelope, &offer, at)?;
        self.check_thread(envelope, &offer)?;
        let row = self.offers.get_mut(envelope.text("offer_id")).unwrap();
        row.state = "rejected";
        Ok(Vec::new())
    }

    pub fn create_cart(&mut self, session: &Session, envelope: &Envelope) -> Caused {
        let offer = self.offer_here(envelope)?;
        let mandate = session.mandate.clone().ok_or("mandate_required")?;
        if !["accepted", "certified", "settled"].contains(&offer.state) {
            return Err("offer_not_accepted");
        }
        let details = &envelope.payload["contents"]["payment_request"]["details"];
        let said = details["total"]["amount"]["value"].as_u64();
        let items = details["display_items"].as_array().unwrap();
        let shown: u64 = items
            .iter()
            .map(|item| item["amount"]["value"].as_u64().unwrap())
            .sum();
        if said != Some(offer.total) || shown != offer.total {
            return Err("amount_mismatch");
        }
        self.mandates.get_mut(&mandate).unwrap().cart = true;
        Ok(Vec::new())
    }
}

fn check_open(offer: &Offer, at: u64) -> Result<(), Code> {
    match offer.state {
        "open" if at >= offer.expires => Err("offer_expired"),
        "open" => Ok(()),
        "superseded" => Err("offer_superseded"),
        _ => Err("offer_closed"),
    }
}
