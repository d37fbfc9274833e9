//! Agent identifiers (VX-AGT-2 to 5).
//!
//! An identifier is any short text without control characters and is compared byte for byte: no case
//! folding and no URI normalization, because a lenient comparison would let two spellings share a key.
//! The `agent://` grammar is applied only where such an identifier is created or resolved.

use crate::dns;
use core::net::{Ipv4Addr, Ipv6Addr};
use std::borrow::Borrow;
use std::fmt;

/// Longest identifier in code points (VX-AGT-2).
pub const MAX_CODE_POINTS: usize = 512;
/// The recipient that means every known peer; reserved as a name (VX-AGT-4).
pub const BROADCAST: &str = "broadcast";
/// Longest `id` part of an agent URI, an escape counting as one (VX-AGT-5).
pub const MAX_URI_ID_LENGTH: usize = 200;

const SCHEME: &str = "agent://";
const MESSAGES_PATH: &str = "/.well-known/vcp/messages";

/// The name of one agent, checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(Box<str>);

/// Why a text cannot name an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentIdFault {
    /// No character at all.
    #[error("agent identifier is empty")]
    Empty,
    /// More than [`MAX_CODE_POINTS`].
    #[error("agent identifier is longer than 512 code points")]
    TooLong,
    /// It has a control character, which would forge log lines.
    #[error("agent identifier has a control character")]
    Control,
    /// It is the reserved word `broadcast`.
    #[error("broadcast is reserved and names no agent")]
    Reserved,
}

impl AgentIdFault {
    /// The requirement that the identifier fails.
    pub const fn requirement(self) -> &'static str {
        match self {
            Self::Reserved => "VX-AGT-4",
            Self::Empty | Self::TooLong | Self::Control => "VX-AGT-2",
        }
    }
}

impl AgentId {
    /// Checks `text` and keeps it as written.
    pub fn parse(text: &str) -> Result<Self, AgentIdFault> {
        check(text)?;
        Ok(Self(text.into()))
    }

    /// The identifier as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for AgentId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Whether `text` can name an agent.
pub fn check(text: &str) -> Result<(), AgentIdFault> {
    if text.is_empty() {
        return Err(AgentIdFault::Empty);
    }
    if text == BROADCAST {
        return Err(AgentIdFault::Reserved);
    }
    // A text of n bytes has at most n code points, so the usual identifier is never counted.
    if text.len() > MAX_CODE_POINTS && text.chars().nth(MAX_CODE_POINTS).is_some() {
        return Err(AgentIdFault::TooLong);
    }
    // `char::is_control` is exactly U+0000 to U+001F and U+007F to U+009F.
    if text.chars().any(char::is_control) {
        return Err(AgentIdFault::Control);
    }
    Ok(())
}

/// An identifier of the form `agent://host[:port]/id`, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentUri<'a> {
    /// Lower-case DNS name, IPv4 address or bracketed IPv6 address.
    pub host: &'a str,
    /// The port, when one is given.
    pub port: Option<u16>,
    /// The agent within that host.
    pub id: &'a str,
}

/// The part of an agent URI that breaks the grammar (VX-AGT-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentUriFault {
    /// It does not begin with `agent://`.
    #[error("agent URI does not begin with agent://")]
    Scheme,
    /// The host is none, or nothing follows it.
    #[error("host of the agent URI is not a lower-case DNS name or an address")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("port of the agent URI is not a number from 1 to 65535")]
    Port,
    /// The id is empty, too long, or has a character outside the grammar.
    #[error("id of the agent URI is outside the grammar")]
    Id,
}

impl<'a> AgentUri<'a> {
    /// Takes an agent URI apart, or says which part is wrong.
    pub fn parse(text: &'a str) -> Result<Self, AgentUriFault> {
        let rest = text.strip_prefix(SCHEME).ok_or(AgentUriFault::Scheme)?;
        let (authority, id) = rest.split_once('/').ok_or(AgentUriFault::Host)?;
        let (host, port) = split_authority(authority)?;
        if !is_host(host) {
            return Err(AgentUriFault::Host);
        }
        let port = port.map(parse_port).transpose()?;
        if !is_uri_id(id) {
            return Err(AgentUriFault::Id);
        }
        Ok(Self { host, port, id })
    }

    /// Where messages for this agent go when no address is configured.
    pub fn default_address(&self) -> String {
        match self.port {
            Some(port) => format!("https://{}:{port}{MESSAGES_PATH}", self.host),
            None => format!("https://{}{MESSAGES_PATH}", self.host),
        }
    }
}

fn split_authority(authority: &str) -> Result<(&str, Option<&str>), AgentUriFault> {
    // The colons of an IPv6 address are inside its brackets.
    let host_end = match authority.find(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, rest) = authority.split_at(host_end);
    if rest.is_empty() {
        return Ok((host, None));
    }
    let port = rest.strip_prefix(':').ok_or(AgentUriFault::Host)?;
    Ok((host, Some(port)))
}

fn is_host(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        return inner.parse::<Ipv6Addr>().is_ok();
    }
    // URL parsers read a name that ends in a number as an IPv4 address, so it has to be one.
    let ends_in_number = host
        .rsplit('.')
        .next()
        .is_some_and(|label| label.bytes().all(|byte| byte.is_ascii_digit()));
    if ends_in_number {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    dns::is_lower_case_name(host)
}

fn parse_port(text: &str) -> Result<u16, AgentUriFault> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if !plain {
        return Err(AgentUriFault::Port);
    }
    text.parse().map_err(|_| AgentUriFault::Port)
}

fn is_uri_id(id: &str) -> bool {
    let Some(length) = id
        .split('/')
        .map(segment_length)
        .reduce(|sum, segment| Some(sum? + 1 + segment?))
        .flatten()
    else {
        return false;
    };
    length <= MAX_URI_ID_LENGTH
}

/// The length of one path segment, an escape counting as one; none for a segment outside the grammar.
fn segment_length(segment: &str) -> Option<usize> {
    let mut bytes = segment.bytes();
    let mut length = 0;
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let escaped =
                    bytes.next()?.is_ascii_hexdigit() && bytes.next()?.is_ascii_hexdigit();
                escaped.then_some(())?;
            }
            b'.' | b'_' | b'~' | b'-' => {}
            _ if byte.is_ascii_alphanumeric() => {}
            _ => return None,
        }
        length += 1;
    }
    (length > 0).then_some(length)
}
