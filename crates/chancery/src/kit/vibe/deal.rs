//! Deals: verification, certificate, the human gate, settlement, return and refund.

use chancery_core::ids::{ObjectKind, object_id};
use serde_json::{Value, json};

use super::super::Kit;
use super::super::fresh_id;
use super::super::setup::{ACCOUNT, MERCHANT};
use super::journey::{CEILING, Journey, told};
use super::{VCP, expect};
use crate::exit::Failure;

const AGGREGATOR: (&str, &str) = ("platform:aggregator", "buyer:authorization");
const PSP: (&str, &str) = ("platform:psp", "buyer:authorization");
const BUYER: (&str, &str) = ("buyer:authorization", "platform:psp");

/// What the deals are for that need nobody's approval.
const TOTAL: u64 = 15_000;
/// What a settlement comes back with: itself and three writes to the world.
const SETTLED: &str =
    "200 accepted with world.create_order world.reserve_inventory world.update_ledger";

/// An agreement that waits for its certificate.
struct Agreed {
    journey: Journey,
    mandate_id: Value,
    offer: Value,
}

/// Asks everything.
pub(super) async fn ask(kit: &mut Kit<'_>) -> Result<(), Failure> {
    claims(kit).await?;
    gate(kit).await?;
    let Some((mut journey, cert_id)) = certificate(kit).await? else {
        return Ok(());
    };
    let Some(order) = settlement(kit, &mut journey, &cert_id).await? else {
        return Ok(());
    };
    dispatch(kit, &mut journey, &order).await?;
    refund(kit, &mut journey, &order).await
}

impl Agreed {
    /// From the mandate to the acceptance.
    async fn at(kit: &Kit<'_>, unit_price: u64, claims: &[&str]) -> Result<Self, Failure> {
        Journey::set_goal(kit).await?;
        let mut journey = Journey::new()?;
        let mandate = journey.mandate()?;
        let offer = journey.offer(unit_price, claims)?;
        let accept = journey.accept(&offer)?;
        for envelope in [&mandate, &offer, &accept] {
            kit.post(&VCP, envelope.to_string()).await?;
        }
        Ok(Self {
            journey,
            mandate_id: mandate["action"]["payload"]["mandate_id"].clone(),
            offer: offer["action"]["payload"].clone(),
        })
    }

    fn verification(&mut self, grounded: bool) -> Result<Value, Failure> {
        let claims = self.offer["claims"].as_array().cloned().unwrap_or_default();
        let results: Vec<Value> = claims
            .iter()
            .map(|claim| json!({"claim": claim, "grounded": grounded}))
            .collect();
        let payload = json!({
            "offer_id": self.offer["offer_id"], "policy_version": "verify-1", "results": results,
        });
        self.journey
            .envelope("platform.verify_claims", AGGREGATOR, &payload)
    }

    fn certificate(&mut self, cert_id: &str, total: u64) -> Result<Value, Failure> {
        let offer = &self.offer;
        let payload = json!({
            "cert_id": cert_id,
            "mandate_id": self.mandate_id,
            "offer_id": offer["offer_id"],
            "merchant_id": offer["merchant_id"],
            "sku_id": offer["sku_id"],
            "qty": offer["qty"],
            "unit_price": offer["unit_price"],
            "total": total,
            "currency": "USD",
            "checks": {
                "constraint_fit": true,
                "claim_grounding": true,
                "inventory_availability": true,
                "reputation_threshold": true,
            },
            "policy_version": "verify-1",
            "issued_at": self.journey.in_seconds(0),
            "expires_at": self.journey.in_seconds(600),
        });
        let kind = "platform.create_match_certificate";
        self.journey.envelope(kind, AGGREGATOR, &payload)
    }
}

fn authorization(journey: &mut Journey, cert_id: &str, total: u64) -> Result<Value, Failure> {
    let payload = json!({
        "cert_id": cert_id,
        "payment_instrument": {"type": "account", "account_id": ACCOUNT},
        "payment_mandate": {
            "payment_mandate_id": fresh_id()?,
            "payment_details_id": cert_id,
            "payment_details_total": {"currency": "USD", "amount": total},
            "merchant_agent": MERCHANT,
            "timestamp": journey.in_seconds(0),
        },
    });
    journey.envelope("platform.authorize_payment", PSP, &payload)
}

async fn claims(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let mut agreed = Agreed::at(kit, 15_000, &["cold"]).await?;
    let vouched = agreed.verification(true)?;
    let asked = "a claim vouched for that the merchant may not make";
    let requirement = "VC-ACT-platform.verify_claims-2";
    expect(
        kit,
        requirement,
        asked,
        &vouched,
        "409 verification_mismatch",
    )
    .await?;
    Ok(())
}

/// A deal for as much as the ceiling is not under it.
async fn gate(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let mut agreed = Agreed::at(kit, CEILING, &[]).await?;
    let cert_id = fresh_id()?;
    let verification = agreed.verification(true)?;
    let certificate = agreed.certificate(&cert_id, CEILING)?;
    for envelope in [verification, certificate] {
        kit.post(&VCP, envelope.to_string()).await?;
    }
    let journey = &mut agreed.journey;
    let authorize = authorization(journey, &cert_id, CEILING)?;
    let expected = "409 approval_required";
    let asked = "a payment of exactly the ceiling that nobody approved";
    if !expect(kit, "VC-GATE-3", asked, &authorize, expected).await? {
        return Ok(());
    }
    let way = ("consumer:persona", "buyer:authorization");
    let approve = json!({"cert_id": cert_id});
    let approve = journey.envelope("delegate.approve_purchase", way, &approve)?;
    kit.post(&VCP, approve.to_string()).await?;
    let authorize = authorization(journey, &cert_id, CEILING)?;
    let asked = "the same payment, approved";
    expect(kit, "VC-GATE-4", asked, &authorize, "200 accepted").await?;
    Ok(())
}

/// A certificate for what was agreed, and for nothing else. Gives the journey and the certificate's name.
async fn certificate(kit: &mut Kit<'_>) -> Result<Option<(Journey, String)>, Failure> {
    let mut agreed = Agreed::at(kit, TOTAL, &["warm"]).await?;
    let cert_id = fresh_id()?;
    let early = agreed.certificate(&cert_id, TOTAL)?;
    let requirement = "VC-ACT-platform.create_match_certificate-2";
    let expected = "409 verification_required";
    let asked = "a certificate before the claims are verified";
    expect(kit, requirement, asked, &early, expected).await?;
    let verification = agreed.verification(true)?;
    kit.post(&VCP, verification.to_string()).await?;
    let wrong = agreed.certificate(&cert_id, TOTAL - 1)?;
    let requirement = "VC-ACT-platform.create_match_certificate-3";
    let expected = "409 verification_mismatch";
    let asked = "a certificate for less than the offer";
    if !expect(kit, requirement, asked, &wrong, expected).await? {
        return Ok(None);
    }
    let right = agreed.certificate(&cert_id, TOTAL)?;
    let asked = "a certificate for the offer";
    let requirement = "VC-ACT-platform.create_match_certificate-1";
    let issued = expect(kit, requirement, asked, &right, "200 accepted").await?;
    Ok(issued.then_some((agreed.journey, cert_id)))
}

/// Gives the order that a settlement wrote, if there was one.
async fn settlement(
    kit: &mut Kit<'_>,
    journey: &mut Journey,
    cert_id: &str,
) -> Result<Option<Value>, Failure> {
    let payload = json!({"cert_id": cert_id});
    let unpaid = journey.envelope("platform.settle_payment", BUYER, &payload)?;
    let expected = "409 payment_not_authorized";
    let asked = "a settlement that no payment was authorized for";
    let requirement = "VC-ACT-platform.settle_payment-3";
    expect(kit, requirement, asked, &unpaid, expected).await?;
    let more = authorization(journey, cert_id, TOTAL + 1)?;
    let requirement = "VC-ACT-platform.authorize_payment-2";
    let asked = "a payment of more than the certificate says";
    expect(kit, requirement, asked, &more, "409 amount_mismatch").await?;
    let authorize = authorization(journey, cert_id, TOTAL)?;
    kit.post(&VCP, authorize.to_string()).await?;
    let settle = journey.envelope("platform.settle_payment", BUYER, &payload)?;
    let exchange = kit.post(&VCP, settle.to_string()).await?;
    let emitted = exchange.body["emitted"].as_array().cloned();
    let emitted = emitted.unwrap_or_default();
    let kinds: Vec<&str> = emitted
        .iter()
        .filter_map(|envelope| envelope["action"]["kind"].as_str())
        .collect();
    let came_back = format!("{} with {}", told(&exchange), kinds.join(" "));
    if !kit.check("VC-SET-1", "a settlement", SETTLED, came_back) {
        return Ok(None);
    }
    let again = journey.envelope("platform.settle_payment", BUYER, &payload)?;
    let asked = "a second settlement of the certificate";
    let requirement = "VC-OBJ-MatchCertificate-4";
    expect(kit, requirement, asked, &again, "409 cert_consumed").await?;
    Ok(Some(emitted[0]["action"]["payload"].clone()))
}

async fn dispatch(kit: &mut Kit<'_>, journey: &mut Journey, order: &Value) -> Result<(), Failure> {
    let way = ("merchant:fulfillment", "buyer:authorization");
    let part = json!({"order_id": order["order_id"], "qty": 2});
    let part = journey.envelope("commerce.dispatch", way, &part)?;
    let expected = "409 partial_dispatch_unsupported";
    let requirement = "VC-ACT-commerce.dispatch-2";
    let asked = "a dispatch of another quantity";
    expect(kit, requirement, asked, &part, expected).await?;
    let whole = json!({"order_id": order["order_id"]});
    let whole = journey.envelope("commerce.dispatch", way, &whole)?;
    let requirement = "VC-ACT-commerce.dispatch-1";
    expect(kit, requirement, "a dispatch", &whole, "200 accepted").await?;
    Ok(())
}

/// A return, and money back for it: never more than was paid.
async fn refund(kit: &mut Kit<'_>, journey: &mut Journey, order: &Value) -> Result<(), Failure> {
    let way = ("buyer:authorization", "merchant:support");
    let request = json!({"tx_id": order["tx_id"], "reason": "too bright"});
    let request = journey.envelope("commerce.request_return", way, &request)?;
    kit.post(&VCP, request.to_string()).await?;
    let caused_by = request["msg_id"].as_str().unwrap_or_default();
    let return_id = object_id(ObjectKind::Return, caused_by);
    let mut answer = |amount: u64| -> Result<Value, Failure> {
        let way = ("merchant:support", "buyer:authorization");
        let payload = json!({
            "return_id": return_id, "decision": "approve", "refund_amount": amount,
        });
        let mut answer = journey.envelope("commerce.respond_return", way, &payload)?;
        answer["in_reply_to"] = request["msg_id"].clone();
        Ok(answer)
    };
    let (above, within) = (answer(TOTAL + 1)?, answer(TOTAL)?);
    let requirement = "VC-ACT-commerce.respond_return-1";
    let expected = "409 refund_exceeds_total";
    let asked = "a refund of more than the total";
    if !expect(kit, requirement, asked, &above, expected).await? {
        return Ok(());
    }
    let asked = "a refund of the total";
    expect(kit, requirement, asked, &within, "200 accepted").await?;
    let payload = json!({
        "tx_id": order["tx_id"], "amount": TOTAL, "basis": {"return_id": return_id},
    });
    let refund = journey.envelope("platform.refund_payment", PSP, &payload)?;
    let requirement = "VC-ACT-platform.refund_payment-1";
    let asked = "the payment of it";
    expect(kit, requirement, asked, &refund, "200 accepted").await?;
    Ok(())
}
