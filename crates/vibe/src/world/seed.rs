//! The world seed: one JSON file that the tables start from (VC-WLD-1).
//!
//! A seed that names what it does not define, or writes money as anything but an integer, is refused with the path.

use std::collections::{BTreeMap, BTreeSet};

use chancery_core::digest::{Sha256, Sha256Digest};
use chancery_core::json::{
    self, DuplicateNames, Integers, Object, Overflow, Place, ReadRules, Value,
};
use chancery_core::keys::p256::VerifyingKey;
use chancery_core::keys::{Algorithm, KeyRecord, KeySource, KeyState};
use chancery_core::rows::{MapRows, RowChange};

use super::hash::state_hash;
use super::index::{Card, Posting, word_key, words_of};
use super::rows::{
    CatalogRow, InventoryRow, LedgerRow, Merchant, ReputationRow, Table, bytes, currencies_key,
    item, merchant_key, world_hash_key,
};
use crate::address::Address;
use crate::message::is_id;
use crate::money::is_currency;
use crate::seal::{key_owner, key_owner_for};
use crate::settings::{Policy, Settings};

/// The largest seed that is read.
pub const MAX_SEED_BYTES: usize = 1 << 30;
/// The score of a merchant that the seed gives none (VC-REP-2).
pub const DEFAULT_SCORE: i64 = 500;

const RULES: ReadRules = ReadRules {
    max_bytes: MAX_SEED_BYTES,
    max_depth: 64,
    duplicate_names: DuplicateNames::Refuse,
    integers: Integers::Safe,
    overflow: Overflow::Refuse,
};

/// What is wrong with a seed, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {expected}")]
pub struct SeedFault {
    /// JSONPath of the member.
    pub path: String,
    /// What belongs there.
    pub expected: &'static str,
}

/// A seed, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Its name.
    pub seed_id: String,
    /// The world's currency.
    pub currency: String,
    /// The policy in force.
    pub policy: Policy,
    /// The merchants.
    pub merchants: Vec<Merchant>,
    /// What they list.
    pub catalog: Vec<CatalogRow>,
    /// What they have.
    pub inventory: Vec<InventoryRow>,
    /// All accounts.
    pub ledger: Vec<LedgerRow>,
    /// The merchants' scores, one for each.
    pub reputation: Vec<ReputationRow>,
    /// Pinned keys.
    pub keys: Vec<PinnedKey>,
    /// The SHA-256 of the file: what a configuration line names (CH-JRN-12).
    pub digest: Sha256Digest,
}

/// A key that signs for some addresses (VC-SIG-3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedKey {
    /// Its name.
    pub kid: String,
    /// The key.
    pub key: VerifyingKey,
    /// The addresses, exactly as senders write them.
    pub addresses: Vec<String>,
}

impl Seed {
    /// Reads a seed file.
    pub fn parse(file: &[u8]) -> Result<Self, SeedFault> {
        let value = json::read(file, &RULES).map_err(|fault| SeedFault {
            path: fault.path.to_jsonpath(),
            expected: "JSON without repeated names, unsafe integers or a byte order mark",
        })?;
        let place = Place::ROOT;
        let root = Part::of(&value, &place)?;
        let currency = root.currency("currency")?;
        let mut seed = Self {
            seed_id: root.text("seed_id")?,
            policy: root.policy()?,
            merchants: root.rows("merchants", Part::merchant)?,
            catalog: root.rows("catalog", Part::catalog)?,
            inventory: root.rows("inventory", Part::inventory)?,
            ledger: root.rows("ledger", Part::account)?,
            reputation: root.optional_rows("reputation", Part::reputation)?,
            keys: root.optional_rows("keys", Part::pinned_key)?,
            currency,
            digest: Sha256Digest::of(file),
        };
        seed.check_references()?;
        seed.complete_reputation();
        Ok(seed)
    }

    fn check_references(&self) -> Result<(), SeedFault> {
        let merchants = distinct(
            "merchants",
            self.merchants.iter().map(|row| row.merchant_id.clone()),
        )?;
        let accounts = distinct(
            "ledger",
            self.ledger.iter().map(|row| row.account_id.clone()),
        )?;
        let items = distinct(
            "catalog",
            self.catalog
                .iter()
                .map(|row| item(&row.merchant_id, &row.sku_id)),
        )?;
        distinct(
            "inventory",
            self.inventory
                .iter()
                .map(|row| item(&row.merchant_id, &row.sku_id)),
        )?;
        distinct(
            "reputation",
            self.reputation.iter().map(|row| row.merchant_id.clone()),
        )?;
        distinct("keys", self.keys.iter().map(|key| key.kid.clone()))?;
        let known = |table: &str, index: usize, name: &str, found: bool| {
            if found {
                return Ok(());
            }
            Err(SeedFault {
                path: format!("$.{table}[{index}].{name}"),
                expected: "a reference to what the seed defines",
            })
        };
        for (index, row) in self.merchants.iter().enumerate() {
            known(
                "merchants",
                index,
                "account_id",
                accounts.contains(&row.account_id),
            )?;
        }
        for (index, row) in self.catalog.iter().enumerate() {
            known(
                "catalog",
                index,
                "merchant_id",
                merchants.contains(&row.merchant_id),
            )?;
        }
        for (index, row) in self.inventory.iter().enumerate() {
            let entry = item(&row.merchant_id, &row.sku_id);
            known("inventory", index, "sku_id", items.contains(&entry))?;
        }
        for (index, row) in self.reputation.iter().enumerate() {
            known(
                "reputation",
                index,
                "merchant_id",
                merchants.contains(&row.merchant_id),
            )?;
        }
        Ok(())
    }

    /// Every merchant has a reputation row (VC-CLR-1).
    fn complete_reputation(&mut self) {
        let scored: BTreeSet<String> = self
            .reputation
            .iter()
            .map(|row| row.merchant_id.clone())
            .collect();
        let missing = self
            .merchants
            .iter()
            .filter(|merchant| !scored.contains(&merchant.merchant_id));
        self.reputation
            .extend(missing.map(|merchant| ReputationRow {
                merchant_id: merchant.merchant_id.clone(),
                score: DEFAULT_SCORE,
            }));
    }

    /// Rule settings with what this seed says: the rest is the caller's.
    #[must_use]
    pub fn in_settings(&self, mut settings: Settings) -> Settings {
        settings.world = Some(self.digest.hex());
        settings.currency.clone_from(&self.currency);
        settings.policy = self.policy.clone();
        settings
    }

    /// The rows that stand before a log's first line.
    pub fn rows(&self) -> MapRows {
        let mut rows = MapRows::default();
        rows.apply(self.table_rows());
        rows.apply(
            self.merchants
                .iter()
                .map(|row| (merchant_key(&row.merchant_id), Some(bytes(row).into()))),
        );
        rows.apply(self.index_rows());
        let mut currencies: BTreeSet<&str> = self
            .ledger
            .iter()
            .map(|row| row.currency.as_str())
            .collect();
        currencies.insert(&self.currency);
        rows.apply([(currencies_key(), Some(bytes(&currencies).into()))]);
        let hash = state_hash(&rows).expect("rows in memory are never damaged");
        rows.apply([(world_hash_key(), Some(hash.as_bytes().to_vec().into()))]);
        rows
    }

    fn table_rows(&self) -> Vec<RowChange> {
        let mut rows = Vec::new();
        for row in &self.catalog {
            let entry = item(&row.merchant_id, &row.sku_id);
            rows.push((Table::Catalog.key(&entry), Some(bytes(row).into())));
        }
        for row in &self.inventory {
            let entry = item(&row.merchant_id, &row.sku_id);
            rows.push((Table::Inventory.key(&entry), Some(bytes(row).into())));
        }
        for row in &self.ledger {
            rows.push((Table::Ledger.key(&row.account_id), Some(bytes(row).into())));
        }
        for row in &self.reputation {
            rows.push((
                Table::Reputation.key(&row.merchant_id),
                Some(bytes(row).into()),
            ));
        }
        rows
    }

    fn index_rows(&self) -> Vec<RowChange> {
        let mut postings: BTreeMap<String, Posting> = BTreeMap::new();
        for row in &self.catalog {
            let entry = item(&row.merchant_id, &row.sku_id);
            let card = Card::bytes_of(row);
            for word in words_of(row) {
                postings
                    .entry(word)
                    .or_default()
                    .insert(&entry, card.clone());
            }
        }
        postings
            .iter()
            .map(|(word, posting)| (word_key(word), Some(posting.to_row().into())))
            .collect()
    }

    /// The pinned keys as key lines hold them: put on record before the first envelope, so that the log alone says which key
    /// signed (CH-JRN-1).
    pub fn key_records(&self) -> Vec<KeyRecord> {
        let record = |key: &PinnedKey, owner: String| KeyRecord {
            id: key.kid.clone(),
            owner,
            algorithm: Algorithm::Es256,
            public: key.key.as_bytes().to_vec(),
            state: KeyState::Active,
            valid_from: None,
            valid_until: None,
            source: KeySource::Operator,
            removed: false,
        };
        let mut records = Vec::new();
        for key in &self.keys {
            records.push(record(key, key_owner(&key.kid)));
            let addresses: BTreeSet<&String> = key.addresses.iter().collect();
            for address in addresses {
                records.push(record(key, key_owner_for(&key.kid, address)));
            }
        }
        records.sort_by(|a, b| (&a.owner, &a.id).cmp(&(&b.owner, &b.id)));
        records
    }
}

/// The names of a table, each once.
fn distinct(
    table: &str,
    names: impl Iterator<Item = String>,
) -> Result<BTreeSet<String>, SeedFault> {
    let mut known = BTreeSet::new();
    for (index, name) in names.enumerate() {
        if !known.insert(name) {
            return Err(SeedFault {
                path: format!("$.{table}[{index}]"),
                expected: "a row that is not there twice",
            });
        }
    }
    Ok(known)
}

/// An object of the seed and its place.
struct Part<'p> {
    object: &'p Object<'p>,
    place: &'p Place<'p>,
}

impl<'p> Part<'p> {
    fn of(value: &'p Value<'p>, place: &'p Place<'p>) -> Result<Self, SeedFault> {
        let object = value.as_object().ok_or_else(|| fault(place, "an object"))?;
        Ok(Self { object, place })
    }

    fn wrong(&self, name: &str, expected: &'static str) -> SeedFault {
        fault(&self.place.child(name), expected)
    }

    fn text(&self, name: &str) -> Result<String, SeedFault> {
        let text = self.object.get(name).and_then(Value::as_str);
        text.map(str::to_owned)
            .ok_or_else(|| self.wrong(name, "a string"))
    }

    fn id(&self, name: &str) -> Result<String, SeedFault> {
        let text = self.text(name)?;
        if is_id(&text) {
            Ok(text)
        } else {
            Err(self.wrong(name, "an identifier"))
        }
    }

    fn currency(&self, name: &str) -> Result<String, SeedFault> {
        let text = self.text(name)?;
        if is_currency(&text) {
            Ok(text)
        } else {
            Err(self.wrong(name, "three capital letters"))
        }
    }

    fn integer(&self, name: &str) -> Result<i64, SeedFault> {
        let number = self.object.get(name).and_then(Value::as_number);
        number
            .filter(|number| number.is_safe_integer())
            .and_then(json::Number::as_i64)
            .ok_or_else(|| self.wrong(name, "an integer"))
    }

    fn count(&self, name: &str) -> Result<u64, SeedFault> {
        u64::try_from(self.integer(name)?).map_err(|_| self.wrong(name, "an integer from 0"))
    }

    fn bool(&self, name: &str) -> Result<bool, SeedFault> {
        let found = self.object.get(name).and_then(Value::as_bool);
        found.ok_or_else(|| self.wrong(name, "true or false"))
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, SeedFault> {
        let items = self.object.get(name).and_then(Value::as_array);
        let texts = items.and_then(|items| {
            items
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect()
        });
        texts.ok_or_else(|| self.wrong(name, "a list of strings"))
    }

    fn rows<T>(
        &self,
        name: &str,
        read: fn(&Part<'_>) -> Result<T, SeedFault>,
    ) -> Result<Vec<T>, SeedFault> {
        let items = self.object.get(name).and_then(Value::as_array);
        let items = items.ok_or_else(|| self.wrong(name, "a list"))?;
        let place = self.place.child(name);
        let read_row = |(index, item): (usize, &Value<'_>)| {
            let place = place.item(index);
            read(&Part::of(item, &place)?)
        };
        items.iter().enumerate().map(read_row).collect()
    }

    fn optional_rows<T>(
        &self,
        name: &str,
        read: fn(&Part<'_>) -> Result<T, SeedFault>,
    ) -> Result<Vec<T>, SeedFault> {
        match self.object.get(name) {
            None => Ok(Vec::new()),
            Some(_) => self.rows(name, read),
        }
    }

    fn policy(&self) -> Result<Policy, SeedFault> {
        let mut policy = Policy::default();
        let Some(value) = self.object.get("policy") else {
            return Ok(policy);
        };
        let place = self.place.child("policy");
        let part = Part::of(value, &place)?;
        for (name, _) in part.object.iter() {
            match name {
                "auth_ttl_s" => policy.auth_ttl_s = part.count(name)?,
                "cert_ttl_s" => policy.cert_ttl_s = part.count(name)?,
                "freshness_window_s" => policy.freshness_window_s = part.count(name)?,
                "min_reputation" => policy.min_reputation = part.integer(name)?,
                "ranking_version" => policy.ranking_version = part.text(name)?,
                "verification_version" => policy.verification_version = part.text(name)?,
                other => return Err(part.wrong(other, "a member that a policy has")),
            }
        }
        Ok(policy)
    }

    fn merchant(part: &Part<'_>) -> Result<Merchant, SeedFault> {
        Ok(Merchant {
            merchant_id: part.id("merchant_id")?,
            name: part.text("name")?,
            account_id: part.id("account_id")?,
        })
    }

    fn catalog(part: &Part<'_>) -> Result<CatalogRow, SeedFault> {
        Ok(CatalogRow {
            merchant_id: part.id("merchant_id")?,
            sku_id: part.id("sku_id")?,
            title: part.text("title")?,
            attributes: part.texts("attributes")?,
            list_price: part.count("list_price")?,
            eta_days: part.count("eta_days")?,
            refundable: part.bool("refundable")?,
        })
    }

    fn inventory(part: &Part<'_>) -> Result<InventoryRow, SeedFault> {
        let row = InventoryRow {
            merchant_id: part.id("merchant_id")?,
            sku_id: part.id("sku_id")?,
            on_hand: part.count("on_hand")?,
            reserved: part.count("reserved")?,
        };
        if row.reserved > row.on_hand {
            return Err(part.wrong("reserved", "at most what is on hand"));
        }
        Ok(row)
    }

    fn account(part: &Part<'_>) -> Result<LedgerRow, SeedFault> {
        Ok(LedgerRow {
            account_id: part.id("account_id")?,
            owner: part.id("owner")?,
            currency: part.currency("currency")?,
            balance: part.integer("balance")?,
        })
    }

    fn reputation(part: &Part<'_>) -> Result<ReputationRow, SeedFault> {
        let score = part.integer("score")?;
        if !(0..=1_000).contains(&score) {
            return Err(part.wrong("score", "an integer from 0 to 1000"));
        }
        Ok(ReputationRow {
            merchant_id: part.id("merchant_id")?,
            score,
        })
    }

    fn pinned_key(part: &Part<'_>) -> Result<PinnedKey, SeedFault> {
        let kid = part.text("kid")?;
        let value = part.object.get("jwk");
        let place = part.place.child("jwk");
        let value = value.ok_or_else(|| fault(&place, "a JWK"))?;
        let jwk = Part::of(value, &place)?;
        if jwk.text("kty")? != "EC" || jwk.text("crv")? != "P-256" {
            return Err(fault(&place, "a key of the curve P-256"));
        }
        let key = VerifyingKey::from_jwk(&jwk.text("x")?, &jwk.text("y")?)
            .map_err(|_| fault(&place, "a point of P-256 in base64url"))?;
        let addresses = part.texts("addresses")?;
        if addresses
            .iter()
            .any(|address| Address::sender(address).is_err())
        {
            return Err(part.wrong("addresses", "addresses that may send"));
        }
        Ok(PinnedKey {
            kid,
            key,
            addresses,
        })
    }
}

fn fault(place: &Place<'_>, expected: &'static str) -> SeedFault {
    SeedFault {
        path: place.to_path().to_jsonpath(),
        expected,
    }
}

/// The digest of a seed file, without reading it.
pub fn digest(file: &[u8]) -> Sha256Digest {
    let mut hash = Sha256::new();
    hash.update(file);
    hash.finish()
}
