//! Capabilities and their digest (chapter 10).

use std::collections::BTreeSet;

use chancery_core::canonical::write_string_html_safe;
use chancery_core::digest::Sha256Digest;
use chancery_core::fault;
use chancery_core::json::{Object, Value};

use super::member;
use crate::fault::{ErrorName, Fault, Stage};
use crate::grammar::is_blank;

/// A capability whose members are well formed.
#[derive(Clone, Debug)]
pub struct Capability<'v> {
    /// Its name.
    pub id: &'v str,
    /// What it does.
    pub summary: &'v str,
    /// What comes of it.
    pub outcome: &'v str,
    version: Option<&'v str>,
    /// The five lists that keep their order, then the requirements.
    lists: [&'v [Value<'v>]; 6],
}

const LISTS: [(&str, &str); 6] = [
    ("context_needed", "body.capability.context_needed"),
    ("artifacts_expected", "body.capability.artifacts_expected"),
    ("execution_outline", "body.capability.execution_outline"),
    ("constraints", "body.capability.constraints"),
    ("examples", "body.capability.examples"),
    (REQUIREMENTS, "body.capability.requirements"),
];
const REQUIREMENTS: &str = "requirements";

impl<'v> Capability<'v> {
    /// The capability of a body, with a digest that is its own.
    pub(super) fn check(body: &'v Object<'v>) -> Result<Self, Fault> {
        let Some(Value::Object(members)) = member(body, "capability") else {
            return Err(Fault::body("body.capability"));
        };
        let capability = Self::read(members)?;
        let digest = required(members, "digest", "body.capability.digest")?;
        if capability.digest() != digest && !fault::on("ag-digest-unchecked") {
            return Err(
                Fault::new(ErrorName::DigestMismatch, Stage::Body).at("body.capability.digest")
            );
        }
        Ok(capability)
    }

    /// The members that a digest is made of.
    pub fn read(members: &'v Object<'v>) -> Result<Self, Fault> {
        let mut lists: [&[Value<'_>]; 6] = [&[]; 6];
        for ((name, path), list) in LISTS.into_iter().zip(&mut lists) {
            *list = texts(member(members, name)).ok_or_else(|| Fault::body(path))?;
        }
        let version = match member(members, "version") {
            None => None,
            Some(Value::String(version)) => Some(version.as_ref()),
            Some(_) => return Err(Fault::body("body.capability.version")),
        };
        let capability = Self {
            id: required(members, "id", "body.capability.id")?,
            summary: required(members, "summary", "body.capability.summary")?,
            outcome: required(members, "outcome", "body.capability.outcome")?,
            version,
            lists,
        };
        capability.check_requirements()?;
        Ok(capability)
    }

    /// AG-CAP-3
    fn check_requirements(&self) -> Result<(), Fault> {
        let mut known = BTreeSet::new();
        for entry in entries(self.lists[5]) {
            if entry.is_empty() || !known.insert(entry) {
                return Err(Fault::body("body.capability.requirements"));
            }
        }
        Ok(())
    }

    /// The bytes that the digest is over (AG-DIG-1).
    pub fn canonical(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.push(b'{');
        let texts = [
            ("id", self.id),
            ("summary", self.summary),
            ("outcome", self.outcome),
        ];
        for (name, text) in texts {
            name_to(name, &mut out);
            write_string_html_safe(text.trim(), &mut out);
        }
        if let Some(version) = self.version.map(str::trim).filter(|text| !text.is_empty()) {
            name_to("version", &mut out);
            write_string_html_safe(version, &mut out);
        }
        for ((name, _), list) in LISTS.into_iter().zip(self.lists) {
            let mut list: Vec<&str> = entries(list).filter(|entry| !entry.is_empty()).collect();
            if name == REQUIREMENTS {
                list.sort_unstable();
            }
            if !list.is_empty() {
                name_to(name, &mut out);
                list_to(&list, &mut out);
            }
        }
        out.push(b'}');
        out
    }

    /// `sha256:` and the hex of the SHA-256 over [`Capability::canonical`].
    pub fn digest(&self) -> String {
        format!("sha256:{}", Sha256Digest::of(&self.canonical()))
    }
}

fn name_to(name: &str, out: &mut Vec<u8>) {
    if out.len() > 1 {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn list_to(list: &[&str], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, entry) in list.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string_html_safe(entry, out);
    }
    out.push(b']');
}

fn entries<'v>(list: &'v [Value<'v>]) -> impl Iterator<Item = &'v str> {
    list.iter().filter_map(Value::as_str).map(str::trim)
}

/// A list of texts; one that is absent is empty.
fn texts<'v>(value: Option<&'v Value<'v>>) -> Option<&'v [Value<'v>]> {
    let Some(value) = value else { return Some(&[]) };
    let items = value.as_array()?;
    items
        .iter()
        .all(|item| item.as_str().is_some())
        .then_some(items)
}

fn required<'v>(members: &'v Object<'v>, name: &str, path: &'static str) -> Result<&'v str, Fault> {
    member(members, name)
        .and_then(Value::as_str)
        .filter(|text| !is_blank(text))
        .ok_or_else(|| Fault::body(path))
}
