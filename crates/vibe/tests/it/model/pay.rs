//! Certificates, the gate, payment and settlement (sections 5.3, 9 and 10), in the model's words.

use serde_json::{Value, json};

use super::deal::texts;
use super::judge::Caused;
use super::state::{
    Auth, Cert, Code, Envelope, Mandate, Model, Offer, Order, Session, account_of, object,
};
use crate::support::{noon, seconds};

/// Whether a list that may be null has a member.
fn among(list: &Value, wanted: &str) -> bool {
    list.is_null() || texts(list).iter().any(|item| item == wanted)
}

impl Model {
    /// What the runtime finds about an offer's claims.
    pub fn verdict_on(&self, offer_id: &str, at: u64) -> Value {
        let claims = self.offers.get(offer_id).map(|offer| {
            let goal = self.goal(&offer.merchant, &offer.sku, at);
            let known = |claim: &String| goal.is_some_and(|goal| goal.claims.contains(claim));
            let one = |claim: &String| json!({"claim": claim, "grounded": known(claim)});
            offer.claims.iter().map(one).collect::<Vec<Value>>()
        });
        json!({"offer_id": offer_id, "policy_version": "verify-1", "results": claims.unwrap_or_default()})
    }

    pub fn verify(&mut self, envelope: &Envelope, at: u64) -> Caused {
        let offer = self.offer_here(envelope)?;
        if offer.state != "accepted" || offer.verification == "none" {
            return Err("offer_not_accepted");
        }
        let found = self.verdict_on(envelope.text("offer_id"), at);
        if found["results"] != envelope.payload["results"] {
            return Err("verification_mismatch");
        }
        let results = found["results"].as_array().unwrap();
        let passed = results.iter().all(|one| one["grounded"] == true);
        let row = self.offers.get_mut(envelope.text("offer_id")).unwrap();
        row.verification = if passed { "passed" } else { "failed" };
        Ok(Vec::new())
    }

    /// What must be before there is a certificate; gives the mandate and the offer.
    fn matched(&self, session: &Session, offer_id: &str, at: u64) -> Result<(String, Offer), Code> {
        let mandate = session.mandate.clone().ok_or("mandate_required")?;
        let offer = self.offers.get(offer_id);
        let offer = offer.filter(|_| session.offers.iter().any(|id| id == offer_id));
        let offer = offer.cloned().ok_or("offer_not_found")?;
        let live = offer.cert.as_ref().map(|id| &self.certs[id]);
        let has_live = live.is_some_and(|cert| check_cert(cert, at).is_ok());
        if !(offer.state == "accepted" || offer.state == "certified" && !has_live) {
            return Err("offer_not_accepted");
        }
        if at >= offer.expires {
            return Err("offer_expired");
        }
        match offer.verification {
            "none" | "requested" => return Err("verification_required"),
            "failed" => return Err("verification_failed"),
            _ => {}
        }
        if self.mandates[&mandate].consumed {
            return Err("mandate_consumed");
        }
        Ok((mandate, offer))
    }

    /// The four checks of VC-OBJ-MatchCertificate-3.
    fn checks(&self, mandate: &Mandate, offer: &Offer, at: u64) -> [bool; 4] {
        let (intent, hard) = (
            &mandate.payload["ap2_intent_mandate"],
            &mandate.payload["hard_constraints"],
        );
        let item = (offer.merchant.clone(), offer.sku.clone());
        let (attributes, refundable) = &self.world.catalog[&item];
        let goal = self.goal(&offer.merchant, &offer.sku, at);
        let refundable = *refundable && goal.is_none_or(|goal| goal.refundable);
        let substitutes = mandate.payload["authority"]["can_accept_substitutes"] == true;
        let has = |wanted: &String| offer.claims.contains(wanted) || attributes.contains(wanted);
        let days = hard["delivery_days"].as_u64();
        let fits = offer.total <= hard["budget"].as_u64().unwrap()
            && days.is_none_or(|days| offer.eta <= days)
            && texts(&hard["must_have"]).iter().all(has)
            && among(&intent["merchants"], &offer.merchant)
            && (among(&intent["skus"], &offer.sku) || substitutes)
            && (intent["requires_refundability"] == false || refundable)
            && at < mandate.expiry;
        let grounded = |claim: &String| goal.is_some_and(|goal| goal.claims.contains(claim));
        let (on_hand, reserved) = self.world.stock[&item];
        let least = hard["min_reputation"].as_i64();
        let least = least.unwrap_or(self.world.policy.min_reputation);
        [
            fits,
            offer.claims.iter().all(grounded),
            on_hand - reserved >= offer.qty,
            self.world.reputation[&offer.merchant] >= least,
        ]
    }

    /// The certificate that the runtime would write now.
    pub fn attestation(
        &self,
        session: &Session,
        offer_id: &str,
        cert_id: &str,
        at: u64,
    ) -> Result<Value, Code> {
        let (mandate_id, offer) = self.matched(session, offer_id, at)?;
        let mandate = &self.mandates[&mandate_id];
        let [fit, grounding, stock, standing] = self.checks(mandate, &offer, at);
        let ends = (at + self.world.policy.cert_ttl_s)
            .min(offer.expires)
            .min(mandate.expiry);
        Ok(json!({
            "cert_id": cert_id, "mandate_id": mandate_id, "offer_id": offer_id, "merchant_id": offer.merchant,
            "sku_id": offer.sku, "qty": offer.qty, "unit_price": offer.price, "total": offer.total, "currency": "USD",
            "checks": {"constraint_fit": fit, "claim_grounding": grounding, "inventory_availability": stock,
                "reputation_threshold": standing},
            "policy_version": "verify-1", "issued_at": noon(at), "expires_at": noon(ends),
        }))
    }

    pub fn certify(&mut self, session: &mut Session, envelope: &Envelope, at: u64) -> Caused {
        let (offer_id, cert_id) = (envelope.text("offer_id"), envelope.text("cert_id"));
        let (mandate_id, offer) = self.matched(session, offer_id, at)?;
        if self.certs.contains_key(cert_id) {
            return Err("duplicate_object");
        }
        let mandate = &self.mandates[&mandate_id];
        if self.checks(mandate, &offer, at).contains(&false) {
            return Err("verification_failed");
        }
        let issued = seconds(&envelope.payload["issued_at"]);
        let ends = seconds(&envelope.payload["expires_at"]);
        let latest = (issued + self.world.policy.cert_ttl_s)
            .min(offer.expires)
            .min(mandate.expiry);
        let mut truth = self.attestation(session, offer_id, cert_id, at)?;
        truth["issued_at"] = envelope.payload["issued_at"].clone();
        truth["expires_at"] = envelope.payload["expires_at"].clone();
        if truth != envelope.payload || issued > at || at - issued > 60 || ends > latest {
            return Err("verification_mismatch");
        }
        let cert = Cert {
            session: envelope.session.clone(),
            mandate: mandate_id,
            offer: offer_id.to_owned(),
            expires: ends,
            state: "issued",
            auth: None,
        };
        self.certs.insert(cert_id.to_owned(), cert);
        let row = self.offers.get_mut(offer_id).unwrap();
        row.state = "certified";
        row.cert = Some(cert_id.to_owned());
        session.certs.push(cert_id.to_owned());
        session.reach("certified");
        if self.gate(cert_id) {
            session.reach("approved");
        }
        Ok(Vec::new())
    }

    /// Whether the human gate is satisfied (VC-GATE-3, VC-GATE-4).
    pub fn gate(&self, cert_id: &str) -> bool {
        let cert = &self.certs[cert_id];
        let authority = &self.mandates[&cert.mandate].payload["authority"];
        let ceiling = authority["max_spend_without_confirmation"]
            .as_u64()
            .unwrap();
        let alone = authority["can_buy_without_confirmation"] == true
            && self.offers[&cert.offer].total < ceiling;
        alone || cert.state == "approved"
    }

    /// A certificate of the session that can still be used.
    fn cert_here(&self, envelope: &Envelope, at: u64) -> Result<Cert, Code> {
        let cert = self.certs.get(envelope.text("cert_id"));
        let cert = cert.filter(|cert| cert.session == envelope.session);
        let cert = cert.ok_or("cert_not_found")?;
        check_cert(cert, at)?;
        Ok(cert.clone())
    }

    pub fn approve(&mut self, session: &mut Session, envelope: &Envelope, at: u64) -> Caused {
        if self.cert_here(envelope, at)?.state == "approved" {
            return Err("already_approved");
        }
        let row = self.certs.get_mut(envelope.text("cert_id")).unwrap();
        row.state = "approved";
        session.reach("approved");
        Ok(Vec::new())
    }

    pub fn reject_purchase(&mut self, envelope: &Envelope, at: u64) -> Caused {
        self.cert_here(envelope, at)?;
        let row = self.certs.get_mut(envelope.text("cert_id")).unwrap();
        row.state = "rejected";
        if let Some(auth) = row.auth.as_mut().filter(|auth| auth.state == "live") {
            auth.state = "voided";
            let auth = auth.clone();
            self.release(&auth);
        }
        Ok(Vec::new())
    }

    fn release(&mut self, auth: &Auth) {
        if let Some(holds) = self.holds.get_mut(&auth.account) {
            holds.retain(|(id, ..)| *id != auth.id);
        }
    }

    /// What the platform asks of an account for a certificate.
    pub fn payment(&self, cert_id: &str, account: &str) -> Value {
        let offer = self
            .certs
            .get(cert_id)
            .map(|cert| &self.offers[&cert.offer]);
        let (total, merchant) =
            offer.map_or((10, "m1"), |offer| (offer.total, offer.merchant.as_str()));
        json!({"cert_id": cert_id, "payment_instrument": {"type": "card", "account_id": account},
            "payment_mandate": {"payment_mandate_id": "pay", "payment_details_id": cert_id,
                "payment_details_total": {"currency": "USD", "amount": total}, "merchant_agent": merchant,
                "timestamp": noon(0)}})
    }

    pub fn authorize(&mut self, session: &mut Session, envelope: &Envelope, at: u64) -> Caused {
        let cert_id = envelope.text("cert_id");
        let cert = self.cert_here(envelope, at)?;
        if !self.gate(cert_id) {
            return Err("approval_required");
        }
        let offer = self.offers[&cert.offer].clone();
        let wanted = &envelope.payload["payment_mandate"];
        if wanted["payment_details_total"] != json!({"currency": "USD", "amount": offer.total})
            || wanted["merchant_agent"] != offer.merchant.as_str()
        {
            return Err("amount_mismatch");
        }
        let account_id = &envelope.payload["payment_instrument"]["account_id"];
        let account_id = account_id.as_str().unwrap();
        let account = self.world.ledger.get(account_id);
        let account = account.filter(|(owner, ..)| Some(owner) == session.consumer.as_ref());
        let (_, currency, balance) = account.ok_or("identity_mismatch")?;
        if cert.auth.is_some_and(|auth| is_live(&auth, at)) {
            return Err("already_authorized");
        }
        let holds = self.holds.entry(account_id.to_owned()).or_default();
        let held: u64 = holds
            .iter()
            .filter(|(.., until)| at < *until)
            .map(|(_, amount, _)| amount)
            .sum();
        if currency != "USD" || i64::try_from(held + offer.total).unwrap() > *balance {
            return Err("payment_declined");
        }
        let auth = Auth {
            id: object("auth", &envelope.id),
            account: account_id.to_owned(),
            until: (at + self.world.policy.auth_ttl_s).min(cert.expires),
            state: "live",
        };
        holds.push((auth.id.clone(), offer.total, auth.until));
        self.certs.get_mut(cert_id).unwrap().auth = Some(auth);
        session.reach("authorized");
        Ok(Vec::new())
    }

    pub fn settle(&mut self, session: &mut Session, envelope: &Envelope, at: u64) -> Caused {
        let cert_id = envelope.text("cert_id").to_owned();
        let cert = self.cert_here(envelope, at)?;
        if self.mandates[&cert.mandate].consumed {
            return Err("mandate_consumed");
        }
        if !self.gate(&cert_id) {
            return Err("approval_required");
        }
        let named = envelope.payload.get("auth_id").and_then(Value::as_str);
        let auth = cert.auth.clone().filter(|auth| is_live(auth, at));
        let auth = auth.filter(|auth| named.is_none_or(|named| named == auth.id));
        let auth = auth.ok_or("payment_not_authorized")?;
        let offer = self.offers[&cert.offer].clone();
        let item = (offer.merchant.clone(), offer.sku.clone());
        let (on_hand, reserved) = self.world.stock[&item];
        if on_hand - reserved < offer.qty {
            return Err("insufficient_inventory");
        }
        let total = i64::try_from(offer.total).unwrap();
        if self.world.ledger[&auth.account].2 < total {
            return Err("invariant_violation");
        }
        self.move_money(&auth.account, &account_of(&offer.merchant), offer.total);
        self.world.stock.get_mut(&item).unwrap().1 += offer.qty;
        self.release(&auth);
        let order_id = self.put_order(session, envelope, &cert, &auth, &offer);
        self.use_up(session, &cert_id, &cert);
        session.orders.push(order_id);
        session.reach("settled");
        Ok(vec![
            "world.create_order",
            "world.reserve_inventory",
            "world.update_ledger",
        ])
    }

    fn put_order(
        &mut self,
        session: &Session,
        envelope: &Envelope,
        cert: &Cert,
        auth: &Auth,
        offer: &Offer,
    ) -> String {
        let (order_id, tx_id) = (object("order", &envelope.id), object("tx", &envelope.id));
        let row = json!({
            "order_id": order_id, "tx_id": tx_id, "cert_id": envelope.text("cert_id"), "mandate_id": cert.mandate,
            "offer_id": cert.offer, "merchant_id": offer.merchant, "sku_id": offer.sku, "qty": offer.qty,
            "unit_price": offer.price, "total": offer.total, "currency": "USD", "buyer_account": auth.account,
            "merchant_account": account_of(&offer.merchant), "state": "paid", "refunded_total": 0,
        });
        let order = Order {
            session: envelope.session.clone(),
            consumer: session.consumer.clone().unwrap(),
            row,
            dispute: None,
        };
        self.orders.insert(order_id.clone(), order);
        self.transactions.insert(tx_id, order_id.clone());
        order_id
    }

    /// VC-SET-4: certificate, mandate and every other offer.
    fn use_up(&mut self, session: &Session, cert_id: &str, cert: &Cert) {
        self.mandates.get_mut(&cert.mandate).unwrap().consumed = true;
        let row = self.certs.get_mut(cert_id).unwrap();
        row.state = "consumed";
        row.auth.as_mut().unwrap().state = "captured";
        for id in &session.offers {
            let offer = self.offers.get_mut(id).unwrap();
            if *id == cert.offer {
                offer.state = "settled";
            } else if ["open", "accepted", "certified"].contains(&offer.state) {
                offer.state = "closed";
            }
        }
    }

    pub fn move_money(&mut self, from: &str, to: &str, amount: u64) {
        let amount = i64::try_from(amount).unwrap();
        self.world.ledger.get_mut(from).unwrap().2 -= amount;
        self.world.ledger.get_mut(to).unwrap().2 += amount;
    }
}

/// Whether a certificate can still be used (VC-CLR-3).
pub fn check_cert(cert: &Cert, at: u64) -> Result<(), Code> {
    match cert.state {
        "rejected" => Err("purchase_rejected"),
        "consumed" => Err("cert_consumed"),
        _ if at >= cert.expires => Err("cert_expired"),
        _ => Ok(()),
    }
}

/// Whether an authorization holds money.
pub fn is_live(auth: &Auth, at: u64) -> bool {
    auth.state == "live" && at < auth.until
}
