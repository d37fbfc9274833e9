//! Agents among themselves: inquiries, offers, carts (section 5.2, first half; VC-SM-2).

use std::sync::Arc;

use chancery_core::decision::Stop;
use chancery_core::fault;

use super::diff::Diff;
use super::turn::{Effect, Step, Turn, party};
use super::views;
use crate::action::Action;
use crate::address::Side;
use crate::code::Code;
use crate::payload::{Cart, Offer};
use crate::state::{CartRow, OfferRow, OfferState, Party, Phase, Verification, key};
use crate::world::rows::{Table, item};

/// Rounds of a thread where no goal says otherwise.
const DEFAULT_ROUNDS: u64 = 20;

/// `commerce.request_offer`
pub(super) fn request_offer(
    turn: &Turn<'_, '_>,
    merchant_id: &str,
    sku_id: &str,
    has_inquiry: bool,
) -> Result<Effect, Stop> {
    check_listed(turn, merchant_id, sku_id)?;
    Ok(Effect {
        about: Some(merchant_id.to_owned()),
        asks: has_inquiry,
        ..Effect::default()
    })
}

fn check_listed(turn: &Turn<'_, '_>, merchant_id: &str, sku_id: &str) -> Result<(), Stop> {
    let entry = item(merchant_id, sku_id);
    match turn.cx.bytes(&Table::Catalog.key(&entry))? {
        Some(_) => Ok(()),
        None => Err(Code::SkuNotFound.stop()),
    }
}

/// `commerce.respond_inquiry`
pub(super) fn respond_inquiry(turn: &Turn<'_, '_>, step: &Step<'_>) -> Result<Effect, Stop> {
    let asked = step
        .replied
        .as_ref()
        .filter(|replied| replied.kind == Action::RequestOffer && replied.asks)
        .ok_or_else(|| Code::ThreadMismatch.stop())?;
    if let Some(merchant_id) = &asked.about {
        turn.check_merchant(step, merchant_id)?;
    }
    Ok(Effect::default())
}

/// `commerce.propose_offer`: a new thread.
pub(super) fn propose(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    offer: &Offer,
) -> Result<Effect, Stop> {
    check_proposal(turn, step, offer)?;
    let row = offer_row(turn, step, offer, 1, step.msg_id.to_owned());
    let mut diff = Diff::default();
    put_new(turn, &offer.offer_id, row, &mut diff);
    Ok(carrying(diff, &offer.offer_id))
}

/// What every new offer must meet (VC-ACT-commerce.propose_offer-3).
fn check_proposal(turn: &Turn<'_, '_>, step: &Step<'_>, offer: &Offer) -> Result<(), Stop> {
    if turn.session.phase >= Phase::Settled {
        return Err(Code::SessionSettled.stop());
    }
    if turn.cx.bytes(&key::offer(&offer.offer_id))?.is_some() {
        return Err(Code::DuplicateObject.stop());
    }
    check_listed(turn, &offer.merchant_id, &offer.sku_id)?;
    if offer.expires_at.at <= turn.eval {
        return Err(Code::OfferExpired.stop());
    }
    if party(step.from) == Party::Merchant {
        check_floor(turn, &offer.merchant_id, &offer.sku_id, offer.unit_price)?;
    }
    Ok(())
}

/// A merchant neither offers nor accepts less than its floor; at the floor is fine.
fn check_floor(
    turn: &Turn<'_, '_>,
    merchant_id: &str,
    sku_id: &str,
    unit_price: u64,
) -> Result<(), Stop> {
    match turn.goal(merchant_id, sku_id)? {
        Some(goal) if unit_price < goal.floor_price && !fault::on("vc-below-floor") => {
            Err(Code::OfferOutsideMandate.stop())
        }
        _ => Ok(()),
    }
}

fn offer_row(
    turn: &Turn<'_, '_>,
    step: &Step<'_>,
    offer: &Offer,
    round: u64,
    thread: String,
) -> OfferRow {
    OfferRow {
        session_id: turn.session_id.to_owned(),
        merchant_id: offer.merchant_id.clone(),
        sku_id: offer.sku_id.clone(),
        qty: offer.qty,
        unit_price: offer.unit_price,
        currency: offer.currency.clone(),
        eta_days: offer.eta_days,
        total: offer.total,
        claims: offer.claims.clone(),
        expires_at: offer.expires_at.at,
        author: party(step.from),
        state: OfferState::Open,
        round,
        thread,
        verification: Verification::None,
        cert_id: None,
    }
}

fn put_new(turn: &mut Turn<'_, '_>, offer_id: &str, row: OfferRow, diff: &mut Diff) {
    let after = turn.tells(|| views::offer(&row));
    diff.ops.note("offers", offer_id, None, after);
    turn.cx.put_value(key::offer(offer_id), row);
    turn.session.offers.push(offer_id.to_owned());
    turn.session.reach(Phase::Negotiating);
}

fn carrying(diff: Diff, offer_id: &str) -> Effect {
    Effect {
        about: Some(offer_id.to_owned()),
        ..Effect::of(diff)
    }
}

/// Changes an offer on record and notes it.
pub(super) fn change_offer(
    turn: &mut Turn<'_, '_>,
    offer_id: &str,
    mut row: Arc<OfferRow>,
    diff: &mut Diff,
    change: impl FnOnce(&mut OfferRow),
) {
    let before = turn.tells(|| views::offer(&row));
    change(Arc::make_mut(&mut row));
    let after = turn.tells(|| views::offer(&row));
    diff.ops.note("offers", offer_id, before, after);
    turn.cx.put_shared(key::offer(offer_id), row);
}

/// `commerce.counter_offer`: a revised offer takes the place of the one it answers.
pub(super) fn counter(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    offer: &Offer,
) -> Result<Effect, Stop> {
    let mismatch = || Code::ThreadMismatch.stop();
    let answered = step.replied.as_ref().ok_or_else(mismatch)?;
    if ![Action::ProposeOffer, Action::CounterOffer].contains(&answered.kind) {
        return Err(mismatch());
    }
    let old_id = answered.about.clone().ok_or_else(mismatch)?;
    let old = turn.offer(&old_id)?;
    turn.check_merchant(step, &old.merchant_id)?;
    check_open(turn, &old)?;
    if old.author == party(step.from) {
        return Err(Code::OwnOffer.stop());
    }
    let mandate = turn.mandate()?.map(|(_, mandate)| mandate);
    let may_substitute = mandate
        .as_ref()
        .is_some_and(|mandate| mandate.can_accept_substitutes);
    if offer.merchant_id != old.merchant_id || (offer.sku_id != old.sku_id && !may_substitute) {
        return Err(Code::SubstituteNotAllowed.stop());
    }
    check_proposal(turn, step, offer)?;
    let may_negotiate = mandate.is_none_or(|mandate| mandate.can_negotiate);
    if party(step.from) == Party::Buyer && !may_negotiate {
        return Err(Code::AuthorityExceeded.stop());
    }
    let round = old.round + 1;
    let goal = turn.goal(&offer.merchant_id, &offer.sku_id)?;
    if round > goal.map_or(DEFAULT_ROUNDS, |goal| goal.max_rounds) {
        return Err(Code::RoundLimit.stop());
    }
    let row = offer_row(turn, step, offer, round, old.thread.clone());
    let mut diff = Diff::default();
    change_offer(turn, &old_id, old, &mut diff, |old| {
        old.state = OfferState::Superseded;
    });
    put_new(turn, &offer.offer_id, row, &mut diff);
    Ok(carrying(diff, &offer.offer_id))
}

/// Refuses an offer that is not open, each state with its code (VC-ACT-commerce.accept_offer-2, VC-CLR-3).
fn check_open(turn: &Turn<'_, '_>, offer: &OfferRow) -> Result<(), Stop> {
    let at_its_end = turn.eval == offer.expires_at && fault::on("vc-valid-at-its-end");
    match offer.state {
        OfferState::Open if turn.eval >= offer.expires_at && !at_its_end => {
            Err(Code::OfferExpired.stop())
        }
        OfferState::Open => Ok(()),
        OfferState::Superseded => Err(Code::OfferSuperseded.stop()),
        _ => Err(Code::OfferClosed.stop()),
    }
}

fn check_thread(step: &Step<'_>, offer: &OfferRow) -> Result<(), Stop> {
    let thread = step
        .replied
        .as_ref()
        .and_then(|replied| replied.thread.as_deref());
    if thread == Some(&*offer.thread) {
        Ok(())
    } else {
        Err(Code::ThreadMismatch.stop())
    }
}

fn check_other_side(step: &Step<'_>, offer: &OfferRow) -> Result<(), Stop> {
    if offer.author == party(step.from) && !fault::on("vc-own-offer-accepted") {
        Err(Code::OwnOffer.stop())
    } else {
        Ok(())
    }
}

/// `commerce.accept_offer`: agreement, or the wish to have the agreement verified, or both.
pub(super) fn accept(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    offer_id: &str,
) -> Result<Effect, Stop> {
    let offer = turn.offer(offer_id)?;
    turn.check_merchant(step, &offer.merchant_id)?;
    let asks_platform = step.to.side == Side::Platform;
    if asks_platform && offer.verification != Verification::None {
        return Err(Code::AlreadyRequested.stop());
    }
    if !(asks_platform && offer.state == OfferState::Accepted) {
        check_open(turn, &offer)?;
        check_other_side(step, &offer)?;
    }
    check_thread(step, &offer)?;
    if party(step.from) == Party::Merchant {
        check_floor(turn, &offer.merchant_id, &offer.sku_id, offer.unit_price)?;
    }
    let mut diff = Diff::default();
    change_offer(turn, offer_id, offer, &mut diff, |offer| {
        offer.state = OfferState::Accepted;
        if asks_platform {
            offer.verification = Verification::Requested;
        }
    });
    turn.session.reach(Phase::Agreed);
    Ok(Effect::of(diff))
}

/// `commerce.reject_offer`
pub(super) fn reject(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    offer_id: &str,
) -> Result<Effect, Stop> {
    let offer = turn.offer(offer_id)?;
    turn.check_merchant(step, &offer.merchant_id)?;
    check_open(turn, &offer)?;
    check_other_side(step, &offer)?;
    check_thread(step, &offer)?;
    let mut diff = Diff::default();
    change_offer(turn, offer_id, offer, &mut diff, |offer| {
        offer.state = OfferState::Rejected;
    });
    Ok(Effect::of(diff))
}

/// `commerce.create_cart`: the mandate's cart; settlement never depends on it.
pub(super) fn create_cart(turn: &mut Turn<'_, '_>, cart: &Cart) -> Result<Effect, Stop> {
    let offer = turn.offer(&cart.offer_id)?;
    let (mandate_id, mut mandate) = turn
        .mandate()?
        .ok_or_else(|| Code::MandateRequired.stop())?;
    let is_accepted = matches!(
        offer.state,
        OfferState::Accepted | OfferState::Certified | OfferState::Settled
    );
    if !is_accepted {
        return Err(Code::OfferNotAccepted.stop());
    }
    let (currency, total) = &cart.total;
    if *total != offer.total || *currency != offer.currency || cart.displayed != Some(*total) {
        return Err(Code::AmountMismatch.stop());
    }
    let before = turn.tells(|| views::mandate(&mandate));
    Arc::make_mut(&mut mandate).cart = Some(CartRow {
        cart_id: cart.cart_id.clone(),
        contents: cart.contents.clone(),
        hash: cart.hash.hex(),
    });
    let mut diff = Diff::default();
    let after = turn.tells(|| views::mandate(&mandate));
    diff.ops.note("mandates", &mandate_id, before, after);
    turn.cx.put_shared(key::mandate(&mandate_id), mandate);
    Ok(Effect::of(diff))
}
