//! Addresses: `<side>[:<role>]` (section 2).

use serde::{Deserialize, Serialize};

use crate::code::Code;

/// The side of an address: what the partition table keys on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The human buyer.
    Consumer,
    /// The buyer's agent.
    Buyer,
    /// The merchant and its agent.
    Merchant,
    /// The platform between them.
    Platform,
    /// The tables: a receiver only.
    World,
}

impl Side {
    /// The word before the colon.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Consumer => "consumer",
            Self::Buyer => "buyer",
            Self::Merchant => "merchant",
            Self::Platform => "platform",
            Self::World => "world",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [
            Self::Consumer,
            Self::Buyer,
            Self::Merchant,
            Self::Platform,
            Self::World,
        ]
        .into_iter()
        .find(|side| side.as_str() == word)
    }
}

/// The role of an address (VC-ADR-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The human buyer.
    Persona,
    /// Receives the mandate.
    Intent,
    /// Searches.
    Discovery,
    /// Offers, counters, accepts.
    Negotiation,
    /// Carts, settlement, returns, disputes.
    Authorization,
    /// Owns listings.
    Catalog,
    /// Answers what the merchant has.
    Retrieval,
    /// Offers, counters, accepts.
    Pricing,
    /// Dispatches.
    Fulfillment,
    /// Inquiries, returns, evidence.
    Support,
    /// The human merchant.
    Owner,
    /// Ranks, verifies, certifies, brokers stock.
    Aggregator,
    /// Moves money.
    Psp,
    /// Writes reputation.
    Reputation,
    /// Rules disputes.
    Adjudicator,
}

impl Role {
    /// Every role with its side and its word.
    const ALL: [(Side, &'static str, Self); 15] = [
        (Side::Consumer, "persona", Self::Persona),
        (Side::Buyer, "intent", Self::Intent),
        (Side::Buyer, "discovery", Self::Discovery),
        (Side::Buyer, "negotiation", Self::Negotiation),
        (Side::Buyer, "authorization", Self::Authorization),
        (Side::Merchant, "catalog", Self::Catalog),
        (Side::Merchant, "retrieval", Self::Retrieval),
        (Side::Merchant, "pricing", Self::Pricing),
        (Side::Merchant, "fulfillment", Self::Fulfillment),
        (Side::Merchant, "support", Self::Support),
        (Side::Merchant, "owner", Self::Owner),
        (Side::Platform, "aggregator", Self::Aggregator),
        (Side::Platform, "psp", Self::Psp),
        (Side::Platform, "reputation", Self::Reputation),
        (Side::Platform, "adjudicator", Self::Adjudicator),
    ];

    fn parse(side: Side, word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|(of, name, _)| *of == side && *name == word)
            .map(|(_, _, role)| role)
    }
}

/// A well-formed address. Without a role it speaks for its whole side (VC-ADR-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Its side.
    pub side: Side,
    /// Its role; none for a bare side and for `merchant:<n>`.
    pub role: Option<Role>,
}

impl Address {
    /// Reads a sender (VC-ADR-6).
    pub fn sender(text: &str) -> Result<Self, Code> {
        match Self::receiver(text)? {
            Self {
                side: Side::World, ..
            } => Err(Code::InvalidAddress),
            address => Ok(address),
        }
    }

    /// Reads a receiver (VC-ADR-6).
    pub fn receiver(text: &str) -> Result<Self, Code> {
        if text == "*" {
            return Err(Code::ReservedAddress);
        }
        let (side, role) = match text.split_once(':') {
            Some((side, role)) => (side, Some(role)),
            None => (text, None),
        };
        let side = Side::parse(side).ok_or(Code::InvalidAddress)?;
        let role = match role {
            None => None,
            Some(number) if side == Side::Merchant && is_number(number) => None,
            Some(word) => Some(Role::parse(side, word).ok_or(Code::InvalidAddress)?),
        };
        Ok(Self { side, role })
    }

    /// Whether this sender counts as one of `roles` on its side: a bare one as every agent role (VC-ADR-5).
    pub fn sends_as(self, side: Side, role: Role) -> bool {
        self.side == side
            && match self.role {
                Some(own) => own == role,
                None => side != Side::Platform && role != Role::Owner,
            }
    }

    /// Whether what is for that role reaches this receiver: a bare one wherever any role of its side is.
    pub fn receives_as(self, side: Side, role: Option<Role>) -> bool {
        self.side == side && (self.role.is_none() || self.role == role)
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether an entry of a token's addresses covers a sender (VC-ADR-7).
pub fn covers(entry: &str, sender: &str) -> bool {
    if entry == sender {
        return true;
    }
    let below = sender
        .strip_prefix(entry)
        .is_some_and(|rest| rest.starts_with(':'));
    match entry {
        "buyer" => below,
        "merchant" => below && sender != "merchant:owner",
        _ => false,
    }
}
