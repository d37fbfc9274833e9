//! Verification and the match certificate (VC-ACT-platform.verify_claims, VC-ACT-platform.create_match_certificate).

use std::sync::Arc;
use std::time::Duration;

use chancery_core::decision::Stop;
use chancery_core::fault;
use chancery_core::time::Time;

use super::diff::Diff;
use super::negotiate::change_offer;
use super::turn::{Effect, Turn};
use super::views;
use crate::code::Code;
use crate::payload::Certificate;
use crate::state::{
    CertRow, CertState, GoalRow, MandateRow, OfferRow, OfferState, Phase, Verification, key,
};
use crate::world::rows::{CatalogRow, InventoryRow, ReputationRow, Table, item};
use crate::world::seed::DEFAULT_SCORE;

/// How long ago a certificate that is posted by hand may have been issued (VC-OBJ-MatchCertificate-2).
const MAX_ISSUED_AGO: Duration = Duration::from_secs(60);

/// The names of the four checks, in the order that they are reported.
pub(super) const CHECKS: [&str; 4] = [
    "constraint_fit",
    "claim_grounding",
    "inventory_availability",
    "reputation_threshold",
];

/// Whether a claim is grounded: in the permitted claims of the goal in force, byte for byte.
pub(super) fn is_grounded(claim: &str, goal: Option<&GoalRow>) -> bool {
    goal.is_some_and(|goal| {
        goal.permitted_claims
            .iter()
            .any(|permitted| permitted == claim)
    })
}

/// `platform.verify_claims`
pub(super) fn verify_claims(
    turn: &mut Turn<'_, '_>,
    offer_id: &str,
    results: &[(String, bool)],
) -> Result<Effect, Stop> {
    let offer = turn.offer(offer_id)?;
    if offer.state != OfferState::Accepted || offer.verification == Verification::None {
        return Err(Code::OfferNotAccepted.stop());
    }
    let goal = turn.goal(&offer.merchant_id, &offer.sku_id)?;
    let mut listed: Vec<&str> = results.iter().map(|(claim, _)| claim.as_str()).collect();
    let mut claims: Vec<&str> = offer.claims.iter().map(String::as_str).collect();
    listed.sort_unstable();
    claims.sort_unstable();
    let agrees =
        |(claim, grounded): &(String, bool)| is_grounded(claim, goal.as_deref()) == *grounded;
    if listed != claims || !(results.iter().all(agrees) || fault::on("vc-claims-vouched-for")) {
        return Err(Code::VerificationMismatch.stop());
    }
    let passed = results.iter().all(|(_, grounded)| *grounded);
    let mut diff = Diff::default();
    change_offer(turn, offer_id, offer, &mut diff, |offer| {
        offer.verification = if passed {
            Verification::Passed
        } else {
            Verification::Failed
        };
    });
    Ok(Effect::of(diff))
}

/// What a certificate can be issued on: the mandate and the offer, each with its name.
pub(super) struct Match {
    pub(super) mandate_id: String,
    pub(super) mandate: Arc<MandateRow>,
    pub(super) offer: Arc<OfferRow>,
}

/// The preconditions of a certificate, before its four checks (VC-ACT-platform.create_match_certificate-2).
pub(super) fn find_match(turn: &Turn<'_, '_>, offer_id: &str) -> Result<Match, Stop> {
    let (mandate_id, mandate) = turn
        .mandate()?
        .ok_or_else(|| Code::MandateRequired.stop())?;
    let offer = turn.offer(offer_id)?;
    let is_free = match offer.state {
        OfferState::Accepted => true,
        OfferState::Certified => !has_live_cert(turn, &offer)?,
        _ => false,
    };
    if !is_free {
        return Err(Code::OfferNotAccepted.stop());
    }
    if turn.eval >= offer.expires_at {
        return Err(Code::OfferExpired.stop());
    }
    match offer.verification {
        Verification::None | Verification::Requested => {
            return Err(Code::VerificationRequired.stop());
        }
        Verification::Failed => return Err(Code::VerificationFailed.stop()),
        Verification::Passed => {}
    }
    if mandate.consumed {
        return Err(Code::MandateConsumed.stop());
    }
    Ok(Match {
        mandate_id,
        mandate,
        offer,
    })
}

fn has_live_cert(turn: &Turn<'_, '_>, offer: &OfferRow) -> Result<bool, Stop> {
    let Some(cert_id) = &offer.cert_id else {
        return Ok(false);
    };
    let cert = turn.cert(cert_id)?;
    Ok(turn.check_cert(&cert).is_ok())
}

/// The four checks, as they are now (VC-OBJ-MatchCertificate-3).
pub(super) fn checks(turn: &Turn<'_, '_>, found: &Match) -> Result<[bool; 4], Stop> {
    let Match { mandate, offer, .. } = found;
    let entry = item(&offer.merchant_id, &offer.sku_id);
    let listing: Option<Arc<CatalogRow>> = turn.cx.shared(&Table::Catalog.key(&entry))?;
    let stock: Option<Arc<InventoryRow>> = turn.cx.shared(&Table::Inventory.key(&entry))?;
    let reputation_key = Table::Reputation.key(&offer.merchant_id);
    let score: Option<Arc<ReputationRow>> = turn.cx.shared(&reputation_key)?;
    let goal = turn.goal(&offer.merchant_id, &offer.sku_id)?;
    let least = mandate
        .min_reputation
        .unwrap_or(turn.settings.policy.min_reputation);
    Ok([
        fits(
            turn.eval,
            mandate,
            offer,
            listing.as_deref(),
            goal.as_deref(),
        ),
        offer
            .claims
            .iter()
            .all(|claim| is_grounded(claim, goal.as_deref())),
        stock.is_some_and(|stock| stock.available() >= offer.qty),
        score.map_or(DEFAULT_SCORE, |row| row.score) >= least,
    ])
}

/// `constraint_fit`
fn fits(
    eval: Time,
    mandate: &MandateRow,
    offer: &OfferRow,
    listing: Option<&CatalogRow>,
    goal: Option<&GoalRow>,
) -> bool {
    let has = |wanted: &String| {
        offer.claims.contains(wanted)
            || listing.is_some_and(|listing| listing.attributes.contains(wanted))
    };
    let among = |list: &Option<Vec<String>>, id: &String| {
        list.as_ref().is_none_or(|list| list.contains(id))
    };
    offer.total <= mandate.budget
        && offer.currency == mandate.currency
        && mandate
            .delivery_days
            .is_none_or(|days| offer.eta_days <= days)
        && mandate.must_have.iter().all(has)
        && among(&mandate.merchants, &offer.merchant_id)
        && (among(&mandate.skus, &offer.sku_id) || mandate.can_accept_substitutes)
        && (!mandate.requires_refundability || is_refundable(listing, goal))
        && eval < mandate.intent_expiry
}

/// VC-CLR-13: catalog and goal must both allow it.
pub(super) fn is_refundable(listing: Option<&CatalogRow>, goal: Option<&GoalRow>) -> bool {
    listing.is_some_and(|listing| listing.refundable) && goal.is_none_or(|goal| goal.refundable)
}

/// The latest end of a certificate that is issued at an instant (VC-OBJ-MatchCertificate-2).
pub(super) fn latest_expiry(turn: &Turn<'_, '_>, found: &Match, issued_at: Time) -> Time {
    let lives = Duration::from_secs(turn.settings.policy.cert_ttl_s);
    issued_at
        .saturating_add(lives)
        .min(found.offer.expires_at)
        .min(found.mandate.intent_expiry)
}

/// `platform.create_match_certificate`
pub(super) fn certify(turn: &mut Turn<'_, '_>, cert: &Certificate) -> Result<Effect, Stop> {
    let found = find_match(turn, &cert.offer_id)?;
    if turn.cx.bytes(&key::cert(&cert.cert_id))?.is_some() {
        return Err(Code::DuplicateObject.stop());
    }
    let checks = checks(turn, &found)?;
    if checks.contains(&false) {
        return Err(failed(checks));
    }
    if !attests_truly(turn, cert, &found) && !fault::on("vc-certificate-unchecked") {
        return Err(Code::VerificationMismatch.stop());
    }
    let row = cert_row(turn, cert);
    let mut diff = Diff::default();
    change_offer(turn, &cert.offer_id, found.offer, &mut diff, |offer| {
        offer.state = OfferState::Certified;
        offer.cert_id = Some(cert.cert_id.clone());
    });
    let after = turn.tells(|| views::cert(&row));
    diff.ops.note("certs", &cert.cert_id, None, after);
    turn.session.certs.push(cert.cert_id.clone());
    turn.session.reach(Phase::Certified);
    if turn.gate_is_satisfied(&row, &found.mandate) {
        turn.session.reach(Phase::Approved);
    } else {
        turn.cx.put(key::waiting(&cert.cert_id), &());
    }
    turn.cx.put_value(key::cert(&cert.cert_id), row);
    Ok(Effect::of(diff))
}

/// VC-ACT-platform.create_match_certificate-3: which checks failed, and no number.
fn failed(checks: [bool; 4]) -> Stop {
    let names: Vec<String> = CHECKS
        .iter()
        .zip(checks)
        .filter(|(_, passed)| !passed)
        .map(|(name, _)| format!("\"{name}\""))
        .collect();
    let mut refusal = Code::VerificationFailed.refuse();
    refusal.details = Some(format!("{{\"failed\":[{}]}}", names.join(",")));
    Stop::Refused(refusal)
}

fn attests_truly(turn: &Turn<'_, '_>, cert: &Certificate, found: &Match) -> bool {
    let offer = &found.offer;
    let issued_at = cert.issued_at.at;
    let age = turn.eval.since(issued_at);
    cert.mandate_id == found.mandate_id
        && cert.merchant_id == offer.merchant_id
        && cert.sku_id == offer.sku_id
        && cert.qty == offer.qty
        && cert.unit_price == offer.unit_price
        && cert.total == offer.total
        && cert.currency == offer.currency
        && !cert.checks.contains(&false)
        && cert.policy_version == turn.settings.policy.verification_version
        && age.is_some_and(|age| age <= MAX_ISSUED_AGO)
        && cert.expires_at.at <= latest_expiry(turn, found, issued_at)
}

fn cert_row(turn: &Turn<'_, '_>, cert: &Certificate) -> CertRow {
    CertRow {
        session_id: turn.session_id.to_owned(),
        mandate_id: cert.mandate_id.clone(),
        offer_id: cert.offer_id.clone(),
        merchant_id: cert.merchant_id.clone(),
        sku_id: cert.sku_id.clone(),
        qty: cert.qty,
        unit_price: cert.unit_price,
        total: cert.total,
        currency: cert.currency.clone(),
        policy_version: cert.policy_version.clone(),
        issued_at: cert.issued_at.text.clone(),
        expires_at: cert.expires_at.at,
        expires_text: cert.expires_at.text.clone(),
        state: CertState::Issued,
        auth: None,
    }
}
