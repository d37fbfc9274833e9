//! What is sent next: mostly what leads a deal on, sometimes anything at all, sometimes the same again or spoilt.

use serde_json::{Value, json};

use super::dice::Dice;
use super::pay::{check_cert, is_live};
use super::state::{Cert, Envelope, Model, Offer};
use crate::support::noon;

pub const PRICING: &str = "merchant:pricing";
pub const NEGOTIATION: &str = "buyer:negotiation";
pub const AUTHORIZATION: &str = "buyer:authorization";
pub const SUPPORT: &str = "merchant:support";
pub const AGGREGATOR: &str = "platform:aggregator";
pub const PSP: &str = "platform:psp";

impl Model {
    /// The next envelope.
    pub fn compose(&mut self, dice: &mut Dice<'_>) -> Envelope {
        self.now += match dice.below(400) {
            0 => 90_000,
            1..=5 => 300 + dice.below(800) as u64,
            _ => dice.below(9) as u64,
        };
        let mut envelope = match dice.below(100) {
            0..=4 => self.again(dice),
            5..=12 => self.anything(dice),
            _ => self.onward(dice),
        };
        if dice.chance(3) {
            self.spoil(&mut envelope, dice);
        }
        if dice.chance(5) {
            envelope.ts = envelope.ts.saturating_sub(dice.below(2_000) as u64);
        }
        envelope
    }

    pub fn fresh(&mut self, prefix: &str) -> String {
        self.made += 1;
        // Wide enough that names sort in the order in which they were made.
        format!("{prefix}x{:06}", self.made)
    }

    pub fn envelope(
        &mut self,
        (from, to, kind): (&'static str, &'static str, &'static str),
        session: &str,
        reply: Option<&str>,
        payload: Value,
    ) -> Envelope {
        let id = self.fresh("e");
        Envelope {
            key: Some(format!("k{id}")),
            id,
            ts: self.now,
            from,
            to,
            session: session.to_owned(),
            reply: reply.map(str::to_owned),
            kind,
            payload,
        }
    }

    /// An earlier mutation once more, or its key for something else.
    fn again(&mut self, dice: &mut Dice<'_>) -> Envelope {
        let at = dice.below(self.keys.len());
        let Some(bound) = self.keys.values().nth(at).cloned() else {
            return self.open(dice);
        };
        let mut envelope = bound.envelope;
        envelope.ts = self.now;
        if dice.chance(80) {
            envelope.id = self.fresh("e");
        }
        if dice.chance(25) {
            envelope.payload["x_more"] = json!(true);
        }
        envelope
    }

    fn spoil(&mut self, envelope: &mut Envelope, dice: &mut Dice<'_>) {
        match dice.below(7) {
            0 => envelope.key = None,
            1 => {
                envelope.to = dice.of(&["buyer:intent", "merchant:catalog", "platform:reputation"])
            }
            2 => envelope.reply = None,
            3 => envelope.reply = Some(dice.key(&self.known)),
            4 => envelope.session = dice.key(&self.sessions),
            5 => {
                if let Some(known) = self.known.keys().next_back() {
                    envelope.id.clone_from(known);
                }
            }
            _ => {
                if let Some(members) = envelope.payload.as_object_mut() {
                    let at = dice.below(members.len());
                    let name = members.keys().nth(at).cloned().unwrap_or_default();
                    if name.ends_with("price") {
                        members.insert(name, json!(10.5));
                    } else {
                        members.remove(&name);
                    }
                }
            }
        }
    }

    /// What leads something on.
    fn onward(&mut self, dice: &mut Dice<'_>) -> Envelope {
        match dice.below(100) {
            0..=7 => self.open(dice),
            8..=11 => self.goal_of(dice),
            12..=13 => self.score(dice),
            14..=38 => self.after(dice),
            39..=50 => self.quarrel(dice),
            _ => self.deal(dice),
        }
    }

    pub fn open(&mut self, dice: &mut Dice<'_>) -> Envelope {
        let session = self.fresh("s");
        if dice.chance(25) {
            self.search(dice, &session)
        } else {
            self.mandate(dice, &session)
        }
    }

    fn search(&mut self, dice: &mut Dice<'_>, session: &str) -> Envelope {
        let mut payload =
            json!({"query": dice.of(&["quiet keyboard", "loud", "nothing of the kind"])});
        if dice.chance(20) {
            // Now and then the private budget itself.
            let private = self
                .sessions
                .get(session)
                .and_then(|session| session.private.first());
            let price = private
                .filter(|_| dice.chance(50))
                .copied()
                .unwrap_or(40_000);
            payload["constraints"] = json!({"max_price": price});
        }
        let mut envelope = self.envelope(
            ("buyer:discovery", AGGREGATOR, "commerce.search"),
            session,
            None,
            payload,
        );
        if dice.chance(70) {
            envelope.key = None;
        }
        envelope
    }

    pub fn mandate(&mut self, dice: &mut Dice<'_>, session: &str) -> Envelope {
        let (consumer, account) = dice.of(&[
            ("c1", "a_c1"),
            ("c1", "a_c1"),
            ("c2", "a_c2"),
            ("c2", "a_c3"),
        ]);
        let lasts = if dice.chance(6) {
            dice.below(800) as u64
        } else {
            5_000_000
        };
        let mut payload = json!({
            "mandate_id": self.fresh("man"), "consumer_id": consumer,
            "ap2_intent_mandate": {"goal": "a keyboard", "merchants": dice.of(&[json!(null), json!(null), json!(["m1"])]),
                "skus": dice.of(&[json!(null), json!(null), json!(["s1"])]),
                "requires_refundability": dice.chance(20), "intent_expiry": noon(self.now + lasts)},
            "ap2_cart_mandate": null,
            "authority": {"can_buy_without_confirmation": dice.chance(60),
                "max_spend_without_confirmation": dice.of(&[0, 20_000, 500_000]), "can_negotiate": dice.chance(85),
                "can_accept_substitutes": dice.chance(30), "can_share_with_merchant": [],
                "must_not_share_with_merchant": []},
            "hard_constraints": {"budget": dice.of(&[91_353, 60_003, 200_003]), "currency": "USD",
                "must_have": dice.of(&[json!([]), json!([]), json!(["brushed"])])},
        });
        if dice.chance(15) {
            payload["hard_constraints"]["delivery_days"] = json!(3);
        }
        if dice.chance(10) {
            payload["hard_constraints"]["min_reputation"] = json!(600);
        }
        if dice.chance(85) {
            payload["payment_instrument"] = json!({"type": "card", "account_id": account});
        }
        let way = (
            "consumer:persona",
            "buyer:intent",
            "delegate.create_purchase_mandate",
        );
        self.envelope(way, session, None, payload)
    }

    fn goal_of(&mut self, dice: &mut Dice<'_>) -> Envelope {
        let merchant = dice.of(&["m1", "m2"]);
        let mut payload = json!({
            "offer_mandate_id": self.fresh("goal"), "merchant_id": merchant, "goal": "sell",
            "skus": dice.of(&[json!(["s1"]), json!(["s2"]), json!(["s1", "s2"])]),
            "pricing": {"list_price": 50_000, "floor_price": dice.of(&[9_007, 12_007]), "floor_currency": "USD"},
            "permitted_claims": dice.of(&[json!(["silent"]), json!(["silent", "boasts"])]),
            "negotiation": {"max_rounds": dice.of(&[2, 20, 20])}, "fulfillment": {"methods": ["courier"]},
            "returns": {"refundable": dice.chance(80)},
        });
        if dice.chance(30) {
            payload["valid_until"] = json!(noon(self.now + dice.below(2_000) as u64));
        }
        // A merchant has one session for all its goals, now and then another one.
        let session = if dice.chance(80) {
            ["g", merchant].concat()
        } else {
            dice.key(&self.sessions)
        };
        let way = ("merchant:owner", PRICING, "delegate.set_business_goal");
        self.envelope(way, &session, None, payload)
    }

    fn score(&mut self, dice: &mut Dice<'_>) -> Envelope {
        let payload = json!({"subject": dice.of(&["m1", "m2", "m2", "m9"]), "delta": dice.of(&[-70, 40, 300]),
            "reason": "seen", "evidence": [dice.key(&self.known)]});
        let session = dice.key(&self.sessions);
        self.envelope(
            ("platform:reputation", "world", "world.update_reputation"),
            &session,
            None,
            payload,
        )
    }

    /// The next step of a deal.
    pub fn deal(&mut self, dice: &mut Dice<'_>) -> Envelope {
        let journeys = self
            .sessions
            .iter()
            .filter(|(_, session)| session.kind == "buyer_journey" && session.orders.is_empty());
        let Some((id, session)) = dice.recent(journeys) else {
            return self.open(dice);
        };
        let (id, session) = (id.clone(), session.clone());
        if session.mandate.is_none() && dice.chance(70) {
            return self.mandate(dice, &id);
        }
        let at = self.now.max(session.clock);
        let alive = |offer: &Offer| {
            ["open", "accepted", "certified"].contains(&offer.state)
                && at < offer.expires
                && offer.verification != "failed"
        };
        let mut offers = session.offers.iter().rev();
        let Some(hot) = offers.find(|id| alive(&self.offers[*id])).cloned() else {
            return self.begin(dice, &id);
        };
        let offer = self.offers[&hot].clone();
        match (offer.state, offer.verification) {
            _ if dice.chance(7) => self.begin(dice, &id),
            // What could not be certified before is not likely to be now.
            ("accepted", "passed") if dice.chance(40) => self.begin(dice, &id),
            ("open", _) => self.answer(dice, &id, &hot, &offer),
            ("accepted", "none") => self.accept_by(NEGOTIATION, AGGREGATOR, &id, &hot),
            ("accepted" | "certified", _) if dice.chance(10) => self.cart(dice, &id, &hot),
            ("accepted", "requested") => self.claims(dice, &id, &hot),
            ("accepted", _) => self.certificate(dice, &id, &hot),
            _ => self.pay(dice, &id, &hot),
        }
    }

    pub fn begin(&mut self, dice: &mut Dice<'_>, session: &str) -> Envelope {
        match dice.below(10) {
            0 => self.search(dice, session),
            1 => self.ask(dice, session),
            2 => {
                let asked = self
                    .known
                    .iter()
                    .rev()
                    .find(|(_, known)| known.asks && known.session == session);
                let Some(asked) = asked.map(|(id, _)| id.clone()) else {
                    return self.ask(dice, session);
                };
                let way = (SUPPORT, NEGOTIATION, "commerce.respond_inquiry");
                self.envelope(way, session, Some(&asked), json!({"answer": "it is"}))
            }
            3 if !self.auto || dice.chance(40) => self.ranking(dice, session),
            4..=5 => self.offer(
                dice,
                (NEGOTIATION, PRICING, "commerce.propose_offer"),
                session,
                None,
            ),
            _ => self.offer(
                dice,
                (PRICING, NEGOTIATION, "commerce.propose_offer"),
                session,
                None,
            ),
        }
    }

    fn ask(&mut self, dice: &mut Dice<'_>, session: &str) -> Envelope {
        let mut payload =
            json!({"sku_id": dice.of(&["s1", "s2", "s9"]), "merchant_id": dice.of(&["m1", "m2"])});
        if dice.chance(75) {
            payload["inquiry"] = json!("is it quiet?");
        }
        self.envelope(
            (NEGOTIATION, SUPPORT, "commerce.request_offer"),
            session,
            None,
            payload,
        )
    }

    fn ranking(&mut self, dice: &mut Dice<'_>, session: &str) -> Envelope {
        let here = |(_, known): &(&String, &super::state::Known)| {
            known.kind == "commerce.search" && known.session == session
        };
        let searched = self.known.iter().rev().find(here).map(|(id, _)| id.clone());
        let Some(searched) = searched else {
            return self.search(dice, session);
        };
        let payload =
            json!({"policy_version": "rank-1", "query_msg_id": searched, "candidates": []});
        let way = (AGGREGATOR, "buyer:discovery", "platform.rank_offers");
        self.envelope(way, session, Some(&searched), payload)
    }

    pub fn offer(
        &mut self,
        dice: &mut Dice<'_>,
        way: (&'static str, &'static str, &'static str),
        session: &str,
        answered: Option<&Offer>,
    ) -> Envelope {
        let by_buyer = way.0 == NEGOTIATION;
        let claims = [
            json!([]),
            json!([]),
            json!(["silent"]),
            json!(["silent", "boasts"]),
        ];
        let claims = if by_buyer && !dice.chance(2) {
            json!([])
        } else {
            dice.of(&claims)
        };
        let lasts = if dice.chance(8) {
            dice.below(300) as u64
        } else {
            100_000
        };
        let mut payload = json!({
            "offer_id": self.fresh("o"), "merchant_id": dice.of(&["m1", "m2"]), "sku_id": dice.of(&["s1", "s2", "s1", "s2", "s1", "s2", "s1", "s2", "s1", "s9"]),
            "qty": 1 + dice.below(3), "unit_price": dice.of(&[8_000, 10_000, 15_000, 20_000, 30_000]),
            "fulfillment": {"method": "courier", "eta_days": 2 + dice.below(3), "fee": dice.of(&[0, 500])},
            "claims": claims, "expires_at": noon(self.now + lasts),
        });
        if let Some(answered) = answered {
            if dice.chance(92) {
                payload["merchant_id"] = json!(answered.merchant);
            }
            if dice.chance(80) {
                payload["sku_id"] = json!(answered.sku);
            }
        }
        if dice.chance(3) {
            // A floor, or a budget: what must not be said.
            payload["unit_price"] =
                dice.of(&[json!(9_007), json!(12_007), json!(91_353), json!(60_003)]);
        }
        let reply = answered.map(|offer| offer.carrier.clone());
        self.envelope(way, session, reply.as_deref(), payload)
    }

    fn answer(&mut self, dice: &mut Dice<'_>, session: &str, id: &str, offer: &Offer) -> Envelope {
        let (from, to) = if offer.by_buyer {
            (PRICING, NEGOTIATION)
        } else {
            (NEGOTIATION, PRICING)
        };
        match dice.below(100) {
            0..=21 => self.offer(
                dice,
                (from, to, "commerce.counter_offer"),
                session,
                Some(offer),
            ),
            22..=27 => {
                let carrier = offer.carrier.clone();
                let way = (from, to, "commerce.reject_offer");
                self.envelope(way, session, Some(&carrier), json!({"offer_id": id}))
            }
            28..=30 => self.accept_by(to, from, session, id),
            31..=60 if !offer.by_buyer => self.accept_by(NEGOTIATION, AGGREGATOR, session, id),
            _ => self.accept_by(from, to, session, id),
        }
    }

    pub fn accept_by(
        &mut self,
        from: &'static str,
        to: &'static str,
        session: &str,
        id: &str,
    ) -> Envelope {
        let carrier = self.offers.get(id).map(|offer| offer.carrier.clone());
        let way = (from, to, "commerce.accept_offer");
        self.envelope(way, session, carrier.as_deref(), json!({"offer_id": id}))
    }

    pub fn cart(&mut self, dice: &mut Dice<'_>, session: &str, offer_id: &str) -> Envelope {
        let total = self.offers.get(offer_id).map_or(10, |offer| offer.total);
        let shown = if dice.chance(90) { total } else { total + 10 };
        let amount =
            |value: u64| json!({"label": "it", "amount": {"currency": "USD", "value": value}});
        let payload = json!({"cart_id": self.fresh("cart"), "offer_id": offer_id, "contents": {
            "id": "c", "user_cart_confirmation_required": true, "merchant_name": "One", "cart_expiry": noon(self.now + 900),
            "payment_request": {"details": {"id": "d", "display_items": [amount(shown)], "total": amount(total)}}}});
        self.envelope(
            (AUTHORIZATION, PRICING, "commerce.create_cart"),
            session,
            None,
            payload,
        )
    }

    pub fn claims(&mut self, dice: &mut Dice<'_>, session: &str, offer_id: &str) -> Envelope {
        let clock = self
            .sessions
            .get(session)
            .map_or(0, |session| session.clock);
        let mut payload = self.verdict_on(offer_id, self.now.max(clock));
        if dice.chance(8) {
            payload["results"] = json!([{"claim": "silent", "grounded": false}]);
        }
        self.envelope(
            (AGGREGATOR, AUTHORIZATION, "platform.verify_claims"),
            session,
            None,
            payload,
        )
    }

    pub fn certificate(&mut self, dice: &mut Dice<'_>, session: &str, offer_id: &str) -> Envelope {
        let cert_id = if dice.chance(4) {
            dice.key(&self.certs)
        } else {
            self.fresh("cert")
        };
        let cert_ttl_s = self.world.policy.cert_ttl_s;
        let known = self.sessions.get(session).cloned();
        let at = known
            .as_ref()
            .map_or(self.now, |session| self.now.max(session.clock));
        let written = known.and_then(|known| self.attestation(&known, offer_id, &cert_id, at).ok());
        let mut payload = written.unwrap_or_else(|| {
            json!({"cert_id": cert_id, "mandate_id": "none", "offer_id": offer_id, "merchant_id": "m1", "sku_id": "s1",
                "qty": 1, "unit_price": 10, "total": 10, "currency": "USD", "checks": {"constraint_fit": true,
                "claim_grounding": true, "inventory_availability": true, "reputation_threshold": true},
                "policy_version": "verify-1", "issued_at": noon(at), "expires_at": noon(at + cert_ttl_s)})
        });
        if dice.chance(6) {
            let lie = [
                ("total", json!(20)),
                ("expires_at", json!(noon(at + cert_ttl_s + 1))),
                ("issued_at", json!(noon(at + 1))),
            ];
            let (name, value) = dice.of(&lie);
            payload[name] = value;
        }
        self.envelope(
            (
                AGGREGATOR,
                AUTHORIZATION,
                "platform.create_match_certificate",
            ),
            session,
            None,
            payload,
        )
    }

    /// From a certificate to the settlement.
    fn pay(&mut self, dice: &mut Dice<'_>, session: &str, offer_id: &str) -> Envelope {
        let cert_id = self.offers[offer_id].cert.clone().unwrap();
        let cert: &Cert = &self.certs[&cert_id];
        let at = self.now.max(self.sessions[session].clock);
        if check_cert(cert, at).is_err() {
            return self.certificate(dice, session, offer_id);
        }
        let live = cert.auth.clone().filter(|auth| is_live(auth, at));
        let person = "consumer:persona";
        let named = json!({"cert_id": cert_id});
        match dice.below(100) {
            0..=6 => {
                let payload = json!({"cert_id": cert_id, "reason": "no"});
                self.envelope(
                    (person, AUTHORIZATION, "delegate.reject_purchase"),
                    session,
                    None,
                    payload,
                )
            }
            7..=69 if !self.gate(&cert_id) => self.envelope(
                (person, AUTHORIZATION, "delegate.approve_purchase"),
                session,
                None,
                named,
            ),
            7..=79 if live.is_none() => self.authorization(dice, session, &cert_id),
            7..=90 => {
                let mut payload = named;
                if let Some(auth) = live.filter(|_| dice.chance(30)) {
                    payload["auth_id"] = json!(auth.id);
                }
                let way = dice.of(&[(AUTHORIZATION, PSP), (PSP, AUTHORIZATION)]);
                self.envelope(
                    (way.0, way.1, "platform.settle_payment"),
                    session,
                    None,
                    payload,
                )
            }
            _ => self.envelope(
                (person, AUTHORIZATION, "delegate.approve_purchase"),
                session,
                None,
                named,
            ),
        }
    }

    pub fn authorization(&mut self, dice: &mut Dice<'_>, session: &str, cert_id: &str) -> Envelope {
        let consumer = self
            .sessions
            .get(session)
            .and_then(|session| session.consumer.clone());
        let own = if consumer.as_deref() == Some("c1") {
            "a_c1"
        } else {
            "a_c2"
        };
        let account = if dice.chance(92) {
            own
        } else {
            dice.of(&["a_c1", "a_c3", "a_none"])
        };
        let mut payload = self.payment(cert_id, account);
        if dice.chance(5) {
            payload["payment_mandate"]["payment_details_total"]["amount"] = json!(10);
        }
        self.envelope(
            (PSP, AUTHORIZATION, "platform.authorize_payment"),
            session,
            None,
            payload,
        )
    }
}
