//! Ranking: the built-in policy `rank-1` over the catalog's index, and rankings posted by hand
//! (VC-ACT-platform.rank_offers).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use bytes::Bytes;
use chancery_core::decision::{Cx, Stop};
use chancery_core::rows::{Row, RowsDamaged};
use serde::Serialize;

use super::turn::{Effect, Step, Turn};
use crate::action::Action;
use crate::code::Code;
use crate::payload::Search;
use crate::state::MandateRow;
use crate::world::index::{Card, MAX_CANDIDATES, Posting, word_key, words};
use crate::world::rows::{CatalogRow, InventoryRow, ReputationRow, Table, item};
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

/// An item that passed the filters, before its stock is looked at. Its order is that of ranking among items of equal
/// score and stock, the best greatest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Found<'r> {
    list_price: Reverse<u64>,
    reputation: i64,
    merchant_id: Reverse<&'r str>,
    sku_id: Reverse<&'r str>,
}

/// Items by their score.
type Groups<'r> = BTreeMap<u64, Vec<Found<'r>>>;

/// The payload of the ranking that answers a search.
pub(super) fn ranking(
    turn: &Turn<'_, '_>,
    search: &Search,
    query_msg_id: &str,
) -> Result<Bytes, Stop> {
    let mandate = turn.mandate()?.map(|(_, mandate)| mandate);
    let mut wanted = BTreeSet::new();
    words(&search.query, &mut wanted);
    let postings = postings(turn.cx, &wanted)?;
    let filters = Filters {
        search,
        mandate: mandate.as_ref(),
    };
    let found = find(turn.cx, &postings, &filters)?;
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

/// The words of a query that any item has, with their rows: rarest first, of two that are as rare the first by name.
fn postings<'w>(cx: &Cx<'_>, wanted: &'w BTreeSet<String>) -> Result<Vec<(&'w str, Row)>, Stop> {
    let mut found = Vec::new();
    for word in wanted {
        if let Some(row) = cx.bytes(&word_key(word))? {
            let (count, _) = Posting::cards(&row).ok_or_else(|| damaged("vibe-word"))?;
            found.push((count, word.as_str(), row));
        }
    }
    found.sort_unstable_by_key(|(count, word, _)| (*count, *word));
    Ok(found
        .into_iter()
        .map(|(_, word, row)| (word, row))
        .collect())
}

/// What a search and a mandate leave out.
struct Filters<'f> {
    search: &'f Search,
    mandate: Option<&'f MandateRow>,
}

impl Filters<'_> {
    fn pass(&self, card: &Card<'_>, merchant_id: &str, sku_id: &str) -> bool {
        let among = |list: Option<&Vec<String>>, id: &str| {
            list.is_none_or(|list| list.iter().any(|known| known == id))
        };
        let Self { search, mandate } = self;
        search
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
            && among(mandate.and_then(|mandate| mandate.skus.as_ref()), sku_id)
    }
}

/// All items that have a word of the query and pass the filters, of the first that are examined.
fn find<'r>(
    cx: &Cx<'_>,
    postings: &'r [(&str, Row)],
    filters: &Filters<'_>,
) -> Result<Groups<'r>, Stop> {
    let mut groups = Groups::new();
    let mut examined = 0;
    // Items stand in key order, so one merchant's stand together.
    let mut known: Option<(&str, i64)> = None;
    for (index, (_, row)) in postings.iter().enumerate() {
        let (_, cards) = Posting::cards(row).ok_or_else(|| damaged("vibe-word"))?;
        for card in cards {
            if examined == MAX_CANDIDATES {
                return Ok(groups);
            }
            // What has a rarer word was examined with it: had that row been cut, examining would have ended there.
            let has = |(word, _): &&(&str, Row)| card.has_word(word);
            if postings[..index].iter().any(|posting| has(&posting)) {
                continue;
            }
            examined += 1;
            let (merchant_id, sku_id) = card.item.split_once('/').unwrap_or((card.item, ""));
            if !filters.pass(&card, merchant_id, sku_id) {
                continue;
            }
            let reputation = match known {
                Some((of, score)) if of == merchant_id => score,
                _ => reputation_of(cx, merchant_id)?,
            };
            known = Some((merchant_id, reputation));
            let score = postings.iter().filter(has).count() as u64;
            groups.entry(score).or_default().push(Found {
                list_price: Reverse(card.list_price),
                reputation,
                merchant_id: Reverse(merchant_id),
                sku_id: Reverse(sku_id),
            });
        }
    }
    Ok(groups)
}

fn reputation_of(cx: &Cx<'_>, merchant_id: &str) -> Result<i64, Stop> {
    let row: Option<ReputationRow> = cx.row(&Table::Reputation.key(merchant_id))?;
    Ok(row.map_or(DEFAULT_SCORE, |row| row.score))
}

/// The best `limit` of what was found. Stocks are read in the order of rank and only until there are enough: of
/// equal score, those in stock come first.
fn rank(cx: &Cx<'_>, groups: Groups<'_>, limit: usize) -> Result<Vec<Candidate>, Stop> {
    let mut ranked = Vec::with_capacity(limit);
    for (score, group) in groups.into_iter().rev() {
        let mut group = BinaryHeap::from(group);
        let mut out_of_stock = Vec::new();
        while ranked.len() < limit
            && let Some(found) = group.pop()
        {
            let entry = item(found.merchant_id.0, found.sku_id.0);
            let stock: Option<InventoryRow> = cx.row(&Table::Inventory.key(&entry))?;
            if stock.is_some_and(|stock| stock.available() > 0) {
                ranked.push(candidate(
                    cx,
                    &entry,
                    &found,
                    score,
                    true,
                    ranked.len() + 1,
                )?);
            } else {
                out_of_stock.push((entry, found));
            }
        }
        for (entry, found) in out_of_stock.into_iter().take(limit - ranked.len()) {
            ranked.push(candidate(
                cx,
                &entry,
                &found,
                score,
                false,
                ranked.len() + 1,
            )?);
        }
    }
    Ok(ranked)
}

fn candidate(
    cx: &Cx<'_>,
    entry: &str,
    found: &Found<'_>,
    score: u64,
    in_stock: bool,
    rank: usize,
) -> Result<Candidate, Stop> {
    let row: Option<CatalogRow> = cx.row(&Table::Catalog.key(entry))?;
    let row = row.ok_or_else(|| damaged("vibe-w-catalog"))?;
    Ok(Candidate {
        eta_days: row.eta_days,
        in_stock,
        list_price: row.list_price,
        merchant_id: row.merchant_id,
        rank,
        reputation: found.reputation,
        score,
        sku_id: row.sku_id,
        title: row.title,
    })
}
