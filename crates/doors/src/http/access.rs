//! Who may use a path: the rules of the table, bearer tokens and their scopes (CH-ID-1, CH-ID-2, CH-NET-4).

use std::sync::Arc;

use chancery_core::admin::TokenRecord;
use chancery_core::line::ProtocolName;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::door::HttpDoor;
use super::reply::{Reply, problem, unauthorized};
use super::vibe;

/// Who may use a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Anybody.
    Public,
    /// Anybody: the protocol's own rules prove who sent what.
    Signed(ProtocolName),
    /// Who has a token that allows it; anybody with `dev` on loopback.
    Token(Need),
    /// Who has a token in force, for what the protocol lets its principal do; anybody with `dev` on loopback.
    Principal(ProtocolName),
    /// Nobody, unless `dev` is on: elsewhere the path does not exist.
    DevOnly,
}

/// What a token has to allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// `read:log`.
    ReadLog,
    /// `read:inbox:AGENT`; the agent is in the path.
    ReadInbox,
    /// `read:state:AGENT`; the agent is in the path.
    ReadState,
    /// `send:AGENT`; the agent is in the body, so the handler asks.
    Send,
    /// `read:log` or `admin`: figures tell less than the log.
    ReadMetrics,
    /// `admin`.
    Admin,
    /// A token in force: each of the node's tools asks for its own scope.
    Tools,
}

/// Who calls.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Somebody whom the path's rule does not ask about, or anybody with `dev` on loopback.
    Free,
    /// The holder of a token.
    Token(Arc<TokenRecord>),
}

impl Access {
    /// Whether the caller may speak as this agent.
    pub(crate) fn may_send_as(&self, agent: &str) -> bool {
        match self {
            Self::Free => true,
            Self::Token(token) => names_agent(&token.scopes, "send:", agent),
        }
    }
}

const NO_TOKEN: &str = "Bearer";
const WRONG_TOKEN: &str = "Bearer error=\"invalid_token\"";

/// Lets a caller in who has what the path needs.
pub(crate) async fn authorize(
    door: &HttpDoor,
    need: Need,
    agent: Option<&str>,
    headers: &HeaderMap,
) -> Result<Access, Reply> {
    if door.is_dev() {
        return Ok(Access::Free);
    }
    let record = match bearer_token(door, headers).await? {
        Bearer::InForce(record) => record,
        Bearer::Missing => return Err(unauthorized(NO_TOKEN)),
        Bearer::Unknown => return Err(unauthorized(WRONG_TOKEN)),
    };
    if !allows(&record.scopes, need, agent) {
        return Err(forbidden(need));
    }
    Ok(Access::Token(record))
}

/// What a request says about its caller.
pub(crate) enum Bearer {
    /// The record of its token.
    InForce(Arc<TokenRecord>),
    /// It shows no token.
    Missing,
    /// It shows one that is none.
    Unknown,
}

/// Looks the token of a request up.
pub(crate) async fn bearer_token(door: &HttpDoor, headers: &HeaderMap) -> Result<Bearer, Reply> {
    let Some(token) = bearer(headers) else {
        return Ok(Bearer::Missing);
    };
    if let Some(record) = door.office.bearer_at_hand(token) {
        return Ok(Bearer::InForce(record));
    }
    let place = door.place_to_read().await?;
    // Another request may have looked it up meanwhile.
    if let Some(record) = door.office.bearer_at_hand(token) {
        return Ok(Bearer::InForce(record));
    }
    let token = token.to_owned();
    let read = door.read_in(place, move |office| office.bearer(&token));
    Ok(read.await?.0.map_or(Bearer::Unknown, Bearer::InForce))
}

/// Returns once the token of a request is not in force any more, or not the same: what is open under it ends.
pub(crate) async fn out_of_force(door: &HttpDoor, headers: &HeaderMap) {
    let token = bearer(headers).filter(|_| !door.is_dev());
    let Some(token) = token else {
        return std::future::pending().await;
    };
    let mut changes = door.office.token_changes();
    let mut shown = None;
    loop {
        let (office, text) = (Arc::clone(&door.office), token.to_owned());
        let found = match door.office.bearer_at_hand(token) {
            Some(record) => Some(record),
            None => match tokio::task::spawn_blocking(move || office.bearer(&text)).await {
                Ok(Ok(found)) => found,
                // A store that cannot be read ends the node by itself.
                _ => return,
            },
        };
        let Some(found) = found else { return };
        if *shown.get_or_insert_with(|| found.clone()) != found {
            return;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Lets the holder of any token in force in.
pub(crate) async fn principal(door: &HttpDoor, headers: &HeaderMap) -> Result<Access, Reply> {
    if door.is_dev() {
        return Ok(Access::Free);
    }
    match bearer_token(door, headers).await {
        Ok(Bearer::InForce(record)) => Ok(Access::Token(record)),
        Ok(Bearer::Missing | Bearer::Unknown) => Err(vibe::answers::refused(
            &vibe::answers::at_the_door(chancery_vibe::code::Code::Unauthenticated),
        )),
        Err(reply) => Err(vibe::answers::failed(&reply)),
    }
}

/// The answer to a caller whose token does not allow this; it names the scope that would (RFC 6750, section 3).
pub(crate) fn forbidden(need: Need) -> Reply {
    let mut reply = problem(StatusCode::FORBIDDEN, "the token does not allow this");
    let challenge = HeaderValue::from_static(match need {
        Need::ReadLog | Need::ReadMetrics => {
            "Bearer error=\"insufficient_scope\", scope=\"read:log\""
        }
        Need::ReadInbox => "Bearer error=\"insufficient_scope\", scope=\"read:inbox:AGENT\"",
        Need::ReadState => "Bearer error=\"insufficient_scope\", scope=\"read:state:AGENT\"",
        Need::Send => "Bearer error=\"insufficient_scope\", scope=\"send:AGENT\"",
        Need::Admin => "Bearer error=\"insufficient_scope\", scope=\"admin\"",
        Need::Tools => "Bearer error=\"insufficient_scope\"",
    });
    reply
        .headers_mut()
        .insert(http::header::WWW_AUTHENTICATE, challenge);
    reply
}

/// The token of a request; none unless there is exactly one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_start_matches(' '))
}

pub(crate) fn allows(scopes: &[String], need: Need, agent: Option<&str>) -> bool {
    let has = |scope: &str| scopes.iter().any(|held| held == scope);
    let of_agent = |prefix| agent.is_some_and(|agent| names_agent(scopes, prefix, agent));
    match need {
        Need::ReadLog | Need::ReadMetrics => has("read:log") || has("admin"),
        Need::ReadInbox => of_agent("read:inbox:") || has("admin"),
        Need::ReadState => of_agent("read:state:") || has("admin"),
        Need::Send => scopes.iter().any(|held| held.starts_with("send:")),
        Need::Admin => has("admin"),
        Need::Tools => true,
    }
}

/// Whether a scope with this prefix names the agent, or all.
fn names_agent(scopes: &[String], prefix: &str, agent: &str) -> bool {
    let mut named = scopes.iter().filter_map(|scope| scope.strip_prefix(prefix));
    named.any(|name| name == agent || name == "*")
}

/// Whether this is a scope that a token can have (CH-ID-2).
pub fn is_scope(scope: &str) -> bool {
    const WHOLE: [&str; 3] = ["read:log", "approve", "admin"];
    const OF_AGENT: [&str; 3] = ["send:", "read:inbox:", "read:state:"];
    let is_name =
        |name: &str| !name.is_empty() && name.len() <= 2_048 && !name.chars().any(char::is_control);
    WHOLE.contains(&scope)
        || OF_AGENT
            .iter()
            .any(|prefix| scope.strip_prefix(prefix).is_some_and(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    // CH-ID-2
    #[test]
    fn a_scope_allows_what_it_names_and_nothing_else() {
        let held = |scopes: &[&str]| scopes.iter().map(ToString::to_string).collect::<Vec<_>>();
        let agent = Some("agent://home/kitchen");
        let kitchen = held(&[
            "read:inbox:agent://home/kitchen",
            "send:agent://home/kitchen",
        ]);
        assert!(allows(&kitchen, Need::ReadInbox, agent));
        assert!(!allows(
            &kitchen,
            Need::ReadInbox,
            Some("agent://home/kitchen2")
        ));
        assert!(!allows(&kitchen, Need::ReadState, agent));
        assert!(!allows(&kitchen, Need::ReadLog, None));
        assert!(!allows(&kitchen, Need::Admin, None));
        assert!(allows(&held(&["read:inbox:*"]), Need::ReadInbox, agent));
        let admin = held(&["admin"]);
        for need in [
            Need::ReadLog,
            Need::ReadInbox,
            Need::ReadState,
            Need::ReadMetrics,
            Need::Admin,
        ] {
            assert!(allows(&admin, need, agent), "{need:?}");
        }
        // Speaking as an agent is no administration.
        assert!(!allows(&admin, Need::Send, agent));
    }

    #[test]
    fn only_known_scopes_are_scopes() {
        for scope in [
            "admin",
            "approve",
            "read:log",
            "send:*",
            "read:inbox:a b",
            "read:state:x",
        ] {
            assert!(is_scope(scope), "{scope}");
        }
        for scope in [
            "",
            "Admin",
            "read:",
            "send:",
            "read:inbox:",
            "write:log",
            "send:a\nb",
        ] {
            assert!(!is_scope(scope), "{scope}");
        }
    }

    #[test]
    fn a_token_comes_in_one_authorization_header() {
        let mut headers = HeaderMap::new();
        assert_eq!(bearer(&headers), None);
        headers.append(AUTHORIZATION, HeaderValue::from_static("bEaReR cht_1.x"));
        assert_eq!(bearer(&headers), Some("cht_1.x"));
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer cht_2.y"));
        assert_eq!(bearer(&headers), None);
        headers.clear();
        headers.append(AUTHORIZATION, HeaderValue::from_static("Basic abc"));
        assert_eq!(bearer(&headers), None);
    }
}
