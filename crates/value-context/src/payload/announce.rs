//! The payload of a `constitution_announce` and what its scope applies to (VX-CA-1 to 4).

use super::read_creed;
use crate::code::Fault;
use crate::members::{closed, required_text, text};
use crate::message::Version;
use crate::schema::{CreedText, Environment, ManifestHash, ModelPattern, Purpose};
use chancery_core::canonical::{Dialect, write_without_member};
use chancery_core::digest::Sha256Digest;
use chancery_core::json::{Place, Value};
use schemars::JsonSchema;

pub(crate) const ENVIRONMENTS: [&str; 4] = ["production", "staging", "development", "testing"];
const HASH_PREFIX: &str = "sha256:";

/// The sender's active constitution.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "constitution_announce", deny_unknown_fields)]
pub struct ConstitutionAnnounce {
    /// The constitution as written; [`crate::creed::CreedRef::parse`] holds.
    #[schemars(with = "CreedText")]
    pub constitution_ref: Box<str>,
    /// `sha256:` and the digest of its manifest.
    #[schemars(with = "ManifestHash")]
    pub manifest_hash: Box<str>,
    /// Where it applies; everywhere when there is none.
    pub scope: Option<Scope>,
}

/// Where a constitution applies. A list that is absent or empty matches everything (VX-CA-4).
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "scope", deny_unknown_fields)]
pub struct Scope {
    /// Patterns of models, `*` for any run of characters.
    #[schemars(with = "Option<Vec<ModelPattern>>")]
    pub model_families: Option<Vec<Box<str>>>,
    /// Purposes.
    #[schemars(with = "Option<Vec<Purpose>>")]
    pub purposes: Option<Vec<Box<str>>>,
    /// Environments.
    #[schemars(with = "Option<Vec<Environment>>")]
    pub environments: Option<Vec<Box<str>>>,
    /// Audiences, which only version 2.0 has here; they say nothing about a deployment (VX-V2-1).
    #[schemars(skip)]
    pub audiences: Option<Vec<Box<str>>>,
}

/// Something that a scope may apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployment<'a> {
    /// The model that runs.
    pub model: &'a str,
    /// What for.
    pub purpose: &'a str,
    /// Where.
    pub environment: &'a str,
}

impl ConstitutionAnnounce {
    pub(super) fn read(
        value: &Value<'_>,
        version: Version,
        place: &Place<'_>,
    ) -> Result<Self, Fault> {
        const NAMES: [&str; 3] = ["constitution_ref", "manifest_hash", "scope"];
        let [constitution_ref, manifest_hash, scope] = closed(value, place, NAMES)?;
        let scope_place = place.child("scope");
        Ok(Self {
            constitution_ref: read_creed(constitution_ref, &place.child("constitution_ref"))?,
            manifest_hash: read_hash(manifest_hash, &place.child("manifest_hash"))?,
            scope: scope
                .map(|scope| Scope::read(scope, version, &scope_place))
                .transpose()?,
        })
    }
}

impl Scope {
    /// Reads a scope as this version of the protocol has it.
    pub fn read(value: &Value<'_>, version: Version, place: &Place<'_>) -> Result<Self, Fault> {
        let list = |member: Option<&Value<'_>>, name: &str, fits: fn(&str) -> bool| {
            member
                .map(|member| read_list(member, &place.child(name), fits))
                .transpose()
        };
        match version {
            Version::V1_2 => {
                const NAMES: [&str; 3] = ["model_families", "purposes", "environments"];
                let [models, purposes, environments] = closed(value, place, NAMES)?;
                Ok(Self {
                    model_families: list(models, NAMES[0], is_model_pattern)?,
                    purposes: list(purposes, NAMES[1], is_purpose)?,
                    environments: list(environments, NAMES[2], is_environment)?,
                    audiences: None,
                })
            }
            Version::V2_0 => {
                const NAMES: [&str; 3] = ["model_families", "environments", "audiences"];
                let [models, environments, audiences] = closed(value, place, NAMES)?;
                Ok(Self {
                    model_families: list(models, NAMES[0], |_| true)?,
                    purposes: None,
                    environments: list(environments, NAMES[1], |_| true)?,
                    audiences: list(audiences, NAMES[2], |_| true)?,
                })
            }
        }
    }

    /// Whether every list that says something names the deployment.
    pub fn applies_to(&self, deployment: &Deployment<'_>) -> bool {
        let matches = |list: &Option<Vec<Box<str>>>, fits: &dyn Fn(&str) -> bool| {
            list.as_ref()
                .is_none_or(|items| items.is_empty() || items.iter().any(|item| fits(item)))
        };
        matches(&self.model_families, &|pattern| {
            fits_pattern(pattern, deployment.model)
        }) && matches(&self.purposes, &|purpose| purpose == deployment.purpose)
            && matches(&self.environments, &|environment| {
                environment == deployment.environment
            })
    }
}

/// Whether the whole text fits a pattern in which `*` stands for any run of characters and all else for itself.
fn fits_pattern(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// The hash that announces a manifest: over its RFC 8785 bytes without its own signature (VX-CA-2).
pub fn manifest_hash(manifest: &Value<'_>) -> String {
    let mut bytes = Vec::new();
    write_without_member(manifest, "signature", Dialect::Rfc8785, &mut bytes);
    format!("{HASH_PREFIX}{}", Sha256Digest::of(&bytes).hex())
}

fn read_hash(member: Option<&Value<'_>>, place: &Place<'_>) -> Result<Box<str>, Fault> {
    let hash = required_text(member, place)?;
    let is_hex = |digits: &str| {
        digits.len() == 64
            && digits
                .bytes()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    };
    if hash.strip_prefix(HASH_PREFIX).is_some_and(is_hex) {
        return Ok(hash.into());
    }
    let message = "must be sha256: and 64 lower-case hex digits";
    Err(Fault::schema(place, message, "VX-CA-1"))
}

fn read_list(
    value: &Value<'_>,
    place: &Place<'_>,
    fits: fn(&str) -> bool,
) -> Result<Vec<Box<str>>, Fault> {
    let items = value
        .as_array()
        .ok_or_else(|| Fault::schema(place, "must be an array of strings", "VX-CA-3"))?;
    let read = |(index, item): (usize, &Value<'_>)| {
        let place = place.item(index);
        let item = text(item, &place)?;
        if fits(item) {
            return Ok(item.into());
        }
        Err(Fault::schema(&place, "is not allowed here", "VX-CA-3"))
    };
    items.iter().enumerate().map(read).collect()
}

fn is_model_pattern(item: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'*' | b'-');
    !item.is_empty() && item.bytes().all(fits)
}

fn is_purpose(item: &str) -> bool {
    let fits = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    !item.is_empty() && item.bytes().all(fits)
}

fn is_environment(item: &str) -> bool {
    ENVIRONMENTS.contains(&item)
}
