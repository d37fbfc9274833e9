//! Calling other people's addresses.
//!
//! An address that somebody else's card or registry names is not called when it leads to this machine or its network:
//! whoever published it could make this program speak to what only it can reach. What the user typed is called.

use std::time::Duration;

use chancery_doors::public_addresses;
use chancery_vacant::dispatch::error_of_status;
use reqwest::header::HeaderMap;
use reqwest::{Client, Response, Url};
use serde_json::Value;

use super::told;
use crate::client::{Answered, cause, is_no_tls, without_roots};
use crate::commands::explain;
use crate::exit::Failure;
use crate::terminal::plain;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take (VA-DSP-9).
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an answer (VA-DSP-9).
const ANSWER_BYTES: usize = 1 << 20;

/// Who named an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedBy {
    /// The user, or the user allowed it.
    User,
    /// Somebody's card or registry.
    Somebody,
}

/// An answer.
pub(super) struct Answer {
    /// Whose it is.
    by: String,
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// Why it is not the answer that was asked for.
    pub(super) fn failure(self) -> Failure {
        let status = self.status;
        if self.body.is_empty() {
            return told(error_of_status(status, None));
        }
        let read = self.json();
        let body = match read {
            Ok(body) => body,
            Err(failure) => return failure,
        };
        let error = &body["error"];
        let reason = error["data"][0]["reason"].as_str();
        let Some(guide) = reason.and_then(|reason| explain::guide_of("vacant", reason)) else {
            return told(error_of_status(status, reason));
        };
        let message = plain(error["message"].as_str().unwrap_or(guide.when)).into_owned();
        Failure::no(format!("{}: {message}", guide.code)).explained(Some(&guide))
    }

    /// The body as JSON; what is none was not said by a node.
    pub(super) fn json(self) -> Result<Value, Failure> {
        let answered = Answered {
            by: self.by,
            status: self.status,
            headers: HeaderMap::new(),
            body: self.body,
        };
        answered.value()
    }
}

/// Reads an address that the user typed, or that somebody named.
pub(super) fn parse(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| Failure::usage(format!("{text} is no http or https address")))
}

/// A client for one address: no redirects, no proxy, and no way to places that somebody else must not name.
pub(super) async fn client(url: &Url, named_by: NamedBy) -> Result<Client, Failure> {
    // Another part of the program may have chosen a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut builder = without_roots(Client::builder(), url)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(TIMEOUT)
        .user_agent(concat!("chancery/", env!("CARGO_PKG_VERSION")));
    if named_by == NamedBy::Somebody {
        let host = url.host_str().unwrap_or_default().to_owned();
        let found = public_addresses(url).await.map_err(|error| {
            Failure::no(format!("{url}: {error}, and it was not you who named it"))
                .next("call it by its own address, or say --allow-private")
        })?;
        // The name is not looked up again: it could lead elsewhere by then.
        builder = builder.resolve_to_addrs(&host, &found);
    }
    builder
        .build()
        .map_err(|error| Failure::damaged(format!("cannot set up HTTP: {error}")))
}

/// Reads an answer within its limit.
pub(super) async fn read(url: &Url, sent: reqwest::Result<Response>) -> Result<Answer, Failure> {
    let broke = |error: reqwest::Error| {
        if url.scheme() == "https" && is_no_tls(&error) {
            return Failure::no(format!("TRANSPORT: {url} does not speak TLS"));
        }
        Failure::no(format!("TRANSPORT: {url}: {}", cause(&error)))
    };
    let mut response = sent.map_err(broke)?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(broke)? {
        if body.len() + part.len() > ANSWER_BYTES {
            return Err(Failure::no(format!(
                "TRANSPORT: the answer of {url} is too long"
            )));
        }
        body.extend_from_slice(&part);
    }
    let by = url.as_str().to_owned();
    Ok(Answer { by, status, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn somebody_else_does_not_send_us_home() {
        for named in [
            "http://localhost:1/",
            "http://127.0.0.1:1/",
            "http://[::1]:1/",
        ] {
            let url = parse(named).unwrap();
            assert!(client(&url, NamedBy::Somebody).await.is_err(), "{named}");
            assert!(client(&url, NamedBy::User).await.is_ok(), "{named}");
        }
    }
}
