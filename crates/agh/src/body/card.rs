//! Peer cards (chapter 7). A card is a claim: it grants nothing and proves nothing (AG-CARD-9).

use chancery_core::fault;
use chancery_core::json::{Object, Value};
use serde::{Deserialize, Serialize};

use super::member;
use crate::envelope::{Envelope, is_peer};
use crate::fault::{ErrorName, Fault, Stage};
use crate::grammar::is_blank;
use crate::settings::Settings;

/// Characters that a greeting's summary may have (AG-GRT-3).
const SUMMARY_CHARACTERS: usize = 160;

/// A well-formed card inside a body.
#[derive(Clone, Debug)]
pub struct Card<'v> {
    card: &'v Object<'v>,
    peer_id: &'v str,
    display_name: Option<&'v str>,
    lists: [&'v [Value<'v>]; 4],
    ext: Option<&'v Object<'v>>,
}

const LISTS: [(&str, &str); 4] = [
    ("profiles_supported", "body.peer_card.profiles_supported"),
    ("capabilities", "body.peer_card.capabilities"),
    ("artifacts_supported", "body.peer_card.artifacts_supported"),
    (
        "trust_modes_supported",
        "body.peer_card.trust_modes_supported",
    ),
];

impl<'v> Card<'v> {
    /// The card of an envelope's body: it must be that of the sender.
    pub(super) fn check(envelope: &Envelope<'v>, settings: &Settings) -> Result<Self, Fault> {
        let Some(Value::Object(card)) = member(envelope.body, "peer_card") else {
            return Err(Fault::body("body.peer_card"));
        };
        let card = Self::read(card, settings)?;
        if card.peer_id != envelope.from {
            return Err(
                Fault::new(ErrorName::PeerCardMismatch, Stage::Body).at("body.peer_card.peer_id")
            );
        }
        Ok(card)
    }

    /// A card on its own.
    pub fn read(card: &'v Object<'v>, settings: &Settings) -> Result<Self, Fault> {
        let peer_id = member(card, "peer_id").and_then(Value::as_str);
        let peer_id = peer_id
            .filter(|id| is_peer(id, settings))
            .ok_or_else(|| Fault::body("body.peer_card.peer_id"))?;
        let display_name = match member(card, "display_name") {
            None => None,
            Some(Value::String(name)) => Some(name.as_ref()),
            Some(_) => return Err(Fault::body("body.peer_card.display_name")),
        };
        let mut lists: [&[Value<'_>]; 4] = [&[]; 4];
        for ((name, path), list) in LISTS.into_iter().zip(&mut lists) {
            *list = texts(member(card, name)).ok_or_else(|| Fault::body(path))?;
        }
        let ext = match member(card, "ext") {
            None => None,
            Some(Value::Object(ext)) => Some(ext),
            Some(_) => return Err(Fault::body("body.peer_card.ext")),
        };
        Ok(Self {
            card,
            peer_id,
            display_name,
            lists,
            ext,
        })
    }

    /// The card as it is kept (AG-CARD-8).
    pub fn kept(&self) -> PeerCard {
        let [profiles, capabilities, artifacts, trust_modes] = self.lists.map(trimmed);
        PeerCard {
            peer_id: self.peer_id.to_owned(),
            display_name: self
                .display_name
                .filter(|name| !is_blank(name))
                .map(str::to_owned),
            profiles_supported: profiles,
            capabilities,
            artifacts_supported: artifacts,
            trust_modes_supported: trust_modes,
            ext: self.ext.map(|ext| json(&Value::Object(ext.clone()))),
        }
    }

    /// The card as received.
    pub fn received(&self) -> &'v Object<'v> {
        self.card
    }
}

/// A list in which everything is a text.
fn texts<'v>(value: Option<&'v Value<'v>>) -> Option<&'v [Value<'v>]> {
    let items = value?.as_array()?;
    items
        .iter()
        .all(|item| item.as_str().is_some())
        .then_some(items)
}

fn trimmed(items: &[Value<'_>]) -> Vec<String> {
    let texts = items.iter().filter_map(Value::as_str).map(str::trim);
    texts
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A read value as one that is kept. Numbers take the form of their double where they have one.
pub(crate) fn json(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => number
            .token()
            .parse::<i64>()
            .map(serde_json::Value::from)
            .or_else(|_| number.token().parse::<u64>().map(Into::into))
            .unwrap_or_else(|_| number.as_f64().into()),
        Value::String(text) => text.as_ref().into(),
        Value::Array(items) => items.iter().map(json).collect::<Vec<_>>().into(),
        Value::Object(object) => object
            .iter()
            .map(|(name, value)| (name.to_owned(), json(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

/// A card on record, of a local or a remote peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerCard {
    /// Whose it is.
    pub peer_id: String,
    /// A label for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Protocol profiles.
    pub profiles_supported: Vec<String>,
    /// What it says it can do.
    pub capabilities: Vec<String>,
    /// What it takes.
    pub artifacts_supported: Vec<String>,
    /// How it can be trusted.
    pub trust_modes_supported: Vec<String>,
    /// Extensions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ext: Option<serde_json::Value>,
}

/// The key of the short list of capabilities in a card (AG-CARD-10).
pub const BRIEF: &str = "agh.capabilities_brief";

impl PeerCard {
    /// Whether a broadcast question is about this peer (AG-WHO-3).
    pub fn matches(&self, query: Option<&str>) -> bool {
        let query = query.unwrap_or_default().trim();
        let lists = [
            &self.profiles_supported,
            &self.capabilities,
            &self.artifacts_supported,
            &self.trust_modes_supported,
        ];
        query.is_empty()
            || query == self.peer_id
            || (fault::on("ag-whois-by-prefix") && self.peer_id.starts_with(query))
            || self
                .display_name
                .as_deref()
                .is_some_and(|name| name.trim() == query)
            || lists.into_iter().flatten().any(|entry| entry == query)
    }

    /// The summary of a greeting when the caller gives none (AG-GRT-3).
    pub fn greeting(&self) -> String {
        let name = self.display_name.as_deref().unwrap_or(&self.peer_id);
        let Some(first) = self.capabilities.first() else {
            return cut(&format!("{name} is present"));
        };
        let ready = self.first_brief().unwrap_or(first);
        let more = match self.capabilities.len() - 1 {
            0 => String::new(),
            more => format!(" +{more} more"),
        };
        cut(&format!("{name} ready for {ready}{more}"))
    }

    fn first_brief(&self) -> Option<&str> {
        let brief = self.ext.as_ref()?.get(BRIEF)?.get(0)?;
        let summary = brief.get("summary")?.as_str()?;
        (!is_blank(summary)).then_some(summary)
    }
}

fn cut(text: &str) -> String {
    text.chars().take(SUMMARY_CHARACTERS).collect()
}
