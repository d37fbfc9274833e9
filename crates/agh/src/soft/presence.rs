//! Remote peers: who greeted lately, with the card and catalog they claim (AG-PRS-1 to AG-PRS-6, AG-WHO-11).

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::body::card::PeerCard;
use crate::revision::Revision;
use crate::settings::Settings;
use crate::whois::Catalog;

/// Bytes that all cards and catalogs may take: a card may be as large as an envelope.
const BYTES: usize = 128 * 1024 * 1024;
/// What an entry takes besides its card: keys, order, pointers.
const ENTRY_BYTES: usize = 512;

/// The bounds of presence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresenceLimits {
    /// Peers in one channel.
    pub per_channel: usize,
    /// Peers in all.
    pub in_all: usize,
    /// Bytes in all.
    pub bytes: usize,
    /// How often a peer greets, in seconds.
    pub greet_interval_s: i64,
}

impl PresenceLimits {
    /// The bounds that settings give.
    pub fn of(settings: &Settings) -> Self {
        Self {
            per_channel: settings.max_remote_peers_per_channel,
            in_all: settings.max_remote_peers,
            bytes: BYTES,
            greet_interval_s: i64::try_from(settings.greet_interval_s).unwrap_or(i64::MAX / 4),
        }
    }
}

/// How present a peer is (AG-PRS-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Hosted here.
    Local,
    /// Greeted within the interval.
    Active,
    /// Greeted, but not lately.
    Inactive,
    /// Gone.
    Expired,
}

impl Standing {
    /// The standing of a remote peer that was seen at `last_seen`.
    pub const fn of(last_seen: i64, now: i64, greet_interval_s: i64) -> Self {
        let age = now.saturating_sub(last_seen);
        if age <= greet_interval_s {
            Self::Active
        } else if age < greet_interval_s.saturating_mul(2) {
            Self::Inactive
        } else {
            Self::Expired
        }
    }

    /// The word in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Active => "active",
            Self::Inactive => "inactive",
            Self::Expired => "expired",
        }
    }
}

/// A sign of life: what a greeting or an answer to a question says about its sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The workspace (revision B).
    pub workspace: Option<String>,
    /// The channel.
    pub channel: String,
    /// The card.
    pub card: PeerCard,
    /// The catalog, when it came with one.
    pub catalog: Option<Catalog>,
}

/// A remote peer as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Its card.
    pub card: PeerCard,
    /// Its catalog, when one is remembered.
    pub catalog: Option<Catalog>,
    /// When it was last seen, in Unix seconds.
    pub last_seen: i64,
    /// The revision it spoke (AG-B-43).
    pub revision: Revision,
}

#[derive(Debug)]
struct Entry {
    known: Known,
    /// Its place in the order of all: when, and the how manieth sign of life.
    place: (i64, u64),
    weight: usize,
}

#[derive(Debug, Default)]
struct Channel {
    peers: HashMap<Arc<str>, Entry>,
    order: BTreeMap<(i64, u64), Arc<str>>,
}

/// Remote peers by channel.
#[derive(Debug)]
pub struct Presence {
    limits: PresenceLimits,
    channels: HashMap<Arc<str>, Channel>,
    order: BTreeMap<(i64, u64), (Arc<str>, Arc<str>)>,
    signs: u64,
    bytes: usize,
    dropped: u64,
}

/// The name of a channel in one revision's address space: the two never meet (AG-B-43).
pub(crate) fn space(workspace: Option<&str>, channel: &str) -> String {
    match workspace {
        None => format!("{channel}/"),
        Some(workspace) => format!("{channel}/{workspace}"),
    }
}

/// What [`Guard::Present`](chancery_core::decision::Guard) asks: a peer in a channel.
pub(crate) fn present_name(workspace: Option<&str>, channel: &str, peer: &str) -> String {
    format!("{peer}/{}", space(workspace, channel))
}

impl Presence {
    /// Nobody seen yet.
    pub fn new(limits: PresenceLimits) -> Self {
        Self {
            limits,
            channels: HashMap::new(),
            order: BTreeMap::new(),
            signs: 0,
            bytes: 0,
            dropped: 0,
        }
    }

    /// Other bounds.
    pub fn limit(&mut self, limits: PresenceLimits) {
        self.limits = limits;
        self.shrink();
    }

    /// Takes a sign of life in. Says whether the peer was not there before (AG-B-26).
    pub fn see(&mut self, seen: Seen, now: i64) -> bool {
        self.forget_expired(now);
        let space: Arc<str> = space(seen.workspace.as_deref(), &seen.channel).into();
        let peer: Arc<str> = seen.card.peer_id.as_str().into();
        let before = self.take(&space, &peer);
        let joined = before.is_none();
        let catalog = remembered(seen.catalog, before, &seen.card);
        let weight = ENTRY_BYTES
            + serde_json::to_vec(&seen.card).map_or(0, |card| card.len())
            + catalog.as_ref().map_or(0, Catalog::weight);
        self.signs += 1;
        let place = (now, self.signs);
        let revision = match seen.workspace {
            None => Revision::A,
            Some(_) => Revision::B,
        };
        let known = Known {
            card: seen.card,
            catalog,
            last_seen: now,
            revision,
        };
        let channel = self.channels.entry(Arc::clone(&space)).or_default();
        channel.order.insert(place, Arc::clone(&peer));
        channel.peers.insert(
            Arc::clone(&peer),
            Entry {
                known,
                place,
                weight,
            },
        );
        let crowded = channel.peers.len() > self.limits.per_channel;
        self.order.insert(place, (Arc::clone(&space), peer));
        self.bytes += weight;
        if crowded {
            self.drop_first_of(&space);
        }
        self.shrink();
        joined
    }

    /// Takes in a sign of life that was given at `at`, somewhere else: it does not make a known peer older.
    pub fn hear(&mut self, seen: Seen, at: i64, now: i64) {
        let known = self.find(
            seen.workspace.as_deref(),
            &seen.channel,
            &seen.card.peer_id,
            now,
        );
        let is_news = known.is_none_or(|known| known.last_seen < at);
        let interval = self.limits.greet_interval_s;
        if is_news && Standing::of(at, now, interval) != Standing::Expired {
            self.see(seen, at);
        }
    }

    /// Those that were seen last and are there at `now`, at most so many, and when each was seen.
    pub fn latest(&self, most: usize, now: i64) -> Vec<(Seen, i64)> {
        let seen = |(space, peer): &(Arc<str>, Arc<str>)| {
            let known = &self.channels.get(space)?.peers.get(peer)?.known;
            let (channel, workspace) = space.split_once('/')?;
            let seen = Seen {
                workspace: (!workspace.is_empty()).then(|| workspace.to_owned()),
                channel: channel.to_owned(),
                card: known.card.clone(),
                catalog: known.catalog.clone(),
            };
            self.is_there(known, now).then_some((seen, known.last_seen))
        };
        let latest = self.order.values().rev().take(most);
        latest.filter_map(seen).collect()
    }

    /// Forgets a peer: it is hosted here from now on (AG-PRS-3).
    pub fn forget(&mut self, workspace: Option<&str>, channel: &str, peer: &str) {
        self.take(&space(workspace, channel), peer);
    }

    /// A remote peer that is there at `now`.
    pub fn find(
        &self,
        workspace: Option<&str>,
        channel: &str,
        peer: &str,
        now: i64,
    ) -> Option<&Known> {
        let channel = self.channels.get(space(workspace, channel).as_str())?;
        let known = &channel.peers.get(peer)?.known;
        self.is_there(known, now).then_some(known)
    }

    /// Whether the peer that a guard names is there.
    pub(crate) fn has(&self, name: &str, now: i64) -> bool {
        let Some((peer, space)) = name.split_once('/') else {
            return false;
        };
        let entry = self
            .channels
            .get(space)
            .and_then(|channel| channel.peers.get(peer));
        entry.is_some_and(|entry| self.is_there(&entry.known, now))
    }

    /// The remote peers of a channel that are there at `now`, with their standing, by name.
    pub fn list(
        &self,
        workspace: Option<&str>,
        channel: &str,
        now: i64,
    ) -> Vec<(Standing, &Known)> {
        let Some(channel) = self.channels.get(space(workspace, channel).as_str()) else {
            return Vec::new();
        };
        let interval = self.limits.greet_interval_s;
        let mut there: Vec<_> = channel
            .peers
            .values()
            .map(|entry| &entry.known)
            .map(|known| (Standing::of(known.last_seen, now, interval), known))
            .filter(|(standing, _)| *standing != Standing::Expired)
            .collect();
        there.sort_by(|(_, a), (_, b)| a.card.peer_id.cmp(&b.card.peer_id));
        there
    }

    /// Drops a few that are gone; gives them as channel space and peer.
    pub fn forget_expired(&mut self, now: i64) -> Vec<(Arc<str>, Arc<str>)> {
        let mut gone = Vec::new();
        while gone.len() < 4 {
            let Some(((last_seen, _), _)) = self.order.first_key_value() else {
                break;
            };
            let standing = Standing::of(*last_seen, now, self.limits.greet_interval_s);
            if standing != Standing::Expired {
                break;
            }
            gone.extend(self.drop_first());
        }
        gone
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether nobody is remembered.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Bytes that the entries take, by estimate.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many were dropped for want of room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn is_there(&self, known: &Known, now: i64) -> bool {
        let interval = self.limits.greet_interval_s;
        Standing::of(known.last_seen, now, interval) != Standing::Expired
    }

    fn take(&mut self, space: &str, peer: &str) -> Option<Known> {
        let channel = self.channels.get_mut(space)?;
        let entry = channel.peers.remove(peer)?;
        channel.order.remove(&entry.place);
        if channel.peers.is_empty() {
            self.channels.remove(space);
        }
        self.order.remove(&entry.place);
        self.bytes -= entry.weight;
        Some(entry.known)
    }

    fn shrink(&mut self) {
        while self.order.len() > self.limits.in_all
            || (self.bytes > self.limits.bytes && !self.order.is_empty())
        {
            self.drop_first();
            self.dropped += 1;
        }
    }

    fn drop_first(&mut self) -> Option<(Arc<str>, Arc<str>)> {
        let (_, (space, peer)) = self.order.first_key_value()?;
        let (space, peer) = (Arc::clone(space), Arc::clone(peer));
        self.take(&space, &peer);
        Some((space, peer))
    }

    fn drop_first_of(&mut self, space: &str) {
        let first = self
            .channels
            .get(space)
            .and_then(|channel| channel.order.first_key_value())
            .map(|(_, peer)| Arc::clone(peer));
        if let Some(peer) = first {
            self.take(space, &peer);
            self.dropped += 1;
        }
    }
}

/// A catalog is remembered while the card lists the same names (AG-WHO-11).
fn remembered(new: Option<Catalog>, before: Option<Known>, card: &PeerCard) -> Option<Catalog> {
    if let Some(catalog) = new.filter(|catalog| catalog.fits(card)) {
        return Some(catalog);
    }
    before
        .filter(|known| known.card.capabilities == card.capabilities)
        .and_then(|known| known.catalog)
}
