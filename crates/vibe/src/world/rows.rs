//! The rows of the seven tables (VC-GEN-2, VC-CLR-1).
//!
//! A row's bytes are its canonical JSON: fields stand in the order of their names and nothing else is written. So hashes,
//! diffs and reads take the bytes as they are.

use bytes::Bytes;
use chancery_core::rows::RowKey;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// One of the seven tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// What merchants list.
    Catalog,
    /// What is contested.
    Disputes,
    /// What merchants have.
    Inventory,
    /// All accounts.
    Ledger,
    /// What was bought.
    Orders,
    /// The merchants' scores.
    Reputation,
    /// How disputes were decided.
    Rulings,
}

impl Table {
    /// All tables, by name.
    pub const ALL: [Self; 7] = [
        Self::Catalog,
        Self::Disputes,
        Self::Inventory,
        Self::Ledger,
        Self::Orders,
        Self::Reputation,
        Self::Rulings,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Disputes => "disputes",
            Self::Inventory => "inventory",
            Self::Ledger => "ledger",
            Self::Orders => "orders",
            Self::Reputation => "reputation",
            Self::Rulings => "rulings",
        }
    }

    /// The table of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.as_str() == name)
    }

    const fn space(self) -> &'static str {
        match self {
            Self::Catalog => "vibe-w-catalog",
            Self::Disputes => "vibe-w-disputes",
            Self::Inventory => "vibe-w-inventory",
            Self::Ledger => "vibe-w-ledger",
            Self::Orders => "vibe-w-orders",
            Self::Reputation => "vibe-w-reputation",
            Self::Rulings => "vibe-w-rulings",
        }
    }

    /// The row key of an entry: `merchant_id/sku_id` for catalog and inventory, an identifier otherwise.
    pub fn key(self, entry: &str) -> RowKey {
        RowKey::text(self.space(), &[entry])
    }

    /// All rows of the table.
    pub fn prefix(self) -> RowKey {
        RowKey::text(self.space(), &[])
    }
}

/// The entry of an item in catalog and inventory.
pub fn item(merchant_id: &str, sku_id: &str) -> String {
    [merchant_id, "/", sku_id].concat()
}

/// The canonical bytes of a row.
pub fn bytes<T: Serialize>(row: &T) -> Bytes {
    serde_json::to_vec(row)
        .expect("a row is plain data and always has a JSON form")
        .into()
}

/// A row from its bytes.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(bytes)
}

/// What a merchant lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogRow {
    /// What it has.
    pub attributes: Vec<String>,
    /// Days until it is there.
    pub eta_days: u64,
    /// The price it is listed at.
    pub list_price: u64,
    /// The merchant.
    pub merchant_id: String,
    /// Whether it can be given back.
    pub refundable: bool,
    /// The sku.
    pub sku_id: String,
    /// Its title.
    pub title: String,
}

/// What a merchant has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InventoryRow {
    /// The merchant.
    pub merchant_id: String,
    /// How many are there.
    pub on_hand: u64,
    /// How many of them are sold and not dispatched.
    pub reserved: u64,
    /// The sku.
    pub sku_id: String,
}

impl InventoryRow {
    /// What can still be sold.
    pub fn available(&self) -> u64 {
        self.on_hand.saturating_sub(self.reserved)
    }
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerRow {
    /// The account.
    pub account_id: String,
    /// The balance in minor units.
    pub balance: i64,
    /// The currency.
    pub currency: String,
    /// Whose it is.
    pub owner: String,
}

/// A merchant's score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReputationRow {
    /// The merchant.
    pub merchant_id: String,
    /// From 0 to 1000.
    pub score: i64,
}

/// The state of an order (VC-SM-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderState {
    /// The money has moved.
    Paid,
    /// It is on its way or there.
    Shipped,
    /// The buyer wants to give it back.
    ReturnRequested,
    /// The merchant will refund.
    ReturnApproved,
    /// A part was refunded; final.
    PartiallyRefunded,
    /// All was refunded; final.
    Refunded,
}

impl OrderState {
    /// Whether nothing changes it any more.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::PartiallyRefunded | Self::Refunded)
    }
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRow {
    /// The account that paid.
    pub buyer_account: String,
    /// The certificate.
    pub cert_id: String,
    /// The currency.
    pub currency: String,
    /// The mandate.
    pub mandate_id: String,
    /// The account that was paid.
    pub merchant_account: String,
    /// The merchant.
    pub merchant_id: String,
    /// The offer.
    pub offer_id: String,
    /// The order.
    pub order_id: String,
    /// How many.
    pub qty: u64,
    /// What was given back so far.
    pub refunded_total: u64,
    /// The sku.
    pub sku_id: String,
    /// Where it is in its life.
    pub state: OrderState,
    /// The sum of all.
    pub total: u64,
    /// The transaction.
    pub tx_id: String,
    /// The price of one.
    pub unit_price: u64,
}

/// The state of a dispute (VC-SM-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisputeState {
    /// It can be answered.
    Open,
    /// Evidence was asked for.
    EvidenceRequested,
    /// It is decided; final.
    Ruled,
}

/// A dispute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisputeRow {
    /// The dispute.
    pub dispute_id: String,
    /// Accepted envelopes that support it.
    pub evidence: Vec<String>,
    /// The consumer that opened it.
    pub opened_by: String,
    /// The order.
    pub order_id: String,
    /// Why.
    pub reason: String,
    /// Where it is in its life.
    pub state: DisputeState,
    /// The transaction.
    pub tx_id: String,
}

/// A ruling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulingRow {
    /// The dispute.
    pub dispute_id: String,
    /// What is given back.
    pub refund_amount: u64,
    /// How it was ruled.
    pub ruling: String,
    /// The ruling.
    pub ruling_id: String,
}

/// A merchant, which is in no table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merchant {
    /// The account.
    pub account_id: String,
    /// The merchant.
    pub merchant_id: String,
    /// Its name.
    pub name: String,
}

/// The row of a merchant.
pub fn merchant_key(merchant_id: &str) -> RowKey {
    RowKey::text("vibe-merchant", &[merchant_id])
}

/// The row of the running hash (VC-WLD-4).
pub fn world_hash_key() -> RowKey {
    RowKey::text("vibe-world-hash", &[])
}

/// The row of the currencies that the world knows, for the guard (VC-PRIV-7).
pub fn currencies_key() -> RowKey {
    RowKey::text("vibe-currencies", &[])
}
