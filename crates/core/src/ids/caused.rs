//! Identifiers that follow from the message that caused them, so that vibe replays without randomness.

use std::fmt::Write as _;

use uuid::Uuid;

use super::layout::{first_of, v4};
use crate::digest::{Sha256Digest, hex};

/// The id of the `index`-th (from 1) envelope that `parent_msg_id` caused (VC-CAN-6).
#[must_use]
pub fn child_id(parent_msg_id: &str, index: u64) -> Uuid {
    let mut named = String::with_capacity(parent_msg_id.len() + 21);
    named.push_str(parent_msg_id);
    // Writing to a String cannot fail.
    let _ = write!(named, ":{index}");
    v4(first_of(&Sha256Digest::of(named.as_bytes()).0))
}

/// What the vibe runtime makes and names (VC-CAN-7, VC-PLAT-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A settled transaction.
    Tx,
    /// An order.
    Order,
    /// A payment authorization.
    Auth,
    /// A return.
    Return,
    /// A dispute.
    Dispute,
    /// A ruling.
    Ruling,
    /// A match certificate, when the platform makes it.
    Cert,
    /// A payment mandate, when the platform makes it.
    Pay,
}

impl ObjectKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Tx,
        Self::Order,
        Self::Auth,
        Self::Return,
        Self::Dispute,
        Self::Ruling,
        Self::Cert,
        Self::Pay,
    ];

    /// The name that is hashed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Order => "order",
            Self::Auth => "auth",
            Self::Return => "return",
            Self::Dispute => "dispute",
            Self::Ruling => "ruling",
            Self::Cert => "cert",
            Self::Pay => "pay",
        }
    }

    /// What the id begins with.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Tx => "tx_",
            Self::Order => "ord_",
            Self::Auth => "auth_",
            Self::Return => "ret_",
            Self::Dispute => "dsp_",
            Self::Ruling => "rul_",
            Self::Cert => "cert_",
            Self::Pay => "pay_",
        }
    }
}

/// The id of the object that the message `msg_id` caused: the kind's prefix and 16 hex digits (VC-CAN-7).
#[must_use]
pub fn object_id(kind: ObjectKind, msg_id: &str) -> String {
    let named = [kind.name(), ":", msg_id].concat();
    let digest = Sha256Digest::of(named.as_bytes());
    let mut id = String::from(kind.prefix());
    hex::encode_to(&first_of::<8>(&digest.0), &mut id);
    id
}
