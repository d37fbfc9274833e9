//! What both bindings share: versions, media types, headers.

use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::fault::{Fault, Kind};
use super::operations::Features;
use crate::http::Reply;

const VERSION: HeaderName = HeaderName::from_static("a2a-version");

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// 0.3.
    Old,
    /// 1.0.
    New,
}

/// The version that a request asks for, by header or query; `otherwise` where it names none (VA-A2A-1).
pub(crate) fn version_of(
    headers: &HeaderMap,
    uri: &Uri,
    otherwise: Version,
) -> Result<Version, Fault> {
    let header = headers
        .get(VERSION)
        .map(|value| value.to_str().unwrap_or("?"));
    let in_query = || {
        let pairs = uri.query().unwrap_or_default().split('&');
        pairs
            .filter_map(|pair| pair.split_once('='))
            .find(|(name, _)| name.eq_ignore_ascii_case(VERSION.as_str()))
            .map(|(_, value)| value)
    };
    match header.or_else(in_query).unwrap_or_default().trim() {
        "" => Ok(otherwise),
        "0.3" | "0.3.0" => Ok(Version::Old),
        "1.0" => Ok(Version::New),
        _ => Err(Fault::new(
            Kind::VersionNotSupported,
            "1.0 and 0.3 are spoken here",
        )),
    }
}

/// Names the extension that an answer makes use of (VA-A2A-6).
pub(super) fn with_extension(mut reply: Reply, features: &Features, version: Version) -> Reply {
    let name = match version {
        Version::Old => HeaderName::from_static("x-a2a-extensions"),
        Version::New => HeaderName::from_static("a2a-extensions"),
    };
    if let Some(extension) = features.extension {
        let value = HeaderValue::from_static(extension);
        reply.headers_mut().insert(name, value);
    }
    reply
}
