//! Ranking: the built-in policy `rank-1` over the catalog's index, and rankings posted by hand
//! (VC-ACT-platform.rank_offers).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use chancery_core::decision::{Cx, Stop};
use chancery_core::rows::RowsDamaged;
use serde::Serialize;

use super::turn::{Effect, Step, Turn};
use crate::action::Action;
use crate::code::Code;
use crate::payload::Search;
use crate::state::MandateRow;
use crate::world::index::{Card, MAX_CANDIDATES, Posting, card_key, word_key, words};
use crate::world::rows::{CatalogRow, InventoryRow, ReputationRow, Table};
use crate::world::seed::DEFAULT_SCORE;

/// `platform.rank_offers`, posted by the aggregator: it answers a search, and the one it names.
pub(super) fn by_hand(step: &Step<'_>, query_msg_id: &str) -> Result<Effect, Stop> {
    let answers_search = step
        .replied
        .as_ref()
        .is_some_and(|replied| replied.kind == Action::Search.kind());
    if answers_search && step.in_reply_to == Some(query_msg_id) {
        Ok(Effect::default())
    } else {
        Err(Code::ThreadMismatch.stop())
    }
}

/// A ranked item; the fields in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Candidate {
    eta_days: u64,
    in_stock: bool,
    list_price: u64,
    merchant_id: String,
    rank: usize,
    reputation: i64,
    score: u64,
    sku_id: String,
    title: String,
}

#[derive(Serialize)]
struct Ranking<'r> {
    candidates: &'r [Candidate],
    policy_version: &'r str,
    query_msg_id: &'r str,
}

/// An item that passed the filters, before its stock is looked at.
struct Found {
    item: String,
    score: u64,
    list_price: u64,
    reputation: i64,
}

/// The payload of the ranking that answers a search.
pub(super) fn ranking(
    turn: &Turn<'_, '_>,
    search: &Search,
    query_msg_id: &str,
) -> Result<Bytes, Stop> {
    let mandate = turn.mandate()?.map(|(_, mandate)| mandate);
    let found = find(turn.cx, search, mandate.as_ref())?;
    let candidates = rank(turn.cx, found, search.limit)?;
    Ok(crate::world::rows::bytes(&Ranking {
        candidates: &candidates,
        policy_version: &turn.settings.policy.ranking_version,
        query_msg_id,
    }))
}

fn damaged(row: &str) -> Stop {
    RowsDamaged(row.to_owned()).into()
}

/// All items that have a word of the query and pass the filters, of the first that are examined.
fn find(cx: &Cx<'_>, search: &Search, mandate: Option<&MandateRow>) -> Result<Vec<Found>, Stop> {
    let mut wanted = BTreeSet::new();
    words(&search.query, &mut wanted);
    let mut postings = Vec::new();
    for word in &wanted {
        if let Some(row) = cx.bytes(&word_key(word))? {
            let count = Posting::peek(&row).ok_or_else(|| damaged("vibe-word"))?.0;
            postings.push((count, word, row));
        }
    }
    // Rarest word first; of two that are as rare, the first by name.
    postings.sort_unstable_by_key(|(count, word, _)| (*count, *word));
    let mut examined = hashbrown::HashSet::new();
    let mut found = Vec::new();
    let mut scores = BTreeMap::new();
    for (_, _, row) in &postings {
        let (_, items) = Posting::peek(row).ok_or_else(|| damaged("vibe-word"))?;
        for item in items {
            if examined.len() == MAX_CANDIDATES {
                return Ok(found);
            }
            if examined.insert(item) {
                found.extend(examine(cx, item, &wanted, search, mandate, &mut scores)?);
            }
        }
    }
    Ok(found)
}

fn examine(
    cx: &Cx<'_>,
    item: &str,
    wanted: &BTreeSet<String>,
    search: &Search,
    mandate: Option<&MandateRow>,
    scores: &mut BTreeMap<String, i64>,
) -> Result<Option<Found>, Stop> {
    let row = cx
        .bytes(&card_key(item))?
        .ok_or_else(|| damaged("vibe-card"))?;
    let card = Card::parse(&row).ok_or_else(|| damaged("vibe-card"))?;
    let (merchant_id, sku_id) = item.split_once('/').ok_or_else(|| damaged("vibe-card"))?;
    let among = |list: Option<&Vec<String>>, id: &str| {
        list.is_none_or(|list| list.iter().any(|known| known == id))
    };
    let fits = search
        .delivery_days
        .is_none_or(|days| card.eta_days <= days)
        && search.max_price.is_none_or(|most| card.list_price <= most)
        && search
            .must_have
            .iter()
            .all(|wanted| card.has_attribute(wanted))
        && among(search.merchants.as_ref(), merchant_id)
        && among(
            mandate.and_then(|mandate| mandate.merchants.as_ref()),
            merchant_id,
        )
        && among(mandate.and_then(|mandate| mandate.skus.as_ref()), sku_id);
    if !fits {
        return Ok(None);
    }
    let reputation = match scores.get(merchant_id) {
        Some(known) => *known,
        None => {
            let row: Option<ReputationRow> = cx.row(&Table::Reputation.key(merchant_id))?;
            let score = row.map_or(DEFAULT_SCORE, |row| row.score);
            scores.insert(merchant_id.to_owned(), score);
            score
        }
    };
    Ok(Some(Found {
        item: item.to_owned(),
        score: card.score(wanted.iter()),
        list_price: card.list_price,
        reputation,
    }))
}

/// The best `limit` of what was found. Stocks are read in the order of rank and only until there are enough: of
/// equal score, those in stock come first.
fn rank(cx: &Cx<'_>, mut found: Vec<Found>, limit: usize) -> Result<Vec<Candidate>, Stop> {
    found.sort_unstable_by(|a, b| {
        let order = |found: &Found| {
            (
                Reverse(found.score),
                found.list_price,
                Reverse(found.reputation),
            )
        };
        order(a)
            .cmp(&order(b))
            .then_with(|| split(&a.item).cmp(&split(&b.item)))
    });
    let mut ranked = Vec::with_capacity(limit.min(found.len()));
    for group in found.chunk_by(|a, b| a.score == b.score) {
        let mut out_of_stock = Vec::new();
        for item in group {
            if ranked.len() == limit {
                break;
            }
            let stock: Option<InventoryRow> = cx.row(&Table::Inventory.key(&item.item))?;
            if stock.is_some_and(|stock| stock.available() > 0) {
                ranked.push(candidate(cx, item, true, ranked.len() + 1)?);
            } else {
                out_of_stock.push(item);
            }
        }
        for item in out_of_stock.into_iter().take(limit - ranked.len()) {
            ranked.push(candidate(cx, item, false, ranked.len() + 1)?);
        }
    }
    Ok(ranked)
}

fn split(item: &str) -> (&str, &str) {
    item.split_once('/').unwrap_or((item, ""))
}

fn candidate(cx: &Cx<'_>, found: &Found, in_stock: bool, rank: usize) -> Result<Candidate, Stop> {
    let row: Option<CatalogRow> = cx.row(&Table::Catalog.key(&found.item))?;
    let row = row.ok_or_else(|| damaged("vibe-w-catalog"))?;
    Ok(Candidate {
        eta_days: row.eta_days,
        in_stock,
        list_price: row.list_price,
        merchant_id: row.merchant_id,
        rank,
        reputation: found.reputation,
        score: found.score,
        sku_id: row.sku_id,
        title: row.title,
    })
}
