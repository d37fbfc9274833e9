//! Changes of the world after the start, by an operator: catalog, stock, accounts, merchants. Each is a `node` line of
//! kind `world`, so that replay makes it again (CH-JRN-1).

use std::collections::{BTreeMap, BTreeSet};

use chancery_core::admin::canonical_json;
use chancery_core::decision::{Cx, Stop};
use chancery_core::line::{Draft, DraftEnvelope, Origin, ProtocolName, Seq};
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowsDamaged;
use serde::{Deserialize, Serialize};

use super::index::{Card, Posting, word_key, words_of};
use super::rows::{
    CatalogRow, InventoryRow, LedgerRow, Merchant, ReputationRow, Table, bytes, currencies_key,
    item, merchant_key,
};
use super::seed::DEFAULT_SCORE;
use crate::message::is_id;
use crate::money::{MAX, is_currency};
use crate::rules::diff::Ops;

/// Entries of one change at most: a larger file is several lines.
pub const MAX_ENTRIES: usize = 1_000;

/// A stock that is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stock {
    /// The merchant.
    pub merchant_id: String,
    /// The sku.
    pub sku_id: String,
    /// How many are there.
    pub on_hand: u64,
}

/// What an operator changes: rows as they are from here on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// Merchants that are new, or change their name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub merchants: Vec<Merchant>,
    /// Listings that are new or changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub catalog: Vec<CatalogRow>,
    /// Stocks as they were counted; what is reserved stays reserved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<Stock>,
    /// Accounts that are new, or whose balance was set outside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ledger: Vec<LedgerRow>,
}

/// Administration of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Act {
    /// A change of the world.
    World(Change),
}

/// Decides a change: writes its line and its rows.
pub fn decide(act: &Act, cx: &mut Cx<'_>) -> Result<Seq, Stop> {
    let Act::World(change) = act;
    check(change)?;
    let mut ops = Ops::default();
    for row in &change.ledger {
        set_account(row, &mut ops, cx)?;
    }
    for row in &change.merchants {
        set_merchant(row, &mut ops, cx)?;
    }
    let mut words = Words::default();
    for row in &change.catalog {
        set_listing(row, &mut words, &mut ops, cx)?;
    }
    words.write(cx);
    for row in &change.inventory {
        set_stock(row, &mut ops, cx)?;
    }
    ops.advance_world_hash(cx)?;
    Ok(cx.line(Draft {
        protocol: ProtocolName::Node,
        origin: Origin::External,
        envelope: DraftEnvelope::Whole(canonical_json(act)),
        raw: None,
        signature: None,
        eval_ts: None,
        meta: Vec::new(),
    }))
}

fn refuse(message: &'static str) -> Refusal {
    Refusal::new("world_change_refused", 409, "CH-JRN-1", message)
}

fn check(change: &Change) -> Result<(), Stop> {
    let entries = change.merchants.len()
        + change.catalog.len()
        + change.inventory.len()
        + change.ledger.len();
    if entries == 0 || entries > MAX_ENTRIES {
        return Err(refuse("a change has 1 to 1000 entries").into());
    }
    let ids = change
        .merchants
        .iter()
        .flat_map(|row| [&row.merchant_id, &row.account_id])
        .chain(
            change
                .catalog
                .iter()
                .flat_map(|row| [&row.merchant_id, &row.sku_id]),
        )
        .chain(
            change
                .inventory
                .iter()
                .flat_map(|row| [&row.merchant_id, &row.sku_id]),
        )
        .chain(
            change
                .ledger
                .iter()
                .flat_map(|row| [&row.account_id, &row.owner]),
        );
    let amounts = change
        .catalog
        .iter()
        .flat_map(|row| [row.list_price, row.eta_days])
        .chain(change.inventory.iter().map(|row| row.on_hand))
        .chain(change.ledger.iter().map(|row| row.balance.unsigned_abs()));
    let well_formed = ids.into_iter().all(|id| is_id(id))
        && amounts.into_iter().all(|amount| amount <= MAX)
        && change.ledger.iter().all(|row| is_currency(&row.currency));
    if well_formed {
        Ok(())
    } else {
        Err(refuse("an identifier, amount or currency of the change is not well formed").into())
    }
}

fn set_account(row: &LedgerRow, ops: &mut Ops, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let before: Option<LedgerRow> = cx.row(&Table::Ledger.key(&row.account_id))?;
    if before.is_some_and(|before| before.owner != row.owner || before.currency != row.currency) {
        return Err(refuse("an account keeps its owner and its currency").into());
    }
    let mut currencies: BTreeSet<String> = cx.row(&currencies_key())?.unwrap_or_default();
    if currencies.insert(row.currency.clone()) {
        cx.put_bytes(currencies_key(), bytes(&currencies));
    }
    ops.put(Table::Ledger, &row.account_id, bytes(row), cx)
}

fn set_merchant(row: &Merchant, ops: &mut Ops, cx: &mut Cx<'_>) -> Result<(), Stop> {
    if cx.bytes(&Table::Ledger.key(&row.account_id))?.is_none() {
        return Err(refuse("a merchant's account must be on the ledger").into());
    }
    let key = merchant_key(&row.merchant_id);
    let before: Option<Merchant> = cx.row(&key)?;
    if before
        .as_ref()
        .is_some_and(|before| before.account_id != row.account_id)
    {
        return Err(refuse("a merchant keeps its account").into());
    }
    cx.put_bytes(key, bytes(row));
    if before.is_none() {
        let score = ReputationRow {
            merchant_id: row.merchant_id.clone(),
            score: DEFAULT_SCORE,
        };
        ops.put(Table::Reputation, &row.merchant_id, bytes(&score), cx)?;
    }
    Ok(())
}

/// The words that a change touches: each is read once and written once, however many listings have it.
#[derive(Default)]
struct Words(BTreeMap<String, Posting>);

impl Words {
    fn of(&mut self, word: &str, cx: &Cx<'_>) -> Result<&mut Posting, Stop> {
        if !self.0.contains_key(word) {
            let posting = match cx.bytes(&word_key(word))? {
                None => Posting::default(),
                Some(row) => Posting::parse(row.bytes())
                    .ok_or_else(|| RowsDamaged(format!("vibe-word/{word}")))?,
            };
            self.0.insert(word.to_owned(), posting);
        }
        Ok(self.0.get_mut(word).expect("it was put in above"))
    }

    fn write(self, cx: &mut Cx<'_>) {
        for (word, posting) in self.0 {
            cx.put_bytes(word_key(&word), posting.to_row());
        }
    }
}

fn set_listing(
    row: &CatalogRow,
    words: &mut Words,
    ops: &mut Ops,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    if cx.bytes(&merchant_key(&row.merchant_id))?.is_none() {
        return Err(refuse("a listing needs its merchant").into());
    }
    let entry = item(&row.merchant_id, &row.sku_id);
    let before: Option<CatalogRow> = cx.row(&Table::Catalog.key(&entry))?;
    let (old, new) = (
        before.as_ref().map(words_of).unwrap_or_default(),
        words_of(row),
    );
    ops.put(Table::Catalog, &entry, bytes(row), cx)?;
    let card = Card::bytes_of(row);
    for word in &new {
        let posting = words.of(word, cx)?;
        if old.contains(word) {
            posting.replace(&entry, card.clone());
        } else {
            posting.insert(&entry, card.clone());
        }
    }
    for word in old.difference(&new) {
        if !words.of(word, cx)?.remove(&entry) {
            *words.of(word, cx)? = whole_posting(word, cx)?;
        }
    }
    Ok(())
}

/// A word's items, made again from the catalog: for a row that held only a part of them and lost one. Rare.
fn whole_posting(word: &str, cx: &Cx<'_>) -> Result<Posting, Stop> {
    let mut whole = Posting::default();
    for (key, row) in cx.scan(&Table::Catalog.prefix())? {
        let row: CatalogRow =
            super::rows::parse(&row).map_err(|error| RowsDamaged(format!("{key:?}: {error}")))?;
        if words_of(&row).contains(word) {
            whole.insert(&item(&row.merchant_id, &row.sku_id), Card::bytes_of(&row));
        }
    }
    Ok(whole)
}

fn set_stock(stock: &Stock, ops: &mut Ops, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let entry = item(&stock.merchant_id, &stock.sku_id);
    if cx.bytes(&Table::Catalog.key(&entry))?.is_none() {
        return Err(refuse("a stock needs its listing").into());
    }
    let before: Option<InventoryRow> = cx.row(&Table::Inventory.key(&entry))?;
    let reserved = before.map_or(0, |row| row.reserved);
    if stock.on_hand < reserved {
        return Err(refuse("less than what is reserved").into());
    }
    let row = InventoryRow {
        merchant_id: stock.merchant_id.clone(),
        on_hand: stock.on_hand,
        reserved,
        sku_id: stock.sku_id.clone(),
    };
    ops.put(Table::Inventory, &entry, bytes(&row), cx)
}
