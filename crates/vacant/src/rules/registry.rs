//! The registry's rows: what is published here, in the order in which it was first published (section 14).
//!
//! It holds this node's ACTIVE vacants and what an administrator publishes (CH-ID-4).

use chancery_core::admin::canonical_json;
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::line::{Draft, DraftEnvelope, Origin, ProtocolName, Seq};
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowKey;
use serde::{Deserialize, Serialize};

use super::judge;
use crate::act::{Act, Change};
use crate::agent::{AgentRecord, hosted};
use crate::answer::Answer;
use crate::card::CapabilityCard;
use crate::id::VacantId;
use crate::registry::Entry;
use crate::state::State;

/// Most entries that an administrator may publish.
pub const MAX_ENTRIES: u64 = 100_000;

/// Where the entry of a vacant stands, and since which card version.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Place {
    line: Seq,
    halo_version: u64,
}

/// The row of an entry: entries sort by when they came first.
fn entry_key(line: Seq) -> RowKey {
    RowKey::new("va-registry", &[&line.to_be_bytes()])
}

/// The prefix of all entries.
pub fn entries_prefix() -> RowKey {
    RowKey::new("va-registry", &[])
}

fn place_key(id: &VacantId) -> RowKey {
    RowKey::new("va-registered", &[id.as_bytes()])
}

fn count_key() -> RowKey {
    RowKey::new("va-registry-count", &[])
}

/// The key of the entry of a vacant, as the row of [`entry_place_key`] names it.
#[must_use]
pub fn entry_key_of(place: &[u8]) -> Option<RowKey> {
    let place: Place = serde_json::from_slice(place).ok()?;
    Some(entry_key(place.line))
}

/// The row that says where the entry of a vacant stands.
pub fn entry_place_key(id: &VacantId) -> RowKey {
    place_key(id)
}

/// Decides an act of administration.
pub fn act(act: &Act, cx: &mut Cx<'_>) -> Result<Verdict<Answer>, Stop> {
    match &act.change {
        Change::Publish(entry) => publish_foreign(entry, cx)?,
        Change::Withdraw(id) => {
            not_hosted(id, cx)?;
            withdraw(id, cx)?;
        }
        Change::Review(review) => judge::review(review, cx)?,
    }
    // A review counts from when it was made; the others count by their place in the log.
    let eval_ts = matches!(act.change, Change::Review(_)).then(|| cx.now());
    let line = cx.line(Draft {
        protocol: ProtocolName::Node,
        origin: Origin::External,
        envelope: DraftEnvelope::Whole(canonical_json(act)),
        raw: None,
        signature: None,
        eval_ts,
        meta: Vec::new(),
    });
    Ok(Verdict::Record {
        answer: Answer::Acted(line),
    })
}

fn publish_foreign(entry: &Entry, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let card = entry.checked_card().map_err(Refusal::from)?;
    not_hosted(&card.vacant_id, cx)?;
    publish(entry, &card, cx)
}

/// Puts an entry in, or in the place of the vacant's earlier one (VA-REG-4).
fn publish(entry: &Entry, card: &CapabilityCard, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let known: Option<Place> = cx.row(&place_key(&card.vacant_id))?;
    if let Some(place) = known {
        let before: Option<Entry> = cx.row(&entry_key(place.line))?;
        if before.is_some_and(|before| before.parent != entry.parent) {
            return Err(refused("a published vacant keeps its parent"));
        }
        if card.halo_version < place.halo_version {
            return Err(refused("halo_version does not go down"));
        }
    } else {
        let count: u64 = cx.row(&count_key())?.unwrap_or_default();
        if count >= MAX_ENTRIES {
            return Err(refused("the registry is full"));
        }
        cx.put(count_key(), &(count + 1));
    }
    let place = Place {
        line: known.map_or_else(|| cx.next_seq(), |place| place.line),
        halo_version: card.halo_version,
    };
    cx.put(place_key(&card.vacant_id), &place);
    cx.put(entry_key(place.line), entry);
    Ok(())
}

fn withdraw(id: &VacantId, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let place: Option<Place> = cx.row(&place_key(id))?;
    if let Some(place) = place {
        let count: u64 = cx.row(&count_key())?.unwrap_or_default();
        cx.put(count_key(), &count.saturating_sub(1));
        cx.remove(entry_key(place.line));
        cx.remove(place_key(id));
    }
    Ok(())
}

/// A hosted vacant is in the registry while it is ACTIVE and has a card (VA-STA-1, CH-ID-4).
pub(crate) fn follow_hosted(
    before: Option<&AgentRecord>,
    after: Option<&AgentRecord>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    if let Some(before) = before
        && after.is_none_or(|after| after.id != before.id || published(after).is_none())
    {
        withdraw(&before.id, cx)?;
    }
    let Some(card) = after.and_then(published) else {
        return Ok(());
    };
    let card = CapabilityCard::deserialize(card.as_bytes()).map_err(Refusal::from)?;
    publish(&Entry::of_card(&card), &card, cx)
}

fn published(record: &AgentRecord) -> Option<&str> {
    record
        .card
        .as_deref()
        .filter(|_| record.state == State::Active)
}

fn not_hosted(id: &VacantId, cx: &Cx<'_>) -> Result<(), Stop> {
    match hosted(cx, id)? {
        Some(_) => Err(refused(
            "a vacant of this node is published by its own state",
        )),
        None => Ok(()),
    }
}

fn refused(message: &'static str) -> Stop {
    Refusal::new("REGISTRY_NOT_ALLOWED", 409, "VA-REG-4", message).into()
}
