//! Lines of the log as values: what a decision drafts, and what a reader gets back.
//!
//! How a line is written and chained is the journal's business; here is only what rules need to say and see.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The number of a line, from 1 without gaps.
pub type Seq = u64;

/// Which rules a line belongs to (`meta.protocol`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProtocolName {
    /// Vibe Commerce.
    Vibe,
    /// Value-Context messaging.
    ValueContext,
    /// Vacant.
    Vacant,
    /// AGH Network.
    Agh,
    /// Administration and every other input that is no envelope.
    Node,
    /// The protocol that the tests bring along; no node serves it.
    Test,
}

impl ProtocolName {
    /// The name as it stands in a line and in paths.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vibe => "vibe",
            Self::ValueContext => "value-context",
            Self::Vacant => "vacant",
            Self::Agh => "agh",
            Self::Node => "node",
            Self::Test => "test",
        }
    }

    /// The protocol of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [
            Self::Vibe,
            Self::ValueContext,
            Self::Vacant,
            Self::Agh,
            Self::Node,
            Self::Test,
        ]
        .into_iter()
        .find(|protocol| protocol.as_str() == name)
    }
}

/// Where a line comes from (CH-JRN-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Input from outside; every `node` line.
    External,
    /// An envelope of a hosted agent: its content is input, the node added identifiers, time and signature.
    Agent,
    /// Derived by the rules: replay makes it again.
    Runtime,
}

impl Origin {
    /// The word in `meta.origin`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::External => "external",
            Self::Agent => "agent",
            Self::Runtime => "runtime",
        }
    }

    /// The origin of that word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::External, Self::Agent, Self::Runtime]
            .into_iter()
            .find(|origin| origin.as_str() == word)
    }
}

/// The value of a member of `meta` that a protocol adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetaValue {
    /// JSON null.
    Null,
    /// JSON true.
    True,
    /// An integer.
    Integer(u64),
    /// A string.
    Text(String),
    /// A list of fixed words.
    Words(&'static [&'static str]),
    /// Canonical JSON in the vibe dialect, put in as it stands.
    Json(Bytes),
}

/// The envelope of a draft: whole already, or waiting for a signature of a key that this node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DraftEnvelope {
    /// Canonical bytes (vibe dialect) as they go into the line.
    Whole(Bytes),
    /// Canonical bytes without a signature; `signer` names whose key seals them.
    Unsealed {
        /// The envelope without its signature.
        bytes: Bytes,
        /// The owner of the key.
        signer: String,
    },
}

/// A line that a decision wants on the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Whose rules.
    pub protocol: ProtocolName,
    /// Input or derived.
    pub origin: Origin,
    /// What is recorded.
    pub envelope: DraftEnvelope,
    /// The received text, when the canonical form would not give the signed bytes again (CH-JRN-3).
    pub raw: Option<Bytes>,
    /// A signature beside the envelope, as received (VC-AUD-2).
    pub signature: Option<String>,
    /// The decision time; none on lines whose position alone counts (CH-JRN-12).
    pub eval_ts: Option<Time>,
    /// Further members of `meta`, in any order.
    pub meta: Vec<(&'static str, MetaValue)>,
}

/// A line read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number.
    pub seq: Seq,
    /// Whose rules.
    pub protocol: ProtocolName,
    /// Input or derived.
    pub origin: Origin,
    /// The decision time.
    pub eval_ts: Option<Time>,
    /// Whether its unit goes on with the next line.
    pub more: bool,
    /// SHA-256 of the line before.
    pub prev: crate::digest::Sha256Digest,
    /// The envelope's canonical bytes.
    pub envelope: Bytes,
    /// The received text, when it was kept.
    pub raw: Option<Bytes>,
    /// A signature beside the envelope (vibe).
    pub signature: Option<String>,
    /// The members of `meta` that are not fields above: names with their canonical JSON text.
    pub meta: Members,
}

/// Names with their canonical JSON text, as pieces of one text: of a line that was read, mostly the line's own.
#[derive(Clone, Default)]
pub struct Members {
    text: Bytes,
    places: Vec<(Piece, Piece)>,
}

/// Where a piece begins and ends. A line is far below four gigabytes.
type Piece = (u32, u32);

impl Members {
    /// No members yet, and the text that they will stand in.
    pub fn within(text: Bytes, room: usize) -> Self {
        Self {
            text,
            places: Vec::with_capacity(room),
        }
    }

    /// Adds the member whose name and JSON text stand there, on the boundaries of characters.
    pub fn push(&mut self, name: Range<usize>, json: Range<usize>) {
        let offset = |at| u32::try_from(at).expect("a line is shorter than four gigabytes");
        let piece = |range: Range<usize>| (offset(range.start), offset(range.end));
        self.places.push((piece(name), piece(json)));
    }

    /// The members of these texts.
    pub fn of(members: &[(&str, String)]) -> Self {
        let mut text = String::new();
        let mut places = Vec::with_capacity(members.len());
        for (name, json) in members {
            let start = text.len();
            text.push_str(name);
            let middle = text.len();
            text.push_str(json);
            places.push((start..middle, middle..text.len()));
        }
        let mut of = Self::within(text.into(), places.len());
        for (name, json) in places {
            of.push(name, json);
        }
        of
    }

    /// Name and JSON text of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = |piece: &Piece| {
            std::str::from_utf8(self.piece(piece)).expect("a text is made of nothing but UTF-8")
        };
        self.places
            .iter()
            .map(move |(name, json)| (text(name), text(json)))
    }

    /// The JSON text of one.
    pub fn get(&self, name: &str) -> Option<&str> {
        let is_it = |place: &&(Piece, Piece)| self.piece(&place.0) == name.as_bytes();
        let (_, json) = self.places.iter().find(is_it)?;
        std::str::from_utf8(self.piece(json)).ok()
    }

    fn piece(&self, (start, end): &Piece) -> &[u8] {
        &self.text[*start as usize..*end as usize]
    }
}

impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Members {}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Line {
    /// The canonical JSON text of a further member of `meta`.
    pub fn meta_json(&self, name: &str) -> Option<&str> {
        self.meta.get(name)
    }

    /// A further member of `meta` that is a string.
    pub fn meta_text(&self, name: &str) -> Option<String> {
        let json = self.meta_json(name)?;
        let inside = json
            .strip_prefix('"')
            .and_then(|json| json.strip_suffix('"'));
        match inside {
            // Nothing is escaped: what stands between the quotes is the string.
            Some(text) if !text.contains('\\') => Some(text.to_owned()),
            None if json == "null" => None,
            _ => serde_json::from_str(json).ok(),
        }
    }

    /// The text that was received: `raw` where it was kept, else the envelope.
    pub fn received(&self) -> &Bytes {
        self.raw.as_ref().unwrap_or(&self.envelope)
    }
}

/// A line that cannot be what this build's rules wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {seq}: {reason}")]
pub struct Damage {
    /// The line.
    pub seq: Seq,
    /// What is wrong with it.
    pub reason: String,
}
