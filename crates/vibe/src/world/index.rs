//! The index that a search reads instead of the catalog: for each word the first items that have it, for each item a card
//! with what ranking compares.
//!
//! A search examines at most [`MAX_CANDIDATES`] items, rarest word first, in key order
//! (VC-ACT-platform.rank_offers-2); so a word's row need not hold more.

use std::collections::BTreeSet;

use bytes::Bytes;
use chancery_core::rows::RowKey;

use super::rows::CatalogRow;

/// Items that one search examines at most.
pub const MAX_CANDIDATES: usize = 2_000;

/// The row of a word.
pub fn word_key(word: &str) -> RowKey {
    RowKey::text("vibe-word", &[word])
}

/// The row of an item's card.
pub fn card_key(item: &str) -> RowKey {
    RowKey::text("vibe-card", &[item])
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

/// The items of a word: how many there are, and the first of them in key order.
///
/// Its row is text: the number, then an item a line. Identifiers hold no line breaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Posting {
    /// How many items have the word.
    pub count: u64,
    /// The first of them, at most [`MAX_CANDIDATES`].
    pub first: Vec<String>,
}

impl Posting {
    /// A posting from its row; none when the row is damaged.
    pub fn parse(row: &[u8]) -> Option<Self> {
        let (count, items) = Self::peek(row)?;
        Some(Self {
            count,
            first: items.map(str::to_owned).collect(),
        })
    }

    /// How many items there are, and the first of them, without copies.
    pub fn peek(row: &[u8]) -> Option<(u64, impl Iterator<Item = &str>)> {
        let mut lines = std::str::from_utf8(row).ok()?.split('\n');
        let count = lines.next()?.parse().ok()?;
        Some((count, lines))
    }

    /// The row.
    pub fn to_row(&self) -> Bytes {
        let mut row = self.count.to_string();
        for item in &self.first {
            row.push('\n');
            row.push_str(item);
        }
        row.into()
    }

    /// Takes an item in; false when it was there or comes after those that are kept.
    pub fn insert(&mut self, item: &str) {
        self.count += 1;
        let at = self.first.partition_point(|known| known.as_str() < item);
        if at < MAX_CANDIDATES {
            self.first.insert(at, item.to_owned());
            self.first.truncate(MAX_CANDIDATES);
        }
    }
}

/// What ranking compares about an item, in a form that is quick to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card<'r> {
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
    /// The card's row of a catalog entry.
    pub fn row_of(row: &CatalogRow) -> Bytes {
        let mut card = Vec::with_capacity(128);
        card.extend_from_slice(&row.list_price.to_be_bytes());
        card.extend_from_slice(&row.eta_days.to_be_bytes());
        let mut words = Vec::new();
        for word in words_of(row) {
            push_text(&mut words, &word);
        }
        card.extend_from_slice(&(words.len() as u32).to_be_bytes());
        card.extend_from_slice(&words);
        for attribute in &row.attributes {
            push_text(&mut card, attribute);
        }
        card.into()
    }

    /// A card from its row; none when the row is damaged.
    pub fn parse(row: &'r [u8]) -> Option<Self> {
        let (list_price, rest) = row.split_first_chunk::<8>()?;
        let (eta_days, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (words, attributes) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        Some(Self {
            list_price: u64::from_be_bytes(*list_price),
            eta_days: u64::from_be_bytes(*eta_days),
            words: Texts(words),
            attributes: Texts(attributes),
        })
    }

    /// How many of some distinct words the item has.
    pub fn score<'w>(&self, wanted: impl Iterator<Item = &'w String>) -> u64 {
        let has = |word: &&String| self.words.into_iter().any(|own| own == word.as_bytes());
        wanted.filter(has).count() as u64
    }

    /// Whether it has an attribute.
    pub fn has_attribute(&self, wanted: &str) -> bool {
        self.attributes
            .into_iter()
            .any(|own| own == wanted.as_bytes())
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}
