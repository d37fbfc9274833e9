//! How rows that are in no table of the world show in a diff: canonical JSON without private values
//! (VC-OBJ-TransactionStateDiff-2).

use bytes::Bytes;
use serde::Serialize;

use crate::state::{
    AuthState, CertRow, CertState, MandateRow, OfferRow, OfferState, Phase, Session, SessionKind,
    Verification,
};
use crate::world::rows::bytes;

/// What stands for a private value.
const PRIVATE: &str = "[private]";

#[derive(Serialize)]
struct SessionView<'s> {
    kind: SessionKind,
    mandate_id: Option<&'s str>,
    phase: Phase,
}

/// A session.
pub(super) fn session(session: &Session) -> Bytes {
    bytes(&SessionView {
        kind: session.kind,
        mandate_id: session.mandate_id.as_deref(),
        phase: session.phase,
    })
}

#[derive(Serialize)]
struct OfferView<'o> {
    merchant_id: &'o str,
    round: u64,
    sku_id: &'o str,
    state: OfferState,
    total: u64,
    verification: Verification,
}

/// An offer.
pub(super) fn offer(offer: &OfferRow) -> Bytes {
    bytes(&OfferView {
        merchant_id: &offer.merchant_id,
        round: offer.round,
        sku_id: &offer.sku_id,
        state: offer.state,
        total: offer.total,
        verification: offer.verification,
    })
}

#[derive(Serialize)]
struct CertView<'c> {
    auth_id: Option<&'c str>,
    auth_state: Option<AuthState>,
    offer_id: &'c str,
    state: CertState,
    total: u64,
}

/// A certificate.
pub(super) fn cert(cert: &CertRow) -> Bytes {
    bytes(&CertView {
        auth_id: cert.auth.as_ref().map(|auth| auth.auth_id.as_str()),
        auth_state: cert.auth.as_ref().map(|auth| auth.state),
        offer_id: &cert.offer_id,
        state: cert.state,
        total: cert.total,
    })
}

#[derive(Serialize)]
struct MandateView<'m> {
    budget: &'static str,
    cart_id: Option<&'m str>,
    consumed: bool,
    consumer_id: &'m str,
}

/// A purchase mandate.
pub(super) fn mandate(mandate: &MandateRow) -> Bytes {
    bytes(&MandateView {
        budget: PRIVATE,
        cart_id: mandate.cart.as_ref().map(|cart| cart.cart_id.as_str()),
        consumed: mandate.consumed,
        consumer_id: &mandate.consumer_id,
    })
}

#[derive(Serialize)]
struct GoalView<'g> {
    floor_price: &'static str,
    merchant_id: &'g str,
    skus: &'g [String],
}

/// An offer mandate.
pub(super) fn goal(merchant_id: &str, skus: &[String]) -> Bytes {
    bytes(&GoalView {
        floor_price: PRIVATE,
        merchant_id,
        skus,
    })
}
