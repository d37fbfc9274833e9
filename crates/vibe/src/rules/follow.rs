//! The Platform Service in `auto` mode: envelopes that the runtime sends by itself, through the same rules and onto the
//! same log (VC-PLAT-1 to VC-PLAT-4).

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::decision::Stop;
use chancery_core::ids::{ObjectKind, object_id};
use chancery_core::line::Origin;
use chancery_core::refusal::Refusal;
use chancery_core::time::Time;
use serde::Serialize;

use super::batch::{AGGREGATOR, PSP};
use super::certify::{checks, find_match, is_grounded, latest_expiry};
use super::lines::{Made, envelope};
use super::rank;
use super::record::{Done, Recorded, derived_id, perform};
use super::turn::{Step, Turn};
use crate::action::Action;
use crate::address::{Address, Side};
use crate::code::Code;
use crate::payload::{Authorize, Certificate, Instrument, Payload, Stamp};
use crate::state::{MandateRow, MsgRow, ReturnRow, key};
use crate::world::rows::{OrderRow, Table, bytes};

const AUTHORIZATION: &str = "buyer:authorization";
const DISCOVERY: &str = "buyer:discovery";

/// What a follow-up came to: a refusal is told, and ends the chain (VC-PLAT-2).
enum Outcome {
    Done,
    Refused(Refusal),
}

/// The envelopes that one accepted envelope makes the platform send.
struct Chain<'t, 's, 'e> {
    trigger: &'t Step<'s>,
    trigger_row: &'t Arc<MsgRow>,
    /// Derived identifiers go on after the trigger's own children (VC-PLAT-3).
    next_index: u64,
    emitted: &'e mut Vec<Bytes>,
}

/// Sends what follows from an accepted envelope; gives the reason where the platform could not go on.
pub(super) fn follow(
    turn: &mut Turn<'_, '_>,
    trigger: &Step<'_>,
    payload: &Payload,
    done: &Done,
    emitted: &mut Vec<Bytes>,
) -> Result<Option<Refusal>, Stop> {
    let mut chain = Chain {
        trigger,
        trigger_row: &done.row,
        next_index: done.children + 1,
        emitted,
    };
    match payload {
        Payload::Search(search) => {
            let ranking = rank::ranking(turn, search, trigger.msg_id)?;
            let payload = Payload::RankOffers {
                query_msg_id: trigger.msg_id.to_owned(),
            };
            chain
                .send(
                    turn,
                    Action::RankOffers,
                    (AGGREGATOR, DISCOVERY),
                    &payload,
                    ranking,
                )
                .map(refusal_of)
        }
        Payload::AcceptOffer { offer_id } if trigger.to.side == Side::Platform => {
            chain.verify(turn, offer_id)
        }
        Payload::ApprovePurchase { cert_id } => chain.authorize(turn, cert_id),
        Payload::CreateMatchCertificate(cert) => chain.authorize(turn, &cert.cert_id),
        Payload::RespondReturn {
            return_id,
            refund_amount: Some(_),
            ..
        } => chain.refund(turn, return_id),
        _ => Ok(None),
    }
}

fn refusal_of(outcome: Outcome) -> Option<Refusal> {
    match outcome {
        Outcome::Done => None,
        Outcome::Refused(refusal) => Some(refusal),
    }
}

#[derive(Serialize)]
struct VerifyClaims<'p> {
    offer_id: &'p str,
    policy_version: &'p str,
    results: Vec<ClaimResult<'p>>,
}

#[derive(Serialize)]
struct ClaimResult<'p> {
    claim: &'p str,
    grounded: bool,
}

#[derive(Serialize)]
struct CertificatePayload<'p> {
    cert_id: &'p str,
    checks: Checks,
    currency: &'p str,
    expires_at: &'p str,
    issued_at: &'p str,
    mandate_id: &'p str,
    merchant_id: &'p str,
    offer_id: &'p str,
    policy_version: &'p str,
    qty: u64,
    sku_id: &'p str,
    total: u64,
    unit_price: u64,
}

#[derive(Serialize)]
struct Checks {
    claim_grounding: bool,
    constraint_fit: bool,
    inventory_availability: bool,
    reputation_threshold: bool,
}

#[derive(Serialize)]
struct AuthorizePayload<'p> {
    cert_id: &'p str,
    payment_instrument: &'p Instrument,
    payment_mandate: PaymentMandate<'p>,
}

#[derive(Serialize)]
struct PaymentMandate<'p> {
    merchant_agent: &'p str,
    payment_details_id: &'p str,
    payment_details_total: Total<'p>,
    payment_mandate_id: String,
    timestamp: String,
}

#[derive(Serialize)]
struct Total<'p> {
    amount: u64,
    currency: &'p str,
}

#[derive(Serialize)]
struct Refund<'p> {
    amount: u64,
    basis: Basis<'p>,
    tx_id: &'p str,
}

#[derive(Serialize)]
struct Basis<'p> {
    return_id: &'p str,
}

fn stamp(at: Time) -> Stamp {
    Stamp {
        text: at.to_string(),
        at,
    }
}

impl Chain<'_, '_, '_> {
    /// The identifier that the next follow-up will have.
    fn next_id(&self, turn: &Turn<'_, '_>) -> Result<String, Stop> {
        derived_id(turn, self.trigger.msg_id, self.next_index)
    }

    /// Sends one follow-up.
    fn send(
        &mut self,
        turn: &mut Turn<'_, '_>,
        action: Action,
        (from, to): (&str, &str),
        payload: &Payload,
        payload_bytes: Bytes,
    ) -> Result<Outcome, Stop> {
        let id = self.next_id(turn)?;
        let made = envelope(&Made {
            msg_id: &id,
            kind: action.kind(),
            payload: &payload_bytes,
            from,
            to,
            in_reply_to: self.trigger.msg_id,
            session_id: turn.session_id,
            ts: self.trigger.ts_text,
        });
        let known = "the platform's own addresses are well formed";
        let step = Step {
            msg_id: &id,
            ts_text: self.trigger.ts_text,
            from: Address::sender(from).expect(known),
            from_text: from,
            to: Address::receiver(to).expect(known),
            to_text: to,
            key: Some(&id),
            action,
            in_reply_to: Some(self.trigger.msg_id),
            replied: Some(Arc::clone(self.trigger_row)),
        };
        let recorded = Recorded {
            bytes: made.clone(),
            origin: Origin::Runtime,
            signature: None,
            principal: None,
            answers: None,
        };
        let place = self.emitted.len();
        match perform(turn, &step, payload, &recorded, self.emitted) {
            Ok(_) => {
                self.emitted.insert(place, made);
                self.next_index += 1;
                Ok(Outcome::Done)
            }
            // A derived identifier that is used is of the whole unit (VC-CLR-9).
            Err(Stop::Refused(refusal)) if refusal.code != Code::DuplicateMsgId.as_str() => {
                Ok(Outcome::Refused(refusal.of_message(id)))
            }
            Err(stop) => Err(stop),
        }
    }

    /// Verifies the claims of an accepted offer, and certifies it if they hold.
    fn verify(&mut self, turn: &mut Turn<'_, '_>, offer_id: &str) -> Result<Option<Refusal>, Stop> {
        let offer = turn.offer(offer_id)?;
        let goal = turn.goal(&offer.merchant_id, &offer.sku_id)?;
        let results: Vec<(String, bool)> = offer
            .claims
            .iter()
            .map(|claim| (claim.clone(), is_grounded(claim, goal.as_deref())))
            .collect();
        let policy_version = turn.settings.policy.verification_version.clone();
        let written = bytes(&VerifyClaims {
            offer_id,
            policy_version: &policy_version,
            results: results
                .iter()
                .map(|(claim, grounded)| ClaimResult {
                    claim,
                    grounded: *grounded,
                })
                .collect(),
        });
        let passed = results.iter().all(|(_, grounded)| *grounded);
        let payload = Payload::VerifyClaims {
            offer_id: offer_id.to_owned(),
            policy_version,
            results,
        };
        let ways = (AGGREGATOR, AUTHORIZATION);
        match self.send(turn, Action::VerifyClaims, ways, &payload, written)? {
            Outcome::Refused(refusal) => Ok(Some(refusal)),
            // A failed verification is no error of a follow-up (VC-CLR-19).
            Outcome::Done if !passed => Ok(None),
            Outcome::Done => self.certify(turn, offer_id),
        }
    }

    fn certify(
        &mut self,
        turn: &mut Turn<'_, '_>,
        offer_id: &str,
    ) -> Result<Option<Refusal>, Stop> {
        let id = self.next_id(turn)?;
        let found = match find_match(turn, offer_id) {
            Ok(found) => found,
            Err(Stop::Refused(refusal)) => return Ok(Some(refusal)),
            Err(stop) => return Err(stop),
        };
        let attested = checks(turn, &found)?;
        let offer = &found.offer;
        let cert = Certificate {
            cert_id: object_id(ObjectKind::Cert, &id),
            mandate_id: found.mandate_id.clone(),
            offer_id: offer_id.to_owned(),
            merchant_id: offer.merchant_id.clone(),
            sku_id: offer.sku_id.clone(),
            qty: offer.qty,
            unit_price: offer.unit_price,
            total: offer.total,
            currency: offer.currency.clone(),
            checks: attested,
            policy_version: turn.settings.policy.verification_version.clone(),
            issued_at: stamp(turn.eval),
            expires_at: stamp(latest_expiry(turn, &found, turn.eval)),
        };
        let written = bytes(&certificate_payload(&cert));
        let cert_id = cert.cert_id.clone();
        let payload = Payload::CreateMatchCertificate(Box::new(cert));
        let ways = (AGGREGATOR, AUTHORIZATION);
        match self.send(
            turn,
            Action::CreateMatchCertificate,
            ways,
            &payload,
            written,
        )? {
            Outcome::Refused(refusal) => Ok(Some(refusal)),
            Outcome::Done => self.authorize(turn, &cert_id),
        }
    }

    /// Authorizes the payment of a certificate where the gate is satisfied and the mandate says how to pay.
    fn authorize(
        &mut self,
        turn: &mut Turn<'_, '_>,
        cert_id: &str,
    ) -> Result<Option<Refusal>, Stop> {
        let cert = turn.cert(cert_id)?;
        let mandate: Option<Arc<MandateRow>> = turn.cx.shared(&key::mandate(&cert.mandate_id))?;
        let Some(mandate) = mandate.filter(|mandate| turn.gate_is_satisfied(&cert, mandate)) else {
            return Ok(None);
        };
        let Some(instrument) = mandate.payment_instrument.clone() else {
            return Ok(None);
        };
        let id = self.next_id(turn)?;
        let written = bytes(&AuthorizePayload {
            cert_id,
            payment_instrument: &instrument,
            payment_mandate: PaymentMandate {
                merchant_agent: &cert.merchant_id,
                payment_details_id: cert_id,
                payment_details_total: Total {
                    amount: cert.total,
                    currency: &cert.currency,
                },
                payment_mandate_id: object_id(ObjectKind::Pay, &id),
                timestamp: turn.eval.to_string(),
            },
        });
        let payload = Payload::AuthorizePayment(Box::new(Authorize {
            cert_id: cert_id.to_owned(),
            instrument,
            currency: cert.currency.clone(),
            amount: cert.total,
            merchant_agent: cert.merchant_id.clone(),
            cart_mandate_hash: None,
        }));
        let ways = (PSP, AUTHORIZATION);
        self.send(turn, Action::AuthorizePayment, ways, &payload, written)
            .map(refusal_of)
    }

    fn refund(
        &mut self,
        turn: &mut Turn<'_, '_>,
        return_id: &str,
    ) -> Result<Option<Refusal>, Stop> {
        let row: Option<ReturnRow> = turn.cx.row(&key::return_(return_id))?;
        let row = row.ok_or_else(|| Code::ReturnNotFound.stop())?;
        let order: Option<OrderRow> = turn.cx.row(&Table::Orders.key(&row.order_id))?;
        let order = order.ok_or_else(|| Code::OrderNotFound.stop())?;
        let written = bytes(&Refund {
            amount: row.refund_amount,
            basis: Basis { return_id },
            tx_id: &order.tx_id,
        });
        let payload = Payload::RefundPayment {
            tx_id: order.tx_id,
            amount: row.refund_amount,
            return_id: return_id.to_owned(),
        };
        let ways = (PSP, AUTHORIZATION);
        self.send(turn, Action::RefundPayment, ways, &payload, written)
            .map(refusal_of)
    }
}

fn certificate_payload(cert: &Certificate) -> CertificatePayload<'_> {
    let [
        constraint_fit,
        claim_grounding,
        inventory_availability,
        reputation_threshold,
    ] = cert.checks;
    CertificatePayload {
        cert_id: &cert.cert_id,
        checks: Checks {
            claim_grounding,
            constraint_fit,
            inventory_availability,
            reputation_threshold,
        },
        currency: &cert.currency,
        expires_at: &cert.expires_at.text,
        issued_at: &cert.issued_at.text,
        mandate_id: &cert.mandate_id,
        merchant_id: &cert.merchant_id,
        offer_id: &cert.offer_id,
        policy_version: &cert.policy_version,
        qty: cert.qty,
        sku_id: &cert.sku_id,
        total: cert.total,
        unit_price: cert.unit_price,
    }
}
