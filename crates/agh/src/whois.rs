//! Who is there and what they can do: what a question asks for, and the answer (chapter 8).

use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::{Object, ReadRules, Value, read};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::body::card::{BRIEF, PeerCard, json as kept};
use crate::envelope::Envelope;
use crate::kind::Kind;
use crate::made::{Made, proven_by};
use crate::message::Message;
use crate::peer::PeerRecord;

/// What a signature adds to an envelope whose proof waits for it.
const SIGNATURE_BYTES: usize = 96;
const INCLUDE: &str = "agh.include";
const IDS: &str = "agh.capability_ids";
/// The key of a whole catalog in an answer (AG-WHO-7).
pub const CATALOG: &str = "agh.capability_catalog";
const CATALOG_WORD: &str = "capability_catalog";

/// The lists of a catalog entry that are written only when they hold something (AG-WHO-9).
const ENTRY_OPTIONAL: [&str; 8] = [
    "version",
    "digest",
    "context_needed",
    "artifacts_expected",
    "execution_outline",
    "constraints",
    "examples",
    "requirements",
];

/// What a question asks for besides the card (AG-WHO-7, AG-WHO-8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing.
    Card,
    /// The whole catalog.
    Catalog,
    /// These entries of it.
    Entries(Vec<String>),
}

impl Wanted {
    /// What the extensions of a question ask for.
    pub fn of(envelope: &Envelope<'_>) -> Self {
        let includes = envelope
            .extension(INCLUDE)
            .and_then(Value::as_array)
            .is_some_and(|list| list.iter().any(|item| item.as_str() == Some(CATALOG_WORD)));
        if !includes {
            return Self::Card;
        }
        match envelope.extension(IDS) {
            None => Self::Catalog,
            // A filter of another type lets nothing through.
            Some(ids) => Self::Entries(
                ids.as_array()
                    .unwrap_or_default()
                    .iter()
                    .filter_map(Value::as_str)
                    .map(|id| id.trim().to_owned())
                    .collect(),
            ),
        }
    }

    fn takes(&self, id: &str) -> bool {
        match self {
            Self::Card | Self::Catalog => true,
            Self::Entries(ids) => ids.iter().any(|wanted| wanted == id),
        }
    }
}

/// What a peer can do, entry by entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Catalog(Vec<serde_json::Value>);

impl Catalog {
    /// A catalog of entries as a file gives them: what has no visible `id`, `summary` and `outcome` is named.
    pub fn new(entries: Vec<serde_json::Value>) -> Result<Self, String> {
        for (index, entry) in entries.iter().enumerate() {
            for name in ["id", "summary", "outcome"] {
                let text = entry.get(name).and_then(serde_json::Value::as_str);
                if text.is_none_or(|text| text.trim().is_empty()) {
                    return Err(format!("capability {index} has no {name}"));
                }
            }
        }
        Ok(Self(entries.iter().map(written_entry).collect()))
    }

    /// The catalog that an answer carries; none when it carries none that can be read.
    pub fn of(envelope: &Envelope<'_>) -> Option<Self> {
        let entries = envelope
            .extension(CATALOG)?
            .get("capabilities")?
            .as_array()?;
        Some(Self(entries.iter().map(kept).collect()))
    }

    /// The names of its entries, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter_map(|entry| entry.get("id")?.as_str().map(str::trim))
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a card lists the same names, in any order (AG-WHO-11).
    pub fn fits(&self, card: &PeerCard) -> bool {
        let mut own: Vec<&str> = self.ids().collect();
        let mut listed: Vec<&str> = card.capabilities.iter().map(String::as_str).collect();
        own.sort_unstable();
        listed.sort_unstable();
        own.len() == self.0.len() && own == listed
    }

    /// The short list for a card (AG-CARD-10).
    fn brief(&self) -> serde_json::Value {
        let entry =
            |entry: &serde_json::Value| json!({"id": entry["id"], "summary": entry["summary"]});
        self.0.iter().map(entry).collect::<Vec<_>>().into()
    }

    fn filtered(&self, wanted: &Wanted) -> Self {
        let taken = self.0.iter().filter(|entry| {
            let id = entry.get("id").and_then(serde_json::Value::as_str);
            id.is_some_and(|id| wanted.takes(id.trim()))
        });
        Self(taken.cloned().collect())
    }

    /// Bytes it takes, for bounds.
    pub(crate) fn weight(&self) -> usize {
        self.0.iter().map(|entry| entry.to_string().len()).sum()
    }
}

/// An entry with the members of AG-WHO-9 alone.
fn written_entry(entry: &serde_json::Value) -> serde_json::Value {
    let mut written = serde_json::Map::new();
    for name in ["id", "summary", "outcome"] {
        written.insert(name.to_owned(), entry[name].clone());
    }
    for name in ENTRY_OPTIONAL {
        match entry.get(name) {
            Some(serde_json::Value::String(text)) if !text.is_empty() => {
                written.insert(name.to_owned(), text.as_str().into());
            }
            Some(serde_json::Value::Array(list)) if !list.is_empty() => {
                written.insert(name.to_owned(), list.clone().into());
            }
            _ => {}
        }
    }
    written.into()
}

/// The card of a peer with this catalog, or with what is wanted of it (AG-CARD-10, AG-WHO-8).
pub fn card_with(card: &PeerCard, catalog: &Catalog, wanted: &Wanted) -> PeerCard {
    let mut card = card.clone();
    if catalog.is_empty() {
        if matches!(wanted, Wanted::Entries(_)) {
            card.capabilities.retain(|id| wanted.takes(id));
        }
        return card;
    }
    let shown = catalog.filtered(wanted);
    card.capabilities = shown.ids().map(str::to_owned).collect();
    let ext = card.ext.get_or_insert_with(|| json!({}));
    if let Some(ext) = ext.as_object_mut() {
        ext.insert(BRIEF.to_owned(), shown.brief());
    }
    card
}

/// The answer of a local peer to a question (AG-WHO-5): with the catalog when that is wanted and fits, else
/// without, else none (AG-WHO-10). With a key its proof waits for a signature.
pub fn answer(
    request: &Message,
    wanted: &Wanted,
    record: &PeerRecord,
    id: String,
    now: i64,
    max_payload: usize,
    public: Option<&[u8; 32]>,
) -> Option<Bytes> {
    let max_payload = match public {
        Some(_) => max_payload.saturating_sub(SIGNATURE_BYTES),
        None => max_payload,
    };
    let (card, catalog) = (&record.card, &record.catalog);
    let made = |with_catalog: bool| {
        let shown = if with_catalog { wanted } else { &Wanted::Card };
        let card = card_with(card, catalog, shown);
        let body = Object::new()
            .with("type", "response")
            .with("peer_card", own_value(&card));
        let entries = with_catalog.then(|| catalog.filtered(wanted));
        let ext = entries.map(|entries| {
            Object::new().with(
                CATALOG,
                Value::Object(Object::new().with("capabilities", own_value(&entries))),
            )
        });
        let mut envelope = Made::answering(request, Kind::Whois, &card.peer_id, id.clone(), now);
        envelope.work = None;
        envelope.container = None;
        let envelope = proven_by(envelope.into_object(body, ext), public);
        to_bytes(&Value::Object(envelope), Dialect::Vibe)
    };
    let whole = *wanted != Wanted::Card;
    let mut bytes = made(whole);
    if whole && bytes.len() > max_payload {
        bytes = made(false);
    }
    (bytes.len() <= max_payload).then(|| bytes.into())
}

/// A kept value as one that can be put into an envelope.
pub(crate) fn own_value(value: &impl Serialize) -> Value<'static> {
    let text = serde_json::to_vec(value).expect("plain data always has a JSON form");
    read(&text, &ReadRules::OWN)
        .expect("what serde_json writes is JSON")
        .into_owned()
}
