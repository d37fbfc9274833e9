//! The registry's contract: what an entry is and which entries a search finds (section 14).
//!
//! It only helps to find a vacant. A consumer verifies every card itself (VA-REG-7).

use chancery_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::card::CapabilityCard;
use crate::error::ProtocolError;
use crate::id::VacantId;

/// Who may see an entry (VA-REG-3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Visibility {
    /// Nobody.
    None,
    /// Who asks for it by its id.
    Restricted,
    /// Everybody.
    #[default]
    Public,
}

impl Visibility {
    /// The name, which is its text form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Restricted => "RESTRICTED",
            Self::Public => "PUBLIC",
        }
    }
}

/// A card that is published (VA-REG-1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The card as signed text.
    pub card: String,
    /// What it can do, as JSON text: the list holding the card's own words, unless the publisher says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<String>,
    /// The family of its base model.
    #[serde(default)]
    pub family: String,
    /// Who may see it.
    #[serde(default)]
    pub visibility: Visibility,
    /// Whose child it is; it stays so (VA-REG-4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<VacantId>,
    /// Until when it is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

impl Entry {
    /// An entry of a card, public and for good.
    #[must_use]
    pub fn of_card(card: &CapabilityCard) -> Self {
        Self {
            card: String::from_utf8_lossy(&card.serialize()).into_owned(),
            capabilities: None,
            family: String::new(),
            visibility: Visibility::Public,
            parent: None,
            expires_at: None,
        }
    }

    /// Its card, taken apart and checked as one that is published (VA-REG-4, VA-CARD-9).
    pub fn checked_card(&self) -> Result<CapabilityCard, ProtocolError> {
        let card = CapabilityCard::deserialize(self.card.as_bytes())?;
        card.check_publishable()?;
        Ok(card)
    }

    /// The declared capabilities as JSON text (VA-REG-4).
    #[must_use]
    pub fn declared_capabilities(&self, card: &CapabilityCard) -> String {
        self.capabilities.clone().unwrap_or_else(|| {
            let list = [card.capability_text.as_str()];
            serde_json::to_string(&list).expect("a list of texts has a JSON form")
        })
    }
}

/// What a search asks for (VA-REG-1).
#[derive(Clone, Copy, Debug)]
pub struct Search<'q> {
    /// A text that the declared capabilities contain, case and wildcard characters taken literally.
    pub query: Option<&'q str>,
    /// The family.
    pub family: Option<&'q str>,
    /// How many.
    pub limit: usize,
    /// Whether entries that are not public count: the owner's path.
    pub include_local: bool,
}

/// An entry that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The entry.
    pub entry: Entry,
    /// Its card.
    pub card: CapabilityCard,
    /// Its declared capabilities as JSON text.
    pub capabilities: String,
}

/// The entries that a search finds, in the order in which they were first published (VA-REG-2).
pub fn search(
    entries: impl IntoIterator<Item = Entry>,
    asked: &Search<'_>,
    now: Time,
) -> Vec<Found> {
    entries
        .into_iter()
        .filter_map(|entry| find(entry, asked, now))
        .take(asked.limit)
        .collect()
}

fn find(entry: Entry, asked: &Search<'_>, now: Time) -> Option<Found> {
    let seen = asked.include_local || entry.visibility == Visibility::Public;
    let fits = asked.family.is_none_or(|family| family == entry.family);
    let lives = entry.expires_at.is_none_or(|end| now < end);
    if !(seen && fits && lives) {
        return None;
    }
    let card = CapabilityCard::deserialize(entry.card.as_bytes()).ok()?;
    let capabilities = entry.declared_capabilities(&card);
    let asked_for = asked.query.is_none_or(|query| capabilities.contains(query));
    asked_for.then_some(Found {
        entry,
        card,
        capabilities,
    })
}
