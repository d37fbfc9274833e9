//! How commands speak to a running node: where it is, with which token, and what its answers mean.
//!
//! Guarantees: an error says what to do next; a token travels encrypted, or to this machine alone.
//!
//! Refuses to: take a token as an argument (others see arguments), follow a redirect, or read an answer without end.

mod place;

use std::future::Future;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, ClientBuilder, Method, Response, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::Failure;

pub(crate) use place::NodeArgs;

/// The most of an answer that is read.
const ANSWER_BYTES: usize = 64 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A node that is spoken to.
pub(crate) struct NodeClient {
    http: Client,
    base: Url,
    authorization: Option<HeaderValue>,
}

/// What a node answered.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// The HTTP status.
    pub(crate) status: u16,
    /// What was told beside the body.
    pub(crate) headers: HeaderMap,
    /// The body as it came.
    pub(crate) body: Vec<u8>,
}

/// Runs a conversation with a node on this thread.
pub(crate) fn block_on<T>(talk: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::damaged(format!("cannot open sockets: {error}")))?
        .block_on(talk)
}

impl NodeClient {
    /// A client of the node at `base`.
    pub(crate) fn new(base: Url, authorization: Option<HeaderValue>) -> Result<Self, Failure> {
        // Another part of the program may have chosen a provider already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let http = without_roots(Client::builder(), &base)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            .user_agent(concat!("chancery/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Failure::damaged(format!("cannot set up HTTP: {error}")))?;
        Ok(Self {
            http,
            base,
            authorization,
        })
    }

    /// A client without a token of the node at an address.
    pub(crate) fn at(address: &str) -> Result<Self, Failure> {
        Self::new(place::parse(address)?, None)
    }

    /// Where the node is.
    pub(crate) fn place(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Reads a path, given by its segments.
    pub(crate) async fn get(&self, segments: &[&str]) -> Result<Answered, Failure> {
        self.call(Method::GET, self.address(segments)?, None).await
    }

    /// The same with a query parameter.
    pub(crate) async fn get_where(
        &self,
        segments: &[&str],
        (name, value): (&str, &str),
    ) -> Result<Answered, Failure> {
        let mut address = self.address(segments)?;
        address.query_pairs_mut().append_pair(name, value);
        self.call(Method::GET, address, None).await
    }

    /// Posts JSON to a path.
    pub(crate) async fn post(
        &self,
        segments: &[&str],
        body: impl Into<Vec<u8>>,
    ) -> Result<Answered, Failure> {
        self.post_as("application/json", segments, body).await
    }

    /// Posts a body of another media type.
    pub(crate) async fn post_as(
        &self,
        media_type: &'static str,
        segments: &[&str],
        body: impl Into<Vec<u8>>,
    ) -> Result<Answered, Failure> {
        let body = Some((HeaderValue::from_static(media_type), body.into()));
        self.call(Method::POST, self.address(segments)?, body).await
    }

    /// Deletes what a path names.
    pub(crate) async fn delete(&self, segments: &[&str]) -> Result<Answered, Failure> {
        self.call(Method::DELETE, self.address(segments)?, None)
            .await
    }

    async fn call(
        &self,
        method: Method,
        address: Url,
        body: Option<(HeaderValue, Vec<u8>)>,
    ) -> Result<Answered, Failure> {
        let mut request = self.http.request(method, address);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if let Some((media_type, body)) = body {
            request = request.header(CONTENT_TYPE, media_type).body(body);
        }
        let response = request
            .send()
            .await
            .map_err(|error| self.no_answer(&error))?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = self.body(response).await?;
        Ok(Answered {
            status,
            headers,
            body,
        })
    }

    /// Segments are percent-encoded here, so that an agent's name stays one of them.
    fn address(&self, segments: &[&str]) -> Result<Url, Failure> {
        let mut address = self.base.clone();
        match address.path_segments_mut() {
            Ok(mut path) => {
                path.pop_if_empty().extend(segments);
            }
            Err(()) => return Err(place::no_address(self.base.as_str())),
        }
        Ok(address)
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut whole = Vec::new();
        while let Some(part) = response
            .chunk()
            .await
            .map_err(|error| self.no_answer(&error))?
        {
            if whole.len() + part.len() > ANSWER_BYTES {
                return Err(Failure::no(format!(
                    "the answer of {} is too long",
                    self.base
                )));
            }
            whole.extend_from_slice(&part);
        }
        Ok(whole)
    }

    fn no_answer(&self, error: &reqwest::Error) -> Failure {
        let at = self.place();
        if error.is_connect() {
            return Failure::usage(format!("no node answers at {at}: {}", cause(error)))
                .next("start it with: chancery serve; or name another with --url or CHANCERY_URL");
        }
        if error.is_timeout() {
            return Failure::no(format!("the node at {at} did not answer in time"))
                .next("what was asked may be done all the same: look before asking again");
        }
        Failure::no(format!("the node at {at} broke off: {}", cause(error)))
            .next("what was asked may be done all the same: look before asking again")
    }
}

/// A client of an address without TLS asks for no certificates: a system that has none can speak to itself.
pub(crate) fn without_roots(builder: ClientBuilder, url: &Url) -> ClientBuilder {
    if url.scheme() == "https" {
        builder
    } else {
        builder.tls_certs_only([])
    }
}

/// The innermost reason: the outer ones only say that a request failed.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

impl Answered {
    /// Whether the node did what it was asked.
    pub(crate) const fn is_yes(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    /// The answer, when the node did what it was asked to do: `about` names that in an error.
    pub(crate) fn done(self, about: &str) -> Result<Self, Failure> {
        if self.is_yes() {
            return Ok(self);
        }
        let problem: Value = self.value().unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or("no reason was given");
        let code = problem["code"].as_str();
        let failure = match (self.status, code) {
            (404, None) => Failure::no(format!("{about}: the node knows no such thing")),
            (_, Some(code)) => Failure::no(format!("{about}: {detail} ({code})")),
            (_, None) => Failure::no(format!("{about}: {detail} ({})", self.status)),
        };
        Err(match self.status {
            401 => failure.next("give a token: --token-file FILE, or CHANCERY_TOKEN"),
            403 => failure
                .next("use a token with the scope admin: chancery token new NAME --scope admin"),
            503 => failure.next("try again in a moment"),
            _ => failure,
        })
    }

    /// The body as a value.
    pub(crate) fn value<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Failure::no(format!(
                "the answer ({}) is not what a node says: {error}",
                self.status
            ))
            .next("is there a chancery node at that address?")
        })
    }

    /// The body as a text without an end of line.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end().to_owned()
    }
}
