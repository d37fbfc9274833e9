//! What an action's rule works with: the decision, its session, the envelope that asks, and what comes of it.

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::admin::PrincipalRecord;
use chancery_core::decision::{Cx, Stop};
use chancery_core::fault;
use chancery_core::time::Time;
use serde::Serialize;

use super::diff::Diff;
use crate::action::Action;
use crate::address::{Address, Side};
use crate::code::Code;
use crate::settings::Settings;
use crate::state::{
    CertRow, CertState, GoalRow, MandateRow, MsgRow, OfferRow, Party, Session, key,
};
use crate::world::rows::{OrderRow, Table};

/// One decision on one session.
pub struct Turn<'a, 'c> {
    /// The decision.
    pub cx: &'a mut Cx<'c>,
    /// The settings in force.
    pub settings: &'a Settings,
    /// The instant that every expiry is tested at (VC-PIPE-4).
    pub eval: Time,
    /// The session's name.
    pub session_id: &'a str,
    /// The session, written back at the end.
    pub session: Session,
    /// Whether this decision opens it.
    pub is_new: bool,
    /// For whom the sender acts; none without tokens.
    pub principal: Option<PrincipalRecord>,
}

/// An envelope on its way through the rules, from outside or made by the runtime.
pub struct Step<'s> {
    /// Its identifier.
    pub msg_id: &'s str,
    /// Its stamp as written.
    pub ts_text: &'s str,
    /// Its sender.
    pub from: Address,
    /// Its sender as written.
    pub from_text: &'s str,
    /// Its receiver.
    pub to: Address,
    /// Its receiver as written.
    pub to_text: &'s str,
    /// Its idempotency key.
    pub key: Option<&'s str>,
    /// Its action.
    pub action: Action,
    /// The name of the envelope that it answers.
    pub in_reply_to: Option<&'s str>,
    /// The envelope that it answers.
    pub replied: Option<Arc<MsgRow>>,
}

/// A world envelope that an action causes (VC-SET-2).
pub struct Child {
    /// Its action.
    pub action: Action,
    /// The platform role that sends it.
    pub from: &'static str,
    /// Its canonical payload.
    pub payload: Bytes,
}

impl Child {
    /// A child; `payload` has its fields in the order of their names.
    pub fn new<T: Serialize>(action: Action, from: &'static str, payload: &T) -> Self {
        Self {
            action,
            from,
            payload: crate::world::rows::bytes(payload),
        }
    }
}

/// What came of an accepted action.
#[derive(Default)]
pub struct Effect {
    /// What it changed; none for an action that changes nothing.
    pub diff: Option<Diff>,
    /// The world envelopes that it caused.
    pub children: Vec<Child>,
    /// The offer that its envelope carries, or the merchant that it asks.
    pub about: Option<String>,
    /// Whether its envelope asks what can be answered.
    pub asks: bool,
}

impl Effect {
    /// An effect that is a diff alone.
    pub fn of(diff: Diff) -> Self {
        Self {
            diff: Some(diff),
            ..Self::default()
        }
    }
}

/// The party that an address speaks for in a negotiation.
pub fn party(address: Address) -> Party {
    if address.side == Side::Buyer {
        Party::Buyer
    } else {
        Party::Merchant
    }
}

impl Turn<'_, '_> {
    /// What the sender is told, where somebody is: replay answers nobody.
    pub fn tells(&self, what: impl FnOnce() -> Bytes) -> Option<Bytes> {
        self.cx.keeps_agenda().then(what)
    }

    /// The session's mandate.
    pub fn mandate(&self) -> Result<Option<(String, Arc<MandateRow>)>, Stop> {
        let Some(id) = &self.session.mandate_id else {
            return Ok(None);
        };
        let row = self.cx.shared(&key::mandate(id))?;
        Ok(row.map(|row| (id.clone(), row)))
    }

    /// An offer of this session.
    pub fn offer(&self, offer_id: &str) -> Result<Arc<OfferRow>, Stop> {
        let row: Option<Arc<OfferRow>> = self.cx.shared(&key::offer(offer_id))?;
        row.filter(|row| row.session_id == self.session_id)
            .ok_or_else(|| Code::OfferNotFound.stop())
    }

    /// A certificate of this session.
    pub fn cert(&self, cert_id: &str) -> Result<Arc<CertRow>, Stop> {
        let row: Option<Arc<CertRow>> = self.cx.shared(&key::cert(cert_id))?;
        row.filter(|row| row.session_id == self.session_id)
            .ok_or_else(|| Code::CertNotFound.stop())
    }

    /// The merchant's goal for a sku, where one is in force.
    pub fn goal(&self, merchant_id: &str, sku_id: &str) -> Result<Option<Arc<GoalRow>>, Stop> {
        let row: Option<Arc<GoalRow>> = self.cx.shared(&key::goal(merchant_id, sku_id))?;
        Ok(row.filter(|row| row.in_force(self.eval)))
    }

    /// The order of a transaction, with nothing said about whose it is.
    pub fn order_of(&self, tx_id: &str) -> Result<OrderRow, Stop> {
        let id: Option<String> = self.cx.row(&key::transaction(tx_id))?;
        let id = id.ok_or_else(|| Code::OrderNotFound.stop())?;
        self.order(&id)
    }

    /// An order, with nothing said about whose it is.
    pub fn order(&self, order_id: &str) -> Result<OrderRow, Stop> {
        let row = self.cx.row(&Table::Orders.key(order_id))?;
        row.ok_or_else(|| Code::OrderNotFound.stop())
    }

    /// Refuses a merchant that acts on what belongs to another (VC-ADR-8).
    pub fn check_merchant(&self, step: &Step<'_>, merchant_id: &str) -> Result<(), Stop> {
        if step.from.side != Side::Merchant {
            return Ok(());
        }
        match &self.principal {
            Some(PrincipalRecord {
                merchant_id: Some(own),
                ..
            }) if own != merchant_id => Err(Code::IdentityMismatch.stop()),
            _ => Ok(()),
        }
    }

    /// Refuses evidence that is no accepted envelope.
    pub fn check_evidence(&self, evidence: &[String]) -> Result<(), Stop> {
        for msg_id in evidence {
            if self.cx.bytes(&key::msg(msg_id))?.is_none() {
                return Err(Code::EvidenceNotFound.stop());
            }
        }
        Ok(())
    }

    /// Refuses a certificate that is used up (VC-CLR-3): only one that is issued or approved can be found expired.
    pub fn check_cert(&self, cert: &CertRow) -> Result<(), Stop> {
        match cert.state {
            CertState::Rejected => Err(Code::PurchaseRejected.stop()),
            CertState::Consumed => Err(Code::CertConsumed.stop()),
            CertState::Issued | CertState::Approved if self.eval >= cert.expires_at => {
                Err(Code::CertExpired.stop())
            }
            CertState::Issued | CertState::Approved => Ok(()),
        }
    }

    /// Whether the human gate is satisfied for a certificate (VC-GATE-3, VC-GATE-4).
    pub fn gate_is_satisfied(&self, cert: &CertRow, mandate: &MandateRow) -> bool {
        let is_autonomous = mandate.can_buy_without_confirmation
            && (cert.total < mandate.max_spend_without_confirmation
                || fault::on("vc-gate-left-open"));
        is_autonomous || cert.state == CertState::Approved
    }
}

/// Gives a test a turn in a session of its own, over no rows.
#[cfg(test)]
pub fn with_turn(act: impl FnOnce(&mut Turn<'_, '_>)) {
    use chancery_core::decision::{Before, Open};
    use chancery_core::rows::MapRows;
    use chancery_core::window::Windows;

    use crate::state::{Phase, SessionKind};

    let (rows, windows, settings) = (MapRows::default(), Windows::default(), Settings::default());
    let mut guards = Open;
    let mut cx = Cx::new(Before {
        now: Time::UNIX_EPOCH,
        seq: 1,
        rows: &rows,
        windows: &windows,
        guards: &mut guards,
        nonce: [0; 16],
        keeps_agenda: true,
    });
    let kind = SessionKind::BuyerJourney;
    act(&mut Turn {
        cx: &mut cx,
        settings: &settings,
        eval: Time::UNIX_EPOCH,
        session_id: "s",
        session: Session::new(kind, Phase::Browsing, Time::UNIX_EPOCH),
        is_new: true,
        principal: None,
    });
}
