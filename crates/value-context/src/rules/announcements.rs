//! The newest announcements of each sender, as each hosted agent knows them (VX-CA-5).

use chancery_core::decision::{Cx, Stop};
use chancery_core::rows::RowKey;
use serde::{Deserialize, Serialize};

use super::told::Told;
use crate::agent::AgentRecord;
use crate::constraints::Stamp;
use crate::creed::CreedRef;
use crate::payload::{ConstitutionAnnounce, Scope};

/// How many constitutions of one sender an agent keeps; the oldest goes first.
pub const MAX_ANNOUNCEMENTS: usize = 64;

/// An announcement on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// Its message.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// The constitution.
    pub constitution_ref: Box<str>,
    /// The hash of its manifest.
    pub manifest_hash: Box<str>,
    /// Where it applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeRecord>,
}

/// A scope on record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeRecord {
    /// Patterns of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_families: Option<Vec<Box<str>>>,
    /// Purposes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purposes: Option<Vec<Box<str>>>,
    /// Environments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environments: Option<Vec<Box<str>>>,
    /// Audiences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audiences: Option<Vec<Box<str>>>,
}

impl ScopeRecord {
    fn of(scope: &Scope) -> Self {
        Self {
            model_families: scope.model_families.clone(),
            purposes: scope.purposes.clone(),
            environments: scope.environments.clone(),
            audiences: scope.audiences.clone(),
        }
    }
}

/// How an announced constitution compares with what its receiver holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same reference and hash.
    Same,
    /// The same issuer and path in another version.
    VersionConflict,
    /// The same reference with another hash.
    ContentConflict,
    /// None of these.
    Other,
}

impl Comparison {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::VersionConflict => "version_conflict",
            Self::ContentConflict => "content_conflict",
            Self::Other => "other",
        }
    }
}

/// The row of what `sender` announced to `receiver`; an agent's own stand under itself.
pub fn announcements_key(receiver: &str, sender: &str) -> RowKey {
    RowKey::text("vx-announced", &[receiver, sender])
}

/// The prefix of all announcements at `receiver`.
pub fn announcements_prefix(receiver: &str) -> RowKey {
    RowKey::text("vx-announced", &[receiver])
}

/// Keeps an announcement unless a newer one of the same constitution is there; says how it compares.
pub(super) fn keep(
    receiver: &str,
    record: &AgentRecord,
    told: &Told<'_>,
    announce: &ConstitutionAnnounce,
    cx: &mut Cx<'_>,
) -> Result<Comparison, Stop> {
    let own: Vec<Announcement> = cx
        .row(&announcements_key(receiver, receiver))?
        .unwrap_or_default();
    let known: Vec<Announcement> = cx
        .row(&announcements_key(receiver, told.sender))?
        .unwrap_or_default();
    let held = own.iter().chain(&known);
    let comparison = compare(announce, record.constitution_ref.as_deref(), held);
    put(receiver, known, told, announce, cx);
    Ok(comparison)
}

/// Keeps what an agent announced itself.
pub(super) fn keep_own(
    told: &Told<'_>,
    announce: &ConstitutionAnnounce,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let known = cx
        .row(&announcements_key(told.sender, told.sender))?
        .unwrap_or_default();
    put(told.sender, known, told, announce, cx);
    Ok(())
}

fn put(
    receiver: &str,
    mut known: Vec<Announcement>,
    told: &Told<'_>,
    announce: &ConstitutionAnnounce,
    cx: &mut Cx<'_>,
) {
    let stamp = told.stamp();
    let reference = &announce.constitution_ref;
    let same = known
        .iter()
        .position(|kept| kept.constitution_ref == *reference);
    if let Some(index) = same {
        if known[index].stamp > stamp {
            return;
        }
        known.remove(index);
    }
    let place = known.partition_point(|kept| kept.stamp < stamp);
    let announcement = Announcement {
        stamp,
        constitution_ref: reference.clone(),
        manifest_hash: announce.manifest_hash.clone(),
        scope: announce.scope.as_ref().map(ScopeRecord::of),
    };
    known.insert(place, announcement);
    let surplus = known.len().saturating_sub(MAX_ANNOUNCEMENTS);
    known.drain(..surplus);
    cx.put(announcements_key(receiver, told.sender), &known);
}

/// Compares an announcement with the constitutions that are held: those announced, and the agent's own, whose hash
/// is known only when it was announced.
fn compare<'k>(
    announce: &ConstitutionAnnounce,
    own: Option<&str>,
    held: impl Iterator<Item = &'k Announcement> + Clone,
) -> Comparison {
    let mut of_reference = held
        .clone()
        .filter(|kept| kept.constitution_ref == announce.constitution_ref)
        .peekable();
    if of_reference.peek().is_some() {
        let same = of_reference.any(|kept| kept.manifest_hash == announce.manifest_hash);
        return if same {
            Comparison::Same
        } else {
            Comparison::ContentConflict
        };
    }
    let references = held.map(|kept| &*kept.constitution_ref).chain(own);
    let is_another_version = |reference: &str| {
        let (Ok(a), Ok(b)) = (
            CreedRef::parse(reference),
            CreedRef::parse(&announce.constitution_ref),
        ) else {
            return false;
        };
        (a.issuer, a.path) == (b.issuer, b.path) && a.version != b.version
    };
    if references.into_iter().any(is_another_version) {
        Comparison::VersionConflict
    } else {
        Comparison::Other
    }
}
