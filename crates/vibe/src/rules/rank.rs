//! Ranking: the built-in policy `rank-1` over the catalog's index, and rankings posted by hand
//! (VC-ACT-platform.rank_offers).

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
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
use crate::world::rows::{CatalogRow, InventoryRow, ReputationRow, Table};
use crate::world::seed::DEFAULT_SCORE;

/// `platform.rank_offers`, posted by the aggregator: it answers a search, and the one it names.
pub(super) fn by_hand(step: &Step<'_>, query_msg_id: &str) -> Result<Effect, Stop> {
    let answers_search = step
        .replied
        .as_ref()
        .is_some_and(|replied| replied.kind == Action::Search);
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
    score: usize,
    sku_id: String,
    title: String,
}

#[derive(Serialize)]
struct Ranking<'r> {
    candidates: &'r [Candidate],
    policy_version: &'r str,
    query_msg_id: &'r str,
}

/// Items that passed the filters, by their score: each with its price, in no order yet. Reversed, so that a heap gives the
/// cheapest first.
type Groups<'r> = Vec<Vec<Reverse<(u64, &'r str)>>>;

/// An item whose price is reached. Its order is that of ranking among those of equal score, stock and price, the best least.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Found<'r> {
    reputation: Reverse<i64>,
    merchant_id: &'r str,
    sku_id: &'r str,
    item: &'r str,
}

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
        mandate: mandate.as_deref(),
    };
    let found = find(&postings, &filters)?;
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
    fn pass(&self, card: &Card<'_>) -> bool {
        let search = self.search;
        search
            .delivery_days
            .is_none_or(|days| card.eta_days <= days)
            && search.max_price.is_none_or(|most| card.list_price <= most)
            && search
                .must_have
                .iter()
                .all(|wanted| card.has_attribute(wanted))
            && self.names(card.item)
    }

    /// Whether merchant and article are among those that are named, if any are.
    fn names(&self, item: &str) -> bool {
        let merchants = [
            self.search.merchants.as_ref(),
            self.mandate.and_then(|mandate| mandate.merchants.as_ref()),
        ];
        let skus = self.mandate.and_then(|mandate| mandate.skus.as_ref());
        if merchants.iter().all(Option::is_none) && skus.is_none() {
            return true;
        }
        let (merchant_id, sku_id) = item.split_once('/').unwrap_or((item, ""));
        let among = |list: &Vec<String>, id: &str| list.iter().any(|known| known == id);
        merchants
            .into_iter()
            .flatten()
            .all(|list| among(list, merchant_id))
            && skus.is_none_or(|list| among(list, sku_id))
    }
}

/// All items that have a word of the query and pass the filters, of the first that are examined.
fn find<'r>(postings: &'r [(&str, Row)], filters: &Filters<'_>) -> Result<Groups<'r>, Stop> {
    let mut groups = vec![Vec::new(); postings.len() + 1];
    let mut examined = 0;
    for (index, (_, row)) in postings.iter().enumerate() {
        let (_, cards) = Posting::cards(row).ok_or_else(|| damaged("vibe-word"))?;
        for card in cards {
            if examined == MAX_CANDIDATES {
                return Ok(groups);
            }
            let has = |(word, _): &&(&str, Row)| card.has_word(word);
            // What has a rarer word was examined with it: had that row been cut, examining would have ended there.
            if postings[..index].iter().any(|rarer| has(&rarer)) {
                continue;
            }
            examined += 1;
            if filters.pass(&card) {
                let score = 1 + postings[index + 1..].iter().filter(has).count();
                groups[score].push(Reverse((card.list_price, card.item)));
            }
        }
    }
    Ok(groups)
}

/// Reputations that a search has looked up.
struct Reputations<'c, 'x, 'r> {
    cx: &'c Cx<'x>,
    known: BTreeMap<&'r str, i64>,
}

impl<'r> Reputations<'_, '_, 'r> {
    fn of(&mut self, merchant_id: &'r str) -> Result<i64, Stop> {
        if let Some(score) = self.known.get(merchant_id) {
            return Ok(*score);
        }
        let row = self
            .cx
            .shared::<ReputationRow>(&Table::Reputation.key(merchant_id))?;
        let score = row.map_or(DEFAULT_SCORE, |row| row.score);
        self.known.insert(merchant_id, score);
        Ok(score)
    }
}

/// The best `limit` of what was found. Stocks are read in the order of rank and only until there are enough: of
/// equal score, those in stock come first. Reputations are read of those alone whose price is reached.
fn rank(cx: &Cx<'_>, groups: Groups<'_>, limit: usize) -> Result<Vec<Candidate>, Stop> {
    let mut ranked = Vec::with_capacity(limit);
    let known = BTreeMap::new();
    let mut reputations = Reputations { cx, known };
    for (score, group) in groups.into_iter().enumerate().rev() {
        let mut group = BinaryHeap::from(group);
        let mut out_of_stock = Vec::new();
        while ranked.len() < limit && !group.is_empty() {
            for found in next_price(&mut group, &mut reputations)? {
                if ranked.len() == limit {
                    break;
                }
                let stock = cx.shared::<InventoryRow>(&Table::Inventory.key(found.item))?;
                if stock.is_some_and(|stock| stock.available() > 0) {
                    ranked.push(candidate(cx, &found, score, true, ranked.len() + 1)?);
                } else {
                    out_of_stock.push(found);
                }
            }
        }
        for found in out_of_stock.iter().take(limit - ranked.len()) {
            ranked.push(candidate(cx, found, score, false, ranked.len() + 1)?);
        }
    }
    Ok(ranked)
}

/// The items of the least price, in the order of rank.
fn next_price<'r>(
    group: &mut BinaryHeap<Reverse<(u64, &'r str)>>,
    reputations: &mut Reputations<'_, '_, 'r>,
) -> Result<Vec<Found<'r>>, Stop> {
    let mut run = Vec::new();
    let least = group.peek().map(|Reverse((price, _))| *price);
    while let Some(top) = group.peek_mut()
        && Some(top.0.0) == least
    {
        let Reverse((_, item)) = PeekMut::pop(top);
        let (merchant_id, sku_id) = item.split_once('/').unwrap_or((item, ""));
        run.push(Found {
            reputation: Reverse(reputations.of(merchant_id)?),
            merchant_id,
            sku_id,
            item,
        });
    }
    run.sort_unstable();
    Ok(run)
}

fn candidate(
    cx: &Cx<'_>,
    found: &Found<'_>,
    score: usize,
    in_stock: bool,
    rank: usize,
) -> Result<Candidate, Stop> {
    let row = cx.shared::<CatalogRow>(&Table::Catalog.key(found.item))?;
    let row = row.ok_or_else(|| damaged("vibe-w-catalog"))?;
    Ok(Candidate {
        eta_days: row.eta_days,
        in_stock,
        list_price: row.list_price,
        merchant_id: row.merchant_id.clone(),
        rank,
        reputation: found.reputation.0,
        score,
        sku_id: row.sku_id.clone(),
        title: row.title.clone(),
    })
}
