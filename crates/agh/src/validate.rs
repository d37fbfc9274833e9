//! Steps 1 to 4 of one envelope, borrowing everything: what a verdict without state needs.

use chancery_core::json::Value;

use crate::body::{self, Content};
use crate::conversation::{self, Container};
use crate::envelope::{Envelope, parse, read_members};
use crate::fault::{ErrorName, Fault, Stage};
use crate::freshness;
use crate::revision::Revision;
use crate::settings::Settings;

/// What a body and the conversation around it came to.
#[derive(Clone, Debug)]
pub struct Checked<'v> {
    /// Where it is said, in revision B.
    pub container: Option<Container<'v>>,
    /// What it says.
    pub content: Content<'v>,
}

/// Checks everything after freshness that needs no state: conversation and body.
pub fn check_content<'v>(
    envelope: &Envelope<'v>,
    settings: &Settings,
) -> Result<Checked<'v>, Fault> {
    let kind = envelope
        .kind
        .ok_or_else(|| Fault::new(ErrorName::UnsupportedKind, Stage::Members).at("kind"))?;
    let container = match envelope.revision {
        Revision::A => None,
        Revision::B => conversation::check(envelope, kind)?,
    };
    Ok(Checked {
        container,
        content: body::check(envelope, kind, settings)?,
    })
}

/// The members of a parsed text.
pub fn members<'v>(value: &'v Value<'v>, settings: &Settings) -> Result<Envelope<'v>, Fault> {
    match value {
        Value::Object(object) => read_members(object, settings),
        _ => Err(Fault::new(ErrorName::NotObject, Stage::Parse)),
    }
}

/// The verdict of steps 1 to 4 at `now` (whole Unix seconds): the revision, or what is wrong.
pub fn validate(text: &[u8], now: i64, settings: &Settings) -> Result<Revision, Fault> {
    let value = parse(text, settings.max_payload)?;
    let envelope = members(&value, settings)?;
    if envelope.kind.is_some() {
        freshness::check(
            envelope.ts,
            envelope.expires_at,
            now,
            settings.max_replay_age_s,
        )?;
    }
    check_content(&envelope, settings)?;
    Ok(envelope.revision)
}
