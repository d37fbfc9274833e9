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
#[expect(missing_docs, reason = "the names are those of the specification")]
pub enum Table {
    Catalog,
    Disputes,
    Inventory,
    Ledger,
    Orders,
    Reputation,
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
#[expect(missing_docs, reason = "the fields are those of VC-WLD-1")]
#[serde(deny_unknown_fields)]
pub struct CatalogRow {
    pub attributes: Vec<String>,
    pub eta_days: u64,
    pub list_price: u64,
    pub merchant_id: String,
    pub refundable: bool,
    pub sku_id: String,
    pub title: String,
}

/// What a merchant has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of VC-WLD-1")]
#[serde(deny_unknown_fields)]
pub struct InventoryRow {
    pub merchant_id: String,
    pub on_hand: u64,
    pub reserved: u64,
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
#[expect(missing_docs, reason = "the fields are those of VC-WLD-1")]
#[serde(deny_unknown_fields)]
pub struct LedgerRow {
    pub account_id: String,
    pub balance: i64,
    pub currency: String,
    pub owner: String,
}

/// A merchant's score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of VC-WLD-1")]
#[serde(deny_unknown_fields)]
pub struct ReputationRow {
    pub merchant_id: String,
    pub score: i64,
}

/// The state of an order (VC-SM-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the states are those of the specification's table"
)]
pub enum OrderState {
    Paid,
    Shipped,
    ReturnRequested,
    ReturnApproved,
    PartiallyRefunded,
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
#[expect(missing_docs, reason = "the fields are those of world.create_order")]
pub struct OrderRow {
    pub buyer_account: String,
    pub cert_id: String,
    pub currency: String,
    pub mandate_id: String,
    pub merchant_account: String,
    pub merchant_id: String,
    pub offer_id: String,
    pub order_id: String,
    pub qty: u64,
    pub refunded_total: u64,
    pub sku_id: String,
    pub state: OrderState,
    pub total: u64,
    pub tx_id: String,
    pub unit_price: u64,
}

/// The state of a dispute (VC-SM-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the states are those of the specification")]
pub enum DisputeState {
    Open,
    EvidenceRequested,
    Ruled,
}

/// A dispute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of world.record_dispute")]
pub struct DisputeRow {
    pub dispute_id: String,
    pub evidence: Vec<String>,
    pub opened_by: String,
    pub order_id: String,
    pub reason: String,
    pub state: DisputeState,
    pub tx_id: String,
}

/// A ruling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of world.record_ruling")]
pub struct RulingRow {
    pub dispute_id: String,
    pub refund_amount: u64,
    pub ruling: String,
    pub ruling_id: String,
}

/// A merchant, which is in no table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of VC-WLD-1")]
#[serde(deny_unknown_fields)]
pub struct Merchant {
    pub account_id: String,
    pub merchant_id: String,
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
