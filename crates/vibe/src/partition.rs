//! The permission table as data (section 4): who may send which action to whom.
//!
//! What is not in the table is denied (VC-PART-4). The rules never ask an agent's restraint; they ask this.

use std::sync::LazyLock;

use chancery_core::digest::{Sha256, Sha256Digest};

use crate::action::Action;
use crate::address::{Address, Role, Side};

/// One way that the table allows: an action from a role to a role, or to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The action.
    pub action: Action,
    /// Who sends.
    pub from: (Side, Role),
    /// Who receives; no role for the world.
    pub to: (Side, Option<Role>),
}

/// A table of ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table(pub Vec<Way>);

/// Which half of a denied pair failed (VC-PART-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The sender never sends this action.
    Sender,
    /// The sender does, but not to this receiver.
    Receiver,
}

impl Denied {
    /// The word in `details.failed`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }
}

const PERSONA: (Side, Role) = (Side::Consumer, Role::Persona);
const INTENT: (Side, Role) = (Side::Buyer, Role::Intent);
const DISCOVERY: (Side, Role) = (Side::Buyer, Role::Discovery);
const NEGOTIATION: (Side, Role) = (Side::Buyer, Role::Negotiation);
const AUTHORIZATION: (Side, Role) = (Side::Buyer, Role::Authorization);
const CATALOG: (Side, Role) = (Side::Merchant, Role::Catalog);
const RETRIEVAL: (Side, Role) = (Side::Merchant, Role::Retrieval);
const PRICING: (Side, Role) = (Side::Merchant, Role::Pricing);
const FULFILLMENT: (Side, Role) = (Side::Merchant, Role::Fulfillment);
const SUPPORT: (Side, Role) = (Side::Merchant, Role::Support);
const OWNER: (Side, Role) = (Side::Merchant, Role::Owner);
const AGGREGATOR: (Side, Role) = (Side::Platform, Role::Aggregator);
const PSP: (Side, Role) = (Side::Platform, Role::Psp);
const REPUTATION: (Side, Role) = (Side::Platform, Role::Reputation);
const ADJUDICATOR: (Side, Role) = (Side::Platform, Role::Adjudicator);

/// Every role with its side.
const ROLES: [(Side, Role); 15] = [
    PERSONA,
    INTENT,
    DISCOVERY,
    NEGOTIATION,
    AUTHORIZATION,
    CATALOG,
    RETRIEVAL,
    PRICING,
    FULFILLMENT,
    SUPPORT,
    OWNER,
    AGGREGATOR,
    PSP,
    REPUTATION,
    ADJUDICATOR,
];

/// A row of the table as the specification writes it: an action, its senders, its receivers.
type Row = (Action, &'static [(Side, Role)], &'static [(Side, Role)]);

/// The rows whose receivers are roles.
const ROWS: &[Row] = &[
    (Action::CreatePurchaseMandate, &[PERSONA], &[INTENT]),
    (Action::ApprovePurchase, &[PERSONA], &[AUTHORIZATION]),
    (Action::RejectPurchase, &[PERSONA], &[AUTHORIZATION]),
    (Action::SetBusinessGoal, &[OWNER], &[PRICING]),
    (Action::Search, &[DISCOVERY], &[AGGREGATOR]),
    (
        Action::RequestOffer,
        &[NEGOTIATION, DISCOVERY],
        &[PRICING, RETRIEVAL, SUPPORT],
    ),
    (Action::ProposeOffer, &[PRICING], &[NEGOTIATION]),
    (Action::ProposeOffer, &[NEGOTIATION], &[PRICING]),
    (Action::CounterOffer, &[PRICING], &[NEGOTIATION]),
    (Action::CounterOffer, &[NEGOTIATION], &[PRICING]),
    (Action::AcceptOffer, &[NEGOTIATION], &[PRICING, AGGREGATOR]),
    (Action::AcceptOffer, &[PRICING], &[NEGOTIATION]),
    (Action::RejectOffer, &[PRICING], &[NEGOTIATION]),
    (Action::RejectOffer, &[NEGOTIATION], &[PRICING]),
    (Action::CreateCart, &[AUTHORIZATION], &[PRICING, AGGREGATOR]),
    (Action::Dispatch, &[FULFILLMENT], &[AUTHORIZATION]),
    (Action::RequestReturn, &[AUTHORIZATION], &[SUPPORT]),
    (Action::RespondReturn, &[SUPPORT], &[AUTHORIZATION]),
    (
        Action::RespondInquiry,
        &[SUPPORT, RETRIEVAL],
        &[NEGOTIATION, DISCOVERY],
    ),
    (Action::RankOffers, &[AGGREGATOR], &[DISCOVERY]),
    (
        Action::VerifyClaims,
        &[AGGREGATOR],
        &[AUTHORIZATION, PRICING],
    ),
    (
        Action::CreateMatchCertificate,
        &[AGGREGATOR],
        &[AUTHORIZATION],
    ),
    (Action::AuthorizePayment, &[PSP], &[AUTHORIZATION]),
    (Action::SettlePayment, &[AUTHORIZATION], &[PSP]),
    (Action::SettlePayment, &[PSP], &[AUTHORIZATION]),
    (Action::RefundPayment, &[PSP], &[AUTHORIZATION]),
    (Action::OpenDispute, &[AUTHORIZATION], &[ADJUDICATOR]),
    (
        Action::RequestEvidence,
        &[ADJUDICATOR],
        &[AUTHORIZATION, SUPPORT],
    ),
    (
        Action::SubmitEvidence,
        &[AUTHORIZATION, SUPPORT],
        &[ADJUDICATOR],
    ),
    (
        Action::RuleDispute,
        &[ADJUDICATOR],
        &[AUTHORIZATION, SUPPORT],
    ),
];

/// The rows whose receiver is the world.
const WRITES: &[(Action, &[(Side, Role)])] = &[
    (Action::CreateOrder, &[PSP]),
    (Action::ReserveInventory, &[PSP]),
    (Action::UpdateLedger, &[PSP]),
    (Action::UpdateInventory, &[AGGREGATOR]),
    (Action::UpdateOrder, &[PSP, AGGREGATOR]),
    (Action::RecordDispute, &[ADJUDICATOR]),
    (Action::UpdateDispute, &[ADJUDICATOR]),
    (Action::RecordRuling, &[ADJUDICATOR]),
    (Action::UpdateReputation, &[REPUTATION]),
];

/// The table of the specification.
pub static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut ways = Vec::new();
    for (action, senders, receivers) in ROWS {
        for from in *senders {
            ways.extend(receivers.iter().map(|(side, role)| Way {
                action: *action,
                from: *from,
                to: (*side, Some(*role)),
            }));
        }
    }
    for (action, senders) in WRITES {
        ways.extend(senders.iter().map(|from| Way {
            action: *action,
            from: *from,
            to: (Side::World, None),
        }));
    }
    Table(ways)
});

impl Table {
    /// Whether the pair is allowed; else which half of it is not.
    pub fn check(&self, action: Action, from: Address, to: Address) -> Result<(), Denied> {
        let mut of_sender = self
            .0
            .iter()
            .filter(|way| way.action == action && from.sends_as(way.from.0, way.from.1))
            .peekable();
        if of_sender.peek().is_none() {
            return Err(Denied::Sender);
        }
        if of_sender.any(|way| to.receives_as(way.to.0, way.to.1)) {
            Ok(())
        } else {
            Err(Denied::Receiver)
        }
    }

    /// The same table, but for one action between whom two addresses stand for, which is allowed or denied; without an
    /// address it is anybody. A bare one stands for as many roles as it has when it sends or receives (VC-ADR-5).
    #[must_use]
    pub fn changed(
        &self,
        action: Action,
        from: Option<Address>,
        to: Option<Address>,
        is_allowed: bool,
    ) -> Self {
        let sends = |(side, role)| from.is_none_or(|from| from.sends_as(side, role));
        let receives = |(side, role)| to.is_none_or(|to| to.receives_as(side, role));
        let is_meant = |way: &&Way| way.action == action && sends(way.from) && receives(way.to);
        let mut ways: Vec<Way> = self
            .0
            .iter()
            .filter(|way| !is_meant(way))
            .copied()
            .collect();
        if is_allowed {
            let receivers = ROLES.map(|(side, role)| (side, Some(role)));
            let receivers = receivers.into_iter().chain([(Side::World, None)]);
            for to in receivers.filter(|to| receives(*to)) {
                let senders = ROLES.into_iter().filter(|from| sends(*from));
                ways.extend(senders.map(|from| Way { action, from, to }));
            }
        }
        Self(ways)
    }

    /// The digest that a configuration line names (CH-JRN-12).
    pub fn digest(&self) -> Sha256Digest {
        let mut hash = Sha256::new();
        for way in &self.0 {
            let text = format!("{} {:?} {:?}\n", way.action.kind(), way.from, way.to);
            hash.update(text.as_bytes());
        }
        hash.finish()
    }
}
