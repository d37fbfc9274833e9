//! References of the form `creed://issuer/path[@version]` (VX-CRD-1 to 7).
//!
//! A reference is data: it is taken apart and never fetched. The parts borrow from the text, so a check
//! costs no allocation.

use crate::dns;

/// Longest reference in characters (VX-CRD-6).
pub const MAX_LENGTH: usize = 2048;

const SCHEME: &str = "creed://";

/// A reference taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreedRef<'a> {
    /// The DNS name that answers for the constitution.
    pub issuer: &'a str,
    /// The path below the issuer, one or more segments.
    pub path: &'a str,
    /// `latest`, `canary` or a semantic version; none means unpinned.
    pub version: Option<&'a str>,
}

/// The part of a reference that breaks the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreedFault {
    /// More than [`MAX_LENGTH`] characters.
    #[error("reference is longer than 2048 characters")]
    TooLong,
    /// It does not begin with `creed://`.
    #[error("reference does not begin with creed://")]
    Scheme,
    /// The issuer is no lower-case DNS name, or nothing follows it.
    #[error("issuer of the reference is not a lower-case DNS name followed by a path")]
    Issuer,
    /// A segment is empty, `.`, `..`, or has a character outside the grammar.
    #[error("path of the reference has a segment outside the grammar")]
    Path,
    /// What follows `@` is neither `latest`, `canary` nor a semantic version.
    #[error("version of the reference is not latest, canary or a semantic version")]
    Version,
}

impl CreedFault {
    /// The requirement that the reference fails.
    pub const fn requirement(self) -> &'static str {
        match self {
            Self::TooLong => "VX-CRD-6",
            Self::Scheme => "VX-CRD-2",
            Self::Issuer => "VX-CRD-3",
            Self::Path => "VX-CRD-4",
            Self::Version => "VX-CRD-5",
        }
    }
}

impl<'a> CreedRef<'a> {
    /// Takes a reference apart, or says which part is wrong.
    pub fn parse(text: &'a str) -> Result<Self, CreedFault> {
        // Characters are bytes here: whatever is not ASCII fails the grammar anyway.
        if text.len() > MAX_LENGTH && text.chars().nth(MAX_LENGTH).is_some() {
            return Err(CreedFault::TooLong);
        }
        let rest = text.strip_prefix(SCHEME).ok_or(CreedFault::Scheme)?;
        let (issuer, rest) = rest.split_once('/').ok_or(CreedFault::Issuer)?;
        if !dns::is_lower_case_name(issuer) {
            return Err(CreedFault::Issuer);
        }
        let (path, version) = match rest.split_once('@') {
            Some((path, version)) => (path, Some(version)),
            None => (rest, None),
        };
        if !path.split('/').all(is_segment) {
            return Err(CreedFault::Path);
        }
        if !version.is_none_or(is_version) {
            return Err(CreedFault::Version);
        }
        Ok(Self {
            issuer,
            path,
            version,
        })
    }
}

fn is_segment(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..")
        && segment
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_version(version: &str) -> bool {
    if matches!(version, "latest" | "canary") {
        return true;
    }
    let (core, prerelease) = match version.split_once('-') {
        Some((core, prerelease)) => (core, Some(prerelease)),
        None => (version, None),
    };
    core.split('.').count() == 3
        && core.split('.').all(is_numeric_without_leading_zero)
        && prerelease.is_none_or(|parts| parts.split('.').all(is_prerelease_part))
}

fn is_prerelease_part(part: &str) -> bool {
    let all_digits = part.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits {
        return is_numeric_without_leading_zero(part);
    }
    part.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_numeric_without_leading_zero(part: &str) -> bool {
    !part.is_empty()
        && part.bytes().all(|byte| byte.is_ascii_digit())
        && (part.len() == 1 || !part.starts_with('0'))
}
