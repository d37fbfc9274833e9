//! The index that a search reads instead of the catalog: for each word the first items that have it, each as a card with
//! what ranking compares.
//!
//! A search examines at most [`MAX_CANDIDATES`] items, rarest word first, in key order
//! (VC-ACT-platform.rank_offers-2); so a word's row need not hold more.

use std::collections::BTreeSet;

use bytes::Bytes;
use chancery_core::rows::RowKey;

use super::rows::{CatalogRow, item};

/// Items that one search examines at most.
pub const MAX_CANDIDATES: usize = 2_000;

/// The row of a word.
pub fn word_key(word: &str) -> RowKey {
    RowKey::text("vibe-word", &[word])
}

/// The distinct words of a text: lower case runs of letters and digits.
pub fn words(text: &str, into: &mut BTreeSet<String>) {
    let runs = text.split(|c: char| !c.is_alphanumeric());
    into.extend(runs.filter(|run| !run.is_empty()).map(str::to_lowercase));
}

/// The words by which an item is found.
pub fn words_of(row: &CatalogRow) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    words(&row.title, &mut found);
    for attribute in &row.attributes {
        words(attribute, &mut found);
    }
    found
}

/// The items of a word: how many there are, and the cards of the first of them in key order.
///
/// Its row is the number (eight bytes) and the cards one after the other, each after its length (four bytes).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Posting {
    /// How many items have the word.
    pub count: u64,
    /// The first of them, at most [`MAX_CANDIDATES`], each with its card's bytes.
    pub first: Vec<(String, Bytes)>,
}

impl Posting {
    /// A posting from its row; none when the row is damaged.
    pub fn parse(row: &Bytes) -> Option<Self> {
        let (count, cards) = Self::cards(row)?;
        let first = cards
            .map(|card| (card.item.to_owned(), row.slice_ref(card.bytes)))
            .collect();
        Some(Self { count, first })
    }

    /// How many items there are, and the cards of the first of them, without copies.
    pub fn cards(row: &[u8]) -> Option<(u64, impl Iterator<Item = Card<'_>>)> {
        let (count, cards) = row.split_first_chunk::<8>()?;
        Some((
            u64::from_be_bytes(*count),
            Texts(cards).filter_map(Card::parse),
        ))
    }

    /// The row.
    pub fn to_row(&self) -> Bytes {
        let cards: usize = self.first.iter().map(|(_, card)| card.len() + 4).sum();
        let mut row = Vec::with_capacity(8 + cards);
        row.extend_from_slice(&self.count.to_be_bytes());
        for (_, card) in &self.first {
            push_bytes(&mut row, card);
        }
        row.into()
    }

    /// Takes an item in that was not in.
    pub fn insert(&mut self, item: &str, card: Bytes) {
        self.count += 1;
        let at = self.place_of(item);
        if at < MAX_CANDIDATES {
            self.first.insert(at, (item.to_owned(), card));
            self.first.truncate(MAX_CANDIDATES);
        }
    }

    /// Changes the card of an item that is in.
    pub fn replace(&mut self, item: &str, card: Bytes) {
        let at = self.place_of(item);
        if let Some(entry) = self.first.get_mut(at).filter(|entry| entry.0 == item) {
            entry.1 = card;
        }
    }

    /// Takes an item out; says whether what is left is all there is.
    pub fn remove(&mut self, item: &str) -> bool {
        let was_whole = self.count == self.first.len() as u64;
        self.count = self.count.saturating_sub(1);
        self.first.retain(|(known, _)| known != item);
        was_whole
    }

    fn place_of(&self, item: &str) -> usize {
        self.first
            .partition_point(|(known, _)| known.as_str() < item)
    }
}

/// What ranking compares about an item, in a form that is quick to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card<'r> {
    bytes: &'r [u8],
    /// `merchant_id/sku_id`.
    pub item: &'r str,
    /// The list price.
    pub list_price: u64,
    /// Days until it is there.
    pub eta_days: u64,
    words: Texts<'r>,
    attributes: Texts<'r>,
}

/// Texts one after the other, each after its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Texts<'r>(&'r [u8]);

impl<'r> Iterator for Texts<'r> {
    type Item = &'r [u8];

    fn next(&mut self) -> Option<&'r [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        self.0 = rest;
        Some(text)
    }
}

impl<'r> Card<'r> {
    /// The card of a catalog entry.
    pub fn bytes_of(row: &CatalogRow) -> Bytes {
        let mut card = Vec::with_capacity(160);
        push_bytes(&mut card, item(&row.merchant_id, &row.sku_id).as_bytes());
        card.extend_from_slice(&row.list_price.to_be_bytes());
        card.extend_from_slice(&row.eta_days.to_be_bytes());
        let mut words = Vec::new();
        for word in words_of(row) {
            push_bytes(&mut words, word.as_bytes());
        }
        push_bytes(&mut card, &words);
        for attribute in &row.attributes {
            push_bytes(&mut card, attribute.as_bytes());
        }
        card.into()
    }

    /// A card from its bytes; none when they are damaged.
    pub fn parse(bytes: &'r [u8]) -> Option<Self> {
        let mut rest = Texts(bytes);
        let item = std::str::from_utf8(rest.next()?).ok()?;
        let (list_price, after) = rest.0.split_first_chunk::<8>()?;
        let (eta_days, after) = after.split_first_chunk::<8>()?;
        let mut rest = Texts(after);
        let words = rest.next()?;
        Some(Self {
            bytes,
            item,
            list_price: u64::from_be_bytes(*list_price),
            eta_days: u64::from_be_bytes(*eta_days),
            words: Texts(words),
            attributes: rest,
        })
    }

    /// Whether it has a word.
    pub fn has_word(&self, wanted: &str) -> bool {
        let mut words = self.words;
        words.any(|own| own == wanted.as_bytes())
    }

    /// Whether it has an attribute.
    pub fn has_attribute(&self, wanted: &str) -> bool {
        let mut attributes = self.attributes;
        attributes.any(|own| own == wanted.as_bytes())
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("a card is far below 4 GiB");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}
